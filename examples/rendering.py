"""Renders a source text in each format, to the same bytes every time."""

import io
import re
import zipfile
from datetime import datetime
from typing import Any

import docx
import openpyxl
import pptx
from docx.oxml.ns import qn
from openpyxl.styles import Alignment, Font
from pptx.util import Pt
from reportlab.lib import colors
from reportlab.lib.enums import TA_LEFT
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.platypus import Flowable, Paragraph, Preformatted, SimpleDocTemplate, Spacer, Table, TableStyle
from sources import MARKDOWN, Item, Run, Source, escape

AUTHOR = "The CorpusMesh authors"
DATE = datetime(2026, 1, 1)  # noqa: DTZ001 - office formats want a time without zone
_CHINESE_FONT = "STSong-Light"
_MODIFIED = re.compile(rb"(<dcterms:(?:created|modified)[^>]*>)[^<]*(<)")


def render_markdown(source: Source) -> bytes:
    """Render Markdown: the source itself."""
    return source.markdown.encode()


def render_html(source: Source) -> bytes:
    """Render a page of HTML."""
    language = "zh-CN" if source.language == "zh" else "en"
    body = MARKDOWN.render(source.markdown)
    head = f'<meta charset="utf-8">\n<title>{escape(source.title)}</title>\n<meta name="author" content="{AUTHOR}">'
    page = f'<!doctype html>\n<html lang="{language}">\n<head>\n{head}\n</head>\n'
    return f"{page}<body>\n<main>\n{body}</main>\n</body>\n</html>\n".encode()


def render_docx(source: Source) -> bytes:
    """Render a Word document with heading, list and table styles."""
    document = docx.Document()
    _describe(document.core_properties, source)
    _drop_unused_styles(document)
    if source.language == "zh":
        fonts = document.styles["Normal"].element.get_or_add_rPr().get_or_add_rFonts()
        fonts.set(qn("w:eastAsia"), "SimSun")
    for item in source.items:
        if item.kind == "heading":
            document.add_heading(item.text, level=item.level - 1)
        elif item.kind == "table":
            _docx_table(document, item)
        else:
            style = {"bullet": "List Bullet", "number": "List Number", "quote": "Quote"}.get(item.kind)
            _docx_runs(document.add_paragraph(style=style), item.runs)
    return _packed(document.save)


def _drop_unused_styles(document: Any) -> None:
    """Leave out the template's hundred table styles: nine tenths of the file."""
    relations = document.part.rels
    for key in [key for key, relation in relations.items() if relation.reltype.endswith("/stylesWithEffects")]:
        del relations[key]
    for style in list(document.styles.element):
        if style.get(qn("w:type")) == "table" and style.get(qn("w:styleId")) not in {"TableNormal", "TableGrid"}:
            document.styles.element.remove(style)


def _docx_runs(paragraph: Any, runs: tuple[Run, ...]) -> None:
    for run in runs:
        written = paragraph.add_run(run.text)
        written.bold, written.italic = run.bold or None, run.italic or None
        if run.code:
            written.font.name = "Courier New"


