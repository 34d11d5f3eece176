"""Template `book`: chapters and their sections by numbering, without the contents pages."""

from dataclasses import dataclass

from corpusmesh_core.chunking.assembly import chunk_groups
from corpusmesh_core.chunking.contents import contents_blocks
from corpusmesh_core.chunking.groups import HEADING_KINDS, Group, runs
from corpusmesh_core.chunking.headings import number_headings
from corpusmesh_core.chunking.settings import MAX_BREAK_TOKENS, RunningTextSettings, require_range
from corpusmesh_core.chunking.template import ChunkResult, ChunkTemplate
from corpusmesh_core.documents import Block, BlockKind, ParsedDocument
from corpusmesh_core.ports.embedding import TextTokenizer

_MAX_DEPTH = 9


@dataclass(frozen=True, slots=True)
class BookChunkSettings(RunningTextSettings):
    """Settings of the template `book`, with those of `RunningTextSettings`.

    Attributes:
        depth: Headings down to this depth, chapters being 1, start a new chunk …
        min_tokens: … once the running one holds this many tokens. No chunk goes over a chapter.
        drop_contents: Whether contents pages are left out: they say again what the headings say.
    """

    depth: int = 5
    min_tokens: int = 96
    drop_contents: bool = True

    def __post_init__(self) -> None:
        """Refuse settings that cannot work.

        Raises:
            InvalidArgumentError: CHUNK_SETTING_INVALID with the field.
        """
        RunningTextSettings.__post_init__(self)
        require_range("depth", self.depth, 1, _MAX_DEPTH)
        require_range("min_tokens", self.min_tokens, 0, MAX_BREAK_TOKENS)


def chunk_book(document: ParsedDocument, counter: TextTokenizer, settings: BookChunkSettings) -> ChunkResult:
    """Cut a book along its chapters and sections.

    Args:
        document: What a parser made.
        counter: The embedder's tokenizer.
        settings: Depth, least size, budget.

    Returns:
        Chunks in reading order; no text but contents pages is lost.
    """
    dropped = contents_blocks(document.blocks) if settings.drop_contents else frozenset()
    kept = [block for index, block in enumerate(document.blocks) if index not in dropped]
    blocks = number_headings(kept)
    chapter = _chapter_level(blocks)
    parts = runs(blocks, lambda _, block: block.kind in HEADING_KINDS and block.level <= chapter)
    groups = [Group(part, break_level=chapter + settings.depth - 1, break_tokens=settings.min_tokens) for part in parts]
    return chunk_groups(document, blocks, groups, counter, settings)


def _chapter_level(blocks: list[Block]) -> int:
    """Find the outermost level with several headings: a single one is the book's own title."""
    counts: dict[int, int] = {}
    for block in blocks:
        if block.kind is BlockKind.HEADING:
            counts[block.level] = counts.get(block.level, 0) + 1
    return min((level for level, count in counts.items() if count > 1), default=1)


TEMPLATE = ChunkTemplate(
    name="book",
    summary="Chapters and sections by numbering (第…章, 1.1.1, 一、, Chapter, #), contents pages left out.",
    settings_type=BookChunkSettings,
    chunk=chunk_book,
)
