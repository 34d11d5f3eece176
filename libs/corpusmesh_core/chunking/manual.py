"""Template `manual`: the sections of a handbook, by its outline or its numbering, small pieces together."""

from dataclasses import dataclass

from corpusmesh_core.chunking.assembly import chunk_groups
from corpusmesh_core.chunking.groups import Group, most_frequent_level
from corpusmesh_core.chunking.headings import number_headings, outline_headings
from corpusmesh_core.chunking.settings import MAX_BREAK_TOKENS, RunningTextSettings, require_range
from corpusmesh_core.chunking.template import ChunkResult, ChunkTemplate
from corpusmesh_core.documents import ParsedDocument
from corpusmesh_core.ports.embedding import TextTokenizer

_MAX_LEVEL = 9


@dataclass(frozen=True, slots=True)
class ManualChunkSettings(RunningTextSettings):
    """Settings of the template `manual`, with those of `RunningTextSettings`.

    Attributes:
        level: A heading of this level or one further out starts a new chunk; 0 takes the level that most headings have.
            What lies below is merged up to the budget.
        min_tokens: … once the running chunk holds this many tokens: a smaller section goes with the next one.
    """

    level: int = 0
    min_tokens: int = 32

    def __post_init__(self) -> None:
        """Refuse settings that cannot work.

        Raises:
            InvalidArgumentError: CHUNK_SETTING_INVALID with the field.
        """
        RunningTextSettings.__post_init__(self)
        require_range("level", self.level, 0, _MAX_LEVEL)
        require_range("min_tokens", self.min_tokens, 0, MAX_BREAK_TOKENS)


def chunk_manual(document: ParsedDocument, counter: TextTokenizer, settings: ManualChunkSettings) -> ChunkResult:
    """Cut a handbook into its sections.

    Headings come from the document's outline where it has one that fits the text, else from the parser and from the
    numbering of lines.

    Args:
        document: What a parser made.
        counter: The embedder's tokenizer.
        settings: Level, least size, budget.

    Returns:
        Chunks in reading order; no text is lost.
    """
    blocks = outline_headings(document.blocks, document.outline) or number_headings(document.blocks)
    level = settings.level or most_frequent_level(blocks)
    group = Group(range(len(blocks)), break_level=level, break_tokens=settings.min_tokens)
    return chunk_groups(document, blocks, [group], counter, settings)


TEMPLATE = ChunkTemplate(
    name="manual",
    summary="Sections by outline or numbering, with the small pieces of a section merged up to the budget.",
    settings_type=ManualChunkSettings,
    chunk=chunk_manual,
)
