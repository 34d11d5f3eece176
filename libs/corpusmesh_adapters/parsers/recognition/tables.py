"""Puts the recognised words of a page into the cells of its tables."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from corpusmesh_adapters.parsers.builder import guess_header_row_count
from corpusmesh_adapters.parsers.recognition.layout import Bounds, shared_area
from corpusmesh_adapters.parsers.recognition.lines import TextLine, in_running_order, joined_text, mean_confidence
from corpusmesh_adapters.parsers.recognition.rules import Grid
from corpusmesh_adapters.parsers.recognition.structure import Structure
from corpusmesh_core.documents import CellSpan, Table

_LEAST_FILLED: Final = 0.2

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table with its text.

    Attributes:
        table: Its cells.
        bounds: Where it is, in pixels of the upright page.
        row_bounds: Where each row is.
        confidence: How sure the reader was of its text, 0 to 1.
    """

    table: Table
    bounds: Bounds
    row_bounds: tuple[Bounds, ...]
    confidence: float


def read_grid(grid: Grid, lines: Sequence[TextLine]) -> ReadTable | None:
    """Fill the cells of a ruled table.

    Args:
        grid: Its rows and columns.
        lines: The lines within it.

    Returns:
        The table; None where too few cells hold text for it to be one.
    """
    row_count, column_count = len(grid.rows) - 1, len(grid.columns) - 1
    origins = _origins(grid.spans)

    def place_of(x: float, y: float) -> Place:
        row = min(max(bisect_right(grid.rows, y) - 1, 0), row_count - 1)
        column = min(max(bisect_right(grid.columns, x) - 1, 0), column_count - 1)
        return origins.get((row, column), (row, column))

    cells = _filled(lines, place_of)
    cell_count = row_count * column_count - len(origins) + len(grid.spans)
    if len(cells) < max(2, _LEAST_FILLED * cell_count):
        return None
    left, _, right, _ = grid.bounds
    row_bounds = [(left, grid.rows[row], right, grid.rows[row + 1]) for row in range(row_count)]
    return _table(cells, row_bounds, column_count, grid.spans, 0)


def read_structure(structure: Structure, bounds: Bounds, lines: Sequence[TextLine]) -> ReadTable | None:
    """Fill the cells of a table whose structure a network found.

    Args:
        structure: Its structure.
        bounds: Where it is.
        lines: The lines within it.

    Returns:
        The table; None where too few cells hold text.
    """
    origins = _origins(structure.spans)
    single = dict(zip(structure.places, structure.bounds, strict=True))
    rows = _middles(single, structure.row_count, axis=0, spans=structure.spans)
    columns = _middles(single, structure.column_count, axis=1, spans=structure.spans)

    def place_of(x: float, y: float) -> Place:
        for place, (left, top, right, bottom) in single.items():
            if left <= x <= right and top <= y <= bottom:
                return place
        row = min(range(len(rows)), key=lambda index: abs(rows[index] - y))
        column = min(range(len(columns)), key=lambda index: abs(columns[index] - x))
        return origins.get((row, column), (row, column))

    cells = _filled(lines, place_of)
    if len(cells) < max(2, _LEAST_FILLED * len(structure.places)):
        return None
    left, top, right, bottom = bounds
    edges = [top, *((first + second) / 2 for first, second in pairwise(rows)), bottom]
    row_bounds = [(left, min(first, second), right, max(first, second)) for first, second in pairwise(edges)]
    return _table(cells, row_bounds, structure.column_count, structure.spans, structure.header_row_count)


def _filled(lines: Sequence[TextLine], place_of: Callable[[float, float], Place]) -> dict[Place, list[TextLine]]:
    cells: dict[Place, list[TextLine]] = defaultdict(list)
    for line in lines:
        left, _, right, _ = line.bounds
        y = line.middle[1]
        # The detector joins what stands close, over a cell's edge too: such a line is parted into its words.
        parted = line.words() if place_of(left, y) != place_of(right, y) else [line]
        for word in parted:
            cells[place_of(*word.middle)].append(word)
    return cells


def _table(
    cells: dict[Place, list[TextLine]],
    row_bounds: Sequence[Bounds],
    column_count: int,
    spans: tuple[CellSpan, ...],
    header_row_count: int,
) -> ReadTable:
    rows = [[""] * column_count for _ in row_bounds]
    for (row, column), lines in cells.items():
        rows[row][column] = joined_text([line.text for line in in_running_order(lines)])
    if not header_row_count or any(span.row == 0 for span in spans):
        header_row_count = max(header_row_count, _spanned_header(spans, rows))
    header_row_count = header_row_count or guess_header_row_count(rows)
    first, last = row_bounds[0], row_bounds[-1]
    return ReadTable(
        Table(tuple(tuple(row) for row in rows), min(header_row_count, len(rows) - 1), spans),
        (first[0], first[1], first[2], last[3]),
        tuple(row_bounds),
        mean_confidence(line for lines in cells.values() for line in lines),
    )


def _spanned_header(spans: Sequence[CellSpan], rows: Sequence[Sequence[str]]) -> int:
    """Count header rows by the merged cells in the first row: titles above and beside titles."""
    first = [span for span in spans if span.row == 0]
    above = [span for span in first if span.column_count > 1 and span.row_count < len(rows)]
    if not above:
        return 0
    beside = max((span.row_count for span in first), default=1)
    # A title above others needs the row of those others.
    return min(max(beside, 2), len(rows) - 1)


def _origins(spans: Sequence[CellSpan]) -> dict[Place, Place]:
    return {
        (span.row + down, span.column + across): (span.row, span.column)
        for span in spans
        for down in range(span.row_count)
        for across in range(span.column_count)
    }


def _middles(boxes: dict[Place, Bounds], count: int, *, axis: int, spans: Sequence[CellSpan]) -> list[float]:
    """Average where rows (axis 0) or columns (axis 1) are, by the cells that lie in one of them alone."""
    wide = {(span.row, span.column) for span in spans if (span.row_count if axis == 0 else span.column_count) > 1}
    found: dict[int, list[float]] = defaultdict(list)
    for place, (left, top, right, bottom) in boxes.items():
        if place not in wide:
            found[place[axis]].append((top + bottom) / 2 if axis == 0 else (left + right) / 2)
    known = {index: sum(places) / len(places) for index, places in found.items()}
    if not known:
        return [0.0] * count
    return [known[min(known, key=lambda index, wanted=wanted: abs(index - wanted))] for wanted in range(count)]  # type: ignore[misc]


def lines_within(lines: Sequence[TextLine], bounds: Bounds) -> list[TextLine]:
    """Find the lines that lie mostly in a rectangle.

    Args:
        lines: Lines.
        bounds: The rectangle.

    Returns:
        Those of them that share at least half of their area with it.
    """
    return [
        line
        for line in lines
        if shared_area(line.bounds, bounds)
        >= 0.5 * (line.bounds[2] - line.bounds[0]) * (line.bounds[3] - line.bounds[1])
    ]
