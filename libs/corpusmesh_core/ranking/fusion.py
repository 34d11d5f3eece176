"""Ways to make one score out of several; all keep input order on ties when their scores are sorted stably."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import InvalidArgumentError

RECIPROCAL_RANK_DAMPING = 60


def fuse_weighted(
    terms: NDArray[np.float64],
    vectors: NDArray[np.float64],
    *,
    vector_weight: float,
    rank_features: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Mix term and vector similarity: (1 - w) * terms + w * vectors + rank features.

    Args:
        terms: Term similarity, shape [n], 0 to 1.
        vectors: Vector similarity, shape [n], 0 to 1.
        vector_weight: The weight w, 0 to 1.
        rank_features: What tags, page rank and the like add, shape [n]; None for nothing.

    Returns:
        Similarities, shape [n].

    Raises:
        InvalidArgumentError: If the weight is outside 0..1 or the arrays differ in length.

    References:
        The product's seed, section 5, step Q7.
    """
    if not 0.0 <= vector_weight <= 1.0:
        raise InvalidArgumentError(
            "VECTOR_WEIGHT_INVALID", "the vector weight must be within 0..1", field="vector_weight", value=vector_weight
        )
    _check_lengths([terms, vectors, *([] if rank_features is None else [rank_features])])
    similarity = (1.0 - vector_weight) * terms + vector_weight * vectors
    return similarity if rank_features is None else similarity + rank_features


def fuse_ranks(
    runs: Sequence[NDArray[np.int32]],
    *,
    damping: int = RECIPROCAL_RANK_DAMPING,
    weights: Sequence[float] | None = None,
) -> NDArray[np.float64]:
    """Score by (weighted) reciprocal rank fusion.

    Args:
        runs: One array per leg, shape [n], ranks from 1; 0 means not returned.
        damping: Damping constant k, at least 1.
        weights: One per leg; None for equal ones.

    Returns:
        Scores, shape [n]; 0.0 where no leg returned the record.

    Raises:
        InvalidArgumentError: If the damping is below 1 or runs and weights do not fit together.

    References:
        Cormack, Clarke, Büttcher, SIGIR 2009.
    """
    if damping < 1:
        raise InvalidArgumentError("DAMPING_INVALID", "the damping must be at least 1", field="damping", value=damping)
    _check_lengths(runs)
    shares = [1.0] * len(runs) if weights is None else list(weights)
    if len(shares) != len(runs):
        raise InvalidArgumentError("WEIGHTS_INVALID", "there must be one weight per run", field="weights")
    total = np.zeros(len(runs[0]) if runs else 0, dtype=np.float64)
    for ranks, share in zip(runs, shares, strict=True):
        total += np.where(ranks > 0, share / (damping + ranks.astype(np.float64)), 0.0)
    return total


def fuse_min_max(scores: Sequence[NDArray[np.float64]], weights: Sequence[float]) -> NDArray[np.float64]:
    """Mix scores after stretching each to 0..1 over the candidates.

    Args:
        scores: One array per leg, shape [n].
        weights: One per leg.

    Returns:
        Weighted sums, shape [n]; a leg whose scores are all equal adds nothing.

    Raises:
        InvalidArgumentError: If scores and weights do not fit together.
    """
    return _mix(scores, weights, _stretched)


def fuse_z_scores(scores: Sequence[NDArray[np.float64]], weights: Sequence[float]) -> NDArray[np.float64]:
    """Mix scores after bringing each to mean 0 and deviation 1 over the candidates.

    Args:
        scores: One array per leg, shape [n].
        weights: One per leg.

    Returns:
        Weighted sums, shape [n]; a leg whose scores are all equal adds nothing.

    Raises:
        InvalidArgumentError: If scores and weights do not fit together.
    """
    return _mix(scores, weights, _standardized)


def _mix(
    scores: Sequence[NDArray[np.float64]],
    weights: Sequence[float],
    normalize: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> NDArray[np.float64]:
    if len(scores) != len(weights):
        raise InvalidArgumentError("WEIGHTS_INVALID", "there must be one weight per leg", field="weights")
    _check_lengths(scores)
    total = np.zeros(len(scores[0]) if scores else 0, dtype=np.float64)
    for values, weight in zip(scores, weights, strict=True):
        total += weight * normalize(values)
    return total


def _stretched(values: NDArray[np.float64]) -> NDArray[np.float64]:
    if values.size == 0 or values.max() == values.min():
        return np.zeros_like(values)
    lowest = float(values.min())
    return np.asarray((values - lowest) / (float(values.max()) - lowest), dtype=np.float64)


def _standardized(values: NDArray[np.float64]) -> NDArray[np.float64]:
    if values.size == 0 or values.max() == values.min():
        return np.zeros_like(values)
    return np.asarray((values - float(values.mean())) / float(values.std()), dtype=np.float64)


def _check_lengths(arrays: Sequence[NDArray[np.float64]] | Sequence[NDArray[np.int32]]) -> None:
    if len({len(values) for values in arrays}) > 1:
        raise InvalidArgumentError("LENGTHS_DIFFER", "all legs must score the same candidates", field="runs")
