"""PDF: text lines by PDFium, ruled tables, headings by look and outline, form values; pages one by one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source
from corpusmesh_adapters.parsers.failures import corrupt, encrypted, over_limit, page_list
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.pdf_extras import PypdfView, vertical_lines
from corpusmesh_adapters.parsers.pdf_forms import FormField, read_fields
from corpusmesh_adapters.parsers.pdf_layout import (
    LIST_MARKER,
    Paragraph,
    group_lines,
    main_direction,
    order_lines,
)
from corpusmesh_adapters.parsers.pdf_lines import Frame, Line, LineReader, is_vertical_cjk
from corpusmesh_adapters.parsers.pdf_quality import is_arabic, judge_layer
from corpusmesh_adapters.parsers.pdf_structure import HeadingRules, borderless_table, learn_headings, running_lines
from corpusmesh_adapters.parsers.pdf_tables import RuledTable, find_ruled_tables
from corpusmesh_core.documents import BlockKind, Box, OutlineEntry, ParsedDocument

_MAX_OUTLINE_ENTRIES = 5_000
_MAX_OUTLINE_DEPTH = 12
_MIN_HELD_SHARE = 0.98
_MAX_HELD_SHARE = 1.05
_NO_OCR = "reading text in pictures (OCR) is not part of this build"
_METADATA = {"Author": "author", "Subject": "subject", "Keywords": "keywords", "CreationDate": "created"}


@dataclass(slots=True)
class _Page:
    """What was read of one page."""

    frame: Frame
    lines: list[Line] = field(default_factory=list)
    tables: list[RuledTable] = field(default_factory=list)
    fields: list[FormField] = field(default_factory=list)


@dataclass(slots=True)
class _Reading:
    """What was read of a document so far, and which pages gave trouble."""

    pages: list[_Page] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    without_text: list[int] = field(default_factory=list)
    garbled: list[int] = field(default_factory=list)
    read_again: list[int] = field(default_factory=list)


def parse_pdf(source: Source) -> ParsedDocument:
    """Read a PDF.

    Args:
        source: The document.

    Returns:
        Blocks with a box per line in points from the page's top left; running heads and feet once each; tables with a
        box per row. Pages that cannot be read, or hold no or garbled text, are named in the warnings.

    Raises:
        DocumentError: DOCUMENT_ENCRYPTED, DOCUMENT_CORRUPT, DOCUMENT_EMPTY (no text on any page) or
            DOCUMENT_RESOURCE_LIMIT.
    """
    pdf = _open(source)
    try:
        page_count = len(pdf)
        if pdf.get_formtype() != pdfium_c.FORMTYPE_NONE:
            pdf.init_forms()
        if page_count > source.limits.max_pages:
            raise over_limit("max_pages", source.limits.max_pages, f"it has {page_count} pages")
        builder = DocumentBuilder(Format.PDF, source.limits)
        view = PypdfView(source.content, source.options.password)
        reading = _read_pages(pdf, page_count, view, source)
        outline = _outline(pdf)
        _add_pages(builder, reading.pages, outline)
        metadata = _metadata(pdf, builder)
    finally:
        pdf.close()
    _warn(builder, reading)
    title = metadata.pop("title", "") or builder.first_text(BlockKind.TITLE)
    return builder.build(
        title=title,
        page_count=page_count,
        outline=outline,
        metadata=metadata,
        empty_detail=_empty_detail(reading, page_count),
    )


def _open(source: Source) -> pdfium.PdfDocument:
    try:
        pdf = pdfium.PdfDocument(source.content, password=source.options.password)
        if len(pdf) == 0:
            pdf.close()
            raise corrupt("it has no pages that can be found")
    except pdfium.PdfiumError as error:
        code = getattr(error, "err_code", None)
        # PDFium's error of an earlier document may linger: without encryption in the file, it is not about a password.
        if code == pdfium_c.FPDF_ERR_PASSWORD and b"/Encrypt" in source.content:
            detail = "the given password does not open it" if source.options.password else "it needs a password to open"
            raise encrypted(detail) from error
        if code == pdfium_c.FPDF_ERR_SECURITY:
            raise encrypted("in a way that is not read here") from error
        raise corrupt("its structure cannot be read, as after an interrupted transfer") from error
    return pdf


def _read_pages(pdf: pdfium.PdfDocument, page_count: int, view: PypdfView, source: Source) -> _Reading:
    reading = _Reading()
    reader = LineReader()
    characters = 0
    for index in range(page_count):
        try:
            page = pdf[index]
        except (pdfium.PdfiumError, IndexError):
            reading.failed.append(index + 1)
            continue
        try:
            read = _read_page(page, index, reader, view, reading, source)
        except pdfium.PdfiumError:
            reading.failed.append(index + 1)
            continue
        finally:
            page.close()
        characters += sum(len(line.text) for line in read.lines)
        if characters > source.limits.max_text_characters:
            limit = source.limits.max_text_characters
            raise over_limit("max_text_characters", limit, f"its first {index + 1} pages have {characters} characters")
        reading.pages.append(read)
    return reading


def _read_page(
    page: pdfium.PdfPage, index: int, reader: LineReader, view: PypdfView, reading: _Reading, source: Source
) -> _Page:
    left, bottom, right, top = page.get_bbox()
    frame = Frame(index + 1, left, bottom, right, top, page.get_rotation())
    read = _Page(frame)
    if page.formenv is not None:
        read.fields = read_fields(page.formenv, page, frame)
    textpage = page.get_textpage()
    try:
        lines = reader.read(textpage, frame)
        text = "\n".join(line.text for line in lines)
        if not lines:
            reading.without_text.append(index + 1)
            return read
        verdict = judge_layer(text)
        if verdict.is_garbled:
            if not verdict.gbk_text:
                reading.garbled.append(index + 1)
                return read
            reading.read_again.append(index + 1)
            lines = _replaced(lines, verdict.gbk_text, frame)
        elif is_vertical_cjk(lines):
            lines = vertical_lines(source.content, source.options.password, index, frame) or lines
        elif is_arabic(text):
            lines = _replaced(lines, view.page_text(index), frame)
        else:
            read.tables = find_ruled_tables(page, textpage, frame, main_direction(lines))
        read.lines = order_lines(lines, frame.width)
    finally:
        textpage.close()
    return read


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


def _outline(pdf: pdfium.PdfDocument) -> tuple[OutlineEntry, ...]:
    entries: list[OutlineEntry] = []
    try:
        for bookmark in pdf.get_toc(max_depth=_MAX_OUTLINE_DEPTH):
            target = bookmark.get_dest()
            index = target.get_index() if target is not None else None
            title = bookmark.get_title().strip()
            if title:
                entries.append(OutlineEntry(title, bookmark.level + 1, 0 if index is None else index + 1))
            if len(entries) >= _MAX_OUTLINE_ENTRIES:
                break
    except (pdfium.PdfiumError, ValueError):
        return tuple(entries)
    return tuple(entries)


def _metadata(pdf: pdfium.PdfDocument, builder: DocumentBuilder) -> dict[str, str]:
    stored = pdf.get_metadata_dict(skip_empty=True)
    metadata = {name: stored[key] for key, name in _METADATA.items() if key in stored}
    metadata["title"] = stored.get("Title", "")
    names = [pdf.get_attachment(index).get_name() for index in range(min(pdf.count_attachments(), 100))]
    if names:
        builder.warn(f"{len(names)} files attached to the PDF were not read.")
        metadata["attachments"] = ", ".join(names)
    return metadata


def _add_pages(builder: DocumentBuilder, pages: Sequence[_Page], outline: Sequence[OutlineEntry]) -> None:
    running = running_lines([(page.frame.height, page.lines) for page in pages])
    seen: set[str] = set()
    grouped: list[tuple[list[tuple[BlockKind, Line]], list[Paragraph | RuledTable]]] = []
    for index, page in enumerate(pages):
        body: list[Line] = []
        edges: list[tuple[BlockKind, Line]] = []
        for line_index, line in enumerate(page.lines):
            if (index, line_index) not in running:
                body.append(line)
                continue
            bare = "".join(character for character in line.text if not character.isdigit()).strip()
            if bare and bare not in seen:
                seen.add(bare)
                is_head = line.box.top < page.frame.height / 2
                edges.append((BlockKind.HEADER if is_head else BlockKind.FOOTER, line))
        grouped.append((edges, list(_with_tables(body, page.tables))))
    paragraphs = [part for _, parts in grouped for part in parts if isinstance(part, Paragraph)]
    rules = learn_headings(paragraphs, outline)
    for page, (edges, parts) in zip(pages, grouped, strict=True):
        for kind, line in edges:
            builder.add(kind, line.text, page=line.box.page, boxes=(line.box,))
        _add_parts(builder, parts, rules)
        for entry in page.fields:
            text = f"{entry.name}: {entry.value}" if entry.name else entry.value
            builder.add(BlockKind.PARAGRAPH, text, page=page.frame.page, boxes=(entry.box,))


def _with_tables(lines: Sequence[Line], tables: Sequence[RuledTable]) -> Iterator[Paragraph | RuledTable]:
    """Group the lines outside the tables; each table stands where its first line stood."""
    held = [table for table in tables if _holds(table, [line for line in lines if _inside(line.box, table.box)])]
    waiting = list(held)
    run: list[Line] = []
    for line in lines:
        table = next((table for table in held if _inside(line.box, table.box)), None)
        if table is None:
            run.append(line)
        elif table in waiting:
            yield from group_lines(run)
            run = []
            waiting.remove(table)
            yield table
    yield from group_lines(run)


def _holds(table: RuledTable, lines: Sequence[Line]) -> bool:
    # A grid whose cells miss text of its lines, or repeat it, was not the table's: the lines are kept instead.
    written = sum(len("".join(line.text.split())) for line in lines)
    celled = sum(len("".join(cell.split())) for row in table.rows for cell in row)
    return _MIN_HELD_SHARE * written <= celled <= _MAX_HELD_SHARE * written


def _inside(box: Box, outer: Box) -> bool:
    x, y = (box.left + box.right) / 2, (box.top + box.bottom) / 2
    return outer.left <= x <= outer.right and outer.top <= y <= outer.bottom


def _add_parts(builder: DocumentBuilder, parts: Sequence[Paragraph | RuledTable], rules: HeadingRules) -> None:
    index = 0
    while index < len(parts):
        part = parts[index]
        if isinstance(part, RuledTable):
            builder.add_table(
                part.rows, header_row_count=part.header_row_count, page=part.box.page, boxes=part.row_boxes
            )
            index += 1
            continue
        run = _cell_run(parts, index)
        rows = borderless_table(run)
        if rows is not None:
            lines = [line for group in run for line in group]
            builder.add_table(rows, page=part.page, boxes=[line.box for line in lines])
            index += len(run)
            continue
        _add_paragraph(builder, part, rules)
        index += 1


def _cell_run(parts: Sequence[Paragraph | RuledTable], start: int) -> list[list[Line]]:
    """Collect the paragraphs from `start` on whose every line is parted into cells."""
    run: list[list[Line]] = []
    for part in parts[start:]:
        if not isinstance(part, Paragraph) or not all(len(line.cells) > 1 for line in part.lines):
            break
        run.append(part.lines)
    return run


def _add_paragraph(builder: DocumentBuilder, paragraph: Paragraph, rules: HeadingRules) -> None:
    text = paragraph.text()
    page, boxes = paragraph.page, paragraph.boxes
    level = rules.level(paragraph, text)
    if rules.is_title(paragraph):
        builder.add(BlockKind.TITLE, text.replace("\n", " "), page=page, boxes=boxes)
    elif level:
        builder.add(BlockKind.HEADING, text, level=level, page=page, boxes=boxes)
    elif LIST_MARKER.match(text):
        builder.add(BlockKind.LIST_ITEM, text, level=1, page=page, boxes=boxes)
    else:
        builder.add(BlockKind.PARAGRAPH, text, page=page, boxes=boxes)


def _warn(builder: DocumentBuilder, reading: _Reading) -> None:
    if reading.failed:
        builder.warn(f"Pages that cannot be read: {page_list(reading.failed)}.")
    if reading.without_text:
        builder.warn(f"Pages without text: {page_list(reading.without_text)}; {_NO_OCR}.")
    if reading.garbled:
        builder.warn(f"Pages whose text layer is garbled and was left out: {page_list(reading.garbled)}; {_NO_OCR}.")
    if reading.read_again:
        builder.warn(f"Pages whose text was GBK shown as Latin-1 and was read again: {page_list(reading.read_again)}.")


def _empty_detail(reading: _Reading, page_count: int) -> str:
    if len(reading.failed) == page_count:
        raise corrupt(f"none of its {page_count} pages can be read")
    if reading.garbled:
        return f"the text layer of its {len(reading.garbled)} pages is garbled, and {_NO_OCR}"
    return f"its {page_count} pages hold pictures at most, and {_NO_OCR}; run it through an OCR program first"
