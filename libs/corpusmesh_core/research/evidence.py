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


class EvidencePool:
    """What was found, by question; shared by questions that are worked on at the same time.

    Every method does all it does at once and awaits nothing, so that within one event loop it needs no lock.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._record_ids: set[str] = set()

    def add(self, record_ids: Sequence[str]) -> int:
        """Take in what a question found.

        Args:
            record_ids: Records.

        Returns:
            How many of them no question had found before.
        """
        before = len(self._record_ids)
        self._record_ids.update(record_ids)
        return len(self._record_ids) - before
