"""Walks the body of a Word document into blocks (ECMA-376 Part 1, 17)."""

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lxml import etree

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source
from corpusmesh_adapters.parsers.charts import add_chart
from corpusmesh_adapters.parsers.docx_styles import ParagraphRole, W, WordStyles, is_on, value
from corpusmesh_adapters.parsers.figures import add_figure
from corpusmesh_adapters.parsers.formulas import is_display_formula, office_math_text
from corpusmesh_adapters.parsers.grids import Grid
from corpusmesh_adapters.parsers.ooxml import R, Relation, part_root
from corpusmesh_adapters.parsers.packages import read_member
from corpusmesh_core.documents import BlockKind
from corpusmesh_core.errors import DocumentError

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_VML_IMAGE = "{urn:schemas-microsoft-com:vml}imagedata"
_DOC_PROPERTIES = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}docPr"
_DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds"
_BOX_TEXT = f"{W}txbxContent"
# Deleted and moved text, the source of fields, the reading above ruby text: none is shown.
_SKIPPED = frozenset(
    [
        *(
            f"{W}{name}"
            for name in ("del", "moveFrom", "instrText", "delText", "rPr", "pPr", "rt", "sdtPr", "sdtEndPr")
        ),
        *(f"{W}{name}" for name in ("tblPr", "tblGrid", "trPr", "tcPr", "sectPr")),
        f"{_MC}Fallback",
    ]
)
_SIGNS = {f"{W}tab": "\t", f"{W}cr": "\n", f"{W}noBreakHyphen": "-", f"{W}ptab": "\t"}
_PRIVATE_USE = range(0xE000, 0xF900)


@dataclass(slots=True)
class _Inline:
    """What stands inside a paragraph or cell.

    Attributes:
        parts: Its text.
        page: Page of its first text.
        only_formula: Whether nothing but formulas has been seen.
        has_formula: Whether a formula has been seen.
        notes: Foot- and endnotes that it refers to.
        boxes: Text boxes anchored in it.
        drawings: Pictures, charts and diagrams in it.
    """

    parts: list[str] = field(default_factory=list)
    page: int = -1
    only_formula: bool = True
    has_formula: bool = False
    notes: list[str] = field(default_factory=list)
    boxes: list[etree._Element] = field(default_factory=list)
    drawings: list[etree._Element] = field(default_factory=list)


