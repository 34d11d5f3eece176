"""Puts the lines of PDF pages into reading order and joins them to paragraphs."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from corpusmesh_adapters.parsers.pdf_lines import Line, is_vertical_cjk
from corpusmesh_core.documents import Box

_TERMINAL = re.compile(r"[.!?。！？…:：;；”\"'’)）]\s*$")
_CJK_END = re.compile("[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]$")
_CJK_START = re.compile("^[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]")
LIST_MARKER = re.compile(
    r"^(?:[\u2022\u2023\u25aa\u25cf\u25cb\u25a0\u25a1\u2013\u2014\u27a2\u2713\u00b7\uf0b7\uf0a7*-]\s+|"
    r"\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,5})[.)]\s+|[（(]?[一二三四五六七八九十]{1,3}[)）、]|\d{1,3}、)"
)
_SIZE_TOLERANCE = 1.2
_MIN_COLUMN_LINES = 6
_COLUMN_SHARE = 0.25


@dataclass(slots=True)
class Paragraph:
    """Lines that belong together.

    Attributes:
        lines: The lines, in order.
    """

    lines: list[Line] = field(default_factory=list)

    @property
    def size(self) -> float:
        """The largest font size in it."""
        return max(line.size for line in self.lines)

    @property
    def bold(self) -> bool:
        """Whether all of it is bold."""
        return all(line.bold for line in self.lines)

    @property
    def page(self) -> int:
        """Page of its first line."""
        return self.lines[0].box.page

    @property
    def boxes(self) -> tuple[Box, ...]:
        """One box per line."""
        return tuple(line.box for line in self.lines)

    def text(self) -> str:
        """Join the lines.

        Returns:
            Running text on one line; lines that end early keep their line break, as in addresses and lists.
        """
        right = max(line.box.right for line in self.lines)
        left = min(line.box.left for line in self.lines)
        parts: list[str] = []
        for line, following in pairwise([*self.lines, None]):
            assert line is not None
            parts.append(line.text)
            if following is None or line.hyphenated:
                continue
            if line.direction == 0 and line.box.right < right - 0.25 * (right - left):
                parts.append("\n")
            elif not (_CJK_END.search(line.text) and _CJK_START.match(following.text)):
                parts.append("" if line.text.endswith(("-", "\u2010")) and following.text[:1].islower() else " ")
        return "".join(parts)


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
    for line in lines:
        if paragraphs and _belongs(paragraphs[-1], line):
            paragraphs[-1].lines.append(line)
        else:
            paragraphs.append(Paragraph([line]))
    return paragraphs


def _belongs(paragraph: Paragraph, line: Line) -> bool:
    last = paragraph.lines[-1]
    if last.hyphenated:
        return True
    if line.direction != last.direction or line.box.page != last.box.page or line.bold != last.bold:
        return False
    ratio = line.size / last.size
    if not 1 / _SIZE_TOLERANCE < ratio < _SIZE_TOLERANCE or LIST_MARKER.match(line.text):
        return False
    if line.direction:
        return _follows(_unturned(last), _unturned(line), paragraph)
    return _follows(last, line, paragraph)


def _follows(last: Line, line: Line, paragraph: Paragraph) -> bool:
    first, second = last.box, line.box
    size = max(line.size, last.size)
    if second.top < first.top - 0.5 * size:
        # The next column: a sentence that is not over goes on there.
        return not _TERMINAL.search(last.text) and line.text[:1].islower() and len(paragraph.lines) > 1
    if second.top - first.bottom > 0.75 * size:
        return False
    if min(first.right, second.right) - max(first.left, second.left) <= 0:
        return False
    left = min(entry.box.left for entry in paragraph.lines) if not line.direction else first.left
    right = max(entry.box.right for entry in paragraph.lines) if not line.direction else first.right
    ends = bool(_TERMINAL.search(last.text))
    indented = second.left > left + 0.8 * size and second.left > first.left + 0.8 * size
    if indented and ends:
        return False
    return not (ends and first.right < right - 0.15 * (right - left) and len(paragraph.lines) > 1)


def _unturned(line: Line) -> Line:
    box = line.box
    if line.direction == 1:
        turned = Box(box.page, -box.bottom, box.left, -box.top, box.right)
    elif line.direction == 3:
        turned = Box(box.page, box.top, -box.right, box.bottom, -box.left)
    else:
        turned = Box(box.page, -box.right, -box.bottom, -box.left, -box.top)
    return replace(line, box=turned)
