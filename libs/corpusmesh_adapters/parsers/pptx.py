"""PPTX by python-pptx: a slide is a page, groups are walked, tables, charts and notes are read."""

import io
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from lxml import etree
from pptx import Presentation
from pptx.enum.shapes import MSO_SHAPE_TYPE, PP_PLACEHOLDER
from pptx.exc import PackageNotFoundError
from pptx.oxml.ns import qn

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source
from corpusmesh_adapters.parsers.charts import add_chart
from corpusmesh_adapters.parsers.embedded import Parse, add_inner, object_content
from corpusmesh_adapters.parsers.failures import corrupt, over_limit
from corpusmesh_adapters.parsers.figures import add_figure
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.formulas import office_math_text
from corpusmesh_adapters.parsers.packages import open_package, refuse_entities, xml_root
from corpusmesh_core.documents import BlockKind, Box, CellSpan, ParsedDocument
from corpusmesh_core.errors import DocumentError

_EMU_PER_POINT = 12_700
_ROW_TOLERANCE_POINTS = 8.0
_TITLES = frozenset({PP_PLACEHOLDER.TITLE, PP_PLACEHOLDER.CENTER_TITLE, PP_PLACEHOLDER.VERTICAL_TITLE})
_FURNITURE = {
    PP_PLACEHOLDER.FOOTER: BlockKind.FOOTER,
    PP_PLACEHOLDER.SLIDE_NUMBER: BlockKind.FOOTER,
    PP_PLACEHOLDER.DATE: BlockKind.FOOTER,
    PP_PLACEHOLDER.HEADER: BlockKind.HEADER,
}
_BODIES = frozenset({PP_PLACEHOLDER.BODY, PP_PLACEHOLDER.OBJECT, PP_PLACEHOLDER.VERTICAL_BODY})
_DIAGRAM = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
_TEXT, _PICTURE = qn("a:t"), qn("p:pic")
_COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_FORMULA = "{http://schemas.openxmlformats.org/officeDocument/2006/math}oMath"


@dataclass(frozen=True, slots=True)
class _Placed:
    """A shape that is no group, with its place on the slide."""

    shape: Any
    box: Box | None


def parse_pptx(source: Source, parse_inner: Parse) -> ParsedDocument:
    """Read a presentation.

    Args:
        source: The document.
        parse_inner: Reads a document embedded in it.

    Returns:
        Per slide its title as a heading, then its shapes from top to bottom, then its notes; boxes in points. At the
        end the embedded documents under their names.

    Raises:
        DocumentError: DOCUMENT_CORRUPT, DOCUMENT_ENCRYPTED, DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    with open_package(source.content, source.limits) as package:
        refuse_entities(package)
    try:
        presentation = Presentation(io.BytesIO(source.content))
    except (PackageNotFoundError, KeyError, ValueError, zipfile.BadZipFile, etree.XMLSyntaxError) as error:
        raise corrupt(f"its presentation cannot be opened ({type(error).__name__})") from error
    slides = list(presentation.slides)
    if len(slides) > source.limits.max_pages:
        raise over_limit("max_pages", source.limits.max_pages, f"it has {len(slides)} slides")
    builder = DocumentBuilder(Format.PPTX, source.limits, keep_pictures=source.options.keep_pictures)
    reader = _SlideReader(builder, source)
    for number, slide in enumerate(slides, 1):
        builder.close_headings(1)
        reader.add_slide(slide, number)
    title = builder.first_text(BlockKind.HEADING)
    builder.close_headings(1)
    embedded_count = reader.add_embedded(parse_inner)
    properties = presentation.core_properties
    metadata = {
        "author": properties.author or "",
        "subject": properties.subject or "",
        "created": properties.created.isoformat() if properties.created else "",
        "embedded_file_count": str(embedded_count) if embedded_count else "",
    }
    # The title that PowerPoint itself puts in says nothing.
    own_title = properties.title if properties.title != "PowerPoint Presentation" else ""
    return builder.build(
        title=own_title or title,
        page_count=len(slides),
        metadata=metadata,
        empty_detail=f"its {len(slides)} slides hold pictures at most",
    )


def _reading_key(entry: _Placed) -> tuple[bool, float, float]:
    if entry.box is None:
        return (not _is_title(entry.shape), 0.0, 0.0)
    # Shapes of one row rarely start at exactly the same height.
    return (not _is_title(entry.shape), round(entry.box.top / _ROW_TOLERANCE_POINTS), entry.box.left)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps a group's own coordinates to the slide's."""

    factor_x: float = 1.0
    factor_y: float = 1.0
    shift_x: float = 0.0
    shift_y: float = 0.0

    def inside(self, group: Any) -> "_Scale":
        own = group._element.grpSpPr.find(qn("a:xfrm"))
        parts = [own.find(qn(f"a:{name}")) for name in ("off", "ext", "chOff", "chExt")] if own is not None else []
        if len(parts) != 4 or any(part is None for part in parts):
            return self
        (x, y), (width, height), (child_x, child_y), (child_width, child_height) = (
            tuple(int(value) for value in (part.get("x", part.get("cx", 0)), part.get("y", part.get("cy", 0))))
            for part in parts
        )
        across = width / child_width if child_width else 1.0
        down = height / child_height if child_height else 1.0
        return _Scale(
            self.factor_x * across,
            self.factor_y * down,
            self.shift_x + self.factor_x * (x - across * child_x),
            self.shift_y + self.factor_y * (y - down * child_y),
        )

    def box(self, shape: Any, page: int) -> Box | None:
        if None in (shape.left, shape.top, shape.width, shape.height):
            return None
        left = (self.shift_x + self.factor_x * shape.left) / _EMU_PER_POINT
        top = (self.shift_y + self.factor_y * shape.top) / _EMU_PER_POINT
        width = self.factor_x * shape.width / _EMU_PER_POINT
        height = self.factor_y * shape.height / _EMU_PER_POINT
        return Box(page, round(left, 1), round(top, 1), round(left + width, 1), round(top + height, 1))


