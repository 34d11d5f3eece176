"""Finds lines of text on a page: the detector's map of probabilities, cut into turned rectangles.

The detector is a DB network (Liao et al., AAAI 2020): it shrinks lines to their cores, which are found as connected
pixels, wrapped in the smallest turned rectangle and grown again.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_adapters.parsers.recognition.models import Model
from corpusmesh_adapters.parsers.recognition.raster import HALF, Pixels, scaled, tensor
from corpusmesh_adapters.parsers.recognition.runs import label_runs, row_runs

_STEP: Final = 32
_SPARSE_SIDE: Final = 960
_DENSE_SIDE: Final = 1920
_MAX_UPSCALING: Final = 2.0
_SMALL_CORE_PIXELS: Final = 4.5
"""Where half of the cores are lower than this, the map is too coarse for the page's text."""

_PIXEL_THRESHOLD: Final = 0.3
_LINE_THRESHOLD: Final = 0.55
_GROWTH: Final = 1.6
_MIN_CORE_PIXELS: Final = 2.0
_MAX_LINES: Final = 3_000
_MAX_CORES: Final = 20_000


@dataclass(frozen=True, slots=True)
class FoundLines:
    """Lines of text on a page.

    Attributes:
        quads: Corners in pixels of the page, clockwise from the one at the top left, shape `[n, 4, 2]`.
        is_fine: Whether they were found in a fine look.
    """

    quads: NDArray[np.float32]
    is_fine: bool


def find_lines(model: Model, pixels: Pixels, *, finely: bool = False) -> FoundLines:
    """Find the lines of text on a page.

    The first look is a coarse one (960 pixels along the longer side); only a page whose text is small is looked at
    again, finer. That costs a sparse page a quarter of what a fine look costs. Small lines that stand close may also
    run together in a coarse look; the caller sees that, because they cannot be read, and asks for a fine one.

    Args:
        model: The detector.
        pixels: The page.
        finely: Whether to look closely at once.

    Returns:
        Its lines in no particular order, at most 3,000.
    """
    longer = max(pixels.shape[:2])
    side = min(_SPARSE_SIDE, round(longer * _MAX_UPSCALING))
    cores = np.empty((0, 7)) if finely else _cores(model, pixels, side)
    is_small = len(cores) > 0 and float(np.median(cores[:, 5])) < _SMALL_CORE_PIXELS
    is_fine = finely or (is_small and longer > _SPARSE_SIDE)
    if is_fine:
        cores = _cores(model, pixels, min(_DENSE_SIDE, round(longer * _MAX_UPSCALING)))
    quads = np.asarray([_quad(core, pixels.shape[1], pixels.shape[0]) for core in cores], np.float32)
    return FoundLines(quads.reshape(-1, 4, 2), is_fine)


def _cores(model: Model, pixels: Pixels, side: int) -> NDArray[np.float64]:
    """Find cores of lines: center x, y, angle, width and height in the page's pixels, height in the map's, score."""
    height, width = pixels.shape[:2]
    scale = side / max(height, width)
    map_width = max(round(width * scale / _STEP), 1) * _STEP
    map_height = max(round(height * scale / _STEP), 1) * _STEP
    map_ = model.run(tensor(scaled(pixels, map_width, map_height), HALF, HALF))[0][0, 0]
    x_scale, y_scale = width / map_width, height / map_height
    cores = []
    for points, score in _blobs(map_):
        center_x, center_y, angle, across, down = _smallest_rectangle(points * (x_scale, y_scale))
        if min(across, down) / max(x_scale, y_scale) < _MIN_CORE_PIXELS:
            continue
        cores.append((center_x, center_y, angle, across, down, min(across, down) / max(x_scale, y_scale), score))
    cores.sort(key=lambda core: -core[6])
    return np.asarray(cores[:_MAX_LINES], np.float64).reshape(-1, 7)


