"""The document model behind every format: blocks in reading order, each with its place.

Parsers make a `ParsedDocument`; chunkers read nothing else. Text never carries layout tags: boxes ride beside it
(lesson of `research/parsing.md` section 5).
"""

from dataclasses import dataclass, field
from enum import StrEnum


class BlockKind(StrEnum):
    """What a block is."""

    TITLE = "title"
    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST_ITEM = "list_item"
    TABLE = "table"
    CODE = "code"
    FORMULA = "formula"
    FIGURE = "figure"
    CAPTION = "caption"
    HEADER = "header"
    FOOTER = "footer"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle on a page.

    Attributes:
        page: Page, slide or sheet number from 1.
        left: Points (1/72 inch) from the page's left edge.
        top: Points from the page's top edge.
        right: Points from the page's left edge, not less than `left`.
        bottom: Points from the page's top edge, not less than `top`.
    """

    page: int
    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Table:
    """Cells of a table, row by row.

    Attributes:
        rows: Rows of cell texts; a cell that a merged neighbour covers is empty.
        header_row_count: How many of the first rows are headers; 0 where unknown.
    """

    rows: tuple[tuple[str, ...], ...]
    header_row_count: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a document in reading order.

    Attributes:
        kind: What it is.
        text: Its text; for a table one line per row, cells joined by " | ".
        level: Heading or list depth from 1; 0 where it does not apply.
        page: Page, slide or sheet number from 1; 0 where the format has no pages.
        boxes: Where it stands; empty where the format has no geometry.
        heading_path: Texts of the headings above it, outermost first, without itself.
        table: The cells, for kind TABLE.
        line: Line number in the source from 1, for text formats; 0 elsewhere.
    """

    kind: BlockKind
    text: str
    level: int = 0
    page: int = 0
    boxes: tuple[Box, ...] = ()
    heading_path: tuple[str, ...] = ()
    table: Table | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """One entry of a document's own table of contents.

    Attributes:
        title: Its text.
        level: Depth from 1.
        page: Page it points at, from 1; 0 where unknown.
    """

    title: str
    level: int
    page: int


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """What a parser made of one file.

    Attributes:
        media_type: IANA media type decided from the content.
        title: The document's own title, "" where it has none.
        blocks: Blocks in reading order.
        page_count: Pages, slides or sheets; 0 where the format has none.
        language: BCP 47 primary tag of most of the text, "" where unknown.
        outline: The document's own table of contents.
        warnings: What could not be read, one sentence each, without document text.
        metadata: What the file says of itself (author, created, subject, sender, …).
    """

    media_type: str
    title: str
    blocks: tuple[Block, ...]
    page_count: int = 0
    language: str = ""
    outline: tuple[OutlineEntry, ...] = ()
    warnings: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A searchable piece of a document.

    Attributes:
        position: Place in the document from 0, dense.
        text: The text shown and cited.
        heading_path: Headings above it, outermost first.
        page: First page from 1; 0 where the format has none.
        boxes: Where its text stands, page by page in order.
        token_count: Tokens of `text` by the embedder's own tokenizer.
        block_kind: Kind of the blocks it holds (TABLE, CODE, … or PARAGRAPH for running text).
    """

    position: int
    text: str
    heading_path: tuple[str, ...]
    page: int
    boxes: tuple[Box, ...]
    token_count: int
    block_kind: BlockKind = BlockKind.PARAGRAPH
