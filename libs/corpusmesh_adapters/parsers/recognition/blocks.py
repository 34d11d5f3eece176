"""Makes blocks of a page's lines, regions and tables: paragraphs, headings, captions, figures, in reading order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from corpusmesh_adapters.parsers.pdf_frames import Line
from corpusmesh_adapters.parsers.pdf_layout import LIST_MARKER, Paragraph, group_lines
from corpusmesh_adapters.parsers.recognition.layout import Bounds, Region, area, shared_area
from corpusmesh_adapters.parsers.recognition.lines import TextLine, joined_text, mean_confidence
from corpusmesh_adapters.parsers.recognition.order import around, columns_order, reading_order, row_groups
from corpusmesh_adapters.parsers.recognition.reading import CJK
from corpusmesh_adapters.parsers.recognition.tables import ReadTable
from corpusmesh_core.chunking.tables import table_text
from corpusmesh_core.documents import Block, BlockKind, Box

_INSIDE: Final = 0.4
_WHOLE_PAGE: Final = 0.6
_MARGIN: Final = 0.25
"""In heights of a line: how far a line's rectangle may stick out of its region."""

_SURE_FIGURE: Final = 0.7
_SMALL_REGION_LINES: Final = 3
_SAME_SIZE: Final = 1.2
_HEADING_RATIO: Final = 1.25
_CAPITALS_RATIO: Final = 1.1
_LEVEL_RATIOS: Final = (1.7, 1.35)
_TITLE_RATIO: Final = 1.4
_MIN_TITLE_LETTERS: Final = 4
_MAX_HEADING_WIDTH: Final = 120
"""Of a heading, in Latin letters; a CJK character counts as two."""

_MAX_LABEL_WIDTH: Final = 40
_SENTENCE_ENDS: Final = tuple(",.;，。；、")
_MAX_FORMULA_LINES: Final = 3
_KINDS: Final = {
    "figure_caption": BlockKind.CAPTION,
    "table_caption": BlockKind.CAPTION,
    "header": BlockKind.HEADER,
    "footer": BlockKind.FOOTER,
    "equation": BlockKind.FORMULA,
    "figure": BlockKind.FIGURE,
}


@dataclass(frozen=True, slots=True)
class Frame:
    """The upright page that blocks are made on, in pixels.

    Attributes:
        page: Page number from 1.
        width: Pixels.
        height: Pixels.
        line_height: Height of the rectangles of most lines of text, in pixels.
        text_size: Font size of most text, in pixels.
    """

    page: int
    width: float
    height: float
    line_height: float
    text_size: float


@dataclass(slots=True)
class _Part:
    region: Region | None
    lines: list[TextLine] = field(default_factory=list)
    table: ReadTable | None = None

    @property
    def bounds(self) -> Bounds:
        if self.table is not None:
            return self.table.bounds
        if self.lines:
            return around([line.bounds for line in self.lines])
        assert self.region is not None
        return self.region.bounds

    @property
    def kind(self) -> str:
        return self.region.kind if self.region is not None else ""


def make_blocks(
    lines: Sequence[TextLine], regions: Sequence[Region], tables: Sequence[ReadTable], frame: Frame
) -> list[Block]:
    """Make the blocks of a page.

    Args:
        lines: Lines that stand in none of the tables.
        regions: What the layout model found.
        tables: Tables with their text.
        frame: The page.

    Returns:
        Blocks in reading order; their boxes are in pixels of the upright page.
    """
    if 2 * sum(len(line.text) for line in lines if line.runs_down) > sum(len(line.text) for line in lines):
        return [*_column_blocks(lines, frame), *(_table_block(table, frame) for table in tables)]
    parts = _parts(lines, regions, frame)
    parts += [_Part(None, table=table) for table in tables]
    order = reading_order([part.bounds for part in parts], page_width=frame.width, line_height=frame.line_height)
    blocks: list[Block] = []
    loose: list[TextLine] = []
    for part in (parts[index] for index in order):
        if part.region is None and part.table is None:
            loose += part.lines
            continue
        blocks += _text_blocks(loose, frame)
        loose = []
        blocks += _part_blocks(part, frame)
    return [*blocks, *_text_blocks(loose, frame)]


