"""Renders PDF pages, wholly or as figures cut out of them, within the limit on pixels."""

import ctypes
import io
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from numpy.typing import NDArray
from PIL import Image

from corpusmesh_adapters.parsers.pdf_calls import (
    count_form_objects,
    count_objects,
    get_form_object,
    get_object,
    get_object_bounds,
    get_object_matrix,
    get_object_type,
    handle_of,
)
from corpusmesh_adapters.parsers.pdf_frames import Frame
from corpusmesh_core.documents import Box, Picture

POINTS_PER_INCH = 72.0
_FIGURE_DOTS_PER_INCH = 150.0
_MIN_FIGURE_POINTS = 60.0
_MAX_OBJECTS = 5_000
_MAX_FORM_DEPTH = 3
# A picture of the whole page is the page's scan or its background, and not a figure of it.
_MAX_FIGURE_SHARE = 0.9
_JPEG_QUALITY = 85
_IMAGE, _FORM = pdfium_c.FPDF_PAGEOBJ_IMAGE, pdfium_c.FPDF_PAGEOBJ_FORM

Pixels = NDArray[np.uint8]


def render(page: pdfium.PdfPage, frame: Frame, *, dots_per_inch: float, max_pixels: int) -> tuple[Pixels, float]:
    """Render a page as displayed; smaller than asked for where it would have too many pixels.

    Args:
        page: The page.
        frame: Its coordinates.
        dots_per_inch: Resolution.
        max_pixels: Most pixels.

    Returns:
        Pixels, shape ``[height, width, 3]``, red, green, blue; and how many points one of them stands for.
    """
    scale = dots_per_inch / POINTS_PER_INCH
    width, height = max(frame.width, 0.1), max(frame.height, 0.1)
    if width * height * scale * scale > max_pixels:
        scale = math.sqrt(max_pixels / (width * height))
    # PDFium rounds both sides up.
    while math.ceil(width * scale) * math.ceil(height * scale) > max_pixels and scale * max(width, height) > 1.0:
        scale *= 0.95
    bitmap = page.render(scale=scale, rev_byteorder=True)
    try:
        pixels: Pixels = bitmap.to_numpy()[:, :, :3].copy()
    finally:
        bitmap.close()
    return pixels, 1.0 / scale


def encode_jpeg(pixels: Pixels) -> bytes:
    """Encode an image.

    Args:
        pixels: Shape ``[height, width, 3]``, red, green, blue.

    Returns:
        JPEG.
    """
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=_JPEG_QUALITY)
    return stream.getvalue()


def image_boxes(page: pdfium.PdfPage, frame: Frame) -> list[Box]:
    """Find the images of a page.

    Args:
        page: The page.
        frame: Its coordinates.

    Returns:
        Where each is displayed, in the order in which they are drawn.
    """
    reader = _ImageReader()
    return [frame.box(*edges) for edges in reader.read(handle_of(page)) if frame.shows(*edges)]


def covers_most(boxes: list[Box], frame: Frame) -> bool:
    """Say whether one image covers more than half of a page.

    Args:
        boxes: Images of the page.
        frame: Its coordinates.

    Returns:
        True for a scan below a thin text layer.
    """
    return any(2 * _area(box) > frame.width * frame.height for box in boxes)


def cut_figures(page: pdfium.PdfPage, frame: Frame, boxes: list[Box], *, max_pixels: int) -> list[Picture]:
    """Cut the figures out of a page, as displayed and with what is drawn over them.

    Args:
        page: The page.
        frame: Its coordinates.
        boxes: Its images.
        max_pixels: Most pixels of the rendered page.

    Returns:
        JPEG images with their boxes, without a name; parts of one figure that touch are one.
    """
    figures = [box for box in _united(boxes) if _is_figure(box, frame)]
    if not figures:
        return []
    pixels, points_per_pixel = render(page, frame, dots_per_inch=_FIGURE_DOTS_PER_INCH, max_pixels=max_pixels)
    found = []
    for box in figures:
        left, top = int(box.left / points_per_pixel), int(box.top / points_per_pixel)
        right, bottom = math.ceil(box.right / points_per_pixel), math.ceil(box.bottom / points_per_pixel)
        part = np.ascontiguousarray(pixels[top:bottom, left:right])
        if part.size:
            found.append(Picture("", "image/jpeg", encode_jpeg(part), part.shape[1], part.shape[0], box))
    return found


def _is_figure(box: Box, frame: Frame) -> bool:
    if box.right - box.left < _MIN_FIGURE_POINTS or box.bottom - box.top < _MIN_FIGURE_POINTS:
        return False
    return _area(box) < _MAX_FIGURE_SHARE * frame.width * frame.height


def _area(box: Box) -> float:
    return (box.right - box.left) * (box.bottom - box.top)


def _united(boxes: list[Box]) -> list[Box]:
    """Unite images that touch: programs cut large ones into strips."""
    united: list[Box] = []
    for box in sorted(boxes, key=lambda box: (box.top, box.left)):
        whole = box
        rest = []
        for other in united:
            if _touch(whole, other):
                whole = Box(
                    box.page,
                    min(whole.left, other.left),
                    min(whole.top, other.top),
                    max(whole.right, other.right),
                    max(whole.bottom, other.bottom),
                )
            else:
                rest.append(other)
        united = [*rest, whole]
    return sorted(united, key=lambda box: (box.top, box.left))


def _touch(first: Box, second: Box) -> bool:
    return (
        min(first.right, second.right) - max(first.left, second.left) >= -1.0
        and min(first.bottom, second.bottom) - max(first.top, second.top) >= -1.0
    )


class _ImageReader:
    def __init__(self) -> None:
        self._bounds = (ctypes.c_float * 4)()
        address = ctypes.addressof(self._bounds)
        self._addresses = (address, address + 4, address + 8, address + 12)
        self._matrix = (ctypes.c_float * 6)()
        self._left = _MAX_OBJECTS

    def read(self, page: int) -> Iterator[tuple[float, float, float, float]]:
        for index in range(min(count_objects(page), _MAX_OBJECTS)):
            yield from self._item(get_object(page, index), [], 0)

    def _item(self, item: int | None, matrices: list[Any], depth: int) -> Iterator[tuple[float, float, float, float]]:
        kind = get_object_type(item)
        if kind == _IMAGE and get_object_bounds(item, *self._addresses):
            left, bottom, right, top = self._bounds
            corners = [(left, bottom), (right, top), (left, top), (right, bottom)]
            for a, b, c, d, e, f in reversed(matrices):
                corners = [(a * x + c * y + e, b * x + d * y + f) for x, y in corners]
            xs, ys = zip(*corners, strict=True)
            yield min(xs), min(ys), max(xs), max(ys)
        elif kind == _FORM and depth < _MAX_FORM_DEPTH and get_object_matrix(item, ctypes.addressof(self._matrix)):
            inner = [*matrices, tuple(self._matrix)]
            for index in range(min(count_form_objects(item), self._left)):
                self._left -= 1
                yield from self._item(get_form_object(item, index), inner, depth + 1)
