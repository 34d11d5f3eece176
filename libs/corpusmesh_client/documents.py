"""Documents: upload, read, change, delete, versions and originals."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import grpc.aio
from google.protobuf.field_mask_pb2 import FieldMask

from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh_client.calls import MAX_PAGE_SIZE, new_request_id
from corpusmesh_client.uploads import UploadItem, UploadResult, UploadStream
from corpusmesh_client.versions import VersionCalls
from corpusmesh_core.errors import UnavailableError

_UPLOAD_ATTEMPTS = 3
_UPLOAD_PAUSE_SECONDS = 1.0


class DocumentCalls(VersionCalls):
    """Calls on documents and versions."""

    async def upload(
        self,
        parent: str,
        items: Sequence[UploadItem],
        *,
        interactive: bool = True,
        hold_publish: bool = False,
        duplicates: "pb.Duplicates.ValueType" = pb.DUPLICATES_UNSPECIFIED,
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
            duplicates: What to do with bytes and names that are there already.
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
            duplicates=duplicates,
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

    def list(
        self, parent: str, *, display_name_prefix: str = "", page_size: int = MAX_PAGE_SIZE
    ) -> AsyncIterator[pb.Document]:
        """List the documents of a knowledge base that the caller may read, over all pages.

        Args:
            parent: `knowledgeBases/{knowledge_base}`.
            display_name_prefix: Beginning of their display names; a folder ends with "/".
            page_size: Entries read at once.

        Returns:
            The documents, by identifier.
        """
        return self._caller.pages(
            lambda token: self.list_page(
                parent, display_name_prefix=display_name_prefix, page_size=page_size, page_token=token
            ),
            lambda page: page.documents,
        )

    async def list_page(
        self, parent: str, *, display_name_prefix: str = "", page_size: int = 0, page_token: str = ""
    ) -> pb.ListDocumentsResponse:
        """Read one page of documents, with their number over all pages.

        Args:
            parent: `knowledgeBases/{knowledge_base}`.
            display_name_prefix: Beginning of their display names; a folder ends with "/".
            page_size: Entries of the page; 0 for the mesh's default.
            page_token: `next_page_token` of the page before.

        Returns:
            The page.
        """
        request = pb.ListDocumentsRequest(
            parent=parent, display_name_prefix=display_name_prefix, page_size=page_size, page_token=page_token
        )
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
