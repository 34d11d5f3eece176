"""How much of two texts is the same, word by word."""

import re
from difflib import SequenceMatcher

_MAX_WORDS = 600
"""Words of a text that are compared; more than a chunk has."""
_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


def words_of(text: str) -> list[str]:
    """Cut a text into what is compared.

    Args:
        text: Any text.

    Returns:
        Its first 600 words; CJK characters are words.
    """
    return _WORD.findall(text)[:_MAX_WORDS]


def word_similarity(first: str, second: str) -> float:
    """Compare two texts word by word; characters would make rows that differ in a number look alike.

    Args:
        first: One text.
        second: Another.

    Returns:
        Twice the words in matching stretches over all words, 0 to 1.
    """
    if first == second:
        return 1.0
    one, two = words_of(first), words_of(second)
    return SequenceMatcher(None, one, two, autojunk=False).ratio() if one and two else 0.0
