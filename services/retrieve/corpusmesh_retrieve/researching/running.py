"""One research: a tree of questions, worked on side by side within one budget (seed 000, section 4).

Each question is searched, then judged; where what was found is not enough, it is taken apart by what is missing, and
the parts are worked on in the same way. The end of the budget ends all of them at once, and what was found stays.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import DeadlineExceededError, OverloadedError, UnavailableError, first_cause
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.research.budget import BudgetShares, ResearchBudget
from corpusmesh_core.research.evidence import merge_findings
from corpusmesh_core.research.tree import ROOT_ID, QuestionNode, QuestionState, QuestionTree
from corpusmesh_retrieve.asking import ModelSession
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest
from corpusmesh_retrieve.researching.judging import Judgement, OpenQuestion, ask_next, judge
from corpusmesh_retrieve.researching.sources import KnowledgeBaseSource, ResearchSource
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.logging import get_logger

_EVENTS_PER_QUESTION = 4
_KEPT_SHARE = 0.3
"""Most of a caller's time that is kept for the answer."""
_UNFINISHED = (QuestionState.WAITING, QuestionState.SEARCHING, QuestionState.FOUND)
_TRANSIENT = (UnavailableError, OverloadedError, DeadlineExceededError)
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ResearchPlan:
    """What is researched, and for how much.

    Attributes:
        request: The search of the question that was asked.
        budget: Bounds of the tree.
        shares: What of the budget the search for evidence has.
    """

    request: SearchRequest
    budget: ResearchBudget
    shares: BudgetShares


@dataclass(slots=True)
class _Found:
    """Evidence by question, shared by all that work at the same time.

    It is changed between awaits alone, so that within one event loop it needs no lock.
    """

    by_question: dict[str, list[Sequence[RankedCandidate]]] = field(default_factory=dict)
    record_ids: set[str] = field(default_factory=set)

    def add(self, node_id: str, items: Sequence[RankedCandidate]) -> int:
        """Take in what a source found for a question; tells how many records no question had found before."""
        self.by_question.setdefault(node_id, []).append(items)
        before = len(self.record_ids)
        self.record_ids.update(_record_id(item) for item in items)
        return len(self.record_ids) - before


