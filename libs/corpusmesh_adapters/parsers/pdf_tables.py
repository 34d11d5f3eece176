"""Fills the grids of ruled tables with the text of their cells, turns turned tables upright, and joins their pages."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pypdfium2 as pdfium

from corpusmesh_adapters.parsers.pdf_calls import handle_of
from corpusmesh_adapters.parsers.pdf_frames import Frame, Line
from corpusmesh_adapters.parsers.pdf_grid import Grid, find_grids
from corpusmesh_adapters.parsers.pdf_layout import main_direction
from corpusmesh_adapters.parsers.pdf_lines import LineReader
from corpusmesh_adapters.parsers.pdf_rulings import TOLERANCE_POINTS, RulingReader
from corpusmesh_core.documents import Box, CellSpan

_WORD = re.compile(r"\S+")
# Full-width marks bring their own room, which PDFium takes for a space.
_WIDE = re.compile("[\u3000-\u303f\uff00-\uff60]")
_MIN_CELL_GAP_POINTS = 1.5
_MIN_PARTED_LINES = 3
_MIN_PARTED_CELLS = 3
_MIN_TEXTS = 3
_MIN_FILLED_SHARE = 0.25
_MIN_HELD_SHARE = 0.98
_MAX_HELD_SHARE = 1.05
_MAX_HEADER_ROWS = 4


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a page, or of pages that follow each other.

    Attributes:
        box: Where it stands, or its part on the last page.
        rows: Cell texts, lines of a cell parted by line breaks; covered cells empty.
        row_boxes: One box per row.
        header_row_count: Leading header rows; None where the rulings do not tell.
        spans: Cells that cover more than one place.
        edges: Left edges of its columns and the right edge of the last.
    """

    box: Box
    rows: tuple[tuple[str, ...], ...]
    row_boxes: tuple[Box, ...]
    header_row_count: int | None
    spans: tuple[CellSpan, ...] = ()
    edges: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class _Written:
    """A cell with its text, in rows and columns as they are read."""

    row: int
    column: int
    row_count: int
    column_count: int
    text: str


class TableFinder:
    """Finds the ruled tables of pages."""

    def __init__(self, reader: LineReader) -> None:
        """Share the reader of the document's lines.

        Args:
            reader: Has read the page when it is handed over.
        """
        self._reader = reader
        self._rulings = RulingReader()

    def find(self, page: pdfium.PdfPage, frame: Frame) -> list[Table]:
        """Find the ruled tables of the page whose lines were read last.

        Args:
            page: The page.
            frame: Its coordinates.

        Returns:
            Tables of at least two rows and two columns that hold text, from top to bottom, turned upright.
        """
        grids = find_grids(self._rulings.read(handle_of(page), frame))
        tables = [table for grid in grids if (table := self._table(grid, frame)) is not None]
        return sorted(tables, key=lambda table: table.box.top)

    def _table(self, grid: Grid, frame: Frame) -> Table | None:
        box = _edges_box(frame.page, grid.lefts[0], grid.tops[0], grid.lefts[-1], grid.tops[-1])
        lines = list(self._lines(box))
        if len(lines) < 2:
            return None
        texts = [""] * len(grid.cells)
        ends: list[Line | None] = [None] * len(grid.cells)
        for span, line in lines:
            for index, text, spaced in self._parts(grid, span, line):
                before = ends[index]
                if before is None:
                    joint = ""
                elif before is line:
                    joint = " " if spaced and not _WIDE.search(texts[index][-1] + text[0]) else ""
                else:
                    joint = "" if before.hyphenated else "\n"
                texts[index] += joint + text
                ends[index] = line
        filled = sum(1 for text in texts if text)
        # Frames around pictures and forms have a grid too, and next to no text in it.
        if filled < _MIN_TEXTS or filled < _MIN_FILLED_SHARE * len(texts):
            return None
        written = sum(len("".join(line.text.split())) for _, line in lines)
        celled = sum(len("".join(text.split())) for text in texts)
        # A grid whose cells miss text of its lines was not the table's: the lines are kept instead.
        if not _MIN_HELD_SHARE * written <= celled <= _MAX_HELD_SHARE * written:
            return None
        return _laid_out(grid, texts, box, main_direction([line for _, line in lines]))

    def _lines(self, box: Box) -> Iterator[tuple[tuple[int, int] | None, Line]]:
        """Find the lines in a table; of one that runs out of it only the cells inside, without a place in the text."""
        for span, line in self._reader.spans:
            runs_out = line.box.left < box.left - TOLERANCE_POINTS or line.box.right > box.right + TOLERANCE_POINTS
            if line.cells and runs_out:
                for text, cell in line.cells:
                    if _inside(cell, box):
                        yield None, replace(line, text=text, box=cell, cells=())
            elif _inside(line.box, box):
                yield span, line

    def _parts(self, grid: Grid, span: tuple[int, int] | None, line: Line) -> list[tuple[int, str, bool]]:
        """Part a line by cells: index of the cell, text, and whether a space stands before it."""
        whole = _cell_of(grid, line.box)
        if whole >= 0:
            return [(whole, line.text, False)]
        inner = [(_cell_of(grid, box), text, True) for text, box in line.cells]
        if span is None or (inner and all(index >= 0 for index, _, _ in inner)):
            return inner
        parts: list[tuple[int, str, bool]] = []
        for match in _WORD.finditer(self._reader.text, *span):
            parts.extend(self._word(grid, match.start(), match.group()))
        return [part for part in parts if part[0] >= 0]

    def _word(self, grid: Grid, start: int, word: str) -> Iterator[tuple[int, str, bool]]:
        """Give a word to its cell; where a ruling crosses it, part it only at a gap between its characters."""
        first = self._reader.character_edges(start)
        last = self._reader.character_edges(start + len(word) - 1)
        if first is None or last is None:
            return
        begin, end = _cell_around(grid, first), _cell_around(grid, last)
        if begin == end:
            yield begin, word, True
            return
        places = [self._reader.character_edges(position) for position in range(start, start + len(word))]
        known = [place if place is not None else first for place in places]
        pieces = [[0, 1]]
        for number in range(1, len(word)):
            if _gap(known[number - 1], known[number]) > _MIN_CELL_GAP_POINTS:
                pieces.append([number, number + 1])
            else:
                pieces[-1][1] = number + 1
        for left, right in pieces:
            middle = (
                (known[left][0] + known[right - 1][2]) / 2,
                (known[left][1] + known[left][3]) / 2,
            )
            turned = abs(known[left][1] - known[right - 1][1]) > abs(known[left][0] - known[right - 1][0])
            if turned:
                middle = (middle[0], (known[left][1] + known[right - 1][3]) / 2)
            yield grid.cell_at(*middle), word[left:right], left == 0


