"""What one version of a document has that another one has not."""

import asyncio
from collections.abc import Sequence

from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh_core.chunking.difference import ChangeKind, ChunkChange, diff_chunks
from corpusmesh_core.documents import Chunk, ChunkRole
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_ingest.convert import version_name
from corpusmesh_ingest.convert_chunks import MAX_SHOWN_CHARACTERS, chunk_id, place_of
from corpusmesh_ingest.handlers.chunk_access import ChunkReader
from corpusmesh_ingest.handlers.paging import make_page_token, page_size_of, read_page_number, within_page
from corpusmesh_ingest.handlers.version_access import VersionReader
from corpusmesh_ingest.names import parse_name

_KINDS = {
    ChangeKind.ADDED: pb.ChunkChange.KIND_ADDED,
    ChangeKind.REMOVED: pb.ChunkChange.KIND_REMOVED,
    ChangeKind.CHANGED: pb.ChunkChange.KIND_CHANGED,
    ChangeKind.MOVED: pb.ChunkChange.KIND_MOVED,
}


async def diff_versions(
    versions: VersionReader, chunks: ChunkReader, request: pb.DiffVersionsRequest
) -> pb.DiffVersionsResponse:
    """Compare two versions of a document.

    Args:
        versions: Versions that the caller may read.
        chunks: Their chunks.
        request: Which two, and which page.

    Returns:
        A page of the differences, and counts over all pages.

    Raises:
        InvalidArgumentError: VERSION_OF_ANOTHER_DOCUMENT if they are not of one document.
    """
    name = parse_name("version", request.name)
    base_name = parse_name("version", request.base_version, field="base_version")
    if (name.knowledge_base_id, name.identifier) != (base_name.knowledge_base_id, base_name.identifier):
        raise InvalidArgumentError(
            "VERSION_OF_ANOTHER_DOCUMENT", "only versions of one document can be compared", field="base_version"
        )
    size = page_size_of(request.page_size)
    listing = f"{request.name}/diff/{request.base_version}"
    start = read_page_number(listing, request.page_token)
    after_version, before_version = await versions.readable(name), await versions.readable(base_name)
    after, before = await chunks.chunks_of(after_version), await chunks.chunks_of(before_version)
    changes = await asyncio.to_thread(diff_chunks, before, after)
    counts = {kind: sum(change.kind is kind for change in changes) for kind in ChangeKind}
    different = [change for change in changes if change.kind is not ChangeKind.UNCHANGED]
    before_side, after_side = _Side(before_version, before), _Side(after_version, after)
    page = within_page(_to_wire(change, before_side, after_side) for change in different[start : start + size])
    following = start + len(page)
    return pb.DiffVersionsResponse(
        changes=page,
        next_page_token=make_page_token(listing, str(following)) if following < len(different) else "",
        added_count=counts[ChangeKind.ADDED],
        removed_count=counts[ChangeKind.REMOVED],
        changed_count=counts[ChangeKind.CHANGED],
        moved_count=counts[ChangeKind.MOVED],
        unchanged_count=counts[ChangeKind.UNCHANGED],
    )


class _Side:
    """One of two compared versions, its chunks by position."""

    def __init__(self, version: VersionRow, chunks: Sequence[Chunk]) -> None:
        self._version = version
        self._chunks = {chunk.position: chunk for chunk in chunks if chunk.role is not ChunkRole.PARENT}

    def to_wire(self, position: int | None) -> pb.ComparedChunk | None:
        if position is None:
            return None
        chunk = self._chunks[position]
        name = version_name(self._version)
        return pb.ComparedChunk(
            name=f"{name}/chunks/{chunk_id(chunk.role, chunk.position)}",
            text=chunk.text[:MAX_SHOWN_CHARACTERS],
            place=place_of(chunk, version=name, display_name=self._version.display_name),
        )


def _to_wire(change: ChunkChange, before: _Side, after: _Side) -> pb.ChunkChange:
    return pb.ChunkChange(
        kind=_KINDS[change.kind],
        before=before.to_wire(change.before),
        after=after.to_wire(change.after),
        similarity=change.similarity,
    )
