"""Walks an HTML tree into blocks: pages, books, the bodies of mails."""

import base64
import binascii
import re
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from selectolax.lexbor import LexborHTMLParser, LexborNode

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source, one_line
from corpusmesh_adapters.parsers.encodings import decode
from corpusmesh_adapters.parsers.failures import over_limit
from corpusmesh_adapters.parsers.figures import add_figure
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.formulas import is_display_formula, mathml_text
from corpusmesh_adapters.parsers.html_tables import is_layout_table, own_rows, table_grid
from corpusmesh_adapters.parsers.html_text import (
    BLOCK_TAGS,
    HEADING_LEVELS,
    alternative_text,
    furniture_kind,
    heading_parts,
    inline_text,
    is_dropped,
    visible_text,
)
from corpusmesh_adapters.parsers.html_tree import parse_html_tree
from corpusmesh_adapters.parsers.plain_text import note_replacements
from corpusmesh_core.documents import BlockKind, ParsedDocument

FindPicture = Callable[[str], bytes]
_DECLARED = re.compile(
    rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{2,40})"
    rb"|^\s*<\?xml[^>]{0,100}encoding\s*=\s*[\"']([A-Za-z0-9_.:-]{2,40})",
    re.IGNORECASE,
)
_DECLARATION_BYTES = 4_096
_MAX_DATA_ADDRESS_CHARACTERS = 64 * 1024 * 1024
_UNNUMBERED = -(10**9)
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
        Headings, paragraphs, lists, code, formulas and tables in the order of the page; its navigation and its foot
        as HEADER and FOOTER.

    Raises:
        DocumentError: DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    decoded = decode(source.content, declared_encoding(source.content))
    builder = DocumentBuilder(Format.HTML, source.limits, keep_pictures=source.options.keep_pictures)
    note_replacements(builder, decoded)
    tree = parse_html_tree(decoded.text, source.limits)
    HtmlWalker(builder, source).walk_tree(tree)
    title = tree.css_first("title")
    metadata = {"encoding": decoded.encoding}
    for name in ("author", "description", "keywords"):
        node = tree.css_first(f'meta[name="{name}"]')
        metadata[name] = (node.attributes.get("content") or "") if node is not None else ""
    return builder.build(
        title=title.text(deep=True) if title is not None else "",
        metadata=metadata,
        declared_language=(tree.root.attributes.get("lang") or "") if tree.root is not None else "",
        empty_detail="the page has no visible text; pages drawn by scripts must be saved after they have been drawn",
    )


def declared_encoding(content: bytes) -> str:
    """Find the encoding that a page gives itself.

    Args:
        content: The page.

    Returns:
        The label, "" where there is none.
    """
    found = _DECLARED.search(content[:_DECLARATION_BYTES])
    return (found.group(1) or found.group(2)).decode("ascii") if found else ""