def join_pages(first: Table, second: Table) -> Table | None:
    """Join the parts of a table that goes on over a page break.

    Args:
        first: The last thing on a page.
        second: The first thing on the next page.

    Returns:
        One table without the repeated header, or None if they are two tables: columns that do not stand in the same
        places.
    """
    width = len(first.rows[0])
    if second.box.page != first.row_boxes[-1].page + 1 or len(second.rows[0]) != width:
        return None
    header = _repeated_header(first, second)
    if not header and not _same_columns(first.edges, second.edges):
        return None
    skipped = len(first.rows) - header
    spans = [replace(span, row=span.row + skipped) for span in second.spans if span.row >= header]
    return Table(
        second.box,
        first.rows + second.rows[header:],
        first.row_boxes + second.row_boxes[header:],
        first.header_row_count,
        first.spans + tuple(spans),
        second.edges,
    )


def _repeated_header(first: Table, second: Table) -> int:
    count = 0
    most = min(_MAX_HEADER_ROWS, len(first.rows), len(second.rows) - 1)
    while count < most and any(first.rows[count]) and _bare_row(first.rows[count]) == _bare_row(second.rows[count]):
        count += 1
    return count


def _bare_row(row: Sequence[str]) -> list[str]:
    return ["".join(cell.split()) for cell in row]


def _same_columns(first: Sequence[float], second: Sequence[float]) -> bool:
    return len(first) == len(second) > 0 and all(abs(a - b) <= 6.0 for a, b in zip(first, second, strict=True))


def _inside(box: Box, outer: Box) -> bool:
    x, y = (box.left + box.right) / 2, (box.top + box.bottom) / 2
    return outer.left <= x <= outer.right and outer.top <= y <= outer.bottom


def _cell_of(grid: Grid, box: Box) -> int:
    """Find the cell that holds all of a line, -1 where several do or none does."""
    left, right = grid.column_at(min(box.left + 1.0, box.right)), grid.column_at(max(box.right - 1.0, box.left))
    row = grid.row_at((box.top + box.bottom) / 2)
    if left < 0 or right < 0 or row < 0:
        return -1
    owner = grid.owners[row][left]
    if left != right and grid.owners[row][right] != owner:
        return -1
    # A line that is written upwards is as tall as it is long.
    if box.bottom - box.top > box.right - box.left:
        for y in (box.top + 2.0, box.bottom - 2.0):
            end = grid.row_at(y)
            if end != row and (end < 0 or grid.owners[end][left] != owner):
                return -1
    return owner


def _cell_around(grid: Grid, edges: tuple[float, float, float, float]) -> int:
    return grid.cell_at((edges[0] + edges[2]) / 2, (edges[1] + edges[3]) / 2)


def _gap(first: tuple[float, float, float, float], second: tuple[float, float, float, float]) -> float:
    across = max(second[0] - first[2], first[0] - second[2])
    along = max(second[1] - first[3], first[1] - second[3])
    return max(across, along)


def _edges_box(page: int, left: float, top: float, right: float, bottom: float) -> Box:
    return Box(page, round(left, 1), round(top, 1), round(right, 1), round(bottom, 1))


