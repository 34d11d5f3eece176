"""The ledger: what the caller has searched, to be looked at and run again."""

from collections.abc import AsyncIterator

from corpusmesh.retrieve.v1 import ledger_service_pb2 as pb
from corpusmesh.retrieve.v1.ledger_service_pb2_grpc import LedgerServiceStub
from corpusmesh_client.calls import Caller

_PAGE_SIZE = 200


class LedgerCalls:
    """Calls on recorded retrievals."""

    def __init__(self, caller: Caller) -> None:
        """Create the calls.

        Args:
            caller: Makes them.
        """
        self._caller = caller
        self._stub = LedgerServiceStub(caller.channel)

    async def get(self, name: str) -> pb.Retrieval:
        """Read a retrieval.

        Args:
            name: `retrievals/*`.

        Returns:
            The retrieval with the hits that the caller may still see.
        """
        return await self._caller.unary(
            self._stub.GetRetrieval,
            pb.GetRetrievalRequest(name=name),
            timeout_seconds=self._caller.deadlines.read_seconds,
        )

    def list(self, *, page_size: int = _PAGE_SIZE) -> AsyncIterator[pb.Retrieval]:
        """List the caller's retrievals, newest first, without their hits, over all pages.

        Args:
            page_size: Entries read at once.

        Returns:
            The retrievals.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListRetrievals,
                pb.ListRetrievalsRequest(page_size=page_size, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.retrievals,
        )

    async def replay(self, name: str, *, against_current: bool = False) -> pb.ReplayRetrievalResponse:
        """Run a retrieval again and tell the difference.

        Args:
            name: `retrievals/*`.
            against_current: Whether to search what is published now instead of what was then.

        Returns:
            The difference.
        """
        request = pb.ReplayRetrievalRequest(name=name, against_current=against_current)
        return await self._caller.unary(
            self._stub.ReplayRetrieval, request, timeout_seconds=self._caller.deadlines.search_seconds
        )

    async def delete(self, name: str) -> None:
        """Delete a retrieval.

        Args:
            name: `retrievals/*`.
        """
        await self._caller.unary(
            self._stub.DeleteRetrieval,
            pb.DeleteRetrievalRequest(name=name),
            timeout_seconds=self._caller.deadlines.write_seconds,
        )
