"""How what several look-ups found becomes one list: in turn, each thing once, within a budget of tokens (seed 001)."""

from collections.abc import Callable, Hashable, Sequence
from itertools import zip_longest
from typing import TypeVar

_Item = TypeVar("_Item")


def in_turn(lists: Sequence[Sequence[_Item]], key: Callable[[_Item], Hashable]) -> tuple[_Item, ...]:
    """Take the first of each list, then the second of each, and so on, so that no list is cut off before another.

    Args:
        lists: Lists, each best first.
        key: What makes two items the same; of these the first stays.

    Returns:
        All items in turn.
    """
    found: dict[Hashable, _Item] = {}
    absent = object()
    for row in zip_longest(*lists, fillvalue=absent):
        for item in row:
            if item is not absent:
                found.setdefault(key(item), item)  # type: ignore[arg-type]
    return tuple(found.values())


def within(items: Sequence[_Item], costs: Sequence[int], most: int) -> tuple[_Item, ...]:
    """Take items in their order as long as they fit; what does not fit is passed over.

    Args:
        items: Items, best first.
        costs: What each costs, such as tokens, at least 0.
        most: Most of it.

    Returns:
        Those that fit, in order.
    """
    taken: list[_Item] = []
    left = most
    for item, cost in zip(items, costs, strict=True):
        if cost <= left:
            taken.append(item)
            left -= cost
    return tuple(taken)