class WordText:
    """Adds the content of one document."""

    def __init__(
        self,
        builder: DocumentBuilder,
        source: Source,
        package: zipfile.ZipFile,
        relations: dict[str, Relation],
        styles: WordStyles,
        notes: dict[str, etree._Element],
    ) -> None:
        """Prepare to read a document.

        Args:
            builder: Where blocks go.
            source: The document.
            package: The open package.
            relations: What the main part refers to.
            styles: Styles and numbering.
            notes: Foot- and endnotes by "footnote:<id>" and "endnote:<id>".
        """
        self._builder = builder
        self._source = source
        self._package = package
        self._relations = relations
        self._styles = styles
        self._notes = notes
        self._page = 0
        self._page_mark = ""
        self._visitors: dict[str, Callable[[etree._Element, _Inline], None]] = {
            f"{W}t": self._visit_text,
            f"{W}br": self._visit_break,
            f"{W}sym": self._visit_symbol,
            f"{W}r": self._visit_run,
            f"{W}lastRenderedPageBreak": self._visit_page_mark,
            f"{W}footnoteReference": self._visit_note,
            f"{W}endnoteReference": self._visit_note,
            f"{W}drawing": self._visit_drawing,
            f"{W}pict": self._visit_drawing,
            f"{W}object": self._visit_drawing,
            f"{M}oMath": self._visit_formula,
            f"{_MC}AlternateContent": self._visit_alternatives,
        }

    @property
    def page_count(self) -> int:
        """Pages as far as the document says where they end; 0 where it does not."""
        return self._page

    def read(self, body: etree._Element) -> None:
        """Add everything in the body.

        Args:
            body: `w:body`.

        Raises:
            DocumentError: DOCUMENT_RESOURCE_LIMIT if it is too much.
        """
        if next(body.iter(f"{W}lastRenderedPageBreak"), None) is not None:
            self._page_mark, self._page = f"{W}lastRenderedPageBreak", 1
        elif any(each.get(f"{W}type") == "page" for each in body.iter(f"{W}br")):
            self._page_mark, self._page = f"{W}br", 1
        self._add_content(body)

    def _add_content(self, parent: etree._Element) -> None:
        for child in parent:
            tag = child.tag
            if tag == f"{W}p":
                self._add_paragraph(child)
            elif tag == f"{W}tbl":
                self._add_table(child)
            elif tag == f"{M}oMathPara":
                self._builder.add(BlockKind.FORMULA, office_math_text(child), page=self._page)
            elif tag == f"{_MC}AlternateContent":
                for chosen in _chosen(child):
                    self._add_content(chosen)
            elif isinstance(tag, str) and tag not in _SKIPPED:
                self._add_content(child)

    # Paragraphs

    def _add_paragraph(self, element: etree._Element) -> None:
        role = self._styles.role(element.find(f"{W}pPr"))
        if role.breaks_page and self._page_mark == f"{W}br":
            self._page += 1
        inline = _Inline()
        self._collect(element, inline)
        text = "".join(inline.parts)
        if role.label and text.strip():
            text = f"{role.label} {text.lstrip()}"
        page = self._page if inline.page < 0 else inline.page
        kind = self._kind(role, inline, text)
        self._builder.add(kind, text, level=role.level, page=page)
        self._add_attached(inline, page)

    def _kind(self, role: ParagraphRole, inline: _Inline, text: str) -> BlockKind:
        if role.kind is not BlockKind.PARAGRAPH:
            return role.kind
        is_formula = (inline.has_formula and inline.only_formula) or is_display_formula(text)
        return BlockKind.FORMULA if is_formula else BlockKind.PARAGRAPH

    def _add_attached(self, inline: _Inline, page: int) -> None:
        """Add what hangs on a paragraph or table: pictures, text boxes, notes."""
        for drawing in inline.drawings:
            self._add_drawing(drawing, page)
        for box in inline.boxes:
            self._add_content(box)
        for key in inline.notes:
            note = self._notes.get(key)
            if note is not None:
                self._builder.add(BlockKind.NOTE, self._text_of(note), page=page)

    def _text_of(self, element: etree._Element) -> str:
        inline = _Inline()
        for paragraph in element.iter(f"{W}p"):
            self._collect(paragraph, inline)
            inline.parts.append("\n")
        return "".join(inline.parts)

    def _collect(self, element: etree._Element, inline: _Inline) -> None:
        for child in element:
            tag = child.tag
            visit = self._visitors.get(tag) if isinstance(tag, str) else None
            if visit is not None:
                visit(child, inline)
            elif tag in _SIGNS:
                inline.parts.append(_SIGNS[tag])
            elif tag == _BOX_TEXT:
                inline.boxes.append(child)
            elif isinstance(tag, str) and tag not in _SKIPPED:
                self._collect(child, inline)

    def _visit_text(self, element: etree._Element, inline: _Inline) -> None:
        text = element.text or ""
        if text.strip():
            inline.only_formula = False
            if inline.page < 0:
                inline.page = self._page
        inline.parts.append(text)

    def _visit_run(self, element: etree._Element, inline: _Inline) -> None:
        properties = element.find(f"{W}rPr")
        if properties is None or not is_on(properties.find(f"{W}vanish")):
            self._collect(element, inline)

    def _visit_break(self, element: etree._Element, inline: _Inline) -> None:
        is_page = element.get(f"{W}type") == "page"
        if is_page and self._page_mark == f"{W}br":
            self._page += 1
        inline.parts.append("\n")

    def _visit_page_mark(self, _element: etree._Element, _inline: _Inline) -> None:
        self._page += 1

    def _visit_symbol(self, element: etree._Element, inline: _Inline) -> None:
        code = element.get(f"{W}char", "")
        try:
            number = int(code, 16)
        except ValueError:
            return
        # Codes of symbol fonts lie in the private use area and mean nothing without the font.
        if number not in _PRIVATE_USE and 31 < number < 0xD800:
            inline.parts.append(chr(number))

    def _visit_note(self, element: etree._Element, inline: _Inline) -> None:
        kind = str(element.tag).removeprefix(W).removesuffix("Reference")
        inline.notes.append(f"{kind}:{element.get(f'{W}id', '')}")

    def _visit_formula(self, element: etree._Element, inline: _Inline) -> None:
        inline.has_formula = True
        if inline.page < 0:
            inline.page = self._page
        inline.parts.append(office_math_text(element))

    def _visit_alternatives(self, element: etree._Element, inline: _Inline) -> None:
        for chosen in _chosen(element):
            self._collect(chosen, inline)

    def _visit_drawing(self, element: etree._Element, inline: _Inline) -> None:
        inline.drawings.append(element)
        for box in element.iter(_BOX_TEXT):
            if not any(above.tag in (_BOX_TEXT, f"{_MC}Fallback") for above in _between(box, element)):
                inline.boxes.append(box)

    # Pictures, charts, diagrams

    def _add_drawing(self, drawing: etree._Element, page: int) -> None:
        properties = next(drawing.iter(_DOC_PROPERTIES), None)
        alternative = "" if properties is None else str(properties.get("descr", "") or "")
        targets = [each.get(f"{R}embed", "") for each in drawing.iter(f"{_A}blip")]
        targets += [each.get(f"{R}id", "") for each in drawing.iter(_VML_IMAGE)]
        for target in targets[:1] or ([""] if alternative else []):
            add_figure(self._builder, self._picture(target), self._source.options, text=alternative, page=page)
        for target in targets[1:]:
            add_figure(self._builder, self._picture(target), self._source.options, page=page)
        for chart in drawing.iter(f"{_C}chart"):
            relation = self._relations.get(chart.get(f"{R}id", ""))
            if relation is not None and relation.target:
                add_chart(self._builder, part_root(self._package, relation.target), page=page)
        for diagram in drawing.iter(_DIAGRAM):
            self._add_diagram(diagram, page)

    def _picture(self, relation_id: str) -> bytes:
        relation = self._relations.get(relation_id)
        if not self._source.options.keep_pictures or relation is None or not relation.target:
            return b""
        try:
            return read_member(self._package, relation.target)
        except DocumentError:
            return b""

    def _add_diagram(self, diagram: etree._Element, page: int) -> None:
        relation = self._relations.get(diagram.get(f"{R}dm", ""))
        if relation is None or not relation.target:
            return
        for paragraph in part_root(self._package, relation.target).iter(f"{_A}p"):
            text = "".join(node.text or "" for node in paragraph.iter(f"{_A}t"))
            self._builder.add(BlockKind.LIST_ITEM, text, level=1, page=page)

    # Tables

    def _add_table(self, table: etree._Element) -> None:
        rows = list(_children(table, f"{W}tr"))
        cells_of = [list(_children(row, f"{W}tc")) for row in rows]
        if all(len(cells) <= 1 for cells in cells_of) and (len(rows) == 1 or self._has_heading(table)):
            # A frame around text, or the layout of a page, not a table.
            for cells in cells_of:
                for cell in cells:
                    self._add_content(cell)
            return
        page, inline = self._page, _Inline()
        grid = Grid(self._source.limits)
        headers: list[bool] = []
        for row, cells in zip(rows, cells_of, strict=True):
            properties = row.find(f"{W}trPr")
            grid.start_row()
            grid.skip(_count(properties, "gridBefore", 0))
            headers.append(properties is not None and is_on(properties.find(f"{W}tblHeader")))
            for cell in cells:
                self._add_cell(grid, cell, inline)
        leading = next((index for index, is_header in enumerate(headers) if not is_header), 0)
        self._builder.add_table(grid.rows, spans=grid.spans, header_row_count=leading or None, page=page)
        self._add_attached(inline, page)

    def _has_heading(self, table: etree._Element) -> bool:
        return any(self._styles.is_heading(each.find(f"{W}pPr")) for each in table.iter(f"{W}p"))

    def _add_cell(self, grid: Grid, cell: etree._Element, inline: _Inline) -> None:
        properties = cell.find(f"{W}tcPr")
        columns = _count(properties, "gridSpan", 1)
        merge = properties.find(f"{W}vMerge") if properties is not None else None
        if merge is not None and value(merge) != "restart":
            grid.continue_above(columns)
        else:
            grid.add(self._cell_text(cell, inline), column_count=columns)

    def _cell_text(self, cell: etree._Element, inline: _Inline) -> str:
        """Write a cell's paragraphs a line each, and a table in it a line per row."""
        lines: list[str] = []
        for element in _children(cell, f"{W}p", f"{W}tbl"):
            if element.tag == f"{W}tbl":
                for row in _children(element, f"{W}tr"):
                    cells = (self._cell_text(each, inline) for each in _children(row, f"{W}tc"))
                    lines.append("\t".join(cells))
                continue
            start = len(inline.parts)
            role = self._styles.role(element.find(f"{W}pPr"))
            self._collect(element, inline)
            text = "".join(inline.parts[start:])
            del inline.parts[start:]
            lines.append(f"{role.label} {text}" if role.label and text.strip() else text)
        return "\n".join(lines)


def _chosen(alternatives: etree._Element) -> Iterator[etree._Element]:
    choice = alternatives.find(f"{_MC}Choice")
    found = choice if choice is not None else alternatives.find(f"{_MC}Fallback")
    if found is not None:
        yield found


def _children(element: etree._Element, *tags: str) -> Iterator[etree._Element]:
    """List an element's own parts, also inside content controls and the like, not those of parts inside them."""
    for child in element:
        if child.tag in tags:
            properties = child.find(f"{W}trPr")
            if properties is None or properties.find(f"{W}del") is None:
                yield child
        elif isinstance(child.tag, str) and child.tag not in _SKIPPED and child.tag not in (f"{W}tbl", f"{W}p"):
            yield from _children(child, *tags)


def _between(element: etree._Element, ancestor: etree._Element) -> Iterator[etree._Element]:
    for above in element.iterancestors():
        if above is ancestor:
            return
        yield above


def _count(properties: etree._Element | None, name: str, default: int) -> int:
    found = value(properties.find(f"{W}{name}")) if properties is not None else ""
    return int(found) if found.isdecimal() and len(found) < 6 else default
