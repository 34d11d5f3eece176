"""How many tokens a text has, about, where no tokenizer is at hand."""

import re
from typing import Final

_LATIN_CHARACTERS_PER_TOKEN = 4
_LAST_LATIN = 0x24F
_OTHERS: Final = re.compile(r"[^\x00-\u024f]+")


def estimate_tokens(text: str) -> int:
    """Estimate tokens: a quarter for a Latin character, one for any other.

    Args:
        text: Any text.

    Returns:
        At least 1 for a text that is not empty.
    """
    others = 0 if text.isascii() else sum(map(len, _OTHERS.findall(text)))
    return -(-(len(text) - others) // _LATIN_CHARACTERS_PER_TOKEN) + others


def cut_to_tokens(text: str, max_tokens: int) -> str:
    """Cut a text at its end.

    Args:
        text: Any text.
        max_tokens: Tokens by `estimate_tokens`.

    Returns:
        The longest beginning with at most that many.
    """
    if len(text) <= max_tokens or text.isascii():
        return text[: max(0, max_tokens) * _LATIN_CHARACTERS_PER_TOKEN]
    quarters = max_tokens * _LATIN_CHARACTERS_PER_TOKEN
    for place, character in enumerate(text):
        quarters -= 1 if ord(character) <= _LAST_LATIN else _LATIN_CHARACTERS_PER_TOKEN
        if quarters < 0:
            return text[:place]
    return text
