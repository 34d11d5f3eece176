"""What is recorded of a search, and what a second run tells."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from corpusmesh.retrieve.v1 import ledger_service_pb2 as pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError, UnavailableError
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_retrieve.asking import ModelSession
from corpusmesh_retrieve.config import RetrieveSettings
from corpusmesh_retrieve.handlers import RetrievalHandlers
from corpusmesh_retrieve.ledger import LedgerHandlers, Recorder, Replayer
from corpusmesh_runtime.context import CallContext, current_call
from tests.support.golden_shelf import MemoryLedger, Shelf, ShelfSearcher

FIRST = "The notice period is three months."
SECOND = "The notice period is three weeks."
OTHER = "A notice hangs in the kitchen."
Difference = pb.ReplayRetrievalResponse.Difference


def call_as(user_id: str) -> None:
    identity = Identity("acme", user_id, Role.VIEWER, Scope.READ)
    current_call.set(CallContext(identity, "request-1", time.monotonic() + 60))


@pytest.fixture(autouse=True)
def call() -> Iterator[None]:
    token = current_call.set(None)
    call_as("ann")
    yield
    current_call.reset(token)


class Desk:
    """A shelf with the handlers over it."""

    def __init__(self, **config: object) -> None:
        self.shelf = Shelf({10: FIRST, 20: OTHER, 11: SECOND}, {7: {10, 20}}, config=config)
        self.store = MemoryLedger()
        self.searcher = ShelfSearcher(self.shelf, self.shelf)

        def open_session(**_: object) -> ModelSession:
            return ModelSession(None, np.random.default_rng)

        searcher, opener = cast(Any, self.searcher), cast(Any, open_session)
        self.search_handlers = RetrievalHandlers(searcher, RetrieveSettings(), opener, Recorder(self.store))
        replayer = Replayer(searcher, cast(Any, self.shelf), opener, default_window=64)
        self.ledger = LedgerHandlers(self.store, replayer)

    async def search(self, query: str = "notice period", **fields: Any) -> retrieval_pb.SearchChunksResponse:
        request = retrieval_pb.SearchChunksRequest(knowledge_bases=["knowledgeBases/kb"], query=query, **fields)
        return await self.search_handlers.SearchChunks(request, None)

    async def get(self, name: str) -> pb.Retrieval:
        return await self.ledger.GetRetrieval(pb.GetRetrievalRequest(name=name), None)

    async def replay(self, name: str, *, current: bool = False) -> pb.ReplayRetrievalResponse:
        request = pb.ReplayRetrievalRequest(name=name, against_current=current)
        return await self.ledger.ReplayRetrieval(request, None)


@pytest.fixture
def desk() -> Desk:
    return Desk(ledger={"enabled": True, "retention_days": 5})


async def test_nothing_is_recorded_unless_the_knowledge_base_says_so() -> None:
    for config in ({}, {"ledger": {}}, {"ledger": {"enabled": False}}):
        desk = Desk(**config)
        assert (await desk.search()).retrieval == ""
        assert desk.store.rows == {}


async def test_a_record_holds_question_plan_snapshots_and_hits_and_no_text(desk: Desk) -> None:
    plan = retrieval_pb.RetrievalPlan(preset=retrieval_pb.PRESET_FAST, documents=["knowledgeBases/kb/documents/d1"])
    found = await desk.search(plan=plan, page_size=5)
    recorded = await desk.get(found.retrieval)
    assert recorded.query == "notice period"
    assert list(recorded.snapshots) == ["knowledgeBases/kb/snapshots/7"]
    assert recorded.requested_plan == plan
    assert list(recorded.effective_plan.documents) == list(plan.documents)
    assert recorded.effective_plan.candidate_window == 64
    assert [(hit.rank, hit.record_id) for hit in recorded.hits] == [(1, "10-0"), (2, "20-0")]
    assert recorded.hits[0].scores == found.hits[0].scores
    assert (recorded.expire_time.ToDatetime() - recorded.create_time.ToDatetime()).days == 5
    row = desk.store.rows["r0"]
    assert row.hits[0].sources == (10,)
    assert b"months" not in row.request


async def test_turns_of_a_conversation_are_not_recorded(desk: Desk) -> None:
    turn = retrieval_pb.Turn(speaker=retrieval_pb.Turn.SPEAKER_ASSISTANT, text="It is three months, says the contract.")
    await desk.search(history=[turn])
    assert b"contract" not in desk.store.rows["r0"].request


async def test_only_the_first_page_is_recorded(desk: Desk) -> None:
    first = await desk.search(page_size=1)
    second = await desk.search(page_size=1, page_token=first.next_page_token)
    assert (bool(first.retrieval), second.retrieval) == (True, "")


async def test_a_ledger_that_does_not_answer_fails_no_search(desk: Desk) -> None:
    desk.store.failure = UnavailableError("DATABASE_UNAVAILABLE", "away")
    found = await desk.search()
    assert (len(found.hits), found.retrieval) == (2, "")


async def test_a_second_run_on_the_same_snapshot_is_the_same_whatever_is_published_since(desk: Desk) -> None:
    name = (await desk.search()).retrieval
    desk.shelf.snapshots[8] = {11, 20}
    again = await desk.replay(name)
    assert again.identical
    assert again.unchanged_count == 2
    assert not again.snapshots_differ
    assert desk.searcher.requests[-1].snapshots == {"kb": 7}
    now = await desk.replay(name, current=True)
    assert now.snapshots_differ
    assert list(now.snapshots) == ["knowledgeBases/kb/snapshots/8"]
    assert [(entry.kind, entry.record_id) for entry in now.differences] == [
        (Difference.KIND_NEW, "11-0"),
        (Difference.KIND_GONE, "10-0"),
    ]


async def test_a_hit_that_is_hidden_by_now_is_told_by_its_place_alone(desk: Desk) -> None:
    name = (await desk.search()).retrieval
    desk.shelf.hidden["ann"] = {10}
    seen = await desk.get(name)
    assert ([hit.record_id for hit in seen.hits], seen.hidden_hit_count) == (["20-0"], 1)
    again = await desk.replay(name)
    gone = again.differences[-1]
    assert (gone.kind, gone.rank_before, gone.record_id, gone.document) == (Difference.KIND_GONE, 1, "", "")
    assert gone.why == "not visible to you now, or deleted"
    assert "10-0" not in str(again)
    assert "d1" not in str(again)


async def test_another_plan_and_another_model_of_today_are_noticed_and_the_recorded_plan_is_run(desk: Desk) -> None:
    name = (await desk.search()).retrieval
    desk.shelf.config = {**desk.shelf.config, "retrieval": {"fusion": "min_max"}}
    desk.shelf.space_id = "other"
    again = await desk.replay(name)
    assert [again.plan_differs, again.model_differs, again.identical] == [True, True, True]
    recorded = await desk.get(name)
    assert again.retrieval.effective_plan == recorded.effective_plan


@pytest.mark.parametrize(
    "own",
    [
        {"vector_weight": 0.9},
        {"similarity_threshold": 0.99},
        {"page_weight": 0.5},
        {"understanding": {"languages": ["de"]}},
    ],
)
async def test_what_the_recorded_plan_left_open_is_not_filled_by_a_knowledge_base_of_today(
    desk: Desk, own: dict[str, object]
) -> None:
    name = (await desk.search()).retrieval
    before = desk.searcher.requests[-1].make_plan([desk.shelf.config])
    desk.shelf.config = {**desk.shelf.config, "retrieval": own}
    again = await desk.replay(name)
    assert again.plan_differs
    assert desk.searcher.requests[-1].make_plan([desk.shelf.config]) == before


async def test_a_snapshot_that_is_not_kept_gives_way_to_todays_and_is_noted(desk: Desk) -> None:
    name = (await desk.search()).retrieval
    desk.shelf.snapshots = {9: {11, 20}}
    again = await desk.replay(name)
    assert again.snapshots_differ
    assert list(again.snapshots) == ["knowledgeBases/kb/snapshots/9"]
    assert any("not kept any more" in note for note in again.notes)


async def test_a_search_of_nothing_published_runs_again_on_nothing() -> None:
    desk = Desk(ledger={"enabled": True})
    desk.shelf.snapshots = {}
    name = (await desk.search()).retrieval
    desk.shelf.snapshots[1] = {10}
    assert (await desk.get(name)).snapshots == []
    again = await desk.replay(name)
    assert again.identical
    assert list(again.snapshots) == []


async def test_others_have_nothing_to_read(desk: Desk) -> None:
    name = (await desk.search()).retrieval
    call_as("bob")
    with pytest.raises(NotFoundError):
        await desk.get(name)
    with pytest.raises(NotFoundError):
        await desk.replay(name)


@pytest.mark.parametrize("name", ["", "r0", "retrievals/", "retrievals/../x", "retrievals/r0/hits"])
async def test_a_name_of_another_shape_is_refused(desk: Desk, name: str) -> None:
    with pytest.raises(InvalidArgumentError):
        await desk.get(name)


async def test_lists_are_paged_newest_first(desk: Desk) -> None:
    for query in ("notice", "period", "kitchen"):
        await desk.search(query)
    first = await desk.ledger.ListRetrievals(pb.ListRetrievalsRequest(page_size=2), None)
    assert [entry.query for entry in first.retrievals] == ["kitchen", "period"]
    rest = await desk.ledger.ListRetrievals(
        pb.ListRetrievalsRequest(page_size=2, page_token=first.next_page_token), None
    )
    assert ([entry.query for entry in rest.retrievals], rest.next_page_token) == (["notice"], "")
    with pytest.raises(InvalidArgumentError):
        await desk.ledger.ListRetrievals(pb.ListRetrievalsRequest(page_token="AAAA"), None)


@pytest.mark.parametrize("standalone", ["", "Does Orlinda Fesk keep the notice period?"])
async def test_words_that_the_user_did_not_write_are_not_sent_to_the_web_by_a_second_run(
    desk: Desk, standalone: str
) -> None:
    plan = retrieval_pb.RetrievalPlan(correction=retrieval_pb.CorrectionPlan(correct=True, web=True))
    found = await desk.search("Does she keep it?", plan=plan)
    row = desk.store.rows["r0"]
    asked = pb.Retrieval.FromString(row.request)
    asked.standalone_query = standalone
    desk.store.rows["r0"] = replace(row, request=asked.SerializeToString())
    answer = await desk.replay(found.retrieval)
    again = desk.searcher.requests[-1]
    assert again.query == (standalone or "Does she keep it?")
    assert again.make_plan([{}]).correction.web is not bool(standalone)
    assert any("the web was left out" in note for note in answer.notes) is bool(standalone)
    assert not answer.plan_differs


async def test_a_completed_question_is_told_as_long_as_all_that_it_may_be_made_of_is_visible(desk: Desk) -> None:
    found = await desk.search()
    row = desk.store.rows["r0"]
    asked = pb.Retrieval.FromString(row.request)
    asked.standalone_query = "Does Orlinda Fesk keep the notice period?"
    for sources, is_told in (((10, 20), True), ((10, 20, 99), False)):
        desk.store.rows["r0"] = replace(row, request=asked.SerializeToString(), sources=sources)
        assert bool((await desk.get(found.retrieval)).standalone_query) is is_told
        assert (await desk.get(found.retrieval)).query == "notice period"
        [listed] = (await desk.ledger.ListRetrievals(pb.ListRetrievalsRequest(), None)).retrievals
        assert listed.standalone_query == ""
