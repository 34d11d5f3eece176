"""Stages that search graphs as the plan says, and put what these say before all other hits."""

from collections.abc import Mapping
from typing import Final, Protocol

from corpusmesh_core.graph_search.records import is_table
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.ports.reranking import PassageReranker
from corpusmesh_core.query import GraphMode
from corpusmesh_retrieve.graphs.adjacency import Adjacency
from corpusmesh_retrieve.graphs.community_global import CommunityGlobal
from corpusmesh_retrieve.graphs.community_local import CommunityLocal
from corpusmesh_retrieve.graphs.drift import Drift
from corpusmesh_retrieve.graphs.frame import GraphFrame
from corpusmesh_retrieve.graphs.knowledge import Knowledge
from corpusmesh_retrieve.graphs.levels import Levels, naive
from corpusmesh_retrieve.graphs.opening import open_graphs, searches_graphs
from corpusmesh_retrieve.graphs.passages import Passages
from corpusmesh_retrieve.graphs.words import LEVELS
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.recalling import Recaller
from corpusmesh_retrieve.stages import StageResult
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.graphs.views import GraphViews

_WITHOUT: Final = frozenset({GraphMode.OFF, GraphMode.PAGE_RANK})
"""Modes that this stage has nothing to do with."""
_NO_GRAPH: Final = "no graph that you may see is searched, so the search is one of passages alone"


class Mode(Protocol):
    """One way to search graphs."""

    async def run(self, frame: GraphFrame) -> StageResult:
        """Search.

        Args:
            frame: The search: graphs, records, the state that it changes.

        Returns:
            What was done.

        Raises:
            UnavailableError: If the index does not answer; then the search goes on without the graph.
        """
        ...


def modes_of(recaller: Recaller, reranker: PassageReranker) -> dict[GraphMode, Mode]:
    """Make the modes that stand on look-ups of entities and relations.

    Args:
        recaller: Scores passages.
        reranker: The cross-encoder.

    Returns:
        A mode for each way that a plan may name.
    """
    passages = Passages(recaller)
    levels = Levels(passages)
    return {
        **dict.fromkeys(LEVELS, levels),
        GraphMode.KNOWLEDGE: Knowledge(),
        GraphMode.ADJACENCY: Adjacency(passages, reranker),
        GraphMode.COMMUNITY_LOCAL: CommunityLocal(passages),
        GraphMode.COMMUNITY_GLOBAL: CommunityGlobal(),
        GraphMode.DRIFT: Drift(passages, recaller),
    }


class GraphStage:
    """Searches graphs; after scoring, before anything is made of the hits."""

    name = "graph"

    def __init__(self, views: GraphViews, index: RecordIndex, modes: Mapping[GraphMode, Mode]) -> None:
        """Create the stage.

        Args:
            views: Gives the graphs that are searched.
            index: Holds the records.
            modes: The ways to search, see `modes_of`.
        """
        self._views = views
        self._index = index
        self._modes = dict(modes)

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return searches_graphs(outcome.plan) and outcome.plan.graph.mode not in _WITHOUT

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Search; see `Stage`."""
        if outcome.plan.graph.mode is GraphMode.NAIVE:
            return naive(outcome)
        mode = self._modes.get(outcome.plan.graph.mode)
        graphs = await open_graphs(self._views, call, outcome)
        if mode is None or not graphs:
            outcome.notes.append(_NO_GRAPH)
            return StageResult(StageState.SKIPPED, detail="there is no graph that you may see")
        searched = {name for view in outcome.views for name in view.knowledge_base_ids}
        if len(graphs) < len(searched):
            outcome.notes.append("a knowledge base without a graph was searched by its passages alone")
        return await mode.run(GraphFrame(call, outcome, graphs, self._index))


class GraphTableStage:
    """Puts tables of graphs before all other hits; after everything that reorders hits, before leaves are read."""

    name = "graph_table"

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return bool(outcome.graph_tables)

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Put them first; see `Stage`."""
        del call
        # A report that is put first may have been found by itself too.
        first = {item.candidate.record.record_id for item in outcome.graph_tables}
        others = tuple(
            item
            for item in outcome.ranked
            if not is_table(item.candidate.record) and item.candidate.record.record_id not in first
        )
        outcome.ranked = (*outcome.graph_tables, *others)
        return StageResult(detail=f"{len(outcome.graph_tables)} put first")
