"""Template `presentation`: one chunk a slide or page, with its picture."""

from dataclasses import dataclass

from corpusmesh_core.chunking.by_page import chunk_pages
from corpusmesh_core.chunking.settings import BudgetSettings
from corpusmesh_core.chunking.template import ChunkTemplate


@dataclass(frozen=True, slots=True)
class PresentationChunkSettings(BudgetSettings):
    """Settings of the template `presentation`, with those of `BudgetSettings`.

    Attributes:
        max_tokens: Budget; higher than elsewhere, since a slide should stay whole.
    """

    max_tokens: int = 478


TEMPLATE = ChunkTemplate(
    name="presentation",
    summary="One chunk a slide or page with its picture, split only above the budget.",
    settings_type=PresentationChunkSettings,
    chunk=chunk_pages,
)