def _laid_out(grid: Grid, texts: Sequence[str], box: Box, direction: int) -> Table | None:
    """Lay cells out in rows as they are read, whichever way the table is turned on the page."""
    rows, columns = len(grid.tops) - 1, len(grid.lefts) - 1
    cells = []
    for cell, text in zip(grid.cells, texts, strict=True):
        above, left = cell.row, cell.column
        below, right = rows - cell.row - cell.row_count, columns - cell.column - cell.column_count
        row, column = ((above, left), (left, below), (below, right), (right, above))[direction]
        turned = direction in (1, 3)
        height, width = (cell.column_count, cell.row_count) if turned else (cell.row_count, cell.column_count)
        cells.append(_Written(row, column, height, width, text))
    if direction in (1, 3):
        rows, columns = columns, rows
    grid_rows = [[""] * columns for _ in range(rows)]
    for written in cells:
        grid_rows[written.row][written.column] = written.text
    if sum(any(row) for row in grid_rows) < 2 or sum(any(column) for column in zip(*grid_rows, strict=True)) < 2:
        return None
    boxes = _row_boxes(grid, box, direction)
    spans = [
        CellSpan(cell.row, cell.column, cell.row_count, cell.column_count)
        for cell in cells
        if cell.row_count * cell.column_count > 1
    ]
    header = _header_row_count(cells, rows, columns)
    edges = grid.lefts if direction in (0, 2) else grid.tops
    table = Table(box, tuple(map(tuple, grid_rows)), boxes, header, tuple(spans), edges)
    return _split_rows(table, direction)


def _row_boxes(grid: Grid, box: Box, direction: int) -> tuple[Box, ...]:
    if direction in (0, 2):
        boxes = [
            _edges_box(box.page, box.left, top, box.right, bottom)
            for top, bottom in zip(grid.tops, grid.tops[1:], strict=False)
        ]
        return tuple(boxes if direction == 0 else reversed(boxes))
    boxes = [
        _edges_box(box.page, left, box.top, right, box.bottom)
        for left, right in zip(grid.lefts, grid.lefts[1:], strict=False)
    ]
    return tuple(boxes if direction == 1 else reversed(boxes))


def _header_row_count(cells: Sequence[_Written], rows: int, columns: int) -> int | None:
    """Find header rows by merged cells: those that the cells of the first row reach down to."""
    start = 0
    first = [cell for cell in cells if cell.row == 0]
    if len(first) == 1 and first[0].column_count == columns:
        # A title over the whole table goes with the header below it.
        start = first[0].row_count
        first = [cell for cell in cells if cell.row == start]
    end = max((cell.row + cell.row_count for cell in first), default=0)
    parted = any(cell.column_count > 1 for cell in first) and end - start > 1
    labelled = start > 0 and all(cell.text and not cell.text[0].isdigit() for cell in first)
    return end if (parted or labelled) and end < rows and end <= _MAX_HEADER_ROWS else None


def _split_rows(table: Table, direction: int) -> Table:
    """Part rows that rulings enclose together: where at least three cells have the same three lines or more."""
    heights = [_parted_height(table, index, row) for index, row in enumerate(table.rows)]
    if max(heights) == 1:
        return table
    starts = [sum(heights[:index]) for index in range(len(heights) + 1)]
    rows: list[tuple[str, ...]] = []
    boxes: list[Box] = []
    for height, row, box in zip(heights, table.rows, table.row_boxes, strict=True):
        lines = [cell.split("\n") if cell else [""] * height for cell in row]
        rows.extend(zip(*lines, strict=True) if height > 1 else [row])
        boxes.extend(_parts_of_row(box, height, direction))
    spans = [
        CellSpan(starts[span.row], span.column, starts[span.row + span.row_count] - starts[span.row], span.column_count)
        for span in table.spans
        if span.row_count > 1 or heights[span.row] == 1
    ]
    return replace(table, rows=tuple(rows), row_boxes=tuple(boxes), spans=tuple(spans))


def _parts_of_row(box: Box, count: int, direction: int) -> list[Box]:
    """Part the box of a row into rows of equal height, in the order in which they are read."""
    if direction in (0, 2):
        step = (box.bottom - box.top) / count
        parts = [
            _edges_box(box.page, box.left, box.top + step * part, box.right, box.top + step * (part + 1))
            for part in range(count)
        ]
    else:
        step = (box.right - box.left) / count
        parts = [
            _edges_box(box.page, box.left + step * part, box.top, box.left + step * (part + 1), box.bottom)
            for part in range(count)
        ]
    return parts if direction in (0, 1) else parts[::-1]


def _parted_height(table: Table, index: int, row: Sequence[str]) -> int:
    counts = [cell.count("\n") + 1 for cell in row if cell]
    height = counts[0] if counts else 1
    if height < _MIN_PARTED_LINES or len(counts) < _MIN_PARTED_CELLS or len(set(counts)) > 1:
        return 1
    covered = any(span.row <= index < span.row + span.row_count and span.row_count > 1 for span in table.spans)
    return 1 if covered and any(span.row == index and span.row_count > 1 for span in table.spans) else height