def _parts(lines: Sequence[TextLine], regions: Sequence[Region], frame: Frame) -> list[_Part]:
    """Hand each line to the region that holds most of it; lines in none are parts of their own."""
    whole = sum(len(line.text) for line in lines)
    parts = [_Part(region) for region in regions if region.kind != "table"]
    loose: list[_Part] = []
    margin = _MARGIN * frame.line_height
    reaches = [_grown(region.bounds, margin) for region in regions if region.kind != "table"]
    for line in lines:
        shares = [shared_area(line.bounds, reach) for reach in reaches]
        best = max(range(len(shares)), key=shares.__getitem__, default=-1)
        if best >= 0 and shares[best] >= _INSIDE * area(line.bounds):
            parts[best].lines.append(line)
        else:
            loose.append(_Part(None, [line]))
    kept: list[_Part] = []
    for part in parts:
        if _holds(part, whole, frame):
            kept.append(part)
        else:
            loose += [_Part(None, [line]) for line in part.lines]
    return kept + loose


def _holds(part: _Part, character_count: int, frame: Frame) -> bool:
    """Say whether a region is to be believed with the lines that it holds; else they are text like any other."""
    assert part.region is not None
    match part.kind:
        case "figure":
            # A page that is mostly one "figure" is a page of text to us.
            held = sum(len(line.text) for line in part.lines)
            return not held or (held < _WHOLE_PAGE * character_count and part.region.score >= _SURE_FIGURE)
        case "equation":
            return 0 < len(part.lines) <= _MAX_FORMULA_LINES
        case "title":
            text = joined_text([line.text for line in _ordered(part.lines, frame)])
            return _is_heading(text, part.lines, frame, least_ratio=0.9)
        case "header" | "footer":
            # Running headers are labels. Sentences at a page's edge are text, and text is not thrown away.
            text = joined_text([line.text for line in _ordered(part.lines, frame)])
            return bool(text) and not (_width(text) > _MAX_LABEL_WIDTH and text.endswith(_SENTENCE_ENDS))
        case "text" | "reference":
            # Few lines find their place themselves; a box around them may reach into the next column.
            return len(part.lines) >= _SMALL_REGION_LINES
    return bool(part.lines)


def _grown(bounds: Bounds, margin: float) -> Bounds:
    return bounds[0] - margin, bounds[1] - margin, bounds[2] + margin, bounds[3] + margin


def _part_blocks(part: _Part, frame: Frame) -> list[Block]:
    if part.table is not None:
        return [_table_block(part.table, frame)]
    assert part.region is not None
    kind = _KINDS.get(part.kind)
    lines = _ordered(part.lines, frame)
    text = joined_text([line.text for line in lines])
    if part.kind == "title":
        return [_heading(text, lines, frame)]
    if kind is None:
        return _text_blocks(lines, frame)
    bounds = part.region.bounds if kind is BlockKind.FIGURE else None
    boxes = (_box(bounds, frame),) if bounds is not None else tuple(_box(line.bounds, frame) for line in lines)
    confidence = mean_confidence(lines) if lines else 1.0
    return [Block(kind, text, page=frame.page, boxes=boxes, confidence=round(confidence, 4))]


def _ordered(lines: Sequence[TextLine], frame: Frame) -> list[TextLine]:
    if not lines:
        return []
    order = reading_order([line.bounds for line in lines], page_width=frame.width, line_height=frame.line_height)
    return [lines[index] for index in order]


def _text_blocks(lines: Sequence[TextLine], frame: Frame) -> list[Block]:
    """Join lines in reading order to rows and paragraphs."""
    if not lines:
        return []
    rows = [[lines[index] for index in group] for group in row_groups([line.bounds for line in lines])]
    usual = usual_size(lines)
    written: list[Line] = []
    sources: dict[int, list[TextLine]] = {}
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        text = joined_text([line.text for line in row])
        is_parted = following is not None and joined_text([text, following[0].text]) != f"{text} {following[0].text}"
        hyphenated = is_parted and text.endswith(("-", "\u2010", "\xad"))
        size = usual_size(row)
        size = usual if usual / _SAME_SIZE < size < usual * _SAME_SIZE else size
        box = _box(around([line.bounds for line in row]), frame)
        written.append(Line(text[:-1] if hyphenated else text, box, size, hyphenated=hyphenated))
        sources[id(written[-1])] = row
    return [
        _paragraph_block(paragraph, [line for row in paragraph.lines for line in sources[id(row)]], frame)
        for paragraph in group_lines(written)
    ]


