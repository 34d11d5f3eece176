"""Cuts a document into pieces that a chunker never has to look inside."""

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from corpusmesh_core.chunking.tables import row_text
from corpusmesh_core.documents import Block, BlockKind
from corpusmesh_core.ports.embedding import TextTokenizer

SKIPPED_KINDS = frozenset({BlockKind.HEADER, BlockKind.FOOTER})
"""Running heads and feet stay in the parsed document and out of its chunks: they repeat and say nothing there."""

HEADER_SHARE = 3
"""A table's header is repeated where it takes at most one part in this many of a chunk."""

_HEADINGS = frozenset({BlockKind.TITLE, BlockKind.HEADING})
_LAST_BREAK = re.compile(r"\s(?=\S*$)")


@dataclass(frozen=True, slots=True)
class Piece:
    """A sentence, a table row or a small block.

    Attributes:
        block: Index of its block in the document.
        text: Its text, white space at its end included.
        start: Its first character in the block's text; for a table row the row's index.
        token_count: Tokens of its text.
        opens_block: Whether it is the first of its block.
        is_heading: Whether its block is a heading.
        is_row: Whether it is a table row, or a part of one.
        separator: What stands between it and a piece before it.
    """

    block: int
    text: str
    start: int
    token_count: int
    opens_block: bool
    is_heading: bool
    is_row: bool
    separator: str


def cut_blocks(
    blocks: Sequence[Block],
    delimiters: re.Pattern[str],
    counter: TextTokenizer,
    *,
    whole_below: int,
    max_tokens: int,
    leave_room: Container[int] = (),
) -> list[Piece]:
    """Cut blocks into pieces of at most `max_tokens` tokens.

    Args:
        blocks: Blocks in reading order; running heads and feet are left out.
        delimiters: Matches what ends a sentence, see `delimiter_pattern`.
        counter: The embedder's tokenizer.
        whole_below: Characters up to which a block is one piece; 0 cuts every block at its delimiters.
        max_tokens: Longest piece.
        leave_room: Indexes of blocks whose pieces leave room for what is repeated above them.

    Returns:
        Pieces in order; their texts hold every visible character of the blocks.
    """
    drafts = [
        draft
        for index, block in enumerate(blocks)
        if block.kind not in SKIPPED_KINDS
        for draft in _drafts(index, block, delimiters, whole_below, max_tokens)
    ]
    pieces: list[Piece] = []
    above = 0
    for draft, token_count in zip(
        drafts, counter.count_tokens([draft.separator + draft.text for draft in drafts]), strict=True
    ):
        # A row leaves room for the header that is repeated above it, and a long text for the heading above it.
        longest = max_tokens
        if draft.is_row or draft.block in leave_room:
            longest -= max_tokens // HEADER_SHARE
        elif above and 2 * above <= max_tokens:
            longest -= above
        above = above + token_count if draft.is_heading else 0
        pieces.extend(split_piece(_with(draft, token_count=token_count), counter, max_tokens=longest))
    return pieces


def delimiter_pattern(delimiters: Sequence[str]) -> re.Pattern[str]:
    """Compile delimiters into one pattern, the longest first.

    Args:
        delimiters: Literal strings that end a sentence; white space after them goes with them.

    Returns:
        A pattern that matches nothing if there are no delimiters.
    """
    if not delimiters:
        return re.compile(r"(?!)")
    choices = "|".join(re.escape(text) for text in sorted(set(delimiters), key=lambda text: (-len(text), text)))
    # Not "(…)+": only of a pattern that begins with the choices does the engine know the characters to look for, and it
    # is three times as fast then.
    return re.compile(rf"(?:{choices})(?:{choices})*\s*")


def separator_before(block: Block) -> str:
    """Say what stands between a block and the text before it.

    Args:
        block: Any block.

    Returns:
        A line break before a list item, an empty line before anything else.
    """
    return "\n" if block.kind is BlockKind.LIST_ITEM else "\n\n"


