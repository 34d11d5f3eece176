"""Graphs and what they cost as the contract writes them."""

from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh_core.graphs.telling import GraphProgress, bill_values
from corpusmesh_core.graphs.values import GraphBill


def cost_to_wire(bill: GraphBill) -> pb.GraphCost:
    """Write a bill.

    Args:
        bill: What a build costs or has cost.

    Returns:
        The message, which has the fields of a bill.
    """
    return pb.GraphCost(**bill_values(bill))  # type: ignore[arg-type]


def progress_to_wire(progress: GraphProgress) -> pb.GraphProgress:
    """Write how far a build is.

    Args:
        progress: The progress.

    Returns:
        The message.
    """
    return pb.GraphProgress(
        phase=progress.phase,
        total_count=progress.total_count,
        done_count=progress.done_count,
        cost=cost_to_wire(progress.cost),
    )
