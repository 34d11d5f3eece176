"""Documents: upload, read, change, delete, versions and originals."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

import grpc.aio
from google.protobuf.field_mask_pb2 import FieldMask

from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh.ingest.v1.document_service_pb2_grpc import DocumentServiceStub
from corpusmesh_client.calls import MAX_PAGE_SIZE, Caller, new_request_id
from corpusmesh_client.uploads import UploadItem, UploadResult, UploadStream
from corpusmesh_core.errors import InternalError, UnavailableError

_UPLOAD_ATTEMPTS = 3
_UPLOAD_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Original:
    """An original on its way.

    Attributes:
        display_name: File name; data only, never a path.
        media_type: Media type.
        size_bytes: Bytes of the whole original.
        pieces: Its bytes in order.
    """

    display_name: str
    media_type: str
    size_bytes: int
    pieces: AsyncIterator[bytes]


class DocumentCalls:
    """Calls on documents and versions."""

    def __init__(self, caller: Caller) -> None:
        """Create the calls.

        Args:
            caller: Makes them.
        """
        self._caller = caller
        self._stub = DocumentServiceStub(caller.channel)

    async def upload(
        self,
        parent: str,
        items: Sequence[UploadItem],
        *,
        interactive: bool = True,
        hold_publish: bool = False,
        request_id: str | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> UploadResult:
        """Upload documents in one stream and start the run that makes them searchable.

        Memory does not grow with the size of the documents. A stream that breaks is sent again under the same request
        identifier: what was accepted before is recognised.

        Args:
            parent: `knowledgeBases/{knowledge_base}`.
            items: The documents.
            interactive: Whether somebody waits: the work goes before bulk work.
            hold_publish: Whether to leave the versions ready but unpublished.
            request_id: UUID; None to have one made.
            on_progress: Told documents and bytes that were sent so far, now and then.

        Returns:
            The run, and what became of every item in its order.

        Raises:
            CorpusMeshError: If the upload as a whole was refused or the mesh cannot be reached.
        """
        settings = pb.UploadSettings(
            parent=parent,
            request_id=request_id or new_request_id(),
            interactive=interactive,
            hold_publish=hold_publish,
        )
        attempt = 1
        while True:
            try:
                return await self._upload_once(settings, items, on_progress)
            except UnavailableError:
                if attempt == _UPLOAD_ATTEMPTS:
                    raise
            await asyncio.sleep(_UPLOAD_PAUSE_SECONDS * attempt)
            attempt += 1

    async def _upload_once(
        self,
        settings: pb.UploadSettings,
        items: Sequence[UploadItem],
        on_progress: Callable[[int, int], None] | None,
    ) -> UploadResult:
        stream = UploadStream(settings, items)

        async def messages() -> AsyncIterator[pb.UploadDocumentsRequest]:
            async for message in stream.messages():
                yield message
                if on_progress is not None:
                    on_progress(stream.sent_count, stream.sent_bytes)

        try:
            response = await self._stub.UploadDocuments(
                messages(), timeout=self._caller.deadlines.transfer_seconds, metadata=self._caller.metadata()
            )
        except grpc.aio.AioRpcError as error:
            if stream.is_all_unreadable:
                return stream.result(pb.UploadDocumentsResponse())
            raise self._caller.translate(error) from error
        if on_progress is not None:
            on_progress(stream.sent_count, stream.sent_bytes)
        return stream.result(response)

    async def get(self, name: str) -> pb.Document:
        """Read a document.

        Args:
            name: `knowledgeBases/*/documents/*`.

        Returns:
            The document.
        """
        request = pb.GetDocumentRequest(name=name)
        return await self._caller.unary(
            self._stub.GetDocument, request, timeout_seconds=self._caller.deadlines.read_seconds
        )

    def list(self, parent: str, *, page_size: int = MAX_PAGE_SIZE) -> AsyncIterator[pb.Document]:
        """List the documents of a knowledge base that the caller may read, over all pages.

        Args:
            parent: `knowledgeBases/{knowledge_base}`.
            page_size: Entries read at once.

        Returns:
            The documents, by identifier.
        """
        return self._caller.pages(
            lambda token: self.list_page(parent, page_size=page_size, page_token=token),
            lambda page: page.documents,
        )

    async def list_page(self, parent: str, *, page_size: int = 0, page_token: str = "") -> pb.ListDocumentsResponse:
        """Read one page of documents, with their number over all pages.

        Args:
            parent: `knowledgeBases/{knowledge_base}`.
            page_size: Entries of the page; 0 for the mesh's default.
            page_token: `next_page_token` of the page before.

        Returns:
            The page.
        """
        request = pb.ListDocumentsRequest(parent=parent, page_size=page_size, page_token=page_token)
        return await self._caller.unary(
            self._stub.ListDocuments, request, timeout_seconds=self._caller.deadlines.read_seconds
        )

    async def update(
        self, document: pb.Document, *, paths: tuple[str, ...] = (), request_id: str | None = None
    ) -> pb.Document:
        """Change a document's title, metadata or access list.

        Args:
            document: Its name and the new values.
            paths: Fields to change, of `title`, `metadata`, `access`; empty for all that are set.
            request_id: UUID; None to have one made.

        Returns:
            The document as it is now.
        """
        request = pb.UpdateDocumentRequest(
            document=document,
            update_mask=FieldMask(paths=paths) if paths else None,
            request_id=request_id or new_request_id(),
        )
        return await self._caller.unary(
            self._stub.UpdateDocument, request, timeout_seconds=self._caller.deadlines.write_seconds
        )

    async def delete(self, name: str, *, request_id: str | None = None) -> str:
        """Delete a document; nothing of it is found from then on.

        Args:
            name: `knowledgeBases/*/documents/*`.
            request_id: UUID; None to have one made.

        Returns:
            The run that purges what it left.
        """
        request = pb.DeleteDocumentRequest(name=name, request_id=request_id or new_request_id())
        response = await self._caller.unary(
            self._stub.DeleteDocument, request, timeout_seconds=self._caller.deadlines.write_seconds
        )
        return response.run

    def list_versions(self, parent: str, *, page_size: int = MAX_PAGE_SIZE) -> AsyncIterator[pb.Version]:
        """List the versions of a document, newest first, over all pages.

        Args:
            parent: `knowledgeBases/*/documents/*`.
            page_size: Entries read at once.

        Returns:
            The versions.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListVersions,
                pb.ListVersionsRequest(parent=parent, page_size=page_size, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.versions,
        )

    async def publish(self, version: str, *, request_id: str | None = None) -> str:
        """Publish a version that is ready, in place of the published one; an earlier version is a rollback.

        Args:
            version: `knowledgeBases/*/documents/*/versions/*`.
            request_id: UUID; None to have one made.

        Returns:
            The snapshot that was made.
        """
        request = pb.PublishVersionRequest(name=version, request_id=request_id or new_request_id())
        response = await self._caller.unary(
            self._stub.PublishVersion, request, timeout_seconds=self._caller.deadlines.write_seconds
        )
        return response.snapshot

    async def open_original(self, version: str) -> Original:
        """Read the original of a version as it was uploaded, in pieces.

        Args:
            version: `knowledgeBases/*/documents/*/versions/*`.

        Returns:
            What it is, and its bytes, which are read as they are asked for.

        Raises:
            InternalError: If the stream is empty.
        """
        stream = self._caller.stream(
            self._stub.ReadOriginal,
            pb.ReadOriginalRequest(name=version),
            timeout_seconds=self._caller.deadlines.transfer_seconds,
        )
        first = await anext(stream, None)
        if first is None:
            raise InternalError("ORIGINAL_STREAM_EMPTY", "the mesh sent nothing of the original")
        head = first

        async def pieces() -> AsyncIterator[bytes]:
            try:
                yield head.data
                async for response in stream:
                    yield response.data
            finally:
                await stream.aclose()

        return Original(head.display_name, head.media_type, head.size_bytes, pieces())

    async def verify_purge(self, name: str) -> pb.VerifyPurgeResponse:
        """Count what is left of a deleted document in every store.

        Args:
            name: `knowledgeBases/*/documents/*`.

        Returns:
            The counts; all zero once its purge has ended.
        """
        request = pb.VerifyPurgeRequest(name=name)
        return await self._caller.unary(
            self._stub.VerifyPurge, request, timeout_seconds=self._caller.deadlines.write_seconds
        )
