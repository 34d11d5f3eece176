"""Stage that lets graphs lead from what question and hits name to further passages; no language model takes part."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from corpusmesh_core.graph_search.linking import question_links
from corpusmesh_core.graph_search.page_rank import MAX_ROUNDS, GraphOptions, GraphSearch, rank_by_graphs
from corpusmesh_core.graph_search.steps import (
    MAX_STEPS,
    GraphStep,
    StepKind,
    StepOutcome,
    StepReason,
    entity_name,
)
from corpusmesh_core.ports.index import Candidates
from corpusmesh_core.query import GraphMode
from corpusmesh_core.ranking import RankedCandidate, merge_ranked, rank_candidates
from corpusmesh_core.records import RecordKind
from corpusmesh_retrieve.graphs.opening import Graph, open_graphs, searches_graphs
from corpusmesh_retrieve.hopping import term_weights
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.recalling import Recaller
from corpusmesh_retrieve.stages import StageResult, counted
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.graphs.views import GraphViews

_CHUNK_KINDS: Final = (RecordKind.CHUNK,)
_MAX_SECONDS: Final = 2.0
"""Longest wait for graphs that are not in memory yet: a search that nobody told to use one must not hang on it."""


class PageRankStage:
    """The default way to search graphs: personalised PageRank; it stands where names are followed, and follows them."""

    name = "graph_walk"

    def __init__(self, views: GraphViews, recaller: Recaller) -> None:
        """Create the stage.

        Args:
            views: Gives the graphs that are searched.
            recaller: Scores passages.
        """
        self._views = views
        self._recaller = recaller

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`; where no knowledge base has a graph, nothing is asked and nothing is told."""
        return (
            outcome.plan.graph.mode is GraphMode.PAGE_RANK
            and searches_graphs(outcome.plan)
            and any(view.has_graph for view in outcome.views)
        )

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Walk; see `Stage`."""
        graphs = await open_graphs(self._views, call, outcome, max_seconds=_MAX_SECONDS)
        if not graphs:
            return StageResult(StageState.SKIPPED, detail="there is no graph that you may see")
        plan = outcome.plan.graph
        options = GraphOptions(damping=plan.damping, passage_weight=plan.passage_weight)
        weights = term_weights(outcome)
        # From here on tens of milliseconds of a processor: not on the event loop.
        searches = await asyncio.to_thread(
            lambda: [
                GraphSearch(outcome.question, outcome.terms, weights, graph.view, options=options) for graph in graphs
            ]
        )
        ranked = outcome.ranked
        found: dict[str, None] = {}
        for _ in range(MAX_ROUNDS):
            wanted = await asyncio.to_thread(_wanted, searches, ranked)
            if not wanted:
                break
            further = await self._further(call, outcome, graphs, ranked, wanted)
            found.update(dict.fromkeys(item.candidate.record.record_id for item in further))
            ranked = merge_ranked(ranked, further)
        ranked = await asyncio.to_thread(rank_by_graphs, searches, ranked)
        outcome.graph_path.extend(_path(outcome, graphs, ranked, found)[: MAX_STEPS - len(outcome.graph_path)])
        outcome.ranked = ranked
        named = sum(search.named_count for search in searches)
        kept = sum(item.is_kept and item.candidate.record.record_id in found for item in ranked)
        return StageResult(
            detail=f"{counted(named, 'entity') if named == 1 else f'{named} entities'} named; "
            f"{counted(len(found), 'further passage')}, {kept} of them kept"
        )

    async def _further(
        self,
        call: CallContext,
        outcome: SearchOutcome,
        graphs: Sequence[Graph],
        ranked: Sequence[RankedCandidate],
        wanted: Sequence[str],
    ) -> list[RankedCandidate]:
        """Score passages as recalled ones are, in one round trip to each space; hidden ones do not come back."""
        spaces = {graph.space.space_id for graph in graphs}
        places = [place for place, view in enumerate(outcome.views) if view.space_id in spaces]
        answers = await asyncio.gather(
            *(self._recaller.score(call, outcome, outcome.views[place], wanted, kinds=_CHUNK_KINDS) for place in places)
        )
        known = {item.candidate.record.record_id for item in ranked}
        firsts = [outcome.found[place][0] if outcome.found[place] else Candidates(()) for place in places]

        def rank() -> list[RankedCandidate]:
            options = outcome.plan.ranking_options()
            further: list[RankedCandidate] = []
            for first, answer in zip(firsts, answers, strict=True):
                new = {item.record.record_id: item for item in answer.items if item.record.record_id not in known}
                others = tuple(item for item in first.items if item.record.record_id not in new)
                # Among those of the search: across scripts a similarity is an estimate from the others.
                everything = replace(answer, items=(*others, *new.values()))
                scored = rank_candidates(everything, outcome.terms, options, rank_features=outcome.rank_features)
                further += [item for item in scored if item.candidate.record.record_id in new]
            return further

        return await asyncio.to_thread(rank)


def _wanted(searches: Sequence[GraphSearch], ranked: Sequence[RankedCandidate]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(record_id for search in searches for record_id in search.wanted(ranked)))


def _path(
    outcome: SearchOutcome, graphs: Sequence[Graph], ranked: Sequence[RankedCandidate], found: Collection[str]
) -> list[GraphStep]:
    """Tell what the question named, and what the walk came by."""
    seeds = [
        GraphStep(
            StepKind.ENTITY,
            entity_name(graph.knowledge_base_id, int(graph.view.entity_keys[link.entity])),
            graph.view.name(link.entity),
            StepReason.NAMED,
            link.bearing,
            outcome=StepOutcome.SEED,
        )
        for graph in graphs
        for link in question_links(outcome.question, graph.view)
    ]
    walked = [
        GraphStep(
            StepKind.CHUNK,
            item.candidate.record.record_id,
            "",
            StepReason.WALK,
            item.similarity,
            hop=1,
            outcome=StepOutcome.KEPT if item.is_kept else StepOutcome.DROPPED,
        )
        for item in ranked
        if item.candidate.record.record_id in found
    ]
    return [*seeds, *walked]
