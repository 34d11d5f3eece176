"""What a build tells of itself as plain values, as they lie in `BuildRow.plan`, `.progress` and `.figures`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from corpusmesh_core.plain_values import read_plain
from corpusmesh_core.trees.values import TreeCost


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
    return asdict(cost)


def cost_of(values: object) -> TreeCost:
    """Read a cost.

    Args:
        values: What `cost_values` wrote; anything else is a cost of nothing, and what is missing is zero.

    Returns:
        The cost.
    """
    return read_plain(TreeCost, values)


def figures_values(figures: TreeFigures) -> dict[str, object]:
    """Write figures as plain values.

    Args:
        figures: The figures.

    Returns:
        Their fields by name.
    """
    return asdict(figures)


def figures_of(values: Mapping[str, object]) -> TreeFigures:
    """Read figures.

    Args:
        values: What `figures_values` wrote; what is missing is zero.

    Returns:
        The figures.
    """
    return read_plain(TreeFigures, values)


def progress_values(progress: TreeProgress) -> dict[str, object]:
    """Write progress as plain values.

    Args:
        progress: The progress.

    Returns:
        Its fields by name.
    """
    return asdict(progress)


def progress_of(values: Mapping[str, object]) -> TreeProgress:
    """Read progress.

    Args:
        values: What `progress_values` wrote; what is missing is zero.

    Returns:
        The progress.
    """
    return read_plain(TreeProgress, values)