def _flatten(shapes: Iterable[Any], page: int, scale: _Scale, source: Source, depth: int) -> Iterator[_Placed]:
    if depth > source.limits.max_depth:
        raise over_limit("max_depth", source.limits.max_depth, "its groups are nested deeper")
    for shape in shapes:
        if shape.shape_type == MSO_SHAPE_TYPE.GROUP:
            yield from _flatten(shape.shapes, page, scale.inside(shape), source, depth + 1)
        else:
            yield _Placed(shape, scale.box(shape, page))


def _placeholder_type(shape: Any) -> Any:
    return shape.placeholder_format.type if shape.is_placeholder else None


def _is_title(shape: Any) -> bool:
    return _placeholder_type(shape) in _TITLES


class _SlideReader:
    """Adds the shapes of slides, and collects what is embedded in them."""

    def __init__(self, builder: DocumentBuilder, source: Source) -> None:
        self._builder = builder
        self._source = source
        self._embedded: list[tuple[str, bytes]] = []

    def add_slide(self, slide: Any, page: int) -> None:
        _unwrap_alternatives(slide._element)
        placed = list(_flatten(slide.shapes, page, _Scale(), self._source, 0))
        placed.sort(key=_reading_key)
        for entry in placed:
            self._add_shape(entry, page)
        if slide.has_notes_slide:
            frame = slide.notes_slide.notes_text_frame
            if frame is not None:
                self._builder.add(BlockKind.NOTE, frame.text, page=page)

    def add_embedded(self, parse_inner: Parse) -> int:
        for number, (name, blob) in enumerate(self._embedded, 1):
            try:
                content, name = object_content(blob, name)
            except DocumentError as error:
                self._builder.warn(f"Embedded file {number} was not read: {error.message}")
                continue
            add_inner(self._builder, self._source, parse_inner, name, content, label=f"Embedded file {number}")
        return len(self._embedded)

    def _add_shape(self, entry: _Placed, page: int) -> None:
        shape = entry.shape
        boxes = (entry.box,) if entry.box is not None else ()
        if getattr(shape, "has_table", False):
            self._add_table(shape.table, page, boxes)
        elif getattr(shape, "has_chart", False):
            add_chart(self._builder, shape.chart._chartSpace, page=page, boxes=boxes)
        elif shape.shape_type == MSO_SHAPE_TYPE.EMBEDDED_OLE_OBJECT:
            self._keep_embedded(shape)
        elif shape.has_text_frame:
            self._add_text(shape, page, boxes)
        elif shape._element.tag == _PICTURE:
            self._add_picture(shape, page, entry.box)
        else:
            self._add_diagram(shape, page, boxes)

    def _add_table(self, table: Any, page: int, boxes: tuple[Box, ...]) -> None:
        rows: list[list[str]] = []
        spans: list[CellSpan] = []
        for row_index, row in enumerate(table.rows):
            rows.append([])
            for column_index, cell in enumerate(row.cells):
                rows[-1].append("" if cell.is_spanned else cell.text)
                if cell.is_merge_origin:
                    spans.append(CellSpan(row_index, column_index, cell.span_height, cell.span_width))
        self._builder.add_table(
            rows, header_row_count=1 if table.first_row else None, spans=spans, page=page, boxes=boxes
        )

    def _add_text(self, shape: Any, page: int, boxes: tuple[Box, ...]) -> None:
        add, placeholder = self._builder.add, _placeholder_type(shape)
        if placeholder in _TITLES:
            add(BlockKind.HEADING, shape.text_frame.text.replace("\v", " "), level=1, page=page, boxes=boxes)
            return
        for paragraph in shape.text_frame.paragraphs:
            text, is_formula = _paragraph_text(paragraph)
            if placeholder in _FURNITURE:
                add(_FURNITURE[placeholder], text, page=page, boxes=boxes)
            elif is_formula:
                add(BlockKind.FORMULA, text, page=page, boxes=boxes)
            elif placeholder in _BODIES or paragraph.level:
                add(BlockKind.LIST_ITEM, text, level=paragraph.level + 1, page=page, boxes=boxes)
            else:
                add(BlockKind.PARAGRAPH, text, page=page, boxes=boxes)

    def _add_picture(self, shape: Any, page: int, box: Box | None) -> None:
        properties = next(shape._element.iter(qn("p:cNvPr")), None)
        alternative = "" if properties is None else properties.get("descr", "") or ""
        content = b""
        if self._source.options.keep_pictures:
            try:
                content = shape.image.blob
            except (KeyError, ValueError, AttributeError):
                content = b""  # linked, missing, or of a kind that the library does not know
        add_figure(self._builder, content, self._source.options, text=alternative, page=page, box=box)

    def _add_diagram(self, shape: Any, page: int, boxes: tuple[Box, ...]) -> None:
        """Read the text of a SmartArt diagram, which lies in a part of its own."""
        for ids in shape._element.iter(f"{{{_DIAGRAM}}}relIds"):
            part = shape.part.related_part(ids.get(qn("r:dm")))
            for paragraph in xml_root(part.blob).iter(qn("a:p")):
                text = "".join(node.text or "" for node in paragraph.iter(_TEXT))
                self._builder.add(BlockKind.LIST_ITEM, text, level=1, page=page, boxes=boxes)

    def _keep_embedded(self, shape: Any) -> None:
        if len(self._embedded) >= self._source.limits.max_attachments:
            self._builder.warn(f"Embedded files beyond max_attachments={len(self._embedded)} were not read.")
            return
        try:
            blob = shape.ole_format.blob
        except (KeyError, ValueError, AttributeError):
            self._builder.warn("An embedded file is missing.")
            return
        if blob is not None:
            self._embedded.append((shape.name, blob))


def _paragraph_text(paragraph: Any) -> tuple[str, bool]:
    """Write a paragraph, formulas included, and say whether it is nothing but a formula."""
    text = paragraph.text.replace("\v", "\n")
    formulas = [office_math_text(each) for each in paragraph._p.iter(_FORMULA)]
    if not formulas:
        return text, False
    is_formula = not text.strip()
    return " ".join([text.strip(), *formulas]).strip(), is_formula


def _unwrap_alternatives(slide: Any) -> None:
    """Put the preferred form of shapes that come in several in their place; the library would pass them over."""
    for alternatives in list(slide.iter(f"{_COMPATIBILITY}AlternateContent")):
        parent = alternatives.getparent()
        choice = alternatives.find(f"{_COMPATIBILITY}Choice")
        if parent is None or choice is None:
            continue
        if parent.tag in (qn("p:spTree"), qn("p:grpSp")):
            for shape in list(choice):
                alternatives.addprevious(shape)
            parent.remove(alternatives)
        else:
            for fallback in alternatives.findall(f"{_COMPATIBILITY}Fallback"):
                alternatives.remove(fallback)