def split_at(piece: Piece, middle: int) -> tuple[Piece, Piece]:
    """Split a piece at a character, sharing its token count by length.

    Args:
        piece: A piece of at least two characters.
        middle: Where to cut, inside the text.

    Returns:
        The two parts.
    """
    left_tokens = piece.token_count * middle // len(piece.text)
    left = _with(piece, text=piece.text[:middle], token_count=left_tokens)
    right = _with(
        piece,
        text=piece.text[middle:],
        start=piece.start if piece.is_row else piece.start + middle,
        token_count=piece.token_count - left_tokens,
        opens_block=False,
        separator="",
    )
    return left, right


def split_piece(piece: Piece, counter: TextTokenizer, *, max_tokens: int) -> list[Piece]:
    """Split a piece that is too long at token boundaries, at white space where some is near.

    Args:
        piece: Any piece.
        counter: The embedder's tokenizer.
        max_tokens: Longest part.

    Returns:
        The piece itself where it fits, else its parts in order.
    """
    if piece.token_count <= max_tokens:
        return [piece]
    offsets = counter.token_offsets(piece.text)
    parts: list[Piece] = []
    begin = first = 0
    while begin < len(piece.text):
        last = first + max_tokens
        if last >= len(offsets):
            end, tokens = len(piece.text), max(len(offsets) - first, 0)
        else:
            end = _cut_before(piece.text, begin, max(offsets[last][0], begin + 1))
            stop = first
            while stop < len(offsets) and offsets[stop][0] < end:
                stop += 1
            tokens = stop - first
        parts.append(
            _with(
                piece,
                text=piece.text[begin:end],
                start=piece.start if piece.is_row else piece.start + begin,
                token_count=tokens,
                opens_block=piece.opens_block and begin == 0,
                separator=piece.separator if begin == 0 else "",
            )
        )
        first, begin = first + tokens, end
    return parts


def _cut_before(text: str, begin: int, end: int) -> int:
    # Within the last fifth a word boundary is worth a shorter part; text without spaces is cut at the token.
    reach = begin + (end - begin) * 4 // 5
    space = _LAST_BREAK.search(text, reach, end)
    return space.end() if space is not None else end


def _drafts(
    index: int, block: Block, delimiters: re.Pattern[str], whole_below: int, max_tokens: int
) -> Iterator[Piece]:
    heading = block.kind in _HEADINGS
    gap = separator_before(block)
    if block.table is not None:
        opening = True
        for number, row in enumerate(block.table.rows):
            text = row_text(row)
            if text:
                yield Piece(index, text, number, 0, opening, False, True, gap if opening else "\n")
                opening = False
        return
    text = block.text.rstrip()
    start = len(text) - len(text.lstrip("\n\r"))
    opening = True
    # A text without any delimiter must not become one token list of millions of entries.
    for begin, end in _ranges(text, start, delimiters, whole_below, 16 * max_tokens):
        yield Piece(index, text[begin:end], begin, 0, opening, heading, False, gap if opening else "")
        opening = False


def _ranges(
    text: str, start: int, delimiters: re.Pattern[str], whole_below: int, longest: int
) -> Iterator[tuple[int, int]]:
    if len(text) - start <= whole_below:
        if text:
            yield start, len(text)
        return
    begin = start
    for match in delimiters.finditer(text, start):
        if text[begin : match.end()].strip():
            yield from _windows(begin, match.end(), longest)
            begin = match.end()
    if begin < len(text):
        yield from _windows(begin, len(text), longest)


def _windows(begin: int, end: int, longest: int) -> Iterator[tuple[int, int]]:
    for left in range(begin, end, longest):
        yield left, min(left + longest, end)


def _with(
    piece: Piece,
    *,
    token_count: int,
    text: str | None = None,
    start: int | None = None,
    opens_block: bool | None = None,
    separator: str | None = None,
) -> Piece:
    return Piece(
        piece.block,
        piece.text if text is None else text,
        piece.start if start is None else start,
        token_count,
        piece.opens_block if opens_block is None else opens_block,
        piece.is_heading,
        piece.is_row,
        piece.separator if separator is None else separator,
    )
