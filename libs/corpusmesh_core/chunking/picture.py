"""Template `picture`: the text recognised in an image, and what the file says of it, as one chunk with the image."""

from dataclasses import dataclass

from corpusmesh_core.chunking.by_page import chunk_pages
from corpusmesh_core.chunking.settings import BudgetSettings
from corpusmesh_core.chunking.template import ChunkTemplate


@dataclass(frozen=True, slots=True)
class PictureChunkSettings(BudgetSettings):
    """Settings of the template `picture`, with those of `BudgetSettings`.

    Attributes:
        max_tokens: Budget; higher than elsewhere, since an image should stay whole.
        contextual_header: Off: an image has no headings above it, and its largest line is no heading of the others.
    """

    max_tokens: int = 478
    contextual_header: bool = False


TEMPLATE = ChunkTemplate(
    name="picture",
    summary="The recognised text and caption of an image as one chunk that shows the image.",
    settings_type=PictureChunkSettings,
    chunk=chunk_pages,
)
