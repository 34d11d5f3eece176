"""Reads lines of text: cuts, scales and decodes them, and finds which way a line that stands upright on a page runs.

The reader is a CTC network (Graves et al., ICML 2006): each column of its output is one of 18,708 characters or
nothing. One line goes in at a time, unpadded: on one processor a batch gains nothing and pays for the padding.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_adapters.parsers.recognition.models import Engine
from corpusmesh_adapters.parsers.recognition.raster import HALF, Pixels, scaled, tensor

_HEIGHT: Final = 48
_MIN_WIDTH: Final = 32
_MAX_WIDTH: Final = 3_200
_COLUMN: Final = 8
"""Pixels of the scaled line per column of the output."""

_UPRIGHT_RATIO: Final = 1.5
_LONG_RATIO: Final = 2.5
_SURE: Final = 0.85
_INK: Final = 60
"""Levels of 255 by which ink differs from paper."""

_MARK_SHARE: Final = 0.5
_PITCH: Final = 16
"""Steps per character in which a column is looked at, and the least and most of one character."""

_MIN_CELL: Final = 10
_MAX_CELL: Final = 22
CJK: Final = re.compile("[\u2e80-\u303f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff00-\uffef]")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a line says.

    Attributes:
        text: Its text, stripped.
        confidence: Mean probability of its characters, 0 to 1; 0 for no text.
        offsets: Where each character stands along the line, 0 to 1.
    """

    text: str
    confidence: float
    offsets: tuple[float, ...]


NOTHING: Final = Reading("", 0.0, ())


