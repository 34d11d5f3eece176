"""Walks an HTML tree into blocks: also the second half of the DOCX parser."""

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source, one_line
from corpusmesh_adapters.parsers.encodings import decode
from corpusmesh_adapters.parsers.failures import over_limit
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.html_tables import is_layout_table, own_rows, table_grid
from corpusmesh_adapters.parsers.html_text import (
    BLOCK_TAGS,
    HEADING_LEVELS,
    alternative_text,
    inline_text,
    is_dropped,
    visible_text,
)
from corpusmesh_adapters.parsers.plain_text import note_replacements
from corpusmesh_core.documents import BlockKind, ParsedDocument
from corpusmesh_core.ports.parsing import ParseLimits

_DECLARED = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{2,40})", re.IGNORECASE)
_DECLARATION_BYTES = 4_096
TITLE_CLASS = "document-title"
"""Marks the paragraph that is the document's title, for makers of HTML inside this package."""

_KIND_OF_TAG = {
    "li": BlockKind.LIST_ITEM,
    "dd": BlockKind.LIST_ITEM,
    "figcaption": BlockKind.CAPTION,
    "caption": BlockKind.CAPTION,
}


def parse_html(source: Source) -> ParsedDocument:
    """Read an HTML page.

    Args:
        source: The document.

    Returns:
        Headings, paragraphs, lists, code and tables in the order of the page.

    Raises:
        DocumentError: DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    declared = _DECLARED.search(source.content[:_DECLARATION_BYTES])
    decoded = decode(source.content, declared.group(1).decode("ascii") if declared else "")
    builder = DocumentBuilder(Format.HTML, source.limits)
    note_replacements(builder, decoded)
    tree = LexborHTMLParser(decoded.text)
    HtmlWalker(builder, source.limits).walk_tree(tree)
    title = tree.css_first("title")
    metadata = {"encoding": decoded.encoding}
    for name in ("author", "description", "keywords"):
        node = tree.css_first(f'meta[name="{name}"]')
        metadata[name] = (node.attributes.get("content") or "") if node is not None else ""
    return builder.build(
        title=title.text(deep=True) if title is not None else "",
        metadata=metadata,
        empty_detail="the page has no visible text; pages drawn by scripts must be saved after they have been drawn",
    )


class HtmlWalker:
    """Turns elements into blocks."""

    def __init__(self, builder: DocumentBuilder, limits: ParseLimits) -> None:
        """Create a walker.

        Args:
            builder: Where blocks go.
            limits: Nesting and table sizes that are allowed.
        """
        self._builder = builder
        self._limits = limits
        self._inline: list[str] = []
        self._kind = BlockKind.PARAGRAPH
        self._list_depth = 0

    def walk_tree(self, tree: LexborHTMLParser) -> None:
        """Add every block of a document.

        Args:
            tree: The parsed document.

        Raises:
            DocumentError: DOCUMENT_RESOURCE_LIMIT if it is nested too deeply or too long.
        """
        root = tree.body or tree.root
        if root is not None:
            self._walk(root, 0)
        self._flush()

    def _walk(self, node: LexborNode, depth: int) -> None:
        if depth > self._limits.max_depth:
            raise over_limit("max_depth", self._limits.max_depth, "its elements are nested deeper")
        child = node.child
        while child is not None:
            self._visit(child, depth + 1)
            child = child.next

    def _visit(self, node: LexborNode, depth: int) -> None:
        tag = node.tag or ""
        if tag == "-text":
            self._inline.append(inline_text(node.text_content or ""))
        elif tag.startswith(("-", "!", "_")) or is_dropped(node):
            return
        elif tag in HEADING_LEVELS:
            self._flush()
            self._builder.add(BlockKind.HEADING, visible_text(node), level=HEADING_LEVELS[tag])
        elif tag == "pre":
            self._flush()
            self._builder.add(BlockKind.CODE, node.text(deep=True))
        elif tag == "table":
            self._flush()
            self._table(node, depth)
        elif tag == "br":
            self._inline.append("\n")
        elif tag == "img":
            self._inline.append(alternative_text(node))
        elif tag in BLOCK_TAGS:
            self._block(node, tag, depth)
        else:
            self._walk(node, depth)

    def _block(self, node: LexborNode, tag: str, depth: int) -> None:
        self._flush()
        kind, self._kind = self._kind, _KIND_OF_TAG.get(tag, self._kind)
        if node.attributes.get("class") == TITLE_CLASS:
            self._kind = BlockKind.TITLE
        opens_list = tag in ("ul", "ol", "menu", "dl")
        self._list_depth += opens_list
        self._walk(node, depth)
        self._flush()
        self._list_depth -= opens_list
        self._kind = kind

    def _table(self, node: LexborNode, depth: int) -> None:
        rows = own_rows(node)
        caption = next((child for child in node.iter() if child.tag == "caption"), None)
        if caption is not None:
            self._builder.add(BlockKind.CAPTION, visible_text(caption))
        if is_layout_table(node, rows):
            for row in rows:
                self._walk(row, depth)
                self._flush()
            return
        grid, header_rows = table_grid(rows, self._limits, depth)
        self._builder.add_table(grid, header_row_count=header_rows)

    def _flush(self) -> None:
        if not self._inline:
            return
        lines = [one_line(line) for line in "".join(self._inline).split("\n")]
        self._inline.clear()
        level = self._list_depth if self._kind is BlockKind.LIST_ITEM else 0
        self._builder.add(self._kind, "\n".join(line for line in lines if line), level=level)
