"""What a chunker asks of a tokenizer, and a cheap one without a vocabulary."""

import re
from collections.abc import Sequence
from typing import Protocol

# One token per CJK character or kana, per run of word characters of any other script, per other visible character.
_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|[^\\w\\s]")


class TokenCounter(Protocol):
    """Counts tokens as the embedder does, special tokens left out.

    Both methods are called with whole batches: a chunker makes a handful of calls per document, never one per sentence.
    """

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text.

        Args:
            texts: Any number of texts.

        Returns:
            One count per text, in the same order.
        """
        ...

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Say where each token of a text stands.

        Args:
            text: One text.

        Returns:
            Start and end (exclusive) of each token, in characters, in order.
        """
        ...


class WordTokenCounter:
    """A deterministic counter without a vocabulary: words, single CJK characters and single marks are tokens.

    It serves where an estimate will do and in tests; a budget for an embedder needs that embedder's own tokenizer.
    """

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text.

        Args:
            texts: Any number of texts.

        Returns:
            One count per text, in the same order.
        """
        return [len(_WORD.findall(text)) for text in texts]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Say where each token of a text stands.

        Args:
            text: One text.

        Returns:
            Start and end (exclusive) of each token, in characters, in order.
        """
        return [match.span() for match in _WORD.finditer(text)]
