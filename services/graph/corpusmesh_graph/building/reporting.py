"""Communities of a graph, and what is said of them; those whose members have not changed keep theirs."""

import asyncio

from corpusmesh_core.graphs.view import GraphView, compile_view
from corpusmesh_graph.building.before import GraphBefore
from corpusmesh_graph.building.linking import Linked
from corpusmesh_graph.building.scope import BuildScope
from corpusmesh_graph.models import GraphSession


class Reporter:
    """Finds communities and writes their reports."""

    def __init__(self, scope: BuildScope, session: GraphSession, before: GraphBefore) -> None:
        """Create it.

        Args:
            scope: The build's task.
            session: What the language model may be asked.
            before: The graph before.
        """
        self._scope = scope
        self._session = session
        self._before = before
        self.made: list[int] = []
        self.grouping = b""
        self.entity_count = 0
        self.relation_count = 0

    async def report(self, linked: Linked) -> bool:
        """Bring communities and reports up to date, until all is done or the time of a slice is over.

        Args:
            linked: The graph.

        Returns:
            Whether all is done.
        """
        view: GraphView = await asyncio.to_thread(
            compile_view, list(linked.segments.values()), linked.shown, linked.pairs
        )
        self.entity_count, self.relation_count = len(view.entity_keys), len(view.relation_ends)
        return True
