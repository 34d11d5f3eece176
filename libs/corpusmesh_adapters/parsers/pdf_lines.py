"""Reads the text lines of a PDF page with their boxes, sizes and weights through PDFium's C interface.

A handful of calls per line instead of one per character is what keeps this near the speed of plain text extraction.
"""

import ctypes
import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

from corpusmesh_adapters.parsers.pdf_calls import (
    character_of_text,
    count_characters,
    count_rectangles,
    get_character_box,
    get_font,
    get_font_name,
    get_font_size,
    get_font_weight,
    get_loose_box,
    get_matrix,
    get_rectangle,
    get_text,
    get_text_object,
)
from corpusmesh_adapters.parsers.pdf_frames import Edges, Frame, Line
from corpusmesh_adapters.parsers.pdf_line_parts import continues, is_last_cell, joined, with_cell
from corpusmesh_core.documents import Box

_LINE = re.compile("[^\r\n\ufffe\x02]+")
_HYPHENS = "\ufffe\x02"
"""What PDFium puts where a word is hyphenated over a line end."""

_BOLD_NAME = re.compile(r"bold|black|heavy|medi(?:um)?\b|semibold|simhei|heiti|gothic-?b", re.IGNORECASE)
_BOLD_WEIGHT = 600
_ALEF_LAM = re.compile("[\u0622\u0623\u0625\u0627]\u0644")
_CELL_GAP = 1.0  # in font sizes: what parts cells, as against words
_CHARACTERS_PER_BISECTION = 25
_MAX_RUNS = 200
_MAX_BATCH = _MAX_RUNS  # one buffer serves both
_NEARLY_HALF = 0.499_999

_Found = tuple[str, int, int, bool]
"""Text of a line, its first and last (exclusive) place in the page's text, whether it ends in a hyphenated word."""


