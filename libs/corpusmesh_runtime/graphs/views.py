"""What services need of a `GraphReader`."""

from typing import Protocol

from corpusmesh_core.graphs.view import GraphView
from corpusmesh_core.visibility import Visibility


class GraphViews(Protocol):
    """Views of graphs, each of what one caller may see."""

    async def view(
        self, tenant_id: str, knowledge_base_id: str, visibility: Visibility, *, timeout_seconds: float
    ) -> GraphView | None:
        """Give the graph of a knowledge base as a caller may see it.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.
            visibility: What the caller may see.
            timeout_seconds: Deadline.

        Returns:
            The view; None where the knowledge base has no graph.

        Raises:
            DeadlineExceededError: GRAPH_NOT_READY if it takes too long.
            OverloadedError: GRAPH_BUSY if too many views are being made.
            UnavailableError: If it cannot be read at the moment.
            FailedPreconditionError: GRAPH_TOO_LARGE if it is larger than may be kept.
        """
        ...
