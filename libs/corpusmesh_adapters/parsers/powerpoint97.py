"""PPT: the text of a PowerPoint 97-2003 presentation, slide by slide ([MS-PPT])."""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import olefile

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source
from corpusmesh_adapters.parsers.failures import corrupt, encrypted, over_limit
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_core.documents import BlockKind, ParsedDocument

# Types of records ([MS-PPT] 2.13.24).
_SLIDE_LIST, _SLIDE_PLACE, _NOTES_PLACE = 4080, 1011, 1009
_TEXT_KIND, _WIDE_TEXT, _BYTE_TEXT = 3999, 4000, 4008
_TEXT_BOX, _USER_EDIT, _PLACES = 0xF00D, 4085, 6002
_SLIDES, _NOTES = 0, 2
_ENCRYPTED_TOKEN = 0xF3D1C4DF
_TITLES, _BODIES, _NOTE = frozenset([0, 6]), frozenset([1, 5, 7, 8]), 2
_HEADER_BYTES = 8
_MAX_EDITS = 1_000
_MAX_DEPTH = 40


@dataclass(frozen=True, slots=True)
class _Record:
    """A record: what it is, which of its kind, where its body lies."""

    kind: int
    instance: int
    is_container: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Text:
    """A text and what its place holder is for."""

    kind: int
    text: str


@dataclass(slots=True)
class _Slide:
    """A slide in a list: where it lies, its number in the file, and its texts in the outline."""

    place: int
    number: int
    texts: list[_Text]


