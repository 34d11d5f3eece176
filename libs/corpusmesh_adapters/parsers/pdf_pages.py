"""Reads the pages of a PDF one by one: what each holds, and what gave trouble."""

from dataclasses import dataclass, field

import pypdfium2 as pdfium

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source
from corpusmesh_adapters.parsers.failures import over_limit, page_list
from corpusmesh_adapters.parsers.pdf_calls import close_text_page, count_objects, handle_of, load_text_page
from corpusmesh_adapters.parsers.pdf_extras import PypdfView, vertical_lines
from corpusmesh_adapters.parsers.pdf_forms import FormField, read_fields
from corpusmesh_adapters.parsers.pdf_frames import Frame, Line
from corpusmesh_adapters.parsers.pdf_images import covers_most, cut_figures, encode_jpeg, image_boxes, render
from corpusmesh_adapters.parsers.pdf_layout import order_lines
from corpusmesh_adapters.parsers.pdf_line_parts import is_vertical_cjk
from corpusmesh_adapters.parsers.pdf_lines import LineReader
from corpusmesh_adapters.parsers.pdf_quality import is_arabic, judge_layer, spaced_arabic
from corpusmesh_adapters.parsers.pdf_recognition import PageRecognizer
from corpusmesh_adapters.parsers.pdf_tables import Table, TableFinder
from corpusmesh_core.documents import Block, Box, Picture

_THIN_LAYER_CHARACTERS = 100
_NOT_RECOGNIZED = "reading text in pictures (OCR) is turned off or not installed"
_FIRST_CHARACTERS = 64


@dataclass(slots=True)
class Page:
    """What was read of one page.

    Attributes:
        frame: Its coordinates.
        lines: Its lines in reading order.
        tables: Its ruled tables.
        fields: Form fields with a value.
        blocks: What was recognised, where the page was read as an image; it has no lines then.
        figures: Figures that were cut out, without names.
    """

    frame: Frame
    lines: list[Line] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    fields: list[FormField] = field(default_factory=list)
    blocks: tuple[Block, ...] = ()
    figures: list[Picture] = field(default_factory=list)


