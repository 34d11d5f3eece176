"""Finds ruled tables on a PDF page: rulings by PDFium, the grid by pdfplumber's table functions.

pdfplumber's own page reading costs about 200 ms a page; its pure grid functions on PDFium's rulings cost a few.
"""

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from pdfplumber.table import cells_to_tables, edges_to_intersections, intersections_to_cells, merge_edges

from corpusmesh_adapters.parsers.pdf_lines import Frame
from corpusmesh_core.documents import Box

_THIN_POINTS = 3.0
_MIN_LENGTH_POINTS = 8.0
_TOLERANCE_POINTS = 3.0
_MAX_OBJECTS = 20_000
_MAX_SEGMENTS = 400
# Beyond this the page is a drawing, and the grid functions take time with the square of the edges.
_MAX_EDGES = 800
_MAX_FORM_DEPTH = 3
_MIN_PARTED_LINES = 3
_MIN_PARTED_CELLS = 3

_Matrix = tuple[float, float, float, float, float, float]
_Edge = tuple[float, float, float, float]
_IDENTITY: _Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class RuledTable:
    """A table with rulings.

    Attributes:
        box: Where it stands.
        rows: Cell texts, lines of a cell parted by line breaks; covered cells empty.
        row_boxes: One box per row, or the table's own where it is turned.
        header_row_count: Leading header rows; None where the rulings do not tell.
    """

    box: Box
    rows: tuple[tuple[str, ...], ...]
    row_boxes: tuple[Box, ...]
    header_row_count: int | None


def find_ruled_tables(
    page: pdfium.PdfPage, textpage: pdfium.PdfTextPage, frame: Frame, direction: int
) -> list[RuledTable]:
    """Find the ruled tables of a page.

    Args:
        page: The page.
        textpage: Its text.
        frame: Its coordinates.
        direction: Quarter turns of its writing, see `Line.direction`; the grid of a turned table is turned upright.

    Returns:
        Tables of at least two rows and two columns that hold text, from top to bottom.
    """
    edges: list[_Edge] = []
    for edge in _RulingReader().edges(page):
        edges.append(edge)
        if len(edges) > _MAX_EDGES:
            return []
    shown = [_displayed(edge, frame) for edge in edges]
    horizontal = sum(1 for edge in shown if edge["orientation"] == "h")
    if horizontal < 2 or len(shown) - horizontal < 2:
        return []
    merged = merge_edges(shown, _TOLERANCE_POINTS, _TOLERANCE_POINTS, _TOLERANCE_POINTS, _TOLERANCE_POINTS)
    if len(merged) > _MAX_EDGES:
        return []
    cells = intersections_to_cells(edges_to_intersections(merged, _TOLERANCE_POINTS, _TOLERANCE_POINTS))
    tables = (_table(group, textpage, frame) for group in cells_to_tables(cells))
    found = sorted((table for table in tables if table is not None), key=lambda table: table.box.top)
    return [_split_rows(_upright(table, direction)) for table in found]


def _upright(table: RuledTable, direction: int) -> RuledTable:
    """Turn the grid of a table that is written upwards or downwards, so that its rows are rows of text."""
    if direction not in (1, 3):
        return table
    columns = tuple(zip(*table.rows, strict=True))
    rows = tuple(column[::-1] for column in columns) if direction == 1 else columns[::-1]
    return replace(table, rows=rows, row_boxes=(table.box,), header_row_count=None)


def _split_rows(table: RuledTable) -> RuledTable:
    """Part rows that rulings enclose together: where at least three cells have the same three lines or more."""
    rows: list[tuple[str, ...]] = []
    boxes: list[Box] = []
    one_each = len(table.row_boxes) == len(table.rows)
    for index, row in enumerate(table.rows):
        heights = [cell.count("\n") + 1 for cell in row if cell]
        height = heights[0] if heights else 1
        parted = height >= _MIN_PARTED_LINES and len(heights) >= _MIN_PARTED_CELLS and len(set(heights)) == 1
        lines = [cell.split("\n") if cell else [""] * height for cell in row]
        rows.extend(zip(*lines, strict=True) if parted else [row])
        if one_each:
            boxes.extend([table.row_boxes[index]] * (height if parted else 1))
    return replace(table, rows=tuple(rows), row_boxes=tuple(boxes) if one_each else table.row_boxes)


