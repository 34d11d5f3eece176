"""gRPC handlers of the ledger."""

from typing import Any

from corpusmesh.retrieve.v1 import ledger_service_pb2 as pb
from corpusmesh.retrieve.v1.ledger_service_pb2_grpc import LedgerServiceServicer
from corpusmesh_core.ports.retrievals import RetrievalStore
from corpusmesh_retrieve.ledger.convert import retrieval_id_of, retrieval_to_wire
from corpusmesh_retrieve.ledger.replaying import Replayer
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.page_tokens import checked_page_size, make_page_token, read_page_token

_LISTING = "retrievals"
_MAX_PAGE_SIZE = 200


class LedgerHandlers(LedgerServiceServicer):
    """Reads, runs again and deletes what the caller has searched."""

    def __init__(self, store: RetrievalStore, replayer: Replayer) -> None:
        """Create the handlers.

        Args:
            store: The ledger.
            replayer: Runs retrievals again, and tells what the caller may still see of them.
        """
        self._store = store
        self._replayer = replayer

    async def GetRetrieval(self, request: pb.GetRetrievalRequest, context: Any) -> pb.Retrieval:
        """See the contract."""
        call = require_call()
        row = await self._store.get(call.identity, retrieval_id_of(request.name))
        sight = await self._replayer.look(call, row)
        return retrieval_to_wire(row, sight.visible)

    async def ListRetrievals(self, request: pb.ListRetrievalsRequest, context: Any) -> pb.ListRetrievalsResponse:
        """See the contract."""
        size = checked_page_size(request.page_size, max_page_size=_MAX_PAGE_SIZE)
        before = read_page_token(_LISTING, request.page_token)
        rows = await self._store.list(require_call().identity, before, size + 1)
        page = rows[:size]
        return pb.ListRetrievalsResponse(
            retrievals=[retrieval_to_wire(row) for row in page],
            next_page_token=make_page_token(_LISTING, page[-1].retrieval_id) if len(rows) > size else "",
        )

    async def ReplayRetrieval(self, request: pb.ReplayRetrievalRequest, context: Any) -> pb.ReplayRetrievalResponse:
        """See the contract."""
        call = require_call()
        row = await self._store.get(call.identity, retrieval_id_of(request.name))
        return await self._replayer.replay(call, row, against_current=request.against_current)

    async def DeleteRetrieval(self, request: pb.DeleteRetrievalRequest, context: Any) -> pb.DeleteRetrievalResponse:
        """See the contract."""
        await self._store.delete(require_call().identity, retrieval_id_of(request.name))
        return pb.DeleteRetrievalResponse()
