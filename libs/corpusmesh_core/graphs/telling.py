"""What a build of a graph tells of itself as plain values: `BuildRow.plan`, `.progress` and `.figures`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from corpusmesh_core.graphs.values import GraphBill, GraphFigures

_REASON: Final = "stepped_down_reason"
_SECONDS: Final = "duration_seconds"


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
    if not isinstance(values, Mapping):
        return GraphBill()
    known: dict[str, Any] = {}
    for entry in fields(GraphBill):
        value = values.get(entry.name)
        if entry.name == _REASON:
            known[entry.name] = _text(value)
        elif entry.name == _SECONDS:
            known[entry.name] = _number(value)
        else:
            known[entry.name] = int(_number(value))
    return GraphBill(**known)


def figures_values(figures: GraphFigures) -> dict[str, object]:
    """Write figures as plain values.

    Args:
        figures: The figures.

    Returns:
        Their fields by name.
    """
    return {
        "entity_count": figures.entity_count,
        "relation_count": figures.relation_count,
        "report_count": figures.report_count,
        "bill": bill_values(figures.bill),
    }


def figures_of(values: Mapping[str, object]) -> GraphFigures:
    """Read figures.

    Args:
        values: What `figures_values` wrote; what is missing is zero.

    Returns:
        The figures.
    """
    return GraphFigures(
        entity_count=int(_number(values.get("entity_count"))),
        relation_count=int(_number(values.get("relation_count"))),
        report_count=int(_number(values.get("report_count"))),
        bill=bill_of(values.get("bill")),
    )


def progress_values(progress: GraphProgress) -> dict[str, object]:
    """Write progress as plain values.

    Args:
        progress: The progress.

    Returns:
        Its fields by name.
    """
    return {
        "phase": progress.phase,
        "total_count": progress.total_count,
        "done_count": progress.done_count,
        "cost": bill_values(progress.cost),
    }


def progress_of(values: Mapping[str, object]) -> GraphProgress:
    """Read progress.

    Args:
        values: What `progress_values` wrote; what is missing is zero.

    Returns:
        The progress.
    """
    return GraphProgress(
        phase=_text(values.get("phase")),
        total_count=int(_number(values.get("total_count"))),
        done_count=int(_number(values.get("done_count"))),
        cost=bill_of(values.get("cost")),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
