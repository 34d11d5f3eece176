"""Which chunks hold which blocks: entries of a table of contents, pages, sections and pictures lead to chunks by it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from corpusmesh_core.documents import Block, BlockKind, Chunk, ChunkRole

_BLANKS: Final = re.compile(r"[\s|#*_`>\-]+")
_PROBE_CHARACTERS: Final = (40, 20, 10)
_LOOK_AHEAD: Final = 12
"""Chunks that are looked through for a block beyond the one that holds the block before it."""
_RUNNING_HEADS: Final = frozenset({BlockKind.HEADER, BlockKind.FOOTER})


def text_chunks(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Take the chunks of role TEXT.

    Args:
        chunks: Chunks of every role.

    Returns:
        Those of role TEXT by position.
    """
    return sorted((chunk for chunk in chunks if chunk.role is ChunkRole.TEXT), key=lambda chunk: chunk.position)


def pages_of(chunk: Chunk) -> frozenset[int]:
    """Name the pages that a chunk stands on.

    Args:
        chunk: A chunk.

    Returns:
        Pages from 1; empty where the format has none.
    """
    return frozenset({chunk.page, *(box.page for box in chunk.boxes)} - {0})


def place_blocks(blocks: Sequence[Block], chunks: Sequence[Chunk]) -> list[range]:
    """Find the chunks that hold each block, by its first and last words, in reading order.

    Chunk templates repeat, join, cut and decorate text, so white space and marks of Markdown do not count, and a block
    that is not found between its neighbours is not looked for elsewhere.

    Args:
        blocks: Blocks of the document.
        chunks: Its chunks of role TEXT by position.

    Returns:
        For each block the places in `chunks` that hold it, empty where it was not found.
    """
    texts = [_squeezed(chunk.text) for chunk in chunks]
    found: list[range] = []
    current, offset = 0, 0
    for block in blocks:
        text = "" if block.kind in _RUNNING_HEADS else _squeezed(block.text)
        place = _find(texts, _beginnings(text), current, offset) if text else None
        if place is None:
            found.append(range(0))
            continue
        first, at = place
        end = _find(texts, _ends(text), first, at) or place
        current, offset = end
        found.append(range(first, end[0] + 1))
    return found


def _squeezed(text: str) -> str:
    return _BLANKS.sub("", text).casefold()


def _find(texts: Sequence[str], probes: Iterable[str], current: int, offset: int) -> tuple[int, int] | None:
    for probe in probes:
        for place in range(current, min(current + _LOOK_AHEAD, len(texts))):
            at = texts[place].find(probe, offset if place == current else 0)
            if at >= 0:
                return place, at
    return None


def _beginnings(text: str) -> Iterator[str]:
    """Give shorter and shorter beginnings: the end of a chunk may have cut the longer ones."""
    for length in _PROBE_CHARACTERS:
        yield text[:length]
        if len(text) <= length:
            return


def _ends(text: str) -> Iterator[str]:
    for length in _PROBE_CHARACTERS:
        yield text[-length:]
        if len(text) <= length:
            return
