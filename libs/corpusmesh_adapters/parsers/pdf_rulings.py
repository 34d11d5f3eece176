"""Finds straight rulings on a PDF page: lines, thin rectangles and the sides of boxes, those inside forms included."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field

import pypdfium2.raw as pdfium_c

from corpusmesh_adapters.parsers.pdf_calls import (
    count_form_objects,
    count_objects,
    count_segments,
    get_form_object,
    get_object,
    get_object_bounds,
    get_object_matrix,
    get_object_type,
    get_segment,
    get_segment_point,
    get_segment_type,
    is_segment_closing,
)
from corpusmesh_adapters.parsers.pdf_frames import Frame

TOLERANCE_POINTS = 3.0
_THIN_POINTS = 3.0
_MIN_LENGTH_POINTS = 8.0
_MAX_OBJECTS = 20_000
_MAX_SEGMENTS = 2_000
_MAX_PAGE_SEGMENTS = 8_000
_MAX_CURVES = 8
# Beyond this the page is a drawing, and the grid takes time with the square of the edges.
_MAX_EDGES = 1_600
_MAX_FORM_DEPTH = 3

_PATH, _FORM = pdfium_c.FPDF_PAGEOBJ_PATH, pdfium_c.FPDF_PAGEOBJ_FORM
_MOVE, _LINE = pdfium_c.FPDF_SEGMENT_MOVETO, pdfium_c.FPDF_SEGMENT_LINETO
_Matrix = tuple[float, float, float, float, float, float]
_Edge = tuple[float, float, float, float]


@dataclass(slots=True)
class Rulings:
    """Rulings of a page as displayed: position across, start and end along, in points from its top left.

    Attributes:
        horizontal: Top, left and right of each.
        vertical: Left, top and bottom of each.
    """

    horizontal: list[tuple[float, float, float]] = field(default_factory=list)
    vertical: list[tuple[float, float, float]] = field(default_factory=list)


class RulingReader:
    """Reads the rulings of pages; its buffers are made once per document."""

    def __init__(self) -> None:
        """Make the buffers."""
        self._bounds = (ctypes.c_float * 4)()
        address = ctypes.addressof(self._bounds)
        self._bound_addresses = (address, address + 4, address + 8, address + 12)
        self._point = (ctypes.c_float * 2)()
        self._point_addresses = (ctypes.addressof(self._point), ctypes.addressof(self._point) + 4)
        self._matrix = (ctypes.c_float * 6)()
        self._segment_count = 0

    def read(self, page: int, frame: Frame) -> Rulings:
        """Read the rulings of a page.

        Args:
            page: Address of the page.
            frame: Its coordinates.

        Returns:
            What was found; nothing for a page with so many that it is a drawing.
        """
        found = Rulings()
        self._segment_count = 0
        edge_count = 0
        for index in range(min(count_objects(page), _MAX_OBJECTS)):
            item = get_object(page, index)
            kind = get_object_type(item)
            if kind != _PATH and kind != _FORM:
                continue
            for edge in self._path(item, None) if kind == _PATH else self._form(item, None, 0):
                edge_count += 1
                _add(found, frame, edge)
            if edge_count > _MAX_EDGES:
                return Rulings()
        return found

    def _form(self, item: int | None, outer: _Matrix | None, depth: int) -> Iterator[_Edge]:
        inner = _multiplied(self._own_matrix(item), outer)
        for index in range(min(count_form_objects(item), _MAX_OBJECTS)):
            part = get_form_object(item, index)
            kind = get_object_type(part)
            if kind == _PATH:
                yield from self._path(part, inner)
            elif kind == _FORM and depth + 1 < _MAX_FORM_DEPTH:
                yield from self._form(part, inner, depth + 1)

    def _path(self, item: int | None, outer: _Matrix | None) -> Iterator[_Edge]:
        if not get_object_bounds(item, *self._bound_addresses):
            return
        left, bottom, right, top = self._bounds
        width, height = right - left, top - bottom
        if width < _MIN_LENGTH_POINTS and height < _MIN_LENGTH_POINTS:
            return
        if width <= _THIN_POINTS or height <= _THIN_POINTS:
            yield (left, bottom, right, top) if outer is None else _moved((left, bottom, right, top), outer)
            return
        count = count_segments(item)
        self._segment_count += count
        if count > _MAX_SEGMENTS or self._segment_count > _MAX_PAGE_SEGMENTS:
            return
        matrix = self._own_matrix(item)
        if 4 <= count <= 5 and self._is_rectangle(item, matrix):
            for edge in (
                (left, bottom, left, top),
                (right, bottom, right, top),
                (left, bottom, right, bottom),
                (left, top, right, top),
            ):
                if max(edge[2] - edge[0], edge[3] - edge[1]) >= _MIN_LENGTH_POINTS:
                    yield edge if outer is None else _moved(edge, outer)
            return
        yield from self._segments(item, count, _multiplied(matrix, outer))

    def _is_rectangle(self, item: int | None, matrix: _Matrix | None) -> bool:
        """Tell a rectangle by its first corner: its bounds say the rest, at half the cost of reading all corners."""
        if matrix is not None and (matrix[1] or matrix[2]) and (matrix[0] or matrix[3]):
            return False
        points: list[tuple[float, float]] = []
        for index in range(3):
            segment = get_segment(item, index)
            if index and get_segment_type(segment) != _LINE:
                return False
            get_segment_point(segment, *self._point_addresses)
            points.append((self._point[0], self._point[1]))
        first, second, third = points
        return (first[0] == second[0] and second[1] == third[1]) or (first[1] == second[1] and second[0] == third[0])

    def _segments(self, item: int | None, count: int, matrix: _Matrix) -> Iterator[_Edge]:
        a, b, c, d, e, f = matrix
        start = last = (0.0, 0.0)
        straight = other = 0
        for index in range(count):
            segment = get_segment(item, index)
            kind = get_segment_type(segment)
            get_segment_point(segment, *self._point_addresses)
            x, y = self._point
            point = (a * x + c * y + e, b * x + d * y + f)
            if kind == _MOVE:
                start = point
            elif kind == _LINE and (abs(point[0] - last[0]) <= 1.0 or abs(point[1] - last[1]) <= 1.0):
                straight += 1
                yield from _long(last, point)
                if is_segment_closing(segment):
                    yield from _long(point, start)
            else:
                other += 1
                if other > _MAX_CURVES and other > straight:
                    # The outline of something drawn.
                    return
            last = point

    def _own_matrix(self, item: int | None) -> _Matrix | None:
        if not get_object_matrix(item, ctypes.addressof(self._matrix)):
            return None
        a, b, c, d, e, f = self._matrix
        return (a, b, c, d, e, f)


def _add(found: Rulings, frame: Frame, edge: _Edge) -> None:
    if not frame.shows(*edge):
        return
    left, top, right, bottom = frame.edges(*edge)
    if bottom - top <= right - left:
        found.horizontal.append(((top + bottom) / 2, left, right))
    else:
        found.vertical.append(((left + right) / 2, top, bottom))


def _long(first: tuple[float, float], second: tuple[float, float]) -> tuple[_Edge, ...]:
    x0, y0 = first
    x1, y1 = second
    width, height = abs(x0 - x1), abs(y0 - y1)
    if (width > 1.0 and height > 1.0) or (width < _MIN_LENGTH_POINTS and height < _MIN_LENGTH_POINTS):
        return ()
    return ((min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)),)


def _multiplied(inner: _Matrix | None, outer: _Matrix | None) -> _Matrix:
    if inner is None:
        return outer or (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
    if outer is None:
        return inner
    a, b, c, d, e, f = inner
    across, up, skew, down, right, above = outer
    return (
        a * across + b * skew,
        a * up + b * down,
        c * across + d * skew,
        c * up + d * down,
        e * across + f * skew + right,
        e * up + f * down + above,
    )


def _moved(edge: _Edge, outer: _Matrix) -> _Edge:
    a, b, c, d, e, f = outer
    x0, y0, x1, y1 = edge
    first = (a * x0 + c * y0 + e, b * x0 + d * y0 + f)
    second = (a * x1 + c * y1 + e, b * x1 + d * y1 + f)
    return min(first[0], second[0]), min(first[1], second[1]), max(first[0], second[0]), max(first[1], second[1])
