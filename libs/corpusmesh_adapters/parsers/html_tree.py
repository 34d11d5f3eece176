"""Parses HTML after a look at how deep it is nested: the parser's time grows with the square of the depth."""

import re

from selectolax.lexbor import LexborHTMLParser

from corpusmesh_adapters.parsers.failures import over_limit
from corpusmesh_core.ports.parsing import ParseLimits

_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)([^<>]*)")
# Elements that never hold others, and shapes of drawings, which end themselves.
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
) | frozenset(["circle", "ellipse", "image", "line", "path", "polygon", "polyline", "rect", "stop", "use"])
# Elements whose end tag may be left out: the next of their kind ends them.
_IMPLIED = frozenset(
    ["p", "li", "dt", "dd", "td", "th", "tr", "thead", "tbody", "tfoot", "option", "optgroup", "colgroup"]
)
_CONTAINERS = frozenset(["ul", "ol", "dl", "table", "div", "section", "article", "blockquote", "menu", "select"])
_RAW = frozenset(["script", "style", "textarea", "title", "xmp"])
_SEARCHED_ELEMENTS = 60
_DEPTH_FACTOR = 20


def parse_html_tree(text: str, limits: ParseLimits) -> LexborHTMLParser:
    """Parse a page.

    Args:
        text: The page.
        limits: How deep its elements may be nested.

    Returns:
        The tree.

    Raises:
        DocumentError: DOCUMENT_RESOURCE_LIMIT if it is nested far deeper than is allowed.
    """
    most = limits.max_depth * _DEPTH_FACTOR
    if text.count("<") > most and _depth(text, most) > most:
        raise over_limit("max_depth", limits.max_depth, f"its elements are nested more than {most} deep")
    return LexborHTMLParser(text)


def _depth(text: str, most: int) -> int:
    """Estimate how deep a page is nested, as a browser would nest it; stops beyond `most`."""
    stack: list[str] = []
    deepest = position = 0
    while (match := _TAG.search(text, position)) is not None and deepest <= most:
        position = match.end()
        name = match.group(2).lower()
        if name in _VOID:
            continue
        if match.group(1):
            _close(stack, name, _SEARCHED_ELEMENTS)
        else:
            if name in _IMPLIED:
                _close_implied(stack, name)
            if name in _RAW:
                end = text.find(f"</{match.group(2)}", position)
                position = end if end >= 0 else position
            stack.append(name)
            deepest = max(deepest, len(stack))
    return deepest


def _close(stack: list[str], name: str, searched: int) -> None:
    for index in range(len(stack) - 1, max(len(stack) - searched, 0) - 1, -1):
        if stack[index] == name:
            del stack[index:]
            return


def _close_implied(stack: list[str], name: str) -> None:
    for index in range(len(stack) - 1, max(len(stack) - _SEARCHED_ELEMENTS, 0) - 1, -1):
        if stack[index] == name:
            del stack[index:]
            return
        if stack[index] in _CONTAINERS:
            return
