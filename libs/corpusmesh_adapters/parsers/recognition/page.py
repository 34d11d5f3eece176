"""Reads one page that exists as pixels only: lines, layout, tables, order; turned pages are turned upright first."""

import time
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from corpusmesh_adapters.parsers.failures import over_limit
from corpusmesh_adapters.parsers.recognition.blocks import Frame, make_blocks, usual_height, usual_size
from corpusmesh_adapters.parsers.recognition.detection import find_lines
from corpusmesh_adapters.parsers.recognition.layout import Region, area, find_regions, shared_area
from corpusmesh_adapters.parsers.recognition.lines import TextLine, font_size, mean_confidence
from corpusmesh_adapters.parsers.recognition.models import Engine, load_engine
from corpusmesh_adapters.parsers.recognition.orientation import find_turn
from corpusmesh_adapters.parsers.recognition.raster import (
    Pixels,
    cut,
    quad_bounds,
    scaled,
    skew_degrees,
    straightened,
    swung,
    turned,
    turned_quads,
    unturned_box,
)
from corpusmesh_adapters.parsers.recognition.reading import is_upright, read_line
from corpusmesh_adapters.parsers.recognition.rules import find_grids
from corpusmesh_adapters.parsers.recognition.structure import find_structure
from corpusmesh_adapters.parsers.recognition.tables import ReadTable, lines_within, read_grid, read_structure
from corpusmesh_adapters.parsers.sandbox import recognizing
from corpusmesh_core.documents import Block, Box
from corpusmesh_core.ports.parsing import ParseLimits

_MAX_SIDE: Final = 4_000
_LEAST_CONFIDENCE: Final = 0.5
"""Lines below are noise: specks, pictures, handwriting."""

_READING_SHARE: Final = 0.7
"""Of a page's processor time: after that no more lines are read, and what was read is kept."""

_UNREADABLE: Final = 0.85
"""Sample lines that are read with less may be several that the detector took for one."""

_DRAWING: Final = 0.7


@dataclass(frozen=True, slots=True)
class RecognizedPage:
    """What recognition made of a page.

    Attributes:
        blocks: Blocks in reading order; boxes in points from the top left of the page as it was given.
        turned_degrees: How far its content lies turned, clockwise: 0, 90, 180 or 270.
        confidence: Mean over its lines, each weighed by its length, 0 to 1; 0 where there is no text.
        dropped_line_count: Lines that were left out: the reader was not sure of them, or the page's time was up.
    """

    blocks: tuple[Block, ...]
    turned_degrees: int
    confidence: float
    dropped_line_count: int = 0


def recognize(pixels: Pixels, *, page: int, points_per_pixel: float, limits: ParseLimits) -> RecognizedPage:
    """Recognise the text of a page, with its layout and its tables.

    In a parser process the limits on memory and time are raised for it (`sandbox.recognizing`).

    Args:
        pixels: The page as it lies, RGB, shape `[height, width, 3]`.
        page: Its number from 1.
        points_per_pixel: 72 over its resolution in dots per inch.
        limits: What it may cost.

    Returns:
        Its blocks; none where no text was found.

    Raises:
        DocumentError: DOCUMENT_RESOURCE_LIMIT `max_pixels` for a page of too many pixels, or
            `recognition_memory_bytes`.
        FileNotFoundError: If the models are not installed; ask `is_available` first.
    """
    height, width = pixels.shape[:2]
    if height * width > limits.max_pixels:
        raise over_limit("max_pixels", limits.max_pixels, f"a page has {width} x {height} pixels")
    try:
        with recognizing(limits):
            end_seconds = time.process_time() + _READING_SHARE * limits.recognition_cpu_seconds
            engine = load_engine()
            shrink = min(1.0, _MAX_SIDE / max(height, width, 1))
            if shrink < 1.0:
                pixels = scaled(pixels, max(round(width * shrink), 1), max(round(height * shrink), 1))
            return _read(engine, pixels, page, points_per_pixel / shrink, end_seconds)
    except MemoryError as error:
        raise over_limit(
            "recognition_memory_bytes", limits.recognition_memory_bytes, "recognising a page takes more memory"
        ) from error


