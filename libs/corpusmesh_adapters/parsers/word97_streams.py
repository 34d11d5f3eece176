"""Reads the streams of a Word 97-2003 file: header, pieces of text, properties, styles ([MS-DOC] 2.5 to 2.9)."""

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from olefile import OleFileIO

from corpusmesh_adapters.parsers.failures import corrupt, encrypted, over_limit
from corpusmesh_core.ports.parsing import ParseLimits

_WORD_MARK = 0xA5EC
_FIRST_WORD_97 = 0xC0
_ENCRYPTED, _SECOND_TABLE = 0x0100, 0x0200
_PAGE_BYTES = 512
_COMPRESSED = 0x4000_0000
_MAX_NUMBER_OF_STYLES = 10_000
# Places in the header's table of offsets ([MS-DOC] 2.5.6).
STYLES, FOOTNOTE_PLACES, FOOTNOTE_TEXTS, HEADER_TEXTS = 1, 2, 3, 11
_CHARACTER_PAGES, _PARAGRAPH_PAGES, _PIECES = 12, 13, 33
ENDNOTE_PLACES, ENDNOTE_TEXTS = 46, 47
_OFFSETS_AT, _LENGTHS_AT = 0x9A, 0x4C
_OPERAND_BYTES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 2, 5: 2, 7: 3}
_TABLE_DEFINITION, _CHANGE_TABS = 0xD608, 0xC615
_HUGE_PROPERTIES, _TABLE_PROPERTIES = 0x6646, 0x646B

