"""What differs between two runs of one search."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SAME_SIMILARITY: Final = 1e-4
"""Similarities that differ by less are the same: scores of words move a little with every document of the index."""


class DifferenceKind(StrEnum):
    """What became of a hit."""

    GONE = "gone"
    NEW = "new"
    MOVED = "moved"
    RESCORED = "rescored"


class GoneReason(StrEnum):
    """Why a hit is none any more."""

    HIDDEN = "not visible to you now, or deleted"
    NO_CANDIDATE = "no candidate any more"
    RANKED_LOWER = "below the last place"


@dataclass(frozen=True, slots=True)
class RankedHit:
    """A hit of one run.

    Attributes:
        record_id: Its record.
        similarity: What the order is made of.
    """

    record_id: str
    similarity: float


@dataclass(frozen=True, slots=True)
class HitDifference:
    """What became of a hit.

    Attributes:
        record_id: Its record.
        kind: What became of it.
        rank_before: Place in the first run from 1; 0 for none.
        rank_now: Place in the second run from 1; 0 for none.
        similarity_before: Similarity in the first run.
        similarity_now: Similarity in the second run.
        why: Why it is gone; None where it is not.
    """

    record_id: str
    kind: DifferenceKind
    rank_before: int = 0
    rank_now: int = 0
    similarity_before: float = 0.0
    similarity_now: float = 0.0
    why: GoneReason | None = None


def compare_runs(
    before: Sequence[RankedHit],
    now: Sequence[RankedHit],
    *,
    hidden: Collection[str] = (),
    candidates: Mapping[str, float] | None = None,
) -> list[HitDifference]:
    """Compare two runs of a search.

    Args:
        before: Hits of the first run, best first.
        now: Hits of the second run, best first.
        hidden: Records of the first run that may not be seen any more.
        candidates: Similarity of what the second run looked at, by record, whether it was a hit or not.

    Returns:
        Differences by place in the second run, those that are gone last, by their place in the first. A hit that has
        its place and its similarity still makes none.
    """
    ranks_before = {hit.record_id: (rank, hit.similarity) for rank, hit in enumerate(before, start=1)}
    found: list[HitDifference] = []
    for rank, hit in enumerate(now, start=1):
        if hit.record_id not in ranks_before:
            found.append(HitDifference(hit.record_id, DifferenceKind.NEW, rank_now=rank, similarity_now=hit.similarity))
            continue
        rank_before, similarity_before = ranks_before[hit.record_id]
        is_rescored = abs(hit.similarity - similarity_before) > SAME_SIMILARITY
        if rank != rank_before or is_rescored:
            kind = DifferenceKind.MOVED if rank != rank_before else DifferenceKind.RESCORED
            found.append(HitDifference(hit.record_id, kind, rank_before, rank, similarity_before, hit.similarity))
    still = {hit.record_id for hit in now}
    for rank, hit in enumerate(before, start=1):
        if hit.record_id in still:
            continue
        similarity_now = (candidates or {}).get(hit.record_id)
        if hit.record_id in hidden:
            why = GoneReason.HIDDEN
        else:
            why = GoneReason.NO_CANDIDATE if similarity_now is None else GoneReason.RANKED_LOWER
        found.append(
            HitDifference(hit.record_id, DifferenceKind.GONE, rank, 0, hit.similarity, similarity_now or 0.0, why)
        )
    return found
