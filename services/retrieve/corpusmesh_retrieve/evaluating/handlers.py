"""gRPC handlers of golden sets and evaluations."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from google.protobuf import json_format

from corpusmesh.retrieve.v1 import evaluation_service_pb2 as pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh.retrieve.v1.evaluation_service_pb2_grpc import EvaluationServiceServicer
from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError, OverloadedError
from corpusmesh_core.evaluation import compare_paired
from corpusmesh_core.ports.golden_sets import EvaluationStore, GoldenQuestion, GoldenSetStore
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.ports.metadata import SnapshotStore
from corpusmesh_core.tenancy import Identity
from corpusmesh_core.tenancy.visibility import permitted_bitmap
from corpusmesh_retrieve.asking import SessionOpener
from corpusmesh_retrieve.evaluating.candidates import CandidateMeasurer, MakeSearcher
from corpusmesh_retrieve.evaluating.config import EvaluationSettings
from corpusmesh_retrieve.evaluating.convert import (
    SetName,
    checked_display_name,
    checked_id,
    comparison_to_wire,
    evaluation_to_wire,
    question_to_wire,
    questions_of,
    set_name_of,
    set_to_wire,
    snapshot_id_of,
)
from corpusmesh_retrieve.evaluating.drawing import Drawer
from corpusmesh_retrieve.evaluating.measuring import (
    AnswerRunner,
    AskedAnswer,
    AskedSearch,
    Configuration,
    Measurer,
    Progress,
    measures_of,
    values_by_measure,
)
from corpusmesh_retrieve.evaluating.visible import AskedQuestions, QuestionReader, spread
from corpusmesh_runtime.context import CallContext, require_call
from corpusmesh_runtime.page_tokens import checked_page_size, make_page_token, read_page_number, read_page_token
from corpusmesh_runtime.policy import knowledge_base_id_of
from corpusmesh_runtime.tenant_slots import BUSY_RETRY_SECONDS, TenantSlots

_DEFAULT_DRAW = 50
_MAX_DRAW = 500
_MAX_PAGE_SIZE = 200
_PROGRESS_SECONDS = 0.5
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class EvaluationTools:
    """What the handlers stand on.

    Attributes:
        golden_sets: Golden sets.
        evaluations: What was measured.
        snapshots: Tells what a caller may see.
        index: Holds the chunks that questions are drawn from.
        make_searcher: Makes a searcher over a reader of snapshots.
        open_session: Gives a request its access to the language model.
        answer: Answers questions as the service does, without recording.
        make_rng: Dice of the tests of significance.
        default_window: Candidates of each leg where nobody names a window.
    """

    golden_sets: GoldenSetStore
    evaluations: EvaluationStore
    snapshots: SnapshotStore
    index: RecordIndex
    make_searcher: MakeSearcher
    open_session: SessionOpener
    answer: AnswerRunner
    make_rng: Callable[[], np.random.Generator]
    default_window: int


class EvaluationHandlers(EvaluationServiceServicer):
    """Golden sets and evaluations."""

    def __init__(self, tools: EvaluationTools, settings: EvaluationSettings) -> None:
        """Create the handlers.

        Args:
            tools: What they stand on.
            settings: Bounds.
        """
        self._tools = tools
        self._settings = settings
        self._slots = TenantSlots(settings.max_concurrent_evaluations, busy=_busy)
        # Of their own: no member's evaluation holds up a publish.
        self._gate_slots = TenantSlots(settings.max_concurrent_evaluations + 1, busy=_busy)
        self._questions = QuestionReader(tools.golden_sets, tools.snapshots)
        self._drawer = Drawer(tools.snapshots, tools.index, settings)
        self._measurer = Measurer(
            tools.make_searcher(tools.snapshots),
            tools.open_session,
            default_window=tools.default_window,
            question_timeout_seconds=settings.question_timeout_seconds,
            answer=tools.answer,
        )
        self._candidates = CandidateMeasurer(
            tools.make_searcher,
            tools.snapshots,
            self._questions,
            tools.open_session,
            default_window=tools.default_window,
            question_timeout_seconds=settings.question_timeout_seconds,
            max_questions=settings.max_gate_questions,
        )

    async def CreateGoldenSet(self, request: pb.CreateGoldenSetRequest, context: Any) -> pb.GoldenSet:
        """See the contract."""
        identity = require_call().identity
        base = knowledge_base_id_of(request.parent, field="parent")
        questions = await self._with_sources(identity, base, questions_of(base, request.questions))
        row = await self._tools.golden_sets.create(
            identity,
            base,
            checked_id(request.golden_set_id or _new_id()),
            display_name=checked_display_name(request.golden_set),
            questions=questions,
        )
        return set_to_wire(row)

    async def DrawGoldenSet(self, request: pb.DrawGoldenSetRequest, context: Any) -> pb.DrawGoldenSetResponse:
        """See the contract."""
        call = require_call()
        base = knowledge_base_id_of(request.parent, field="parent")
        identifier = checked_id(request.golden_set_id or _new_id())
        display_name = checked_display_name(request.golden_set)
        if not 0 <= request.question_count <= _MAX_DRAW:
            raise InvalidArgumentError(
                "QUESTION_COUNT_INVALID", f"question_count must be 1 to {_MAX_DRAW}", field="question_count"
            )
        with self._slots.taken(call.identity.tenant_id):
            draw = await self._drawer.draw(
                call,
                base,
                self._tools.open_session(model_free=request.model_free),
                count=request.question_count or _DEFAULT_DRAW,
                seed=request.seed,
            )
        row = await self._tools.golden_sets.create(
            call.identity, base, identifier, display_name=display_name, questions=draw.questions
        )
        return pb.DrawGoldenSetResponse(
            golden_set=set_to_wire(row), by_model_count=draw.by_model_count, document_count=draw.document_count
        )

    async def ImportGoldenQuestions(
        self, request: pb.ImportGoldenQuestionsRequest, context: Any
    ) -> pb.ImportGoldenQuestionsResponse:
        """See the contract."""
        identity = require_call().identity
        name = set_name_of(request.name)
        if not request.questions:
            raise InvalidArgumentError("GOLDEN_QUESTIONS_INVALID", "give at least one question", field="questions")
        questions = questions_of(name.knowledge_base_id, request.questions)
        row = await self._tools.golden_sets.append(
            identity,
            name.knowledge_base_id,
            name.golden_set_id,
            await self._with_sources(identity, name.knowledge_base_id, questions),
        )
        return pb.ImportGoldenQuestionsResponse(golden_set=set_to_wire(row))

    async def GetGoldenSet(self, request: pb.GetGoldenSetRequest, context: Any) -> pb.GoldenSet:
        """See the contract."""
        name = set_name_of(request.name)
        row = await self._tools.golden_sets.get(require_call().identity, name.knowledge_base_id, name.golden_set_id)
        return set_to_wire(row)

    async def ListGoldenSets(self, request: pb.ListGoldenSetsRequest, context: Any) -> pb.ListGoldenSetsResponse:
        """See the contract."""
        base = knowledge_base_id_of(request.parent, field="parent")
        size = checked_page_size(request.page_size, max_page_size=_MAX_PAGE_SIZE)
        listing = f"knowledgeBases/{base}/goldenSets"
        after = read_page_token(listing, request.page_token)
        rows = await self._tools.golden_sets.list(require_call().identity, base, after, size + 1)
        page = rows[:size]
        return pb.ListGoldenSetsResponse(
            golden_sets=[set_to_wire(row) for row in page],
            next_page_token=make_page_token(listing, page[-1].golden_set_id) if len(rows) > size else "",
        )

    async def ListGoldenQuestions(
        self, request: pb.ListGoldenQuestionsRequest, context: Any
    ) -> pb.ListGoldenQuestionsResponse:
        """See the contract."""
        identity = require_call().identity
        name = set_name_of(request.parent, field="parent")
        base = name.knowledge_base_id
        size = checked_page_size(request.page_size, max_page_size=_MAX_PAGE_SIZE)
        listing = f"{name.name}/questions"
        after = read_page_number(listing, request.page_token, first=-1)
        rows = await self._tools.golden_sets.questions(
            identity, base, name.golden_set_id, after_position=after, limit=size + 1
        )
        page = rows[:size]
        inputs = await self._tools.snapshots.visibility_inputs(identity, base)
        shown = await self._questions.seen(identity, base, page, permitted_bitmap(inputs))
        return pb.ListGoldenQuestionsResponse(
            questions=[question_to_wire(base, question) for question in shown],
            next_page_token=make_page_token(listing, str(page[-1].position)) if len(rows) > size else "",
            hidden_count=len(page) - len(shown),
        )

    async def DeleteGoldenSet(self, request: pb.DeleteGoldenSetRequest, context: Any) -> pb.DeleteGoldenSetResponse:
        """See the contract."""
        name = set_name_of(request.name)
        await self._tools.golden_sets.delete(require_call().identity, name.knowledge_base_id, name.golden_set_id)
        return pb.DeleteGoldenSetResponse()

    async def EvaluateGoldenSet(
        self, request: pb.EvaluateGoldenSetRequest, context: Any
    ) -> AsyncGenerator[pb.EvaluateGoldenSetResponse]:
        """See the contract."""
        call = require_call()
        name = set_name_of(request.name)
        _check_evaluation(request)
        snapshot_id = snapshot_id_of(request.as_of_snapshot, name.knowledge_base_id)
        with self._slots.taken(call.identity.tenant_id):
            asked = await self._questions.read(
                call.identity, name.knowledge_base_id, name.golden_set_id, snapshot_id=snapshot_id
            )
            asked = replace(asked, questions=spread(asked.questions, request.question_limit))
            if not asked.questions:
                raise FailedPreconditionError(
                    "EVALUATION_EMPTY",
                    "the golden set has no question whose gold is published and visible to you",
                    hidden_count=asked.hidden_count,
                )
            plans = [request.plan, *([request.against] if request.HasField("against") else [])]
            progress = Progress()
            total = len(asked.questions) * len(plans) * (2 if request.with_answers else 1)
            task = asyncio.create_task(self._measure(call, request, name, asked, plans, progress))
            try:
                async for done_count in _watch(task, progress):
                    yield pb.EvaluateGoldenSetResponse(
                        progress=pb.EvaluationProgress(done_count=done_count, total_count=total)
                    )
                yield pb.EvaluateGoldenSetResponse(evaluation=task.result())
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await asyncio.wait((task,))

    async def GetEvaluation(self, request: pb.GetEvaluationRequest, context: Any) -> pb.Evaluation:
        """See the contract."""
        name = set_name_of(request.name, is_evaluation=True)
        row = await self._tools.evaluations.get(
            require_call().identity, name.knowledge_base_id, name.golden_set_id, name.evaluation_id
        )
        return evaluation_to_wire(row)

    async def ListEvaluations(self, request: pb.ListEvaluationsRequest, context: Any) -> pb.ListEvaluationsResponse:
        """See the contract."""
        name = set_name_of(request.parent, field="parent")
        size = checked_page_size(request.page_size, max_page_size=_MAX_PAGE_SIZE)
        listing = f"{name.name}/evaluations"
        before = read_page_token(listing, request.page_token)
        rows = await self._tools.evaluations.list(
            require_call().identity, name.knowledge_base_id, name.golden_set_id, before, size + 1
        )
        page = rows[:size]
        return pb.ListEvaluationsResponse(
            evaluations=[evaluation_to_wire(row) for row in page],
            next_page_token=make_page_token(listing, page[-1].evaluation_id) if len(rows) > size else "",
        )

    async def MeasureCandidate(self, request: pb.MeasureCandidateRequest, context: Any) -> pb.MeasureCandidateResponse:
        """See the contract."""
        call = require_call()
        with self._gate_slots.taken(call.identity.tenant_id):
            return await self._candidates.measure(
                call,
                knowledge_base_id_of(request.knowledge_base, field="knowledge_base"),
                request.golden_set_id,
                request.ordinals,
                compare_current=request.compare_current,
            )

    async def _measure(
        self,
        call: CallContext,
        request: pb.EvaluateGoldenSetRequest,
        name: SetName,
        asked: AskedQuestions,
        plans: Sequence[retrieval_pb.RetrievalPlan],
        progress: Progress,
    ) -> pb.Evaluation:
        searches: list[list[AskedSearch]] = []
        answers: list[list[AskedAnswer]] = []
        for plan in plans:
            what = Configuration(name.knowledge_base_id, plan, asked.inputs.snapshot_id, request.model_free)
            searches.append(await self._measurer.search(call, what, asked.questions, progress))
            if request.with_answers:
                answers.append(await self._measurer.answer(call, what, asked.questions, progress))
        results = pb.Evaluation(
            plans=[measures_of(found, answers[place] if answers else ()) for place, found in enumerate(searches)],
            question_count=len(asked.questions),
            hidden_count=asked.hidden_count,
        )
        if len(searches) > 1:
            first, second = (values_by_measure(found) for found in searches)
            for measure in (measure for measure, values in first.items() if values):
                # A second for thousands of questions: not on the event loop.
                compared = await asyncio.to_thread(
                    compare_paired, first[measure], second[measure], rng=self._tools.make_rng()
                )
                results.comparisons.append(comparison_to_wire(measure, compared))
        row = await self._tools.evaluations.add(
            call.identity,
            name.knowledge_base_id,
            name.golden_set_id,
            snapshot_id=asked.inputs.snapshot_id,
            results=json_format.MessageToDict(results, preserving_proto_field_name=True),
        )
        return evaluation_to_wire(row)

    async def _with_sources(
        self, identity: Identity, knowledge_base_id: str, questions: Sequence[GoldenQuestion]
    ) -> list[GoldenQuestion]:
        """Name the versions of the documents that are gold, so that a question goes with them."""
        documents = {item.document_id for question in questions for item in question.gold}
        if not documents:
            return list(questions)
        ordinals = await self._tools.golden_sets.ordinals_of(identity.tenant_id, knowledge_base_id, documents)
        inputs = await self._tools.snapshots.visibility_inputs(identity, knowledge_base_id)
        hidden = frozenset(inputs.hidden)
        known = {name: versions for name, versions in ordinals.items() if hidden.isdisjoint(versions)}
        for place, question in enumerate(questions):
            for item in question.gold:
                if item.document_id not in known:
                    raise InvalidArgumentError(
                        "GOLD_DOCUMENT_UNKNOWN",
                        f"question {place} names a document that does not exist or that you may not see",
                        field=f"questions.{place}.gold",
                    )
        return [
            replace(
                question,
                sources=tuple(sorted({ordinal for item in question.gold for ordinal in known[item.document_id]})),
            )
            for question in questions
        ]


async def _watch(task: "asyncio.Task[_Result]", progress: Progress) -> AsyncGenerator[int]:
    """Tell how far a task is, now and then, until it has ended."""
    told = -1
    while not task.done():
        await asyncio.wait((task,), timeout=_PROGRESS_SECONDS)
        if progress.done_count != told:
            told = progress.done_count
            yield told


def _check_evaluation(request: pb.EvaluateGoldenSetRequest) -> None:
    if request.question_limit < 0:
        raise InvalidArgumentError(
            "QUESTION_LIMIT_INVALID", "question_limit must not be negative", field="question_limit"
        )
    if request.with_answers and request.as_of_snapshot:
        raise InvalidArgumentError(
            "SNAPSHOT_INVALID", "answers see what is published now; leave as_of_snapshot empty", field="as_of_snapshot"
        )
    for field, plan in (("plan", request.plan), ("against", request.against)):
        if plan.metadata_conditions or plan.documents:
            raise InvalidArgumentError("PLAN_INVALID", "an evaluation takes no conditions on documents", field=field)


def _new_id() -> str:
    return f"gs-{secrets.token_hex(6)}"


def _busy() -> OverloadedError:
    return OverloadedError(
        "EVALUATIONS_BUSY",
        "too many evaluations are under way; try again shortly",
        retry_delay_seconds=BUSY_RETRY_SECONDS,
    )