class PageReader:
    """Reads the pages of one document; no page stays open."""

    def __init__(self, source: Source, builder: DocumentBuilder) -> None:
        """Start with a document.

        Args:
            source: The document.
            builder: Takes the images of whole pages.
        """
        self._source = source
        self._builder = builder
        self._reader = LineReader()
        self._tables = TableFinder(self._reader)
        self.view = PypdfView(source.content, source.options.password)
        self._recognizer = PageRecognizer(source.options)
        self._figure_count = self._figure_bytes = self._left_out = self._image_bytes = 0
        self.failed: list[int] = []
        self.without_text: list[int] = []
        self.garbled: list[int] = []
        self._read_again: list[int] = []
        self._not_shown: list[int] = []
        self._without_image: list[int] = []

    def read(self, pdf: pdfium.PdfDocument, page_count: int) -> list[Page]:
        """Read all pages.

        Args:
            pdf: The document.
            page_count: How many pages it has.

        Returns:
            The pages that can be read.

        Raises:
            DocumentError: DOCUMENT_RESOURCE_LIMIT if their text is too long.
        """
        limit = self._source.limits.max_text_characters
        pages: list[Page] = []
        characters = 0
        for index in range(page_count):
            try:
                page = pdf[index]
            except (pdfium.PdfiumError, IndexError):
                self.failed.append(index + 1)
                continue
            try:
                read = self._page(page, index)
            except pdfium.PdfiumError:
                self.failed.append(index + 1)
                continue
            finally:
                page.close()
            characters += sum([len(line.text) for line in read.lines])
            if characters > limit:
                detail = f"its first {index + 1} pages have {characters} characters"
                raise over_limit("max_text_characters", limit, detail)
            pages.append(read)
        return pages

    def warn(self) -> None:
        """Tell the builder which pages gave trouble, and which were recognised."""
        builder, recognizer = self._builder, self._recognizer
        for number in recognizer.recognized:
            builder.note_recognized(number)
        if self.failed:
            builder.warn(f"Pages that cannot be read: {page_list(self.failed)}.")
        if self.without_text:
            builder.warn(f"Pages without text: {page_list(self.without_text)}{self._why_not()}.")
        if self.garbled:
            pages = page_list(self.garbled)
            builder.warn(f"Pages whose text layer is garbled and was left out: {pages}{self._why_not()}.")
        if self._read_again:
            pages = page_list(self._read_again)
            builder.warn(f"Pages whose text was GBK shown as Latin-1 and was read again: {pages}.")
        if recognizer.failed:
            builder.warn(f"Pages on which reading text in pictures (OCR) failed: {page_list(recognizer.failed)}.")
        if recognizer.beyond_limit:
            limit = self._source.limits.max_recognized_pages
            pages = page_list(recognizer.beyond_limit)
            builder.warn(f"Pages beyond max_recognized_pages={limit} whose pictures were not read: {pages}.")
        if self._not_shown:
            builder.warn(f"Pages that cannot be shown as an image: {page_list(self._not_shown)}.")
        if self._without_image:
            limit = self._source.limits.max_picture_bytes
            builder.warn(f"Pages beyond max_picture_bytes={limit} without an image: {page_list(self._without_image)}.")
        if self._left_out:
            builder.warn(f"{self._left_out} figures were left out: they are too many or too large together.")

    def why_empty(self, page_count: int) -> str:
        """Say what a document without text holds instead.

        Args:
            page_count: How many pages it has.

        Returns:
            The detail of the error.
        """
        if self.garbled:
            return f"the text layer of its {len(self.garbled)} pages is garbled{self._why_not()}"
        if self._recognizer.recognized:
            return f"no text was found in the pictures of its {page_count} pages"
        advice = "" if self._recognizer.is_available else "; run it through an OCR program first"
        return f"its {page_count} pages hold pictures at most{self._why_not()}{advice}"

    def _why_not(self) -> str:
        return "" if self._recognizer.is_available else f"; {_NOT_RECOGNIZED}"

    def _page(self, page: pdfium.PdfPage, index: int) -> Page:
        left, bottom, right, top = page.get_bbox()
        frame = Frame(index + 1, left, bottom, right, top, page.get_rotation())
        read = Page(frame)
        if page.formenv is not None:
            read.fields = read_fields(page.formenv, page, frame)
        images: list[Box] | None = None
        if self._recognizer.wants_every_page:
            blocks = self._recognizer.read(page, frame)
            if blocks is not None:
                read.blocks = blocks
        if not read.blocks:
            images = self._text(page, read, index)
        self._pictures(page, read, images)
        return read

    def _text(self, page: pdfium.PdfPage, read: Page, index: int) -> list[Box] | None:
        """Read a page's text layer, or recognise the page where that is not worth reading; its images where known."""
        # pypdfium2's own text page costs 50 µs more, most of it for a finaliser that is not needed here.
        text_page = load_text_page(handle_of(page))
        if not text_page:
            raise pdfium.PdfiumError("no text page")
        try:
            is_good = self._layer(page, text_page, read, index)
        finally:
            close_text_page(text_page)
        if is_good and sum([len(line.text) for line in read.lines[:_FIRST_CHARACTERS]]) >= _THIN_LAYER_CHARACTERS:
            return None
        images: list[Box] | None = None
        if is_good and read.lines:
            images = image_boxes(page, read.frame)
            if not covers_most(images, read.frame):
                return images
        is_blank = is_good and not read.lines and not count_objects(handle_of(page))
        blocks = None if is_blank else self._recognizer.read(page, read.frame)
        if blocks:
            read.blocks, read.lines, read.tables = blocks, [], []
        elif not is_good:
            self.garbled.append(index + 1)
        elif not read.lines:
            self.without_text.append(index + 1)
        return images

    def _layer(self, page: pdfium.PdfPage, text_page: int, read: Page, index: int) -> bool:
        """Read a page's text layer; False where it is garbled."""
        frame = read.frame
        lines = self._reader.read(text_page, frame)
        if not lines:
            return True
        text = self._reader.text
        if not text.isascii() or judge_layer(text).is_garbled:
            text = "\n".join([line.text for line in lines])
            verdict = judge_layer(text)
            if verdict.is_garbled:
                if not verdict.gbk_text:
                    return False
                self._read_again.append(index + 1)
                read.lines = order_lines(_replaced(lines, verdict.gbk_text, frame), frame.width)
                return True
            if is_vertical_cjk(lines):
                # PDFium leaves out part of such lines.
                columns = vertical_lines(self._source.content, self._source.options.password, index, frame)
                read.lines = order_lines(columns or lines, frame.width)
                return True
            if is_arabic(text):
                for line in lines:
                    line.text = spaced_arabic(line.text)
        read.tables = self._tables.find(page, frame)
        read.lines = order_lines(lines, frame.width)
        return True

    def _pictures(self, page: pdfium.PdfPage, read: Page, images: list[Box] | None) -> None:
        options, limits = self._source.options, self._source.limits
        try:
            if options.render_pages:
                self._show(page, read.frame)
            if options.keep_pictures and self._figure_count < limits.max_pictures:
                boxes = image_boxes(page, read.frame) if images is None else images
                self._keep(read, cut_figures(page, read.frame, boxes, max_pixels=limits.max_pixels))
        except (pdfium.PdfiumError, ValueError, OSError):
            self._not_shown.append(read.frame.page)

    def _show(self, page: pdfium.PdfPage, frame: Frame) -> None:
        """Keep a page as an image, as long as there is room: rendering what is not kept would take time for nothing."""
        options, limits = self._source.options, self._source.limits
        if self._image_bytes < limits.max_picture_bytes:
            pixels, _ = render(page, frame, dots_per_inch=options.render_dots_per_inch, max_pixels=limits.max_pixels)
            content = encode_jpeg(pixels)
            self._image_bytes += len(content)
            if self._image_bytes <= limits.max_picture_bytes:
                height, width = pixels.shape[:2]
                self._builder.add_page_image(
                    content, media_type="image/jpeg", width=width, height=height, page=frame.page
                )
                return
        self._without_image.append(frame.page)

    def _keep(self, read: Page, figures: list[Picture]) -> None:
        limits = self._source.limits
        for figure in figures:
            fits = self._figure_bytes + len(figure.content) <= limits.max_picture_bytes
            if not fits or self._figure_count >= limits.max_pictures:
                self._left_out += 1
                continue
            self._figure_count += 1
            self._figure_bytes += len(figure.content)
            read.figures.append(figure)


def _replaced(lines: list[Line], text: str, frame: Frame) -> list[Line]:
    """Put better text into lines; where the lines do not match, each gets the box of all of them."""
    better = [line.strip() for line in text.splitlines() if line.strip()]
    if not better:
        return lines
    if len(better) == len(lines):
        return [
            Line(new, line.box, line.size, line.bold, direction=line.direction)
            for new, line in zip(better, lines, strict=True)
        ]
    whole = Box(
        frame.page,
        min(line.box.left for line in lines),
        min(line.box.top for line in lines),
        max(line.box.right for line in lines),
        max(line.box.bottom for line in lines),
    )
    return [Line(new, whole, lines[0].size) for new in better]