def _paragraph_block(paragraph: Paragraph, lines: Sequence[TextLine], frame: Frame) -> Block:
    text = paragraph.text()
    if _is_heading(text, lines, frame, least_ratio=_HEADING_RATIO) and len(paragraph.lines) <= 3:
        return _heading(text.replace("\n", " "), lines, frame)
    kind = BlockKind.LIST_ITEM if LIST_MARKER.match(text) else BlockKind.PARAGRAPH
    return Block(
        kind,
        text,
        level=1 if kind is BlockKind.LIST_ITEM else 0,
        page=frame.page,
        boxes=paragraph.boxes,
        confidence=round(mean_confidence(lines), 4),
    )


def _is_heading(text: str, lines: Sequence[TextLine], frame: Frame, *, least_ratio: float) -> bool:
    width = _width(text)
    ratio = usual_size(lines) / frame.text_size
    # Capitals of a heading are measured small: they have neither heads nor feet.
    least_ratio = min(least_ratio, _CAPITALS_RATIO) if text.isupper() else least_ratio
    if not lines or ratio < least_ratio or width > _MAX_HEADING_WIDTH:
        return False
    # As high as the text around it, a long line that a comma or a full stop ends is text.
    return ratio >= _HEADING_RATIO or not (text.endswith(_SENTENCE_ENDS) or width > _MAX_HEADING_WIDTH / 2)


def _width(text: str) -> int:
    return len(text) + len(CJK.findall(text))


def _heading(text: str, lines: Sequence[TextLine], frame: Frame) -> Block:
    ratio = usual_size(lines) / frame.text_size
    level = next((index for index, least in enumerate(_LEVEL_RATIOS, 1) if ratio >= least), len(_LEVEL_RATIOS) + 1)
    bounds = [line.bounds for line in lines]
    is_title = (
        frame.page == 1
        and ratio >= _TITLE_RATIO
        and len(text) >= _MIN_TITLE_LETTERS
        and around(bounds)[3] < frame.height / 3
    )
    return Block(
        BlockKind.TITLE if is_title else BlockKind.HEADING,
        text,
        level=0 if is_title else level,
        page=frame.page,
        boxes=tuple(_box(each, frame) for each in bounds),
        confidence=round(mean_confidence(lines), 4),
    )


def _column_blocks(lines: Sequence[TextLine], frame: Frame) -> list[Block]:
    """Join columns of CJK written downwards: one paragraph goes on until a column ends early."""
    if not lines:
        return []
    ordered = [lines[index] for index in columns_order([line.bounds for line in lines], line_height=frame.line_height)]
    bottom = max(line.bounds[3] for line in ordered)
    groups: list[list[TextLine]] = [[]]
    for line in ordered:
        last = groups[-1][-1] if groups[-1] else None
        indented = line.bounds[1] > min(other.bounds[1] for other in ordered) + 0.8 * line.height
        if last is not None and last.bounds[3] < bottom - 1.5 * last.height and indented:
            groups.append([])
        groups[-1].append(line)
    return [
        Block(
            BlockKind.PARAGRAPH,
            joined_text([line.text for line in group]),
            page=frame.page,
            boxes=tuple(_box(line.bounds, frame) for line in group),
            confidence=round(mean_confidence(group), 4),
        )
        for group in groups
    ]


def _table_block(table: ReadTable, frame: Frame) -> Block:
    return Block(
        BlockKind.TABLE,
        table_text(table.table.rows),
        page=frame.page,
        boxes=tuple(_box(bounds, frame) for bounds in table.row_bounds),
        table=table.table,
        confidence=round(table.confidence, 4),
    )


def usual_height(lines: Iterable[TextLine]) -> float:
    """Find the height of most of a page's lines.

    Args:
        lines: Its lines.

    Returns:
        The median height of their rectangles, each weighed by the length of its text, in pixels; 1.0 for none.
    """
    return _median([(line.height, len(line.text)) for line in lines])


def usual_size(lines: Iterable[TextLine]) -> float:
    """Find the font size of most text.

    Args:
        lines: Lines.

    Returns:
        The median size, each line weighed by the length of its text, in pixels; 1.0 for none.
    """
    return _median([(line.size, len(line.text)) for line in lines])


def _median(weighed: list[tuple[float, int]]) -> float:
    half = sum(weight for _, weight in weighed) / 2
    for value, weight in sorted(weighed):
        half -= weight
        if half <= 0:
            return max(value, 1.0)
    return 1.0


def _box(bounds: Bounds, frame: Frame) -> Box:
    return Box(frame.page, *bounds)
