"""A cheap tokenizer without a vocabulary, for tests and where an estimate will do."""

import re
from collections.abc import Sequence

# One token per CJK character or kana, per run of word characters of any other script, per other visible character.
_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|[^\\w\\s]")


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
        return [len(_WORD.findall(text)) for text in texts]

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Say where each token of a text stands.

        Args:
            text: One text.

        Returns:
            Start and end (exclusive) of each token, in characters, in order.
        """
        return [match.span() for match in _WORD.finditer(text)]
