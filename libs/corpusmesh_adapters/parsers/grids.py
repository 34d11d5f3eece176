"""Lays table cells out on a grid, spans included, whatever way a format has of writing them."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from corpusmesh_adapters.parsers.failures import over_limit
from corpusmesh_core.documents import CellSpan
from corpusmesh_core.ports.parsing import ParseLimits

MAX_COLUMNS = 1_000
_MAX_LABEL_CHARACTERS = 60
_MAX_MORE_HEADER_ROWS = 2


class Grid:
    """A table under construction."""

    def __init__(self, limits: ParseLimits) -> None:
        """Start a table.

        Args:
            limits: How many cells it may have.
        """
        self._limits = limits
        self._rows: list[list[str]] = []
        self._spans: list[list[int]] = []
        self._covered: dict[int, int] = {}  # column -> rows that a cell above still covers
        self._following: dict[int, int] = {}
        self._above: dict[int, list[int]] = {}  # column -> the span that a cell below may continue
        self._cell_count = 0
        self._is_open = False

    @property
    def rows(self) -> list[list[str]]:
        """Cell texts row by row; covered cells are empty."""
        self._close_row()
        return self._rows

    @property
    def spans(self) -> list[CellSpan]:
        """Cells that cover more than one place."""
        height = len(self._rows)
        spans = (CellSpan(row, column, min(rows, height - row), columns) for row, column, rows, columns in self._spans)
        kept = (span for span in spans if span.row_count * span.column_count > 1)
        return sorted(kept, key=lambda span: (span.row, span.column))

    def start_row(self) -> None:
        """Begin the next row."""
        self._close_row()
        self._rows.append([])
        self._is_open = True

    def add(self, text: str, *, column_count: int = 1, row_count: int = 1) -> None:
        """Add a cell at the next free place of the row; beyond a thousand columns it is left out.

        Args:
            text: Its text.
            column_count: Columns that it covers.
            row_count: Rows that it covers.

        Raises:
            DocumentError: DOCUMENT_RESOURCE_LIMIT if spans blow the grid up.
        """
        line = self._rows[-1]
        self._skip_covered(line)
        columns = max(min(column_count, MAX_COLUMNS - len(line)), 0)
        if not columns:
            return
        span = [len(self._rows) - 1, len(line), max(row_count, 1), columns]
        self._above[len(line)] = span
        if columns > 1 or row_count > 1:
            self._spans.append(span)
            if row_count > 1:
                for column in range(len(line), len(line) + columns):
                    self._following[column] = row_count - 1
        line.append(text)
        line.extend([""] * (columns - 1))

    def skip(self, column_count: int) -> None:
        """Leave places of the row empty.

        Args:
            column_count: How many.
        """
        line = self._rows[-1]
        line.extend([""] * max(min(column_count, MAX_COLUMNS - len(line)), 0))

    def continue_above(self, column_count: int = 1) -> None:
        """Have the cell above cover the next places of this row too.

        Args:
            column_count: Columns that it covers.
        """
        line = self._rows[-1]
        span = self._above.get(len(line))
        if span is not None:
            if span[2] == 1 and span[3] == 1:
                self._spans.append(span)
            span[2] = len(self._rows) - span[0]
        self.skip(column_count)

    def _skip_covered(self, line: list[str], *, to_end: bool = False) -> None:
        last = max(self._covered, default=-1)
        while len(line) in self._covered or (to_end and len(line) < last):
            remaining = self._covered.get(len(line), 1)
            if remaining > 1:
                self._following[len(line)] = remaining - 1
            line.append("")

    def _close_row(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        line = self._rows[-1]
        self._skip_covered(line, to_end=True)
        self._covered, self._following = self._following, {}
        self._cell_count += len(line)
        if self._cell_count > self._limits.max_cells:
            raise over_limit("max_cells", self._limits.max_cells, f"a table has at least {self._cell_count} cells")


def kept_spans(spans: Iterable[CellSpan], numbers: Sequence[int], width: int) -> tuple[CellSpan, ...]:
    """Number spans by the rows that were kept; one that covers a single place is none.

    Args:
        spans: Spans in numbers of the whole table.
        numbers: Numbers of the rows that were kept, ascending.
        width: Columns that were kept.

    Returns:
        The spans that are left.
    """
    kept: list[CellSpan] = []
    place_of = {number: place for place, number in enumerate(numbers)}
    for span in spans:
        rows = [place_of[number] for number in range(span.row, span.row + span.row_count) if number in place_of]
        columns = min(span.column + span.column_count, width) - span.column
        if rows and columns > 0 and len(rows) * columns > 1:
            kept.append(CellSpan(rows[0], span.column, len(rows), columns))
    return tuple(kept)


def header_rows_with_spans(header_row_count: int, spans: Iterable[CellSpan]) -> int:
    """Count the rows that cells of the header reach down to.

    Args:
        header_row_count: Leading rows that are headers as far as is known.
        spans: Cells that cover more than one place.

    Returns:
        At least `header_row_count`, at most two more.
    """
    reach = header_row_count
    for span in spans:
        if span.row < header_row_count:
            reach = max(reach, min(span.row + span.row_count, header_row_count + _MAX_MORE_HEADER_ROWS))
    return reach


def guess_header_row_count(rows: Sequence[Sequence[str]], spans: Iterable[CellSpan] = ()) -> int:
    """Guess whether a table's first rows are its header, where the format does not say.

    Args:
        rows: Rows of equal length.
        spans: Cells that cover more than one place.

    Returns:
        2 if a cell of the first row stands above several of the second, which are labels too; 1 if the first of at
        least three rows is full of different short labels that are no numbers, else 0. A wrong 1 only repeats a row
        where a long table is split.
    """
    if len(rows) < 3 or len(rows[0]) < 2:
        return 0
    first = list(rows[0])
    has_groups = False
    for span in spans:
        if span.row == 0 and span.column_count > 1 and first[span.column]:
            has_groups = True
            first[span.column : span.column + span.column_count] = [first[span.column]] * span.column_count
    if not all(map(_is_label, first[has_groups:])):
        return 0
    if has_groups:
        # Below groups of columns stand the columns' own names, beside an empty corner.
        below = [cell for cell in rows[1] if cell]
        return 2 if not rows[1][0] and below and all(map(_is_label, below)) else 1
    return 1 if len(set(first)) == len(first) else 0


def _is_label(cell: str) -> bool:
    return bool(cell) and len(cell) <= _MAX_LABEL_CHARACTERS and not cell[0].isdigit()


@dataclass(frozen=True, slots=True)
class EdgeCell:
    """A cell of a format that says where cells end, not which columns they cover.

    Attributes:
        text: Its text.
        right: Where it ends, in any unit from the row's left.
        continues_above: Whether it belongs to the cell above it.
        continues_left: Whether it belongs to the cell before it.
    """

    text: str
    right: int = 0
    continues_above: bool = False
    continues_left: bool = False


def grid_from_edges(
    rows: Sequence[tuple[int, Sequence[EdgeCell]]], limits: ParseLimits, *, tolerance: int = 40
) -> Grid:
    """Lay out rows whose cells only say where they end (DOC, RTF).

    Args:
        rows: Left edge and cells of each row; cells that end at 0 everywhere take one column each.
        limits: How many cells the table may have.
        tolerance: Edges this near to each other are one.

    Returns:
        The grid.
    """
    grid = Grid(limits)
    edges = _clustered({edge for left, cells in rows for edge in (left, *(cell.right for cell in cells))}, tolerance)
    for left, cells in rows:
        grid.start_row()
        at = _edge_index(edges, left)
        rising = all(earlier.right < later.right for earlier, later in pairwise(cells))
        has_edges = rising and len(edges) > 2 and len(edges) <= MAX_COLUMNS
        if has_edges:
            grid.skip(at)
        for text, right, above in _joined(cells):
            to = _edge_index(edges, right) if has_edges else at + 1
            columns = max(to - at, 1)
            at = max(to, at + 1)
            if above:
                grid.continue_above(columns)
            else:
                grid.add(text, column_count=columns)
    return grid


def _joined(cells: Sequence[EdgeCell]) -> Iterator[tuple[str, int, bool]]:
    waiting: tuple[str, int, bool] | None = None
    for cell in cells:
        if cell.continues_left and waiting is not None:
            waiting = (f"{waiting[0]} {cell.text}".strip(), cell.right, waiting[2])
            continue
        if waiting is not None:
            yield waiting
        waiting = (cell.text, cell.right, cell.continues_above and not cell.text)
    if waiting is not None:
        yield waiting


def _clustered(edges: Iterable[int], tolerance: int) -> list[int]:
    clustered: list[int] = []
    for edge in sorted(edges):
        if not clustered or edge - clustered[-1] > tolerance:
            clustered.append(edge)
    return clustered


def _edge_index(edges: Sequence[int], edge: int) -> int:
    return max(bisect_right(edges, edge) - 1, 0)
