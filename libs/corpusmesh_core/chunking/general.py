"""Template `general`: running text packed to a token budget, under its headings, tables whole where they fit."""

from collections.abc import Sequence
from dataclasses import dataclass

from corpusmesh_core.chunking.assembly import chunk_groups, common_kind, picture_of
from corpusmesh_core.chunking.groups import HEADING_KINDS, Group
from corpusmesh_core.chunking.pieces import SKIPPED_KINDS, separator_before
from corpusmesh_core.chunking.places import merge_boxes
from corpusmesh_core.chunking.settings import MAX_BREAK_TOKENS, RunningTextSettings, require_range
from corpusmesh_core.chunking.tables import table_text
from corpusmesh_core.chunking.template import ChunkResult, ChunkTemplate
from corpusmesh_core.documents import Block, Chunk, ParsedDocument
from corpusmesh_core.ports.embedding import TextTokenizer


@dataclass(frozen=True, slots=True)
class GeneralChunkSettings(RunningTextSettings):
    """Settings of the template `general`, with those of `RunningTextSettings`.

    Attributes:
        heading_break_tokens: A heading starts a new chunk once the running one holds this many tokens.
    """

    heading_break_tokens: int = 96

    def __post_init__(self) -> None:
        """Refuse settings that cannot work.

        Raises:
            InvalidArgumentError: CHUNK_SETTING_INVALID with the field.
        """
        RunningTextSettings.__post_init__(self)
        require_range("heading_break_tokens", self.heading_break_tokens, 0, MAX_BREAK_TOKENS)


def chunk_general(document: ParsedDocument, counter: TextTokenizer, settings: GeneralChunkSettings) -> ChunkResult:
    """Cut a document into chunks of at most the budget, losing no text.

    Every visible character of every block but running heads and feet is in a chunk, in reading order. The same input
    gives the same chunks. The tokenizer is called a few times, each time with a batch.

    Args:
        document: What a parser made.
        counter: The embedder's tokenizer.
        settings: Budget, overlap and delimiters.

    Returns:
        Chunks in reading order, none if the document holds no text.
    """
    whole = _as_one_chunk(document.blocks, counter, settings)
    if whole is not None:
        return ChunkResult((whole,))
    group = Group(range(len(document.blocks)), break_tokens=settings.heading_break_tokens)
    return chunk_groups(document, document.blocks, [group], counter, settings)


TEMPLATE = ChunkTemplate(
    name="general",
    summary="Running text to a token budget under its headings; tables whole where they fit.",
    settings_type=GeneralChunkSettings,
    chunk=chunk_general,
)


def _as_one_chunk(blocks: Sequence[Block], counter: TextTokenizer, settings: GeneralChunkSettings) -> Chunk | None:
    # Most documents of a question-answering corpus are one paragraph: one count instead of two.
    if settings.exact_delimiters or settings.children_delimiter or settings.table_html:
        return None
    indexes: list[int] = []
    heading_count = 0
    room = 8 * settings.budget_tokens
    for index, block in enumerate(blocks):
        if block.kind in SKIPPED_KINDS:
            continue
        indexes.append(index)
        room -= len(block.text)
        heading_count += block.kind in HEADING_KINDS
        if room < 0 or heading_count > 1:
            return None
    if not indexes or blocks[indexes[0]].heading_path:
        return None
    held = [blocks[index] for index in indexes]
    text = "".join(separator_before(block) + _block_text(block) for block in held if _block_text(block)).strip("\r\n")
    if not text.strip():
        return None
    tokens = counter.count_tokens([text])[0]
    if tokens > settings.budget_tokens:
        return None
    body = [block for block in held if block.kind not in HEADING_KINDS] or held
    return Chunk(
        position=0,
        text=text,
        heading_path=body[0].heading_path,
        page=held[0].page,
        boxes=merge_boxes(box for block in held for box in block.boxes),
        token_count=tokens,
        block_kind=common_kind(body),
        picture=picture_of(blocks, indexes),
        confidence=min(block.confidence for block in held),
    )


def _block_text(block: Block) -> str:
    text = table_text(block.table.rows) if block.table is not None else block.text
    return text.strip("\r\n").rstrip()
