"""A cheap tokenizer without a vocabulary, for tests and where an estimate will do."""

import re
from collections.abc import Sequence

# One token per CJK character or kana, per run of word characters of any other script, per other visible character.
_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|[^\\w\\s]")
# Marks that English texts use beyond ASCII: one token each, as the marks of ASCII are.
_COMMON_MARKS = "\u2018\u2019\u201c\u201d\u2013\u2014\u2022\u2026"
_ASCII = bytes(range(128))
_ASCII_MARKS = bytes(code for code in _ASCII if not (chr(code).isalnum() or chr(code).isspace() or chr(code) == "_"))
_ASCII_GAPS = bytes(code for code in _ASCII if code in _ASCII_MARKS or chr(code).isspace())
_TO_SPACES = bytes.maketrans(_ASCII_GAPS, b" " * len(_ASCII_GAPS))


class WordTokenCounter:
    """A deterministic counter without a vocabulary: words, single CJK characters and single marks are tokens.

    It serves where an estimate will do and in tests; a budget for an embedder needs that embedder's own tokenizer.
    """

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text.

        Args:
            texts: Any number of texts.

        Returns:
            One count per text, in the same order.
        """
        return [_count(text) for text in texts]

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Say where each token of a text stands.

        Args:
            text: One text.

        Returns:
            Start and end (exclusive) of each token, in characters, in order.
        """
        return [match.span() for match in _WORD.finditer(text)]


def _count(text: str) -> int:
    # A regular expression takes four times as long, and most texts are ASCII but for their quotation marks and dashes.
    if not text.isascii():
        plain = text
        for mark in _COMMON_MARKS:
            plain = plain.replace(mark, "!")
        if not plain.isascii():
            return len(_WORD.findall(text))
        text = plain
    content = text.encode("ascii")
    return len(content.translate(_TO_SPACES).split()) + len(content) - len(content.translate(None, _ASCII_MARKS))
