"""Views of graphs, read anew for each request."""

import asyncio

from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.graphs.segments import Segment
from corpusmesh_core.graphs.view import GraphView, compile_view
from corpusmesh_core.ports.builds import BuildStore
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.visibility import Visibility


class PlainGraphViews:
    """Reads the segments of a graph and compiles the view of a caller."""

    def __init__(self, objects: ObjectStore, builds: BuildStore) -> None:
        """Create it.

        Args:
            objects: Where segments lie.
            builds: Tells which.
        """
        self._objects = objects
        self._builds = builds

    async def view(
        self, tenant_id: str, knowledge_base_id: str, visibility: Visibility, *, timeout_seconds: float
    ) -> GraphView | None:
        """Give the graph of a caller.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.
            visibility: What the caller may see.
            timeout_seconds: Bound of each read.

        Returns:
            The view; None where there is no graph.
        """
        artefacts = await self._builds.artefacts(tenant_id, knowledge_base_id)
        segments = []
        for name, key in sorted(artefacts.items()):
            if not name.startswith("segment."):
                continue
            try:
                content = await self._objects.get(key, timeout_seconds=timeout_seconds)
            except NotFoundError:
                continue
            segments.append(Segment.open(content))
        if not segments:
            return None
        return await asyncio.to_thread(compile_view, segments, visibility.ordinals)
