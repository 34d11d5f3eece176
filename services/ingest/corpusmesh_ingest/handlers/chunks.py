"""Handlers of `ChunkService`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from corpusmesh.ingest.v1 import chunk_service_pb2 as pb
from corpusmesh.ingest.v1.chunk_service_pb2_grpc import ChunkServiceServicer
from corpusmesh_core.ports.metadata import AuditLog
from corpusmesh_ingest.convert_chunks import chunk_to_wire, find_chunk, role_of
from corpusmesh_ingest.handlers.chunk_access import ChunkReader
from corpusmesh_ingest.handlers.editing import Ask, ChunkEditor, batch, change, creation, deletion
from corpusmesh_ingest.handlers.paging import make_page_token, page_size_of, read_page_number, within_page
from corpusmesh_ingest.handlers.previews import Previewer
from corpusmesh_ingest.handlers.version_access import VersionReader
from corpusmesh_ingest.names import ResourceName, parse_name
from corpusmesh_runtime.context import require_call


@dataclass(frozen=True, slots=True)
class ChunkHandlerDependencies:
    """What the handlers stand on."""

    versions: VersionReader
    chunks: ChunkReader
    previewer: Previewer
    editor: ChunkEditor
    audit: AuditLog


class ChunkHandlers(ChunkServiceServicer):
    """Chunks and what people change in them."""

    def __init__(self, dependencies: ChunkHandlerDependencies) -> None:
        """Create the handlers.

        Args:
            dependencies: What they stand on.
        """
        self._stores = dependencies

    async def ListChunks(self, request: pb.ListChunksRequest, context: Any) -> pb.ListChunksResponse:
        """See the contract."""
        name = parse_name("version", request.parent, field="parent")
        size = page_size_of(request.page_size)
        role = role_of(request.role)
        listing = f"{request.parent}/chunks/{role or ''}"
        start = read_page_number(listing, request.page_token)
        version = await self._stores.versions.readable(name)
        chunks = await self._stores.chunks.chunks_of(version)
        wanted = [chunk for chunk in chunks if role is None or chunk.role is role]
        page = within_page(chunk_to_wire(chunk, version) for chunk in wanted[start : start + size])
        following = start + len(page)
        return pb.ListChunksResponse(
            chunks=page,
            next_page_token=make_page_token(listing, str(following)) if following < len(wanted) else "",
            total_size=len(wanted),
        )

    async def GetChunk(self, request: pb.GetChunkRequest, context: Any) -> pb.Chunk:
        """See the contract."""
        name = parse_name("chunk", request.name)
        version = await self._stores.versions.readable(name)
        return chunk_to_wire(find_chunk(await self._stores.chunks.chunks_of(version), name.part), version)

    async def CreateChunk(self, request: pb.CreateChunkRequest, context: Any) -> pb.CreateChunkResponse:
        """See the contract."""
        name = parse_name("version", request.parent, field="parent")
        ask = creation(request, request.parent, field="")
        return pb.CreateChunkResponse(started=await self._edit(name, [ask], request.request_id))

    async def UpdateChunk(self, request: pb.UpdateChunkRequest, context: Any) -> pb.UpdateChunkResponse:
        """See the contract."""
        name = parse_name("chunk", request.chunk.name, field="chunk.name")
        ask = change(request, request.chunk.name.rsplit("/chunks/", 1)[0], field="")
        return pb.UpdateChunkResponse(started=await self._edit(name, [ask], request.request_id))

    async def DeleteChunk(self, request: pb.DeleteChunkRequest, context: Any) -> pb.DeleteChunkResponse:
        """See the contract."""
        name = parse_name("chunk", request.name)
        ask = deletion(request, request.name.rsplit("/chunks/", 1)[0], field="")
        return pb.DeleteChunkResponse(started=await self._edit(name, [ask], request.request_id))

    async def BatchEditChunks(self, request: pb.BatchEditChunksRequest, context: Any) -> pb.BatchEditChunksResponse:
        """See the contract."""
        name = parse_name("version", request.parent, field="parent")
        return pb.BatchEditChunksResponse(started=await self._edit(name, batch(request), request.request_id))

    async def ListChunkEdits(self, request: pb.ListChunkEditsRequest, context: Any) -> pb.ListChunkEditsResponse:
        """See the contract."""
        return await self._stores.editor.list(request)

    async def DeleteChunkEdit(self, request: pb.DeleteChunkEditRequest, context: Any) -> pb.DeleteChunkEditResponse:
        """See the contract."""
        started = await self._stores.editor.withdraw(request)
        await self._audit("chunk_edit.withdraw", request.name)
        return pb.DeleteChunkEditResponse(started=started)

    async def _edit(self, name: ResourceName, asks: Sequence[Ask], request_id: str) -> pb.StartedEdit:
        started = await self._stores.editor.edit(name, asks, request_id)
        await self._audit("chunk.edit", started.version)
        return started

    async def _audit(self, action: str, resource: str) -> None:
        call = require_call()
        await self._stores.audit.append(call.identity, action, resource, "ok", call.request_id, {})

    async def PreviewChunks(self, request: pb.PreviewChunksRequest, context: Any) -> pb.PreviewChunksResponse:
        """See the contract."""
        return await self._stores.previewer.preview(request)
