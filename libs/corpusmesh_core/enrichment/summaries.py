"""Summaries of pages and sections: which there are, and how to make one without a model.

A summary is the coarse level of a hierarchical index: it is found first, and its chunks are read
(seed `003_67b62910d2d3a085.txt`, hierarchical indices; page numbers join the levels).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.documents import Block, BlockKind, Box, Chunk
from corpusmesh_core.enrichment.headings import is_list_heading
from corpusmesh_core.enrichment.placement import pages_of, place_blocks
from corpusmesh_core.enrichment.settings import SummaryScope
from corpusmesh_core.enrichment.statements import centrality, is_chinese, pick_central, statements_of
from corpusmesh_core.ports.embedding import TextTokenizer

_READ_KINDS: Final = frozenset(
    {BlockKind.PARAGRAPH, BlockKind.LIST_ITEM, BlockKind.NOTE, BlockKind.CAPTION, BlockKind.TABLE}
)
_HEADINGS: Final = frozenset({BlockKind.TITLE, BlockKind.HEADING})
_MIN_SECTION_CHUNKS: Final = 2
_SHARE_OF_TEXT: Final = 0.5
_MIN_TOKENS: Final = 24
MAX_PASSAGES: Final = 4000
"""Most pages and sections that get a summary; deeper sections are left out first."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A page or a section.

    Attributes:
        key: Unique in its document: "page-3", "section-2".
        scope: What it is.
        text: Its running text and tables, in reading order.
        headings: Headings in and above it, innermost last.
        chunks: Positions of its chunks, ascending.
        page: First page from 1; 0 where the format has none.
        boxes: Where it stands, one box for each of its blocks' boxes.
        heading_path: Headings of a section, itself last; headings above a page's first block.
    """

    key: str
    scope: SummaryScope
    text: str
    headings: tuple[str, ...]
    chunks: tuple[int, ...]
    page: int
    boxes: tuple[Box, ...]
    heading_path: tuple[str, ...]


def find_passages(blocks: Sequence[Block], chunks: Sequence[Chunk], scope: SummaryScope) -> list[Passage]:
    """Find the pages and sections of a document that are worth a summary.

    Args:
        blocks: Blocks of the document.
        chunks: Its chunks of role TEXT by position.
        scope: What is wanted.

    Returns:
        Pages with text, where the format has pages; sections at every depth that fill more than one chunk, each with
        all that is below it. In reading order, pages first.
    """
    places = place_blocks(blocks, chunks)
    found: list[Passage] = []
    if scope is not SummaryScope.SECTION:
        found.extend(_pages(blocks, chunks, places))
    if scope is not SummaryScope.PAGE:
        found.extend(_sections(blocks, chunks, places))
    if len(found) > MAX_PASSAGES:
        kept = sorted(range(len(found)), key=lambda index: (len(found[index].heading_path), index))[:MAX_PASSAGES]
        found = [found[index] for index in sorted(kept)]
    return found


def extract_summary(passage: Passage, counter: TextTokenizer, *, max_tokens: int) -> str:
    """Summarise a passage by its own most central sentences, in their order.

    Args:
        passage: What to summarise.
        counter: Counts tokens.
        max_tokens: Longest summary; and at most half of the passage.

    Returns:
        The summary; "" for a passage without a sentence that says something.
    """
    sentences = statements_of(passage.text, passage.headings)
    if not sentences:
        return ""
    sizes = counter.count_tokens(sentences)
    budget = min(max_tokens, max(_MIN_TOKENS, int(_SHARE_OF_TEXT * sum(sizes))))
    scores = centrality(sentences, towards=passage.headings[-2:])
    # Of short passages even the shortest statement may be over half: it is taken all the same.
    picked = pick_central(sentences, scores, sizes, budget) or pick_central(sentences, scores, sizes, max_tokens)
    return join_sentences([sentences[place] for place in picked])


def join_sentences(sentences: Iterable[str]) -> str:
    """Join sentences as their language does.

    Args:
        sentences: Whole sentences.

    Returns:
        One text: with a blank between them, but none behind a Chinese full stop.
    """
    text = ""
    for sentence in sentences:
        gap = "" if not text or (text[-1] in "。！？；”」』）" and is_chinese(sentence)) else " "
        text += gap + sentence
    return text


def _pages(blocks: Sequence[Block], chunks: Sequence[Chunk], places: Sequence[range]) -> list[Passage]:
    by_page: dict[int, list[int]] = {}
    for index, block in enumerate(blocks):
        if block.page:
            by_page.setdefault(block.page, []).append(index)
    on_page: dict[int, set[int]] = {}
    for place, chunk in enumerate(chunks):
        for page in pages_of(chunk):
            on_page.setdefault(page, set()).add(place)
    return [
        made
        for page, indices in sorted(by_page.items())
        if (
            made := _passage(
                f"page-{page}", SummaryScope.PAGE, blocks, indices, chunks, places, on_page.get(page, set())
            )
        )
    ]


def _sections(blocks: Sequence[Block], chunks: Sequence[Chunk], places: Sequence[range]) -> list[Passage]:
    """Find sections: a heading and all blocks up to the next heading of its depth or above."""
    found: list[Passage] = []
    heads = [index for index, block in enumerate(blocks) if block.kind in _HEADINGS and block.text.strip()]
    for number, head in enumerate(heads):
        depth = len(blocks[head].heading_path)
        end = next((other for other in heads[number + 1 :] if len(blocks[other].heading_path) <= depth), len(blocks))
        made = _passage(f"section-{number}", SummaryScope.SECTION, blocks, range(head, end), chunks, places, set())
        if made is not None and len(made.chunks) >= _MIN_SECTION_CHUNKS:
            found.append(made)
    return found


def _passage(
    key: str,
    scope: SummaryScope,
    blocks: Sequence[Block],
    indices: Sequence[int],
    chunks: Sequence[Chunk],
    places: Sequence[range],
    also: set[int],
) -> Passage | None:
    read = [index for index in indices if _is_read(blocks[index])]
    held = also | {place for index in read for place in places[index]}
    if not read or not held:
        return None
    first = blocks[indices[0]]
    own = tuple(blocks[index].text.strip() for index in indices if blocks[index].kind in _HEADINGS)
    is_section = scope is SummaryScope.SECTION
    return Passage(
        key=key,
        scope=scope,
        text="\n\n".join(blocks[index].text.strip() for index in read),
        headings=(*blocks[read[0]].heading_path, *own),
        chunks=tuple(sorted(chunks[place].position for place in held)),
        page=first.page,
        boxes=tuple(box for index in read for box in blocks[index].boxes),
        heading_path=(*first.heading_path, first.text.strip()) if is_section else first.heading_path,
    )


def _is_read(block: Block) -> bool:
    """Say whether a block belongs to a summary's text: a list of other places does not."""
    if block.kind not in _READ_KINDS or not block.text.strip():
        return False
    return not (block.heading_path and is_list_heading(block.heading_path[-1]))
