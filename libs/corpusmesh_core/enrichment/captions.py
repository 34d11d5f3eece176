"""Pictures as text: the caption beside one, what it says itself and the heading above it.

Seed `003_67b62910d2d3a085.txt` (captioning): a description stored beside the document's own text makes a picture
findable by words; the prefix `IMAGE_CAPTION:` tells it apart. The chat port carries text alone, so no vision model
writes here; what is said was said by the document or recognised in the picture.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

from corpusmesh_core.documents import Block, BlockKind, Chunk, ChunkRole
from corpusmesh_core.enrichment.lines import one_line
from corpusmesh_core.enrichment.placement import place_blocks, text_chunks
from corpusmesh_core.enrichment.values import IMAGE_CAPTION_PREFIX

_CAPTION_LIKE: Final = re.compile(
    r"^(?i:fig(?:ure)?s?\.?|image|photo|chart|diagram|plate|scheme|图|附图|照片|插图)\s*(?:\d|[一二三四五六七八九十]|[A-Z]\b)"
)
_MAX_PARAGRAPH_CAPTION: Final = 300
_MAX_CHARACTERS: Final = 1500
_SQUEEZE: Final = re.compile(r"\W+")


@dataclass(frozen=True, slots=True)
class _Figure:
    index: int
    block: Block
    text: str
    caption: int


def caption_pictures(blocks: Sequence[Block], chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """Describe the pictures of a document in its chunks.

    A chunk of kind FIGURE gets the description as its text, with its own words in it. A picture without such a chunk
    gets one, behind the chunk that holds what stands before it: among other text its words would not lead to it.

    Args:
        blocks: Blocks of the document.
        chunks: Its chunks of every role; those that people wrote stay as they are.

    Returns:
        Chunks of every role, in the order of roles and positions that came in, positions of role TEXT dense. Token
        counts of described chunks are 0: the caller counts.
    """
    figures = _figures(blocks)
    if not figures:
        return tuple(chunks)
    ordered = text_chunks(chunks)
    showing = {chunk.picture: place for place, chunk in enumerate(ordered) if chunk.picture}
    shown = {
        chunk.picture: place
        for place, chunk in enumerate(ordered)
        if chunk.picture and chunk.block_kind is BlockKind.FIGURE
    }
    places = place_blocks(blocks, ordered)
    described = list(ordered)
    inserted: list[tuple[int, Chunk]] = []
    for figure in figures:
        place = shown.get(figure.block.picture) if figure.block.picture else None
        if place is not None:
            described[place] = _described(ordered[place], figure)
        elif figure.text:
            beside = showing.get(figure.block.picture) if figure.block.picture else None
            after = _after(figure, places, ordered) if beside is None else beside + 1
            inserted.append((after, _own_chunk(figure)))
    # From the end on, so that an insertion moves no place that is still to come.
    inserted.sort(key=itemgetter(0))
    for place, chunk in reversed(inserted):
        described.insert(place, chunk)
    renumbered = [
        chunk if chunk.position == position else replace(chunk, position=position)
        for position, chunk in enumerate(described)
    ]
    others = [chunk for chunk in chunks if chunk.role is not ChunkRole.TEXT]
    return (*renumbered, *others)


def _figures(blocks: Sequence[Block]) -> list[_Figure]:
    found: list[_Figure] = []
    taken: set[int] = set()
    for index, block in enumerate(blocks):
        if block.kind is not BlockKind.FIGURE:
            continue
        caption = _caption_of(blocks, index, taken)
        taken.add(caption)
        own = one_line(block.text)
        said = one_line(blocks[caption].text) if caption >= 0 else ""
        heading = one_line(block.heading_path[-1]) if block.heading_path else ""
        # A heading alone describes no picture.
        parts = _distinct([said, own]) if said or own else []
        parts += [heading] if parts and heading and not _holds(parts, heading) else []
        found.append(_Figure(index, block, " — ".join(parts)[:_MAX_CHARACTERS], caption))
    return found


def _caption_of(blocks: Sequence[Block], index: int, taken: set[int]) -> int:
    """Find the caption beside a figure: a caption block below it, above it, or a paragraph that begins like one."""
    page = blocks[index].page
    for place in (index + 1, index - 1):
        if 0 <= place < len(blocks) and place not in taken and blocks[place].page == page:
            block = blocks[place]
            if block.kind is BlockKind.CAPTION:
                return place
            is_like = _CAPTION_LIKE.match(block.text.strip()) and len(block.text) <= _MAX_PARAGRAPH_CAPTION
            if block.kind is BlockKind.PARAGRAPH and is_like:
                return place
    return -1


def _distinct(parts: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for part in parts:
        if part and not _holds(kept, part):
            kept.append(part)
    return kept


def _holds(parts: Sequence[str], text: str) -> bool:
    squeezed = _SQUEEZE.sub("", text).casefold()
    return any(squeezed in _SQUEEZE.sub("", part).casefold() for part in parts)


def _described(chunk: Chunk, figure: _Figure) -> Chunk:
    if chunk.is_edited or chunk.text.startswith(IMAGE_CAPTION_PREFIX):
        return chunk
    own = chunk.text.strip()
    text = figure.text
    if own and not _holds([text], own):
        text = own if _holds([own], text) else f"{text}\n{own}"
    if not text:
        return chunk
    attributes = {**chunk.attributes, "caption_method": "lite"}
    return replace(chunk, text=f"{IMAGE_CAPTION_PREFIX} {text}", token_count=0, attributes=attributes)


def _own_chunk(figure: _Figure) -> Chunk:
    block = figure.block
    return Chunk(
        position=0,
        text=f"{IMAGE_CAPTION_PREFIX} {figure.text}",
        heading_path=block.heading_path,
        page=block.page,
        boxes=block.boxes,
        token_count=0,
        block_kind=BlockKind.FIGURE,
        picture=block.picture,
        confidence=block.confidence,
        attributes={"caption_method": "lite"},
    )


def _after(figure: _Figure, places: Sequence[range], chunks: Sequence[Chunk]) -> int:
    """Say where a chunk for a picture goes: behind the chunk that holds the nearest block before it.

    Words that stand twice may have led to a chunk of a later page, above all where people changed the right one.
    """
    before = range(figure.index - 1, -1, -1)
    after = next((places[index][-1] + 1 for index in before if places[index]), 0)
    while after > 0 and figure.block.page and chunks[after - 1].page > figure.block.page:
        after -= 1
    return after
