"""Tells running heads, headings and borderless tables of a PDF by how they look on all pages together."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from corpusmesh_adapters.parsers.pdf_frames import Line
from corpusmesh_adapters.parsers.pdf_layout import Paragraph
from corpusmesh_core.documents import Box, OutlineEntry

_MARGIN_SHARE = 0.12
_MIN_REPEATS = 3
_REPEAT_SHARE = 0.25
_DIGITS = re.compile(r"\d+|\b[ivxlc]+\b")
_NUMBERED = re.compile(r"^(\d{1,2}(?:\.\d{1,2}){0,4})\.?\s+\S")
_CHAPTER = re.compile(
    r"^(?:第[一二三四五六七八九十百零〇\d]{1,5}(?:[章编篇部]|(节))|(?:Chapter|CHAPTER|Part|PART|Appendix)\s+[\dIVXA-Z]+\b)"
)
_LEADER = re.compile(r"(?:\.\s?){5,}|…{2,}|·{4,}")
_LETTERS = re.compile(r"[^\W\d_]")
_HEADING_SIZE = 1.15
_TITLE_SIZE = 1.3
_MAX_HEADING_LINES = 3
_MAX_HEADING_CHARACTERS = 160
_MAX_OUTLINE_CHARACTERS = 300
_MAX_LEVELS = 4
_MIN_TABLE_LINES = 3
_COLUMN_TOLERANCE_POINTS = 4.0


def running_lines(pages: Sequence[tuple[float, Sequence[Line]]]) -> dict[int, set[int]]:
    """Find running heads and feet: lines near the edge that return on many pages, numbers aside.

    What runs along a body is one; where most of the pages that a line returns on hold nothing else, it is their text.

    Args:
        pages: Height in points and lines of each page.

    Returns:
        Line indexes by page index.
    """
    places: dict[tuple[str, bool], list[tuple[int, int]]] = defaultdict(list)
    for page_index, (height, lines) in enumerate(pages):
        highest, lowest = _MARGIN_SHARE * height, (1 - _MARGIN_SHARE) * height
        for line_index, line in enumerate(lines):
            head = line.box.bottom < highest
            if head or line.box.top > lowest:
                key = "".join(_DIGITS.sub("#", line.text).split())
                places[key, head].append((page_index, line_index))
    needed = max(_MIN_REPEATS, _REPEAT_SHARE * len(pages))
    found: dict[int, set[int]] = defaultdict(set)
    repeated: list[list[tuple[int, int]]] = []
    for entries in places.values():
        on_pages = len({page for page, _ in entries})
        # What stands several times on one page is data, such as rows that differ in their numbers.
        if on_pages >= needed and len(entries) <= 1.2 * on_pages:
            repeated.append(entries)
            for page_index, line_index in entries:
                found[page_index].add(line_index)
    emptied = {page_index for page_index, numbers in found.items() if len(numbers) == len(pages[page_index][1])}
    for entries in repeated if emptied else ():
        if 2 * sum([page_index in emptied for page_index, _ in entries]) > len(entries):
            for page_index, line_index in entries:
                found[page_index].discard(line_index)
    return {page_index: numbers for page_index, numbers in found.items() if numbers}


@dataclass(frozen=True, slots=True)
class HeadingRules:
    """How headings look in one document.

    Attributes:
        body_size: Font size of most of its text.
        body_bold: Whether most of its text is bold.
        levels: Level of each heading font size, largest first.
        outline: Level of each outline title by page and bare text.
        title_size: Size of the document's title on its first page; 0 where none stands out.
    """

    body_size: float
    body_bold: bool
    levels: dict[float, int]
    outline: dict[tuple[int, str], int]
    title_size: float = 0.0

    def level(self, paragraph: Paragraph, text: str) -> int:
        """Decide whether a paragraph is a heading.

        Args:
            paragraph: Any paragraph.
            text: Its text.

        Returns:
            Its level from 1, or 0 if it is none.
        """
        if self.outline and len(text) <= _MAX_OUTLINE_CHARACTERS:
            found = self.outline.get((paragraph.page, _bare(text)))
            if found is not None:
                return found
        if not _could_be_heading(paragraph, text):
            return 0
        numbered = _numbered_level(text)
        size = round(paragraph.size, 1)
        if size >= _HEADING_SIZE * self.body_size:
            return numbered or self.levels.get(size, _MAX_LEVELS)
        if not paragraph.bold or self.body_bold or size < 0.95 * self.body_size:
            return 0
        # Bold at body size: a heading if it is numbered or short and stands alone without a sentence's end.
        if numbered:
            return numbered
        return min(len(self.levels) + 1, _MAX_LEVELS) if len(paragraph.lines) == 1 and len(text) <= 80 else 0

    def is_title(self, paragraph: Paragraph) -> bool:
        """Say whether a paragraph is the document's title.

        Args:
            paragraph: Any paragraph.

        Returns:
            True if it is the largest text of the first page and of the document.
        """
        return bool(self.title_size) and paragraph.page == 1 and round(paragraph.size, 1) == self.title_size


def learn_headings(paragraphs: Sequence[Paragraph], outline: Iterable[OutlineEntry]) -> HeadingRules:
    """Learn how a document's headings look.

    Args:
        paragraphs: All its paragraphs.
        outline: Its own table of contents.

    Returns:
        The rules.
    """
    sizes: dict[float, int] = {}
    bold = 0
    for paragraph in paragraphs:
        for line in paragraph.lines:
            length = len(line.text)
            sizes[line.size] = sizes.get(line.size, 0) + length
            if line.bold:
                bold += length
    total = sum(sizes.values())
    body = max(sizes, key=sizes.__getitem__) if sizes else 10.0
    candidates = [
        paragraph
        for paragraph in paragraphs
        if paragraph.size >= _HEADING_SIZE * body and _could_be_heading(paragraph, paragraph.text())
    ]
    ranks = sorted({round(paragraph.size, 1) for paragraph in candidates}, reverse=True)
    title = 0.0
    if ranks and ranks[0] >= _TITLE_SIZE * body:
        largest = [paragraph for paragraph in candidates if round(paragraph.size, 1) == ranks[0]]
        if len(largest) == 1 and largest[0].page == 1 and not _numbered_level(largest[0].text()):
            title = ranks.pop(0)
    levels = {size: min(rank, _MAX_LEVELS) for rank, size in enumerate(ranks, 1)}
    known = {(entry.page, _bare(entry.title)): max(1, min(entry.level, 6)) for entry in outline if entry.page}
    return HeadingRules(body, 2 * bold > total, levels, known, title)


def _could_be_heading(paragraph: Paragraph, text: str) -> bool:
    if len(paragraph.lines) > _MAX_HEADING_LINES or not 2 <= len(text) <= _MAX_HEADING_CHARACTERS:
        return False
    if _LEADER.search(text) or not _LETTERS.search(text) or any(len(line.cells) > 2 for line in paragraph.lines):
        return False
    return not text.rstrip().endswith((".", "。", ";", "；", ",", "，")) or bool(_NUMBERED.match(text))


def _numbered_level(text: str) -> int:
    number = _NUMBERED.match(text)
    if number is not None:
        return min(number.group(1).count(".") + 1, 6)
    chapter = _CHAPTER.match(text)
    return 0 if chapter is None else (2 if chapter.group(1) else 1)


def _bare(text: str) -> str:
    return "".join(text.split()).casefold()


def borderless_table(paragraphs: Sequence[Sequence[Line]]) -> tuple[list[list[str]], tuple[float, ...]] | None:
    """Lay out lines of gap-parted cells as a table where their columns line up.

    Args:
        paragraphs: Lines that follow each other, each with at least two cells.

    Returns:
        Rows of cell texts and the left edges of the columns, or None if the cells do not line up.
    """
    lines = [line for group in paragraphs for line in group]
    if len(lines) < _MIN_TABLE_LINES:
        return None
    columns = _columns(lines)
    if len(columns) < 2:
        return None
    rows: list[list[str]] = []
    for line in lines:
        row = [""] * len(columns)
        for text, box in line.cells or ((line.text, line.box),):
            index = _column_of(columns, box)
            row[index] = f"{row[index]} {text}".strip()
        rows.append(row)
    return rows, tuple([left for left, _ in columns])


def _columns(lines: Sequence[Line]) -> list[tuple[float, float]]:
    columns: list[tuple[float, float]] = []
    for left, right in sorted((box.left, box.right) for line in lines for _, box in line.cells):
        if columns and left < columns[-1][1] + _COLUMN_TOLERANCE_POINTS:
            columns[-1] = (columns[-1][0], max(columns[-1][1], right))
        else:
            columns.append((left, right))
    return columns


def _column_of(columns: Sequence[tuple[float, float]], box: Box) -> int:
    return max(
        range(len(columns)),
        key=lambda index: min(columns[index][1], box.right) - max(columns[index][0], box.left),
    )
