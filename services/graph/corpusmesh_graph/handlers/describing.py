"""Describes graphs: what of them the caller may see, and how they are doing for those who may write."""

from dataclasses import dataclass
from enum import StrEnum

from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.graphs.settings import GraphSettings
from corpusmesh_core.graphs.telling import bill_of, figures_of, progress_of
from corpusmesh_core.ports.builds import BuildRow, BuildState
from corpusmesh_core.ports.index import RecordIndex, RecordSelection
from corpusmesh_core.records import RecordKind
from corpusmesh_graph.convert import cost_to_wire, progress_to_wire
from corpusmesh_graph.names import graph_name
from corpusmesh_graph.scenes import SceneReader, seconds_left
from corpusmesh_runtime.build_views import BuildView, BuildViewer
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.timestamps import timestamp


class Absence(StrEnum):
    """Why there is nothing to see."""

    GRAPH_OFF = "GRAPH_OFF"
    """The settings ask for no graph."""
    NOT_BUILT = "NOT_BUILT"
    """It is asked for, and was not made of what is published now."""
    NO_ENTITIES = "NO_ENTITIES"
    """It was made, and nothing was found."""


@dataclass(frozen=True, slots=True)
class GraphCounts:
    """What of a graph is visible.

    Attributes:
        entity_count: Entities.
        relation_count: Relations.
        report_count: Reports.
    """

    entity_count: int = 0
    relation_count: int = 0
    report_count: int = 0


class GraphCounter:
    """Counts what a caller may see."""

    def __init__(self, scenes: SceneReader, index: RecordIndex) -> None:
        """Create it.

        Args:
            scenes: What callers see.
            index: The records.
        """
        self._scenes = scenes
        self._index = index

    async def count(self, view: BuildView) -> GraphCounts:
        """Count.

        Args:
            view: What the caller may see.

        Returns:
            The counts; of nothing where the knowledge base has no graph.
        """
        if view.row is None or view.row.state is BuildState.DELETING:
            return GraphCounts()
        graph = await self._scenes.graph_of(view)
        return GraphCounts(
            len(graph.entity_keys), len(graph.relation_weights), await self._count(view, RecordKind.COMMUNITY_REPORT)
        )

    async def _count(self, view: BuildView, kind: RecordKind) -> int:
        visible = view.filter_of(kind)
        if visible.matches_nothing:
            return 0
        call = require_call()
        return await self._index.count(
            call.identity.tenant_id,
            view.inputs.space_id,
            RecordSelection(
                visibility=visible, knowledge_base_ids=(view.inputs.knowledge_base_id,), kinds=(kind.value,)
            ),
            timeout_seconds=seconds_left(),
        )


class GraphDescriber:
    """Describes graphs as the caller may see them."""

    def __init__(self, viewer: BuildViewer, counter: GraphCounter) -> None:
        """Create it.

        Args:
            viewer: What callers may see.
            counter: Counts it.
        """
        self._viewer = viewer
        self._counter = counter

    async def describe(self, knowledge_base_id: str) -> pb.Graph:
        """Describe a graph.

        Args:
            knowledge_base_id: Its knowledge base.

        Returns:
            The graph; empty where nothing of it is visible.

        Raises:
            NotFoundError: If the knowledge base is unknown or forbidden.
        """
        return await self.watched(knowledge_base_id).read()

    def watched(self, knowledge_base_id: str) -> "WatchedGraph":
        """Prepare to describe a graph again and again.

        Args:
            knowledge_base_id: Its knowledge base.

        Returns:
            What describes it.
        """
        return WatchedGraph(knowledge_base_id, self._viewer, self._counter)


class WatchedGraph:
    """Describes one graph again and again; it is counted anew only where something else is published."""

    def __init__(self, knowledge_base_id: str, viewer: BuildViewer, counter: GraphCounter) -> None:
        """Create it.

        Args:
            knowledge_base_id: Its knowledge base.
            viewer: What callers may see.
            counter: Counts it.
        """
        self._knowledge_base_id = knowledge_base_id
        self._viewer = viewer
        self._counter = counter
        self._counted: tuple[object, GraphCounts] = (None, GraphCounts())

    async def run_id(self) -> str:
        """Tell which run moves it.

        Returns:
            Its run; "none" where nothing was ever built.
        """
        view = await self._viewer.look(self._knowledge_base_id)
        return (view.row.run_id if view.row is not None else "") or "none"

    async def read(self) -> pb.Graph:
        """Describe it.

        Returns:
            The graph as it is now.
        """
        view = await self._viewer.look(self._knowledge_base_id)
        state = view.row.state if view.row is not None else None
        mark = (view.inputs.snapshot_id, view.inputs.hidden, view.inputs.space_id, state)
        if self._counted[0] != mark:
            self._counted = (mark, await self._counter.count(view))
        return _described(view, self._counted[1])


def _described(view: BuildView, counts: GraphCounts) -> pb.Graph:
    knowledge_base_id = view.inputs.knowledge_base_id
    graph = pb.Graph(
        name=graph_name(knowledge_base_id),
        state=pb.Graph.STATE_READY if counts.entity_count else pb.Graph.STATE_EMPTY,
        entity_count=counts.entity_count,
        relation_count=counts.relation_count,
        report_count=counts.report_count,
    )
    row = view.row
    if row is not None and not view.is_restricted:
        # That a build is under way, and when one ended, tells of documents that were published.
        graph.state = _state_of(row, graph.state)
        moment = timestamp(row.publish_time)
        if moment is not None:
            graph.publish_time.CopyFrom(moment)
        if row.snapshot_id:
            graph.snapshot = f"knowledgeBases/{knowledge_base_id}/snapshots/{row.snapshot_id}"
    if row is not None and view.shows_figures:
        _put_figures(graph, view, row)
    if graph.state == pb.Graph.STATE_EMPTY:
        graph.empty_reason = _absence(view)
    return graph


def _put_figures(graph: pb.Graph, view: BuildView, row: BuildRow) -> None:
    graph.run = f"knowledgeBases/{row.knowledge_base_id}/runs/{row.run_id}" if row.run_id else ""
    graph.error_reason, graph.error_message = row.error_reason, row.error_message
    graph.outdated = view.is_outdated
    if row.plan:
        graph.plan.CopyFrom(cost_to_wire(bill_of(row.plan)))
    if row.figures:
        graph.bill.CopyFrom(cost_to_wire(figures_of(row.figures).bill))
    if row.is_building:
        graph.progress.CopyFrom(progress_to_wire(progress_of(row.progress)))


def _state_of(row: BuildRow, shown: pb.Graph.State.ValueType) -> pb.Graph.State.ValueType:
    if row.state is BuildState.DELETING:
        return pb.Graph.STATE_DELETING
    return pb.Graph.STATE_BUILDING if row.is_building else shown


def _absence(view: BuildView) -> Absence:
    """Tell why there is nothing; from whom something is hidden is told what they would be told without it."""
    try:
        is_on = GraphSettings.of(view.inputs.config).is_on
    except InvalidArgumentError:
        is_on = False
    if not is_on:
        return Absence.GRAPH_OFF
    row = view.row
    if row is None or row.state is not BuildState.READY or view.is_restricted or view.is_outdated:
        return Absence.NOT_BUILT
    return Absence.NO_ENTITIES