class HtmlWalker:
    """Turns elements into blocks."""

    def __init__(self, builder: DocumentBuilder, source: Source, *, find_picture: FindPicture | None = None) -> None:
        """Create a walker.

        Args:
            builder: Where blocks go.
            source: The document, for its limits and options.
            find_picture: Finds a picture by the address in the page, b"" where it has none; None where pictures
                lie outside the document.
        """
        self._builder = builder
        self._options = source.options
        self._limits = source.limits
        self._find_picture = find_picture
        self._inline: list[str] = []
        self._has_text = False
        self._kind = BlockKind.PARAGRAPH
        self._furniture: BlockKind | None = None
        self._list_depth = 0
        self._counters: list[int] = []

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
            self._add_inline(inline_text(node.text_content or ""))
        elif tag.startswith(("-", "!", "_")):
            return
        elif tag in _LEAVES:
            _LEAVES[tag](self, node, depth)
        elif is_dropped(node):
            return
        elif tag in HEADING_LEVELS:
            self._flush()
            kind = self._furniture or BlockKind.HEADING
            for index, text in enumerate(heading_parts(node, depth, self._limits.max_depth)):
                level = HEADING_LEVELS[tag] + index if self._furniture is None else 0
                self._builder.add(kind, text, level=level)
        elif tag in BLOCK_TAGS:
            self._block(node, tag, depth)
        else:
            self._walk(node, depth)

    def _add_inline(self, text: str) -> None:
        self._inline.append(text)
        self._has_text = self._has_text or not text.isspace()

    def _break(self, _node: LexborNode, _depth: int) -> None:
        self._inline.append("\n")

    def _code(self, node: LexborNode, _depth: int) -> None:
        if is_dropped(node):
            return
        self._flush()
        self._builder.add(self._furniture or BlockKind.CODE, node.text(deep=True))

    def _script(self, node: LexborNode, _depth: int) -> None:
        """Read a formula that a script of the page draws (MathJax); other scripts are dropped."""
        kind = (node.attributes.get("type") or "").lower()
        if kind.startswith("math/tex"):
            self._add_formula(node.text(deep=True), is_display="mode=display" in kind)

    def _formula(self, node: LexborNode, _depth: int) -> None:
        if not is_dropped(node):
            self._add_formula(mathml_text(node), is_display=node.attributes.get("display") == "block")

    def _add_formula(self, text: str, *, is_display: bool) -> None:
        if is_display:
            self._flush()
            self._builder.add(self._furniture or BlockKind.FORMULA, one_line(text))
        else:
            self._add_inline(f" {one_line(text)} ")

    def _image(self, node: LexborNode, _depth: int) -> None:
        if is_dropped(node):
            return
        text = alternative_text(node)
        content = self._picture(node.attributes.get("src") or "") if self._options.keep_pictures else b""
        if content:
            self._flush()
            add_figure(self._builder, content, self._options, text=text.strip())
        else:
            self._inline.append(text)

    def _picture(self, address: str) -> bytes:
        if address[:5].lower() == "data:":
            return data_address_content(address)
        return self._find_picture(address) if self._find_picture is not None and address else b""

    def _block(self, node: LexborNode, tag: str, depth: int) -> None:
        self._flush()
        kind, furniture = self._kind, self._furniture
        self._kind = _KIND_OF_TAG.get(tag, self._kind)
        found = furniture_kind(node)
        if found is BlockKind.NOTE:
            self._kind = found
        else:
            self._furniture = furniture or found
        opens_list = tag in ("ul", "ol", "menu", "dl")
        self._list_depth += opens_list
        if opens_list:
            self._counters.append(_first_number(node) - 1 if tag == "ol" else _UNNUMBERED)
        elif tag == "li" and self._counters and self._counters[-1] != _UNNUMBERED:
            self._counters[-1] += 1
            self._inline.append(f"{self._counters[-1]}. ")
        self._walk(node, depth)
        self._flush()
        self._list_depth -= opens_list
        if opens_list:
            self._counters.pop()
        self._kind, self._furniture = kind, furniture

    def _table(self, node: LexborNode, depth: int) -> None:
        if is_dropped(node):
            return
        self._flush()
        rows = own_rows(node)
        caption = next((child for child in node.iter() if child.tag == "caption"), None)
        if caption is not None:
            self._builder.add(self._furniture or BlockKind.CAPTION, visible_text(caption))
        if self._furniture is not None or is_layout_table(node, rows):
            for row in rows:
                self._walk(row, depth)
                self._flush()
            return
        grid, header_rows = table_grid(rows, self._limits, depth)
        self._builder.add_table(grid.rows, header_row_count=header_rows, spans=grid.spans)

    def _flush(self) -> None:
        if not self._inline:
            return
        lines = [one_line(line) for line in "".join(self._inline).split("\n")]
        self._inline.clear()
        has_text, self._has_text = self._has_text, False
        text = "\n".join(line for line in lines if line)
        kind = self._furniture or self._kind
        if not has_text and kind is BlockKind.PARAGRAPH:
            kind = BlockKind.FIGURE
        elif kind is BlockKind.PARAGRAPH and is_display_formula(text):
            kind = BlockKind.FORMULA
        self._builder.add(kind, text, level=self._list_depth if kind is BlockKind.LIST_ITEM else 0)


def _first_number(node: LexborNode) -> int:
    start = (node.attributes.get("start") or "1").strip()
    return int(start) if start.isdecimal() and len(start) < 7 else 1


def data_address_content(address: str) -> bytes:
    """Read what a data address holds (RFC 2397).

    Args:
        address: "data:…".

    Returns:
        The bytes; b"" where it is broken or overlong.
    """
    head, comma, body = address.partition(",")
    if not comma or len(body) > _MAX_DATA_ADDRESS_CHARACTERS:
        return b""
    if not head.lower().endswith(";base64"):
        return unquote_to_bytes(body)
    try:
        return base64.b64decode(unquote_to_bytes(body))
    except (binascii.Error, ValueError):
        return b""


_LEAVES: dict[str, Callable[[HtmlWalker, LexborNode, int], None]] = {
    "br": HtmlWalker._break,
    "img": HtmlWalker._image,
    "math": HtmlWalker._formula,
    "pre": HtmlWalker._code,
    "script": HtmlWalker._script,
    "table": HtmlWalker._table,
}
