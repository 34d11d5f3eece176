"""Parts of pieces between delimiters: for parts that are never packed together, and for the children of a parent."""

from collections.abc import Sequence

from corpusmesh_core.chunking.pieces import Piece
from corpusmesh_core.documents import Block


def split_at_delimiters(
    pieces: Sequence[Piece], delimiters: Sequence[str], blocks: Sequence[Block]
) -> list[list[Piece]]:
    """Part pieces after every delimiter.

    Args:
        pieces: In order, cut at these delimiters already (see `cut_blocks`).
        delimiters: Literal strings. One that is nothing but white space is also found in what stands between blocks.
        blocks: The document's blocks.

    Returns:
        Parts in order; headings and header rows are never alone but with the part below them.
    """
    visible = tuple(text.rstrip() for text in delimiters if text.strip())
    blank = tuple(text for text in delimiters if not text.strip())
    parts: list[list[Piece]] = []
    for piece in pieces:
        if not parts or (_parts_before(parts[-1][-1], piece, visible, blank) and not _is_only_top(parts[-1], blocks)):
            parts.append([])
        parts[-1].append(piece)
    return parts


def _parts_before(last: Piece, piece: Piece, visible: tuple[str, ...], blank: tuple[str, ...]) -> bool:
    body = last.text.rstrip()
    space = last.text[len(body) :]
    return body.endswith(visible) or any(text in space or text in piece.separator for text in blank)


def _is_only_top(pieces: Sequence[Piece], blocks: Sequence[Block]) -> bool:
    return all(piece.is_heading or _is_header_row(piece, blocks[piece.block]) for piece in pieces)


def _is_header_row(piece: Piece, block: Block) -> bool:
    return piece.is_row and block.table is not None and piece.start < block.table.header_row_count