def _displayed(edge: _Edge, frame: Frame) -> dict[str, Any]:
    box = frame.box(*edge)
    flat = box.bottom - box.top <= box.right - box.left
    if flat:
        middle = (box.top + box.bottom) / 2
        return _edge("h", box.left, middle, box.right, middle)
    middle = (box.left + box.right) / 2
    return _edge("v", middle, box.top, middle, box.bottom)


def _edge(orientation: str, x0: float, top: float, x1: float, bottom: float) -> dict[str, Any]:
    return {
        "orientation": orientation,
        "object_type": "line",
        "x0": x0,
        "x1": x1,
        "top": top,
        "bottom": bottom,
        "doctop": top,
        "width": x1 - x0,
        "height": bottom - top,
    }


class _RulingReader:
    """Reads straight rulings of a page, those inside form objects included, in PDF coordinates."""

    def __init__(self) -> None:
        self._bounds = tuple(ctypes.c_float() for _ in range(4))
        self._x, self._y = ctypes.c_float(), ctypes.c_float()
        self._matrix = pdfium_c.FS_MATRIX()

    def edges(self, page: pdfium.PdfPage) -> Iterator[_Edge]:
        count = min(pdfium_c.FPDFPage_CountObjects(page), _MAX_OBJECTS)
        for index in range(count):
            yield from self._object(pdfium_c.FPDFPage_GetObject(page, index), _IDENTITY, 0)

    def _object(self, item: Any, outer: _Matrix, depth: int) -> Iterator[_Edge]:
        kind = pdfium_c.FPDFPageObj_GetType(item)
        if kind == pdfium_c.FPDF_PAGEOBJ_PATH:
            yield from self._path(item, outer)
        elif kind == pdfium_c.FPDF_PAGEOBJ_FORM and depth < _MAX_FORM_DEPTH:
            inner = _multiplied(self._own_matrix(item), outer)
            for index in range(min(pdfium_c.FPDFFormObj_CountObjects(item), _MAX_OBJECTS)):
                yield from self._object(pdfium_c.FPDFFormObj_GetObject(item, index), inner, depth + 1)

    def _path(self, item: Any, outer: _Matrix) -> Iterator[_Edge]:
        if not pdfium_c.FPDFPageObj_GetBounds(item, *self._bounds):
            return
        left, bottom, right, top = (value.value for value in self._bounds)
        width, height = right - left, top - bottom
        if max(width, height) < _MIN_LENGTH_POINTS:
            return
        if min(width, height) <= _THIN_POINTS:
            yield _moved((left, bottom, right, top), outer)
            return
        count = pdfium_c.FPDFPath_CountSegments(item)
        if count <= _MAX_SEGMENTS:
            matrix = _multiplied(self._own_matrix(item), outer)
            yield from self._segments(item, count, matrix)

    def _segments(self, item: Any, count: int, matrix: _Matrix) -> Iterator[_Edge]:
        start = last = (0.0, 0.0)
        for index in range(count):
            segment = pdfium_c.FPDFPath_GetPathSegment(item, index)
            kind = pdfium_c.FPDFPathSegment_GetType(segment)
            pdfium_c.FPDFPathSegment_GetPoint(segment, self._x, self._y)
            point = _apply(matrix, self._x.value, self._y.value)
            if kind == pdfium_c.FPDF_SEGMENT_MOVETO:
                start = point
            elif kind == pdfium_c.FPDF_SEGMENT_LINETO:
                yield from _straight(last, point)
            if pdfium_c.FPDFPathSegment_GetClose(segment):
                yield from _straight(point, start)
            last = point

    def _own_matrix(self, item: Any) -> _Matrix:
        if not pdfium_c.FPDFPageObj_GetMatrix(item, self._matrix):
            return _IDENTITY
        matrix = self._matrix
        return (matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f)


