"""Drops from text what is not text."""

import re

# Controls, soft hyphens, byte order marks and lone surrogates: none is text, and the last cannot even be encoded.
_NOISE = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\xad\ufeff\ufffe\ud800-\udfff]")
_ASCII_NOISE = bytes(code for code in range(128) if _NOISE.match(chr(code)))
_CJK = "\u2e80-\u303f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef"
_CJK_BREAK = re.compile(f"(?<=[{_CJK}])[ \t]*\n[ \t\n]*(?=[{_CJK}])")
_SPACES = re.compile(r"\s+")
# Marks that turn the direction of what follows: in a name they hide its real ending.
_DIRECTION = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_MAX_NAME_CHARACTERS = 200


def clean(text: str) -> str:
    """Drop what is not text: controls, soft hyphens, lone surrogates; line ends become LF.

    Args:
        text: Any text.

    Returns:
        Text that every encoding can carry.
    """
    if "\r" in text or "\x0c" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n")
    if text.isascii():
        # As most texts are, and five times as fast.
        return text.encode("ascii").translate(None, _ASCII_NOISE).decode("ascii")
    return _NOISE.sub("", text)


def one_line(text: str) -> str:
    """Write a text on one line; between CJK characters a line break leaves no space, which would break search.

    Args:
        text: Any text.

    Returns:
        The text with white space collapsed, stripped.
    """
    return _SPACES.sub(" ", _CJK_BREAK.sub("", text)).strip()


def shown_name(name: str) -> str:
    """Write the name of an attachment or a member of an archive for a person; it is never used as a path.

    Args:
        name: Any name.

    Returns:
        One line of at most 200 characters without controls and marks of direction.
    """
    return one_line(_DIRECTION.sub("", clean(name)))[:_MAX_NAME_CHARACTERS]
