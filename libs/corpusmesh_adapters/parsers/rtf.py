"""RTF: headings by style or outline level, lists, tables with merges, notes, running heads, pictures."""

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source, one_line
from corpusmesh_adapters.parsers.figures import add_figure
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.grids import EdgeCell, grid_from_edges
from corpusmesh_adapters.parsers.html_blocks import HtmlWalker
from corpusmesh_adapters.parsers.html_tree import parse_html_tree
from corpusmesh_adapters.parsers.rtf_reader import RtfReader
from corpusmesh_adapters.parsers.rtf_values import Paragraph, Row, RtfContent, RtfPicture
from corpusmesh_core.documents import BlockKind, ParsedDocument
from corpusmesh_core.ports.parsing import ParseLimits

_MAX_HEADING_LEVEL = 9
_CELL_PADDING_TWIPS = 108
_STORY_KINDS = {"footnote": BlockKind.NOTE, "header": BlockKind.HEADER, "footer": BlockKind.FOOTER}


def parse_rtf(source: Source) -> ParsedDocument:
    """Read an RTF document.

    Args:
        source: The document.

    Returns:
        Its blocks; running heads and feet once at the end. A mail's page wrapped in RTF is read as the page.

    Raises:
        DocumentError: DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    builder = DocumentBuilder(Format.RTF, source.limits, keep_pictures=source.options.keep_pictures)
    content = add_rtf(builder, source.content, source)
    metadata = {key: one_line(value) for key, value in content.info.items()}
    title = metadata.pop("title", "") or builder.first_text(BlockKind.TITLE)
    return builder.build(title=title, metadata=metadata, empty_detail="it has pictures at most")


def add_rtf(builder: DocumentBuilder, rtf: bytes, source: Source) -> RtfContent:
    """Add the blocks of RTF text.

    Args:
        builder: Where to.
        rtf: The text.
        source: The document it belongs to.

    Returns:
        What was read.
    """
    content = RtfReader(rtf, source.limits, keep_pictures=source.options.keep_pictures).read()
    if content.html:
        HtmlWalker(builder, source).walk_tree(parse_html_tree(content.html, source.limits))
        return content
    running: dict[tuple[str, str], None] = {}
    rows: list[Row] = []
    for item in content.items:
        if isinstance(item, Row):
            rows.append(item)
            continue
        _add_table(builder, rows, source.limits)
        rows.clear()
        if isinstance(item, RtfPicture):
            add_figure(builder, item.content, source.options)
        elif item.story in ("header", "footer"):
            running[item.story, one_line(item.text)] = None
        else:
            _add_paragraph(builder, item, content)
    _add_table(builder, rows, source.limits)
    for story, text in running:
        builder.add(_STORY_KINDS[story], text)
    return content


def _add_paragraph(builder: DocumentBuilder, paragraph: Paragraph, content: RtfContent) -> None:
    style = content.styles.get(paragraph.style)
    name = style.name.lower() if style is not None else ""
    level = paragraph.outline_level
    if level is None and style is not None:
        level = style.outline_level
    if level is None and name.startswith("heading ") and name[8:9].isdecimal():
        level = int(name[8]) - 1
    text = paragraph.text.replace("\t", " ").strip()
    if any(character.isalnum() for character in paragraph.list_mark):
        text = f"{paragraph.list_mark} {text}"
    if paragraph.story == "footnote":
        builder.add(BlockKind.NOTE, text)
    elif name == "title":
        builder.add(BlockKind.TITLE, text)
    elif level is not None and 0 <= level < _MAX_HEADING_LEVEL:
        builder.add(BlockKind.HEADING, text, level=level + 1)
    elif name == "caption":
        builder.add(BlockKind.CAPTION, text)
    elif paragraph.list_level:
        builder.add(BlockKind.LIST_ITEM, text, level=paragraph.list_level)
    else:
        builder.add(BlockKind.PARAGRAPH, text)


def _add_table(builder: DocumentBuilder, rows: list[Row], limits: ParseLimits) -> None:
    if not rows:
        return
    laid: list[tuple[int, list[EdgeCell]]] = []
    for row in rows:
        if len(row.definitions) < len(row.cells):
            cells = [EdgeCell(text) for text in row.cells]
        else:
            cells = [
                EdgeCell(text, each.right, each.continues_above, each.continues_left)
                for text, each in zip(row.cells, row.definitions, strict=False)
            ]
        laid.append((row.left, cells))
    grid = grid_from_edges(laid, limits, tolerance=_CELL_PADDING_TWIPS)
    builder.add_table(grid.rows, spans=grid.spans)
