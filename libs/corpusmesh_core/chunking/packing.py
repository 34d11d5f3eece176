"""Packs pieces into chunks: greedy, in order, at the best seam near the budget."""

from collections.abc import Sequence
from itertools import groupby

from corpusmesh_core.chunking.pieces import HEADER_SHARE, Piece
from corpusmesh_core.documents import Block


class Packer:
    """Fills one chunk after the other.

    Seams, best first: before a heading, before a block that would not fit, between sentences or rows. A heading never
    stands last in a chunk, and a table that goes on in the next chunk has its header repeated there.
    """

    def __init__(
        self, blocks: Sequence[Block], *, budget_tokens: int, overlap_tokens: int, heading_break_tokens: int
    ) -> None:
        """Create a packer for one document.

        Args:
            blocks: The document's blocks.
            budget_tokens: Most tokens of a chunk.
            overlap_tokens: Most tokens repeated from the chunk before.
            heading_break_tokens: Tokens after which a heading starts a new chunk.
        """
        self._blocks = blocks
        self._budget = budget_tokens
        self._overlap = overlap_tokens
        self._heading_break = heading_break_tokens
        self._done: list[list[Piece]] = []
        self._open: list[Piece] = []
        self._tokens = 0
        self._repeated = 0  # how many pieces at the start of the open chunk are copies

    def pack(self, pieces: Sequence[Piece]) -> list[list[Piece]]:
        """Group pieces into chunks.

        Args:
            pieces: Pieces in order, none over the budget.

        Returns:
            Groups whose token counts add up to at most the budget; copies for overlap and table headers included.
        """
        for _, group in groupby(pieces, key=lambda piece: piece.block):
            self._add_block(list(group))
        if len(self._open) > self._repeated:
            self._done.append(self._open)
        return self._done

    def _add_block(self, block: list[Piece]) -> None:
        total = sum(piece.token_count for piece in block)
        if self._breaks_before(block[0], total):
            self._flush(block[0], ())
        header = self._header(block)
        for piece in block:
            if self._tokens + piece.token_count > self._budget:
                self._flush(piece, () if piece in header else header)
            self._open.append(piece)
            self._tokens += piece.token_count

    def _breaks_before(self, first: Piece, total: int) -> bool:
        if first.is_heading:
            return self._tokens >= self._heading_break
        if self._tokens + total <= self._budget or all(piece.is_heading for piece in self._open[self._repeated :]):
            return False
        # A block that fits into a chunk of its own is not torn, unless the open chunk would be left too small for it;
        # a table waits for a fresh chunk even then.
        return total <= self._budget and (first.is_row or 2 * self._tokens >= self._budget)

    def _header(self, block: list[Piece]) -> tuple[Piece, ...]:
        table = self._blocks[block[0].block].table
        if table is None or not table.header_row_count:
            return ()
        header = tuple(piece for piece in block if piece.start < table.header_row_count)
        fits = HEADER_SHARE * sum(piece.token_count for piece in header) <= self._budget
        return header if fits and len(header) < len(block) else ()

    def _flush(self, following: Piece, header: tuple[Piece, ...]) -> None:
        """Close the open chunk and start the next with what must stand above `following`."""
        carried = self._trailing_headings()
        if sum(piece.token_count for piece in carried) + following.token_count > self._budget:
            carried = []
        closed = self._open[: len(self._open) - len(carried)]
        if len(closed) > self._repeated:
            self._done.append(closed)
        copies: list[Piece] = []
        if header:
            copies = list(header)
        elif not carried and not following.is_heading and not following.is_row:
            copies = self._last_sentences(closed)
        room = self._budget - following.token_count - sum(piece.token_count for piece in carried)
        if sum(piece.token_count for piece in copies) > room:
            copies = []
        self._open = copies + carried
        self._repeated = len(copies)
        self._tokens = sum(piece.token_count for piece in self._open)

    def _trailing_headings(self) -> list[Piece]:
        end = len(self._open)
        while end > self._repeated and self._open[end - 1].is_heading:
            end -= 1
        # A chunk of nothing but headings stays as it is: there is no text to leave behind.
        return self._open[end:] if end > self._repeated else []

    def _last_sentences(self, closed: list[Piece]) -> list[Piece]:
        taken: list[Piece] = []
        room = self._overlap
        for piece in reversed(closed[self._repeated :]):
            if piece.is_heading or piece.is_row or piece.token_count > room:
                break
            taken.insert(0, piece)
            room -= piece.token_count
        return taken
