"""Template `general`: running text packed to a token budget, under its headings, tables whole where they fit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from corpusmesh_core.chunking.packing import Packer
from corpusmesh_core.chunking.pieces import (
    SKIPPED_KINDS,
    Piece,
    cut_blocks,
    delimiter_pattern,
    separator_before,
    split_at,
    split_piece,
)
from corpusmesh_core.chunking.places import boxes_of_range, merge_boxes
from corpusmesh_core.chunking.tables import table_text
from corpusmesh_core.chunking.template import ChunkTemplate
from corpusmesh_core.documents import Block, BlockKind, Box, Chunk, ParsedDocument
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.embedding import TextTokenizer

MIN_BUDGET_TOKENS = 32
"""Smaller budgets cut words to pieces, and a single character may take ten byte tokens."""

_HEADINGS = frozenset({BlockKind.TITLE, BlockKind.HEADING})


@dataclass(frozen=True, slots=True)
class GeneralChunkSettings:
    """Settings of the template `general`.

    Attributes:
        max_tokens: Budget of a chunk's text in the embedder's tokens; 400 leaves room for a contextual header in
            models that read 512.
        embedder_max_tokens: What the embedder can read of a text, its special tokens and prefix taken off; the smaller
            of the two is the budget, and no chunk is over it.
        overlap_tokens: Whole sentences of the chunk before, up to this many tokens, repeated at a chunk's start; 0 by
            default: retrieval can fetch neighbours instead, and each repeated token is embedded and stored twice.
        heading_break_tokens: A heading starts a new chunk once the running one holds this many tokens.
        delimiters: What ends a sentence; text is cut only after one of them while the parts fit the budget.
    """

    max_tokens: int = 400
    embedder_max_tokens: int = 510
    overlap_tokens: int = 0
    heading_break_tokens: int = 96
    delimiters: tuple[str, ...] = field(
        default=("\n", "。", "！", "？", "；", "…", ". ", "! ", "? ", "; ", ".\u3000", "．"),
    )

    def __post_init__(self) -> None:
        """Refuse settings that cannot work.

        Raises:
            InvalidArgumentError: CHUNK_SETTING_INVALID with the field.
        """
        if self.budget_tokens < MIN_BUDGET_TOKENS:
            at_fault = "max_tokens" if self.max_tokens <= self.embedder_max_tokens else "embedder_max_tokens"
            raise _invalid(at_fault, f"at least {MIN_BUDGET_TOKENS}")
        if not 0 <= self.overlap_tokens <= self.budget_tokens // 2:
            raise _invalid("overlap_tokens", f"0 to {self.budget_tokens // 2}, half the budget")
        if self.heading_break_tokens < 0:
            raise _invalid("heading_break_tokens", "at least 0")
        if not all(isinstance(text, str) and text for text in self.delimiters):
            raise _invalid("delimiters", "texts of at least one character")

    @property
    def budget_tokens(self) -> int:
        """The budget that holds: the smaller of the two maxima."""
        return min(self.max_tokens, self.embedder_max_tokens)


def chunk_general(document: ParsedDocument, counter: TextTokenizer, settings: GeneralChunkSettings) -> list[Chunk]:
    """Cut a document into chunks of at most the budget, losing no text.

    Every visible character of every block but running heads and feet is in a chunk, in reading order. The same input
    gives the same chunks. The tokenizer is called two or three times, each time with a batch.

    Args:
        document: What a parser made.
        counter: The embedder's tokenizer.
        settings: Budget, overlap and delimiters.

    Returns:
        Chunks in reading order, positions dense from 0; empty if the document holds no text.
    """
    blocks = document.blocks
    whole = _as_one_chunk(blocks, counter, settings)
    if whole is not None:
        return [whole]
    pieces = cut_blocks(
        blocks,
        delimiter_pattern(settings.delimiters),
        counter,
        # Overlap needs sentences; without it a small paragraph is better kept in one piece.
        whole_below=0 if settings.overlap_tokens else settings.budget_tokens,
        max_tokens=settings.budget_tokens,
    )
    packer = Packer(
        blocks,
        budget_tokens=settings.budget_tokens,
        overlap_tokens=settings.overlap_tokens,
        heading_break_tokens=settings.heading_break_tokens,
    )
    drafts = _within_budget(packer.pack(pieces), counter, settings.budget_tokens)
    return [_chunk(blocks, position, draft, text, tokens) for position, (draft, text, tokens) in enumerate(drafts)]


TEMPLATE = ChunkTemplate(
    name="general",
    summary="Running text to a token budget under its headings; tables whole where they fit.",
    settings_type=GeneralChunkSettings,
    chunk=chunk_general,
)


def _as_one_chunk(blocks: Sequence[Block], counter: TextTokenizer, settings: GeneralChunkSettings) -> Chunk | None:
    # Most documents of a question-answering corpus are one paragraph: one count instead of two.
    held = [block for block in blocks if block.kind not in SKIPPED_KINDS]
    if not held or sum(len(block.text) for block in held) > 8 * settings.budget_tokens:
        return None
    if sum(block.kind in _HEADINGS for block in held) > 1:
        return None
    text = "".join(separator_before(block) + _block_text(block) for block in held if _block_text(block)).strip("\r\n")
    if not text.strip():
        return None
    tokens = counter.count_tokens([text])[0]
    if tokens > settings.budget_tokens:
        return None
    body = [block for block in held if block.kind not in _HEADINGS] or held
    return Chunk(
        position=0,
        text=text,
        heading_path=body[0].heading_path,
        page=held[0].page,
        boxes=merge_boxes(box for block in held for box in block.boxes),
        token_count=tokens,
        block_kind=_common_kind(body),
    )


def _block_text(block: Block) -> str:
    text = table_text(block.table.rows) if block.table is not None else block.text
    return text.strip("\r\n").rstrip()


def _within_budget(
    drafts: list[list[Piece]], counter: TextTokenizer, budget: int
) -> list[tuple[list[Piece], str, int]]:
    # Tokens of joined text are not quite the sum of the parts: a draft over the budget is halved and counted again.
    counted = _count(drafts, counter)
    while any(_too_long(entry, budget) for entry in counted):
        halves = [half for entry in counted if _too_long(entry, budget) for half in _halve(entry[0], counter)]
        recounted = iter(_count(halves, counter))
        following: list[tuple[list[Piece], str, int]] = []
        for entry in counted:
            following.extend((next(recounted), next(recounted)) if _too_long(entry, budget) else (entry,))
        counted = following
    return [entry for entry in counted if entry[1]]


def _too_long(entry: tuple[list[Piece], str, int], budget: int) -> bool:
    return entry[2] > budget and len(entry[1]) > 1


def _count(drafts: list[list[Piece]], counter: TextTokenizer) -> list[tuple[list[Piece], str, int]]:
    texts = [_text(draft) for draft in drafts]
    return list(zip(drafts, texts, counter.count_tokens(texts), strict=True))


def _halve(draft: list[Piece], counter: TextTokenizer) -> tuple[list[Piece], list[Piece]]:
    if len(draft) > 1:
        middle = len(draft) // 2
        return draft[:middle], draft[middle:]
    piece = draft[0]
    parts = split_piece(piece, counter, max_tokens=max(piece.token_count // 2, 1))
    if len(parts) == 1:
        # The tokenizer's offsets disagree with its counts: characters always get fewer.
        left, right = split_at(piece, len(piece.text) // 2)
        return [left], [right]
    return parts[:1], parts[1:]


def _text(draft: Iterable[Piece]) -> str:
    parts: list[str] = []
    for piece in draft:
        if parts and piece.separator:
            parts[-1] = parts[-1].rstrip()
            parts.append(piece.separator)
        parts.append(piece.text)
    return "".join(parts).strip("\r\n").rstrip()


def _chunk(blocks: Sequence[Block], position: int, draft: list[Piece], text: str, tokens: int) -> Chunk:
    body = [piece for piece in draft if not piece.is_heading] or draft
    first = blocks[body[0].block]
    return Chunk(
        position=position,
        text=text,
        heading_path=first.heading_path,
        page=blocks[draft[0].block].page,
        boxes=merge_boxes(_boxes(blocks, draft)),
        token_count=tokens,
        block_kind=_common_kind([blocks[piece.block] for piece in body]),
    )


def _boxes(blocks: Sequence[Block], draft: Iterable[Piece]) -> Iterable[Box]:
    for piece in draft:
        block = blocks[piece.block]
        if block.table is None:
            yield from boxes_of_range(block, piece.start, piece.start + len(piece.text.rstrip()))
        elif len(block.boxes) == len(block.table.rows):
            yield block.boxes[piece.start]
        else:
            yield from block.boxes


def _common_kind(blocks: Sequence[Block]) -> BlockKind:
    kinds = {block.kind for block in blocks}
    return kinds.pop() if len(kinds) == 1 else BlockKind.PARAGRAPH


def _invalid(setting: str, allowed: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "CHUNK_SETTING_INVALID", f"The setting {setting} must be {allowed}.", field=setting, setting=setting
    )
