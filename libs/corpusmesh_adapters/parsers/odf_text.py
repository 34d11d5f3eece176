"""Reads the running text, lists, tables, notes and pictures of OpenDocument files (ODF 1.3, OASIS 2021)."""

import posixpath
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field

from lxml import etree

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source
from corpusmesh_adapters.parsers.figures import add_figure
from corpusmesh_adapters.parsers.formulas import is_display_formula
from corpusmesh_adapters.parsers.grids import MAX_COLUMNS, Grid
from corpusmesh_adapters.parsers.packages import read_member, xml_root
from corpusmesh_core.documents import BlockKind, Box
from corpusmesh_core.errors import DocumentError

_URN = "{urn:oasis:names:tc:opendocument:xmlns:"
TEXT, TABLE, DRAW, OFFICE, STYLE = (f"{_URN}{name}:1.0}}" for name in ("text", "table", "drawing", "office", "style"))
SVG = f"{_URN}svg-compatible:1.0}}"
_XLINK = "{http://www.w3.org/1999/xlink}href"
_MATH = "{http://www.w3.org/1998/Math/MathML}"
_SKIPPED = frozenset(
    [f"{TEXT}tracked-changes", f"{OFFICE}annotation", f"{OFFICE}forms", f"{TEXT}sequence-decls", f"{TEXT}ruby-text"]
)
_ROW_GROUPS = frozenset(f"{TABLE}{name}" for name in ("table-header-rows", "table-rows", "table-row-group"))
_FRAMED = frozenset([f"{DRAW}frame", f"{DRAW}custom-shape", f"{DRAW}g", f"{DRAW}rect", f"{DRAW}text-box"])
_MAX_REPEATED_SPACES = 80
_MAX_REPEATED_ROWS = 1_000


@dataclass(slots=True)
class _Inline:
    """What stands inside a paragraph."""

    parts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    frames: list[etree._Element] = field(default_factory=list)


