"""Markdown by markdown-it's token stream, with line numbers."""

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source, one_line
from corpusmesh_adapters.parsers.encodings import decode
from corpusmesh_adapters.parsers.failures import over_limit
from corpusmesh_adapters.parsers.figures import add_figure
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.formulas import is_display_formula
from corpusmesh_adapters.parsers.html_blocks import HtmlWalker, data_address_content
from corpusmesh_adapters.parsers.html_tree import parse_html_tree
from corpusmesh_adapters.parsers.plain_text import note_replacements
from corpusmesh_core.documents import BlockKind, ParsedDocument

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_MATTER_FIELD = re.compile(r"^([A-Za-z][\w-]{0,40}):[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
# markdown-it keeps an image's address out of the text by itself; a raw data address would still cost it seconds.
_DATA_ADDRESS = re.compile(r"\(\s*<?(data:[^)\s>]+)>?\s*\)")
_PUT_ASIDE = "put-aside-"


def parse_markdown(source: Source) -> ParsedDocument:
    """Read a Markdown document (CommonMark with tables).

    Args:
        source: The document.

    Returns:
        Blocks with line numbers; addresses of links and images are not text.

    Raises:
        DocumentError: DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    decoded = decode(source.content)
    builder = DocumentBuilder(Format.MARKDOWN, source.limits, keep_pictures=source.options.keep_pictures)
    note_replacements(builder, decoded)
    text = decoded.text.replace("\r\n", "\n")
    metadata = {"encoding": decoded.encoding}
    front = _FRONT_MATTER.match(text)
    if front is not None:
        metadata |= {key.lower(): value.strip("\"'") for key, value in _FRONT_MATTER_FIELD.findall(front.group(1))}
        # Blank lines keep the line numbers of what follows.
        text = "\n" * text.count("\n", 0, front.end()) + text[front.end() :]
    pictures: list[str] = []

    def put_aside(match: re.Match[str]) -> str:
        pictures.append(match.group(1) if source.options.keep_pictures else "")
        return f"({_PUT_ASIDE}{len(pictures) - 1})"

    parser = MarkdownIt("commonmark", {"maxNesting": source.limits.max_depth}).enable(["table", "strikethrough"])
    tokens = parser.parse(_DATA_ADDRESS.sub(put_aside, text))
    if max((token.level for token in tokens), default=0) >= source.limits.max_depth - 1:
        # The parser leaves out what is nested deeper, and says nothing.
        raise over_limit("max_depth", source.limits.max_depth, "its lists or quotations are nested deeper")
    _Reader(builder, source, pictures).read(tokens)
    first = next((token for token in tokens if token.type == "heading_open" and token.tag == "h1"), None)
    title = metadata.pop("title", "")
    if not title and first is not None:
        title = inline_markdown(tokens[tokens.index(first) + 1])
    return builder.build(title=title, metadata=metadata)


class _Reader:
    """Turns block tokens into blocks."""

    def __init__(self, builder: DocumentBuilder, source: Source, pictures: Sequence[str]) -> None:
        self._builder = builder
        self._source = source
        self._pictures = pictures
        self._label = ""
        self._list_depth = 0
        self._heading = 0

    def read(self, tokens: Sequence[Token]) -> None:
        position = 0
        while position < len(tokens):
            token = tokens[position]
            if token.type == "table_open":
                end = next(index for index in range(position, len(tokens)) if tokens[index].type == "table_close")
                self._table(tokens[position:end], token)
                position = end
            else:
                self._read_one(token)
            position += 1

    def _read_one(self, token: Token) -> None:
        line = token.map[0] + 1 if token.map else 0
        if token.type in ("bullet_list_open", "ordered_list_open"):
            self._list_depth += 1
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            self._list_depth -= 1
        elif token.type == "heading_open":
            self._heading = int(token.tag[1:])
        elif token.type == "heading_close":
            self._heading = 0
        elif token.type == "list_item_open":
            self._label = f"{token.info}{token.markup} " if token.info else ""
        elif token.type in ("fence", "code_block"):
            kind = BlockKind.FORMULA if token.info.strip() == "math" else BlockKind.CODE
            self._builder.add(kind, token.content, line=line)
        elif token.type == "html_block":
            HtmlWalker(self._builder, self._source).walk_tree(parse_html_tree(token.content, self._source.limits))
        elif token.type == "inline":
            self._inline(token, line)

    def _inline(self, token: Token, line: int) -> None:
        text = inline_markdown(token)
        if self._heading:
            self._builder.add(BlockKind.HEADING, text, level=self._heading, line=line)
        elif self._list_depth:
            label, self._label = self._label, ""
            self._builder.add(BlockKind.LIST_ITEM, f"{label}{text}", level=self._list_depth, line=line)
        elif is_display_formula(token.content.strip()):
            # As it stands in the source: in a formula, marks of emphasis are signs.
            self._builder.add(BlockKind.FORMULA, token.content.strip(), line=line)
        elif not self._add_figures(token):
            self._builder.add(BlockKind.PARAGRAPH, text, line=line)

    def _add_figures(self, token: Token) -> bool:
        """Add a paragraph that is nothing but images as figures."""
        children = [child for child in token.children or () if child.type != "softbreak" and child.content.strip()]
        images = [child for child in children if child.type == "image"]
        if not images or len(images) != len(children):
            return False
        for image in images:
            address = str(image.attrGet("src") or "")
            number = address.removeprefix(_PUT_ASIDE)
            held = self._pictures[int(number)] if number != address and number.isdecimal() else ""
            add_figure(
                self._builder,
                data_address_content(held) if held else b"",
                self._source.options,
                text=inline_markdown(image),
            )
        return True

    def _table(self, tokens: Sequence[Token], opening: Token) -> None:
        rows: list[list[str]] = []
        headers = 0
        for token in tokens:
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "thead_close":
                headers = len(rows)
            elif token.type == "inline":
                rows[-1].append(inline_markdown(token))
        self._builder.add_table(rows, header_row_count=headers, line=opening.map[0] + 1 if opening.map else 0)


def inline_markdown(token: Token) -> str:
    """Write the text of an inline token: no marks, no addresses, images by their alternative text.

    Args:
        token: An `inline` token.

    Returns:
        Lines where the source has hard breaks.
    """
    parts: list[str] = []
    for child in token.children or ():
        if child.type in ("text", "code_inline"):
            parts.append(child.content)
        elif child.type == "softbreak":
            parts.append("\n")
        elif child.type == "hardbreak":
            parts.append("\v")
        elif child.type == "image":
            parts.append(f" {inline_markdown(child)} ")
        elif child.type == "html_inline" and re.match(r"<br\b", child.content, re.IGNORECASE):
            parts.append("\v")
    return "\n".join(filter(None, (one_line(line) for line in "".join(parts).split("\v"))))
