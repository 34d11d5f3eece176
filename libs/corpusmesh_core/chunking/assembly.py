"""From blocks and groups to chunks: the one way that every template takes."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from corpusmesh_core.chunking.context import ContextWriter
from corpusmesh_core.chunking.delimiting import split_at_delimiters
from corpusmesh_core.chunking.drafts import CountedDraft, Draft, within_budget
from corpusmesh_core.chunking.groups import Group
from corpusmesh_core.chunking.packing import Packer
from corpusmesh_core.chunking.pieces import Piece, cut_blocks, delimiter_pattern, split_piece
from corpusmesh_core.chunking.places import boxes_of_range, merge_boxes
from corpusmesh_core.chunking.settings import BudgetSettings, RunningTextSettings
from corpusmesh_core.chunking.tables import part_of_table, table_html
from corpusmesh_core.chunking.template import ChunkResult, bounded_warnings
from corpusmesh_core.documents import Block, BlockKind, Box, Chunk, ChunkRole, ParsedDocument
from corpusmesh_core.ports.embedding import TextTokenizer

_MAX_HTML_CHARACTERS = 20_000
"""A table whose HTML is longer is carried as text alone."""


def chunk_groups(
    document: ParsedDocument,
    blocks: Sequence[Block],
    groups: Sequence[Group],
    counter: TextTokenizer,
    settings: BudgetSettings,
) -> ChunkResult:
    """Pack the blocks of each group into chunks.

    The tokenizer is called a few times, each time with a batch.

    Args:
        document: The document, for its title.
        blocks: Its blocks, as the template sees them.
        groups: Which of them belong together; a block in no group is left out.
        counter: The embedder's tokenizer.
        settings: The template's settings.

    Returns:
        The chunks, and a warning for every table row that had to be split.
    """
    cutting = settings if isinstance(settings, RunningTextSettings) else _whole_blocks(settings)
    return _Assembly(document, blocks, groups, counter, cutting).run()


def _whole_blocks(settings: BudgetSettings) -> RunningTextSettings:
    # Templates for records have no say in how text is cut.
    return RunningTextSettings(
        max_tokens=settings.max_tokens,
        embedder_max_tokens=settings.embedder_max_tokens,
        contextual_header=settings.contextual_header,
        table_html=settings.table_html,
    )


class _Assembly:
    def __init__(
        self,
        document: ParsedDocument,
        blocks: Sequence[Block],
        groups: Sequence[Group],
        counter: TextTokenizer,
        settings: RunningTextSettings,
    ) -> None:
        self._blocks = blocks
        self._groups = groups
        self._counter = counter
        self._settings = settings
        self._contexts = ContextWriter(document, blocks, counter, settings)
        self._embedded_tokens = settings.embedder_max_tokens - self._contexts.reserved_tokens()
        self._exact = tuple(text.strip("`") or text for text in settings.exact_delimiters)
        self._children = (settings.children_delimiter,) if settings.children_delimiter else ()

    def run(self) -> ChunkResult:
        pieces = self._pieces()
        drafts = self._drafts(pieces)
        counted = within_budget(drafts, self._counter)
        chunks = self._families(counted) if self._children else self._chunks(counted, self._contexts.write(counted))
        return ChunkResult(tuple(number_by_role(chunks)), bounded_warnings(list(self._split_rows(pieces))))

    def _budget(self, group: Group) -> int:
        wanted = group.max_tokens or self._settings.max_tokens
        return wanted if self._children else min(wanted, self._embedded_tokens)

    def _child_budget(self) -> int:
        return min(self._settings.child_max_tokens, self._embedded_tokens)

    def _pieces(self) -> list[Piece]:
        settings = self._settings
        longest = min(map(self._budget, self._groups), default=settings.max_tokens)
        if self._children:
            longest = min(longest, self._child_budget())
        # Overlap and parts need sentences; without them a small paragraph is better kept in one piece.
        needs_sentences = bool(settings.overlap_tokens or self._exact or self._children)
        return cut_blocks(
            self._blocks,
            delimiter_pattern((*settings.delimiters, *self._exact, *self._children)),
            self._counter,
            whole_below=0 if needs_sentences else longest,
            max_tokens=longest,
            leave_room=frozenset(index for group in self._groups if group.repeated_blocks for index in group.blocks),
        )

    def _drafts(self, pieces: Sequence[Piece]) -> list[Draft]:
        if len(self._groups) == 1 and len(self._groups[0].blocks) == len(self._blocks):
            return self._packed(0, pieces)
        by_block = {index: list(part) for index, part in groupby(pieces, key=lambda piece: piece.block)}
        drafts: list[Draft] = []
        for number, group in enumerate(self._groups):
            drafts.extend(self._packed(number, [piece for index in group.blocks for piece in by_block.get(index, ())]))
        return drafts

    def _packed(self, number: int, pieces: Sequence[Piece]) -> list[Draft]:
        group = self._groups[number]
        parts = split_at_delimiters(pieces, self._exact, self._blocks) if self._exact else [pieces]
        drafts: list[Draft] = []
        for part in parts:
            packer = Packer(
                self._blocks,
                group,
                number,
                budget_tokens=self._budget(group),
                overlap_tokens=0 if self._exact else self._settings.overlap_tokens,
            )
            drafts.extend(packer.pack(part))
        return drafts

    def _families(self, parents: Sequence[CountedDraft]) -> list[Chunk]:
        """Cut parents into children; those of all parents are counted at once."""
        budget = self._child_budget()
        drafts: list[Draft] = []
        for owner, entry in enumerate(parents):
            own = entry.draft.pieces[entry.draft.copy_count :]
            for part in split_at_delimiters(own, self._children, self._blocks):
                short = [small for piece in part for small in split_piece(piece, self._counter, max_tokens=budget)]
                number = entry.draft.group
                packer = Packer(self._blocks, self._groups[number], number, budget_tokens=budget, overlap_tokens=0)
                drafts.extend(replace(draft, owner=owner) for draft in packer.pack(short))
        counted = within_budget(drafts, self._counter)
        children: dict[int, list[Chunk]] = {}
        for entry, chunk in zip(counted, self._chunks(counted, self._contexts.write(counted)), strict=True):
            children.setdefault(entry.draft.owner, []).append(chunk)
        family: list[Chunk] = []
        for owner, parent in enumerate(self._chunks(parents, [""] * len(parents))):
            family.append(replace(parent, role=ChunkRole.PARENT))
            family.extend(replace(child, parent=owner) for child in children.get(owner, ()))
        return family

    def _chunks(self, drafts: Sequence[CountedDraft], contexts: Iterable[str]) -> list[Chunk]:
        return [self._chunk(*parts) for parts in zip(itertools.count(), drafts, contexts)]

    def _chunk(self, position: int, entry: CountedDraft, context: str) -> Chunk:
        blocks, pieces = self._blocks, entry.draft.pieces
        group = self._groups[entry.draft.group]
        body = [piece for piece in pieces if not piece.is_heading] or pieces
        held = [blocks[piece.block] for piece in pieces]
        return Chunk(
            position=position,
            text=entry.text,
            heading_path=blocks[body[0].block].heading_path,
            page=held[0].page,
            boxes=merge_boxes(_boxes(blocks, pieces)),
            token_count=entry.token_count,
            block_kind=group.block_kind or common_kind([blocks[piece.block] for piece in body]),
            role=group.role,
            context=context,
            keywords=group.keywords,
            questions=group.questions,
            tags=group.tags,
            attributes=self._attributes(group, pieces),
            picture=group.picture or picture_of(blocks, [piece.block for piece in pieces]),
            confidence=min(block.confidence for block in held),
        )

    def _attributes(self, group: Group, pieces: Sequence[Piece]) -> Mapping[str, str]:
        if not self._settings.table_html:
            return group.attributes
        parts: list[str] = []
        for index, rows in groupby((piece for piece in pieces if piece.is_row), key=lambda piece: piece.block):
            table = self._blocks[index].table
            if table is not None:
                parts.append(table_html(part_of_table(table, sorted({piece.start for piece in rows}))))
        html = "\n".join(parts)
        return {**group.attributes, "table_html": html} if 0 < len(html) <= _MAX_HTML_CHARACTERS else group.attributes

    def _split_rows(self, pieces: Sequence[Piece]) -> Iterable[str]:
        for (index, row), parts in groupby(
            (piece for piece in pieces if piece.is_row), key=lambda piece: (piece.block, piece.start)
        ):
            count = sum(1 for _ in parts)
            if count > 1:
                page = self._blocks[index].page
                where = f" on page {page}" if page else ""
                yield f"Row {row + 1} of a table{where} is longer than a chunk and was split into {count} parts."


def number_by_role(chunks: Iterable[Chunk]) -> Iterable[Chunk]:
    """Number chunks in their order, those of each role from 0.

    Args:
        chunks: Chunks with any positions.

    Yields:
        The same chunks with dense positions.
    """
    following: dict[ChunkRole, int] = {}
    for chunk in chunks:
        position = following.get(chunk.role, 0)
        following[chunk.role] = position + 1
        yield chunk if chunk.position == position else replace(chunk, position=position)


def picture_of(blocks: Sequence[Block], indexes: Iterable[int]) -> str:
    """Find the picture that a chunk shows: of a figure's own text, or of the caption beside a figure without text.

    Args:
        blocks: The document's blocks.
        indexes: The blocks that the chunk holds.

    Returns:
        The name of the first; "" for none.
    """
    for index in indexes:
        block = blocks[index]
        if block.picture:
            return block.picture
        if block.kind is BlockKind.CAPTION:
            for neighbour in (index - 1, index + 1):
                if 0 <= neighbour < len(blocks) and blocks[neighbour].picture and not blocks[neighbour].text.strip():
                    return blocks[neighbour].picture
    return ""


def common_kind(blocks: Sequence[Block]) -> BlockKind:
    """Say what a chunk of these blocks is.

    Args:
        blocks: At least one.

    Returns:
        Their kind where they share it, else PARAGRAPH.
    """
    first = blocks[0].kind
    return first if all(block.kind is first for block in blocks) else BlockKind.PARAGRAPH


def _boxes(blocks: Sequence[Block], pieces: Iterable[Piece]) -> Iterable[Box]:
    for piece in pieces:
        block = blocks[piece.block]
        if block.table is None:
            yield from boxes_of_range(block, piece.start, piece.start + len(piece.text.rstrip()))
        elif len(block.boxes) == len(block.table.rows):
            yield block.boxes[piece.start]
        else:
            yield from block.boxes
