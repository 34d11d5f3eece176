"""The table of contents: entries that lead to chunks.

From the document's own bookmarks, else from its headings; a language model is asked only where there are neither. An
entry owns the chunks up to the next entry, as in RAGFlow (seed `002_f3c6776130bf4d1f.txt` section 5.3,
`research/parsing.md` section 5); which entries lie below which says the level.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from corpusmesh_core.documents import BlockKind, Chunk, ParsedDocument
from corpusmesh_core.enrichment.lines import one_line
from corpusmesh_core.enrichment.placement import pages_of, place_blocks
from corpusmesh_core.ports.embedding import TextTokenizer

MAX_TITLE_TOKENS: Final = 22
"""A longer line is a sentence, not a title."""
MAX_ENTRIES: Final = 2000
"""Most entries of one document; the deepest are left out first."""
_MAX_TITLE_CHARACTERS: Final = 300
_ROMAN: Final = r"x{0,3}(?:ix|iv|v?i{0,3})"
_NUMERIC: Final = re.compile(rf"[\W\d_]*|[\W_]*(?:{_ROMAN}|{_ROMAN.upper()})[\W_]*")
# A run is tried from its beginning alone and never given back: time is linear in a title of any length.
_LEADERS: Final = re.compile(r"(?<![.·…_\s])(?:\s*+[.·…_]){3,}+\s*+\d*+\s*+$")
_SQUEEZE: Final = re.compile(r"[\W_]+")
_HEADINGS: Final = frozenset({BlockKind.TITLE, BlockKind.HEADING})


@dataclass(frozen=True, slots=True)
class TocEntry:
    """One entry.

    Attributes:
        title: Its text on one line.
        level: Depth from 1; no entry is more than one deeper than the one before it.
        start: Place of its first chunk among the chunks of role TEXT.
        page: Page from 1; 0 where unknown.
        path: Titles of the entries above it, outermost first.
        chunks: Positions of its chunks; filled in by `own_chunks`.
    """

    title: str
    level: int
    start: int
    page: int = 0
    path: tuple[str, ...] = ()
    chunks: tuple[int, ...] = ()


def has_structure(document: ParsedDocument) -> bool:
    """Say whether a document has bookmarks or headings, so that no model need be asked.

    Args:
        document: A parsed document.

    Returns:
        True if it has bookmarks or a heading.
    """
    return bool(document.outline) or any(block.kind is BlockKind.HEADING for block in document.blocks)


def read_toc(document: ParsedDocument, chunks: Sequence[Chunk], counter: TextTokenizer) -> list[TocEntry]:
    """Read the table of contents that a document brings along.

    Args:
        document: The parsed document.
        chunks: Its chunks of role TEXT by position.
        counter: Counts tokens.

    Returns:
        Entries in reading order; empty where the document has neither bookmarks nor headings.
    """
    if not chunks:
        return []
    entries = _from_outline(document, chunks) or _from_headings(document, chunks, counter)
    return finish_entries(entries, chunks)


def finish_entries(entries: Sequence[TocEntry], chunks: Sequence[Chunk]) -> list[TocEntry]:
    """Clean entries up: no numeric titles, no jumps of level, not too many; then give each its path and chunks.

    Args:
        entries: Entries in order.
        chunks: Chunks of role TEXT by position.

    Returns:
        Entries in reading order.
    """
    kept = [replace(entry, title=clean_title(entry.title)) for entry in entries]
    kept = [entry for entry in kept if is_title(entry.title)]
    if len(kept) > MAX_ENTRIES:
        shallow = sorted(range(len(kept)), key=lambda index: (kept[index].level, index))[:MAX_ENTRIES]
        kept = [kept[index] for index in sorted(shallow)]
    leveled: list[TocEntry] = []
    path: list[tuple[int, str]] = []
    start = 0
    for entry in kept:
        while path and path[-1][0] >= entry.level:
            path.pop()
        start = max(start, entry.start)
        leveled.append(replace(entry, level=len(path) + 1, start=start, path=tuple(title for _, title in path)))
        path.append((entry.level, entry.title))
    return [replace(entry, chunks=_owned(leveled, index, chunks)) for index, entry in enumerate(leveled)]


def clean_title(title: str) -> str:
    """Write a title on one line, without the dots and the page number that lead to it in a printed contents page.

    Args:
        title: Any title.

    Returns:
        At most 300 characters.
    """
    return _LEADERS.sub("", one_line(title)).strip()[:_MAX_TITLE_CHARACTERS]


def is_title(title: str) -> bool:
    """Say whether a title says something: not "", "3.2" or "iv".

    Args:
        title: A cleaned title.

    Returns:
        True if it has more than numbers and marks.
    """
    return _NUMERIC.fullmatch(title) is None


def _owned(entries: Sequence[TocEntry], index: int, chunks: Sequence[Chunk]) -> tuple[int, ...]:
    start = entries[index].start
    end = entries[index + 1].start if index + 1 < len(entries) else len(chunks)
    # Two titles in one chunk own it both; and a section that ends where the next begins in mid-chunk owns that too, but
    # only the chunker knows, and it starts a chunk at a heading where it can.
    return tuple(chunk.position for chunk in chunks[start : max(end, start + 1)])


def _from_headings(document: ParsedDocument, chunks: Sequence[Chunk], counter: TextTokenizer) -> list[TocEntry]:
    places = place_blocks(document.blocks, chunks)
    heads = [index for index, block in enumerate(document.blocks) if block.kind in _HEADINGS and block.text.strip()]
    titles = [one_line(document.blocks[index].text) for index in heads]
    entries: list[TocEntry] = []
    last = 0
    for index, title, size in zip(heads, titles, counter.count_tokens(titles), strict=True):
        block = document.blocks[index]
        if places[index]:
            last = places[index][0]
        if size <= MAX_TITLE_TOKENS:
            entries.append(TocEntry(title, max(1, len(block.heading_path) + 1), last, block.page))
    return entries


def _from_outline(document: ParsedDocument, chunks: Sequence[Chunk]) -> list[TocEntry]:
    """Find the chunk of each bookmark: the one that holds its heading, else the first that reaches its page."""
    places = place_blocks(document.blocks, chunks)
    by_title: dict[str, list[int]] = {}
    for index, block in enumerate(document.blocks):
        if block.kind in _HEADINGS and places[index]:
            by_title.setdefault(_squeezed(block.text), []).append(index)
    entries: list[TocEntry] = []
    last = 0
    for entry in document.outline:
        same = [
            places[index][0]
            for index in by_title.get(_squeezed(entry.title), ())
            if not entry.page or not document.blocks[index].page or document.blocks[index].page == entry.page
        ]
        start = next((place for place in same if place >= last), None)
        if start is None:
            start = _first_on_page(chunks, entry.page, last)
        last = start
        entries.append(TocEntry(entry.title, max(1, entry.level), start, entry.page))
    return entries


def _first_on_page(chunks: Sequence[Chunk], page: int, last: int) -> int:
    for place in range(last, len(chunks)):
        if page and any(own >= page for own in pages_of(chunks[place])):
            return place
    return last


def _squeezed(text: str) -> str:
    return _SQUEEZE.sub("", text).casefold()
