"""Sequential watershed: a layer is cut where neighbours are least alike, in one pass over its vectors.

Seed `000_3271a9def2ed8e29.txt`, section 2.4: cosines of neighbours, a percentile of them as threshold, a cap on the
number of clusters. The bound on the size of a cluster is our own (ADR-0012): vectors that are all alike are never
parted by a percentile, and a summary of ten thousand children keeps no token of any of them.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.trees.values import Vectors

UNRELATED: Final = -1.0
"""Cosine of a pair one of which has no direction: a vector of zeros, or one that holds NaN or infinity."""

_BLOCK_VALUES: Final = 262_144
"""Values of a block, 1 MiB of float32: a block is read three times, and must stay in the cache meanwhile."""
_DECIMALS: Final = 6
"""Cosines are rounded: the noise of float32 must not part texts that are equal."""
_SAFE_SQUARES: Final = (1e-20, 1e30)
"""Sums of squares within these bounds are exact enough in float32; others are taken in float64."""


def neighbour_cosines(vectors: Vectors) -> NDArray[np.float32]:
    """Say how alike each vector and the next are.

    Args:
        vectors: Shape (n, dimension), any length, any values. Read in blocks, never copied as a whole.

    Returns:
        Shape (max(n - 1, 0),), float32, -1 to 1, rounded to six decimals; `UNRELATED` for a pair one of which has no
        direction.
    """
    count, dimension = vectors.shape
    cosines = np.full(max(count - 1, 0), UNRELATED, dtype=np.float32)
    if not dimension:
        return cosines
    step = max(1, _BLOCK_VALUES // dimension)
    for start in range(0, count - 1, step):
        block = np.asarray(vectors[start : start + step + 1], dtype=np.float32)
        cosines[start : start + len(block) - 1] = _block_cosines(block)
    return cosines


def _block_cosines(block: Vectors) -> NDArray[np.float32]:
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->i", block, block)
        dots = np.einsum("ij,ij->i", block[:-1], block[1:])
        cosines = dots / np.sqrt(squares[:-1]) / np.sqrt(squares[1:])
        low, high = _SAFE_SQUARES
        safe = (squares > low) & (squares < high)
        for place in np.flatnonzero(~(safe[:-1] & safe[1:])):
            cosines[place] = _wide_cosine(block[place], block[place + 1])
    rounded: NDArray[np.float32] = np.round(np.clip(cosines, -1.0, 1.0), _DECIMALS)
    return rounded


def _wide_cosine(first: Vectors, second: Vectors) -> float:
    wide, other = first.astype(np.float64), second.astype(np.float64)
    cosine = float(wide @ other / np.linalg.norm(wide) / np.linalg.norm(other))
    return cosine if np.isfinite(cosine) else UNRELATED


def layer_threshold(cosines: NDArray[np.float32], share: float, ratio: float) -> float:
    """Find the cosine beneath which neighbours of a layer are parted.

    Args:
        cosines: See `neighbour_cosines`; of n nodes.
        share: Share of the pairs that should be parted, 0 to 1: the percentile of the seed.
        ratio: Most clusters against nodes; the threshold is pressed lower until they are no more than that.

    Returns:
        The threshold; `UNRELATED`, beneath which nothing is, where there is no pair.
    """
    if not len(cosines):
        return UNRELATED
    threshold = np.float32(np.quantile(cosines, share))
    most = max(1, int(ratio * (len(cosines) + 1)))
    if np.count_nonzero(cosines < threshold) + 1 > most:
        # At most `most - 1` cosines are beneath the one that has as many before it in their order.
        threshold = np.partition(cosines, most - 1)[most - 1]
    return float(threshold)


def watershed_starts(cosines: NDArray[np.float32], threshold: float, max_size: int) -> NDArray[np.int64]:
    """Cut a layer into contiguous clusters.

    Args:
        cosines: See `neighbour_cosines`; of n >= 1 nodes.
        threshold: Neighbours whose cosine is beneath it are parted; what is then alone is joined, see `join_lone`.
        max_size: Most nodes of a cluster, at least 4; larger ones are cut further, see `split_oversized`.

    Returns:
        First place of each cluster, ascending; the first is 0.
    """
    parted = cosines < np.float32(threshold)
    join_lone(parted, cosines, np.ones(len(cosines), dtype=bool))
    return split_oversized(np.concatenate(([0], np.flatnonzero(parted) + 1)), cosines, max_size)


def join_lone(parted: NDArray[np.bool_], cosines: NDArray[np.float32], closable: NDArray[np.bool_]) -> None:
    """Join each node that is a cluster of its own with the neighbour that is more alike.

    The percentile of the seed leaves every fourth to seventh node alone, with a summary of itself: 38 % of the nodes of
    documents of 50 passages, 66 % of those of a knowledge base of 5,183. They say nothing that the node beneath does
    not say, and each is a call of a language model. Joined, there are 0.29 nodes for each leaf instead of 0.46, and
    what is found stays the same or gets better (bench/tree_study.py, ADR-0012).

    Args:
        parted: Which neighbours are parted, shape (n - 1,); changed in place.
        cosines: How alike they are, shape (n - 1,).
        closable: Between which a join is allowed, shape (n - 1,).
    """
    last = len(parted)
    if not last:
        return
    edges = np.concatenate(([True], parted, [True]))
    for node in np.flatnonzero(edges[:-1] & edges[1:]).tolist():
        # The one before may have joined it meanwhile.
        if (node > 0 and not parted[node - 1]) or (node < last and not parted[node]):
            continue
        left = float(cosines[node - 1]) if node > 0 and closable[node - 1] else -np.inf
        right = float(cosines[node]) if node < last and closable[node] else -np.inf
        if left > -np.inf or right > -np.inf:
            parted[node - 1 if left >= right else node] = False


def split_oversized(starts: NDArray[np.int64], cosines: NDArray[np.float32], max_size: int) -> NDArray[np.int64]:
    """Cut clusters that are too large at the weakest link of their middle half, again and again.

    A cut within the middle half leaves no piece smaller than a quarter: no piece of a large cluster is a lone node, the
    layer still shrinks, and the work is O(n log n) for any values. Where links are equally weak, the middle one is cut.

    Args:
        starts: First place of each cluster, ascending, the first 0.
        cosines: See `neighbour_cosines`.
        max_size: Most nodes of a cluster, at least 4.

    Returns:
        First place of each cluster, ascending.
    """
    count = len(cosines) + 1
    sizes = np.diff(starts, append=count)
    cuts: list[int] = []
    for index in np.flatnonzero(sizes > max_size):
        waiting = [(int(starts[index]), int(starts[index] + sizes[index]))]
        while waiting:
            first, end = waiting.pop()
            if end - first > max_size:
                cut = _weakest_link(cosines, first, end)
                cuts.append(cut)
                waiting += [(first, cut), (cut, end)]
    return np.union1d(starts, np.array(cuts, dtype=np.int64)) if cuts else starts


def _weakest_link(cosines: NDArray[np.float32], first: int, end: int) -> int:
    """Choose the place before which the cluster from `first` to `end` is cut."""
    low = -(-(end - first) // 4)
    window = cosines[first + low - 1 : end - low]
    weakest = np.flatnonzero(window == window.min())
    nearest = weakest[np.argmin(np.abs(2 * weakest - (len(window) - 1)))]
    return first + low + int(nearest)
