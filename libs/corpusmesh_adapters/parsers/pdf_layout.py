"""Puts the lines of PDF pages into reading order and joins them to paragraphs."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from corpusmesh_adapters.parsers.pdf_frames import Line
from corpusmesh_adapters.parsers.pdf_line_parts import is_vertical_cjk
from corpusmesh_core.documents import Box

_TERMINALS = frozenset(".!?。！？…:：;；”\"'’)）")
LIST_MARKER = re.compile(
    r"^(?:[\u2022\u2023\u25aa\u25cf\u25cb\u25a0\u25a1\u2013\u2014\u27a2\u2713\u00b7\uf0b7\uf0a7*-]\s+|"
    r"\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,5})[.)]\s+|[（(]?[一二三四五六七八九十]{1,3}[)）、]|\d{1,3}、)"
)
_SIZE_TOLERANCE = 1.2
_MIN_COLUMN_LINES = 6
_COLUMN_SHARE = 0.25


class Paragraph:
    """Lines that belong together.

    Attributes:
        lines: The lines, in order.
        left: Left edge of them all.
        right: Right edge of them all.
        size: The largest font size in it.
        bold: Whether all of it is bold.
    """

    __slots__ = ("_text", "bold", "left", "lines", "right", "size")

    def __init__(self, first: Line) -> None:
        """Start a paragraph.

        Args:
            first: Its first line.
        """
        self.lines = [first]
        self.left = first.box.left
        self.right = first.box.right
        self.size = first.size
        self.bold = first.bold
        self._text = ""

    def append(self, line: Line) -> None:
        """Add the next line.

        Args:
            line: It follows the last one.
        """
        # Called for every line of a document: comparing costs a third of what `min` and `max` do.
        self.lines.append(line)
        box = line.box
        if box.left < self.left:
            self.left = box.left
        if box.right > self.right:
            self.right = box.right
        if line.size > self.size:
            self.size = line.size
        self.bold = self.bold and line.bold

    @property
    def page(self) -> int:
        """Page of its first line."""
        return self.lines[0].box.page

    @property
    def boxes(self) -> tuple[Box, ...]:
        """One box per line."""
        return tuple([line.box for line in self.lines])

    def text(self) -> str:
        """Join the lines, once all of them are there.

        Returns:
            Running text on one line; lines that end early keep their line break, as in addresses and lists.
        """
        if not self._text:
            self._text = self.lines[0].text if len(self.lines) == 1 else self._joined()
        return self._text

    def _joined(self) -> str:
        full = self.right - 0.25 * (self.right - self.left)
        parts: list[str] = []
        for line, following in pairwise(self.lines):
            parts.append(line.text)
            if line.hyphenated:
                continue
            if line.box.right < full and line.direction == 0:
                parts.append("\n")
            elif line.text[-1] in "-\u2010" and following.text[0].islower():
                continue
            elif not (_is_cjk(line.text[-1]) and _is_cjk(following.text[0])):
                parts.append(" ")
        parts.append(self.lines[-1].text)
        return "".join(parts)


def _is_cjk(character: str) -> bool:
    return character >= "\u2e80" and (character <= "\u9fff" or "\uf900" <= character <= "\uffef")


def main_direction(lines: Sequence[Line]) -> int:
    """Find how most text of a page is written.

    Args:
        lines: Lines of a page.

    Returns:
        Quarter turns, see `Line.direction`; 0 for a page without text.
    """
    counts = Counter[int]()
    for line in lines:
        counts[line.direction] += len(line.text)
    return counts.most_common(1)[0][0] if counts else 0


def order_lines(lines: Sequence[Line], page_width: float) -> list[Line]:
    """Put the lines of a page into reading order.

    Files mostly write their text in reading order, columns included, and that order is kept. Vertical CJK is read from
    the right; a page whose file jumps between two columns line by line is read column by column.

    Args:
        lines: Lines as the file writes them.
        page_width: Width of the page in points.

    Returns:
        The same lines in reading order.
    """
    if is_vertical_cjk(list(lines)):
        return sorted(lines, key=lambda line: (-line.box.right, line.box.top))
    lines = _parted_at_gutter(lines, page_width)
    gutter = _interleaved_gutter(lines, page_width)
    if gutter is None:
        return list(lines)
    return _by_columns(lines, gutter)


def _parted_at_gutter(lines: Sequence[Line], page_width: float) -> Sequence[Line]:
    """Part lines that run across two columns of running text, where the file writes both columns as one line."""
    across = [line for line in lines if _is_two_columns(line, page_width)]
    if len(across) < _MIN_COLUMN_LINES or 2 * len(across) < len(lines):
        return lines
    parted: list[Line] = []
    for line in lines:
        if _is_two_columns(line, page_width):
            parted.extend(replace(line, text=text, box=box, cells=(), hyphenated=False) for text, box in line.cells)
        else:
            parted.append(line)
    return parted


def _is_two_columns(line: Line, page_width: float) -> bool:
    # Cells of a table are narrow and short; lines of a column are neither.
    return len(line.cells) == 2 and all(
        box.right - box.left > _COLUMN_SHARE * page_width and text.count(" ") >= 2 for text, box in line.cells
    )


def _interleaved_gutter(lines: Sequence[Line], page_width: float) -> float | None:
    """Find the gap between two columns of running text that the file writes line by line across."""
    if len(lines) < 2 * _MIN_COLUMN_LINES:
        return None
    middle = page_width / 2
    left = [line for line in lines if line.box.right <= middle + 6]
    right = [line for line in lines if line.box.left >= middle - 6]
    if min(len(left), len(right)) < _MIN_COLUMN_LINES or len(left) + len(right) < 0.7 * len(lines):
        return None
    wide = _COLUMN_SHARE * page_width
    running = sum(1 for line in (*left, *right) if line.box.right - line.box.left > wide)
    # Cells of a table are narrow: there, going across is right.
    if running < 0.6 * (len(left) + len(right)):
        return None
    jumps = sum(
        1
        for first, second in pairwise(lines)
        if (first.box.right <= middle + 6 and second.box.left >= middle - 6)
        or (second.box.right <= middle + 6 and first.box.left >= middle - 6)
    )
    return middle if jumps > 0.5 * len(lines) else None


def _by_columns(lines: Sequence[Line], gutter: float) -> list[Line]:
    ordered: list[Line] = []
    left: list[Line] = []
    right: list[Line] = []
    for line in sorted(lines, key=lambda line: line.box.top):
        if line.box.left < gutter - 6 and line.box.right > gutter + 6:
            ordered += left + right + [line]
            left, right = [], []
        else:
            (left if line.box.right <= gutter + 6 else right).append(line)
    return ordered + left + right


def group_lines(lines: Iterable[Line]) -> list[Paragraph]:
    """Join lines in reading order to paragraphs.

    Args:
        lines: Lines of one page or of several, in reading order.

    Returns:
        Paragraphs in the same order; one may go on in the next column.
    """
    paragraphs: list[Paragraph] = []
    last: Paragraph | None = None
    for line in lines:
        if last is not None and _belongs(last, line):
            last.append(line)
        else:
            last = Paragraph(line)
            paragraphs.append(last)
    return paragraphs


def _belongs(paragraph: Paragraph, line: Line) -> bool:
    last = paragraph.lines[-1]
    if last.hyphenated:
        return True
    if line.direction != last.direction or line.box.page != last.box.page or line.bold != last.bold:
        return False
    ratio = line.size / last.size
    if not 1 / _SIZE_TOLERANCE < ratio < _SIZE_TOLERANCE:
        return False
    if line.direction:
        follows = _follows(_unturned(last), _unturned(line), paragraph)
    else:
        follows = _follows(last, line, paragraph)
    return follows and not LIST_MARKER.match(line.text)


def _follows(last: Line, line: Line, paragraph: Paragraph) -> bool:
    first, second = last.box, line.box
    size = max(line.size, last.size)
    ends = last.text[-1] in _TERMINALS
    if second.top < first.top - 0.5 * size:
        # The next column: a sentence that is not over goes on there.
        return not ends and line.text[0].islower() and len(paragraph.lines) > 1
    if second.top - first.bottom > 0.75 * size or first.right <= second.left or second.right <= first.left:
        return False
    if not ends:
        return True
    left, right = (first.left, first.right) if line.direction else (paragraph.left, paragraph.right)
    if second.left > left + 0.8 * size and second.left > first.left + 0.8 * size:
        return False
    return not (first.right < right - 0.15 * (right - left) and len(paragraph.lines) > 1)


def _unturned(line: Line) -> Line:
    box = line.box
    if line.direction == 1:
        turned = Box(box.page, -box.bottom, box.left, -box.top, box.right)
    elif line.direction == 3:
        turned = Box(box.page, box.top, -box.right, box.bottom, -box.left)
    else:
        turned = Box(box.page, -box.right, -box.bottom, -box.left, -box.top)
    return replace(line, box=turned)
