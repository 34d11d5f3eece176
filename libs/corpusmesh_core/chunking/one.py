"""Template `one`: the whole document as one chunk, where the embedder reads that much."""

from dataclasses import dataclass, replace

from corpusmesh_core.chunking.assembly import chunk_groups
from corpusmesh_core.chunking.groups import Group
from corpusmesh_core.chunking.settings import BudgetSettings
from corpusmesh_core.chunking.template import ChunkResult, ChunkTemplate
from corpusmesh_core.documents import ParsedDocument
from corpusmesh_core.ports.embedding import TextTokenizer

_NEVER_BREAK = 1 << 30


@dataclass(frozen=True, slots=True)
class OneChunkSettings(BudgetSettings):
    """Settings of the template `one`, with those of `BudgetSettings`.

    Attributes:
        max_tokens: Budget of the chunk; by default what the embedder reads decides.
    """

    max_tokens: int = 32_768


def chunk_one(document: ParsedDocument, counter: TextTokenizer, settings: OneChunkSettings) -> ChunkResult:
    """Make one chunk of a document.

    Args:
        document: What a parser made.
        counter: The embedder's tokenizer.
        settings: Budget.

    Returns:
        One chunk. A document over the budget is split, never cut off, and a warning says so.
    """
    group = Group(range(len(document.blocks)), break_tokens=_NEVER_BREAK)
    # One chunk begins with the document and needs no context, so no room is kept for one.
    result = chunk_groups(document, document.blocks, [group], counter, replace(settings, contextual_header=False))
    if len(result.chunks) < 2:
        return result
    result = chunk_groups(document, document.blocks, [group], counter, settings)
    warning = (
        f"The document is longer than one chunk of {settings.budget_tokens} tokens and was split into"
        f" {len(result.chunks)}."
    )
    return ChunkResult(result.chunks, (warning, *result.warnings))


TEMPLATE = ChunkTemplate(
    name="one",
    summary="The whole document as one chunk where the embedder reads that much, else split with a warning.",
    settings_type=OneChunkSettings,
    chunk=chunk_one,
)