class OdfText:
    """Adds text content to a document."""

    def __init__(self, builder: DocumentBuilder, source: Source, package: zipfile.ZipFile) -> None:
        """Prepare to read a package.

        Args:
            builder: Where blocks go.
            source: The document.
            package: The open package.
        """
        self._builder = builder
        self._source = source
        self._package = package
        self._names = frozenset(package.namelist())
        self._parents: dict[str, str] = {}
        self._levels: dict[str, int] = {}
        self.page = 0
        self.kind: BlockKind | None = None
        self.box: Box | None = None
        self.embedded_count = 0

    def learn_styles(self, root: etree._Element) -> None:
        """Note which styles are based on which, and which are headings.

        Args:
            root: Of content.xml or styles.xml.
        """
        for style in root.iter(f"{STYLE}style"):
            name = style.get(f"{STYLE}name", "")
            self._parents[name] = style.get(f"{STYLE}parent-style-name", "")
            level = style.get(f"{STYLE}default-outline-level", "")
            if level.isdecimal() and 0 < int(level) < 11:
                self._levels[name] = int(level)

    def add_content(self, parent: etree._Element, list_depth: int = 0) -> None:
        """Add everything inside an element.

        Args:
            parent: The body, a section, a cell, …
            list_depth: How many lists it lies in.

        Raises:
            DocumentError: DOCUMENT_RESOURCE_LIMIT if it is too much.
        """
        for child in parent:
            tag = child.tag
            if tag in _SKIPPED or not isinstance(tag, str):
                continue
            if tag in (f"{TEXT}p", f"{TEXT}h"):
                self._add_paragraph(child, list_depth)
            elif tag == f"{TEXT}list":
                self.add_content(child, list_depth + 1)
            elif tag == f"{TABLE}table":
                self._add_table(child)
            elif tag == f"{TEXT}soft-page-break":
                self.page += self.page > 0
            elif tag in _FRAMED:
                self.add_frame(child)
            else:
                self.add_content(child, list_depth)

    def _add_paragraph(self, element: etree._Element, list_depth: int) -> None:
        inline = _Inline()
        self._collect(element, inline)
        text = "".join(inline.parts)
        kind, level = self._kind_of(element, list_depth)
        if kind is BlockKind.PARAGRAPH and is_display_formula(text):
            kind = BlockKind.FORMULA
        self._builder.add(kind, text, level=level, page=self.page, boxes=self._boxes())
        for frame in inline.frames:
            self.add_frame(frame)
        for note in inline.notes:
            self._builder.add(BlockKind.NOTE, note, page=self.page)

    def _boxes(self) -> tuple[Box, ...]:
        return (self.box,) if self.box is not None else ()

    def _kind_of(self, element: etree._Element, list_depth: int) -> tuple[BlockKind, int]:
        if self.kind is not None:
            return self.kind, 1 if self.kind is BlockKind.HEADING else 0
        if element.tag == f"{TEXT}h":
            level = element.get(f"{TEXT}outline-level", "1")
            return BlockKind.HEADING, min(int(level), 9) if level.isdecimal() and int(level) else 1
        for name in self._style_chain(element.get(f"{TEXT}style-name", "")):
            if name == "Title":
                return BlockKind.TITLE, 0
            if name == "Caption":
                return BlockKind.CAPTION, 0
            if name in self._levels:
                return BlockKind.HEADING, self._levels[name]
        return (BlockKind.LIST_ITEM, list_depth) if list_depth else (BlockKind.PARAGRAPH, 0)

    def _style_chain(self, name: str) -> Iterator[str]:
        for _ in range(16):
            if not name:
                return
            yield name
            name = self._parents.get(name, "")

    def _collect(self, element: etree._Element, inline: _Inline) -> None:
        inline.parts.append(element.text or "")
        for child in element:
            tag = child.tag
            if tag in _SKIPPED or not isinstance(tag, str):
                pass
            elif tag == f"{TEXT}s":
                count = child.get(f"{TEXT}c", "1")
                inline.parts.append(" " * min(int(count) if count.isdecimal() else 1, _MAX_REPEATED_SPACES))
            elif tag == f"{TEXT}tab":
                inline.parts.append("\t")
            elif tag == f"{TEXT}line-break":
                inline.parts.append("\n")
            elif tag == f"{TEXT}soft-page-break":
                self.page += self.page > 0
            elif tag == f"{TEXT}note":
                inline.notes.append(self._note(child))
            elif tag in _FRAMED:
                self._collect_frame(child, inline)
            else:
                self._collect(child, inline)
            inline.parts.append(child.tail or "")

    def _collect_frame(self, frame: etree._Element, inline: _Inline) -> None:
        formula = self._formula(frame)
        if formula:
            inline.parts.append(f" {formula} ")
        else:
            inline.frames.append(frame)

    def _note(self, note: etree._Element) -> str:
        inline = _Inline()
        for body in note.iter(f"{TEXT}note-body"):
            for paragraph in body.iter(f"{TEXT}p"):
                self._collect(paragraph, inline)
                inline.parts.append("\n")
        return "".join(inline.parts)

    def _cell_text(self, cell: etree._Element) -> str:
        inline = _Inline()
        for element in cell.iter(f"{TEXT}p", f"{TEXT}h"):
            self._collect(element, inline)
            inline.parts.append("\n")
        return "".join(inline.parts)

    def _add_table(self, table: etree._Element) -> None:
        grid = Grid(self._source.limits)
        headers = 0
        for row, is_header in _rows(table, is_header=False):
            repeated = min(_number(row, "number-rows-repeated"), _MAX_REPEATED_ROWS)
            for _ in range(repeated if any(True for _ in row.iter(f"{TEXT}p")) else 1):
                grid.start_row()
                self._add_cells(grid, row)
                headers += is_header
        self._builder.add_table(
            grid.rows, header_row_count=headers or None, spans=grid.spans, page=self.page, boxes=self._boxes()
        )

    def _add_cells(self, grid: Grid, row: etree._Element) -> None:
        for cell in row:
            repeated = min(_number(cell, "number-columns-repeated"), MAX_COLUMNS)
            if cell.tag == f"{TABLE}covered-table-cell":
                continue  # the cell that covers it has counted it
            if cell.tag != f"{TABLE}table-cell":
                continue
            text = self._cell_text(cell)
            for _ in range(repeated):
                grid.add(
                    text,
                    column_count=_number(cell, "number-columns-spanned"),
                    row_count=_number(cell, "number-rows-spanned"),
                )

    def add_frame(self, frame: etree._Element) -> None:
        """Add a text box, a picture, a table or an embedded object.

        Args:
            frame: A drawing element.

        Raises:
            DocumentError: DOCUMENT_RESOURCE_LIMIT if it is too much.
        """
        alternative = " ".join(
            (each.text or "").strip() for each in frame if each.tag in (f"{SVG}title", f"{SVG}desc") and each.text
        )
        formula = self._formula(frame)
        if formula:
            self._builder.add(BlockKind.FORMULA, formula, page=self.page, boxes=self._boxes())
            return
        has_picture = False
        for child in frame:
            if child.tag == f"{DRAW}image" and not has_picture:
                has_picture = True
                self._add_picture(child, alternative)
            elif child.tag in (f"{DRAW}object", f"{DRAW}object-ole"):
                self.embedded_count += 1
        if not has_picture and alternative:
            self._builder.add(BlockKind.FIGURE, alternative, page=self.page, boxes=self._boxes())
        self.add_content(frame)

    def _add_picture(self, image: etree._Element, alternative: str) -> None:
        content = b""
        name = posixpath.normpath(image.get(_XLINK, ""))
        if self._source.options.keep_pictures and name in self._names:
            try:
                content = read_member(self._package, name)
            except DocumentError:
                content = b""
        add_figure(self._builder, content, self._source.options, text=alternative, page=self.page, box=self.box)

    def _formula(self, frame: etree._Element) -> str:
        for child in frame:
            if child.tag == f"{DRAW}object":
                name = posixpath.join(posixpath.normpath(child.get(_XLINK, "")), "content.xml")
                if name in self._names:
                    root = xml_root(read_member(self._package, name))
                    if root.tag == f"{_MATH}math":
                        annotation = root.find(f".//{_MATH}annotation")
                        return (
                            (annotation.text if annotation is not None else "")
                            or "".join(str(text) for text in root.itertext())
                        ).strip()
        return ""


def _rows(parent: etree._Element, *, is_header: bool) -> Iterator[tuple[etree._Element, bool]]:
    for child in parent:
        if child.tag == f"{TABLE}table-row":
            yield child, is_header
        elif child.tag in _ROW_GROUPS:
            yield from _rows(child, is_header=is_header or child.tag == f"{TABLE}table-header-rows")


def _number(element: etree._Element, name: str) -> int:
    value = element.get(f"{TABLE}{name}", "1")
    return max(int(value), 1) if value.isdecimal() and len(value) < 9 else 1
