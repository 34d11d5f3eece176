"""Asks the questions of a golden set and measures what comes back."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh.retrieve.v1 import evaluation_service_pb2 as pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh.type.v1 import place_pb2
from corpusmesh_core.documents import Box
from corpusmesh_core.errors import InternalError
from corpusmesh_core.evaluation import (
    AnswerOutcome,
    FoundText,
    QueryOutcome,
    judge_hits,
    ndcg_at,
    recall_at,
    reciprocal_rank,
    summarise_answers,
    summarise_quality,
)
from corpusmesh_core.ports.golden_sets import GoldenQuestion
from corpusmesh_core.query import RetrievalPlan
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_retrieve.asking import SessionOpener
from corpusmesh_retrieve.outcome import SearchRequest
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_runtime.context import CallContext, current_call
from corpusmesh_runtime.retrieval_plans import make_plan, plan_to_wire

SCORED_HITS = 40
"""Hits that are looked at: a document may hold several chunks, and ten documents are needed."""
ANSWERS_AT_ONCE = 4
_ANSWER_PATIENCE = 10.0

AnswerRunner = Callable[[answer_pb.AnswerQuestionRequest], AsyncIterator[answer_pb.AnswerQuestionResponse]]
"""Answers a question as the service does, for the call that is being handled."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is measured.

    Attributes:
        knowledge_base_id: Knowledge base.
        plan: How to search; the knowledge base's own plan fills what it leaves open.
        snapshot_id: Snapshot that all searches stay at.
        model_free: Whether to leave the language model alone.
    """

    knowledge_base_id: str
    plan: retrieval_pb.RetrievalPlan
    snapshot_id: int
    model_free: bool


@dataclass(frozen=True, slots=True)
class AskedSearch:
    """What a search gave for one question.

    Attributes:
        question: The question.
        judged: Its ranking; None for a question without gold, by which no retrieval is measured.
        milliseconds: How long it took.
        is_complete: Whether every leg and stage answered.
        plan: The plan that was carried out.
    """

    question: GoldenQuestion
    judged: QueryOutcome | None
    milliseconds: float
    is_complete: bool
    plan: RetrievalPlan


@dataclass(frozen=True, slots=True)
class AskedAnswer:
    """What an answer gave for one question.

    Attributes:
        outcome: The answer.
        milliseconds: How long it took.
        by_model: Whether the language model wrote it.
    """

    outcome: AnswerOutcome
    milliseconds: float
    by_model: bool


@dataclass(slots=True)
class Progress:
    """How far it is; read by whoever waits.

    Attributes:
        done_count: Searches and answers that are done.
    """

    done_count: int = 0

    def step(self) -> None:
        """Count one more."""
        self.done_count += 1


class Measurer:
    """Asks questions."""

    def __init__(
        self,
        searcher: Searcher,
        open_session: SessionOpener,
        *,
        default_window: int,
        question_timeout_seconds: float,
        answer: AnswerRunner | None = None,
    ) -> None:
        """Create it.

        Args:
            searcher: Runs searches.
            open_session: Gives a search its access to the language model.
            default_window: Candidates of each leg where nobody names a window.
            question_timeout_seconds: Longest search.
            answer: Answers questions; None where no answers are measured.
        """
        self._searcher = searcher
        self._open_session = open_session
        self._default_window = default_window
        self._question_timeout_seconds = question_timeout_seconds
        self._answer = answer

    async def search(
        self, call: CallContext, what: Configuration, questions: Sequence[GoldenQuestion], progress: Progress
    ) -> list[AskedSearch]:
        """Search for every question, one at a time so that its milliseconds are its own.

        Args:
            call: The call; its identity searches.
            what: What is measured.
            questions: The questions.
            progress: Told of every search.

        Returns:
            What came back, in their order.
        """
        found: list[AskedSearch] = []
        for question in questions:
            found.append(await self._search_one(call, what, question))
            progress.step()
        return found

    async def answer(
        self, call: CallContext, what: Configuration, questions: Sequence[GoldenQuestion], progress: Progress
    ) -> list[AskedAnswer]:
        """Answer every question, some at once.

        Args:
            call: The call; its identity asks.
            what: What is measured; answers see what is published now.
            questions: The questions.
            progress: Told of every answer.

        Returns:
            What came back, in their order.
        """
        gate = asyncio.Semaphore(ANSWERS_AT_ONCE)

        async def one(question: GoldenQuestion) -> AskedAnswer:
            async with gate:
                found = await self._answer_one(call, what, question)
            progress.step()
            return found

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(question)) for question in questions]
        return [task.result() for task in tasks]

    async def _search_one(self, call: CallContext, what: Configuration, question: GoldenQuestion) -> AskedSearch:
        started = time.perf_counter()
        outcome = await self._searcher.search(
            _patient(call, self._question_timeout_seconds),
            SearchRequest(
                knowledge_base_ids=(what.knowledge_base_id,),
                query=question.question,
                make_plan=partial(
                    make_plan, without_web(what.plan), page_size=SCORED_HITS, default_window=self._default_window
                ),
                session=self._open_session(model_free=what.model_free),
                snapshots={what.knowledge_base_id: what.snapshot_id},
            ),
        )
        milliseconds = (time.perf_counter() - started) * 1000.0
        hits = [_found(item) for item in outcome.kept[:SCORED_HITS]]
        judged = judge_hits(hits, question.gold) if question.gold else None
        return AskedSearch(question, judged, milliseconds, not outcome.unreachable, outcome.plan)

    async def _answer_one(self, call: CallContext, what: Configuration, question: GoldenQuestion) -> AskedAnswer:
        if self._answer is None:
            raise InternalError("ANSWERS_NOT_WIRED", "this service was made without a way to answer")
        # Of its own task: the handler takes the call from the context.
        current_call.set(_patient(call, self._question_timeout_seconds * _ANSWER_PATIENCE))
        summary = answer_pb.AnswerSummary()
        started = time.perf_counter()
        async for piece in self._answer(
            answer_pb.AnswerQuestionRequest(
                knowledge_bases=[f"knowledgeBases/{what.knowledge_base_id}"],
                question=question.question,
                plan=without_web(what.plan),
                model_free=what.model_free,
            )
        ):
            if piece.HasField("summary"):
                summary = piece.summary
        milliseconds = (time.perf_counter() - started) * 1000.0
        outcome = AnswerOutcome(
            text=summary.text,
            cited=tuple(found_hit(citation.hit) for citation in summary.citations),
            abstained=summary.abstained,
            gold=question.gold,
            expected=question.answers,
        )
        return AskedAnswer(outcome, milliseconds, summary.method == answer_pb.AnswerSummary.METHOD_MODEL)


def without_web(plan: retrieval_pb.RetrievalPlan) -> retrieval_pb.RetrievalPlan:
    """Keep the questions of a golden set in the installation: they are made of what documents say.

    Args:
        plan: A plan.

    Returns:
        The plan without the web, whatever a knowledge base's own plan says.
    """
    own = retrieval_pb.RetrievalPlan()
    own.CopyFrom(plan)
    own.correction.web = False
    return own


def measures_of(searches: Sequence[AskedSearch], answers: Sequence[AskedAnswer] = ()) -> pb.PlanMeasures:
    """Summarise what came back.

    Args:
        searches: Searches, at least one.
        answers: Answers; none where none were asked for.

    Returns:
        The measures.
    """
    durations = [search.milliseconds for search in searches]
    measures = pb.PlanMeasures(
        effective_plan=plan_to_wire(searches[0].plan),
        search_milliseconds_p50=percentile(durations, 0.5),
        search_milliseconds_p95=percentile(durations, 0.95),
        incomplete_count=sum(not search.is_complete for search in searches),
    )
    judged = [search.judged for search in searches if search.judged is not None]
    if judged:
        quality = summarise_quality(judged)
        recall = dict(quality.recall)
        measures.answerable_count = quality.query_count
        measures.recall_at_2, measures.recall_at_5, measures.recall_at_10 = recall[2], recall[5], recall[10]
        measures.ndcg_at_10, measures.mrr = quality.ndcg, quality.mean_reciprocal_rank
    if answers:
        measures.answers.CopyFrom(_answer_measures(answers))
    return measures


def values_by_measure(searches: Sequence[AskedSearch]) -> dict[str, list[float]]:
    """Give the measures of each question with gold, to compare or to gate.

    Args:
        searches: Searches.

    Returns:
        Values in their order, by name of the measure.
    """
    judged = [search.judged for search in searches if search.judged is not None]
    return {
        "recall_at_5": [recall_at(entry.ranked, entry.gold, 5) for entry in judged],
        "ndcg_at_10": [ndcg_at(entry.ranked, entry.gold, 10) for entry in judged],
        "mrr": [reciprocal_rank(entry.ranked, entry.gold) for entry in judged],
    }


def percentile(values: Sequence[float], share: float) -> float:
    """Give the value below which a share of values lies, by nearest rank.

    Args:
        values: At least one value.
        share: 0 to 1.

    Returns:
        One of the values.
    """
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _answer_measures(answers: Sequence[AskedAnswer]) -> pb.AnswerMeasures:
    quality = summarise_answers([answer.outcome for answer in answers])
    durations = [answer.milliseconds for answer in answers]
    return pb.AnswerMeasures(
        citation_precision=quality.citation_precision,
        citation_recall=quality.citation_recall,
        abstention_accuracy=quality.abstention_accuracy,
        answer_accuracy=quality.answer_accuracy,
        abstained_count=quality.abstained_count,
        by_model_count=sum(answer.by_model for answer in answers),
        milliseconds_p50=percentile(durations, 0.5),
        milliseconds_p95=percentile(durations, 0.95),
    )


def _patient(call: CallContext, seconds: float) -> CallContext:
    deadline = min(call.deadline_monotonic_seconds, time.monotonic() + seconds)
    return replace(call, deadline_monotonic_seconds=deadline)


def _found(item: RankedCandidate) -> FoundText:
    record = item.candidate.record
    return FoundText(record.record_id, record.document_id, record.text, _pages(record.layer, record.page, record.boxes))


def found_hit(hit: retrieval_pb.SearchHit) -> FoundText:
    """Read a hit as an evaluation judges it.

    Args:
        hit: The hit.

    Returns:
        Its text, its document and its pages. A summary counts by the words that it quotes alone: what stands beneath it
        was not found.
    """
    pages = _pages(hit.layer, hit.place.page, hit.place.boxes)
    return FoundText(hit.record_id, hit.document.rpartition("/")[2], hit.text, pages)


def _pages(layer: int, first: int, boxes: Iterable[Box | place_pb2.Box]) -> frozenset[int]:
    """Name the pages that a hit stands on: a summary on none, it is found by the words that it quotes alone."""
    if layer:
        return frozenset()
    return frozenset(page for page in (first, *(box.page for box in boxes)) if page)
