"""What a build of a graph tells of itself as plain values: `BuildRow.plan`, `.progress` and `.figures`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from corpusmesh_core.graphs.values import GraphBill, GraphFigures
from corpusmesh_core.plain_values import read_plain


@dataclass(frozen=True, slots=True)
class GraphProgress:
    """How far a build is.

    Attributes:
        phase: What is done now: "extract", "resolve", "communities", "reports" or "publish"; "" before the first.
        total_count: Documents or reports of that phase.
        done_count: Those of them that are done.
        cost: What it cost so far.
    """

    phase: str = ""
    total_count: int = 0
    done_count: int = 0
    cost: GraphBill = field(default_factory=GraphBill)


def bill_values(bill: GraphBill) -> dict[str, object]:
    """Write a bill as plain values.

    Args:
        bill: What a build costs or has cost.

    Returns:
        Its fields by name.
    """
    return asdict(bill)


def bill_of(values: object) -> GraphBill:
    """Read a bill.

    Args:
        values: What `bill_values` wrote; anything else is a bill of nothing, and what is missing is zero.

    Returns:
        The bill.
    """
    return read_plain(GraphBill, values)


def figures_values(figures: GraphFigures) -> dict[str, object]:
    """Write figures as plain values.

    Args:
        figures: The figures.

    Returns:
        Their fields by name.
    """
    return asdict(figures)


def figures_of(values: Mapping[str, object]) -> GraphFigures:
    """Read figures.

    Args:
        values: What `figures_values` wrote; what is missing is zero.

    Returns:
        The figures.
    """
    return read_plain(GraphFigures, values)


def progress_values(progress: GraphProgress) -> dict[str, object]:
    """Write progress as plain values.

    Args:
        progress: The progress.

    Returns:
        Its fields by name.
    """
    return asdict(progress)


def progress_of(values: Mapping[str, object]) -> GraphProgress:
    """Read progress.

    Args:
        values: What `progress_values` wrote; what is missing is zero.

    Returns:
        The progress.
    """
    return read_plain(GraphProgress, values)
