"""DOC: the Word 97-2003 format, read from its own streams; Word 95 as plain text ([MS-DOC])."""

import io
import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import olefile

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source, one_line
from corpusmesh_adapters.parsers.failures import corrupt
from corpusmesh_adapters.parsers.figures import add_figure
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.grids import EdgeCell, grid_from_edges
from corpusmesh_adapters.parsers.ole_properties import summary_of
from corpusmesh_adapters.parsers.word97_streams import (
    ENDNOTE_PLACES,
    ENDNOTE_TEXTS,
    FOOTNOTE_PLACES,
    FOOTNOTE_TEXTS,
    HEADER_TEXTS,
    Properties,
    WordStreams,
    open_word,
)
from corpusmesh_core.documents import BlockKind, ParsedDocument

# Property numbers ([MS-DOC] 2.6).
_STYLE, _OUTLINE, _LIST, _LIST_LEVEL = 0x4600, 0x2640, 0x460B, 0x260A
_IN_TABLE, _ROW_END, _DEPTH, _INNER_CELL, _INNER_ROW_END = 0x2416, 0x2417, 0x6649, 0x244B, 0x244C
_TABLE_DEFINITION, _HEADER_ROW = 0xD608, 0x3404
_HIDDEN = frozenset([0x083C, 0x0800])  # hidden text, text deleted under revision
_PICTURE_LOCATION = 0x6A03
# Numbers of built-in styles.
_TITLE, _CAPTION, _HEADINGS = 62, 34, range(1, 10)
_LISTS = frozenset([47, 48, 49, *range(50, 64)]) - {_TITLE}
_USER_STYLE = 0xFFE
_PARAGRAPH_END = re.compile("[\r\x07\x0c]")
_FIELD_PARTS = re.compile("[\x13\x14\x15]")
_SIGNS = str.maketrans({"\x0b": "\n", "\x0e": "\n", "\x1e": "-", "\x1f": "", "\xa0": " ", "\x07": "", "\0": ""})
_FIRST_MERGED, _MERGED, _CONTINUES, _RESTARTS = 0x01, 0x02, 0x20, 0x40
_CELL_TOLERANCE_TWIPS = 108
_MAX_BASES = 16
_RUNNING_SEPARATORS = 6


@dataclass(slots=True)
class _Paragraph:
    """A paragraph: its text, where its mark stands, what holds for it."""

    text: str
    start: int
    end: int
    mark: str
    style: int
    properties: Properties

    def is_on(self, number: int) -> bool:
        """Say whether a switch is on."""
        return self.properties.get(number, b"\0")[:1] not in (b"\0", b"")

    @property
    def depth(self) -> int:
        """How many tables it lies in."""
        operand = self.properties.get(_DEPTH, b"")
        if len(operand) == 4:
            return min(max(int.from_bytes(operand, "little", signed=True), 0), 100)
        return int(self.is_on(_IN_TABLE))


@dataclass(slots=True)
class _Table:
    """Rows of the outermost table under construction, and the cells of tables inside it."""

    rows: list[tuple[int, list[EdgeCell]]] = field(default_factory=list)
    headers: list[bool] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    inner_cells: list[str] = field(default_factory=list)
    inner_parts: list[str] = field(default_factory=list)


