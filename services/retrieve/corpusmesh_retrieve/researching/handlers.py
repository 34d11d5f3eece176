"""gRPC handler of researches: it connects wire messages to the research and the answerer."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Protocol

from corpusmesh.retrieve.v1 import research_service_pb2 as pb
from corpusmesh.retrieve.v1.research_service_pb2_grpc import ResearchServiceServicer
from corpusmesh_core.errors import InvalidArgumentError, OverloadedError
from corpusmesh_core.prompts.research_report_v1 import RESEARCH_REPORT_V1
from corpusmesh_core.research.budget import BudgetShares, ResearchBudget, ResearchCost, share_budget
from corpusmesh_retrieve.answer_handlers import ModelBounds
from corpusmesh_retrieve.answering import Answerer, AnswerOptions, AnswerResult
from corpusmesh_retrieve.answering.answerer import WRITE_STAGE
from corpusmesh_retrieve.asking import ModelBudget, ModelSession
from corpusmesh_retrieve.config import RetrieveSettings
from corpusmesh_retrieve.convert import history_of, metadata_of
from corpusmesh_retrieve.metrics import RESEARCHES_TOTAL
from corpusmesh_retrieve.outcome import SearchRequest
from corpusmesh_retrieve.request_checks import check_query, knowledge_base_ids_of
from corpusmesh_retrieve.researching.reporting import ResearchReport
from corpusmesh_retrieve.researching.running import Research, ResearchPlan
from corpusmesh_retrieve.researching.sources import KnowledgeBaseSource, WebResearchSource, planned_for_research
from corpusmesh_retrieve.researching.writing import cost_to_wire, evidence_to_wire, node_to_wire, summary_to_wire
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_retrieve.web import WebSource
from corpusmesh_runtime.context import CallContext, require_call
from corpusmesh_runtime.retrieval_plans import make_plan
from corpusmesh_runtime.tenant_slots import BUSY_RETRY_SECONDS, TenantSlots

_MIN_EVIDENCE_TOKENS = 100
_MAX_EVIDENCE_TOKENS = 100_000
_DEFAULT_EVIDENCE_TOKENS = 8_000
_MAX_EVIDENCE_COUNT = 48
_HITS_PER_QUESTION = 8
_GRACE_SECONDS = 5.0


class ResearchSessionOpener(Protocol):
    """Gives a research its access to the language model."""

    def __call__(self, *, model_free: bool, budget: ModelBudget | None = None) -> ModelSession:
        """Open a session.

        Args:
            model_free: Whether no language model is wanted.
            budget: What its steps may cost; None for the default.

        Returns:
            The session.
        """
        ...


@dataclass(frozen=True, slots=True)
class ResearchTools:
    """What researches are made with.

    Attributes:
        searcher: Runs searches.
        answerer: Writes answers.
        web: The web as a source; None where no search engine is configured.
        open_session: Gives a request its access to the language model.
        has_model: Whether a language model is configured.
        bounds: Bounds of its answers.
    """

    searcher: Searcher
    answerer: Answerer
    web: WebSource | None
    open_session: ResearchSessionOpener
    has_model: bool
    bounds: ModelBounds


class ResearchHandlers(ResearchServiceServicer):
    """Researches questions."""

    def __init__(self, tools: ResearchTools, settings: RetrieveSettings) -> None:
        """Create the handlers.

        Args:
            tools: What researches are made with.
            settings: Defaults and bounds.
        """
        self._tools = tools
        self._settings = settings
        self._slots = TenantSlots(settings.max_concurrent_researches, busy=_busy)

    async def Research(
        self,
        request: pb.ResearchRequest,
        context: Any,
    ) -> AsyncIterator[pb.ResearchResponse]:
        """See the contract."""
        call = require_call()
        with self._slots.taken(call.identity.tenant_id):
            # Closed at once where the caller leaves, so that its searches and calls end with it.
            async with aclosing(self._research(call, request)) as pieces:
                async for piece in pieces:
                    yield piece

    async def _research(self, call: CallContext, request: pb.ResearchRequest) -> AsyncGenerator[pb.ResearchResponse]:
        started = time.monotonic()
        plan, shares = self._plan(request)
        knowledge_bases = KnowledgeBaseSource(self._tools.searcher, plan.request)
        web = self._web(request)
        research = Research(plan, knowledge_bases, [web] if web is not None else [])
        exploring = asyncio.create_task(research.explore(call))
        try:
            while (node := await research.events.get()) is not None:
                yield pb.ResearchResponse(progress=node_to_wire(node))
            outcome = await exploring
            await knowledge_bases.keep_visible(call, outcome)
        finally:
            exploring.cancel()
            await asyncio.gather(exploring, return_exceptions=True)
        if request.plan.correction.web and web is None:
            outcome.notes.append("the web was not searched: no search engine is configured")
        options = self._answer_options(request, shares, len(outcome.ranked))
        report = ResearchReport(self._tools.answerer, research, outcome, options)
        # The answer has what is left of the budget's time, and a little more rather than an error.
        own_call = replace(
            call,
            deadline_monotonic_seconds=min(
                call.deadline_monotonic_seconds, started + plan.budget.max_seconds + _GRACE_SECONDS
            ),
        )
        result = report.gather()
        result.notes.extend(outcome.notes)
        yield pb.ResearchResponse(evidence=evidence_to_wire(result, outcome))
        async with aclosing(report.write(own_call, result)) as texts:
            async for text in texts:
                yield pb.ResearchResponse(text_delta=text)
        session = plan.request.session
        has_asked = any(stage.name == WRITE_STAGE for stage in outcome.stages)
        cost = ResearchCost(
            call_count=session.call_count + has_asked,
            token_count=session.token_count + (_answer_tokens(result) if has_asked else 0),
            seconds=time.monotonic() - started,
            search_count=knowledge_bases.search_count,
            web_search_count=web.search_count if web is not None else 0,
        )
        RESEARCHES_TOTAL.labels("budget" if research.spent else "done").inc()
        yield pb.ResearchResponse(summary=await summary_to_wire(research, outcome, result, cost_to_wire(cost)))

    def _plan(self, request: pb.ResearchRequest) -> tuple[ResearchPlan, BudgetShares]:
        identifiers = knowledge_base_ids_of(request.knowledge_bases)
        check_query(request.question, "question", self._settings)
        evidence_tokens = request.max_evidence_tokens or _DEFAULT_EVIDENCE_TOKENS
        if not _MIN_EVIDENCE_TOKENS <= evidence_tokens <= _MAX_EVIDENCE_TOKENS:
            raise InvalidArgumentError(
                "EVIDENCE_BUDGET_INVALID",
                f"max_evidence_tokens must be within {_MIN_EVIDENCE_TOKENS}..{_MAX_EVIDENCE_TOKENS}",
                field="max_evidence_tokens",
            )
        budget = _budget_of(request.budget)
        with_model = self._tools.has_model and not request.model_free
        shares = share_budget(
            budget,
            evidence_tokens=evidence_tokens,
            answer_tokens=self._tools.bounds.max_answer_tokens,
            answer_seconds=self._tools.bounds.deadline_seconds,
            with_model=with_model,
        )
        session = self._tools.open_session(
            model_free=not with_model,
            budget=ModelBudget(
                max_calls=shares.step_calls,
                max_tokens=shares.step_tokens,
                max_concurrent_calls=budget.max_concurrency,
            ),
        )
        search = SearchRequest(
            knowledge_base_ids=identifiers,
            query=request.question,
            make_plan=planned_for_research(
                partial(
                    make_plan,
                    request.plan,
                    page_size=_HITS_PER_QUESTION,
                    default_window=self._settings.candidate_window,
                )
            ),
            session=session,
            metadata=metadata_of(request.plan, knowledge_base_ids=identifiers),
            history=history_of(request.history),
        )
        return ResearchPlan(search, budget, shares), shares

    def _web(self, request: pb.ResearchRequest) -> WebResearchSource | None:
        if self._tools.web is None or not request.plan.correction.web:
            return None
        # Not the assistant's turns: they quote documents.
        turns = (turn.text for turn in history_of(request.history) if turn.is_user)
        asked = "\n".join([request.question, *turns])
        return WebResearchSource(self._tools.web, asked)

    def _answer_options(self, request: pb.ResearchRequest, shares: BudgetShares, found_count: int) -> AnswerOptions:
        return AnswerOptions(
            max_evidence_tokens=shares.evidence_tokens,
            evidence_count=max(1, min(found_count, _MAX_EVIDENCE_COUNT)),
            model_free=request.model_free or not shares.answer_by_model,
            max_answer_tokens=self._tools.bounds.max_answer_tokens,
            model_deadline_seconds=self._tools.bounds.deadline_seconds,
            prompt=RESEARCH_REPORT_V1,
        )


def _budget_of(wire: pb.ResearchBudget) -> ResearchBudget:
    """Read a budget; a field that is 0 has its default."""
    given = {field.name: getattr(wire, field.name) for field in fields(ResearchBudget)}
    return ResearchBudget(**{name: value for name, value in given.items() if value})


def _answer_tokens(result: AnswerResult) -> int:
    """Estimate what the model's answer has cost, used or not; its service tells nobody here."""
    written = len(result.text) // 3 if result.by_model else 0
    return sum(piece.token_count for piece in result.evidence) + written


def _busy() -> OverloadedError:
    return OverloadedError(
        "RESEARCHES_BUSY",
        "too many researches are under way; try again later",
        retry_delay_seconds=BUSY_RETRY_SECONDS,
    )
