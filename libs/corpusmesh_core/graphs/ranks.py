"""PageRank of the entities of a graph."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MAX_STEPS: Final = 100
"""Steps of a walk; 0.85 has decayed to less than a millionth by then."""
_DAMPING: Final = 0.85
"""Probability of walking on rather than starting anew anywhere."""
_TOLERANCE: Final = 1e-6


def page_rank(adjacency: Any) -> NDArray[np.float32]:
    """Rank entities by where a random walk spends its time (Brin and Page 1998).

    Args:
        adjacency: `csr_array`, symmetric, float32, shape (n, n).

    Returns:
        Ranks, sum 1, shape (n,).
    """
    count = adjacency.shape[0]
    if not count:
        return np.zeros(0, np.float32)
    inverse = inverse_degrees(np.asarray(adjacency.sum(axis=1), np.float32).ravel())
    rank: NDArray[np.float32] = np.full(count, 1.0 / count, np.float32)
    for _ in range(MAX_STEPS):
        moved = np.float32(_DAMPING) * (adjacency @ (rank * inverse))
        # What stands where nothing leads on starts anew, as do all that do not walk on.
        moved += np.float32((1.0 - float(moved.sum())) / count)
        change = float(np.abs(moved - rank).sum())
        rank = moved
        if change < _TOLERANCE:
            break
    return rank


def inverse_degrees(degree: NDArray[np.float32]) -> NDArray[np.float32]:
    """Say how what leaves a place is shared out.

    Args:
        degree: Sum of the strengths that lead away from each place.

    Returns:
        One by that; 0 where nothing leads away.
    """
    return np.divide(np.float32(1.0), degree, out=np.zeros_like(degree), where=degree > 0)
