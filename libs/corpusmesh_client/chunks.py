"""Chunks of versions, previews, and what people change in chunks."""

from collections.abc import AsyncIterator, Sequence

from google.protobuf.field_mask_pb2 import FieldMask

from corpusmesh.ingest.v1 import chunk_service_pb2 as pb
from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.ingest.v1.chunk_service_pb2_grpc import ChunkServiceStub
from corpusmesh_client.calls import MAX_PAGE_SIZE, Caller, new_request_id


class ChunkCalls:
    """Calls on chunks and their edits."""

    def __init__(self, caller: Caller) -> None:
        """Create the calls.

        Args:
            caller: Makes them.
        """
        self._caller = caller
        self._stub = ChunkServiceStub(caller.channel)

    def list(
        self,
        version: str,
        *,
        role: "pb.Chunk.Role.ValueType" = pb.Chunk.ROLE_UNSPECIFIED,
        page_size: int = MAX_PAGE_SIZE,
    ) -> AsyncIterator[pb.Chunk]:
        """List the chunks of a version, over all pages.

        Args:
            version: `knowledgeBases/*/documents/*/versions/*`.
            role: What chunks are for; not set for all.
            page_size: Entries read at once.

        Returns:
            The chunks, in reading order.
        """
        return self._caller.pages(
            lambda token: self.list_page(version, role=role, page_size=page_size, page_token=token),
            lambda page: page.chunks,
        )

    async def list_page(
        self,
        version: str,
        *,
        role: "pb.Chunk.Role.ValueType" = pb.Chunk.ROLE_UNSPECIFIED,
        page_size: int = 0,
        page_token: str = "",
    ) -> pb.ListChunksResponse:
        """Read one page of chunks, with their number over all pages.

        Args:
            version: `knowledgeBases/*/documents/*/versions/*`.
            role: What chunks are for; not set for all.
            page_size: Entries of the page; 0 for the mesh's default.
            page_token: `next_page_token` of the page before.

        Returns:
            The page.
        """
        request = pb.ListChunksRequest(parent=version, role=role, page_size=page_size, page_token=page_token)
        return await self._caller.unary(
            self._stub.ListChunks, request, timeout_seconds=self._caller.deadlines.read_seconds
        )

    async def get(self, name: str) -> pb.Chunk:
        """Read a chunk.

        Args:
            name: `knowledgeBases/*/documents/*/versions/*/chunks/*`.

        Returns:
            The chunk.
        """
        return await self._caller.unary(
            self._stub.GetChunk, pb.GetChunkRequest(name=name), timeout_seconds=self._caller.deadlines.read_seconds
        )

    async def preview(
        self,
        knowledge_base: str,
        *,
        version: str = "",
        content: tuple[str, bytes] | None = None,
        settings: knowledge_base_pb.KnowledgeBase | None = None,
        password: str = "",
        page_size: int = 0,
    ) -> pb.PreviewChunksResponse:
        """Cut a document and look at the chunks; nothing is stored.

        Args:
            knowledge_base: `knowledgeBases/{knowledge_base}`.
            version: A version of it to cut; "" if `content` is given.
            content: File name and bytes, at most 3 MiB; None if `version` is given.
            settings: How to read and cut it (`chunk_settings`, `parse_settings`); None for as it is.
            password: What opens it.
            page_size: Chunks to show; 0 for the mesh's default.

        Returns:
            The first chunks, and their number.
        """
        request = pb.PreviewChunksRequest(parent=knowledge_base, password=password, page_size=page_size)
        if content is not None:
            request.content.display_name, request.content.data = content
        else:
            request.version = version
        if settings is not None and settings.HasField("chunk_settings"):
            request.chunk_settings.CopyFrom(settings.chunk_settings)
        if settings is not None and settings.HasField("parse_settings"):
            request.parse_settings.CopyFrom(settings.parse_settings)
        return await self._caller.unary(
            self._stub.PreviewChunks, request, timeout_seconds=self._caller.deadlines.transfer_seconds
        )

    async def create(
        self, version: str, chunk: pb.Chunk, *, after: str = "", request_id: str | None = None
    ) -> pb.StartedEdit:
        """Add a chunk, in a new version of the document.

        Args:
            version: `knowledgeBases/*/documents/*/versions/*`.
            chunk: Its text, keywords, questions and tags.
            after: Chunk that it follows; "" for before the first one.
            request_id: UUID; None to have one made.

        Returns:
            Run, version and edit.
        """
        request = pb.CreateChunkRequest(
            parent=version, chunk=chunk, after=after, request_id=request_id or new_request_id()
        )
        response = await self._caller.unary(
            self._stub.CreateChunk, request, timeout_seconds=self._caller.deadlines.write_seconds
        )
        return response.started

    async def update(
        self, chunk: pb.Chunk, *, paths: Sequence[str] = (), request_id: str | None = None
    ) -> pb.StartedEdit:
        """Change a chunk, in a new version of the document.

        Args:
            chunk: Its name and the new values.
            paths: Fields to change, of `text`, `keywords`, `questions`, `tags`, `enabled`; empty for all that are set.
            request_id: UUID; None to have one made.

        Returns:
            Run, version and edit.
        """
        request = pb.UpdateChunkRequest(
            chunk=chunk,
            update_mask=FieldMask(paths=paths) if paths else None,
            request_id=request_id or new_request_id(),
        )
        response = await self._caller.unary(
            self._stub.UpdateChunk, request, timeout_seconds=self._caller.deadlines.write_seconds
        )
        return response.started

    async def delete(self, name: str, *, request_id: str | None = None) -> pb.StartedEdit:
        """Leave a chunk out, in a new version of the document.

        Args:
            name: `knowledgeBases/*/documents/*/versions/*/chunks/*`.
            request_id: UUID; None to have one made.

        Returns:
            Run, version and edit.
        """
        request = pb.DeleteChunkRequest(name=name, request_id=request_id or new_request_id())
        response = await self._caller.unary(
            self._stub.DeleteChunk, request, timeout_seconds=self._caller.deadlines.write_seconds
        )
        return response.started

    async def batch_edit(
        self, version: str, edits: Sequence[pb.ChunkEditRequest], *, request_id: str | None = None
    ) -> pb.StartedEdit:
        """Add, change and leave out chunks of a version, in one new version of the document.

        Args:
            version: `knowledgeBases/*/documents/*/versions/*`.
            edits: 1 to 100.
            request_id: UUID; None to have one made.

        Returns:
            Run, version and edits in their order.
        """
        request = pb.BatchEditChunksRequest(parent=version, edits=edits, request_id=request_id or new_request_id())
        response = await self._caller.unary(
            self._stub.BatchEditChunks, request, timeout_seconds=self._caller.deadlines.write_seconds
        )
        return response.started

    def list_edits(
        self,
        document: str,
        *,
        state: "pb.ChunkEdit.State.ValueType" = pb.ChunkEdit.STATE_UNSPECIFIED,
        page_size: int = MAX_PAGE_SIZE,
    ) -> AsyncIterator[pb.ChunkEdit]:
        """List what people changed in the chunks of a document, over all pages.

        Args:
            document: `knowledgeBases/*/documents/*`.
            state: State of edits; not set for all that were not withdrawn.
            page_size: Entries read at once.

        Returns:
            The edits, in the order in which they apply.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListChunkEdits,
                pb.ListChunkEditsRequest(parent=document, state=state, page_size=page_size, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.edits,
        )

    async def withdraw(self, edit: str, *, request_id: str | None = None) -> pb.StartedEdit:
        """Withdraw an edit, in a new version of the document.

        Args:
            edit: `knowledgeBases/*/documents/*/chunkEdits/*`.
            request_id: UUID; None to have one made.

        Returns:
            Run and version.
        """
        request = pb.DeleteChunkEditRequest(name=edit, request_id=request_id or new_request_id())
        response = await self._caller.unary(
            self._stub.DeleteChunkEdit, request, timeout_seconds=self._caller.deadlines.write_seconds
        )
        return response.started
