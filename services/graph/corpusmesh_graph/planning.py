"""What a build would cost, before it is made."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from corpusmesh_core.graphs.values import GraphBill
from corpusmesh_core.tenancy import VersionRow


@dataclass(frozen=True, slots=True)
class Plan:
    """What a build would cost.

    Attributes:
        cost: The cost.
        sampled_document_count: Documents whose chunks were read for it.
    """

    cost: GraphBill
    sampled_document_count: int


class GraphPlanner:
    """Plans builds from what they would read; no model is called."""

    async def plan(self, versions: Sequence[VersionRow], *, covered: Collection[int]) -> Plan:
        """Plan a build.

        Args:
            versions: Versions that the graph shall cover.
            covered: Ordinals of the versions whose subgraph is taken over.

        Returns:
            The plan.
        """
        read = [row for row in versions if row.ordinal not in covered]
        cost = GraphBill(
            document_count=len(versions),
            reused_document_count=len(versions) - len(read),
            chunk_count=sum(row.chunk_count for row in read),
        )
        return Plan(cost, sampled_document_count=0)
