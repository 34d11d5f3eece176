"""What changed between the chunks of two versions: added, removed, changed, moved, unchanged."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from corpusmesh_core.chunking.similarity import word_similarity, words_of
from corpusmesh_core.documents import Chunk, ChunkRole

MIN_SIMILARITY = 0.5
"""Two texts that share less are not one text before and after a change."""

_BAND = 8
"""How many places apart a changed chunk is looked for, within the stretch between two unchanged ones."""


class ChangeKind(StrEnum):
    """What became of a chunk."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    MOVED = "moved"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class ChunkChange:
    """One chunk before and after.

    Attributes:
        kind: What became of it. A moved chunk has the same text at another place among the others.
        before: Its position before; None for an added one.
        after: Its position after; None for a removed one.
        similarity: Share of words that both texts have in the same order, 0 to 1; 1 for the same text, 0 for one that
            has no counterpart.
    """

    kind: ChangeKind
    before: int | None
    after: int | None
    similarity: float


def diff_chunks(before: Sequence[Chunk], after: Sequence[Chunk]) -> tuple[ChunkChange, ...]:
    """Compare the chunks of two versions of a document.

    Equal texts are matched by hashing, in order; those of them that keep their order are unchanged (longest increasing
    subsequence), the others moved. Only what is left between two unchanged chunks is compared word by word, with near
    ones alone, so that the time grows with n log n.

    Args:
        before: Chunks of the older version; parents are left out, since their children tell.
        after: Chunks of the newer version.

    Returns:
        One entry for every chunk of either version, in the order of the newer one; what was removed stands where it
        was.
    """
    old = [chunk for chunk in before if chunk.role is not ChunkRole.PARENT]
    new = [chunk for chunk in after if chunk.role is not ChunkRole.PARENT]
    same = _equal_texts(old, new)
    stays = set(_longest_increasing(same))
    partner: dict[int, tuple[int, ChangeKind, float]] = {
        there: (here, ChangeKind.UNCHANGED if (here, there) in stays else ChangeKind.MOVED, 1.0) for here, there in same
    }
    taken = {here for here, _ in same}
    for here, there, similarity in _changed(old, new, sorted(stays), taken, set(partner)):
        partner[there] = (here, ChangeKind.CHANGED, similarity)
        taken.add(here)
    return _in_order(old, new, partner, taken)


def _equal_texts(old: Sequence[Chunk], new: Sequence[Chunk]) -> list[tuple[int, int]]:
    places: dict[str, list[int]] = {}
    for here in range(len(old) - 1, -1, -1):
        places.setdefault(old[here].text, []).append(here)
    # The first of several equal texts before goes with the first of them after.
    return sorted((places[chunk.text].pop(), there) for there, chunk in enumerate(new) if places.get(chunk.text))


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    tails: list[int] = []
    ends: list[int] = []
    previous = [-1] * len(pairs)
    for index, (_, there) in enumerate(pairs):
        place = bisect_left(tails, there)
        previous[index] = ends[place - 1] if place else -1
        tails[place : place + 1] = [there]
        ends[place : place + 1] = [index]
    chain: list[tuple[int, int]] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        chain.append(pairs[index])
        index = previous[index]
    return chain[::-1]


def _changed(
    old: Sequence[Chunk],
    new: Sequence[Chunk],
    stays: Sequence[tuple[int, int]],
    old_taken: set[int],
    new_taken: set[int],
) -> list[tuple[int, int, float]]:
    found: list[tuple[int, int, float]] = []
    last_here = last_there = -1
    for here, there in (*stays, (len(old), len(new))):
        gap_old = [index for index in range(last_here + 1, here) if index not in old_taken]
        gap_new = [index for index in range(last_there + 1, there) if index not in new_taken]
        if gap_old and gap_new:
            found.extend(_pair_gap(old, new, gap_old, gap_new))
        last_here, last_there = here, there
    return found


def _pair_gap(
    old: Sequence[Chunk], new: Sequence[Chunk], gap_old: Sequence[int], gap_new: Sequence[int]
) -> list[tuple[int, int, float]]:
    """Pair what is left between two unchanged chunks: best pairs first, each chunk once."""
    bags = {("old", index): Counter(words_of(old[index].text)) for index in gap_old}
    bags |= {("new", index): Counter(words_of(new[index].text)) for index in gap_new}
    candidates: list[tuple[float, int, int]] = []
    scale = len(gap_new) / len(gap_old)
    for rank, here in enumerate(gap_old):
        middle = int(rank * scale)
        for there in gap_new[max(middle - _BAND, 0) : middle + _BAND + 1]:
            score = _shared(bags["old", here], bags["new", there])
            if score >= MIN_SIMILARITY:
                candidates.append((-score, here, there))
    pairs: list[tuple[int, int, float]] = []
    used_old: set[int] = set()
    used_new: set[int] = set()
    for _, here, there in sorted(candidates):
        if here in used_old or there in used_new:
            continue
        similarity = word_similarity(old[here].text, new[there].text)
        if similarity >= MIN_SIMILARITY:
            pairs.append((here, there, similarity))
            used_old.add(here)
            used_new.add(there)
    return pairs


def _shared(first: Counter[str], second: Counter[str]) -> float:
    """An upper bound of the similarity: words that both have, whatever their order."""
    total = first.total() + second.total()
    return 2.0 * (first & second).total() / total if total else 0.0


def _in_order(
    old: Sequence[Chunk], new: Sequence[Chunk], partner: dict[int, tuple[int, ChangeKind, float]], taken: set[int]
) -> tuple[ChunkChange, ...]:
    changes: list[ChunkChange] = []
    removed = iter([index for index in range(len(old)) if index not in taken])
    waiting = next(removed, len(old))
    for there, chunk in enumerate(new):
        if there not in partner:
            changes.append(ChunkChange(ChangeKind.ADDED, None, chunk.position, 0.0))
            continue
        here, kind, similarity = partner[there]
        while kind is not ChangeKind.MOVED and waiting < here:
            changes.append(ChunkChange(ChangeKind.REMOVED, old[waiting].position, None, 0.0))
            waiting = next(removed, len(old))
        changes.append(ChunkChange(kind, old[here].position, chunk.position, similarity))
    while waiting < len(old):
        changes.append(ChunkChange(ChangeKind.REMOVED, old[waiting].position, None, 0.0))
        waiting = next(removed, len(old))
    return tuple(changes)
