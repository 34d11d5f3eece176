"""A model's tokenizer behind the port: counts and offsets without special tokens, ids with prefix and windows."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from opencc import OpenCC
from tokenizers import Encoding, Tokenizer

from corpusmesh_adapters.models.word_counts import WordCounts, has_independent_words


class ModelTokenizer:
    """The tokenizer of a model directory. Thread-safe."""

    def __init__(self, path: Path, *, fold_traditional: bool = False) -> None:
        """Load the tokenizer.

        Args:
            path: File in the format of `tokenizers`.
            fold_traditional: Whether traditional Chinese is read as simplified.
        """
        self._tokenizer = Tokenizer.from_file(str(path))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._fold_traditional = fold_traditional
        template = self._tokenizer.encode("").ids
        self.special_count: int = self._tokenizer.num_special_tokens_to_add(False)
        self._first, self._last = template[0], template[-1]
        added = [token.content for token in self._tokenizer.get_added_tokens_decoder().values()]
        by_word = has_independent_words(self._tokenizer.to_str()) and not any(" " in token for token in added)
        self._words = WordCounts(self._count, added) if by_word else None

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count tokens without special tokens; see `TextTokenizer.count_tokens`.

        Args:
            texts: The texts.

        Returns:
            One count a text.
        """
        if not texts:
            return []
        folded = [self.fold(text) for text in texts] if self._fold_traditional else texts
        return self._words.count(folded) if self._words is not None else self._count(folded)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Tell where tokens stand; see `TextTokenizer.token_offsets`.

        Args:
            text: The text.

        Returns:
            (start, end) in characters.
        """
        # Folding keeps the number of characters, so offsets hold in the text as it was given.
        return list(self._tokenizer.encode(self.fold(text), add_special_tokens=False).offsets)

    def windows(self, texts: Sequence[str], *, prefix: str, max_tokens: int, max_windows: int) -> list["TextWindows"]:
        """Tokenise texts for the model.

        Args:
            texts: The texts.
            prefix: Put before each.
            max_tokens: Longest window, special tokens included.
            max_windows: Most windows of one text; what is beyond them is cut off.

        Returns:
            The windows of each text, at least one.
        """
        encodings: list[Encoding] = self._tokenizer.encode_batch_fast(
            [prefix + self.fold(text) for text in texts], add_special_tokens=False
        )
        content = max_tokens - self.special_count
        found = []
        for encoding in encodings:
            ids = encoding.ids
            kept = ids[: content * max_windows]
            parts = [kept[start : start + content] for start in range(0, len(kept), content)] or [[]]
            found.append(TextWindows([[self._first, *part, self._last] for part in parts], is_long=len(ids) > content))
        return found

    def _count(self, texts: Sequence[str]) -> list[int]:
        if not texts:
            return []
        return [len(found) for found in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def fold(self, text: str) -> str:
        """Read traditional Chinese as simplified where the model needs it.

        Args:
            text: The text.

        Returns:
            The text as the model reads it, of as many characters.
        """
        if not self._fold_traditional or text.isascii():
            return text
        folded: str = _folder().convert(text)
        return folded if len(folded) == len(text) else text


class TextWindows:
    """The token ids of one text, in windows that the model can read."""

    __slots__ = ("ids", "is_long")

    def __init__(self, ids: list[list[int]], *, is_long: bool) -> None:
        self.ids = ids
        self.is_long = is_long


@lru_cache(maxsize=1)
def _folder() -> OpenCC:
    return OpenCC("t2s")
