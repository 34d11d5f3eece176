"""What a build tells of itself as plain values, as they lie in `BuildRow.plan`, `.progress` and `.figures`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from corpusmesh_core.trees.values import TreeCost

_LAYER_COUNTS: Final = "layer_node_counts"
_REASON: Final = "stepped_down_reason"
_SECONDS: Final = "duration_seconds"


@dataclass(frozen=True, slots=True)
class TreeFigures:
    """What describes a published tree.

    Attributes:
        method: How chunks were put together.
        staleness: Leaves added, changed or removed since the last full build, against all.
        drift: Neighbouring pairs that a full build would judge otherwise, against all.
        wants_full_build: Whether one of them is so large that a full build pays.
        bill: What its last build cost.
    """

    method: str = ""
    staleness: float = 0.0
    drift: float = 0.0
    wants_full_build: bool = False
    bill: TreeCost = field(default_factory=TreeCost)


@dataclass(frozen=True, slots=True)
class TreeProgress:
    """How far a build is.

    Attributes:
        layer: Layer that is being made, from 1.
        layer_node_count: Nodes of that layer.
        made_node_count: Those of them that are made.
        cost: What it cost so far.
    """

    layer: int = 0
    layer_node_count: int = 0
    made_node_count: int = 0
    cost: TreeCost = field(default_factory=TreeCost)


def cost_values(cost: TreeCost) -> dict[str, object]:
    """Write a cost as plain values.

    Args:
        cost: The cost.

    Returns:
        Its fields by name; `layer_node_counts` is a list.
    """
    values: dict[str, object] = {entry.name: getattr(cost, entry.name) for entry in fields(cost)}
    return values | {_LAYER_COUNTS: list(cost.layer_node_counts)}


def cost_of(values: object) -> TreeCost:
    """Read a cost.

    Args:
        values: What `cost_values` wrote; anything else is a cost of nothing, and what is missing is zero.

    Returns:
        The cost.
    """
    if not isinstance(values, Mapping):
        return TreeCost()
    known: dict[str, Any] = {}
    for entry in fields(TreeCost):
        value = values.get(entry.name)
        if entry.name == _LAYER_COUNTS:
            known[entry.name] = [int(_number(count)) for count in value] if isinstance(value, list) else []
        elif entry.name == _REASON:
            known[entry.name] = value if isinstance(value, str) else ""
        elif entry.name == _SECONDS:
            known[entry.name] = _number(value)
        else:
            known[entry.name] = int(_number(value))
    return TreeCost(**known)


def figures_values(figures: TreeFigures) -> dict[str, object]:
    """Write figures as plain values.

    Args:
        figures: The figures.

    Returns:
        Their fields by name.
    """
    return {
        "method": figures.method,
        "staleness": figures.staleness,
        "drift": figures.drift,
        "wants_full_build": figures.wants_full_build,
        "bill": cost_values(figures.bill),
    }


def figures_of(values: Mapping[str, object]) -> TreeFigures:
    """Read figures.

    Args:
        values: What `figures_values` wrote; what is missing is zero.

    Returns:
        The figures.
    """
    method = values.get("method")
    return TreeFigures(
        method=method if isinstance(method, str) else "",
        staleness=_number(values.get("staleness")),
        drift=_number(values.get("drift")),
        wants_full_build=values.get("wants_full_build") is True,
        bill=cost_of(values.get("bill")),
    )


def progress_values(progress: TreeProgress) -> dict[str, object]:
    """Write progress as plain values.

    Args:
        progress: The progress.

    Returns:
        Its fields by name.
    """
    return {
        "layer": progress.layer,
        "layer_node_count": progress.layer_node_count,
        "made_node_count": progress.made_node_count,
        "cost": cost_values(progress.cost),
    }


def progress_of(values: Mapping[str, object]) -> TreeProgress:
    """Read progress.

    Args:
        values: What `progress_values` wrote; what is missing is zero.

    Returns:
        The progress.
    """
    return TreeProgress(
        layer=int(_number(values.get("layer"))),
        layer_node_count=int(_number(values.get("layer_node_count"))),
        made_node_count=int(_number(values.get("made_node_count"))),
        cost=cost_of(values.get("cost")),
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
