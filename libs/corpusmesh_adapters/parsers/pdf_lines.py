"""Reads the text lines of a PDF page with their boxes, sizes and weights through PDFium's C interface.

One call per line instead of one per character is what keeps this near the speed of plain text extraction.
"""

import ctypes
import math
import re
from dataclasses import dataclass, replace

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from corpusmesh_core.documents import Box

_LINE = re.compile("[^\r\n\ufffe\x02]+")
_HYPHENS = "\ufffe\x02"
"""What PDFium puts where a word is hyphenated over a line end."""

_BOLD_NAME = re.compile(r"bold|black|heavy|medi(?:um)?\b|semibold|simhei|heiti|gothic-?b", re.IGNORECASE)
_BOLD_WEIGHT = 600
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_CELL_GAP = 1.0  # in font sizes: what parts cells, as against words
_MAX_RUNS = 200


@dataclass(frozen=True, slots=True)
class Frame:
    """Maps PDF coordinates of a page to points from the top left of the page as displayed.

    Attributes:
        page: Page number from 1.
        left: Left edge of the visible box in PDF coordinates.
        bottom: Its bottom edge.
        right: Its right edge.
        top: Its top edge.
        rotation: How the page is turned for display: 0, 90, 180 or 270 degrees clockwise.
    """

    page: int
    left: float
    bottom: float
    right: float
    top: float
    rotation: int

    @property
    def width(self) -> float:
        """Width as displayed, in points."""
        return self.top - self.bottom if self.rotation in (90, 270) else self.right - self.left

    @property
    def height(self) -> float:
        """Height as displayed, in points."""
        return self.right - self.left if self.rotation in (90, 270) else self.top - self.bottom

    def box(self, left: float, bottom: float, right: float, top: float) -> Box:
        """Map a rectangle.

        Args:
            left: Its left edge in PDF coordinates.
            bottom: Its bottom edge.
            right: Its right edge.
            top: Its top edge.

        Returns:
            What of the rectangle is displayed, to a tenth of a point.
        """
        x0, y0 = self._point(max(left, self.left), max(bottom, self.bottom))
        x1, y1 = self._point(min(right, self.right), min(top, self.top))
        return Box(
            self.page, round(min(x0, x1), 1), round(min(y0, y1), 1), round(max(x0, x1), 1), round(max(y0, y1), 1)
        )

    def shows(self, left: float, bottom: float, right: float, top: float) -> bool:
        """Say whether any of a rectangle is displayed.

        Args:
            left: Its left edge in PDF coordinates.
            bottom: Its bottom edge.
            right: Its right edge.
            top: Its top edge.

        Returns:
            False if all of it lies beside the page.
        """
        return right >= self.left and left <= self.right and top >= self.bottom and bottom <= self.top

    def _point(self, x: float, y: float) -> tuple[float, float]:
        if self.rotation == 90:
            return y - self.bottom, x - self.left
        if self.rotation == 180:
            return self.right - x, y - self.bottom
        if self.rotation == 270:
            return self.top - y, self.right - x
        return x - self.left, self.top - y


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text.

    Attributes:
        text: Its text.
        box: Where it stands.
        size: Font size in points, as drawn.
        bold: Whether it begins and ends in a bold font.
        hyphenated: Whether a word goes on in the next line.
        direction: Quarter turns of its writing on the displayed page: 0 to the right, 1 upwards, 2 to the left and
            upside down, 3 downwards.
        cells: Texts and boxes of its parts where wide gaps part it like cells of a table; empty otherwise.
    """

    text: str
    box: Box
    size: float
    bold: bool = False
    hyphenated: bool = False
    direction: int = 0
    cells: tuple[tuple[str, Box], ...] = ()


class LineReader:
    """Reads lines; its buffers are made once per document."""

    def __init__(self) -> None:
        """Make the buffers."""
        self._left, self._top, self._right, self._bottom = (ctypes.c_double() for _ in range(4))
        self._loose = pdfium_c.FS_RECTF()
        self._matrix = pdfium_c.FS_MATRIX()
        self._name = ctypes.create_string_buffer(128)
        self._flags = ctypes.c_int()

    def read(self, textpage: pdfium.PdfTextPage, frame: Frame) -> list[Line]:
        """Read the lines of a page in the order in which they were written.

        Args:
            textpage: The page's text.
            frame: The page's coordinates.

        Returns:
            Lines with text; parts of one line that the file writes apart are joined.
        """
        text = textpage.get_text_range()
        lines: list[Line] = []
        for match in _LINE.finditer(text):
            content = match.group()
            if not content.strip():
                continue
            first = match.start() + len(content) - len(content.lstrip())
            last = match.end() - 1 - (len(content) - len(content.rstrip()))
            begin = pdfium_c.FPDFText_GetCharIndexFromTextIndex(textpage, first)
            end = pdfium_c.FPDFText_GetCharIndexFromTextIndex(textpage, last)
            if begin < 0 or end < begin:
                continue
            middle = pdfium_c.FPDFText_GetCharIndexFromTextIndex(textpage, (first + last) // 2)
            hyphenated = match.end() < len(text) and text[match.end()] in _HYPHENS
            line = self._line(textpage, frame, content.strip(), (begin, max(middle, begin), end), hyphenated=hyphenated)
            if line is None:
                continue
            if lines and _continues(lines[-1], line):
                line = _joined(lines.pop(), line)
            lines.append(line)
        return lines

    def _line(
        self, textpage: pdfium.PdfTextPage, frame: Frame, text: str, indexes: tuple[int, int, int], *, hyphenated: bool
    ) -> Line | None:
        begin, middle, end = indexes
        # The first character may be a bullet or a footnote's number in a size of its own.
        size, direction = self._size(textpage, frame, middle)
        if not size:
            size, direction = self._size(textpage, frame, begin)
        runs = self._runs(textpage, begin, end - begin + 1)
        if not runs:
            runs = [self._loose_box(textpage, begin, end)]
        runs = [run for run in runs if frame.shows(*run)]
        if not runs:
            # Left over from a larger page that was cut down: nobody can see it, so nothing is cited from it.
            return None
        box = frame.box(
            min(run[0] for run in runs),
            min(run[1] for run in runs),
            max(run[2] for run in runs),
            max(run[3] for run in runs),
        )
        cells: tuple[tuple[str, Box], ...] = ()
        if direction == 0 and len(runs) > 1:
            cells = self._cells(textpage, frame, runs, size)
        bold = self._is_bold(textpage, begin) and self._is_bold(textpage, end)
        return Line(text, box, round(size, 1) or 1.0, bold, hyphenated, direction, cells)

    def _size(self, textpage: pdfium.PdfTextPage, frame: Frame, index: int) -> tuple[float, int]:
        size = pdfium_c.FPDFText_GetFontSize(textpage, index)
        turns = frame.rotation // 90
        if not pdfium_c.FPDFText_GetMatrix(textpage, index, self._matrix):
            return size, (4 - turns) % 4
        matrix = self._matrix
        scale = math.hypot(matrix.c, matrix.d)
        along, up = matrix.a, matrix.b
        across = abs(along) >= abs(up)
        written = (0 if along >= 0 else 2) if across else (1 if up > 0 else 3)
        # A page turned clockwise for display turns its lines with it.
        return size * (scale or 1.0), (written - turns) % 4

    def _runs(self, textpage: pdfium.PdfTextPage, begin: int, count: int) -> list[tuple[float, float, float, float]]:
        runs = []
        for index in range(min(pdfium_c.FPDFText_CountRects(textpage, begin, count), _MAX_RUNS)):
            if pdfium_c.FPDFText_GetRect(textpage, index, self._left, self._top, self._right, self._bottom):
                run = (self._left.value, self._bottom.value, self._right.value, self._top.value)
                if run[2] > run[0] and run[3] > run[1]:
                    runs.append(run)
        return runs

    def _loose_box(self, textpage: pdfium.PdfTextPage, begin: int, end: int) -> tuple[float, float, float, float]:
        # Vertical writing has no tight boxes in PDFium; the boxes of the font's own measures are near enough.
        edges: list[tuple[float, float, float, float]] = []
        for index in (begin, end):
            if pdfium_c.FPDFText_GetLooseCharBox(textpage, index, self._loose):
                loose = self._loose
                edges.append((loose.left, loose.bottom, loose.right, loose.top))
        if not edges:
            return (0.0, 0.0, 0.0, 0.0)
        return (
            min(edge[0] for edge in edges),
            min(edge[1] for edge in edges),
            max(edge[2] for edge in edges),
            max(edge[3] for edge in edges),
        )

    def _cells(
        self, textpage: pdfium.PdfTextPage, frame: Frame, runs: list[tuple[float, float, float, float]], size: float
    ) -> tuple[tuple[str, Box], ...]:
        groups: list[list[float]] = []
        across = frame.rotation in (90, 270)
        low, high = (1, 3) if across else (0, 2)
        for run in sorted(runs, key=lambda run: run[low]):
            if groups and run[low] - groups[-1][high] < _CELL_GAP * size:
                last = groups[-1]
                groups[-1] = [min(last[0], run[0]), min(last[1], run[1]), max(last[2], run[2]), max(last[3], run[3])]
            else:
                groups.append(list(run))
        if len(groups) < 2:
            return ()
        cells = []
        for left, bottom, right, top in groups:
            text = textpage.get_text_bounded(left - 0.5, bottom - 0.5, right + 0.5, top + 0.5)
            cells.append((" ".join(text.split()), frame.box(left, bottom, right, top)))
        cells.sort(key=lambda cell: cell[1].left)
        return tuple(cells)

    def _is_bold(self, textpage: pdfium.PdfTextPage, index: int) -> bool:
        if pdfium_c.FPDFText_GetFontWeight(textpage, index) >= _BOLD_WEIGHT:
            return True
        length = pdfium_c.FPDFText_GetFontInfo(textpage, index, self._name, len(self._name), self._flags)
        return bool(length and _BOLD_NAME.search(self._name.value.decode("latin-1")))


def is_vertical_cjk(lines: list[Line]) -> bool:
    """Say whether a page is written in columns from top to bottom, right to left.

    Args:
        lines: Lines of a page.

    Returns:
        True if most characters stand in tall lines of Chinese or Japanese.
    """
    tall = sum(len(line.text) for line in lines if _is_tall(line))
    return 2 * tall > sum(len(line.text) for line in lines)


def _is_tall(line: Line) -> bool:
    height, width = line.box.bottom - line.box.top, line.box.right - line.box.left
    return len(line.text) >= 3 and height > 2 * width and len(_CJK.findall(line.text)) * 2 > len(line.text)


def _continues(line: Line, following: Line) -> bool:
    # A superscript ends PDFium's line; what follows on the same base line belongs to it.
    if line.direction or following.direction or line.hyphenated:
        return False
    first, second = line.box, following.box
    shared = min(first.bottom, second.bottom) - max(first.top, second.top)
    low = min(first.bottom - first.top, second.bottom - second.top)
    gap = second.left - first.right
    return shared > 0.5 * low and -0.3 * line.size < gap < 0.8 * max(line.size, following.size)


def _joined(line: Line, following: Line) -> Line:
    first, second = line.box, following.box
    space = " " if second.left - first.right > 0.15 * line.size and following.text[0].isalnum() else ""
    return replace(
        line,
        text=line.text + space + following.text,
        box=Box(
            first.page,
            min(first.left, second.left),
            min(first.top, second.top),
            max(first.right, second.right),
            max(first.bottom, second.bottom),
        ),
        size=max(line.size, following.size),
        bold=line.bold and following.bold,
        hyphenated=following.hyphenated,
        cells=(),
    )
