"""Packs pieces into chunks: greedy, in order, at the best seam near the budget."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from corpusmesh_core.chunking.drafts import Draft
from corpusmesh_core.chunking.groups import Group
from corpusmesh_core.chunking.pieces import HEADER_SHARE, Piece
from corpusmesh_core.documents import Block


class Packer:
    """Fills one chunk after the other.

    Seams, best first: before a heading, before a block that would not fit, between sentences or rows. A heading never
    stands last in a chunk, and a table that goes on in the next chunk has its header repeated there, as a group has its
    repeated blocks.
    """

    def __init__(
        self, blocks: Sequence[Block], group: Group, number: int, *, budget_tokens: int, overlap_tokens: int
    ) -> None:
        """Create a packer for one group.

        Args:
            blocks: The document's blocks.
            group: The group.
            number: Its number, for the drafts.
            budget_tokens: Most tokens of a chunk.
            overlap_tokens: Most tokens repeated from the chunk before.
        """
        self._blocks = blocks
        self._group = group
        self._number = number
        self._budget = budget_tokens
        self._overlap = overlap_tokens
        self._repeatable = frozenset(group.blocks[: group.repeated_blocks])
        self._top: list[Piece] = []  # pieces of the group's repeated blocks
        self._done: list[Draft] = []
        self._open: list[Piece] = []
        self._tokens = 0
        self._repeated = 0  # how many pieces at the start of the open chunk are copies

    def pack(self, pieces: Iterable[Piece]) -> list[Draft]:
        """Group pieces into chunks.

        Args:
            pieces: Pieces in order, none over the budget.

        Returns:
            Drafts whose token counts add up to at most the budget; copies for overlap and headers included.
        """
        for _, block in groupby(pieces, key=lambda piece: piece.block):
            self._add_block(list(block))
        if len(self._open) > self._repeated:
            self._close(self._open)
        return self._done

    def _close(self, pieces: list[Piece]) -> None:
        self._done.append(Draft(pieces, self._repeated, self._number, self._budget))

    def _add_block(self, block: list[Piece]) -> None:
        total = sum(piece.token_count for piece in block)
        if self._breaks_before(block[0], total):
            self._flush(block[0], ())
        header = self._header(block)
        for piece in block:
            if self._tokens + piece.token_count > self._budget:
                self._flush(piece, () if piece in header else header)
                if self._top and self._repeated and not piece.separator:
                    # The middle of a text now stands below the group's first block.
                    piece = replace(piece, separator="\n")
            self._open.append(piece)
            self._tokens += piece.token_count
        if block[0].block in self._repeatable:
            self._top.extend(block)

    def _breaks_before(self, first: Piece, total: int) -> bool:
        if first.is_heading:
            return (
                self._tokens >= self._group.break_tokens
                and self._blocks[first.block].level <= self._group.break_level
                and not self._holds_only_headings()
            )
        if self._tokens + total <= self._budget or self._holds_only_headings():
            return False
        # A block that fits into a chunk of its own is not torn, unless the open chunk would be left too small for it;
        # a table waits for a fresh chunk even then.
        return total <= self._budget and (first.is_row or 2 * self._tokens >= self._budget)

    def _holds_only_headings(self) -> bool:
        return all(piece.is_heading for piece in self._open[self._repeated :])

    def _header(self, block: list[Piece]) -> tuple[Piece, ...]:
        if self._repeatable:
            # A group that repeats its first blocks is one record; it holds no table of several rows.
            return ()
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
            self._close(closed)
        copies = self._copies(closed, following, header, bool(carried))
        room = self._budget - following.token_count - sum(piece.token_count for piece in carried)
        if sum(piece.token_count for piece in copies) > room:
            copies = []
        self._open = copies + carried
        self._repeated = len(copies)
        self._tokens = sum(piece.token_count for piece in self._open)

    def _copies(
        self, closed: list[Piece], following: Piece, header: tuple[Piece, ...], carries_heading: bool
    ) -> list[Piece]:
        if self._top:
            short = HEADER_SHARE * sum(piece.token_count for piece in self._top) <= self._budget
            return list(self._top) if short else []
        if header:
            return list(header)
        if carries_heading or following.is_heading or following.is_row:
            return []
        return self._last_sentences(closed)

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
