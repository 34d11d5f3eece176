"""What of an HTML tree is text, and what is not."""

import re

from selectolax.lexbor import LexborNode

from corpusmesh_adapters.parsers.builder import one_line
from corpusmesh_adapters.parsers.formulas import mathml_text
from corpusmesh_core.documents import BlockKind

# Never content. Navigation and the foot of a page are kept as HEADER and FOOTER, which chunkers leave out; its head
# often holds the title.
DROPPED_TAGS = frozenset(
    [
        "script",
        "style",
        "noscript",
        "template",
        "svg",
        "canvas",
        "iframe",
        "object",
        "embed",
        "head",
        "select",
        "button",
        "input",
        "textarea",
        "datalist",
        "audio",
        "video",
        "map",
    ]
)
BLOCK_TAGS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "center",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hgroup",
        "hr",
        "html",
        "legend",
        "li",
        "main",
        "menu",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "summary",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "tr",
        "ul",
    ]
)
HEADING_LEVELS = {f"h{level}": level for level in range(1, 7)}
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_MAX_ALT_CHARACTERS = 300
_EMPTY_LINE_TAGS = re.compile(r"<br\b[^>]*>\s*<br\b", re.IGNORECASE)
_EMPTY_LINE = re.compile(r"\n\s*\n")
_MAX_ANCESTORS = 100
_NOTE_ROLES = frozenset(["doc-footnote", "doc-endnote"])


def is_dropped(node: LexborNode) -> bool:
    """Say whether an element is not content: scripts, forms, hidden parts.

    Args:
        node: An element.

    Returns:
        True if nothing of it is read.
    """
    if (node.tag or "") in DROPPED_TAGS:
        return True
    attributes = node.attributes
    if not attributes:
        return False
    if "hidden" in attributes or attributes.get("role") == "search":
        return True
    return bool(_HIDDEN_STYLE.search(attributes.get("style") or ""))


def furniture_kind(node: LexborNode) -> BlockKind | None:
    """Say whether an element surrounds a page's content rather than being it.

    Args:
        node: A block element.

    Returns:
        HEADER for navigation, FOOTER for the page's foot and for what stands beside its content, NOTE for a footnote of
        a book; None for content.
    """
    tag, attributes = node.tag or "", node.attributes
    role = attributes.get("role") or ""
    if role in _NOTE_ROLES or attributes.get("epub:type") in ("footnote", "endnote", "rearnote"):
        return BlockKind.NOTE
    if tag == "nav" or role == "navigation":
        return BlockKind.HEADER
    if role in ("contentinfo", "complementary") or (tag in ("footer", "aside") and not _is_in_content(node)):
        return BlockKind.FOOTER
    return None


def _is_in_content(node: LexborNode) -> bool:
    # The foot of an article, a quotation or a table is content; so is what stands beside its text.
    above = node.parent
    for _ in range(_MAX_ANCESTORS):
        if above is None:
            return False
        if above.tag in ("article", "main", "section", "blockquote", "figure"):
            return True
        above = above.parent
    return True


def inline_text(text: str) -> str:
    """Collapse the white space of running text as a browser does; line breaks between CJK characters vanish.

    Args:
        text: Text of one text node.

    Returns:
        The text without line breaks.
    """
    body = one_line(text)
    if not body:
        return " " if text else ""
    lead = " " if text[0].isspace() else ""
    tail = " " if text[-1].isspace() else ""
    return f"{lead}{body}{tail}"


def alternative_text(node: LexborNode) -> str:
    """Read what an image says of itself.

    Args:
        node: An `img` element.

    Returns:
        Its alternative text in spaces, "" if there is none or it is overlong.
    """
    text = one_line(node.attributes.get("alt") or "")
    return f" {text} " if 0 < len(text) <= _MAX_ALT_CHARACTERS else ""


def visible_text(node: LexborNode, depth: int = 0, max_depth: int = 200) -> str:
    """Collect the text of an element on one line.

    Args:
        node: An element.
        depth: How deep it lies.
        max_depth: Depth below which text is left out.

    Returns:
        Its visible text; blocks in it are parted by spaces.
    """
    parts: list[str] = []
    _collect(node, parts, depth, max_depth)
    return one_line("".join(parts))


def heading_parts(node: LexborNode, depth: int, max_depth: int) -> list[str]:
    """Collect the text of a heading; an empty line in it parts a number or title from a subtitle.

    Args:
        node: A heading element.
        depth: How deep it lies.
        max_depth: Depth below which text is left out.

    Returns:
        Its text, in parts of one line each.
    """
    if _EMPTY_LINE_TAGS.search(node.html or "") is None:
        return [visible_text(node, depth, max_depth)]
    parts: list[str] = []
    _collect(node, parts, depth, max_depth)
    return [line for line in map(one_line, _EMPTY_LINE.split("".join(parts))) if line]


def _collect(node: LexborNode, parts: list[str], depth: int, max_depth: int) -> None:
    if depth > max_depth:
        return
    child = node.child
    while child is not None:
        tag = child.tag or ""
        if tag == "-text":
            parts.append(inline_text(child.text_content or ""))
        elif tag == "br":
            parts.append("\n")
        elif tag == "img":
            parts.append(alternative_text(child))
        elif tag == "math":
            parts.append("" if is_dropped(child) else f" {mathml_text(child)} ")
        elif not tag.startswith(("-", "!", "_")) and not is_dropped(child):
            is_block = tag in BLOCK_TAGS or tag in HEADING_LEVELS or tag == "table"
            parts.append("\n" if is_block else "")
            _collect(child, parts, depth + 1, max_depth)
            parts.append("\n" if is_block else "")
        child = child.next
