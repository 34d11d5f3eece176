"""Stage that tells what a question is looked up by in graphs: keywords of two levels, types and entities, names."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from corpusmesh_core.answering.step_messages import DataBlock
from corpusmesh_core.graph_search.keywords import (
    MAX_KEYWORDS,
    MAX_NAMED,
    MAX_TYPES,
    GraphKeywords,
    keywords_by_rule,
    read_keywords_of_levels,
    read_knowledge_terms,
    types_by_rule,
    with_fallback,
)
from corpusmesh_core.graph_search.knowledge import types_of
from corpusmesh_core.graph_search.reading import named_entities
from corpusmesh_core.graphs.extraction import names_in
from corpusmesh_core.graphs.settings import GraphVectors
from corpusmesh_core.prompts.graph_search_knowledge_v1 import GRAPH_SEARCH_KNOWLEDGE_V1
from corpusmesh_core.prompts.graph_search_levels_v1 import GRAPH_SEARCH_LEVELS_V1
from corpusmesh_core.query import GraphMode
from corpusmesh_retrieve.asking import Made, question_block
from corpusmesh_retrieve.graphs.opening import Graph, open_graphs, searches_graphs
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult, counted
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.graphs.views import GraphViews

LEVELS: Final = frozenset({GraphMode.LOCAL, GraphMode.GLOBAL, GraphMode.HYBRID, GraphMode.MIX})
"""Modes that look entities and relations up by keywords of two levels."""
_WITH_WORDS: Final = LEVELS | {GraphMode.KNOWLEDGE, GraphMode.ADJACENCY}
_MAX_CACHED: Final = 2_048
_CACHED_SECONDS: Final = 3_600.0
_MAX_SHOWN_TYPES: Final = 60


class WordsCache:
    """What a language model made of questions, in this process alone and for an hour.

    Nothing is written down: such words are a user's, belong to no document, and would outlive both in a store whose
    entries go with the versions that they were made from.
    """

    def __init__(self, now_seconds: Callable[[], float] = time.monotonic) -> None:
        """Start empty.

        Args:
            now_seconds: A clock that never goes back.
        """
        self._now_seconds = now_seconds
        self._known: OrderedDict[bytes, tuple[float, GraphKeywords]] = OrderedDict()

    def get(self, key: bytes) -> GraphKeywords | None:
        """Look words up.

        Args:
            key: See `key_of`.

        Returns:
            The words; None where there are none, or they are too old.
        """
        entry = self._known.get(key)
        if entry is None or self._now_seconds() - entry[0] > _CACHED_SECONDS:
            self._known.pop(key, None)
            return None
        self._known.move_to_end(key)
        return entry[1]

    def put(self, key: bytes, words: GraphKeywords) -> None:
        """Keep words; those that were not asked for longest go where there are too many.

        Args:
            key: See `key_of`.
            words: The words.
        """
        self._known[key] = (self._now_seconds(), words)
        self._known.move_to_end(key)
        while len(self._known) > _MAX_CACHED:
            self._known.popitem(last=False)

    @staticmethod
    def key_of(tenant_id: str, prompt: str, question: str, types: Sequence[str] = ()) -> bytes:
        """Name an entry.

        Args:
            tenant_id: The tenant.
            prompt: Version of the prompt.
            question: The question.
            types: Types that were shown.

        Returns:
            A digest of all of it.
        """
        return hashlib.sha256("\0".join((tenant_id, prompt, question, *types)).encode()).digest()


class GraphWords:
    """The stage `graph_words`."""

    name = "graph_words"

    def __init__(self, views: GraphViews) -> None:
        """Create the stage.

        Args:
            views: Gives the graphs that are searched.
        """
        self._views = views
        self._cache = WordsCache()

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        plan = outcome.plan
        return (
            plan.graph.mode in _WITH_WORDS and searches_graphs(plan) and any(view.has_graph for view in outcome.views)
        )

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Tell the words; see `Stage`."""
        graphs = await open_graphs(self._views, call, outcome)
        if not graphs:
            return StageResult(StageState.SKIPPED, detail="there is no graph that you may see")
        mode = outcome.plan.graph.mode
        if mode in LEVELS:
            made = await self._levels(call, outcome, graphs)
        elif mode is GraphMode.KNOWLEDGE:
            made = await self._knowledge(call, outcome, graphs)
        else:
            made = Made(_by_rule(outcome, graphs), by_model=False)
        words = with_fallback(made.value, outcome.question)
        outcome.graph_keywords = words
        outcome.probes = _probes(words, mode, graphs)
        told = f"{counted(len(words.low), 'particular keyword')}, {len(words.high)} general"
        types = f", {counted(len(words.types), 'type')}" if words.types else ""
        return StageResult(by_model=made.by_model, detail=f"{told}{types}")

    async def _levels(self, call: CallContext, outcome: SearchOutcome, graphs: Sequence[Graph]) -> Made[GraphKeywords]:
        plan = outcome.plan.graph
        if plan.high_level_keywords or plan.low_level_keywords:
            return Made(GraphKeywords(plan.high_level_keywords, plan.low_level_keywords), by_model=False)
        key = WordsCache.key_of(call.identity.tenant_id, GRAPH_SEARCH_LEVELS_V1.version, outcome.question)
        if (known := self._known(outcome, key)) is not None:
            return Made(known, by_model=True)
        made = await outcome.request.session.make(
            call,
            GRAPH_SEARCH_LEVELS_V1,
            [question_block(outcome.question)],
            read=read_keywords_of_levels,
            otherwise=partial(_by_rule, outcome, graphs),
            parameters={"count": str(MAX_KEYWORDS)},
        )
        return self._kept(made, key)

    async def _knowledge(
        self, call: CallContext, outcome: SearchOutcome, graphs: Sequence[Graph]
    ) -> Made[GraphKeywords]:
        types = tuple(dict.fromkeys(name for graph in graphs for name in types_of(graph.view, _MAX_SHOWN_TYPES)))
        types = types[:_MAX_SHOWN_TYPES]
        plan = outcome.plan.graph

        def by_rule() -> GraphKeywords:
            words = _by_rule(outcome, graphs)
            low = plan.low_level_keywords or words.low
            return GraphKeywords(low=low[:MAX_NAMED], types=types_by_rule(outcome.question, types))

        if plan.low_level_keywords:
            return Made(by_rule(), by_model=False)
        version = GRAPH_SEARCH_KNOWLEDGE_V1.version
        key = WordsCache.key_of(call.identity.tenant_id, version, outcome.question, types)
        if (known := self._known(outcome, key)) is not None:
            return Made(known, by_model=True)
        made = await outcome.request.session.make(
            call,
            GRAPH_SEARCH_KNOWLEDGE_V1,
            [question_block(outcome.question), DataBlock("types", "\n".join(types))],
            read=lambda answer: read_knowledge_terms(answer, types),
            otherwise=by_rule,
            parameters={"types": str(MAX_TYPES), "entities": str(MAX_NAMED)},
        )
        return self._kept(made, key)

    def _known(self, outcome: SearchOutcome, key: bytes) -> GraphKeywords | None:
        # Who wants no language model gets what none has made.
        return self._cache.get(key) if outcome.request.session.is_open else None

    def _kept(self, made: Made[GraphKeywords], key: bytes) -> Made[GraphKeywords]:
        if made.by_model:
            self._cache.put(key, made.value)
        return made


def _by_rule(outcome: SearchOutcome, graphs: Sequence[Graph]) -> GraphKeywords:
    """Take the names that a graph has as particular words, and what else tells something as general ones."""
    names = names_in(outcome.question)
    found = [name for graph in graphs for name in named_entities(graph.view, names).values()]
    words = keywords_by_rule(outcome.question, found)
    # A graph that has none of the names is still looked up by what the question tells.
    return words if words.low else replace(words, low=words.high)


def _probes(words: GraphKeywords, mode: GraphMode, graphs: Sequence[Graph]) -> tuple[str, ...]:
    """Name the texts whose vectors entities and relations are compared with; none where they have none."""
    if all(graph.vectors is GraphVectors.NONE for graph in graphs):
        return ()
    if mode in LEVELS:
        return tuple(text for text in (joined(words.low), joined(words.high)) if text)
    return tuple(dict.fromkeys(words.low[:MAX_NAMED]))


def joined(words: Sequence[str]) -> str:
    """Make one text of keywords, as it is embedded and searched.

    Args:
        words: Keywords.

    Returns:
        Them, joined by commas.
    """
    return ", ".join(words)
