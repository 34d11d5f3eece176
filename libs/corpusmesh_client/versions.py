"""Versions of documents: what is different between them, new ones from old ones, and what they hold."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.ingest.v1.document_service_pb2_grpc import DocumentServiceStub
from corpusmesh_client.calls import MAX_PAGE_SIZE, Caller, new_request_id
from corpusmesh_core.errors import InternalError


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


class VersionCalls:
    """Calls on versions; a part of `DocumentCalls`."""

    def __init__(self, caller: Caller) -> None:
        """Create the calls.

        Args:
            caller: Makes them.
        """
        self._caller = caller
        self._stub = DocumentServiceStub(caller.channel)

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

    async def diff_page(
        self, version: str, base_version: str, *, page_size: int = 0, page_token: str = ""
    ) -> pb.DiffVersionsResponse:
        """Read one page of what is different between two versions, with the counts over all pages.

        Args:
            version: `knowledgeBases/*/documents/*/versions/*`.
            base_version: Version of the same document to compare it with.
            page_size: Entries of the page; 0 for the mesh's default.
            page_token: `next_page_token` of the page before.

        Returns:
            The page.
        """
        request = pb.DiffVersionsRequest(
            name=version, base_version=base_version, page_size=page_size, page_token=page_token
        )
        return await self._caller.unary(
            self._stub.DiffVersions, request, timeout_seconds=self._caller.deadlines.write_seconds
        )

    async def reprocess(
        self,
        document: str,
        *,
        version: str = "",
        settings: knowledge_base_pb.KnowledgeBase | None = None,
        follow_knowledge_base: bool = False,
        password: str = "",
        hold_publish: bool = False,
        request_id: str | None = None,
    ) -> pb.ReprocessDocumentResponse:
        """Make a new version of a document from an original that it has.

        Args:
            document: `knowledgeBases/*/documents/*`.
            version: Version whose original is taken; "" for the published one.
            settings: How to read, cut and enrich it from now on (`chunk_settings`, `parse_settings`,
                `enrichment_settings`); None for as before.
            follow_knowledge_base: Whether settings that are not given go back to those of the knowledge base.
            password: What opens the original.
            hold_publish: Whether to leave the version ready but unpublished.
            request_id: UUID; None to have one made.

        Returns:
            Run and version.
        """
        request = pb.ReprocessDocumentRequest(
            name=document,
            version=version,
            follow_knowledge_base=follow_knowledge_base,
            password=password,
            hold_publish=hold_publish,
            request_id=request_id or new_request_id(),
        )
        _put_settings(request, settings)
        return await self._caller.unary(
            self._stub.ReprocessDocument, request, timeout_seconds=self._caller.deadlines.write_seconds
        )

    async def reprocess_all(
        self,
        knowledge_base: str,
        *,
        display_name_prefix: str = "",
        settings: knowledge_base_pb.KnowledgeBase | None = None,
        follow_knowledge_base: bool = False,
        hold_publish: bool = False,
    ) -> tuple[list[str], int]:
        """Make a new version of every document of a knowledge base.

        Args:
            knowledge_base: `knowledgeBases/{knowledge_base}`.
            display_name_prefix: Beginning of the display names of those to take; a folder ends with "/".
            settings: How to read, cut and enrich them from now on; None for as before.
            follow_knowledge_base: Whether settings that are not given go back to those of the knowledge base.
            hold_publish: Whether to leave the versions ready but unpublished.

        Returns:
            The runs, and how many documents they cover.
        """
        runs: list[str] = []
        count, token = 0, ""
        while True:
            request = pb.ReprocessKnowledgeBaseRequest(
                name=knowledge_base,
                display_name_prefix=display_name_prefix,
                follow_knowledge_base=follow_knowledge_base,
                hold_publish=hold_publish,
                request_id=new_request_id(),
                page_token=token,
            )
            _put_settings(request, settings)
            response = await self._caller.unary(
                self._stub.ReprocessKnowledgeBase, request, timeout_seconds=self._caller.deadlines.transfer_seconds
            )
            runs.extend([response.run] if response.run else [])
            count, token = count + response.document_count, response.next_page_token
            if not token:
                return runs, count

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

    async def read_picture(self, name: str) -> tuple[str, bytes]:
        """Read a figure of a version, or one of its pages as an image.

        Args:
            name: `knowledgeBases/*/documents/*/versions/*/pictures/*`, as hits and chunks name it.

        Returns:
            Media type and bytes.
        """
        media_type, content = "", bytearray()
        async for response in self._caller.stream(
            self._stub.ReadPicture,
            pb.ReadPictureRequest(name=name),
            timeout_seconds=self._caller.deadlines.transfer_seconds,
        ):
            media_type = media_type or response.media_type
            content += response.data
        return media_type, bytes(content)


def _put_settings(
    request: pb.ReprocessDocumentRequest | pb.ReprocessKnowledgeBaseRequest,
    settings: knowledge_base_pb.KnowledgeBase | None,
) -> None:
    if settings is None:
        return
    if settings.HasField("chunk_settings"):
        request.chunk_settings.CopyFrom(settings.chunk_settings)
    if settings.HasField("parse_settings"):
        request.parse_settings.CopyFrom(settings.parse_settings)
    if settings.HasField("enrichment_settings"):
        request.enrichment_settings.CopyFrom(settings.enrichment_settings)
