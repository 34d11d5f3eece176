"""What a caller sees of a graph: its view at one snapshot, and records under the caller's filter."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.graphs.keys import entity_key
from corpusmesh_core.graphs.view import GraphView, compile_view
from corpusmesh_core.ports.builds import BuildState
from corpusmesh_core.ports.index import MAX_WINDOW, RecordIndex
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_runtime.build_views import BuildView, BuildViewer
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.graphs.views import GraphViews

MAX_PASSAGES: Final = 50
"""Chunks that are shown of an entity, a relation or a report."""
_SECONDS: Final = 10.0
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class GraphScene:
    """A graph as one caller sees it at one moment.

    Attributes:
        view: The knowledge base.
        graph: The graph; one of nothing where there is none.
    """

    view: BuildView
    graph: GraphView

    @property
    def knowledge_base_id(self) -> str:
        """Its knowledge base."""
        return self.view.inputs.knowledge_base_id

    @property
    def snapshot_id(self) -> int:
        """The snapshot that all of it is of."""
        return self.view.inputs.snapshot_id

    def degree(self, entity: int) -> int:
        """Count the entities that one is related to.

        Args:
            entity: Its place.

        Returns:
            How many.
        """
        offsets = self.graph.adjacency.indptr
        return int(offsets[entity + 1] - offsets[entity])

    def chunk_count(self, entity: int) -> int:
        """Count the chunks that an entity stands in.

        Args:
            entity: Its place.

        Returns:
            How many.
        """
        offsets = self.graph.mentions.indptr
        return int(offsets[entity + 1] - offsets[entity])

    def keys(self, entity: int) -> tuple[int, ...]:
        """List the keys of the names that visible documents use for an entity.

        Args:
            entity: Its place.

        Returns:
            Keys, ascending.
        """
        offsets = self.graph.graph.fragment_offsets
        span = slice(int(offsets[entity]), int(offsets[entity + 1]))
        return tuple(np.unique(self.graph.graph.fragment_key[span]).tolist())

    def name_of(self, key: int) -> str:
        """Read a name as visible documents write it.

        Args:
            key: Its key.

        Returns:
            The name; "" where no visible document uses it.
        """
        entity = int(self.graph.find([key])[0])
        names = self.graph.names(entity) if entity >= 0 else ()
        return next((name for name in names if entity_key(name) == key), "")

    def by_rank(self) -> NDArray[np.int64]:
        """List all entities.

        Returns:
            Places, the highest rank first, shape (n,).
        """
        return np.argsort(-self.graph.page_rank, kind="stable")

    def passages_of(self, entity: int) -> list[str]:
        """Name the chunks that an entity stands in.

        Args:
            entity: Its place.

        Returns:
            Records, those that name it most often first, at most MAX_PASSAGES.
        """
        return self._passages(self.graph.mentions, entity)

    def passages_of_relation(self, relation: int) -> list[str]:
        """Name the chunks that a relation stands in.

        Args:
            relation: Its place.

        Returns:
            Records, those that it stands in most strongly first, at most MAX_PASSAGES.
        """
        return self._passages(self.graph.relation_passages, relation)

    def _passages(self, matrix: Any, row: int) -> list[str]:
        offsets, columns, values = matrix.indptr, matrix.indices, matrix.data
        span = slice(int(offsets[row]), int(offsets[row + 1]))
        order = np.argsort(-values[span], kind="stable")[:MAX_PASSAGES]
        return [self.graph.passage_record_id(passage) for passage in columns[span][order].tolist()]


class SceneReader:
    """Reads graphs and their records; every query carries the caller's filter."""

    def __init__(self, viewer: BuildViewer, graphs: GraphViews, index: RecordIndex) -> None:
        """Create it.

        Args:
            viewer: What callers may see.
            graphs: Views of graphs.
            index: The records.
        """
        self._viewer = viewer
        self._graphs = graphs
        self._index = index

    async def look(self, knowledge_base_id: str, *, snapshot_id: int | None = None) -> GraphScene:
        """Look at a graph with the eyes of the caller.

        Args:
            knowledge_base_id: Its knowledge base.
            snapshot_id: An earlier snapshot; None for the current one.

        Returns:
            What they see.

        Raises:
            NotFoundError: If the knowledge base or the snapshot is unknown or forbidden.
        """
        view = await self._viewer.look(knowledge_base_id, snapshot_id=snapshot_id)
        return GraphScene(view, await self.graph_of(view))

    async def graph_of(self, view: BuildView) -> GraphView:
        """Give the graph of a view that was taken already.

        Args:
            view: What the caller may see.

        Returns:
            The graph; one of nothing where there is none.
        """
        if view.row is None or view.row.state is BuildState.DELETING:
            return _NOTHING
        found = await self._graphs.view(
            require_call().identity.tenant_id,
            view.inputs.knowledge_base_id,
            view.visibility,
            timeout_seconds=seconds_left(),
        )
        return _NOTHING if found is None else found

    async def fetch(self, scene: GraphScene, record_ids: Sequence[str], kind: RecordKind) -> list[Record]:
        """Read records by id.

        Args:
            scene: What the caller may see.
            record_ids: Their ids.
            kind: Their kind.

        Returns:
            The visible ones, in that order.
        """
        visible = scene.view.filter_of(kind)
        found: list[Record] = []
        if visible.matches_nothing:
            return found
        for start in range(0, len(record_ids), MAX_WINDOW):
            found += await self._index.fetch(
                require_call().identity.tenant_id,
                scene.view.inputs.space_id,
                record_ids[start : start + MAX_WINDOW],
                visible,
                timeout_seconds=seconds_left(),
            )
        return found


async def worked_out(work: Callable[[], _Made]) -> _Made:
    """Work something out of a graph beside the event loop: ranks and orders of a large one take a while.

    Args:
        work: What to do.

    Returns:
        What it gave.
    """
    return await asyncio.to_thread(work)


def bounded(value: int, field: str, *, default: int, most: int) -> int:
    """Read a bound of a request.

    Args:
        value: The request's; 0 for the default.
        field: Its field.
        default: What 0 stands for.
        most: What more is cut to.

    Returns:
        The bound.

    Raises:
        InvalidArgumentError: GRAPH_BOUND_INVALID if it is negative.
    """
    if value < 0:
        raise InvalidArgumentError("GRAPH_BOUND_INVALID", f"{field} must not be negative", field=field)
    return min(value or default, most)


def seconds_left() -> float:
    """Tell how long one read may take.

    Returns:
        What is left of the call, at most ten seconds.
    """
    return min(_SECONDS, require_call().remaining_seconds())


_NOTHING: Final = compile_view([], BitMap())