def _docx_table(document: Any, item: Item) -> None:
    table = document.add_table(rows=len(item.rows), cols=len(item.rows[0]), style="Table Grid")
    for row, cells in zip(table.rows, item.rows, strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    for cell in table.rows[0].cells:
        cell.paragraphs[0].runs[0].bold = True


def render_pptx(source: Source) -> bytes:
    """Render slides: one for each heading of the second level, quotes as speaker notes."""
    deck = pptx.Presentation()
    _describe(deck.core_properties, source)
    cover = deck.slides.add_slide(deck.slide_layouts[0])
    cover.shapes.title.text = source.title
    cover.placeholders[1].text = AUTHOR
    body: Any = None
    slide: Any = None
    for item in source.items[1:]:
        if item.kind == "heading":
            slide = deck.slides.add_slide(deck.slide_layouts[1])
            slide.shapes.title.text = item.text
            body = slide.placeholders[1].text_frame
        elif item.kind == "quote":
            slide.notes_slide.notes_text_frame.text = item.text
        elif item.kind == "table":
            placeholder = slide.placeholders[1]
            box = (placeholder.left, placeholder.top, placeholder.width, placeholder.height // 2)
            placeholder.element.getparent().remove(placeholder.element)
            table = slide.shapes.add_table(len(item.rows), len(item.rows[0]), *box).table
            for row, cells in enumerate(item.rows):
                for column, text in enumerate(cells):
                    table.cell(row, column).text = text
        else:
            paragraph = body.paragraphs[0] if not body.text else body.add_paragraph()
            paragraph.text = f"{item.number}. {item.text}" if item.kind == "number" else item.text
            paragraph.font.size = Pt(22)
    return _packed(deck.save)


def render_xlsx(source: Source) -> bytes:
    """Render a workbook: one sheet for each heading of the second level, its table as the rows."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    book.properties.title, book.properties.creator = source.title, AUTHOR
    sheet: Any = None
    for item in source.items[1:]:
        if item.kind == "heading":
            sheet = book.create_sheet(item.text)
        for row, cells in enumerate(item.rows, 1):
            for column, text in enumerate(cells, 1):
                cell = sheet.cell(row, column, text)
                cell.alignment = Alignment(wrap_text=True, vertical="top")
                cell.font = Font(bold=row == 1)
                sheet.column_dimensions[cell.column_letter].width = 36
    return _packed(book.save)


def render_pdf(source: Source) -> bytes:
    """Render pages with an outline and page numbers; Chinese by a font that every reader has."""
    styles = _pdf_styles(source.language)
    story: list[Flowable] = []
    for item in source.items:
        story += _pdf_blocks(item, styles)
    file = io.BytesIO()
    document = _Guide(
        file,
        pagesize=A4,
        leftMargin=25 * mm,
        rightMargin=25 * mm,
        topMargin=24 * mm,
        bottomMargin=24 * mm,
        title=source.title,
        author=AUTHOR,
        invariant=1,
        pageCompression=0,
    )
    document.font = styles["body"].fontName
    document.build(story, onFirstPage=document.number_page, onLaterPages=document.number_page)
    return file.getvalue()


class _Guide(SimpleDocTemplate):
    """Pages with a number, and an outline entry for each heading."""

    font = "Helvetica"
    heading_count = 0

    def number_page(self, canvas: Any, _: Any) -> None:
        canvas.setFont(self.font, 9)
        canvas.drawCentredString(A4[0] / 2, 12 * mm, str(canvas.getPageNumber()))

    def afterFlowable(self, flowable: Flowable) -> None:  # noqa: N802 - the base class names it
        level = getattr(flowable, "outline_level", None)
        if level is not None:
            self.heading_count += 1
            key = f"heading-{self.heading_count}"
            self.canv.bookmarkPage(key)
            self.canv.addOutlineEntry(flowable.getPlainText(), key, level=level)


def _pdf_styles(language: str) -> dict[str, ParagraphStyle]:
    regular, bold, wrap = "Helvetica", "Helvetica-Bold", None
    if language == "zh":
        pdfmetrics.registerFont(UnicodeCIDFont(_CHINESE_FONT))
        regular = bold = _CHINESE_FONT
        wrap = "CJK"
    body = ParagraphStyle(
        "body", fontName=regular, fontSize=12, leading=18, spaceAfter=9, alignment=TA_LEFT, wordWrap=wrap
    )
    small = ParagraphStyle("cell", parent=body, fontSize=10.5, leading=14, spaceAfter=0)
    styles = {"body": body, "cell": small, "header": ParagraphStyle("header", parent=small, fontName=bold)}
    for level, size in ((1, 24), (2, 17), (3, 13.5)):
        styles[f"h{level}"] = ParagraphStyle(
            f"h{level}", parent=body, fontName=bold, fontSize=size, leading=size * 1.3, spaceBefore=14, keepWithNext=1
        )
    styles["list"] = ParagraphStyle("list", parent=body, leftIndent=18, bulletIndent=4, spaceAfter=5)
    styles["code"] = ParagraphStyle("code", fontName="Courier", fontSize=9.5, leading=13, leftIndent=10, spaceAfter=10)
    return styles


def _pdf_blocks(item: Item, styles: dict[str, ParagraphStyle]) -> list[Flowable]:
    match item.kind:
        case "heading":
            heading = Paragraph(escape(item.text), styles[f"h{item.level}"])
            heading.outline_level = item.level - 1
            return [heading]
        case "code":
            return [Preformatted(item.text, styles["code"])]
        case "table":
            return [_pdf_table(item, styles), Spacer(1, 10)]
        case "bullet" | "number":
            mark = "•" if item.kind == "bullet" else f"{item.number}."
            return [Paragraph(_marked_up(item.runs), styles["list"], bulletText=mark)]
    return [Paragraph(_marked_up(item.runs), styles["body"])]


def _pdf_table(item: Item, styles: dict[str, ParagraphStyle]) -> Table:
    rows = [
        [Paragraph(escape(text), styles["header" if row == 0 else "cell"]) for text in cells]
        for row, cells in enumerate(item.rows)
    ]
    width = 160 * mm / len(item.rows[0])
    table = Table(rows, colWidths=[width] * len(item.rows[0]), repeatRows=1)
    grid = ("GRID", (0, 0), (-1, -1), 0.5, colors.grey)
    table.setStyle(TableStyle([grid, ("VALIGN", (0, 0), (-1, -1), "TOP")]))
    return table


def _marked_up(runs: tuple[Run, ...]) -> str:
    pieces = []
    for run in runs:
        text = escape(run.text)
        if run.code and run.text.isascii():
            text = f'<font face="Courier">{text}</font>'
        if run.bold:
            text = f"<b>{text}</b>"
        if run.italic:
            text = f"<i>{text}</i>"
        pieces.append(text)
    return "".join(pieces)


def _describe(properties: Any, source: Source) -> None:
    properties.title, properties.author, properties.language = source.title, AUTHOR, source.language
    properties.created = properties.modified = DATE
    properties.last_modified_by, properties.revision, properties.comments = AUTHOR, 1, ""


def _packed(save: Any) -> bytes:
    """Write an office package with fixed dates, stored: compressed bytes differ from machine to machine."""
    saved, fixed = io.BytesIO(), io.BytesIO()
    save(saved)
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(fixed, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "docProps/core.xml":
                content = _MODIFIED.sub(rb"\g<1>2026-01-01T00:00:00Z\g<2>", content)
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.external_attr = 0o600 << 16
            entry.create_system = 3
            new.writestr(entry, content)
    return fixed.getvalue()
