"""Finds how far a page lies turned, from the shapes of its lines and by reading a few of them each way."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_adapters.parsers.recognition.models import Engine
from corpusmesh_adapters.parsers.recognition.raster import Pixels, cut, quad_size
from corpusmesh_adapters.parsers.recognition.reading import CJK, Reading, read_column, read_level

_TRIALS: Final = 4
_LEAST_RATIO: Final = 2.0
_MOST_RATIO: Final = 25.0
_SURE: Final = 0.92
_FAVOUR: Final = 0.05
"""How much surer another way must be than the likely one."""


def turned_degrees(engine: Engine, pixels: Pixels, quads: NDArray[np.float32]) -> int:
    """Find how far a page's content is turned.

    Args:
        engine: The models.
        pixels: The page as it lies.
        quads: Corners of its lines, shape `[n, 4, 2]`.

    Returns:
        Degrees clockwise: 0, 90, 180 or 270; 0 for CJK that is written downwards, and where nothing can be told.
    """
    sizes = [quad_size(quad) for quad in quads]
    level = sum(width for width, height in sizes if width >= _LEAST_RATIO * height)
    upright = sum(height for width, height in sizes if height >= _LEAST_RATIO * width)
    if level == upright:
        return 0
    is_level = level > upright
    samples = [cut(pixels, quad) for quad in _samples(quads, is_level=is_level)]
    if is_level:
        return _level_degrees(engine, samples)
    return _upright_degrees(engine, samples)


def _samples(quads: NDArray[np.float32], *, is_level: bool) -> list[NDArray[np.float32]]:
    """Choose lines to read: long, but no longer than needed; spread over the page."""
    fitting: list[tuple[float, int]] = []
    for index, quad in enumerate(quads):
        width, height = quad_size(quad)
        ratio = (width / max(height, 1.0)) if is_level else (height / max(width, 1.0))
        if _LEAST_RATIO <= ratio <= _MOST_RATIO:
            fitting.append((min(ratio, 12.0), index))
    fitting.sort(key=lambda entry: (-entry[0], entry[1]))
    longest = fitting[: 3 * _TRIALS]
    step = max(len(longest) // _TRIALS, 1)
    return [quads[index] for _, index in longest[::step][:_TRIALS]]


def _level_degrees(engine: Engine, samples: list[Pixels]) -> int:
    as_it_is = _confidence([read_level(engine, sample) for sample in samples])
    if as_it_is >= _SURE:
        return 0
    turned = _confidence([read_level(engine, np.rot90(sample, 2)) for sample in samples])
    return 180 if turned > as_it_is + _FAVOUR else 0


def _upright_degrees(engine: Engine, samples: list[Pixels]) -> int:
    downwards = [read_level(engine, np.rot90(sample)) for sample in samples]
    upwards = [read_level(engine, np.rot90(sample, -1)) for sample in samples]
    best = max(_confidence(downwards), _confidence(upwards))
    if any(CJK.search(reading.text) for reading in downwards):
        columns = _confidence([read_column(engine, sample) for sample in samples])
        if columns > best - _FAVOUR:
            return 0
    return 90 if _confidence(downwards) >= _confidence(upwards) else 270


def _confidence(readings: list[Reading]) -> float:
    """Weigh confidences by length: a turned line reads as a few wrong characters, some of them sure."""
    length = max((len(reading.text) for reading in readings), default=0)
    if not length:
        return 0.0
    return sum(reading.confidence * len(reading.text) for reading in readings) / sum(
        max(len(reading.text), 1) for reading in readings
    )
