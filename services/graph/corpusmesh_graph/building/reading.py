"""The documents of a build as methods read them: their chunks, and who they are."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from corpusmesh_core.artefacts import embedded_chunks, title_of
from corpusmesh_core.documents import Chunk, ChunkRole
from corpusmesh_core.graphs.fingerprints import texts_digest
from corpusmesh_core.graphs.records import RecordPlace
from corpusmesh_core.graphs.values import GraphChunk
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_graph.building.scope import BuildScope
from corpusmesh_runtime.artefact_access import read_pieces


@dataclass(frozen=True, slots=True)
class GraphDocument:
    """A version whose subgraph is made.

    Attributes:
        place: Its place among those that are wanted.
        row: The version.
        chunks: Its chunks that are searched by their text, in order.
        texts: Digest of them.
    """

    place: int
    row: VersionRow
    chunks: tuple[GraphChunk, ...]
    texts: bytes

    def record_place(self, publisher: int) -> RecordPlace:
        """Tell what its records say of it.

        Args:
            publisher: Ordinal that publishes its subgraph.

        Returns:
            The document.
        """
        return RecordPlace(
            knowledge_base_id=self.row.knowledge_base_id,
            version=int(self.row.ordinal),
            publisher=publisher,
            document_id=self.row.document_id,
            version_number=self.row.version,
            display_name=self.row.display_name,
        )


async def read_documents(scope: BuildScope, places: Sequence[int]) -> list[GraphDocument]:
    """Read some of the versions that are wanted.

    Args:
        scope: The build's task.
        places: Their places.

    Returns:
        Those that are there; one that was deleted meanwhile is missing.

    Raises:
        FailedPreconditionError: ARTEFACT_GONE if what was made of a version is not there any more.
    """
    stores, context = scope.stores, scope.context
    place_of = {int(scope.draft.wanted.versions[place]): place for place in places}
    removed = await stores.builds.removed(context.claim, list(place_of))
    rows = [
        row
        for row in await stores.documents.versions_by_ordinal(context.claim.tenant_id, list(place_of))
        if row.ordinal not in removed
    ]
    pieces = await read_pieces(stores.objects, rows, timeout_seconds=context.remaining_seconds())
    return await asyncio.to_thread(
        lambda: [_document(place_of[int(row.ordinal)], row, pieces[row.ordinal][0]) for row in rows]
    )


def graph_chunks(row: VersionRow, chunks: Sequence[Chunk]) -> tuple[GraphChunk, ...]:
    """Give the chunks of a version that entities are looked for in: those that are searched by their text.

    Args:
        row: The version.
        chunks: All its chunks.

    Returns:
        Chunks in order.
    """
    title = title_of(row)
    return tuple(
        GraphChunk(
            position=chunk.position,
            text=chunk.text,
            title=title,
            heading_path=chunk.heading_path,
            token_count=chunk.token_count,
        )
        for chunk in embedded_chunks(chunks)
        if chunk.role is ChunkRole.TEXT
    )


def _document(place: int, row: VersionRow, chunks: Sequence[Chunk]) -> GraphDocument:
    found = graph_chunks(row, chunks)
    return GraphDocument(place, row, found, texts_digest(found))
