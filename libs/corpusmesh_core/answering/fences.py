"""Blocks of quoted data in a prompt: delimiters that no document can know, and text without what no reader sees."""

import re
from collections.abc import Iterable

import numpy as np

from corpusmesh_core.citation.labels import defuse_markers

_HEX_DIGITS = 16
# What no reader sees and a model does: controls, zero-width and direction characters, tag characters.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
_MAX_NAME_CHARACTERS = 200


def draw_fence(rng: np.random.Generator, texts: Iterable[str]) -> str:
    """Draw a delimiter for one request, so that a document cannot end its own block.

    Args:
        rng: The dice.
        texts: All that the prompt will quote.

    Returns:
        `DATA-` and 16 hexadecimal digits that occur in none of the texts.
    """
    quoted = list(texts)
    while True:
        fence = "DATA-" + "".join(f"{digit:x}" for digit in rng.integers(0, 16, size=_HEX_DIGITS))
        if not any(fence in text for text in quoted):
            return fence


def fenced_block(fence: str, header: str, text: str) -> str:
    """Write one block.

    Args:
        fence: From `draw_fence`.
        header: What it is; made of `header_text`.
        text: What is quoted.

    Returns:
        The block, without invisible characters and with marker look-alikes defused (invariant 10).
    """
    return f"<<<{fence} {header}\n{defuse_markers(visible_text(text))}\n{fence}>>>"


def header_text(text: str) -> str:
    """Make a file name or a heading fit for a header line.

    Args:
        text: The name.

    Returns:
        One short line.
    """
    flat = " ".join(visible_text(text).replace("|", "/").split())
    return defuse_markers(flat[:_MAX_NAME_CHARACTERS])


def visible_text(text: str) -> str:
    """Leave out what no reader sees.

    Args:
        text: Any text.

    Returns:
        The text without control, zero-width, direction and tag characters.
    """
    return _CONTROLS.sub("", text)
