"""Collects the blocks of one document: cleans text, keeps the heading path, enforces the limits on what comes out."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from corpusmesh_adapters.parsers.cleaning import clean, one_line
from corpusmesh_adapters.parsers.failures import empty, over_limit
from corpusmesh_adapters.parsers.grids import guess_header_row_count, header_rows_with_spans, kept_spans
from corpusmesh_adapters.parsers.languages import believed_language, detect_language, foreign_language
from corpusmesh_adapters.parsers.source import Source
from corpusmesh_core.chunking.tables import table_text
from corpusmesh_core.documents import (
    Block,
    BlockKind,
    Box,
    CellSpan,
    OutlineEntry,
    ParsedDocument,
    Picture,
    Table,
)
from corpusmesh_core.ports.parsing import ParseLimits

__all__ = ["DocumentBuilder", "Source", "clean", "guess_header_row_count", "one_line"]

_MAX_WARNINGS = 100
_MAX_METADATA_CHARACTERS = 1_000
_MAX_HEADING_CHARACTERS = 300


class DocumentBuilder:
    """Blocks of one document in reading order."""

    def __init__(self, media_type: str, limits: ParseLimits, *, keep_pictures: bool = False) -> None:
        """Start a document.

        Args:
            media_type: IANA media type decided from the content.
            limits: What may come out.
            keep_pictures: Whether figures are kept as images.
        """
        self._media_type = media_type
        self._limits = limits
        self._keep_pictures = keep_pictures
        self._pictures: list[Picture] = []
        self._page_images: list[Picture] = []
        self._picture_bytes = 0
        self._left_out_picture_count = 0
        self._recognized_pages: list[int] = []
        self._blocks: list[Block] = []
        self._path: list[tuple[int, str]] = []
        self._warnings: list[str] = []
        self._more_warning_count = 0
        self._characters = 0
        self._rows = 0
        self._cells = 0

    def text(self) -> str:
        """Join the texts of all blocks so far.

        Returns:
            One text, blocks parted by line breaks.
        """
        return "\n".join(block.text for block in self._blocks)

    def first_text(self, kind: BlockKind) -> str:
        """Find the first block of a kind.

        Args:
            kind: What to look for.

        Returns:
            Its text, "" if there is none.
        """
        return next((block.text for block in self._blocks if block.kind is kind), "")

    def add(
        self,
        kind: BlockKind,
        text: str,
        *,
        level: int = 0,
        page: int = 0,
        boxes: Iterable[Box] = (),
        line: int = 0,
        confidence: float = 1.0,
    ) -> None:
        """Add a block; one without visible text is left out.

        Args:
            kind: What it is.
            text: Its text.
            level: Heading or list depth from 1.
            page: Page from 1, 0 where there are none.
            boxes: Where it stands.
            line: Line in the source from 1, 0 elsewhere.
            confidence: How sure a recogniser was, 0 to 1; 1.0 for text that was read.

        Raises:
            DocumentError: DOCUMENT_RESOURCE_LIMIT if the document's text is too long.
        """
        text = clean(text).strip("\n").rstrip()
        if not text.strip():
            return
        self._count(len(text))
        if kind is BlockKind.HEADING:
            text = one_line(text)
            while self._path and self._path[-1][0] >= level:
                self._path.pop()
        path = tuple(title for _, title in self._path)
        self._blocks.append(Block(kind, text, level, page, tuple(boxes), path, None, line, confidence=confidence))
        if kind is BlockKind.HEADING:
            self._path.append((level, text[:_MAX_HEADING_CHARACTERS]))

    def add_table(
        self,
        rows: Iterable[Sequence[str]],
        *,
        header_row_count: int | None = None,
        spans: Iterable[CellSpan] = (),
        page: int = 0,
        boxes: Iterable[Box] = (),
        line: int = 0,
        confidence: float = 1.0,
    ) -> None:
        """Add a table; rows and columns at its edges that hold nothing are left out.

        Args:
            rows: Cell texts; covered cells empty.
            header_row_count: Leading rows that are headers; None guesses.
            spans: Cells that cover more than one place.
            page: Page from 1, 0 where there are none.
            boxes: Where it stands; one box per row, or boxes of the whole.
            line: Line in the source from 1, 0 elsewhere.
            confidence: How sure a recogniser was, 0 to 1.

        Raises:
            DocumentError: DOCUMENT_RESOURCE_LIMIT if the document has too many rows, cells or characters.
        """
        cells = [tuple(one_line(clean(cell)) for cell in row) for row in rows]
        places = tuple(boxes)
        if len(places) == len(cells):
            places = tuple(place for place, row in zip(places, cells, strict=True) if any(row))
        numbers = [index for index, row in enumerate(cells) if any(row)]
        kept = [cells[index] for index in numbers]
        if not kept:
            return
        width = max(len(row) for row in kept)
        while width > 1 and not any(len(row) >= width and row[width - 1] for row in kept):
            width -= 1
        kept = [row[:width] + ("",) * (width - len(row)) for row in kept]
        self.count_rows(len(kept), len(kept) * width)
        text = table_text(kept)
        self._count(len(text))
        placed = kept_spans(spans, numbers, width)
        headers = header_row_count
        if headers is None or headers == 1:
            headers = max(guess_header_row_count(kept, placed), headers or 0)
        headers = min(headers, len(kept))
        reach = header_rows_with_spans(headers, placed)
        headers = reach if reach < len(kept) else headers
        self._blocks.append(
            Block(
                BlockKind.TABLE,
                text,
                page=page,
                boxes=places,
                heading_path=tuple(title for _, title in self._path),
                table=Table(tuple(kept), headers, placed),
                line=line,
                confidence=confidence,
            )
        )

    def add_picture(
        self,
        content: bytes,
        *,
        media_type: str,
        width: int,
        height: int,
        text: str = "",
        page: int = 0,
        box: Box | None = None,
    ) -> None:
        """Add a figure; where figures are not kept, only its text.

        Args:
            content: The encoded image; b"" where it is not to be had.
            media_type: "image/png" or "image/jpeg".
            width: Pixels.
            height: Pixels.
            text: What the document says of it (alternative text), or what stands in it.
            page: Page from 1, 0 where there are none.
            box: Where it stands.
        """
        name = ""
        if content and self._keep_pictures and self._takes_picture(content, width * height):
            name = f"figure-{page}-{len(self._pictures) + 1}"
            self._pictures.append(Picture(name, media_type, content, width, height, box))
        text = clean(text).strip()
        if not name and not text:
            return
        self._count(len(text))
        path = tuple(title for _, title in self._path)
        boxes = (box,) if box is not None else ()
        self._blocks.append(Block(BlockKind.FIGURE, text, 0, page, boxes, path, picture=name))

    def add_page_image(self, content: bytes, *, media_type: str, width: int, height: int, page: int) -> None:
        """Keep a page as an image.

        Args:
            content: The encoded image.
            media_type: "image/png" or "image/jpeg".
            width: Pixels.
            height: Pixels.
            page: Page from 1.
        """
        if self._takes_picture(content, width * height, is_page=True):
            self._page_images.append(Picture(f"page-{page}", media_type, content, width, height))

    def note_recognized(self, page: int) -> None:
        """Note that the text of a page was recognised in an image.

        Args:
            page: Page from 1.
        """
        self._recognized_pages.append(page)

    def _takes_picture(self, content: bytes, pixel_count: int, *, is_page: bool = False) -> bool:
        fits = (
            pixel_count <= self._limits.max_pixels
            and self._picture_bytes + len(content) <= self._limits.max_picture_bytes
            and (is_page or len(self._pictures) < self._limits.max_pictures)
        )
        if fits:
            self._picture_bytes += len(content)
        else:
            self._left_out_picture_count += 1
        return fits

    def count_rows(self, rows: int, cells: int) -> None:
        """Count table rows and cells against the limits.

        Args:
            rows: Rows more.
            cells: Cells more.

        Raises:
            DocumentError: DOCUMENT_RESOURCE_LIMIT if there are too many.
        """
        self._rows += rows
        self._cells += cells
        if self._rows > self._limits.max_rows:
            raise over_limit("max_rows", self._limits.max_rows, f"it has at least {self._rows} table rows")
        if self._cells > self._limits.max_cells:
            raise over_limit("max_cells", self._limits.max_cells, f"it has at least {self._cells} table cells")

    def extend(self, document: ParsedDocument) -> None:
        """Take in the blocks of a document inside this one, under the open headings.

        Args:
            document: A parsed attachment; its pages are not pages of this document.

        Raises:
            DocumentError: DOCUMENT_RESOURCE_LIMIT if together they are too long.
        """
        above = tuple(title for _, title in self._path)
        names = {picture.name: self._take_over(picture) for picture in document.pictures}
        for block in document.blocks:
            self._count(len(block.text))
            if block.table is not None:
                self.count_rows(len(block.table.rows), sum(map(len, block.table.rows)))
            picture = names.get(block.picture, "")
            if not block.text and not picture:
                continue
            path = above + block.heading_path
            self._blocks.append(replace(block, page=0, boxes=(), heading_path=path, picture=picture))
        for warning in document.warnings:
            self.warn(warning)

    def _take_over(self, picture: Picture) -> str:
        if not self._keep_pictures or not self._takes_picture(picture.content, picture.width * picture.height):
            return ""
        name = f"figure-0-{len(self._pictures) + 1}"
        self._pictures.append(replace(picture, name=name, box=None))
        return name

    def close_headings(self, level: int) -> None:
        """End the sections of a level and below.

        Args:
            level: Outermost level to end.
        """
        while self._path and self._path[-1][0] >= level:
            self._path.pop()

    def warn(self, warning: str) -> None:
        """Note what could not be read; beyond a hundred notes only their number grows.

        Args:
            warning: One sentence without document text.
        """
        if len(self._warnings) >= _MAX_WARNINGS:
            self._more_warning_count += 1
        elif warning not in self._warnings:
            self._warnings.append(warning)

    def build(
        self,
        *,
        title: str = "",
        page_count: int = 0,
        outline: Iterable[OutlineEntry] = (),
        metadata: dict[str, str] | None = None,
        declared_language: str = "",
        empty_detail: str = "it has no letters in it",
    ) -> ParsedDocument:
        """Finish the document.

        Args:
            title: Its own title.
            page_count: Pages, slides or sheets.
            outline: Its own table of contents.
            metadata: What it says of itself; empty values are left out.
            declared_language: BCP 47 tag that it gives itself; believed where its letters do not say otherwise.
            empty_detail: What it holds where it has no text.

        Returns:
            The document.

        Raises:
            DocumentError: DOCUMENT_EMPTY if no block has text.
        """
        if not any(block.text for block in self._blocks):
            raise empty(empty_detail)
        if self._left_out_picture_count:
            self.warn(f"{self._left_out_picture_count} pictures were left out: they are too large or too many.")
        warnings = list(self._warnings)
        if self._more_warning_count:
            warnings.append(f"{self._more_warning_count} more warnings are not shown.")
        facts = {key: one_line(clean(value))[:_MAX_METADATA_CHARACTERS] for key, value in (metadata or {}).items()}
        found = detect_language(block.text for block in self._blocks)
        language = believed_language(declared_language, found)
        return ParsedDocument(
            media_type=self._media_type,
            title=one_line(clean(title))[:_MAX_HEADING_CHARACTERS],
            blocks=tuple(_with_language(block, language) for block in self._blocks),
            page_count=page_count,
            language=language,
            outline=tuple(outline),
            warnings=tuple(warnings),
            metadata={key: value for key, value in facts.items() if value},
            pictures=tuple(self._pictures),
            page_images=tuple(self._page_images),
            recognized_pages=tuple(self._recognized_pages),
        )

    def _count(self, characters: int) -> None:
        self._characters += characters
        if self._characters > self._limits.max_text_characters:
            raise over_limit(
                "max_text_characters",
                self._limits.max_text_characters,
                f"it has at least {self._characters} characters of text",
            )


def _with_language(block: Block, of_document: str) -> Block:
    foreign = foreign_language(block.text, of_document)
    return replace(block, language=foreign) if foreign and not block.language else block
