"""Rasters on their way into the models: scaling, cutting, turning, and the tensors that the models take.

NumPy and Pillow do all of it: the three OpenCV wheels that packages of models ask for exclude each other, and none of
them is imported.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]
"""RGB, shape `[height, width, 3]`."""

Quad = NDArray[np.float32]
"""Corners x, y of a turned rectangle in pixels, shape `[4, 2]`: top left, top right, bottom right, bottom left of the
text in it."""

HALF: Final = (0.5, 0.5, 0.5)
"""Mean and deviation of the text models."""

IMAGENET_MEAN: Final = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION: Final = (0.229, 0.224, 0.225)
_LEVEL_PIXELS: Final = 1.5
_LEVEL_SHARE: Final = 0.12
_LONG_LINE: Final = 4.0
_LEAST_SKEW: Final = 0.4
_MOST_SKEW: Final = 15.0


def scaled(pixels: Pixels, width: int, height: int) -> Pixels:
    """Scale a raster.

    Args:
        pixels: The raster.
        width: New width in pixels.
        height: New height in pixels.

    Returns:
        The raster, averaged where it shrinks.
    """
    if pixels.shape[:2] == (height, width):
        return pixels
    image = Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR, reducing_gap=3.0)
    return np.asarray(image)


def tensor(
    pixels: Pixels, mean: tuple[float, float, float], deviation: tuple[float, float, float]
) -> NDArray[np.float32]:
    """Make a model's input.

    Args:
        pixels: A raster.
        mean: Of the model's training images, in the order in which the model takes its channels.
        deviation: Likewise.

    Returns:
        Shape `[1, 3, height, width]`. The channels go in blue first: the models were trained on rasters as OpenCV
        reads them.
    """
    values = pixels[:, :, ::-1].astype(np.float32)
    factors = np.asarray([1 / 255 / side for side in deviation], np.float32)
    offsets = np.asarray([middle / side for middle, side in zip(mean, deviation, strict=True)], np.float32)
    np.multiply(values, factors, out=values)
    np.subtract(values, offsets, out=values)
    return np.ascontiguousarray(values.transpose(2, 0, 1)[np.newaxis])


def quad_size(quad: Quad) -> tuple[float, float]:
    """Measure a turned rectangle.

    Args:
        quad: Its corners.

    Returns:
        Width along its text and height across, in pixels.
    """
    width = max(float(np.hypot(*(quad[1] - quad[0]))), float(np.hypot(*(quad[2] - quad[3]))))
    height = max(float(np.hypot(*(quad[3] - quad[0]))), float(np.hypot(*(quad[2] - quad[1]))))
    return width, height


def quad_bounds(quad: Quad) -> tuple[float, float, float, float]:
    """Find the upright rectangle around a turned one.

    Args:
        quad: Its corners.

    Returns:
        Left, top, right, bottom in pixels.
    """
    (left, top), (right, bottom) = quad.min(axis=0), quad.max(axis=0)
    return float(left), float(top), float(right), float(bottom)


def cut(pixels: Pixels, quad: Quad) -> Pixels:
    """Cut a turned rectangle out, so that its text lies level.

    Args:
        pixels: A raster.
        quad: Corners in it.

    Returns:
        What stands in the rectangle; at least one pixel.
    """
    height, width = pixels.shape[:2]
    left, top, right, bottom = quad_bounds(quad)
    tilt = max(abs(float(quad[1, 1] - quad[0, 1])), abs(float(quad[3, 0] - quad[0, 0])))
    if tilt <= max(_LEVEL_PIXELS, _LEVEL_SHARE * quad_size(quad)[1]):
        x0, y0 = min(max(int(left), 0), width - 1), min(max(int(top), 0), height - 1)
        x1, y1 = min(max(round(right), x0 + 1), width), min(max(round(bottom), y0 + 1), height)
        return pixels[y0:y1, x0:x1]
    # Only the part around it goes through Pillow: a page has hundreds of lines.
    x0, y0 = min(max(int(left), 0), width - 1), min(max(int(top), 0), height - 1)
    part = Image.fromarray(pixels[y0 : max(int(bottom) + 1, y0 + 1), x0 : max(int(right) + 1, x0 + 1)])
    across, down = (max(round(side), 1) for side in quad_size(quad))
    corners = quad - np.asarray([x0, y0], np.float32)
    data = (*corners[0], *corners[3], *corners[2], *corners[1])
    turned = part.transform(
        (across, down), Image.Transform.QUAD, [float(value) for value in data], Image.Resampling.BICUBIC
    )
    return np.asarray(turned)


def turned(pixels: Pixels, degrees: int) -> Pixels:
    """Turn a raster whose content stands turned, so that it stands upright.

    Args:
        pixels: A raster.
        degrees: How far its content is turned clockwise: 0, 90, 180 or 270.

    Returns:
        The raster turned back; the same memory where that is possible.
    """
    return np.rot90(pixels, degrees // 90) if degrees else pixels


def turned_quads(quads: NDArray[np.float32], degrees: int, width: int, height: int) -> NDArray[np.float32]:
    """Follow rectangles through `turned`.

    Args:
        quads: Corners, shape `[n, 4, 2]`, in the raster before.
        degrees: As in `turned`.
        width: Pixels of the raster before.
        height: Likewise.

    Returns:
        Corners in the raster after, each beginning at its own top left, shape `[n, 4, 2]`.
    """
    x, y = quads[..., 0], quads[..., 1]
    match degrees:
        case 90:
            x, y = y, width - x
        case 180:
            x, y = width - x, height - y
        case 270:
            x, y = height - y, x
        case _:
            return quads
    # Corners run clockwise; each quarter turn moves which of them is the top left one.
    return np.roll(np.stack([x, y], axis=-1), -(degrees // 90), axis=1)


def unturned_box(
    box: tuple[float, float, float, float], degrees: int, width: int, height: int
) -> tuple[float, float, float, float]:
    """Find where a rectangle of the upright raster stands in the raster before `turned`.

    Args:
        box: Left, top, right, bottom in the upright raster.
        degrees: As in `turned`.
        width: Pixels of the raster before.
        height: Likewise.

    Returns:
        Left, top, right, bottom in the raster before.
    """
    left, top, right, bottom = box
    match degrees:
        case 90:
            return width - bottom, left, width - top, right
        case 180:
            return width - right, height - bottom, width - left, height - top
        case 270:
            return top, height - right, bottom, height - left
        case _:
            return box


def skew_degrees(quads: NDArray[np.float32]) -> float:
    """Find how far the lines of an upright page slope, as on a sheet that lay crooked on the scanner.

    Args:
        quads: Corners of its lines, shape `[n, 4, 2]`.

    Returns:
        Degrees clockwise; 0.0 where the slope is too small to matter, or too large for a slip.
    """
    slopes: list[tuple[float, float]] = []
    for quad in quads:
        width, height = quad_size(quad)
        if width >= _LONG_LINE * height:
            across, down = quad[1] - quad[0]
            slopes.append((float(np.degrees(np.arctan2(down, across))), width))
    slopes.sort()
    half = sum(width for _, width in slopes) / 2
    for slope, width in slopes:
        half -= width
        if half <= 0:
            return slope if _LEAST_SKEW <= abs(slope) <= _MOST_SKEW else 0.0
    return 0.0


def straightened(pixels: Pixels, degrees: float) -> Pixels:
    """Turn a sloping page level.

    Args:
        pixels: The page.
        degrees: How far its lines slope, clockwise.

    Returns:
        A page around it with level lines; its new corners have the colour of its paper.
    """
    paper = tuple(int(value) for value in np.median(pixels[::16, ::16].reshape(-1, 3), axis=0))
    image = Image.fromarray(pixels).rotate(degrees, Image.Resampling.BILINEAR, expand=True, fillcolor=paper)
    return np.asarray(image)


def swung(
    points: NDArray[np.float32], degrees: float, before: tuple[int, int], after: tuple[int, int]
) -> NDArray[np.float32]:
    """Follow points through `straightened`, or back with the angle and the sizes the other way round.

    Args:
        points: Last axis x, y.
        degrees: As in `straightened`.
        before: Width and height of the raster that they are in.
        after: Width and height of the other one.

    Returns:
        The same points there.
    """
    angle = np.radians(degrees)
    x, y = points[..., 0] - before[0] / 2, points[..., 1] - before[1] / 2
    turned_x, turned_y = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
    return np.stack([turned_x + after[0] / 2, turned_y + after[1] / 2], axis=-1).astype(np.float32)
