"""Evidence of all questions of a research, each record once, in an order that is fair to every question."""

from collections.abc import Callable, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")


def merge_findings(findings: Sequence[Sequence[_Item]], key: Callable[[_Item], str]) -> tuple[_Item, ...]:
    """Merge what several questions found.

    The best of every question goes before the second best of any, so that no question crowds another one out of a
    budget of evidence: scores of different questions cannot be compared.

    Args:
        findings: Items of each question, best first; questions in the order of the tree.
        key: Names an item.

    Returns:
        Items, each once, where it first comes up.
    """
    merged: dict[str, _Item] = {}
    longest = max((len(items) for items in findings), default=0)
    for rank in range(longest):
        for items in findings:
            if rank < len(items):
                merged.setdefault(key(items[rank]), items[rank])
    return tuple(merged.values())
