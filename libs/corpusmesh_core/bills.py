"""Bills of builds that are made in slices, some of which die: what is added, and what is paid all the same."""

from dataclasses import fields, replace
from typing import Final, TypeVar

from corpusmesh_core.graphs.values import GraphBill
from corpusmesh_core.trees.values import TreeCost

Bill = TypeVar("Bill", TreeCost, GraphBill)
_REASON: Final = "stepped_down_reason"
_SPENDING: Final = (
    "model_call_count",
    "input_token_count",
    "output_token_count",
    "failed_call_count",
    "embedded_text_count",
    "embedded_token_count",
    "duration_seconds",
)


def add_bills(first: Bill, second: Bill) -> Bill:
    """Add what two slices of a build cost.

    Args:
        first: The earlier one.
        second: The later one.

    Returns:
        The sum; the later one's reason where both have one.
    """
    values = {
        entry.name: getattr(first, entry.name) + getattr(second, entry.name)
        for entry in fields(first)
        if entry.name != _REASON
    }
    return replace(first, **values, stepped_down_reason=second.stepped_down_reason or first.stepped_down_reason)


def with_lost_spending(before: Bill, told: Bill) -> Bill:
    """Add what attempts that died have spent: it is lost with them, and paid all the same.

    Args:
        before: What the slices before have cost.
        told: What the build has told of its cost, that of attempts which died included.

    Returns:
        The former with the latter's spending; what was made of it is not there, and not counted.
    """
    values = {name: max(getattr(before, name), getattr(told, name)) for name in _SPENDING}
    reason = before.stepped_down_reason or told.stepped_down_reason
    return replace(before, **values, stepped_down_reason=reason)
