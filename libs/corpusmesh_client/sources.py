"""Sources: the places that a knowledge base follows, and their syncs."""

from collections.abc import AsyncIterator

from google.protobuf.field_mask_pb2 import FieldMask

from corpusmesh.ingest.v1 import source_service_pb2 as pb
from corpusmesh.ingest.v1.source_service_pb2_grpc import SourceServiceStub
from corpusmesh_client.calls import MAX_PAGE_SIZE, Caller, new_request_id


class SourceCalls:
    """Calls on sources."""

    def __init__(self, caller: Caller) -> None:
        """Create the calls.

        Args:
            caller: Makes them.
        """
        self._caller = caller
        self._stub = SourceServiceStub(caller.channel)

    async def create(
        self, parent: str, source: pb.Source, *, source_id: str = "", request_id: str | None = None
    ) -> pb.Source:
        """Create a source, owned by the caller.

        Args:
            parent: `knowledgeBases/{knowledge_base}`.
            source: What it reads and how.
            source_id: Its identifier; "" to have one made.
            request_id: UUID; None to have one made.

        Returns:
            The source.
        """
        request = pb.CreateSourceRequest(
            parent=parent, source=source, source_id=source_id, request_id=request_id or new_request_id()
        )
        return await self._caller.unary(
            self._stub.CreateSource, request, timeout_seconds=self._caller.deadlines.write_seconds
        )

    async def get(self, name: str) -> pb.Source:
        """Read a source.

        Args:
            name: `knowledgeBases/*/sources/*`.

        Returns:
            The source.
        """
        return await self._caller.unary(
            self._stub.GetSource, pb.GetSourceRequest(name=name), timeout_seconds=self._caller.deadlines.read_seconds
        )

    def list(self, parent: str, *, page_size: int = MAX_PAGE_SIZE) -> AsyncIterator[pb.Source]:
        """List the sources of a knowledge base, over all pages.

        Args:
            parent: `knowledgeBases/{knowledge_base}`.
            page_size: Entries read at once.

        Returns:
            The sources, by identifier.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListSources,
                pb.ListSourcesRequest(parent=parent, page_size=page_size, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.sources,
        )

    async def update(
        self, source: pb.Source, *, paths: tuple[str, ...] = (), request_id: str | None = None
    ) -> pb.Source:
        """Change a source.

        Args:
            source: Its name and the new values.
            paths: Fields to change; empty for all that are set.
            request_id: UUID; None to have one made.

        Returns:
            The source as it is now.
        """
        request = pb.UpdateSourceRequest(
            source=source,
            update_mask=FieldMask(paths=paths) if paths else None,
            request_id=request_id or new_request_id(),
        )
        return await self._caller.unary(
            self._stub.UpdateSource, request, timeout_seconds=self._caller.deadlines.write_seconds
        )

    async def delete(
        self, name: str, *, delete_documents: bool, request_id: str | None = None
    ) -> pb.DeleteSourceResponse:
        """Delete a source.

        Args:
            name: `knowledgeBases/*/sources/*`.
            delete_documents: Whether its documents are deleted too; otherwise they stay.
            request_id: UUID; None to have one made.

        Returns:
            The runs that purge its documents.
        """
        choice = pb.DeleteSourceRequest.DOCUMENTS_DELETE if delete_documents else pb.DeleteSourceRequest.DOCUMENTS_KEEP
        request = pb.DeleteSourceRequest(name=name, documents=choice, request_id=request_id or new_request_id())
        return await self._caller.unary(
            self._stub.DeleteSource, request, timeout_seconds=self._caller.deadlines.write_seconds
        )

    async def sync(
        self, name: str, *, allow_mass_delete: bool = False, request_id: str | None = None
    ) -> pb.SyncSourceResponse:
        """Start the run that brings the knowledge base up to date with a source.

        Args:
            name: `knowledgeBases/*/sources/*`.
            allow_mass_delete: Whether much may go at once.
            request_id: UUID; None to have one made.

        Returns:
            The run, and whether it goes on already.
        """
        request = pb.SyncSourceRequest(
            name=name, allow_mass_delete=allow_mass_delete, request_id=request_id or new_request_id()
        )
        return await self._caller.unary(
            self._stub.SyncSource, request, timeout_seconds=self._caller.deadlines.write_seconds
        )

    def list_items(self, parent: str, *, page_size: int = MAX_PAGE_SIZE) -> AsyncIterator[pb.SourceItem]:
        """List what is known of a source's documents, over all pages.

        Args:
            parent: `knowledgeBases/*/sources/*`.
            page_size: Entries read at once.

        Returns:
            The items, by key.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListSourceItems,
                pb.ListSourceItemsRequest(parent=parent, page_size=page_size, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.items,
        )
