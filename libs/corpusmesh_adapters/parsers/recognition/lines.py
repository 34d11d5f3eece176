"""Recognised lines of a page, and how their texts are joined."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from corpusmesh_adapters.parsers.recognition.layout import Bounds
from corpusmesh_adapters.parsers.recognition.raster import Pixels
from corpusmesh_adapters.parsers.recognition.reading import CJK

_WORD: Final = re.compile(f"{CJK.pattern}|(?:(?!{CJK.pattern})\\S)+")
_HYPHEN: Final = re.compile(r"(?<=[^\W\d_])[-\u2010\u00ad]$")
_SAME_ROW: Final = 0.5
_CJK_SHARE: Final = 0.8
_HIGH_SHARE: Final = 0.72
_LOW_SHARE: Final = 0.5
"""Of the font size: the band in which a line has most of its ink."""

_GLYPH_SHARE: Final = 0.62
"""Font size over the height of a found line, which is grown around its glyphs."""


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text on an upright page.

    Attributes:
        text: What it says.
        confidence: How sure the reader was, 0 to 1.
        bounds: The rectangle around it, in pixels of the upright page.
        size: Its font size in pixels.
        offsets: Where each of its characters stands along it, 0 to 1.
        runs_down: Whether it is CJK written downwards.
    """

    text: str
    confidence: float
    bounds: Bounds
    size: float
    offsets: tuple[float, ...] = ()
    runs_down: bool = False

    @property
    def height(self) -> float:
        """Pixels of its rectangle across the direction in which it runs."""
        left, top, right, bottom = self.bounds
        return right - left if self.runs_down else bottom - top

    @property
    def middle(self) -> tuple[float, float]:
        """Its middle, x and y."""
        left, top, right, bottom = self.bounds
        return (left + right) / 2, (top + bottom) / 2

    def words(self) -> "list[TextLine]":
        """Part it into words; each CJK character is one.

        Returns:
            A line per word, in order.
        """
        if self.runs_down or len(self.offsets) != len(self.text):
            return [self]
        left, top, right, bottom = self.bounds
        width = right - left
        words = []
        for match in _WORD.finditer(self.text):
            first, last = self.offsets[match.start()], self.offsets[match.end() - 1]
            half = 0.5 * width / max(len(self.text), 1)
            bounds = (left + first * width - half, top, left + last * width + half, bottom)
            words.append(replace(self, text=match.group(), bounds=bounds, offsets=()))
        return words


def font_size(line: Pixels, text: str) -> float:
    """Measure the font size of a line: its ink, and how much of the font's height its characters take.

    The rectangles of the detector are coarse; headings are told from text by less than their error.

    Args:
        line: Its pixels, running from left to right.
        text: What it says.

    Returns:
        Pixels.
    """
    values = line.astype(np.int16)
    contrast = np.abs(values - np.median(values.reshape(-1, 3), axis=0)).max(axis=2)
    profile = (contrast > max(0.4 * float(contrast.max()), 24.0)).sum(axis=1)
    # The middle alone: tall rectangles hold the feet and heads of the lines above and below.
    edge = line.shape[0] // 6
    middle = profile[edge : line.shape[0] - edge]
    dense = np.nonzero(middle >= 0.5 * middle.max(initial=0))[0]
    band = float(dense[-1] - dense[0] + 1) if len(dense) and middle.max() else 0.5 * line.shape[0]
    if CJK.search(text):
        share = _CJK_SHARE
    else:
        low = sum(map(str.islower, text))
        share = _LOW_SHARE if 2 * low > len(text) else _HIGH_SHARE
    # Two rough measures, of ink and of the rectangle, wrong in different ways.
    return float(np.sqrt(band / share * _GLYPH_SHARE * line.shape[0]))


def mean_confidence(lines: Iterable[TextLine]) -> float:
    """Average confidences, each weighed by the length of its text.

    Args:
        lines: Lines.

    Returns:
        0 to 1; 0 for no text.
    """
    total = weight = 0.0
    for line in lines:
        total += line.confidence * len(line.text)
        weight += len(line.text)
    return total / weight if weight else 0.0


def rows_of(lines: Sequence[TextLine]) -> list[list[TextLine]]:
    """Group level lines that stand beside each other.

    Args:
        lines: Lines in any order.

    Returns:
        Rows from top to bottom, each from left to right.
    """
    rows: list[list[TextLine]] = []
    for line in sorted(lines, key=lambda line: line.middle[1]):
        top, bottom = line.bounds[1], line.bounds[3]
        if rows:
            last = rows[-1][-1].bounds
            shared = min(bottom, last[3]) - max(top, last[1])
            beside = all(line.bounds[0] >= other.middle[0] or line.bounds[2] <= other.middle[0] for other in rows[-1])
            if beside and shared > _SAME_ROW * min(bottom - top, last[3] - last[1]):
                rows[-1].append(line)
                continue
        rows.append([line])
    return [sorted(row, key=lambda line: line.bounds[0]) for row in rows]


def in_running_order(lines: Sequence[TextLine]) -> list[TextLine]:
    """Order the lines of one column or cell.

    Args:
        lines: Lines in any order.

    Returns:
        From top to bottom and left to right; from right to left where most run downwards.
    """
    if 2 * sum(line.runs_down for line in lines) > len(lines):
        return sorted(lines, key=lambda line: (-line.middle[0], line.bounds[1]))
    return [line for row in rows_of(lines) for line in row]


def joined_text(texts: Sequence[str]) -> str:
    """Join texts that follow each other to one line.

    Args:
        texts: Lines or words in reading order.

    Returns:
        Their text: no space between CJK characters, words that a hyphen parts over two lines made whole.
    """
    joined = ""
    for text in texts:
        if not joined or not text:
            joined += text
        elif _HYPHEN.search(joined) and text[:1].islower():
            joined = joined[:-1] + text
        elif CJK.match(joined[-1]) and CJK.match(text[0]):
            joined += text
        else:
            joined += f" {text}"
    return joined
