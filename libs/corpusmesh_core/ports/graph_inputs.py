"""Ports of what people give for graphs: corrections of a graph, and triples of a document (ADR-0014).

What a correction and a triple are, graphs say (`corpusmesh_core.graphs`): a store keeps either whole.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from corpusmesh_core.tenancy import Identity

Correction = TypeVar("Correction")
Triple = TypeVar("Triple")


@dataclass(frozen=True, slots=True)
class CorrectionRow(Generic[Correction]):
    """A correction as it is stored.

    Attributes:
        correction_id: Id.
        sequence: Its place in the order in which corrections are applied, from 1, with gaps.
        correction: What is corrected.
        user_id: Who made it.
        create_time: When, UTC.
    """

    correction_id: str
    sequence: int
    correction: Correction
    user_id: str
    create_time: datetime


@dataclass(frozen=True, slots=True)
class TriplesRow(Generic[Triple]):
    """The triples of a document as they are stored.

    Attributes:
        document_id: The document.
        triples: The triples, in the order in which they were given.
        update_time: When they were given, UTC.
    """

    document_id: str
    triples: tuple[Triple, ...]
    update_time: datetime


class CorrectionStore(Protocol[Correction]):
    """Corrections of graphs."""

    async def add_correction(
        self, identity: Identity, knowledge_base_id: str, correction: Correction
    ) -> CorrectionRow[Correction]:
        """Add a correction after all others.

        Raises:
            NotFoundError: If the caller may not write to the knowledge base.
            FailedPreconditionError: GRAPH_CORRECTION_LIMIT if it has as many as it may have.
        """
        ...

    async def list_corrections(
        self, identity: Identity, knowledge_base_id: str, *, after_sequence: int, limit: int
    ) -> Sequence[CorrectionRow[Correction]]:
        """List corrections in order, those after a place; for callers who may write.

        Raises:
            NotFoundError: If the caller may not write to the knowledge base.
        """
        ...

    async def get_correction(
        self, identity: Identity, knowledge_base_id: str, correction_id: str
    ) -> CorrectionRow[Correction]:
        """Read a correction; for callers who may write.

        Raises:
            NotFoundError: If the caller may not write to the knowledge base, or GRAPH_CORRECTION_NOT_FOUND.
        """
        ...

    async def delete_correction(self, identity: Identity, knowledge_base_id: str, correction_id: str) -> None:
        """Take a correction back.

        Raises:
            NotFoundError: If the caller may not write to the knowledge base, or GRAPH_CORRECTION_NOT_FOUND.
        """
        ...

    async def corrections_of(self, tenant_id: str, knowledge_base_id: str) -> Sequence[Correction]:
        """Read all corrections in order; for a worker."""
        ...


class TripleStore(Protocol[Triple]):
    """Triples that users give for documents."""

    async def put_triples(
        self, identity: Identity, knowledge_base_id: str, document_id: str, triples: Sequence[Triple]
    ) -> TriplesRow[Triple]:
        """Replace the triples of a document.

        Raises:
            NotFoundError: If the caller may not write to the knowledge base, or may not see the document.
        """
        ...

    async def get_triples(
        self, identity: Identity, knowledge_base_id: str, document_id: str
    ) -> TriplesRow[Triple] | None:
        """Read the triples of a document; None where it has none.

        Raises:
            NotFoundError: If the caller may not read the knowledge base, or may not see the document.
        """
        ...

    async def delete_triples(self, identity: Identity, knowledge_base_id: str, document_id: str) -> bool:
        """Take the triples of a document back.

        Returns:
            Whether it had any.

        Raises:
            NotFoundError: If the caller may not write to the knowledge base, or may not see the document.
        """
        ...

    async def triples_of(
        self, tenant_id: str, knowledge_base_id: str, document_ids: Collection[str]
    ) -> Mapping[str, tuple[Triple, ...]]:
        """Read the triples of documents; for a worker. Those without any are missing."""
        ...

    async def triple_digests(self, tenant_id: str, knowledge_base_id: str) -> Mapping[str, str]:
        """Tell which documents have triples, and which: equal triples in equal order, equal digest; for a worker."""
        ...
