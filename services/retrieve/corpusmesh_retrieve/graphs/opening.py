"""Which graphs a request searches, as its caller may see them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.errors import FailedPreconditionError
from corpusmesh_core.graphs.settings import GraphSettings, GraphVectors
from corpusmesh_core.graphs.view import GraphView
from corpusmesh_core.query import GraphMode, RetrievalPlan
from corpusmesh_core.records import RecordKind
from corpusmesh_retrieve.outcome import SearchOutcome, SpaceView
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.graphs.views import GraphViews
from corpusmesh_runtime.logging import get_logger

_SHARE_OF_DEADLINE: Final = 0.4
_TOO_LARGE: Final = "a graph is larger than this installation may keep, so it was left out"
_MAX_SECONDS: Final = 10.0
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph that is searched.

    Attributes:
        space: What the request may see of the space that it is in.
        knowledge_base_id: Its knowledge base.
        view: The graph.
        vectors: What of it has vectors.
    """

    space: SpaceView
    knowledge_base_id: str
    view: GraphView
    vectors: GraphVectors

    def has_vectors_of(self, kind: RecordKind) -> bool:
        """Tell whether records of a kind have vectors.

        Args:
            kind: The kind.

        Returns:
            Whether they may be compared with that of a text.
        """
        if self.vectors is GraphVectors.ENTITIES:
            return kind is RecordKind.ENTITY
        return self.vectors is GraphVectors.ALL


def searches_graphs(plan: RetrievalPlan) -> bool:
    """Tell whether a plan lets graphs take part, where there are any.

    Args:
        plan: The plan.

    Returns:
        False where chunks do not compete: then there is nothing that a graph could lead to.
    """
    return plan.graph.mode is not GraphMode.OFF and RecordKind.CHUNK in plan.kinds


async def open_graphs(
    views: GraphViews, call: CallContext, outcome: SearchOutcome, *, max_seconds: float = _MAX_SECONDS
) -> tuple[Graph, ...]:
    """Open the graphs of the knowledge bases that are searched.

    Args:
        views: Gives them.
        call: The call; its deadline bounds the opening.
        outcome: The search; what it may see decides what the graphs hold.
        max_seconds: Longest wait.

    Returns:
        Those that hold something that may be seen, in the order of the knowledge bases.

    Raises:
        UnavailableError: If a graph cannot be read.
        DeadlineExceededError: If it takes too long.
    """
    configs = {item.knowledge_base_id: item.config for item in outcome.inputs}
    wanted = [(space, name) for space in outcome.views for name in space.graph_knowledge_base_ids]
    seconds = min(max_seconds, call.remaining_seconds() * _SHARE_OF_DEADLINE)

    async def opened_or_none(space: SpaceView, name: str) -> GraphView | None:
        try:
            return await views.view(call.identity.tenant_id, name, space.visibility, timeout_seconds=seconds)
        except FailedPreconditionError as error:
            _log.warning("graph left out", reason=error.reason)
            if _TOO_LARGE not in outcome.notes:
                outcome.notes.append(_TOO_LARGE)
            return None

    opened = await asyncio.gather(*(opened_or_none(space, name) for space, name in wanted))
    if outcome.plan.graph.mode is not GraphMode.PAGE_RANK:
        # Worked out once for each view; of a large one that is no work for the event loop.
        await asyncio.to_thread(_worked_out, opened, with_ranks=outcome.plan.graph.mode is GraphMode.KNOWLEDGE)
    return tuple(
        Graph(space, name, view, GraphSettings.of(configs.get(name, {})).effective_vectors)
        for (space, name), view in zip(wanted, opened, strict=True)
        if view is not None and len(view.entity_keys)
    )


def _worked_out(views: Sequence[GraphView | None], *, with_ranks: bool) -> None:
    for view in views:
        if view is not None and len(view.entity_keys):
            view.relations_of(0)
            if with_ranks:
                assert len(view.page_rank)