def parse_ppt(source: Source) -> ParsedDocument:
    """Read a PowerPoint 97-2003 presentation.

    Args:
        source: The document.

    Returns:
        Per slide its title as a heading, its other texts, its notes; a slide is a page. Tables are read as texts.

    Raises:
        DocumentError: DOCUMENT_CORRUPT, DOCUMENT_ENCRYPTED, DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    try:
        with olefile.OleFileIO(io.BytesIO(source.content)) as container:
            stream = container.openstream("PowerPoint Document").read()
            user = container.openstream("Current User").read()
        slides, notes = _slides(stream, user)
        if len(slides) > source.limits.max_pages:
            raise over_limit("max_pages", source.limits.max_pages, f"it has {len(slides)} slides")
        builder = DocumentBuilder(Format.PPT, source.limits)
        for page, slide in enumerate(slides, 1):
            builder.close_headings(1)
            _add_texts(builder, [*slide.texts, *_texts_at(stream, slide.place)], page)
            for place in notes.get(slide.number, ()):
                for text in _texts_at(stream, place):
                    if text.kind == _NOTE:
                        builder.add(BlockKind.NOTE, _lines(text.text), page=page)
    except (OSError, ValueError, IndexError, TypeError, KeyError, struct.error) as error:
        raise corrupt(f"its records cannot be read ({type(error).__name__})") from error
    return builder.build(
        title=builder.first_text(BlockKind.HEADING),
        page_count=len(slides),
        empty_detail=f"its {len(slides)} slides hold pictures at most",
    )


def _slides(stream: bytes, user: bytes) -> tuple[list[_Slide], dict[int, list[int]]]:
    """Find the slides in their order, and where the notes of each lie."""
    if len(user) < 20:
        raise corrupt("it does not say where its last edit lies")
    token, edit = struct.unpack_from("<II", user, 12)
    if token == _ENCRYPTED_TOKEN:
        raise encrypted("a PowerPoint password", password_helps=False)
    places, document = _places(stream, edit)
    slides: list[_Slide] = []
    notes: dict[int, list[int]] = {}
    for record in _children(stream, places[document]):
        if record.kind == _SLIDE_LIST and record.instance == _SLIDES:
            slides += _listed(stream, record, places)
        elif record.kind == _SLIDE_LIST and record.instance == _NOTES:
            for each in _listed(stream, record, places):
                notes.setdefault(_slide_of_notes(stream, each.place), []).append(each.place)
    return slides, notes


def _places(stream: bytes, edit: int) -> tuple[dict[int, int], int]:
    """Follow the edits from the last to the first; the last place of an object holds."""
    places: dict[int, int] = {}
    document = -1
    for _ in range(_MAX_EDITS):
        record = _record(stream, edit)
        if record is None or record.kind != _USER_EDIT:
            break
        earlier, table, number = struct.unpack_from("<III", stream, record.start + 8)
        document = number if document < 0 else document
        for key, place in _table(stream, table):
            places.setdefault(key, place)
        if not earlier or earlier >= edit:
            break
        edit = earlier
    return places, document


def _table(stream: bytes, at: int) -> Iterator[tuple[int, int]]:
    record = _record(stream, at)
    if record is None or record.kind != _PLACES:
        return
    position = record.start
    while position + 4 <= record.end:
        (head,) = struct.unpack_from("<I", stream, position)
        first, count = head & 0xFFFFF, head >> 20
        position += 4
        for index in range(min(count, (record.end - position) // 4)):
            yield first + index, struct.unpack_from("<I", stream, position + 4 * index)[0]
        position += 4 * count


def _listed(stream: bytes, slide_list: _Record, places: dict[int, int]) -> list[_Slide]:
    found: list[_Slide] = []
    kind = -1
    for record in _records(stream, slide_list.start, slide_list.end):
        if record.kind == _SLIDE_PLACE:
            reference, number = struct.unpack_from("<I8xI", stream, record.start)
            found.append(_Slide(places.get(reference, -1), number, []))
        elif record.kind == _TEXT_KIND:
            (kind,) = struct.unpack_from("<I", stream, record.start)
        elif found and record.kind in (_WIDE_TEXT, _BYTE_TEXT):
            found[-1].texts.append(_Text(kind, _decoded(stream, record)))
    return found


def _slide_of_notes(stream: bytes, place: int) -> int:
    for record in _children(stream, place):
        if record.kind == _NOTES_PLACE:
            return int(struct.unpack_from("<I", stream, record.start)[0])
    return -1


def _texts_at(stream: bytes, place: int) -> Iterator[_Text]:
    """List the texts that stand in the shapes of a slide, not in its outline."""
    record = _record(stream, place)
    if record is not None:
        yield from _box_texts(stream, record, 0)


def _box_texts(stream: bytes, container: _Record, depth: int) -> Iterator[_Text]:
    if depth > _MAX_DEPTH:
        return
    kind = -1
    for record in _records(stream, container.start, container.end):
        if container.kind == _TEXT_BOX and record.kind == _TEXT_KIND:
            (kind,) = struct.unpack_from("<I", stream, record.start)
        elif container.kind == _TEXT_BOX and record.kind in (_WIDE_TEXT, _BYTE_TEXT):
            yield _Text(kind, _decoded(stream, record))
        elif record.is_container or record.kind == _TEXT_BOX:
            yield from _box_texts(stream, record, depth + 1)


def _add_texts(builder: DocumentBuilder, texts: list[_Text], page: int) -> None:
    for each in sorted(texts, key=lambda text: text.kind not in _TITLES):
        if each.kind in _TITLES:
            builder.add(BlockKind.HEADING, _lines(each.text), level=1, page=page)
            continue
        for paragraph in each.text.split("\r"):
            if each.kind in _BODIES:
                builder.add(BlockKind.LIST_ITEM, paragraph.replace("\x0b", "\n"), level=1, page=page)
            else:
                builder.add(BlockKind.PARAGRAPH, paragraph.replace("\x0b", "\n"), page=page)


def _lines(text: str) -> str:
    return text.replace("\x0b", "\n").replace("\r", "\n")


def _decoded(stream: bytes, record: _Record) -> str:
    body = stream[record.start : record.end]
    return body.decode("utf-16-le" if record.kind == _WIDE_TEXT else "latin-1", "replace")


def _children(stream: bytes, place: int) -> Iterator[_Record]:
    record = _record(stream, place)
    if record is not None:
        yield from _records(stream, record.start, record.end)


def _records(stream: bytes, start: int, end: int) -> Iterator[_Record]:
    while start + _HEADER_BYTES <= end:
        record = _record(stream, start)
        if record is None:
            return
        yield record
        start = record.end


def _record(stream: bytes, place: int) -> _Record | None:
    if place < 0 or place + _HEADER_BYTES > len(stream):
        return None
    head: tuple[Any, ...] = struct.unpack_from("<HHI", stream, place)
    start = place + _HEADER_BYTES
    return _Record(head[1], head[0] >> 4, head[0] & 0xF == 0xF, start, min(start + head[2], len(stream)))
