"""Finds how far a page lies turned, from the shapes of its lines and by reading a few of them each way."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_adapters.parsers.recognition.models import Engine
from corpusmesh_adapters.parsers.recognition.raster import Pixels, cut, quad_size
from corpusmesh_adapters.parsers.recognition.reading import CJK, Reading, read_column, read_level

_TRIALS: Final = 4
_LEAST_RATIO: Final = 2.0
_LONG_RATIO: Final = 12.0
_PIECE_RATIO: Final = 20.0
_SURE: Final = 0.92
_FAVOUR: Final = 0.05
"""How much surer another way must be than the likely one."""


def find_turn(engine: Engine, pixels: Pixels, quads: NDArray[np.float32]) -> tuple[int, float]:
    """Find how far a page's content is turned.

    Args:
        engine: The models.
        pixels: The page as it lies.
        quads: Corners of its lines, shape `[n, 4, 2]`.

    Returns:
        Degrees clockwise: 0, 90, 180 or 270; 0 for CJK that is written downwards, and where nothing can be told. And
        how sure the reader was of the lines that it read that way, 0 to 1; 1 where it read none.
    """
    sizes = [quad_size(quad) for quad in quads]
    level = sum(width for width, height in sizes if width >= _LEAST_RATIO * height)
    upright = sum(height for width, height in sizes if height >= _LEAST_RATIO * width)
    if level == upright:
        return 0, 1.0
    is_level = level > upright
    samples = _samples(pixels, quads, is_level=is_level)
    if not samples:
        return 0, 1.0
    ways = _level_ways(engine, samples) if is_level else _upright_ways(engine, samples)
    # Ways are in the order of their likelihood: a later one must be surer by far.
    degrees, best = ways[0]
    for other, confidence in ways[1:]:
        if confidence > best + _FAVOUR:
            degrees, best = other, confidence
    return degrees, best


def _samples(pixels: Pixels, quads: NDArray[np.float32], *, is_level: bool) -> list[Pixels]:
    """Choose lines to read: long ones, spread over the page; of very long ones a piece."""
    fitting: list[tuple[float, int]] = []
    for index, quad in enumerate(quads):
        width, height = quad_size(quad)
        ratio = (width / max(height, 1.0)) if is_level else (height / max(width, 1.0))
        if ratio >= _LEAST_RATIO:
            fitting.append((min(ratio, _LONG_RATIO), index))
    fitting.sort(key=lambda entry: (-entry[0], entry[1]))
    longest = fitting[: 3 * _TRIALS]
    step = max(len(longest) // _TRIALS, 1)
    samples = []
    for _, index in longest[::step][:_TRIALS]:
        part = cut(pixels, quads[index])
        most = int(_PIECE_RATIO * min(part.shape[:2]))
        samples.append(part[:most, :most])
    return samples


def _level_ways(engine: Engine, samples: list[Pixels]) -> list[tuple[int, float]]:
    ways = [(0, _confidence([read_level(engine, sample) for sample in samples]))]
    if ways[0][1] < _SURE:
        ways.append((180, _confidence([read_level(engine, np.rot90(sample, 2)) for sample in samples])))
    return ways


def _upright_ways(engine: Engine, samples: list[Pixels]) -> list[tuple[int, float]]:
    downwards = [read_level(engine, np.rot90(sample)) for sample in samples]
    upwards = [read_level(engine, np.rot90(sample, -1)) for sample in samples]
    turned = sorted([(90, _confidence(downwards)), (270, _confidence(upwards))], key=lambda way: -way[1])
    if not any(CJK.search(reading.text) for reading in downwards):
        return turned
    columns = (0, _confidence([read_column(engine, sample) for sample in samples]))
    # Cut at the wrong places and laid on its side, turned text reads badly as columns; CJK in columns reads well both
    # ways.
    return [columns, *turned] if columns[1] > turned[0][1] - _FAVOUR else turned


def _confidence(readings: list[Reading]) -> float:
    """Weigh confidences by length: a turned line reads as a few wrong characters, some of them sure."""
    length = max((len(reading.text) for reading in readings), default=0)
    if not length:
        return 0.0
    return sum(reading.confidence * len(reading.text) for reading in readings) / sum(
        max(len(reading.text), 1) for reading in readings
    )
