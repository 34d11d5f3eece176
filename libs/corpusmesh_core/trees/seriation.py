"""An order in which neighbours are alike: what the watershed cuts, for things that have no order of their own.

Documents are halved along the direction in which they differ most, again and again, the half that is more like what
came before first, the one that is more like what comes after last. Within a block of at most `BLOCK_SIZE` a chain goes
from each to the most alike that is left, and is mended while reversing a stretch or moving one of it helps. Larger
blocks give neighbours that are more alike and upper layers that are less so: a chain jumps to what it left behind, the
halves do not. On four sets of 2,884 to 6,119 passages blocks of 128 were the best of both (ADR-0012).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.trees.values import Vectors

BLOCK_SIZE: Final = 128
"""Most rows that are chained at once; bounds time and memory for each row."""

_SAMPLE_SIZE: Final = 2048
"""Rows that the direction of the largest difference is taken from."""
_POWER_STEPS: Final = 6
_ROWS_AT_ONCE: Final = 4096
_GAIN: Final = 1e-5
"""A change that gains less is noise of float32, and could be undone for ever."""
_NEVER: Final = -9.0


def seriate(vectors: Vectors) -> NDArray[np.int64]:
    """Order vectors so that neighbours are alike.

    The same vectors give the same order. Time grows as n log n with the number of vectors, memory is one copy of them.

    Args:
        vectors: Shape (n, dimension); any length, any values. What has no direction (zeros, NaN, infinity) is like
            nothing.

    Returns:
        Shape (n,): a permutation of the places; equal vectors mostly keep their order among themselves.
    """
    count = len(vectors)
    if count <= 2:
        return np.arange(count, dtype=np.int64)
    unit = _directions(vectors)
    order: list[NDArray[np.int64]] = []
    last: Vectors | None = None
    # Each with the mean of what comes after it.
    waiting: list[tuple[NDArray[np.int64], Vectors | None]] = [(np.arange(count, dtype=np.int64), None)]
    while waiting:
        group, after = waiting.pop()
        if len(group) > BLOCK_SIZE:
            near, far = _halves(unit, group, last, after)
            waiting += [(far, after), (near, _mean(unit, far))]
            continue
        order.append(group[_chain(unit[group], last, after)])
        last = unit[order[-1][-1]]
    return np.concatenate(order)


def _directions(vectors: Vectors) -> Vectors:
    unit = np.array(vectors, dtype=np.float32)
    for start in range(0, len(unit), _ROWS_AT_ONCE):
        block = unit[start : start + _ROWS_AT_ONCE]
        with np.errstate(all="ignore"):
            # Scaled by the largest value first, so that no square is too large or too small for float32.
            block /= np.abs(block).max(axis=1, keepdims=True, initial=0.0)
            block /= np.linalg.norm(block, axis=1, keepdims=True)
        block[~np.isfinite(block).all(axis=1)] = 0.0
    return unit


def _mean(unit: Vectors, group: NDArray[np.int64]) -> Vectors:
    mean: Vectors = _sample(unit, group).mean(axis=0)
    return mean


def _sample(unit: Vectors, group: NDArray[np.int64]) -> Vectors:
    return unit[group[:: -(-len(group) // _SAMPLE_SIZE)]]


def _halves(
    unit: Vectors, group: NDArray[np.int64], last: Vectors | None, after: Vectors | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    axis = _widest_direction(_sample(unit, group))
    starts = range(0, len(group), _ROWS_AT_ONCE)
    along = np.concatenate([unit[group[start : start + _ROWS_AT_ONCE]] @ axis for start in starts])
    ranked = np.argsort(along, kind="stable")
    middle = len(group) // 2
    low, high = np.sort(group[ranked[:middle]]), np.sort(group[ranked[middle:]])
    # Where its surroundings lie along the axis says which half comes first.
    centre = float(np.median(along))
    begins = centre if last is None else float(last @ axis)
    ends = centre if after is None else float(after @ axis)
    return (high, low) if begins > ends + _GAIN else (low, high)


def _widest_direction(rows: Vectors) -> Vectors:
    """Find the first principal direction by power iteration, from the row furthest from the mean."""
    centred = rows - rows.mean(axis=0)
    axis: Vectors = centred[np.argmax(np.einsum("ij,ij->i", centred, centred))]
    for _step in range(_POWER_STEPS):
        turned = centred.T @ (centred @ axis)
        length = float(np.linalg.norm(turned))
        if length <= np.finfo(np.float32).tiny:
            break
        axis = turned / np.float32(length)
    return axis


def _chain(rows: Vectors, last: Vectors | None, after: Vectors | None) -> NDArray[np.int64]:
    """Go from each row to the most alike that is left, then mend.

    Begins with what is most like the last row before; without one, with what is least like what comes after, or like
    all others: an end.
    """
    alike = rows @ rows.T
    away = rows.sum(axis=0) if after is None else after
    first = int(np.argmin(rows @ away) if last is None else np.argmax(rows @ last))
    chain = np.empty(len(rows), dtype=np.int64)
    left = np.zeros(len(rows), dtype=np.float32)
    for step in range(len(rows)):
        chain[step] = first
        left[first] = _NEVER
        first = int(np.argmax(alike[first] + left))
    for _change in range(len(rows)):
        changed = _mended(alike[np.ix_(chain, chain)])
        if changed is None:
            break
        chain = chain[changed]
    return chain


def _mended(alike: NDArray[np.float32]) -> NDArray[np.int64] | None:
    """Find the change of a chain that gains most: a stretch reversed, or one moved. The first stays where it is.

    Args:
        alike: Cosines of each pair of the chain, in its order, shape (n, n).

    Returns:
        The changed order of its places; None where nothing gains.
    """
    count = len(alike)
    if count < 4:
        return None
    places = np.arange(count)
    links = np.diagonal(alike, 1)
    # Reversing i + 1 .. j links i with j and i + 1 with j + 1.
    reversing = np.triu(alike[:-1, :-1] + alike[1:, 1:] - links[:, None] - links[None, :], 1)
    start, end = divmod(int(np.argmax(reversing)), count - 1)
    # Moving k between j and j + 1; row k - 1 is for k, first and last are not moved.
    leaving = np.diagonal(alike, 2) - links[:-1] - links[1:]
    moving = alike[1:-1, :-1] + alike[1:-1, 1:] - links[None, :] + leaving[:, None]
    moving[places[:-2], places[:-2]] = moving[places[:-2], places[1:-1]] = _NEVER
    moved, gap = divmod(int(np.argmax(moving)), count - 1)
    if max(reversing[start, end], moving[moved, gap]) < _GAIN:
        return None
    if reversing[start, end] >= moving[moved, gap]:
        return np.concatenate((places[: start + 1], places[start + 1 : end + 1][::-1], places[end + 1 :]))
    without = np.delete(places, moved + 1)
    return np.insert(without, gap if gap > moved else gap + 1, moved + 1)
