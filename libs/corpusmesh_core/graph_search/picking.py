"""Which passages stand behind entities and relations that were chosen (LightRAG: VECTOR and WEIGHT)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

RELATED: Final = 5
"""Passages that the best item may name (LightRAG: related_chunk_number)."""


def pick_by_weight(groups: Sequence[Sequence[str]], most: int, *, per_group: int = RELATED) -> tuple[str, ...]:
    """Choose the passages that most of the chosen items come from, with something of each item.

    Args:
        groups: Passages of each item, best item first, its best passage first.
        most: Most passages.
        per_group: Passages that the best item may name; the last one names one, those between in proportion.

    Returns:
        Passages: first what the items may name, in turn of the items; then the others by how many items name them.
    """
    votes = Counter(name for group in groups for name in dict.fromkeys(group))
    place = {name: number for number, name in enumerate(name for group in groups for name in group)}
    chosen: dict[str, None] = {}
    last = max(1, len(groups) - 1)
    for number, group in enumerate(groups):
        quota = max(1, round(per_group - (per_group - 1) * number / last))
        by_votes = sorted(dict.fromkeys(group), key=lambda name: (-votes[name], place[name]))
        new = [name for name in by_votes if name not in chosen][:quota]
        chosen.update(dict.fromkeys(new))
    rest = sorted((name for name in votes if name not in chosen), key=lambda name: (-votes[name], place[name]))
    return (*chosen, *rest)[:most]


def pick_by_cosine(names: Sequence[str], cosines: Mapping[str, float], most: int) -> tuple[str, ...]:
    """Choose the passages that are most alike the question.

    Args:
        names: Passages.
        cosines: How alike each is; what has none comes last.
        most: Most passages.

    Returns:
        Passages, the most alike first; equal ones in order.
    """
    ordered = sorted(dict.fromkeys(names), key=lambda name: -cosines.get(name, -2.0))
    return tuple(ordered[:most])
