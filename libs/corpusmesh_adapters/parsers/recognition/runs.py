"""Connected pixels of a mask, found from the runs of its rows with NumPy alone."""

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]


def row_runs(mask: NDArray[np.bool_]) -> tuple[Indices, Indices, Indices]:
    """Find the runs of set pixels in each row.

    Args:
        mask: Shape `[height, width]`.

    Returns:
        Row, first column and column after the last of each run, ordered by row and column.
    """
    steps = np.diff(mask.astype(np.int8), axis=1, prepend=0, append=0)
    rows, starts = np.nonzero(steps == 1)
    _, ends = np.nonzero(steps == -1)
    return rows, starts, ends


def label_runs(rows: Indices, starts: Indices, ends: Indices, width: int) -> Indices:
    """Number runs so that runs which touch, corners included, share a number.

    Args:
        rows: As `row_runs` returns them.
        starts: Likewise.
        ends: Likewise.
        width: Columns of the mask.

    Returns:
        A number per run, not dense: the least index of a run of its group.
    """
    key = width + 2
    first = np.searchsorted(rows * key + ends, (rows + 1) * key + starts, side="left")
    last = np.searchsorted(rows * key + starts, (rows + 1) * key + ends, side="right")
    counts = np.maximum(last - first, 0)
    upper = np.repeat(np.arange(len(rows)), counts)
    lower = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    labels = np.arange(len(rows))
    while True:
        least = np.minimum(labels[upper], labels[lower])
        before = labels.copy()
        # The label itself moves too, not only the run: whole chains shorten at once.
        np.minimum.at(labels, labels[upper], least)
        np.minimum.at(labels, labels[lower], least)
        labels = labels[labels]
        if np.array_equal(before, labels):
            return labels