class Research:
    """One research under way."""

    def __init__(
        self, plan: ResearchPlan, knowledge_bases: KnowledgeBaseSource, others: Sequence[ResearchSource]
    ) -> None:
        """Begin a research without searching.

        Args:
            plan: What is researched.
            knowledge_bases: The first source; the first question waits for it alone.
            others: Further sources.
        """
        self._plan = plan
        self._knowledge_bases = knowledge_bases
        self._sources: tuple[ResearchSource, ...] = (knowledge_bases, *others)
        self._slots = asyncio.Semaphore(plan.budget.max_concurrency)
        self._found = _Found()
        self.tree = QuestionTree(plan.request.query, plan.budget)
        # Bounded by what the tree can hold, so that a slow reader never holds up the search.
        self.events: asyncio.Queue[QuestionNode | None] = asyncio.Queue(
            _EVENTS_PER_QUESTION * plan.budget.max_questions + 1
        )
        self.spent: dict[str, None] = {}
        """What of the budget was spent before the research was done, in the order it happened."""
        self.unreachable: dict[str, None] = {}
        """Sources and legs that did not answer."""

    @property
    def session(self) -> ModelSession:
        """Its access to the language model."""
        return self._plan.request.session

    def record_ids_of(self, node_id: str) -> tuple[str, ...]:
        """Name the evidence that was found for a question.

        Args:
            node_id: The question.

        Returns:
            Records, those of each source best first.
        """
        return tuple(_record_id(item) for items in self._found.by_question.get(node_id, ()) for item in items)

    def vector_of(self, node_id: str) -> NDArray[np.float32] | None:
        """Give the vector of a question.

        Args:
            node_id: The question.

        Returns:
            Its vector; None where it was searched by words alone.
        """
        return self._knowledge_bases.vectors.get(self.tree.node(node_id).text)

    async def explore(self, call: CallContext) -> SearchOutcome:
        """Search until all questions are answered or something of the budget is spent; then `events` ends with None.

        Args:
            call: The call.

        Returns:
            The search of the question that was asked, with the evidence of all questions in the order that is fair to
            each.

        Raises:
            NotFoundError: If a knowledge base is not there for the caller.
            UnavailableError: If the first search fails, so that nothing at all is known.
            DeadlineExceededError: If the time of the call itself is over.
        """
        try:
            await self._explore(call)
        finally:
            self._end_unfinished()
            self.events.put_nowait(None)
        return self._outcome()

    async def _explore(self, call: CallContext) -> None:
        plan = self._plan
        # A caller that waits for less than the budget gets an answer within its own time.
        remaining = call.remaining_seconds()
        kept = min(plan.budget.max_seconds - plan.shares.search_seconds, _KEPT_SHARE * remaining)
        seconds = min(plan.shares.search_seconds, remaining - kept)
        own_call = replace(call, deadline_monotonic_seconds=time.monotonic() + seconds)
        try:
            async with asyncio.timeout(seconds):
                await self._work_on(own_call, ROOT_ID)
        except (TimeoutError, DeadlineExceededError):
            self._run_out(call)
        except ExceptionGroup as group:
            cause = first_cause(group)
            if not isinstance(cause, DeadlineExceededError):
                raise cause from group
            self._run_out(call)

    def _run_out(self, call: CallContext) -> None:
        call.remaining_seconds()  # where the caller's own time is over there is nobody to answer
        self.spent.setdefault("seconds")

    async def _work_on(self, call: CallContext, node_id: str) -> None:
        async with self._slots:
            children = await self._search_and_judge(call, node_id)
        # Its slot is free for its parts: waiting with it would leave none at all.
        if children:
            async with asyncio.TaskGroup() as group:
                for child in children:
                    group.create_task(self._work_on(call, child.node_id))

    async def _search_and_judge(self, call: CallContext, node_id: str) -> Sequence[QuestionNode]:
        node = self._tell(node_id, state=QuestionState.SEARCHING)
        found, new_count, silent = await self._search(call, node)
        if node_id == ROOT_ID and self._knowledge_bases.first is not None:
            # What is researched is the stand-alone question, whatever the conversation left out.
            node = self.tree.restate(self._knowledge_bases.first.question)
        detail = f"{', '.join(silent)} did not answer" if silent else ""
        self._tell(node_id, state=QuestionState.FOUND, found_count=len(found), new_count=new_count, detail=detail)
        made = await judge(call, self.session, node.text, found)
        if made.value.is_sufficient:
            self._tell(node_id, state=QuestionState.SUFFICIENT, by_model=made.by_model)
            return ()
        known = {"missing": made.value.missing, "by_model": made.by_model}
        if not self.tree.may_grow(node_id):
            is_deepest = self.tree.node(node_id).level >= self._plan.budget.max_depth
            self.spent.setdefault("levels of questions" if is_deepest else "questions")
            self._tell(node_id, state=QuestionState.STOPPED, detail=_joined(detail, "no further question"), **known)
            return ()
        children = await self._take_apart(call, node, made.value, found)
        if not children:
            self._tell(node_id, state=QuestionState.STOPPED, detail=_joined(detail, "nothing new to ask"), **known)
            return ()
        self._tell(node_id, state=QuestionState.DECOMPOSED, **known)
        return [self._tell(child.node_id) for child in children]

    async def _search(
        self, call: CallContext, node: QuestionNode
    ) -> tuple[Sequence[RankedCandidate], int, Sequence[str]]:
        """Ask every source; gives all that was found, how much of it is new, and who did not answer."""
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._ask(call, source, node)) for source in self._sources]
        results = [task.result() for task in asked]
        new_count = sum(self._found.add(node.node_id, items) for items in results if items)
        silent = [source.name for source, items in zip(self._sources, results, strict=True) if items is None]
        self.unreachable.update(dict.fromkeys(silent))
        return merge_findings([items for items in results if items], _record_id), new_count, silent

    async def _ask(
        self, call: CallContext, source: ResearchSource, node: QuestionNode
    ) -> Sequence[RankedCandidate] | None:
        """Ask a source; None if it does not answer. The first search of the knowledge bases must."""
        try:
            return await source.search(call, node.text)
        except _TRANSIENT as error:
            if node.node_id == ROOT_ID and source is self._knowledge_bases:
                raise
            # At the end of the budget's time all sources fall silent; that is told once, by the budget.
            call.remaining_seconds()
            _log.warning("source of a research left out", source=source.name, reason=error.reason)
            return None

    async def _take_apart(
        self, call: CallContext, node: QuestionNode, judgement: Judgement, found: Sequence[RankedCandidate]
    ) -> Sequence[QuestionNode]:
        wanted = OpenQuestion(
            asked=self.tree.root.text,
            question=node.text,
            judgement=judgement,
            found=found,
            others=[other.text for other in self.tree.nodes],
        )
        made = await ask_next(call, self.session, wanted, max_count=self._plan.budget.max_children)
        children = self.tree.add_children(node.node_id, made.value)
        if self.tree.is_full:
            self.spent.setdefault("questions")
        return children

    def _tell(self, node_id: str, **changes: object) -> QuestionNode:
        node = self.tree.update(node_id, **changes)
        self.events.put_nowait(node)
        return node

    def _end_unfinished(self) -> None:
        for node in self.tree.nodes:
            if node.state in _UNFINISHED:
                self.tree.update(
                    node.node_id, state=QuestionState.STOPPED, detail=_joined(node.detail, "the time was over")
                )

    def _outcome(self) -> SearchOutcome:
        shares = self._plan.shares
        session = self.session
        if shares.step_calls and (session.call_count >= shares.step_calls or session.token_count >= shares.step_tokens):
            self.spent.setdefault("calls or tokens of the language model")
        first = self._knowledge_bases.first or SearchOutcome(self._plan.request, question=self._plan.request.query)
        self.unreachable.update(self._knowledge_bases.unreachable)
        order = [node.node_id for node in self.tree.nodes]
        findings = [items for node_id in order for items in self._found.by_question.get(node_id, ())]
        return replace(
            first,
            ranked=merge_findings(findings, _record_id),
            leaves=dict(self._knowledge_bases.leaves),
            # What was left out of evidence for one question may be what another one asks for.
            compressed=first.compressed if len(order) == 1 else {},
            unreachable=list(self.unreachable),
            notes=list(first.notes),
            stages=list(first.stages),
        )


def _record_id(item: RankedCandidate) -> str:
    return item.candidate.record.record_id


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