class LineReader:
    """Reads lines; its buffers are made once per document."""

    def __init__(self) -> None:
        """Make the buffers."""
        self._rectangles = (ctypes.c_double * (4 * _MAX_RUNS))()
        matrices = (ctypes.c_float * (6 * _MAX_BATCH))()
        self._matrices_address = ctypes.addressof(matrices)
        self._edges = np.ctypeslib.as_array(self._rectangles).reshape(_MAX_BATCH, 4)
        self._scales = np.ctypeslib.as_array(matrices).reshape(_MAX_BATCH, 6)
        self._sizes: dict[tuple[float, float], float] = {}
        address = ctypes.addressof(self._rectangles)
        self._first = (address, address + 8, address + 16, address + 24)
        self._places = [tuple(address + 32 * index + 8 * side for side in range(4)) for index in range(_MAX_RUNS)]
        self._matrix = (ctypes.c_float * 6)()
        self._matrix_address = ctypes.addressof(self._matrix)
        self._loose = (ctypes.c_float * 4)()
        self._name = ctypes.create_string_buffer(128)
        self._bold: dict[int, bool] = {}
        self._buffer = (ctypes.c_ushort * 32_768)()
        self._text_page = 0
        self._frame = Frame(1, 0.0, 0.0, 1.0, 1.0, 0)
        self._text = ""
        self._is_plain = True
        self._spans: list[tuple[tuple[int, int], Line]] = []

    def read(self, text_page: int, frame: Frame) -> list[Line]:
        """Read the lines of a page in the order in which they were written.

        Args:
            text_page: Address of the page's text; it must stay open as long as this page is asked for anything.
            frame: The page's coordinates.

        Returns:
            Lines with text; parts of one line that the file writes apart are joined.
        """
        self._text_page = text_page
        self._frame = frame
        # Fonts live as long as their page: another one may lie at the same address later.
        self._bold.clear()
        self._text = self._page_text()
        spans = self._spans = []
        lines: list[Line] = []
        last: Line | None = None
        found = self._found()
        for begin in range(0, len(found), _MAX_BATCH):
            batch = found[begin : begin + _MAX_BATCH]
            for (_, start, stop, _), line in zip(batch, self._batch(batch), strict=True):
                if line is None:
                    continue
                spans.append(((start, stop), line))
                if last is not None and line.box.left > last.box.left and continues(last, line):
                    last = lines[-1] = joined(last, line)
                elif last is not None and last.cells and is_last_cell(last, line):
                    last = lines[-1] = with_cell(last, line)
                else:
                    last = line
                    lines.append(line)
        return lines

    def _found(self) -> list[_Found]:
        text = self._text
        length = len(text)
        found: list[_Found] = []
        for match in _LINE.finditer(text):
            start, stop = match.span()
            hyphenated = stop < length and text[stop] in _HYPHENS
            content = match.group()
            bare = content.strip()
            if not bare:
                continue
            if bare is not content:
                start += len(content) - len(content.lstrip())
                stop = start + len(bare)
            found.append((bare, start, stop, hyphenated))
        return found

    @property
    def spans(self) -> list[tuple[tuple[int, int], Line]]:
        """Lines of the page read last, parts of a line not joined: first and last (exclusive) place in `text`, line."""
        return self._spans

    @property
    def text(self) -> str:
        """All text of the page read last, as its lines' spans count it."""
        return self._text

    def character_edges(self, position: int) -> Edges | None:
        """Find where a character of the page read last is displayed.

        Args:
            position: Its place in `text`.

        Returns:
            Left, top, right and bottom; None where PDFium does not say.
        """
        index = self._character_index(position)
        if index < 0 or not get_character_box(self._text_page, index, *self._first):
            return None
        left, right, bottom, top = self._rectangles[:4]
        return self._frame.edges(left, bottom, right, top)

    def _character_index(self, position: int) -> int:
        return position if self._is_plain else character_of_text(self._text_page, position)

    def _page_text(self) -> str:
        count = count_characters(self._text_page)
        # PDFium may put in characters that it does not count.
        if 2 * count + 2 > len(self._buffer):
            self._buffer = (ctypes.c_ushort * (4 * count))()
        written = get_text(self._text_page, 0, count, ctypes.addressof(self._buffer)) if count > 0 else 0
        text = memoryview(self._buffer)[: max(written - 1, 0)].tobytes().decode("utf-16-le", "ignore")
        self._is_plain = len(text) == count
        return text if text.isascii() else self._with_ligatures(text)

    def _with_ligatures(self, text: str) -> str:
        """Put lam before alef where both come from one ligature: PDFium turns all Arabic round, and them twice."""
        swapped: list[str] = []
        done = 0
        for match in _ALEF_LAM.finditer(text):
            position = match.start()
            if self.character_edges(position) == self.character_edges(position + 1):
                swapped += text[done:position], text[position + 1], text[position]
                done = position + 2
        return "".join([*swapped, text[done:]]) if swapped else text

    def _batch(self, found: Sequence[_Found]) -> list[Line | None]:
        """Read lines; of those that are one run on an upright page the measures are worked out all at once."""
        if self._frame.rotation or not self._is_plain:
            return [self._line(text, first, stop - 1, hyphenated) for text, first, stop, hyphenated in found]
        page, matrices, places, known = self._text_page, self._matrices_address, self._places, self._bold
        page_number = self._frame.page
        looks: list[tuple[float, bool]] = []
        for number, (text, begin, stop, _) in enumerate(found):
            place = begin + (stop - begin - 1) // 2
            if text[place - begin] == " ":
                place = begin + _middle(text, stop - begin - 1)
            if (
                count_rectangles(page, begin, stop - begin) != 1
                or not get_rectangle(page, 0, *places[number])
                or not get_matrix(page, place, matrices + 24 * number)
            ):
                looks.append((0.0, False))
                continue
            font = get_font(get_text_object(page, begin)) or 0
            bold = known.get(font)
            looks.append((get_font_size(page, place), self._is_bold(begin) if bold is None else bold))
        lines: list[Line | None] = []
        measures = self._measures(len(found))
        for (text, begin, stop, hyphenated), (size, bold), (edges, scale) in zip(found, looks, measures, strict=True):
            if not size or edges is None:
                lines.append(self._line(text, begin, stop - 1, hyphenated))
                continue
            shown = self._sizes.get((size, scale))
            if shown is None:
                shown = self._sizes[size, scale] = round(size * (abs(scale) or 1.0), 1) or 1.0
            lines.append(Line(text, Box(page_number, *edges), shown, bold, hyphenated))
        return lines

    def _measures(self, count: int) -> Iterable[tuple[list[float] | None, float]]:
        """Work out where one-run lines are displayed, None for those less plain, and the scale of their fonts."""
        frame = self._frame
        edges = self._edges[:count]
        along, up, skew, scale = self._scales[:count].T.tolist()[:4]
        low, high = frame.left, frame.top
        shown = np.abs(edges - (low, high, low, high))
        tenths = shown * 10.0
        whole = np.rint(tenths)
        measures: list[list[float] | None] = (whole / 10.0).tolist()
        for number, (left, top, right, bottom) in enumerate(edges.tolist()):
            if (
                not low <= left < right <= frame.right
                or not frame.bottom <= bottom < top <= high
                or up[number]
                or skew[number]
                or along[number] <= 0
            ):
                measures[number] = None
        # What lies halfway between two tenths is rounded by its decimal digits, as everywhere else.
        near = np.abs(tenths - whole) > _NEARLY_HALF
        if near.any():
            for number in np.flatnonzero(near.any(1)).tolist():
                if measures[number] is not None:
                    measures[number] = [round(edge, 1) for edge in shown[number].tolist()]
        return zip(measures, scale, strict=True)

    def _line(self, text: str, first: int, last: int, hyphenated: bool) -> Line | None:
        page, frame = self._text_page, self._frame
        begin, end = first, last
        if not self._is_plain:
            begin, end = character_of_text(page, first), character_of_text(page, last)
            if begin < 0 or end < begin:
                return None
        size, direction = self._size(begin + _middle(text, end - begin))
        if not size:
            size, direction = self._size(begin)
        bold = self._is_bold(begin)
        count = count_rectangles(page, begin, end - begin + 1)
        if count == 1 and get_rectangle(page, 0, *self._first):
            left, top, right, bottom = self._rectangles[:4]
            if frame.left <= left < right <= frame.right and frame.bottom <= bottom < top <= frame.top:
                if not frame.rotation:
                    low, high = frame.left, frame.top
                    box = Box(
                        frame.page,
                        round(left - low, 1),
                        round(high - top, 1),
                        round(right - low, 1),
                        round(high - bottom, 1),
                    )
                    return Line(text, box, round(size, 1) or 1.0, bold, hyphenated, direction)
                return Line(
                    text, frame.box(left, bottom, right, top), round(size, 1) or 1.0, bold, hyphenated, direction
                )
        runs = self._runs(begin, end, count)
        if not runs:
            # Left over from a larger page that was cut down: nobody can see it, so nothing is cited from it.
            return None
        if count > 1:
            bold = bold and self._is_bold(end)
        cells = self._cells((first, last), runs, size) if direction == 0 and len(runs) > 1 else ()
        return Line(text, _union(frame.page, runs), round(size, 1) or 1.0, bold, hyphenated, direction, cells)

    def _size(self, index: int) -> tuple[float, int]:
        size = get_font_size(self._text_page, index)
        turns = self._frame.rotation // 90
        if not get_matrix(self._text_page, index, self._matrix_address):
            return size, (4 - turns) % 4
        along, up, skew, scale = self._matrix[:4]
        if not up and not skew and along > 0:
            return size * (abs(scale) or 1.0), -turns % 4
        written = (0 if along >= 0 else 2) if abs(along) >= abs(up) else (1 if up > 0 else 3)
        # A page turned clockwise for display turns its lines with it.
        return size * (math.hypot(skew, scale) or 1.0), (written - turns) % 4

    def _runs(self, begin: int, end: int, count: int) -> list[Edges]:
        """Find where the runs of a line are displayed, in the order in which they are drawn."""
        frame = self._frame
        count = min(count, _MAX_RUNS)
        for index in range(count):
            get_rectangle(self._text_page, index, *self._places[index])
        edges = self._rectangles[: 4 * count]
        lefts, tops, rights, bottoms = edges[::4], edges[1::4], edges[2::4], edges[3::4]
        runs = zip(lefts, bottoms, rights, tops, strict=True)
        if count and frame.holds(min(lefts), min(bottoms), max(rights), max(tops)):
            low, high = frame.left, frame.top
            shown = [
                (left - low, high - top, right - low, high - bottom)
                for left, bottom, right, top in runs
                if right > left and top > bottom
            ]
            if shown:
                return shown
        found = [run for run in runs if run[2] > run[0] and run[3] > run[1]]
        return [frame.edges(*run) for run in found or self._loose_box(begin, end) if frame.shows(*run)]

    def _loose_box(self, begin: int, end: int) -> list[Edges]:
        # Vertical writing has no tight boxes in PDFium; the boxes of the font's own measures are near enough.
        found: list[Edges] = []
        for index in (begin, end):
            if get_loose_box(self._text_page, index, ctypes.addressof(self._loose)):
                left, top, right, bottom = self._loose[:4]
                found.append((left, bottom, right, top))
        if not found:
            return [(0.0, 0.0, 0.0, 0.0)]
        lefts, bottoms, rights, tops = zip(*found, strict=True)
        return [(min(lefts), min(bottoms), max(rights), max(tops))]

    def _cells(self, span: tuple[int, int], runs: list[Edges], size: float) -> tuple[tuple[str, Box], ...]:
        """Part a line at its wide gaps."""
        gap = _CELL_GAP * size
        groups: list[list[int]] = [[0]]
        right = runs[0][2]
        for index in range(1, len(runs)):
            if runs[index][0] - right >= gap:
                groups.append([index])
            elif runs[index][0] < runs[groups[-1][0]][0] - gap:
                # Drawn in another order than it is read: such lines are rare, and cells must not be guessed.
                return ()
            else:
                groups[-1].append(index)
            right = max(right, runs[index][2]) if len(groups[-1]) > 1 else runs[index][2]
        if len(groups) < 2:
            return ()
        first, last = span
        starts = self._starts_of_runs(span, [group[0] for group in groups[1:]], len(runs))
        cells = []
        for group, stop in zip(groups, [*starts, last + 1], strict=True):
            cells.append(
                (" ".join(self._text[first:stop].split()), _union(self._frame.page, [runs[index] for index in group]))
            )
            first = stop
        return tuple(cells)

    def _starts_of_runs(self, span: tuple[int, int], wanted: list[int], run_count: int) -> list[int]:
        """Find the first characters of some runs: by bisection where they are few, else one by one."""
        first, last = span
        if len(wanted) * _CHARACTERS_PER_BISECTION < last - first and self._is_plain:
            return [self._start_of_run(span, run) for run in wanted]
        page = self._text_page
        owner: int | None = None
        starts: list[int] = []
        for position in range(first, last + 1):
            drawn = get_text_object(page, self._character_index(position))
            if drawn and drawn != owner:
                owner = drawn
                starts.append(position)
        if len(starts) != run_count:
            return [self._start_of_run(span, run) for run in wanted]
        return [starts[run] for run in wanted]

    def _start_of_run(self, span: tuple[int, int], run: int) -> int:
        """Find the first character of a run: the first up to which there are more rectangles than runs before it."""
        low, high = span
        begin = self._character_index(low)
        while low < high:
            middle = (low + high) // 2
            end = self._character_index(middle)
            if end >= begin and count_rectangles(self._text_page, begin, end - begin + 1) > run:
                high = middle
            else:
                low = middle + 1
        return low

    def _is_bold(self, index: int) -> bool:
        font = get_font(get_text_object(self._text_page, index)) or 0
        known = self._bold.get(font)
        if known is None:
            known = self._bold[font] = bool(font) and self._looks_bold(font)
        return known

    def _looks_bold(self, font: int) -> bool:
        if get_font_weight(font) >= _BOLD_WEIGHT:
            return True
        length = get_font_name(font, ctypes.addressof(self._name), len(self._name))
        return bool(length and _BOLD_NAME.search(self._name.value.decode("latin-1")))


def _middle(text: str, reach: int) -> int:
    """Find a character that tells a line's size.

    The first one may be a bullet or a footnote's number in a size of its own, and a space has no size.
    """
    middle = reach // 2
    while text[min(middle, len(text) - 1)] == " ":
        middle += 1
    return middle


def _union(page: int, runs: list[Edges]) -> Box:
    lefts, tops, rights, bottoms = zip(*runs, strict=True)
    return Box(page, round(min(lefts), 1), round(min(tops), 1), round(max(rights), 1), round(max(bottoms), 1))