Properties = dict[int, bytes]
"""Operands by the number of their property ("sprm")."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Properties of a stretch of the file: bytes from `start` to before `end`."""

    start: int
    end: int
    style: int
    properties: Properties


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of text: characters from `first`, stored from byte `offset` on, one or two bytes each."""

    first: int
    offset: int
    width: int


@dataclass(frozen=True, slots=True)
class WordStyle:
    """A style: its built-in number, the style it is based on, and its name."""

    built_in: int
    based_on: int
    name: str


@dataclass(slots=True)
class WordStreams:
    """The opened file.

    Attributes:
        text: All text, a character per UTF-16 unit, so that places in it are the file's own.
        lengths: Lengths of body, footnotes, running heads, macros, comments, endnotes, text boxes, boxes in heads.
        styles: Styles by number.
    """

    text: str
    lengths: tuple[int, ...]
    styles: dict[int, WordStyle] = field(default_factory=dict)
    _table: bytes = b""
    _data: bytes = b""
    _header: bytes = b""
    _pieces: list[_Piece] = field(default_factory=list)
    _paragraphs: list[_Run] = field(default_factory=list)
    _characters: list[_Run] = field(default_factory=list)

    def paragraph(self, place: int) -> tuple[int, Properties]:
        """Look up what holds for a paragraph.

        Args:
            place: Place of its end mark in `text`.

        Returns:
            Its style's number and its own properties.
        """
        run = _find(self._paragraphs, self._offset(place))
        return (run.style, run.properties) if run is not None else (0, {})

    def character(self, place: int) -> Properties:
        """Look up what holds for a character.

        Args:
            place: Its place in `text`.

        Returns:
            Its properties.
        """
        run = _find(self._characters, self._offset(place))
        return run.properties if run is not None else {}

    def hidden_ranges(self, is_hidden: "frozenset[int]") -> list[tuple[int, int]]:
        """List stretches of the text with a property that is on.

        Args:
            is_hidden: Numbers of the properties.

        Returns:
            First place and place after the last, ascending.
        """
        ranges: list[tuple[int, int]] = []
        runs = [
            run for run in self._characters if any(run.properties.get(each, b"\0")[:1] == b"\1" for each in is_hidden)
        ]
        for index, piece in enumerate(self._pieces):
            last = self._pieces[index + 1].first if index + 1 < len(self._pieces) else len(self.text)
            stop = piece.offset + (last - piece.first) * piece.width
            for run in runs:
                start, end = max(run.start, piece.offset), min(run.end, stop)
                if start < end:
                    first = piece.first + (start - piece.offset) // piece.width
                    ranges.append((first, first + (end - start) // piece.width))
        return sorted(ranges)

    def places(self, index: int, entry_bytes: int) -> list[int]:
        """Read a list of places ("PLC").

        Args:
            index: Its number in the header's table of offsets.
            entry_bytes: Length of what belongs to each place.

        Returns:
            The places, one more than there are entries.
        """
        block = _block(self._header, self._table, index)
        count = (len(block) - 4) // (4 + entry_bytes) + 1 if len(block) >= 4 else 0
        return list(struct.unpack_from(f"<{count}I", block)) if count else []

    def picture(self, place: int, location: int) -> bytes:
        """Find an inline picture.

        Args:
            place: Place of its character.
            location: Number of the property that says where it lies.

        Returns:
            The picture with what follows it; b"" where there is none that can be shown.
        """
        where = self.character(place).get(location, b"")
        if len(where) != 4:
            return b""
        (offset,) = struct.unpack("<I", where)
        if offset + 4 > len(self._data):
            return b""
        (length,) = struct.unpack_from("<I", self._data, offset)
        block = self._data[offset : offset + length]
        found = [at for at in (block.find(b"\x89PNG\r\n\x1a\n"), block.find(b"\xff\xd8\xff")) if at >= 0]
        return block[min(found) :] if found else b""

    def _offset(self, place: int) -> int:
        index = bisect_right(self._pieces, place, key=lambda piece: piece.first) - 1
        if index < 0:
            return -1
        piece = self._pieces[index]
        return piece.offset + (place - piece.first) * piece.width


def open_word(container: "OleFileIO[Any]", limits: ParseLimits) -> WordStreams:
    """Read the streams of a Word file.

    Args:
        container: The open OLE container.
        limits: How much text is allowed.

    Returns:
        Its text and properties.

    Raises:
        DocumentError: DOCUMENT_CORRUPT, DOCUMENT_ENCRYPTED or DOCUMENT_RESOURCE_LIMIT.
    """
    main = container.openstream("WordDocument").read()
    if len(main) < _OFFSETS_AT or struct.unpack_from("<H", main)[0] != _WORD_MARK:
        raise corrupt("its Word header is missing")
    version, flags = struct.unpack_from("<H", main, 2)[0], struct.unpack_from("<H", main, 10)[0]
    if flags & _ENCRYPTED:
        raise encrypted("a Word password", password_helps=False)
    if version < _FIRST_WORD_97:
        return _word_95(main)
    name = "1Table" if flags & _SECOND_TABLE else "0Table"
    if not container.exists(name):
        raise corrupt("its table stream is missing")
    table = container.openstream(name).read()
    data = container.openstream("Data").read() if container.exists("Data") else b""
    pieces, text = _text(main, _block(main, table, _PIECES), limits)
    lengths = struct.unpack_from("<8i", main, _LENGTHS_AT)
    return WordStreams(
        text=text,
        lengths=tuple(max(length, 0) for length in lengths),
        styles=_styles(_block(main, table, STYLES)),
        _table=table,
        _data=data,
        _header=main,
        _pieces=pieces,
        _paragraphs=list(_runs(main, _block(main, table, _PARAGRAPH_PAGES), data, entry_bytes=13)),
        _characters=list(_runs(main, _block(main, table, _CHARACTER_PAGES), data, entry_bytes=1)),
    )


def _word_95(main: bytes) -> WordStreams:
    """Read the plain text of the format before Word 97: one byte a character, in one stretch."""
    first, last = struct.unpack_from("<II", main, 0x18)
    text = main[first:last].decode("cp1252", "replace")
    return WordStreams(text, (len(text), *([0] * 7)))


def _block(header: bytes, table: bytes, index: int) -> bytes:
    at = _OFFSETS_AT + 8 * index
    if at + 8 > len(header):
        return b""
    offset, length = struct.unpack_from("<II", header, at)
    return table[offset : offset + length]


def _text(main: bytes, block: bytes, limits: ParseLimits) -> tuple[list[_Piece], str]:
    position = 0
    while position + 5 <= len(block) and block[position] == 1:
        position += 3 + struct.unpack_from("<H", block, position + 1)[0]
    if position + 5 > len(block) or block[position] != 2:
        raise corrupt("its table of pieces is missing")
    (length,) = struct.unpack_from("<I", block, position + 1)
    plc = block[position + 5 : position + 5 + length]
    count = (len(plc) - 4) // 12
    if count < 1:
        raise corrupt("its table of pieces is empty")
    firsts = struct.unpack_from(f"<{count + 1}I", plc)
    pieces: list[_Piece] = []
    parts: list[str] = []
    for index in range(count):
        characters = firsts[index + 1] - firsts[index]
        if characters < 0 or firsts[index + 1] > limits.max_text_characters * 2:
            raise over_limit("max_text_characters", limits.max_text_characters, "its pieces are longer")
        (offset,) = struct.unpack_from("<I", plc, 4 * (count + 1) + 8 * index + 2)
        if offset & _COMPRESSED:
            start = (offset & ~_COMPRESSED) // 2
            text = main[start : start + characters].decode("cp1252", "replace")
            pieces.append(_Piece(firsts[index], start, 1))
        else:
            start = offset
            units = main[start : start + 2 * characters]
            text = "".join(map(chr, struct.unpack(f"<{len(units) // 2}H", units[: len(units) // 2 * 2])))
            pieces.append(_Piece(firsts[index], start, 2))
        # A piece that the end of the file cuts off keeps its length: places in the text are counted through it.
        parts.append(text + "\0" * min(characters - len(text), limits.max_text_characters))
    return pieces, "".join(parts)


def _runs(main: bytes, plc: bytes, data: bytes, *, entry_bytes: int) -> Iterator[_Run]:
    """Read the pages of properties, of paragraphs (13 bytes an entry) or of characters (1 byte)."""
    count = (len(plc) - 4) // 8
    if count < 1:
        return
    for (number,) in struct.iter_unpack("<I", plc[4 * (count + 1) : 4 * (count + 1) + 4 * count]):
        page = main[(number & 0x3FFFFF) * _PAGE_BYTES :][:_PAGE_BYTES]
        if len(page) < _PAGE_BYTES:
            continue
        runs = page[-1]
        if 4 * (runs + 1) + runs * entry_bytes > _PAGE_BYTES:
            continue
        bounds = struct.unpack_from(f"<{runs + 1}I", page)
        for index in range(runs):
            at = page[4 * (runs + 1) + index * entry_bytes] * 2
            is_paragraph = entry_bytes > 1
            style, properties = _entry(page, at, data, is_paragraph=is_paragraph) if at else (0, {})
            yield _Run(bounds[index], bounds[index + 1], style, properties)


def _entry(page: bytes, at: int, data: bytes, *, is_paragraph: bool) -> tuple[int, Properties]:
    length = page[at]
    start = at + 1
    if is_paragraph:
        length = 2 * length - 1 if length else 2 * page[min(at + 1, _PAGE_BYTES - 1)]
        start = at + 1 if page[at] else at + 2
    body = page[start : start + length]
    if not is_paragraph:
        return 0, read_properties(body)
    if len(body) < 2:
        return 0, {}
    properties = read_properties(body[2:])
    for elsewhere in (_HUGE_PROPERTIES, _TABLE_PROPERTIES):
        operand = properties.get(elsewhere, b"")
        if len(operand) == 4:
            (offset,) = struct.unpack("<I", operand)
            if offset + 2 <= len(data):
                (size,) = struct.unpack_from("<H", data, offset)
                properties |= read_properties(data[offset + 2 : offset + 2 + size])
    return struct.unpack_from("<H", body)[0], properties


def read_properties(body: bytes) -> Properties:
    """Read a list of properties ("grpprl").

    Args:
        body: Numbers and operands, one after the other.

    Returns:
        Operands by number; the last one holds.
    """
    found: Properties = {}
    position = 0
    while position + 3 <= len(body):
        (number,) = struct.unpack_from("<H", body, position)
        position += 2
        length = _OPERAND_BYTES.get(number >> 13)
        if length is None:
            if number == _TABLE_DEFINITION and position + 2 <= len(body):
                length = struct.unpack_from("<H", body, position)[0] + 1
            elif number == _CHANGE_TABS and body[position] == 255:
                return found
            else:
                length = body[position] + 1
        found[number] = body[position : position + length]
        position += length
    return found


def _styles(block: bytes) -> dict[int, WordStyle]:
    if len(block) < 6:
        return {}
    header_length, count, base_length = struct.unpack_from("<HHH", block)
    position = 2 + header_length
    styles: dict[int, WordStyle] = {}
    for number in range(min(count, _MAX_NUMBER_OF_STYLES)):
        if position + 2 > len(block):
            break
        (length,) = struct.unpack_from("<H", block, position)
        entry = block[position + 2 : position + 2 + length]
        if len(entry) >= base_length + 2 and base_length >= 4:
            built_in, kind = struct.unpack_from("<HH", entry)
            (characters,) = struct.unpack_from("<H", entry, base_length)
            name = entry[base_length + 2 : base_length + 2 + 2 * characters].decode("utf-16-le", "replace")
            styles[number] = WordStyle(built_in & 0x0FFF, kind >> 4, name)
        position += 2 + length + length % 2
    return styles


def _find(runs: list[_Run], offset: int) -> _Run | None:
    index = bisect_right(runs, offset, key=lambda run: run.start) - 1
    if index < 0:
        return None
    run = runs[index]
    return run if run.start <= offset < run.end else None
