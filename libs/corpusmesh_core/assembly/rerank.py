"""Mixes what a reranker says of the best candidates into their order."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.assembly.ordering import arranged, dropped, kept_of, level_scores, sorted_by_score, with_scores
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.ranking.scoring import BELOW_THRESHOLD


def mix_rerank_scores(
    ranked: Sequence[RankedCandidate], scores: NDArray[np.float64], *, weight: float, similarity_threshold: float = 0.0
) -> tuple[RankedCandidate, ...]:
    """Order the best candidates by (1 - weight) * similarity + weight * score.

    Args:
        ranked: Candidates, kept ones first.
        scores: What the reranker says of the first kept ones, in their order, shape [m], each 0 to 1.
        weight: Weight of the new score, 0 to 1.
        similarity_threshold: Re-scored candidates below it are dropped.

    Returns:
        The re-scored ones in their new order (equal scores keep the old one), then the kept ones that were not, in
        their order, whatever their similarity: two scales cannot be put in one order.

    Raises:
        InvalidArgumentError: RERANK_SCORES_INVALID if there are more scores than kept candidates, or one is not within
            0..1.

    References:
        The product's seed, section 5, step Q7.
    """
    kept = kept_of(ranked)
    if len(scores) > len(kept) or not bool(np.all((scores >= 0.0) & (scores <= 1.0))):
        raise InvalidArgumentError(
            "RERANK_SCORES_INVALID", "a reranker gives one score within 0..1 for each candidate", field="scores"
        )
    if not len(scores):
        return tuple(ranked)
    levels = level_scores(kept)
    depth = len(scores)
    mixed = [
        _mixed(item, float(level), float(score), weight)
        for item, level, score in zip(kept, levels, scores, strict=False)
    ]
    staying = sorted_by_score(item for item in mixed if item.similarity >= similarity_threshold)
    leaving = [dropped(item, BELOW_THRESHOLD) for item in mixed if item.similarity < similarity_threshold]
    floor = min((item.explanation.order_score for item in mixed), default=0.0)
    behind = [
        with_scores(item, similarity=item.similarity, order_score=min(float(level), floor))
        for item, level in zip(kept[depth:], levels[depth:], strict=True)
    ]
    return arranged([*staying, *behind], leaving, ranked)


def _mixed(item: RankedCandidate, level: float, score: float, weight: float) -> RankedCandidate:
    explanation = replace(
        item.explanation,
        similarity=(1.0 - weight) * item.similarity + weight * score,
        order_score=(1.0 - weight) * level + weight * score,
        rerank_similarity=score,
    )
    return replace(item, explanation=explanation)