def _straight(first: tuple[float, float], second: tuple[float, float]) -> Iterator[_Edge]:
    width, height = abs(first[0] - second[0]), abs(first[1] - second[1])
    if min(width, height) <= 1.0 and max(width, height) >= _MIN_LENGTH_POINTS:
        yield (
            min(first[0], second[0]),
            min(first[1], second[1]),
            max(first[0], second[0]),
            max(first[1], second[1]),
        )


def _apply(matrix: _Matrix, x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


def _multiplied(inner: _Matrix, outer: _Matrix) -> _Matrix:
    a, b, c, d, e, f = inner
    x, y = _apply(outer, e, f)
    across, down = outer[:2], outer[2:4]
    return (
        a * across[0] + b * down[0],
        a * across[1] + b * down[1],
        c * across[0] + d * down[0],
        c * across[1] + d * down[1],
        x,
        y,
    )


def _moved(edge: _Edge, outer: _Matrix) -> _Edge:
    x0, y0 = _apply(outer, edge[0], edge[1])
    x1, y1 = _apply(outer, edge[2], edge[3])
    return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)


def _table(cells: Sequence[_Edge], textpage: pdfium.PdfTextPage, frame: Frame) -> RuledTable | None:
    lefts, tops = _clusters(cell[0] for cell in cells), _clusters(cell[1] for cell in cells)
    if len(lefts) < 2 or len(tops) < 2 or len(cells) < 4:
        return None
    grid = [[""] * len(lefts) for _ in tops]
    height = bottom = 1
    spanned = False
    for left, top, right, low in cells:
        row, column = _index(tops, top), _index(lefts, left)
        text = _text(textpage, frame, left, top, right, low)
        grid[row][column] = f"{grid[row][column]}\n{text}".strip("\n")
        if row == 0:
            bottom = sum(1 for other in tops if other < low - _TOLERANCE_POINTS)
            height = max(height, bottom)
            spanned = spanned or sum(1 for other in lefts if left - 1 < other < right - _TOLERANCE_POINTS) > 1
    filled = sum(1 for row_cells in grid for text in row_cells if text)
    # Frames around pictures and forms have a grid too, and next to no text in it.
    if filled < 3 or filled * 4 < len(cells) or sum(any(row_cells) for row_cells in grid) < 2:
        return None
    box = Box(
        frame.page,
        min(cell[0] for cell in cells),
        min(cell[1] for cell in cells),
        max(cell[2] for cell in cells),
        max(cell[3] for cell in cells),
    )
    ends = [*tops[1:], box.bottom]
    row_boxes = tuple(Box(frame.page, box.left, top, box.right, end) for top, end in zip(tops, ends, strict=True))
    header = height if spanned and 1 < height < len(tops) else None
    return RuledTable(box, tuple(map(tuple, grid)), row_boxes, header)


def _text(textpage: pdfium.PdfTextPage, frame: Frame, left: float, top: float, right: float, bottom: float) -> str:
    x0, y0, x1, y1 = _stored(frame, left, top, right, bottom)
    text: str = textpage.get_text_bounded(x0, y0, x1, y1)
    text = text.replace("\ufffe", "").replace("\x02", "")
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def _stored(frame: Frame, left: float, top: float, right: float, bottom: float) -> tuple[float, float, float, float]:
    """Map a displayed rectangle back to PDF coordinates: left, bottom, right, top."""
    if frame.rotation == 90:
        return frame.left + top, frame.bottom + left, frame.left + bottom, frame.bottom + right
    if frame.rotation == 180:
        return frame.right - right, frame.bottom + top, frame.right - left, frame.bottom + bottom
    if frame.rotation == 270:
        return frame.right - bottom, frame.top - right, frame.right - top, frame.top - left
    return frame.left + left, frame.top - bottom, frame.left + right, frame.top - top


def _clusters(values: Iterator[float]) -> list[float]:
    found: list[float] = []
    for value in sorted(values):
        if not found or value - found[-1] > _TOLERANCE_POINTS:
            found.append(value)
    return found


def _index(clusters: Sequence[float], value: float) -> int:
    return max(index for index, start in enumerate(clusters) if start <= value + 0.01)