def parse_doc(source: Source) -> ParsedDocument:
    """Read a Word 97-2003 document.

    Args:
        source: The document.

    Returns:
        Headings, paragraphs, list items, tables with spans, notes behind the paragraph that refers to them; text
        boxes, running heads and feet at the end. The format does not say where pages end.

    Raises:
        DocumentError: DOCUMENT_CORRUPT, DOCUMENT_ENCRYPTED, DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    try:
        with olefile.OleFileIO(io.BytesIO(source.content)) as container:
            streams = open_word(container, source.limits)
            metadata = summary_of(container)
    except (OSError, ValueError, IndexError, TypeError, struct.error) as error:
        raise corrupt(f"its Word streams cannot be read ({type(error).__name__})") from error
    builder = DocumentBuilder(Format.DOC, source.limits, keep_pictures=source.options.keep_pictures)
    _Reader(builder, source, streams).read()
    title = metadata.pop("title", "") or builder.first_text(BlockKind.TITLE)
    return builder.build(title=title, metadata=metadata, empty_detail="it has pictures at most")


class _Reader:
    """Turns the text into blocks."""

    def __init__(self, builder: DocumentBuilder, source: Source, streams: WordStreams) -> None:
        self._builder = builder
        self._source = source
        self._streams = streams
        self._hidden = streams.hidden_ranges(_HIDDEN)
        self._table = _Table()

    def read(self) -> None:
        lengths = self._streams.lengths
        notes = sorted(
            [
                *self._notes(FOOTNOTE_PLACES, FOOTNOTE_TEXTS, lengths[0]),
                *self._notes(ENDNOTE_PLACES, ENDNOTE_TEXTS, sum(lengths[:5])),
            ]
        )
        for paragraph in self._paragraphs(0, lengths[0]):
            self._add(paragraph)
            while notes and notes[0][0] <= paragraph.end:
                self._builder.add(BlockKind.NOTE, notes.pop(0)[1])
        self._end_table()
        boxes = sum(lengths[:6])
        for paragraph in self._paragraphs(boxes, boxes + lengths[6]):
            self._builder.add(BlockKind.PARAGRAPH, paragraph.text)
        self._builder.close_headings(1)
        self._add_running_text(sum(lengths[:2]))

    def _paragraphs(self, start: int, end: int) -> Iterator[_Paragraph]:
        text = self._streams.text
        end = min(end, len(text))
        while start < end:
            match = _PARAGRAPH_END.search(text, start, end)
            stop = match.start() if match else end
            mark = match.group() if match else "\r"
            style, properties = self._streams.paragraph(min(stop, len(text) - 1))
            operand = properties.get(_STYLE, b"")
            if len(operand) == 2:
                (style,) = struct.unpack("<H", operand)
            yield _Paragraph(self._shown(start, stop), start, stop, mark, style, properties)
            start = stop + 1

    def _shown(self, start: int, end: int) -> str:
        """Write a stretch of text without hidden parts and the sources of fields."""
        text = self._streams.text
        parts: list[str] = []
        index = max(bisect_right(self._hidden, (start, start)) - 1, 0)
        for first, last in islice(self._hidden, index, None):
            if first >= end:
                break
            if last <= start:
                continue
            parts.append(text[start : max(first, start)])
            start = max(last, start)
        parts.append(text[start:end])
        shown = _without_field_sources("".join(parts)).translate(_SIGNS)
        # Characters beyond the first plane came as two units.
        return shown.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    # Tables

    def _add(self, paragraph: _Paragraph) -> None:
        table, depth = self._table, paragraph.depth
        if not self._streams.styles and not depth:
            # Word 95: without properties, cells are told by their marks.
            depth = int(paragraph.mark == "\x07")
        if not depth:
            self._end_table()
            self._add_paragraph(paragraph)
        elif depth > 1:
            self._add_inner(paragraph)
        elif paragraph.is_on(_ROW_END) or (not self._streams.styles and not paragraph.text and table.cells):
            table.rows.append(_row(table.cells, paragraph.properties.get(_TABLE_DEFINITION, b"")))
            table.headers.append(paragraph.is_on(_HEADER_ROW))
            table.cells = []
        else:
            table.parts.append(paragraph.text)
            if paragraph.mark == "\x07":
                table.cells.append("\n".join(table.parts))
                table.parts.clear()

    def _add_inner(self, paragraph: _Paragraph) -> None:
        """Write a table in a cell as text of the cell, a line per row."""
        table = self._table
        if paragraph.is_on(_INNER_ROW_END):
            table.parts.append("\t".join(table.inner_cells))
            table.inner_cells.clear()
            return
        table.inner_parts.append(paragraph.text)
        if paragraph.is_on(_INNER_CELL):
            table.inner_cells.append("\n".join(table.inner_parts))
            table.inner_parts.clear()

    def _end_table(self) -> None:
        table = self._table
        rest = [*table.cells, *table.parts, *table.inner_cells, *table.inner_parts]
        if any(rest):
            table.rows.append((0, [EdgeCell(text) for text in rest]))
        if table.rows:
            grid = grid_from_edges(table.rows, self._source.limits, tolerance=_CELL_TOLERANCE_TWIPS)
            headers = next((index for index, is_header in enumerate(table.headers) if not is_header), 0)
            self._builder.add_table(grid.rows, spans=grid.spans, header_row_count=headers or None)
        if table.rows or rest:
            self._table = _Table()

    # Paragraphs

    def _add_paragraph(self, paragraph: _Paragraph) -> None:
        kind, level = self._kind(paragraph)
        self._builder.add(kind, paragraph.text, level=level)
        if self._source.options.keep_pictures:
            self._add_pictures(paragraph)

    def _add_pictures(self, paragraph: _Paragraph) -> None:
        text = self._streams.text
        place = text.find("\x01", paragraph.start, paragraph.end)
        while place >= 0:
            add_figure(self._builder, self._streams.picture(place, _PICTURE_LOCATION), self._source.options)
            place = text.find("\x01", place + 1, paragraph.end)

    def _kind(self, paragraph: _Paragraph) -> tuple[BlockKind, int]:
        outline = paragraph.properties.get(_OUTLINE, b"")
        built_in = self._built_in(paragraph.style)
        if built_in == _TITLE:
            return BlockKind.TITLE, 0
        if built_in == _CAPTION:
            return BlockKind.CAPTION, 0
        if built_in in _HEADINGS:
            return BlockKind.HEADING, built_in
        if outline and outline[0] < 9:
            return BlockKind.HEADING, outline[0] + 1
        listed = paragraph.properties.get(_LIST, b"\0\0")
        if listed not in (b"\0\0", b"\x01\xf8") or (_LIST not in paragraph.properties and built_in in _LISTS):
            return BlockKind.LIST_ITEM, min(paragraph.properties.get(_LIST_LEVEL, b"\0")[0], 8) + 1
        return BlockKind.PARAGRAPH, 0

    def _built_in(self, style: int) -> int:
        """Follow a style to the built-in one that it is based on."""
        for _ in range(_MAX_BASES):
            found = self._streams.styles.get(style)
            if found is None:
                return 0
            if found.built_in != _USER_STYLE:
                return found.built_in
            style = found.based_on
        return 0

    # Notes and running heads

    def _notes(self, places_index: int, texts_index: int, base: int) -> Iterator[tuple[int, str]]:
        places, texts = self._streams.places(places_index, 2), self._streams.places(texts_index, 0)
        for index, place in enumerate(places[:-1]):
            if index + 1 < len(texts):
                text = self._shown(base + texts[index], base + texts[index + 1])
                yield place, text.replace("\x02", "").replace("\r", "\n").strip()

    def _add_running_text(self, base: int) -> None:
        bounds = self._streams.places(HEADER_TEXTS, 0)
        found: dict[tuple[BlockKind, str], None] = {}
        for index in range(_RUNNING_SEPARATORS, len(bounds) - 2):
            # Six stories a section: even and odd head, even and odd foot, first head, first foot.
            kind = BlockKind.FOOTER if index % 6 in (2, 3, 5) else BlockKind.HEADER
            text = one_line(self._shown(base + bounds[index], base + bounds[index + 1]))
            if text and not text.isdecimal():
                found[kind, text] = None
        for kind, text in found:
            self._builder.add(kind, text)


def _row(cells: list[str], definition: bytes) -> tuple[int, list[EdgeCell]]:
    count = definition[2] if len(definition) > 2 else 0
    if count < len(cells) or len(definition) < 3 + 2 * (count + 1):
        return 0, [EdgeCell(text) for text in cells]
    edges = struct.unpack_from(f"<{count + 1}h", definition, 3)
    descriptors = definition[3 + 2 * (count + 1) :]
    placed: list[EdgeCell] = []
    for index, text in enumerate(cells):
        flags = struct.unpack_from("<H", descriptors, 20 * index)[0] if len(descriptors) >= 20 * index + 2 else 0
        continues = bool(flags & _CONTINUES) and not flags & _RESTARTS
        placed.append(EdgeCell(text, edges[index + 1], continues, bool(flags & _MERGED and not flags & _FIRST_MERGED)))
    return edges[0], placed


def _without_field_sources(text: str) -> str:
    if "\x13" not in text and "\x15" not in text:
        return text
    parts: list[str] = []
    in_source: list[bool] = []
    position = 0
    for match in _FIELD_PARTS.finditer(text):
        if not any(in_source):
            parts.append(text[position : match.start()])
        position = match.end()
        sign = match.group()
        if sign == "\x13":
            in_source.append(True)
        elif sign == "\x14" and in_source:
            in_source[-1] = False
        elif sign == "\x15" and in_source:
            in_source.pop()
    if not any(in_source):
        parts.append(text[position:])
    return "".join(parts)
