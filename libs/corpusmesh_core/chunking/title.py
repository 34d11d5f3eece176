"""Template `title`: one chunk a heading section; small ones together, large ones apart."""

from dataclasses import dataclass

from corpusmesh_core.chunking.assembly import chunk_groups
from corpusmesh_core.chunking.groups import HEADING_KINDS, Group, most_frequent_level, runs
from corpusmesh_core.chunking.settings import MAX_BREAK_TOKENS, RunningTextSettings, require_range
from corpusmesh_core.chunking.template import ChunkResult, ChunkTemplate
from corpusmesh_core.documents import ParsedDocument
from corpusmesh_core.ports.embedding import TextTokenizer

_MAX_LEVEL = 9


@dataclass(frozen=True, slots=True)
class TitleChunkSettings(RunningTextSettings):
    """Settings of the template `title`, with those of `RunningTextSettings`.

    Attributes:
        level: No chunk goes over a heading of this level or one further out; 0 takes the level that most headings have.
        min_tokens: Below that level a heading starts a new chunk only once the running one holds this many tokens.
    """

    level: int = 0
    min_tokens: int = 64

    def __post_init__(self) -> None:
        """Refuse settings that cannot work.

        Raises:
            InvalidArgumentError: CHUNK_SETTING_INVALID with the field.
        """
        RunningTextSettings.__post_init__(self)
        require_range("level", self.level, 0, _MAX_LEVEL)
        require_range("min_tokens", self.min_tokens, 0, MAX_BREAK_TOKENS)


def chunk_title(document: ParsedDocument, counter: TextTokenizer, settings: TitleChunkSettings) -> ChunkResult:
    """Cut a document at its headings.

    Args:
        document: What a parser made.
        counter: The embedder's tokenizer.
        settings: Level, least size, budget.

    Returns:
        Chunks in reading order; no text is lost.
    """
    level = settings.level or most_frequent_level(document.blocks)
    parts = runs(document.blocks, lambda _, block: block.kind in HEADING_KINDS and block.level <= level)
    groups = [Group(part, break_tokens=settings.min_tokens) for part in parts]
    return chunk_groups(document, document.blocks, groups, counter, settings)


TEMPLATE = ChunkTemplate(
    name="title",
    summary="One chunk a heading section: small sections together, large ones split, never across a main heading.",
    settings_type=TitleChunkSettings,
    chunk=chunk_title,
)
