"""How the stages after scoring put candidates into a new order without mixing up scales."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.ranking import RankedCandidate

MERGED_INTO_PARENT: Final = "merged_into_parent"
MERGED_INTO_SEGMENT: Final = "merged_into_segment"
MERGED_INTO_NEIGHBOUR: Final = "merged_into_neighbour"
DUPLICATE_OF_BETTER: Final = "duplicate_of_better"
OVER_DOCUMENT_CAP: Final = "over_document_cap"


def kept_of(ranked: Sequence[RankedCandidate]) -> list[RankedCandidate]:
    """Take the candidates that are part of the result.

    Args:
        ranked: All candidates.

    Returns:
        The kept ones in their order.
    """
    return [item for item in ranked if item.is_kept]


def level_scores(kept: Sequence[RankedCandidate]) -> NDArray[np.float64]:
    """Put an order on the scale of similarity: the place i gets the i-th best similarity.

    Ranks, BM25 and z-scores cannot be added to a gain or a grade between 0 and 1. This keeps the order that they made;
    where the order is that of similarity, every candidate keeps its own.

    Args:
        kept: Candidates in order, best first.

    Returns:
        Scores, shape [n], falling.
    """
    similarities = np.array([item.similarity for item in kept], dtype=np.float64)
    return np.asarray(-np.sort(-similarities), dtype=np.float64)


def with_scores(item: RankedCandidate, *, similarity: float, order_score: float) -> RankedCandidate:
    """Give a candidate other scores.

    Args:
        item: The candidate.
        similarity: Its new similarity.
        order_score: What it is ordered by.

    Returns:
        The candidate with them.
    """
    return replace(item, explanation=replace(item.explanation, similarity=similarity, order_score=order_score))


def dropped(item: RankedCandidate, reason: str) -> RankedCandidate:
    """Leave a candidate out, and say why.

    Args:
        item: The candidate.
        reason: Why, one of this module's names.

    Returns:
        The dropped candidate.
    """
    return replace(item, explanation=replace(item.explanation, dropped_because=reason))


def sorted_by_score(kept: Iterable[RankedCandidate]) -> list[RankedCandidate]:
    """Sort by `order_score`, best first; equal scores keep their order.

    Args:
        kept: Candidates.

    Returns:
        The same in order.
    """
    return sorted(kept, key=lambda item: -item.explanation.order_score)


def arranged(
    kept: Sequence[RankedCandidate], left_out: Iterable[RankedCandidate], before: Sequence[RankedCandidate]
) -> tuple[RankedCandidate, ...]:
    """Put the result of a stage together.

    Args:
        kept: What stays, in order.
        left_out: What the stage dropped.
        before: All candidates before the stage; those that were dropped already stay dropped.

    Returns:
        The kept ones, then the dropped ones, these by their scores.
    """
    gone = [*left_out, *(item for item in before if not item.is_kept)]
    return (*kept, *sorted_by_score(gone))


def reordered(ranked: Sequence[RankedCandidate], order: Sequence[int]) -> tuple[RankedCandidate, ...]:
    """Put the first kept candidates into another order.

    Args:
        ranked: Candidates, kept ones first.
        order: Places of the first kept ones in their new order.

    Returns:
        Candidates in order. Similarities stay; the scores that order them are dealt out anew, so that a later stage
        that sorts keeps this order.
    """
    kept = kept_of(ranked)
    first = [kept[place] for place in order]
    moved = [*first, *kept[len(first) :]]
    levels = level_scores(kept)
    scored = [
        with_scores(item, similarity=item.similarity, order_score=float(level))
        for item, level in zip(moved, levels, strict=True)
    ]
    return arranged(scored, (), ranked)