def _blobs(map_: NDArray[np.float32]) -> list[tuple[NDArray[np.float64], float]]:
    """Find connected pixels above the threshold: the outer corners of their rows, shape `[m, 2]`, and their mean."""
    mask = map_ > _PIXEL_THRESHOLD
    # One pixel to the right and below: bridges hair cracks between characters.
    mask[:, 1:] |= mask[:, :-1]
    mask[1:] |= mask[:-1]
    rows, starts, ends = row_runs(mask)
    if not len(rows):
        return []
    sums = np.cumsum(map_, axis=1, dtype=np.float64)
    masses = sums[rows, ends - 1] - np.where(starts > 0, sums[rows, np.maximum(starts - 1, 0)], 0.0)
    _, labels = np.unique(label_runs(rows, starts, ends, mask.shape[1]), return_inverse=True)
    counts = np.bincount(labels, weights=ends - starts)
    means = np.bincount(labels, weights=masses) / counts
    order = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[order], np.arange(len(counts) + 1))
    blobs = []
    wanted = np.nonzero((means >= _LINE_THRESHOLD) & (counts >= _MIN_CORE_PIXELS * _MIN_CORE_PIXELS))[0]
    for number in wanted[np.argsort(-counts[wanted], kind="stable")][:_MAX_CORES]:
        runs = order[bounds[number] : bounds[number + 1]]
        left, right, row = starts[runs], ends[runs], rows[runs]
        x = np.concatenate([left, right, left, right])
        y = np.concatenate([row, row, row + 1, row + 1])
        blobs.append((np.stack([x, y], axis=1).astype(np.float64), float(means[number])))
    return blobs


def _smallest_rectangle(points: NDArray[np.float64]) -> tuple[float, float, float, float, float]:
    """Find the rectangle of least area around points: center x, y, angle in radians, sides along and across it."""
    hull = _hull(points)
    edges = np.roll(hull, -1, axis=0) - hull
    angles = np.unique(np.round(np.mod(np.arctan2(edges[:, 1], edges[:, 0]), np.pi / 2), 4))
    cosines, sines = np.cos(angles), np.sin(angles)
    along = np.outer(cosines, hull[:, 0]) + np.outer(sines, hull[:, 1])
    across = np.outer(cosines, hull[:, 1]) - np.outer(sines, hull[:, 0])
    widths, heights = np.ptp(along, axis=1), np.ptp(across, axis=1)
    areas = widths * heights
    best = int(np.argmin(areas))
    # Ragged ends of short words fake an angle; level is right unless turning gains a tenth.
    level = int(np.argmin(np.minimum(angles, np.pi / 2 - angles)))
    if min(angles[level], np.pi / 2 - angles[level]) < 1e-3 and areas[level] < 1.1 * areas[best]:
        best = level
    middle_along = (along[best].max() + along[best].min()) / 2
    middle_across = (across[best].max() + across[best].min()) / 2
    center_x = middle_along * cosines[best] - middle_across * sines[best]
    center_y = middle_along * sines[best] + middle_across * cosines[best]
    return float(center_x), float(center_y), float(angles[best]), float(widths[best]), float(heights[best])


def _hull(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Find the corners of the convex hull (Andrew's monotone chain)."""
    ordered = np.unique(points, axis=0).tolist()
    halves: list[list[list[float]]] = []
    for sequence in (ordered, ordered[::-1]):
        chain: list[list[float]] = []
        for x, y in sequence:
            while len(chain) >= 2 and (
                (chain[-1][0] - chain[-2][0]) * (y - chain[-2][1]) <= (chain[-1][1] - chain[-2][1]) * (x - chain[-2][0])
            ):
                chain.pop()
            chain.append([x, y])
        halves.append(chain[:-1])
    return np.asarray(halves[0] + halves[1], np.float64)


def _quad(core: NDArray[np.float64], width: int, height: int) -> NDArray[np.float64]:
    """Grow a core to its line: corners clockwise from the top left, within the page."""
    center_x, center_y, angle, along, across = core[:5]
    growth = _GROWTH * along * across / (2 * (along + across))
    if angle > np.pi / 4:
        angle, along, across = angle - np.pi / 2, across, along
    half_along, half_across = along / 2 + growth, across / 2 + growth
    right = np.asarray([np.cos(angle), np.sin(angle)]) * half_along
    down = np.asarray([-np.sin(angle), np.cos(angle)]) * half_across
    center = np.asarray([center_x, center_y])
    corners = np.stack([center - right - down, center + right - down, center + right + down, center - right + down])
    quad: NDArray[np.float64] = np.clip(corners, 0, (width, height))
    return quad
