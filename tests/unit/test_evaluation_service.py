"""Golden sets over a small knowledge base: who is asked what, what is measured, what would be published."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import numpy as np
import pytest
from pyroaring import BitMap

from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh.retrieve.v1 import evaluation_service_pb2 as pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_core.errors import CorpusMeshError, FailedPreconditionError, InvalidArgumentError, OverloadedError
from corpusmesh_core.query import RetrievalPlan
from corpusmesh_core.tenancy import CallerKind, Identity, Role, Scope
from corpusmesh_retrieve.asking import ModelSession
from corpusmesh_retrieve.evaluating.config import EvaluationSettings
from corpusmesh_retrieve.evaluating.handlers import EvaluationHandlers, EvaluationTools
from corpusmesh_runtime.context import CallContext, current_call, require_call
from corpusmesh_runtime.page_tokens import make_page_token
from corpusmesh_runtime.retrieval_plans import make_plan
from tests.support.golden_shelf import MemoryEvaluations, MemoryGoldenSets, Shelf, ShelfSearcher

EMS = "The Ems Gauge was founded in 1911 in Leer."
WESER = "The Weser Archive was established in 1934 in Bremen."
ELBE = "The Elbe Bureau was founded in 1950 in Hamburg."
PARENT = "knowledgeBases/kb"
SET = f"{PARENT}/goldenSets/g"


def call_as(
    user_id: str, *, tenant_id: str = "acme", seconds: float = 60.0, kind: CallerKind = CallerKind.MEMBER
) -> None:
    identity = Identity(tenant_id, user_id, Role.EDITOR, Scope.WRITE, kind=kind)
    current_call.set(CallContext(identity, "request-1", time.monotonic() + seconds))


@pytest.fixture(autouse=True)
def call() -> Iterator[None]:
    token = current_call.set(None)
    call_as("ann")
    yield
    current_call.reset(token)


class Desk:
    """A shelf with the handlers over it."""

    def __init__(self, **settings: Any) -> None:
        self.shelf = Shelf({10: EMS, 20: WESER, 30: ELBE}, {7: {10, 20, 30}})
        self.sets = MemoryGoldenSets(self.shelf)
        self.evaluations = MemoryEvaluations()
        self.searchers: list[ShelfSearcher] = []
        self.answered: list[tuple[str, float]] = []
        self.answer_plans: list[retrieval_pb.RetrievalPlan] = []
        self.gate: asyncio.Event | None = None

        def make_searcher(reader: Any) -> Any:
            self.searchers.append(ShelfSearcher(self.shelf, reader))
            return self.searchers[-1]

        async def answer(request: answer_pb.AnswerQuestionRequest) -> AsyncIterator[answer_pb.AnswerQuestionResponse]:
            self.answered.append((request.question, require_call().remaining_seconds()))
            self.answer_plans.append(request.plan)
            if self.gate is not None:
                await self.gate.wait()
            is_known = "Ems" in request.question
            hit = retrieval_pb.SearchHit(record_id="10-0", document=f"{PARENT}/documents/d1", text=EMS)
            yield answer_pb.AnswerQuestionResponse(text_delta="x")
            yield answer_pb.AnswerQuestionResponse(
                summary=answer_pb.AnswerSummary(
                    text="In 1911." if is_known else "That is not said.",
                    abstained=not is_known,
                    citations=[answer_pb.Citation(marker=1, hit=hit)] if is_known else [],
                    method=answer_pb.AnswerSummary.METHOD_MODEL,
                )
            )

        self.handlers = EvaluationHandlers(
            EvaluationTools(
                golden_sets=self.sets,
                evaluations=self.evaluations,
                snapshots=cast(Any, self.shelf),
                index=cast(Any, self.shelf),
                make_searcher=make_searcher,
                open_session=cast(Any, lambda **_: ModelSession(None, np.random.default_rng)),
                answer=answer,
                make_rng=lambda: np.random.default_rng(1),
                default_window=64,
            ),
            EvaluationSettings(**settings),
        )

    async def create(self, *questions: pb.GoldenQuestion) -> pb.GoldenSet:
        request = pb.CreateGoldenSetRequest(parent=PARENT, golden_set_id="g", questions=questions)
        return await self.handlers.CreateGoldenSet(request, None)

    async def evaluate(self, **fields: Any) -> pb.Evaluation:
        pieces = [
            piece
            async for piece in self.handlers.EvaluateGoldenSet(pb.EvaluateGoldenSetRequest(name=SET, **fields), None)
        ]
        assert all(piece.HasField("progress") for piece in pieces[:-1])
        assert pieces[-2].progress.done_count == pieces[-2].progress.total_count
        return pieces[-1].evaluation

    async def measure(self, ordinals: set[int], *, compare: bool = True) -> pb.MeasureCandidateResponse:
        call_as("ingest", kind=CallerKind.SERVICE)
        request = pb.MeasureCandidateRequest(
            knowledge_base=PARENT, golden_set_id="g", ordinals=BitMap(ordinals).serialize(), compare_current=compare
        )
        return await self.handlers.MeasureCandidate(request, None)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def made_plan(configs: list[dict[str, Any]], given: retrieval_pb.RetrievalPlan) -> RetrievalPlan:
    return make_plan(given, configs, page_size=10, default_window=64)


def question(text: str, *documents: int, quote: str = "", answers: tuple[str, ...] = ()) -> pb.GoldenQuestion:
    gold = [pb.Gold(document=f"{PARENT}/documents/d{document}", quote=quote) for document in documents]
    return pb.GoldenQuestion(question=text, gold=gold, answers=answers)


async def test_search_and_answers_are_measured_and_kept(desk: Desk) -> None:
    await desk.create(
        question("When was the Ems Gauge founded?", 1, quote="founded in 1911", answers=("1911",)),
        question("When was the Weser Archive made?", 2),
        question("Who sails?"),
    )
    made = await desk.evaluate(with_answers=True)
    (plan,) = made.plans
    assert (made.question_count, made.hidden_count, plan.answerable_count) == (3, 0, 2)
    assert made.snapshot == f"{PARENT}/snapshots/7"
    assert (plan.recall_at_2, plan.mrr, plan.ndcg_at_10) == (1.0, 1.0, 1.0)
    answers = plan.answers
    assert (answers.citation_precision, answers.citation_recall) == (1.0, 0.5)
    assert answers.abstention_accuracy == pytest.approx(2 / 3)
    assert (answers.answer_accuracy, answers.abstained_count, answers.by_model_count) == (1.0, 2, 3)
    assert all(seconds > 30 for _, seconds in desk.answered)
    read = await desk.handlers.GetEvaluation(pb.GetEvaluationRequest(name=made.name), None)
    assert read == made
    listed = await desk.handlers.ListEvaluations(pb.ListEvaluationsRequest(parent=SET), None)
    assert list(listed.evaluations) == [made]


async def test_every_search_stays_at_the_snapshot_of_the_first(desk: Desk) -> None:
    await desk.create(question("Ems Gauge", 1), question("Weser Archive", 2))
    desk.shelf.snapshots[8] = {20}
    made = await desk.evaluate(as_of_snapshot=f"{PARENT}/snapshots/7")
    assert made.plans[0].recall_at_5 == 1.0
    assert {request.snapshots["kb"] for request in desk.searchers[0].requests} == {7}
    now = await desk.evaluate()
    assert (now.question_count, now.hidden_count) == (1, 1)


async def test_gold_that_the_caller_may_not_see_is_left_out_and_counted(desk: Desk) -> None:
    await desk.create(question("Ems Gauge", 1), question("Ems and Weser", 1, 2), question("Elbe Bureau", 3))
    desk.shelf.hidden["ann"] = {10}
    made = await desk.evaluate()
    assert (made.question_count, made.hidden_count) == (1, 2)
    page = await desk.handlers.ListGoldenQuestions(pb.ListGoldenQuestionsRequest(parent=SET), None)
    assert ([entry.question for entry in page.questions], page.hidden_count) == (["Elbe Bureau"], 2)
    desk.shelf.hidden["ann"] = {10, 20, 30}
    with pytest.raises(FailedPreconditionError):
        await desk.evaluate()


async def test_two_plans_are_compared_question_by_question(desk: Desk) -> None:
    await desk.create(*(question(f"Ems Gauge {place}", 1) for place in range(8)))
    made = await desk.evaluate(against=retrieval_pb.RetrievalPlan(preset=retrieval_pb.PRESET_FAST))
    assert len(made.plans) == 2
    for comparison in made.comparisons:
        assert (comparison.difference, comparison.p_value, comparison.significant) == (0.0, 1.0, False)


async def test_a_limit_takes_questions_from_all_over_the_set(desk: Desk) -> None:
    await desk.create(*(question(f"Ems {place}", 1) for place in range(10)))
    made = await desk.evaluate(question_limit=3)
    assert made.question_count == 3
    assert [request.query for request in desk.searchers[0].requests] == ["Ems 0", "Ems 3", "Ems 6"]


async def test_imported_questions_name_the_versions_that_they_go_with(desk: Desk) -> None:
    desk.shelf.texts[11] = "The Ems Gauge moved."
    await desk.create(question("Ems", 1), question("Both", 1, 2), question("None"))
    assert [entry.sources for entry in desk.sets.sets["g"]] == [(10, 11), (10, 11, 20), ()]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (question("Ems", 9), "GOLD_DOCUMENT_UNKNOWN"),
        (question("Weser", 2), "GOLD_DOCUMENT_UNKNOWN"),
        (question(" "), "GOLDEN_QUESTION_INVALID"),
        (question("x" * 2001), "GOLDEN_QUESTION_INVALID"),
        (question("x", 1, quote="y" * 1001), "GOLDEN_QUESTION_INVALID"),
        (question("x", answers=("",)), "GOLDEN_QUESTION_INVALID"),
        (question("x", *([1] * 33)), "GOLDEN_QUESTION_INVALID"),
        (
            pb.GoldenQuestion(question="x", gold=[pb.Gold(document="knowledgeBases/other/documents/d1")]),
            "GOLDEN_QUESTION_INVALID",
        ),
    ],
)
async def test_a_question_that_breaks_a_bound_or_names_what_is_hidden_is_refused(
    desk: Desk, bad: pb.GoldenQuestion, reason: str
) -> None:
    desk.shelf.hidden["ann"] = {20}
    with pytest.raises(CorpusMeshError) as raised:
        await desk.create(question("Ems", 1), bad)
    assert raised.value.reason == reason
    assert desk.sets.sets == {}


async def test_questions_are_drawn_from_what_the_caller_sees(desk: Desk) -> None:
    desk.shelf.hidden["ann"] = {30}
    request = pb.DrawGoldenSetRequest(parent=PARENT, golden_set_id="g", question_count=5)
    drawn = await desk.handlers.DrawGoldenSet(request, None)
    assert (drawn.golden_set.question_count, drawn.document_count, drawn.by_model_count) == (2, 2, 0)
    kept = {entry.question: entry for entry in desk.sets.sets["g"]}
    assert set(kept) == {"When was the Ems Gauge founded?", "When was the Weser Archive established?"}
    ems = kept["When was the Ems Gauge founded?"]
    assert (ems.gold[0].document_id, ems.gold[0].quote, ems.sources) == ("d1", EMS, (10,))
    assert (await desk.evaluate()).plans[0].recall_at_5 == 1.0


async def test_nothing_is_drawn_of_nothing(desk: Desk) -> None:
    desk.shelf.snapshots = {}
    with pytest.raises(FailedPreconditionError) as raised:
        await desk.handlers.DrawGoldenSet(pb.DrawGoldenSetRequest(parent=PARENT), None)
    assert raised.value.reason == "GOLDEN_SET_NOTHING_TO_DRAW"


@pytest.mark.parametrize(
    "fields",
    [
        {"plan": retrieval_pb.RetrievalPlan(documents=[f"{PARENT}/documents/d1"])},
        {"against": retrieval_pb.RetrievalPlan(metadata_conditions=[retrieval_pb.MetadataCondition(key="k")])},
        {"with_answers": True, "as_of_snapshot": f"{PARENT}/snapshots/7"},
        {"as_of_snapshot": "knowledgeBases/other/snapshots/7"},
        {"question_limit": -1},
        {"plan": retrieval_pb.RetrievalPlan(candidate_window=-1)},
    ],
)
async def test_an_evaluation_that_could_not_be_read_is_refused(desk: Desk, fields: dict[str, Any]) -> None:
    await desk.create(question("Ems", 1))
    with pytest.raises(CorpusMeshError):
        await desk.evaluate(**fields)
    assert desk.evaluations.rows == []


async def test_evaluations_at_once_are_bounded_and_one_that_is_left_ends() -> None:
    desk = Desk(max_concurrent_evaluations=1)
    desk.gate = asyncio.Event()
    await desk.create(question("Ems", 1))
    request = pb.EvaluateGoldenSetRequest(name=SET, with_answers=True)
    first = desk.handlers.EvaluateGoldenSet(request, None)
    assert (await anext(first)).progress.total_count == 2
    with pytest.raises(OverloadedError):
        await anext(desk.handlers.EvaluateGoldenSet(request, None))
    await first.aclose()
    desk.gate = None
    assert (await desk.evaluate()).question_count == 1


async def test_one_tenant_leaves_a_place_for_another_and_no_evaluation_holds_up_a_gate() -> None:
    desk = Desk(max_concurrent_evaluations=2)
    desk.gate = asyncio.Event()
    await desk.create(question("Ems", 1))
    request = pb.EvaluateGoldenSetRequest(name=SET, with_answers=True)
    first = desk.handlers.EvaluateGoldenSet(request, None)
    await anext(first)
    with pytest.raises(OverloadedError):
        await anext(desk.handlers.EvaluateGoldenSet(request, None))
    call_as("eve", tenant_id="other")
    second = desk.handlers.EvaluateGoldenSet(request, None)
    await anext(second)
    call_as("eve", tenant_id="third")
    with pytest.raises(OverloadedError):
        await anext(desk.handlers.EvaluateGoldenSet(request, None))
    assert (await desk.measure({10})).candidate.answerable_count == 1
    for running in (first, second):
        await running.aclose()


async def test_a_candidate_is_measured_as_if_it_were_published(desk: Desk) -> None:
    await desk.create(question("Ems Gauge founded", 1, quote="founded in 1911"), question("Weser Archive", 2))
    desk.shelf.texts[11] = "The Ems Gauge was founded long ago."
    measured = await desk.measure({11, 20, 30})
    assert measured.candidate.answerable_count == 2
    assert measured.candidate.mrr == 0.5
    assert (measured.candidate_in_common.mrr, measured.current_in_common.mrr) == (0.5, 1.0)
    # Nothing was published by it.
    assert desk.shelf.snapshots == {7: {10, 20, 30}}


async def test_questions_about_what_a_candidate_does_not_hold_are_not_asked(desk: Desk) -> None:
    await desk.create(question("Ems Gauge", 1), question("Weser Archive", 2), question("Who sails?"))
    desk.shelf.snapshots = {7: {10}}
    measured = await desk.measure({20})
    assert measured.candidate.answerable_count == 1
    assert not measured.HasField("current_in_common")
    assert not (await desk.measure({30})).HasField("candidate")


async def test_a_gate_asks_a_bounded_number_of_questions() -> None:
    desk = Desk(max_gate_questions=4)
    await desk.create(*(question(f"Ems {place}", 1) for place in range(50)))
    measured = await desk.measure({10}, compare=False)
    assert measured.candidate.answerable_count == 4
    assert not measured.HasField("candidate_in_common")


async def test_questions_are_paged_and_a_made_up_token_is_refused(desk: Desk) -> None:
    await desk.create(*(question(f"Ems {place}", 1) for place in range(3)))
    first = await desk.handlers.ListGoldenQuestions(pb.ListGoldenQuestionsRequest(parent=SET, page_size=2), None)
    assert [entry.position for entry in first.questions] == [0, 1]
    rest = pb.ListGoldenQuestionsRequest(parent=SET, page_size=2, page_token=first.next_page_token)
    page = await desk.handlers.ListGoldenQuestions(rest, None)
    assert ([entry.position for entry in page.questions], page.next_page_token) == ([2], "")
    for key in ("abc", "1" * 20):
        token = make_page_token(f"{SET}/questions", key)
        with pytest.raises(InvalidArgumentError):
            await desk.handlers.ListGoldenQuestions(pb.ListGoldenQuestionsRequest(parent=SET, page_token=token), None)


async def test_questions_made_of_documents_do_not_leave_for_the_web(desk: Desk) -> None:
    plan = retrieval_pb.RetrievalPlan(correction=retrieval_pb.CorrectionPlan(correct=True, web=True))
    await desk.create(question("When was the Ems Gauge founded?", 1))
    await desk.evaluate(plan=plan, with_answers=True)
    await desk.measure({10})
    config = {"retrieval": {"correction": {"correct": True, "web": True}}}
    planned = [request.make_plan([config]) for searcher in desk.searchers for request in searcher.requests]
    assert len(planned) >= 2
    assert all(made.correction.correct and not made.correction.web for made in planned)
    assert [made_plan([config], given).correction.web for given in desk.answer_plans] == [False]
