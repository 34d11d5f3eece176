"""gRPC handlers of searches: they connect wire messages to the searcher."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh.retrieve.v1.retrieval_service_pb2_grpc import RetrievalServiceServicer
from corpusmesh_core.query import RetrievalPlan
from corpusmesh_core.ranking import page_of
from corpusmesh_retrieve.asking import SessionOpener
from corpusmesh_retrieve.config import RetrieveSettings
from corpusmesh_retrieve.convert import (
    condition_to_wire,
    history_of,
    hit_to_wire,
    metadata_of,
    page_size_of,
    snapshots_of,
)
from corpusmesh_retrieve.explaining import explanation_to_wire
from corpusmesh_retrieve.ledger import Recorder
from corpusmesh_retrieve.outcome import SearchRequest
from corpusmesh_retrieve.paging import SearchPosition, fingerprint_of, make_search_token, read_search_token
from corpusmesh_retrieve.request_checks import check_query, knowledge_base_ids_of, snapshot_names
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.retrieval_plans import make_plan


class RetrievalHandlers(RetrievalServiceServicer):
    """Searches."""

    def __init__(
        self, searcher: Searcher, settings: RetrieveSettings, open_session: SessionOpener, recorder: Recorder
    ) -> None:
        """Create the handlers.

        Args:
            searcher: Runs searches.
            settings: Defaults and bounds.
            open_session: Gives a request its access to the language model.
            recorder: Records searches of knowledge bases that keep a ledger.
        """
        self._recorder = recorder
        self._searcher = searcher
        self._settings = settings
        self._open_session = open_session

    async def SearchChunks(self, request: pb.SearchChunksRequest, context: Any) -> pb.SearchChunksResponse:
        """See the contract."""
        call = require_call()
        identifiers = knowledge_base_ids_of(request.knowledge_bases)
        check_query(request.query, "query", self._settings)
        page_size = page_size_of(request.page_size)
        fingerprint = _fingerprint(request)
        position = SearchPosition(0, snapshots_of(request.as_of_snapshots, identifiers))
        if request.page_token:
            position = read_search_token(fingerprint, request.page_token)
            # A page stays with the knowledge bases that the router picked for the first one.
            identifiers = identifiers or knowledge_base_ids_of([f"knowledgeBases/{key}" for key in position.snapshots])

        def make(configs: Sequence[Mapping[str, object]]) -> RetrievalPlan:
            plan = make_plan(request.plan, configs, page_size=page_size, default_window=self._settings.candidate_window)
            return replace(plan, window=position.window) if position.window else plan

        outcome = await self._searcher.search(
            call,
            SearchRequest(
                knowledge_base_ids=identifiers,
                query=request.query,
                make_plan=make,
                session=self._open_session(model_free=False),
                metadata=metadata_of(request.plan, knowledge_base_ids=identifiers),
                snapshots=position.snapshots,
                history=history_of(request.history),
                offset=position.offset,
            ),
        )
        page = page_of(outcome.kept, offset=position.offset, page_size=page_size)
        more = ""
        if page.next_offset is not None:
            more = make_search_token(
                fingerprint, SearchPosition(page.next_offset, outcome.snapshots, outcome.plan.window)
            )
        retrieval = ""
        if position.offset == 0:
            retrieval = await self._recorder.record(call, request.plan, outcome, page.items, page_size=page_size)
        return pb.SearchChunksResponse(
            hits=[hit_to_wire(item, outcome.leaves.get(item.candidate.record.record_id, ())) for item in page.items],
            next_page_token=more,
            snapshots=snapshot_names(outcome),
            total_size=page.total_count,
            explanation=explanation_to_wire(outcome) if request.explain else None,
            unreachable=list(dict.fromkeys(outcome.unreachable)),
            inferred_conditions=[condition_to_wire(condition) for condition in outcome.inferred],
            standalone_query=outcome.question if outcome.question != request.query else "",
            retrieval=retrieval,
        )


def _fingerprint(request: pb.SearchChunksRequest) -> str:
    own = pb.SearchChunksRequest()
    own.CopyFrom(request)
    own.page_token = ""
    own.page_size = 0
    own.explain = False
    return fingerprint_of(own.SerializeToString(deterministic=True))
