"""Texts on one line."""

import re
from typing import Final

_BLANKS: Final = re.compile(r"\s+")
_LINE_END: Final = re.compile(r"(?<=[\u3001-\u303f\u3400-\u9fff\uff00-\uffef])[ \t\r]*\n\s*(?=[\u3400-\u9fff])")


def one_line(text: str) -> str:
    """Write a text on one line; an end of line between two Chinese characters leaves no blank.

    Args:
        text: Any text.

    Returns:
        The line.
    """
    return _BLANKS.sub(" ", _LINE_END.sub("", text)).strip()
