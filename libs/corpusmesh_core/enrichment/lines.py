"""Texts on one line."""

import re
from typing import Final

_BLANKS: Final = re.compile(r"\s+")
_BETWEEN_IDEOGRAPHS: Final = re.compile(r"(?<=[\u3000-\u303f\u3400-\u9fff\uff00-\uffef])\s+(?=[\u3400-\u9fff])")


def one_line(text: str) -> str:
    """Write a text on one line, without the blanks that a page's width left between Chinese characters.

    Args:
        text: Any text.

    Returns:
        The line.
    """
    return _BETWEEN_IDEOGRAPHS.sub("", _BLANKS.sub(" ", text)).strip()
