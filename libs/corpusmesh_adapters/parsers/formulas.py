"""Writes formulas of MathML and Office as text."""

import re
from collections.abc import Iterator

from lxml import etree
from selectolax.lexbor import LexborNode

_DISPLAY = re.compile(r"\A(?:\$\$.+\$\$|\\\[.+\\\]|\\begin\{(equation|align|gather|multline)\*?\}.+)\Z", re.DOTALL)
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_W_TEXT = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}t"
_MAX_DEPTH = 60
_SEPARATORS = {"num": "", "den": "/", "sup": "^", "sub": "_", "deg": ""}


def is_display_formula(text: str) -> bool:
    """Say whether a paragraph is a formula in TeX notation.

    Args:
        text: The paragraph.

    Returns:
        True if display marks surround it.
    """
    return len(text) > 4 and text[0] in "$\\" and _DISPLAY.match(text.strip()) is not None


def mathml_text(node: LexborNode) -> str:
    r"""Write a MathML formula as text.

    Args:
        node: A `math` element.

    Returns:
        Its TeX source where it carries one, else its own text in reading order.
    """
    stated = node.attributes.get("alttext")
    if stated:
        return stated
    annotation = node.css_first('annotation[encoding="application/x-tex"]')
    if annotation is not None:
        return annotation.text(deep=True)
    return node.text(deep=True)


def office_math_text(element: etree._Element) -> str:
    """Write an Office formula as linear text, as in "(a+b)/2" or "x^2".

    Args:
        element: An `oMath` element, or one inside it.

    Returns:
        One line.
    """
    return "".join(_linear(element, 0))


def _linear(element: etree._Element, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        return
    for child in element:
        tag = child.tag if isinstance(child.tag, str) else ""
        name = tag.removeprefix(_M)
        if tag in (f"{_M}t", _W_TEXT):
            yield child.text or ""
        elif name == "chr":
            continue
        elif name in _SEPARATORS:
            body = "".join(_linear(child, depth + 1))
            if body:
                yield _SEPARATORS[name] + (body if len(body) == 1 else f"({body})")
        elif name == "rad":
            yield "√" + "".join(_linear(child, depth + 1))
        elif name == "d":
            yield _delimited(child, depth)
        elif name == "nary":
            yield _operator(child) + "".join(_linear(child, depth + 1))
        elif name == "mr":
            yield ", ".join("".join(_linear(cell, depth + 1)) for cell in child) + "; "
        else:
            yield from _linear(child, depth + 1)


def _delimited(element: etree._Element, depth: int) -> str:
    opening = element.find(f"{_M}dPr/{_M}begChr")
    closing = element.find(f"{_M}dPr/{_M}endChr")
    inside = ", ".join("".join(_linear(each, depth + 1)) for each in element.findall(f"{_M}e"))
    left = "(" if opening is None else str(opening.get(f"{_M}val", ""))
    right = ")" if closing is None else str(closing.get(f"{_M}val", ""))
    return f"{left}{inside}{right}"


def _operator(element: etree._Element) -> str:
    sign = element.find(f"{_M}naryPr/{_M}chr")
    return "∫" if sign is None else str(sign.get(f"{_M}val", ""))
