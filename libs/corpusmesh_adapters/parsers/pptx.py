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
from corpusmesh_adapters.parsers.failures import corrupt, over_limit
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.packages import open_package, refuse_entities
from corpusmesh_core.documents import BlockKind, Box, ParsedDocument

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
_TEXT = qn("a:t")


@dataclass(frozen=True, slots=True)
class _Placed:
    """A shape that is no group, with its place on the slide."""

    shape: Any
    box: Box | None


def parse_pptx(source: Source) -> ParsedDocument:
    """Read a presentation.

    Args:
        source: The document.

    Returns:
        Per slide its title as a heading, then its shapes from top to bottom, then its notes; boxes in points.

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
    builder = DocumentBuilder(Format.PPTX, source.limits)
    for number, slide in enumerate(slides, 1):
        builder.close_headings(1)
        _add_slide(builder, slide, number, source)
    properties = presentation.core_properties
    metadata = {
        "author": properties.author or "",
        "subject": properties.subject or "",
        "created": properties.created.isoformat() if properties.created else "",
    }
    title = properties.title or ""
    # The title that PowerPoint itself puts in says nothing.
    title = "" if title == "PowerPoint Presentation" else title
    return builder.build(
        title=title or builder.first_text(BlockKind.HEADING),
        page_count=len(slides),
        metadata=metadata,
        empty_detail=f"its {len(slides)} slides hold pictures at most, and reading text in pictures (OCR) is not part "
        "of this build",
    )


def _add_slide(builder: DocumentBuilder, slide: Any, page: int, source: Source) -> None:
    placed = list(_flatten(slide.shapes, page, _Scale(), source, 0))
    placed.sort(key=_reading_key)
    for entry in placed:
        _add_shape(builder, entry, page)
    if slide.has_notes_slide:
        frame = slide.notes_slide.notes_text_frame
        if frame is not None:
            builder.add(BlockKind.NOTE, frame.text, page=page)


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


def _add_shape(builder: DocumentBuilder, entry: _Placed, page: int) -> None:
    shape = entry.shape
    boxes = (entry.box,) if entry.box is not None else ()
    if getattr(shape, "has_table", False):
        builder.add_table(
            [["" if cell.is_spanned else cell.text for cell in row.cells] for row in shape.table.rows],
            header_row_count=1 if shape.table.first_row else None,
            page=page,
            boxes=boxes,
        )
    elif getattr(shape, "has_chart", False):
        _add_chart(builder, shape.chart, page, boxes)
    elif shape.has_text_frame:
        _add_text(builder, shape, page, boxes)
    else:
        _add_diagram(builder, shape, page, boxes)


def _add_text(builder: DocumentBuilder, shape: Any, page: int, boxes: tuple[Box, ...]) -> None:
    placeholder = _placeholder_type(shape)
    if placeholder in _TITLES:
        builder.add(BlockKind.HEADING, shape.text_frame.text.replace("\v", " "), level=1, page=page, boxes=boxes)
        return
    for paragraph in shape.text_frame.paragraphs:
        text = paragraph.text.replace("\v", "\n")
        if placeholder in _FURNITURE:
            builder.add(_FURNITURE[placeholder], text, page=page, boxes=boxes)
        elif placeholder in _BODIES or paragraph.level:
            builder.add(BlockKind.LIST_ITEM, text, level=paragraph.level + 1, page=page, boxes=boxes)
        else:
            builder.add(BlockKind.PARAGRAPH, text, page=page, boxes=boxes)


def _add_chart(builder: DocumentBuilder, chart: Any, page: int, boxes: tuple[Box, ...]) -> None:
    if chart.has_title and chart.chart_title.has_text_frame:
        builder.add(BlockKind.CAPTION, chart.chart_title.text_frame.text, page=page, boxes=boxes)
    for plot in chart.plots:
        series = list(plot.series)
        rows = [["", *(entry.name for entry in series)]]
        for index, category in enumerate(plot.categories):
            values = [entry.values[index] if index < len(entry.values) else None for entry in series]
            rows.append([str(category), *("" if value is None else f"{value:g}" for value in values)])
        builder.add_table(rows, header_row_count=1, page=page, boxes=boxes)


def _add_diagram(builder: DocumentBuilder, shape: Any, page: int, boxes: tuple[Box, ...]) -> None:
    """Read the text of a SmartArt diagram, which lies in a part of its own."""
    for ids in shape._element.iter(f"{{{_DIAGRAM}}}relIds"):
        part = shape.part.related_part(ids.get(qn("r:dm")))
        parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
        root = etree.fromstring(part.blob, parser)
        for paragraph in root.iter(qn("a:p")):
            text = "".join(node.text or "" for node in paragraph.iter(_TEXT))
            builder.add(BlockKind.LIST_ITEM, text, level=1, page=page, boxes=boxes)
