"""Finds ruled tables: the lines drawn on a page, and the grid of cells between them.

A ruled grid says more than any model about where cells begin and end and which are merged; a network is asked only
where there are no rules (`structure`).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from corpusmesh_adapters.parsers.recognition.layout import Bounds
from corpusmesh_adapters.parsers.recognition.raster import Pixels
from corpusmesh_adapters.parsers.recognition.runs import label_runs, row_runs
from corpusmesh_core.documents import CellSpan

_CONTRAST: Final = 28
_BRIDGE_PIXELS: Final = 3
_COVERAGE: Final = 0.6
_MAX_RULES: Final = 2_000
_MAX_LINES: Final = 120
"""Rules in one direction of one table; more are a pattern, not a table."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows and columns of a table.

    Attributes:
        rows: Where rows begin and the last ends: y in pixels, ascending.
        columns: Where columns begin and the last ends: x in pixels, ascending.
        spans: Cells that cover more than one place.
    """

    rows: tuple[float, ...]
    columns: tuple[float, ...]
    spans: tuple[CellSpan, ...]

    @property
    def bounds(self) -> Bounds:
        """The rectangle around it."""
        return self.columns[0], self.rows[0], self.columns[-1], self.rows[-1]


def find_grids(pixels: Pixels, text_height: float) -> list[Grid]:
    """Find the ruled tables of an upright page.

    Args:
        pixels: The page.
        text_height: Height of most of its lines of text, in pixels.

    Returns:
        Grids of at least two rows and two columns, from top to bottom.
    """
    gray = np.asarray(Image.fromarray(np.ascontiguousarray(pixels)).convert("L")).astype(np.int16)
    reach = max(round(0.06 * text_height), 2)
    level = _rules(gray, reach, max(2.0 * text_height, 24.0))
    upright = _rules(np.ascontiguousarray(gray.T), reach, max(0.9 * text_height, 16.0))
    if not 2 <= len(level) <= _MAX_RULES or not len(upright) or len(upright) > _MAX_RULES:
        return []
    grids = []
    for rows, columns in _crossing(level, upright, 0.4 * text_height):
        grid = _grid(level[rows], upright[columns], 0.6 * text_height)
        if grid is not None:
            grids.append(grid)
    return sorted(grids, key=lambda grid: (grid.bounds[1], grid.bounds[0]))


def _rules(gray: NDArray[np.int16], reach: int, shortest: float) -> NDArray[np.float64]:
    """Find level rules: y, left, right; shape `[n, 3]`."""
    mask = np.zeros(gray.shape, bool)
    # Darker than what lies beside it, near for thin rules beside text, and less near for thick ones.
    for distance in (reach, 3 * reach):
        padded = np.pad(gray, ((distance, distance), (0, 0)), constant_values=255)
        mask |= np.minimum(padded[: -2 * distance], padded[2 * distance :]) - gray > _CONTRAST
    rows, starts, ends = row_runs(mask)
    # Runs that a speck parts are one.
    follows = np.zeros(len(rows), bool)
    follows[1:] = (rows[1:] == rows[:-1]) & (starts[1:] - ends[:-1] <= _BRIDGE_PIXELS)
    first = np.nonzero(~follows)[0]
    rows, starts, ends = rows[first], starts[first], ends[np.append(first[1:], len(ends)) - 1] if len(ends) else ends
    # A slightly turned rule is a stair of shorter runs: they are joined before their length is judged.
    fitting = ends - starts >= 0.5 * shortest
    rows, starts, ends = rows[fitting], starts[fitting], ends[fitting]
    if not len(rows):
        return np.empty((0, 3))
    _, labels = np.unique(label_runs(rows, starts, ends, gray.shape[1]), return_inverse=True)
    count = int(labels.max()) + 1
    left, right = np.full(count, np.inf), np.zeros(count)
    np.minimum.at(left, labels, starts)
    np.maximum.at(right, labels, ends)
    lengths = ends - starts
    middle = np.bincount(labels, weights=rows * lengths) / np.bincount(labels, weights=lengths)
    rules: NDArray[np.float64] = np.stack([middle, left, right], axis=1)[right - left >= shortest]
    return rules


def _crossing(
    level: NDArray[np.float64], upright: NDArray[np.float64], slack: float
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Group rules that touch each other, directly or through others."""
    y, left, right = level.T
    x, top, bottom = upright.T
    touches = (
        (x[None] >= left[:, None] - slack)
        & (x[None] <= right[:, None] + slack)
        & (y[:, None] >= top[None] - slack)
        & (y[:, None] <= bottom[None] + slack)
    )
    groups = np.arange(len(level))
    while True:
        of_upright = np.where(touches, groups[:, None], len(level)).min(axis=0, initial=len(level))
        found = np.minimum(groups, np.where(touches, of_upright[None], len(level)).min(axis=1, initial=len(level)))
        if np.array_equal(found, groups):
            break
        groups = found
    return [
        (np.nonzero(groups == group)[0], np.nonzero(of_upright == group)[0])
        for group in np.unique(groups)
        if (of_upright == group).any()
    ]


