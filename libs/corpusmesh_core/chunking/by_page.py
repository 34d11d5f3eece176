"""One chunk a page: what templates for slides and for images share."""

from collections.abc import Sequence
from itertools import groupby

from corpusmesh_core.chunking.assembly import chunk_groups
from corpusmesh_core.chunking.groups import Group
from corpusmesh_core.chunking.settings import BudgetSettings
from corpusmesh_core.chunking.template import ChunkResult
from corpusmesh_core.documents import Block, ParsedDocument
from corpusmesh_core.ports.embedding import TextTokenizer

_NEVER_BREAK = 1 << 30


def chunk_pages(document: ParsedDocument, counter: TextTokenizer, settings: BudgetSettings) -> ChunkResult:
    """Make one chunk of each page.

    Args:
        document: What a parser made.
        counter: The embedder's tokenizer.
        settings: Budget.

    Returns:
        One chunk a page with text, split only above the budget, each with the picture of its page: the image of the
        whole page where there is one, else the first figure on it, else the document's only picture.
    """
    blocks = document.blocks
    page_images = {f"page-{number}": number for number in range(1, document.page_count + 1)}
    images = {
        page_images[picture.name]: picture.name for picture in document.page_images if picture.name in page_images
    }
    groups: list[Group] = []
    for page, indexes in groupby(range(len(blocks)), key=lambda index: blocks[index].page):
        part = list(indexes)
        picture = images.get(page) or _first_figure(blocks, part) or _only_picture(document)
        groups.append(Group(part, break_tokens=_NEVER_BREAK, picture=picture))
    return chunk_groups(document, blocks, groups, counter, settings)


def _first_figure(blocks: Sequence[Block], indexes: Sequence[int]) -> str:
    return next((blocks[index].picture for index in indexes if blocks[index].picture), "")


def _only_picture(document: ParsedDocument) -> str:
    pictures = (*document.page_images, *document.pictures)
    return pictures[0].name if len(pictures) == 1 and document.page_count <= 1 else ""
