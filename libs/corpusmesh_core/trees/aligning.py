"""Which leaves of a document's new version are which of the version before, by their content keys, in linear time."""

import bisect
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.trees.regrouping import INSERTED


@dataclass(frozen=True, slots=True)
class Alignment:
    """New leaves against old ones.

    Attributes:
        origins: Shape (new leaves,), int64, ascending but for INSERTED: the old leaf that each is or replaces.
        changed_count: Leaves added, replaced and removed.
    """

    origins: NDArray[np.int64]
    changed_count: int


def align(old: Sequence[bytes], new: Sequence[bytes]) -> Alignment:
    """Find the old leaf of each new one.

    Leaves whose key occurs once on both sides are anchors, as far as they are in one order (the longest increasing run
    of them, as patience sorting finds it); from each anchor equal neighbours are joined on both sides. What is left
    between two anchors replaces what was between them, one by one; beyond that it is added, or removed.

    Args:
        old: Keys of the old leaves, in order.
        new: Keys of the new leaves, in order.

    Returns:
        The alignment.
    """
    origins = np.full(len(new), INSERTED, dtype=np.int64)
    # Sentinels, so that what stands before the first anchor and behind the last is between two as well.
    anchors = [(-1, -1), *_anchors(old, new), (len(old), len(new))]
    for (old_left, new_left), (old_right, new_right) in itertools.pairwise(anchors):
        first_old, first_new = old_left + 1, new_left + 1
        while first_old < old_right and first_new < new_right and old[first_old] == new[first_new]:
            origins[first_new] = first_old
            first_old, first_new = first_old + 1, first_new + 1
        end_old, end_new = old_right, new_right
        while end_old > first_old and end_new > first_new and old[end_old - 1] == new[end_new - 1]:
            end_old, end_new = end_old - 1, end_new - 1
            origins[end_new] = end_old
        replaced = min(end_old - first_old, end_new - first_new)
        origins[first_new : first_new + replaced] = np.arange(first_old, first_old + replaced)
        if new_right < len(new):
            origins[new_right] = old_right
    found = [(place, origin) for place, origin in enumerate(origins.tolist()) if origin != INSERTED]
    same_count = sum(old[origin] == new[place] for place, origin in found)
    return Alignment(origins, len(old) + len(new) - len(found) - same_count)


def _anchors(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[int, int]]:
    """Pair the leaves that are one of a kind on both sides, as many as are in one order."""
    old_counts, new_counts = Counter(old), Counter(new)
    places = {key: place for place, key in enumerate(old) if old_counts[key] == 1}
    pairs = [(places[key], place) for place, key in enumerate(new) if new_counts[key] == 1 and key in places]
    tails: list[int] = []
    tail_pairs: list[int] = []
    before: list[int] = []
    for index, (old_place, _) in enumerate(pairs):
        pile = bisect.bisect_left(tails, old_place)
        before.append(tail_pairs[pile - 1] if pile else -1)
        if pile == len(tails):
            tails.append(old_place)
            tail_pairs.append(index)
        else:
            tails[pile], tail_pairs[pile] = old_place, index
    chain: list[tuple[int, int]] = []
    index = tail_pairs[-1] if tail_pairs else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]