def _grid(level: NDArray[np.float64], upright: NDArray[np.float64], slack: float) -> Grid | None:
    rows = _merged(level[:, 0], slack)
    columns = _merged(upright[:, 0], slack)
    # Tables without side rules still end where their level rules end.
    left, right = float(level[:, 1].min()), float(level[:, 2].max())
    if columns and columns[0] - left > 3 * slack:
        columns.insert(0, left)
    if columns and right - columns[-1] > 3 * slack:
        columns.append(right)
    if not 3 <= len(rows) <= _MAX_LINES or not 3 <= len(columns) <= _MAX_LINES:
        return None
    below = _covered(level, rows, columns, slack)
    beside = _covered(upright, columns, rows, slack).T
    return Grid(tuple(rows), tuple(columns), tuple(_spans(below, beside)))


def _merged(places: NDArray[np.float64], slack: float) -> list[float]:
    """Take places that lie close together for one: double rules, cells with a gap between them."""
    merged: list[list[float]] = []
    for place in np.sort(places).tolist():
        if merged and place - merged[-1][-1] <= slack:
            merged[-1].append(place)
        else:
            merged.append([place])
    return [sum(group) / len(group) for group in merged]


def _covered(rules: NDArray[np.float64], places: list[float], edges: list[float], slack: float) -> NDArray[np.bool_]:
    """Say for each place and each stretch between edges whether a rule is drawn there."""
    covered = np.zeros((len(places), len(edges) - 1))
    for place, first, last in rules:
        index = int(np.argmin(np.abs(np.asarray(places) - place)))
        if abs(places[index] - place) > slack:
            continue
        for stretch in range(len(edges) - 1):
            shared = min(last, edges[stretch + 1]) - max(first, edges[stretch])
            covered[index, stretch] += max(shared, 0.0) / (edges[stretch + 1] - edges[stretch])
    return covered >= _COVERAGE


def _spans(below: NDArray[np.bool_], beside: NDArray[np.bool_]) -> list[CellSpan]:
    """Find cells that no rule parts, greedily from the top left, each a full rectangle."""
    row_count, column_count = len(below) - 1, beside.shape[1] - 1
    taken = np.zeros((row_count, column_count), bool)
    spans = []
    for row in range(row_count):
        for column in range(column_count):
            if taken[row, column]:
                continue
            last_column = column
            while (
                last_column + 1 < column_count and not beside[row, last_column + 1] and not taken[row, last_column + 1]
            ):
                last_column += 1
            last_row = row
            while last_row + 1 < row_count and not below[last_row + 1, column : last_column + 1].any():
                if beside[last_row + 1, column + 1 : last_column + 1].any():
                    break
                last_row += 1
            taken[row : last_row + 1, column : last_column + 1] = True
            if (last_row, last_column) != (row, column):
                spans.append(CellSpan(row, column, last_row - row + 1, last_column - column + 1))
    return spans
