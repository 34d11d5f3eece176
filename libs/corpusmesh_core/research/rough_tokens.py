"""Tokens by rule, for texts of one request that are not worth a call to the embedder's tokenizer."""

import re
from collections.abc import Sequence

# Pieces of words of at most five letters, ideographs one by one, other marks one by one: within a fifth of what
# subword tokenizers make of running English and Chinese.
_TOKEN = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{1,5}|[^\s]"
)


class RoughTokenizer:
    """`TextTokenizer` without a model."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count; see `TextTokenizer`."""
        return [sum(1 for _ in _TOKEN.finditer(text)) for text in texts]

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Tell where tokens stand; see `TextTokenizer`."""
        return [match.span() for match in _TOKEN.finditer(text)]
