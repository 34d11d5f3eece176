"""The document model behind every format: blocks in reading order, each with its place.

Parsers make a `ParsedDocument`; chunkers read nothing else. Text never carries layout tags: boxes ride beside it
(lesson of `research/parsing.md` section 5).
"""

from collections.abc import Mapping
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
class CellSpan:
    """A cell of a table that covers more than its own place.

    Attributes:
        row: Its row from 0.
        column: Its column from 0.
        row_count: Rows that it covers, at least 1.
        column_count: Columns that it covers, at least 1.
    """

    row: int
    column: int
    row_count: int
    column_count: int


@dataclass(frozen=True, slots=True)
class Table:
    """Cells of a table, row by row.

    Attributes:
        rows: Rows of cell texts; a cell that a merged neighbour covers is empty.
        header_row_count: How many of the first rows are headers; 0 where unknown.
        spans: Cells that cover more than one place; the covered places are empty.
    """

    rows: tuple[tuple[str, ...], ...]
    header_row_count: int = 0
    spans: tuple[CellSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure of a document, or one of its pages as an image.

    Attributes:
        name: `[a-z0-9-]{1,40}`, unique in its document: "figure-3-1" (page, count), "page-3".
        media_type: "image/png" or "image/jpeg".
        content: The encoded image; b"" once it lies in the object store.
        width: Pixels.
        height: Pixels.
        box: Where it stands; None where the format has no geometry.
    """

    name: str
    media_type: str
    content: bytes = field(repr=False)
    width: int
    height: int
    box: Box | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a document in reading order.

    Attributes:
        kind: What it is.
        text: Its text; for a table one line per row, cells joined by " | ".
        level: Heading, list or (paragraphs of a mail) quotation depth from 1; 0 where it does not apply.
        page: Page, slide or sheet number from 1; 0 where the format has no pages.
        boxes: Where it stands; empty where the format has no geometry.
        heading_path: Texts of the headings above it, outermost first, without itself.
        table: The cells, for kind TABLE.
        line: Line number in the source from 1, for text formats; 0 elsewhere.
        language: BCP 47 primary tag where it differs from the document's, else "".
        confidence: How sure a recogniser was of the text, 0 to 1; 1.0 for text that did not have to be recognised.
        picture: Name of the picture that it shows, for kind FIGURE; "" elsewhere.
    """

    kind: BlockKind
    text: str
    level: int = 0
    page: int = 0
    boxes: tuple[Box, ...] = ()
    heading_path: tuple[str, ...] = ()
    table: Table | None = None
    line: int = 0
    language: str = ""
    confidence: float = 1.0
    picture: str = ""


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
        pictures: Its figures, in reading order.
        page_images: Its pages as images, where they were asked for.
        recognized_pages: Pages whose text was recognised in an image (OCR), from 1.
    """

    media_type: str
    title: str
    blocks: tuple[Block, ...]
    page_count: int = 0
    language: str = ""
    outline: tuple[OutlineEntry, ...] = ()
    warnings: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    pictures: tuple[Picture, ...] = ()
    page_images: tuple[Picture, ...] = ()
    recognized_pages: tuple[int, ...] = ()


class ChunkRole(StrEnum):
    """What a chunk is for."""

    TEXT = "text"
    """Searched and cited."""
    PARENT = "parent"
    """The larger piece around its children: read in their place, never searched."""
    TAG_EXAMPLE = "tag_example"
    """An example of a tag set: compared with chunks and questions that want tags."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A searchable piece of a document.

    Attributes:
        position: Place among the chunks of its role from 0, dense, in reading order.
        text: The text shown and cited.
        heading_path: Headings above it, outermost first.
        page: First page from 1; 0 where the format has none.
        boxes: Where its text stands, page by page in order.
        token_count: Tokens of `text` by the embedder's own tokenizer.
        block_kind: Kind of the blocks it holds (TABLE, CODE, … or PARAGRAPH for running text).
        role: What it is for.
        parent: Position of the chunk of role PARENT that it was cut from; -1 for none.
        context: What it needs to be understood alone (headings, caption, header of its table): goes before `text` where
            it is embedded and searched, and is not shown; "" for none.
        keywords: Words it should be found by.
        questions: Questions that it answers.
        tags: Tags of a tag set with their weights, above 0.
        attributes: Further values by name (column values of a row, sender of a mail, …), shown and not searched.
        picture: Name of the picture that it shows; "" for none.
        confidence: Least confidence of its blocks, 0 to 1.
        is_edited: Whether a person wrote or changed it.
    """

    position: int
    text: str
    heading_path: tuple[str, ...]
    page: int
    boxes: tuple[Box, ...]
    token_count: int
    block_kind: BlockKind = BlockKind.PARAGRAPH
    role: ChunkRole = ChunkRole.TEXT
    parent: int = -1
    context: str = ""
    keywords: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    tags: Mapping[str, float] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    picture: str = ""
    confidence: float = 1.0
    is_edited: bool = False
