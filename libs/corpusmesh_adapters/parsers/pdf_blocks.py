"""Makes blocks of the pages of a PDF: running heads aside, paragraphs, headings, captions, tables, figures in order."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from corpusmesh_adapters.parsers.builder import DocumentBuilder
from corpusmesh_adapters.parsers.pdf_frames import Line
from corpusmesh_adapters.parsers.pdf_layout import LIST_MARKER, Paragraph, group_lines
from corpusmesh_adapters.parsers.pdf_pages import Page
from corpusmesh_adapters.parsers.pdf_structure import (
    HeadingRules,
    borderless_table,
    learn_headings,
    running_lines,
)
from corpusmesh_adapters.parsers.pdf_tables import Table, join_pages
from corpusmesh_core.documents import Block, BlockKind, Box, OutlineEntry, Picture

_CAPTION = re.compile(
    r"^(?:(?:Figure|FIGURE|Fig\.|FIG\.|Table|TABLE|Chart|Exhibit|Abbildung|Abb\.|Tabelle|Tableau|Figura|Tabla)\s*"
    r"(?:\d{1,3}|[A-Z]|[IVX]{1,5})|[图圖表図]\s*\d{1,3}|그림\s*\d{1,3}|표\s*\d{1,3})(?:[-.\u2013]\d{1,3}){0,3}"
    r"(?:(?P<mark>\s?[.:：|\u2013\u2014]\s*)|\s+(?=[A-Z\d\u2e80-\uffef\"“(])|$)"
)
_MAX_CAPTION_LINES = 8
_MAX_PLAIN_CAPTION_CHARACTERS = 160
_FIGURE_OVERLAP_POINTS = 6.0
_MARGIN_SHARE = 0.1

_Part = Paragraph | Table | Picture | Block


@dataclass(slots=True)
class _Sheet:
    """A page on its way: heads and feet, then everything else in reading order."""

    page: Page
    edges: list[tuple[BlockKind, Line]]
    parts: list[_Part]


def add_pages(builder: DocumentBuilder, pages: Sequence[Page], outline: Sequence[OutlineEntry]) -> None:
    """Add the blocks of all pages.

    Args:
        builder: Takes them in reading order.
        pages: The pages.
        outline: The document's own table of contents.

    Raises:
        DocumentError: DOCUMENT_RESOURCE_LIMIT if there is too much of anything.
    """
    sheets = _sheets(pages)
    rules = learn_headings([part for sheet in sheets for part in sheet.parts if isinstance(part, Paragraph)], outline)
    for sheet in sheets:
        sheet.parts = list(_with_borderless(sheet.parts))
    _join_tables(sheets)
    for sheet in sheets:
        for kind, line in sheet.edges:
            builder.add(kind, line.text, page=line.box.page, boxes=(line.box,))
        figures = sheet.page.figures
        for part in _with_figures(sheet.parts, figures) if figures else sheet.parts:
            _add(builder, part, rules)
        for entry in sheet.page.fields:
            text = f"{entry.name}: {entry.value}" if entry.name else entry.value
            builder.add(BlockKind.PARAGRAPH, text, page=sheet.page.frame.page, boxes=(entry.box,))


def _sheets(pages: Sequence[Page]) -> list[_Sheet]:
    running = running_lines([(page.frame.height, page.lines) for page in pages])
    seen: set[str] = set()
    sheets = []
    for index, page in enumerate(pages):
        body = page.lines
        edges: list[tuple[BlockKind, Line]] = []
        numbers = running.get(index)
        if numbers:
            body = [line for number, line in enumerate(page.lines) if number not in numbers]
            for line in (page.lines[number] for number in sorted(numbers)):
                bare = "".join([character for character in line.text if not character.isdigit()]).strip()
                if bare and bare not in seen:
                    seen.add(bare)
                    is_head = line.box.top < page.frame.height / 2
                    edges.append((BlockKind.HEADER if is_head else BlockKind.FOOTER, line))
        sheets.append(_Sheet(page, edges, [*page.blocks, *_settled(_with_tables(body, page.tables))]))
    return sheets


def _with_tables(lines: Sequence[Line], tables: Sequence[Table]) -> Iterator[Paragraph | Table]:
    """Group the lines outside the tables; each table stands where its first line stood."""
    if not tables:
        yield from group_lines(lines)
        return
    waiting = list(tables)
    run: list[Line] = []
    for line in lines:
        for part in _parted(line, tables):
            table = next((table for table in tables if _inside(part.box, table.box)), None)
            if table is None:
                run.append(part)
            elif table in waiting:
                yield from group_lines(run)
                run = []
                waiting.remove(table)
                yield table
    yield from group_lines(run)


def _settled(parts: Iterator[Paragraph | Table]) -> list[Paragraph | Table]:
    """Put tables that the file writes behind the text around them before what stands below them."""
    settled: list[Paragraph | Table] = []
    for part in parts:
        place = len(settled)
        while isinstance(part, Table) and place and _is_below(settled[place - 1], part.box):
            place -= 1
        settled.insert(place, part)
    return settled


def _is_below(part: Paragraph | Table, box: Box) -> bool:
    boxes = (part.box,) if isinstance(part, Table) else part.boxes
    return all(each.top >= box.bottom and each.left < box.right and each.right > box.left for each in boxes)


def _parted(line: Line, tables: Sequence[Table]) -> list[Line]:
    """Part a line that runs into a table, or across two, at its gaps."""
    if not line.cells or all(line.box.bottom < table.box.top or line.box.top > table.box.bottom for table in tables):
        return [line]
    owners = {
        next((number for number, table in enumerate(tables) if _inside(box, table.box)), -1) for _, box in line.cells
    }
    if len(owners) == 1:
        return [line]
    return [replace(line, text=text, box=box, cells=(), hyphenated=False) for text, box in line.cells if text]


def _inside(box: Box, outer: Box) -> bool:
    x, y = (box.left + box.right) / 2, (box.top + box.bottom) / 2
    return outer.left <= x <= outer.right and outer.top <= y <= outer.bottom


def _with_borderless(parts: Sequence[_Part]) -> Iterator[_Part]:
    """Replace paragraphs whose lines are all parted into cells that line up by tables."""
    index = 0
    while index < len(parts):
        part = parts[index]
        run = _cell_run(parts, index) if isinstance(part, Paragraph) and part.lines[0].cells else []
        found = borderless_table(run) if run else None
        if found is None:
            yield part
            index += 1
            continue
        rows, edges = found
        boxes = tuple([line.box for lines in run for line in lines])
        yield Table(boxes[-1], tuple(map(tuple, rows)), boxes, None, edges=edges)
        index += len(run)


def _cell_run(parts: Sequence[_Part], start: int) -> list[list[Line]]:
    """Collect the paragraphs from `start` on whose every line is parted into cells."""
    run: list[list[Line]] = []
    for part in parts[start:]:
        if not isinstance(part, Paragraph) or not all(line.cells for line in part.lines):
            break
        run.append(part.lines)
    return run


def _join_tables(sheets: list[_Sheet]) -> None:
    """Join tables that go on over a page break: the last thing on a page and the first on the next."""
    open_sheet: _Sheet | None = None
    open_index = -1
    for sheet in sheets:
        middle = [index for index, part in enumerate(sheet.parts) if not _is_margin(part, sheet.page)]
        if open_sheet is not None and middle:
            first, second = open_sheet.parts[open_index], sheet.parts[middle[0]]
            joined = join_pages(first, second) if isinstance(first, Table) and isinstance(second, Table) else None
            if joined is not None:
                open_sheet.parts[open_index] = joined
                del sheet.parts[middle[0]]
                middle = [index - 1 for index in middle[1:]]
                if not middle:
                    # A page that held nothing but the middle of a table leaves the table open.
                    continue
        open_sheet, open_index = (sheet, middle[-1]) if middle else (None, -1)


def _is_margin(part: _Part, page: Page) -> bool:
    # Heads and feet of short documents do not repeat often enough to be known as such.
    if not isinstance(part, Paragraph) or len(part.lines) > 1:
        return False
    box, height = part.lines[0].box, page.frame.height
    return box.bottom < _MARGIN_SHARE * height or box.top > (1 - _MARGIN_SHARE) * height


def _with_figures(parts: Sequence[_Part], figures: Sequence[Picture]) -> list[_Part]:
    """Put each figure before the nearest part below it in its column, else after the nearest above it."""
    boxes = [_first_box(part) for part in parts]
    places: dict[int, list[Picture]] = defaultdict(list)
    for figure in figures:
        places[_place(figure.box, boxes)].append(figure)
    mixed: list[_Part] = []
    for index, part in enumerate(parts):
        mixed.extend(places[index])
        mixed.append(part)
    return mixed + places[len(parts)]


def _place(figure: Box | None, boxes: Sequence[Box | None]) -> int:
    below, above = len(boxes), -1
    gap_below = gap_above = math.inf
    for index, box in enumerate(boxes):
        if figure is None or box is None or box.right <= figure.left or box.left >= figure.right:
            continue
        if -_FIGURE_OVERLAP_POINTS <= box.top - figure.bottom < gap_below:
            below, gap_below = index, box.top - figure.bottom
        if -_FIGURE_OVERLAP_POINTS <= figure.top - box.bottom < gap_above:
            above, gap_above = index, figure.top - box.bottom
    # Feet of a page are often written first: a near part above tells more than a far one below.
    return above + 1 if above >= 0 and gap_above < gap_below else below


def _first_box(part: _Part) -> Box | None:
    if isinstance(part, Paragraph):
        return part.lines[0].box
    if isinstance(part, Table):
        return part.row_boxes[0]
    if isinstance(part, Block):
        return part.boxes[0] if part.boxes else None
    return part.box


def _add(builder: DocumentBuilder, part: _Part, rules: HeadingRules) -> None:
    if isinstance(part, Paragraph):
        _add_paragraph(builder, part, rules)
    elif isinstance(part, Table):
        builder.add_table(
            part.rows,
            header_row_count=part.header_row_count,
            spans=part.spans,
            page=part.row_boxes[0].page,
            boxes=part.row_boxes,
        )
    elif isinstance(part, Picture):
        builder.add_picture(
            part.content,
            media_type=part.media_type,
            width=part.width,
            height=part.height,
            page=part.box.page if part.box is not None else 0,
            box=part.box,
        )
    elif part.table is not None:
        builder.add_table(
            part.table.rows,
            header_row_count=part.table.header_row_count,
            spans=part.table.spans,
            page=part.page,
            boxes=part.boxes,
            confidence=part.confidence,
        )
    else:
        builder.add(
            part.kind, part.text, level=part.level, page=part.page, boxes=part.boxes, confidence=part.confidence
        )


def _add_paragraph(builder: DocumentBuilder, paragraph: Paragraph, rules: HeadingRules) -> None:
    text = paragraph.text()
    page, boxes = paragraph.page, paragraph.boxes
    if _is_caption(paragraph, text):
        builder.add(BlockKind.CAPTION, text, page=page, boxes=boxes)
        return
    level = rules.level(paragraph, text)
    if rules.is_title(paragraph):
        builder.add(BlockKind.TITLE, text.replace("\n", " "), page=page, boxes=boxes)
    elif level:
        builder.add(BlockKind.HEADING, text, level=level, page=page, boxes=boxes)
    elif LIST_MARKER.match(text):
        builder.add(BlockKind.LIST_ITEM, text, level=1, page=page, boxes=boxes)
    else:
        builder.add(BlockKind.PARAGRAPH, text, page=page, boxes=boxes)


def _is_caption(paragraph: Paragraph, text: str) -> bool:
    match = _CAPTION.match(text)
    if match is None or len(paragraph.lines) > _MAX_CAPTION_LINES:
        return False
    # Without a mark after its number it may be the start of a sentence about a figure.
    if match.group("mark"):
        return True
    return len(text) <= _MAX_PLAIN_CAPTION_CHARACTERS and not text.endswith((".", "。", "；", ";")) and "。" not in text
