"""Knowledge bases and their snapshots."""

from collections.abc import AsyncIterator

from google.protobuf.field_mask_pb2 import FieldMask

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as pb
from corpusmesh.ingest.v1.knowledge_base_service_pb2_grpc import KnowledgeBaseServiceStub
from corpusmesh_client.calls import MAX_PAGE_SIZE, Caller, new_request_id
from corpusmesh_client.names import is_identifier, resource_name
from corpusmesh_core.errors import FailedPreconditionError, NotFoundError

COLLECTION = "knowledgeBases"


class KnowledgeBaseCalls:
    """Calls on knowledge bases."""

    def __init__(self, caller: Caller) -> None:
        """Create the calls.

        Args:
            caller: Makes them.
        """
        self._caller = caller
        self._stub = KnowledgeBaseServiceStub(caller.channel)

    async def get(self, name: str) -> pb.KnowledgeBase:
        """Read a knowledge base.

        Args:
            name: `knowledgeBases/{knowledge_base}`, or the identifier alone.

        Returns:
            The knowledge base.
        """
        request = pb.GetKnowledgeBaseRequest(name=resource_name(COLLECTION, name))
        return await self._caller.unary(
            self._stub.GetKnowledgeBase, request, timeout_seconds=self._caller.deadlines.read_seconds
        )

    def list(self, *, page_size: int = MAX_PAGE_SIZE) -> AsyncIterator[pb.KnowledgeBase]:
        """List the knowledge bases that the caller may see, over all pages.

        Args:
            page_size: Entries read at once.

        Returns:
            The knowledge bases, by name.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListKnowledgeBases,
                pb.ListKnowledgeBasesRequest(page_size=page_size, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.knowledge_bases,
        )

    async def resolve(self, name_or_id: str) -> pb.KnowledgeBase:
        """Find a knowledge base by name or identifier, else by the name shown to people.

        Args:
            name_or_id: `knowledgeBases/{knowledge_base}`, its identifier, or its display name.

        Returns:
            The knowledge base.

        Raises:
            NotFoundError: If the caller sees none of that name.
            FailedPreconditionError: If several have that display name.
        """
        if is_identifier(name_or_id.removeprefix(f"{COLLECTION}/")):
            try:
                return await self.get(name_or_id)
            except NotFoundError:
                pass  # it may still be a display name
        found = [entry async for entry in self.list() if entry.display_name == name_or_id]
        if not found:
            raise NotFoundError(
                "KNOWLEDGE_BASE_NOT_FOUND",
                f"there is no knowledge base {name_or_id!r} that you may see; `corpusmesh kb list` shows them",
                knowledge_base=name_or_id,
            )
        if len(found) > 1:
            names = ", ".join(sorted(entry.name for entry in found))
            raise FailedPreconditionError(
                "KNOWLEDGE_BASE_AMBIGUOUS",
                f"several knowledge bases are called {name_or_id!r}: give one of {names}",
                knowledge_base=name_or_id,
                names=names,
            )
        return found[0]

    async def create(
        self, knowledge_base: pb.KnowledgeBase, *, knowledge_base_id: str = "", request_id: str | None = None
    ) -> pb.KnowledgeBase:
        """Create an empty knowledge base, owned by the caller.

        Args:
            knowledge_base: Display name, description, permission and settings.
            knowledge_base_id: Its identifier; "" to have one made from the display name.
            request_id: UUID; None to have one made.

        Returns:
            The knowledge base.
        """
        request = pb.CreateKnowledgeBaseRequest(
            knowledge_base=knowledge_base,
            knowledge_base_id=knowledge_base_id,
            request_id=request_id or new_request_id(),
        )
        return await self._caller.unary(
            self._stub.CreateKnowledgeBase, request, timeout_seconds=self._caller.deadlines.write_seconds
        )

    async def update(
        self, knowledge_base: pb.KnowledgeBase, *, paths: tuple[str, ...] = (), request_id: str | None = None
    ) -> pb.KnowledgeBase:
        """Change a knowledge base.

        Args:
            knowledge_base: Its name and the new values.
            paths: Fields to change; empty for all that are set.
            request_id: UUID; None to have one made.

        Returns:
            The knowledge base as it is now.
        """
        request = pb.UpdateKnowledgeBaseRequest(
            knowledge_base=knowledge_base,
            update_mask=FieldMask(paths=paths) if paths else None,
            request_id=request_id or new_request_id(),
        )
        return await self._caller.unary(
            self._stub.UpdateKnowledgeBase, request, timeout_seconds=self._caller.deadlines.write_seconds
        )

    async def delete(self, name: str, *, request_id: str | None = None) -> str:
        """Delete a knowledge base; nothing of it is found from then on.

        Args:
            name: `knowledgeBases/{knowledge_base}`, or the identifier alone.
            request_id: UUID; None to have one made.

        Returns:
            The run that purges what it held.
        """
        request = pb.DeleteKnowledgeBaseRequest(
            name=resource_name(COLLECTION, name), request_id=request_id or new_request_id()
        )
        response = await self._caller.unary(
            self._stub.DeleteKnowledgeBase, request, timeout_seconds=self._caller.deadlines.write_seconds
        )
        return response.run

    def list_snapshots(self, parent: str, *, page_size: int = MAX_PAGE_SIZE) -> AsyncIterator[pb.Snapshot]:
        """List the snapshots of a knowledge base, newest first, over all pages.

        Args:
            parent: `knowledgeBases/{knowledge_base}`.
            page_size: Entries read at once.

        Returns:
            The snapshots.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListSnapshots,
                pb.ListSnapshotsRequest(parent=parent, page_size=page_size, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.snapshots,
        )

    async def rollback(self, name: str, snapshot: str, *, request_id: str | None = None) -> pb.Snapshot:
        """Publish an earlier snapshot again, without what has been deleted since.

        Args:
            name: `knowledgeBases/{knowledge_base}`.
            snapshot: Snapshot to return to, `knowledgeBases/*/snapshots/*`.
            request_id: UUID; None to have one made.

        Returns:
            The new current snapshot.
        """
        request = pb.RollbackKnowledgeBaseRequest(
            name=name, snapshot=snapshot, request_id=request_id or new_request_id()
        )
        response = await self._caller.unary(
            self._stub.RollbackKnowledgeBase, request, timeout_seconds=self._caller.deadlines.write_seconds
        )
        return response.snapshot
