"""Where a research finds evidence: knowledge bases now, the web where it is wanted; others come as further sources."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.query import CorrectionPlan, RetrievalPlan
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.records import RULE_BY_KIND, Record, RecordKind
from corpusmesh_core.research.outgoing import outgoing_query
from corpusmesh_core.research.tree import question_key
from corpusmesh_core.visibility import is_visible
from corpusmesh_retrieve.outcome import PlanMaker, SearchOutcome, SearchRequest, SpaceView
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_retrieve.web import WebSource
from corpusmesh_runtime.context import CallContext

WEB_RESULTS = 5
"""Pages that are read, and passages that are taken, for one question."""


class ResearchSource(Protocol):
    """One place to find evidence.

    Summaries of a tree are records of a knowledge base and come with it; a graph would be a source of its own.
    """

    @property
    def name(self) -> str:
        """Its name in progress and notes."""
        ...

    async def search(self, call: CallContext, question: str) -> Sequence[RankedCandidate]:
        """Search for one question.

        Args:
            call: The call; its deadline bounds the search, its identity decides what is visible.
            question: The question.

        Returns:
            What was found, best first.

        Raises:
            UnavailableError: If it does not answer.
            OverloadedError: If it refuses more work.
            DeadlineExceededError: If the time is over.
        """
        ...


class KnowledgeBaseSource:
    """The knowledge bases of the request. The first search settles what all others see.

    That are the knowledge bases, their snapshots, the stand-alone question and the conditions read out of it.
    """

    name = "knowledge bases"

    def __init__(self, searcher: Searcher, request: SearchRequest) -> None:
        """Create the source of one research.

        Args:
            searcher: Runs searches.
            request: The search of the question that was asked.
        """
        self._searcher = searcher
        self._request = request
        self.first: SearchOutcome | None = None
        self.search_count = 0
        self.unreachable: dict[str, None] = {}
        self.leaves: dict[str, tuple[Record, ...]] = {}
        """Chunks beneath the nodes of trees that were found, by record id of the node."""
        self.vectors: dict[str, NDArray[np.float32] | None] = {}
        """Vector of each question that was searched, in the space of the first."""

    async def search(self, call: CallContext, question: str) -> Sequence[RankedCandidate]:
        """Search the knowledge bases; see `ResearchSource`.

        Args:
            call: The call.
            question: The question.

        Returns:
            What was found, best first.
        """
        if self.first is not None and not self.first.snapshots:
            return ()  # the router found nothing to search
        request = self._request if self.first is None else self._following(self.first, question)
        self.search_count += 1
        outcome = await self._searcher.search(call, request)
        if self.first is None:
            self.first = outcome
        self.unreachable.update(dict.fromkeys(outcome.unreachable))
        self.leaves.update(outcome.leaves)
        is_comparable = outcome.query_space_id == self.first.query_space_id
        self.vectors[outcome.question] = outcome.query_vector if is_comparable else None
        return outcome.kept[: outcome.plan.page_size]

    async def keep_visible(self, call: CallContext, outcome: SearchOutcome) -> None:
        """Leave out what the caller may not see any more: rights can be taken away while a research goes on.

        Args:
            call: The call.
            outcome: What the research found, on the snapshots that it began with; loses what is hidden by now.
        """
        if not outcome.snapshots:
            return
        try:
            await self._searcher.look(call, outcome)
        except NotFoundError:
            outcome.views = ()
        outcome.ranked = tuple(item for item in outcome.ranked if _may_show(item.candidate.record, outcome.views))
        outcome.leaves = {
            name: tuple(leaf for leaf in leaves if _may_show(leaf, outcome.views))
            for name, leaves in outcome.leaves.items()
        }

    def _following(self, first: SearchOutcome, question: str) -> SearchRequest:
        metadata = self._request.metadata
        if first.inferred:
            metadata = replace(metadata, conditions=(*metadata.conditions, *first.inferred))
        return replace(
            self._request,
            knowledge_base_ids=tuple(first.snapshots),
            query=question,
            snapshots=dict(first.snapshots),
            metadata=metadata,
            history=(),
            make_plan=lambda configs: _for_parts(self._request.make_plan(configs)),
        )


def _may_show(record: Record, views: Sequence[SpaceView]) -> bool:
    if record.kind is RecordKind.WEB_PAGE:
        return True
    rule = RULE_BY_KIND[record.kind]
    return any(
        record.knowledge_base_id in view.knowledge_base_ids
        and is_visible(record.publisher, record.sources, rule, view.visibility)
        for view in views
    )


def planned_for_research(make_plan: PlanMaker) -> PlanMaker:
    """Leave out of a plan what the research does itself, and better.

    Args:
        make_plan: Makes the plan of the request.

    Returns:
        Makes that plan without decomposition, step-back and further searches; the answer may still be reflected on.
    """

    def make(configs: Sequence[object]) -> RetrievalPlan:
        plan = make_plan(configs)  # type: ignore[arg-type] # handed through
        understanding = replace(plan.understanding, decompose=False, step_back=False)
        return replace(plan, understanding=understanding, correction=CorrectionPlan(reflect=plan.correction.reflect))

    return make


def _for_parts(plan: RetrievalPlan) -> RetrievalPlan:
    """Parts stand alone, and what was read out of the first question holds for them."""
    return replace(plan, understanding=replace(plan.understanding, refine=False, metadata_filter=False))


class WebResearchSource:
    """The web, asked with words of the user alone, and never twice the same."""

    name = "web"

    def __init__(self, web: WebSource, asked: str) -> None:
        """Create the source of one research.

        Args:
            web: The web.
            asked: What the user wrote: the question and the turns before it.
        """
        self._web = web
        self._asked = asked
        self._sent: set[frozenset[str]] = set()
        self.search_count = 0

    async def search(self, call: CallContext, question: str) -> Sequence[RankedCandidate]:
        """Search the web; see `ResearchSource`.

        Args:
            call: The call.
            question: The question; words of it that the user did not write are left out.

        Returns:
            What was found, best first; nothing for words that were searched for already.
        """
        sent = outgoing_query(question, self._asked)
        key = question_key(sent)
        if not sent or key in self._sent:
            return ()
        self._sent.add(key)
        self.search_count += 1
        return await self._web.search(call, question, max_results=WEB_RESULTS, asked=self._asked)