def _read(engine: Engine, pixels: Pixels, page: int, points_per_pixel: float, end_seconds: float) -> RecognizedPage:
    found = find_lines(engine.detector, pixels)
    if not len(found.quads):
        return RecognizedPage((), 0, 0.0)
    degrees, confidence = find_turn(engine, pixels, found.quads)
    if confidence < _UNREADABLE and not found.is_fine:
        found = find_lines(engine.detector, pixels, finely=True)
        degrees, _ = find_turn(engine, pixels, found.quads)
    sheet = _Sheet.of(pixels, found.quads, degrees)
    upright = sheet.pixels
    every_line = _lines(engine, upright, sheet.quads, end_seconds)
    lines = [line for line in every_line if line.text and line.confidence >= _LEAST_CONFIDENCE]
    dropped = sum(1 for line in every_line if line.text) - len(lines) + len(sheet.quads) - len(every_line)
    if not lines:
        return RecognizedPage((), degrees, 0.0, dropped)
    frame = Frame(page, float(upright.shape[1]), float(upright.shape[0]), usual_height(lines), usual_size(lines))
    regions = find_regions(engine, upright)
    tables = _tables(engine, upright, lines, regions, frame)
    in_tables = {id(line) for table in tables for line in lines_within(lines, table.bounds)}
    rest = [line for line in lines if id(line) not in in_tables]
    blocks = make_blocks(rest, regions, tables, frame)

    placed = [
        replace(block, boxes=tuple(sheet.placed(box, points_per_pixel) for box in block.boxes)) for block in blocks
    ]
    return RecognizedPage(tuple(placed), degrees, round(mean_confidence(lines), 4), dropped)


@dataclass(frozen=True, slots=True)
class _Sheet:
    """A page turned upright and level.

    Attributes:
        pixels: It.
        quads: Its lines.
        degrees: By how many quarter turns it lay turned, in degrees.
        slope: How far its lines sloped after that, in degrees.
        lying: Width and height of the page as it lay.
        upright: Width and height of the page upright, before it was made level.
    """

    pixels: Pixels
    quads: NDArray[np.float32]
    degrees: int
    slope: float
    lying: tuple[int, int]
    upright: tuple[int, int]

    @classmethod
    def of(cls, pixels: Pixels, quads: NDArray[np.float32], degrees: int) -> Self:
        """Turn a page upright and level."""
        height, width = pixels.shape[:2]
        upright = np.ascontiguousarray(turned(pixels, degrees))
        quads = turned_quads(quads, degrees, width, height)
        size = (upright.shape[1], upright.shape[0])
        slope = skew_degrees(quads)
        if slope:
            upright = straightened(upright, slope)
            quads = swung(quads, slope, size, (upright.shape[1], upright.shape[0]))
        return cls(upright, quads, degrees, slope, (width, height), size)

    def placed(self, box: Box, points_per_pixel: float) -> Box:
        """Find where a rectangle of this sheet is on the page as it lay, in points."""
        left, top, right, bottom = box.left, box.top, box.right, box.bottom
        if self.slope:
            middle = np.asarray([(left + right) / 2, (top + bottom) / 2], np.float32)
            size = (self.pixels.shape[1], self.pixels.shape[0])
            x, y = (float(value) for value in swung(middle, -self.slope, size, self.upright))
            rise = abs(np.sin(np.radians(self.slope))) * (right - left) / 2
            half_width, half_height = (right - left) / 2, (bottom - top) / 2 + float(rise)
            left, top, right, bottom = x - half_width, y - half_height, x + half_width, y + half_height
        edges = unturned_box((left, top, right, bottom), self.degrees, *self.lying)
        limits = (self.lying[0], self.lying[1]) * 2
        points = (
            round(min(max(edge, 0.0), limit) * points_per_pixel, 1) for edge, limit in zip(edges, limits, strict=True)
        )
        return Box(box.page, *points)


def _lines(engine: Engine, pixels: Pixels, quads: NDArray[np.float32], end_seconds: float) -> list[TextLine]:
    """Read lines from the top of the page until there are no more, or the page's time is nearly up."""
    lines: list[TextLine] = []
    for index in np.argsort(quads[:, 0, 1], kind="stable"):
        if time.process_time() > end_seconds:
            break
        lines.append(_line(engine, pixels, quads[index]))
    return lines


def _line(engine: Engine, pixels: Pixels, quad: NDArray[np.float32]) -> TextLine:
    part = cut(pixels, quad)
    reading = read_line(engine, part)
    runs_down = is_upright(part) and len(reading.text) > 1
    size = font_size(np.rot90(part) if runs_down else part, reading.text)
    return TextLine(reading.text, reading.confidence, quad_bounds(quad), size, reading.offsets, runs_down)


def _tables(
    engine: Engine, pixels: Pixels, lines: list[TextLine], regions: list[Region], frame: Frame
) -> list[ReadTable]:
    """Read ruled tables by their rules, and others that the layout model sees by their structure."""
    tables: list[ReadTable] = []
    for grid in find_grids(pixels, frame.line_height):
        is_drawing = any(
            region.kind == "figure"
            and region.score >= _DRAWING
            and shared_area(region.bounds, grid.bounds) > 0.8 * area(grid.bounds)
            for region in regions
        )
        table = None if is_drawing else read_grid(grid, lines_within(lines, grid.bounds))
        if table is not None:
            tables.append(table)
    for region in regions:
        if region.kind != "table":
            continue
        if any(shared_area(region.bounds, table.bounds) > 0.3 * area(region.bounds) for table in tables):
            continue
        structure = find_structure(engine, pixels, region.bounds)
        table = read_structure(structure, region.bounds, lines_within(lines, region.bounds)) if structure else None
        if table is not None:
            tables.append(table)
    return tables