def read_level(engine: Engine, line: Pixels) -> Reading:
    """Read a line that runs from left to right.

    Args:
        engine: The models.
        line: Its pixels.

    Returns:
        What it says.
    """
    height, width = line.shape[:2]
    across = min(max(round(width * _HEIGHT / height / _COLUMN), _MIN_WIDTH // _COLUMN), _MAX_WIDTH // _COLUMN) * _COLUMN
    probabilities = engine.reader.run(tensor(scaled(line, across, _HEIGHT), HALF, HALF))[0][0]
    classes = probabilities.argmax(axis=1)
    is_new = np.ones(len(classes), bool)
    is_new[1:] = classes[1:] != classes[:-1]
    columns = np.nonzero(is_new & (classes > 0))[0]
    characters = [engine.characters[number] for number in classes[columns]]
    sure = probabilities[columns, classes[columns]]
    first = next((index for index, character in enumerate(characters) if not character.isspace()), len(characters))
    last = len(characters)
    while last > first and characters[last - 1].isspace():
        last -= 1
    if first == last:
        return NOTHING
    offsets = ((columns[first:last] + 0.5) / len(classes)).tolist()
    # A character of the vocabulary may be two to Python; each has the place of the first.
    places = [offset for offset, text in zip(offsets, characters[first:last], strict=True) for _ in range(len(text))]
    return Reading("".join(characters[first:last]), float(sure[first:last].mean()), tuple(places))


def is_upright(line: Pixels) -> bool:
    """Say whether a line is higher than wide: turned text, or CJK written downwards.

    Args:
        line: Its pixels.

    Returns:
        True for at least one and a half times as high as wide.
    """
    height, width = line.shape[:2]
    return bool(height >= _UPRIGHT_RATIO * width)


def read_line(engine: Engine, line: Pixels) -> Reading:
    """Read a line of a page that is level as a whole.

    Args:
        engine: The models.
        line: Its pixels.

    Returns:
        What it says, whichever way it runs.
    """
    level = read_level(engine, line)
    height, width = line.shape[:2]
    # A digit is higher than wide and still level.
    if not is_upright(line) or (height < _LONG_RATIO * width and level.confidence >= _SURE):
        return level
    downwards = read_level(engine, np.rot90(line))
    upwards = read_level(engine, np.rot90(line, -1))
    best = max(level, downwards, upwards, key=lambda reading: reading.confidence * min(len(reading.text), 4))
    if CJK.search(downwards.text) and height >= _LONG_RATIO * width:
        column = read_column(engine, line)
        if column.confidence > best.confidence - 0.05:
            return column
    return best


def read_column(engine: Engine, line: Pixels) -> Reading:
    """Read CJK characters that stand upright under each other.

    The column is cut between its characters, and they are laid side by side: the reader knows them upright far better
    than lying on their side. Commas and full stops hang at the top right of their place in a column and at the bottom
    left of it in a line: they are moved there.

    Args:
        engine: The models.
        line: Pixels of the column.

    Returns:
        What it says from top to bottom.
    """
    height, width = line.shape[:2]
    ink = _ink(line)
    glyph = _glyph_width(ink)
    cuts = _with_marks_apart(_column_cuts(ink, glyph), ink, glyph)
    side = max(width, *(second - first for first, second in pairwise(cuts)))
    paper = np.median(line.reshape(-1, 3), axis=0).astype(np.uint8)
    level = np.broadcast_to(paper, (side, side * (len(cuts) - 1), 3)).copy()
    for index, (first, second) in enumerate(pairwise(cuts)):
        left = index * side + (side - width) // 2
        bounds = _ink_bounds(ink[first:second])
        if bounds is not None and _is_mark(bounds, glyph, width):
            x0, y0, x1, y1 = bounds
            foot = (side + glyph) // 2
            level[foot - (y1 - y0) : foot, left + 1 : left + 1 + x1 - x0] = line[first + y0 : first + y1, x0:x1]
            continue
        top = (side - (second - first)) // 2
        level[top : top + second - first, left : left + width] = line[first:second]
    reading = read_level(engine, level)
    places = []
    for offset in reading.offsets:
        index = min(int(offset * (len(cuts) - 1)), len(cuts) - 2)
        places.append((cuts[index] + cuts[index + 1]) / 2 / height)
    return Reading(reading.text, reading.confidence, tuple(places))


def _ink(line: Pixels) -> NDArray[np.bool_]:
    paper = np.median(line.reshape(-1, 3), axis=0).astype(np.int16)
    ink: NDArray[np.bool_] = np.abs(line.astype(np.int16) - paper).max(axis=2) > _INK
    return ink


def _glyph_width(ink: NDArray[np.bool_]) -> int:
    columns = np.nonzero(ink.any(axis=0))[0]
    width = int(ink.shape[1])
    return max(int(columns[-1] - columns[0]) + 1 if len(columns) else width, width // 2, 1)


def _ink_bounds(ink: NDArray[np.bool_]) -> tuple[int, int, int, int] | None:
    rows, columns = np.nonzero(ink.any(axis=1))[0], np.nonzero(ink.any(axis=0))[0]
    if not len(rows):
        return None
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _is_mark(bounds: tuple[int, int, int, int], glyph: int, width: int) -> bool:
    """Say whether ink is a comma or a full stop: small, and to the right."""
    left, top, right, bottom = bounds
    return max(right - left, bottom - top) < _MARK_SHARE * glyph and left + right > width


def _with_marks_apart(cuts: list[int], ink: NDArray[np.bool_], glyph: int) -> list[int]:
    """Cut commas and full stops off the characters that they were set close below."""
    found = [cuts[0]]
    for first, second in pairwise(cuts):
        blank = [row for row in range(first, second) if not ink[row].any()]
        for row in reversed(blank):
            above, below = _ink_bounds(ink[first:row]), _ink_bounds(ink[row:second])
            if above is not None and below is not None:
                if _is_mark(below, glyph, ink.shape[1]):
                    found.append(row)
                break
        found.append(second)
    return found


def _column_cuts(ink: NDArray[np.bool_], glyph: int) -> list[int]:
    """Find where to cut a column between its characters: rows, from its top to its bottom."""
    height = ink.shape[0]
    scale = _PITCH / glyph
    count = max(round(height * scale), 1)
    edges = np.linspace(0, height, count + 1).astype(int)
    profile = [float(ink[first : max(second, first + 1)].mean()) for first, second in pairwise(edges)]
    # Cheapest way to cut: little ink at the cut, cells about as high as a character is wide. A gap of nothing is free.
    costs = [0.0] + [float("inf")] * count
    before = [0] * (count + 1)
    for end in range(1, count + 1):
        price = 0.0 if end == count else 4.0 * min(profile[end - 1], profile[end])
        for cell in range(1, _MAX_CELL + 1):
            start = end - cell
            if start < 0:
                break
            is_blank = not any(profile[start:end])
            if cell < _MIN_CELL and not is_blank and start > 0 and end < count:
                continue
            cost = costs[start] + price + (0.05 if is_blank else 0.1 + abs(cell - _PITCH) / _PITCH)
            if cost < costs[end]:
                costs[end], before[end] = cost, start
    cuts = [count]
    while cuts[-1] > 0:
        cuts.append(before[cuts[-1]])
    return [int(edges[cut]) for cut in reversed(cuts)]
