"""What the mesh asks of the store of people's edits to chunks (ADR-0008).

An edit belongs to a document and holds from one version on: the one that was made because of it. A version takes the
edits that were made, and not withdrawn, before it; so it comes out the same however often it is made.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from corpusmesh_core.tenancy.identity import Identity


class EditState(StrEnum):
    """What became of an edit in the newest version that was cut."""

    PENDING = "pending"
    """The version that it was made for is not cut yet."""
    PLACED = "placed"
    UNPLACED = "unplaced"
    """The chunk that it is about was not found again: it waits for a version that has it, or for its withdrawal."""
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class NewEdit:
    """An edit that a person makes.

    Attributes:
        anchor: What finds its chunk again, JSON values.
        change: What it changes, JSON values.
    """

    anchor: Mapping[str, object]
    change: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ChunkEditRow:
    """An edit as it is stored.

    Attributes:
        tenant_id: Tenant.
        knowledge_base_id: Its knowledge base.
        document_id: Its document.
        edit_id: Id, unique in its tenant, rising in its document in the order in which edits apply.
        version: Number of the version whose chunk its author saw.
        anchor: What finds its chunk again, JSON values.
        change: What it changes, JSON values.
        state: What became of it.
        created_by: User.
        create_time: UTC.
        update_time: UTC.
    """

    tenant_id: str
    knowledge_base_id: str
    document_id: str
    edit_id: str
    version: int
    anchor: Mapping[str, object]
    change: Mapping[str, object]
    state: EditState
    created_by: str
    create_time: datetime
    update_time: datetime


def edit_id_of(ordinal: int, place: int) -> str:
    """Name an edit by the version that is made because of it.

    Args:
        ordinal: Ordinal of that version.
        place: Place among the edits that are made together, from 0.

    Returns:
        `[0-9a-f-]{13}`; ids rise with ordinal and place.
    """
    return f"{ordinal:08x}-{place:04x}"


class ChunkEditStore(Protocol):
    """Edits; they are made and withdrawn with the version that shows it, see `RunStore.derive`."""

    async def edits_of(
        self, tenant_id: str, knowledge_base_id: str, document_id: str, *, ordinal: int
    ) -> Sequence[ChunkEditRow]:
        """Give the edits that a version takes, in the order in which they apply; for workers.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.
            document_id: Document.
            ordinal: The version.

        Returns:
            Edits; those that found no place before are among them.
        """
        ...

    async def note_placement(
        self, tenant_id: str, ordinal: int, placed: Collection[str], unplaced: Collection[str]
    ) -> None:
        """Note which edits a version has taken; what a newer version noted stays.

        Args:
            tenant_id: Tenant.
            ordinal: The version.
            placed: Ids of edits that found their chunk.
            unplaced: Ids of edits that did not.
        """
        ...

    async def list(
        self,
        identity: Identity,
        knowledge_base_id: str,
        document_id: str,
        states: Collection[EditState],
        after_key: str,
        limit: int,
    ) -> Sequence[ChunkEditRow]:
        """List the edits of a document by id; for callers who may write.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            document_id: Document.
            states: States to list; empty for all but WITHDRAWN.
            after_key: Id of the last edit of the page before.
            limit: Most edits.

        Returns:
            Edits.

        Raises:
            NotFoundError: If the document is unknown or forbidden.
        """
        ...
