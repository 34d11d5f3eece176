"""Counts tokens word by word from a memory of words, where a tokenizer never looks over a space.

Most words of a text were met before, and looking one up takes a hundredth of the time of tokenising it. Counts stay
those of the tokenizer: a text with anything that could make a word depend on its neighbours is left to it whole.
"""

import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_MAX_WORDS = 100_000
_MAX_WORD_CHARACTERS = 40
_PROBE = "two words"
_SPACE_FREE_NORMALIZERS = frozenset(["NFKC", "NFC", "Lowercase", "Precompiled", "BertNormalizer", "Strip"])
# What a normalizer writes in place of control characters, of white space, and for a while of the wave dash.
_HARMLESS_REPLACEMENTS = frozenset(["", " ", "～", "\ue000"])

CountTexts = Callable[[Sequence[str]], list[int]]
"""Counts the tokens of texts without special tokens."""


class WordCounts:
    """Token counts of words of one tokenizer. Thread-safe; bounded."""

    def __init__(self, count_texts: CountTexts, added_tokens: Sequence[str]) -> None:
        """Start with an empty memory.

        Args:
            count_texts: The tokenizer itself.
            added_tokens: Texts that it finds before it looks for words.
        """
        self._count_texts = count_texts
        self._added_tokens = tuple(added_tokens)
        self._counts: dict[str, int] = {"": 0}
        alone, trailed = count_texts([_PROBE, _PROBE + " "])
        self._tail = trailed - alone

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count tokens.

        Args:
            texts: The texts.

        Returns:
            One count a text, as the tokenizer itself would give.
        """
        split = [text.replace("\n", " ").split(" ") for text in texts]
        known = self._counts
        found: list[int] = []
        unknown: list[int] = []
        for number, words in enumerate(split):
            try:
                count = sum(map(known.__getitem__, words))
            except KeyError:
                unknown.append(number)
                count = 0
            found.append(count + self._tail if not words[-1] else count)
        if unknown:
            self._count_unknown(texts, split, unknown, found)
        # White space alone is no word, but a token to some tokenizers.
        blank = [number for number, words in enumerate(split) if not words[-1] and not any(words)]
        for number, count in zip(blank, self._count_texts([texts[number] for number in blank]), strict=True):
            found[number] = count
        return found

    def _count_unknown(
        self, texts: Sequence[str], split: Sequence[list[str]], unknown: Sequence[int], found: list[int]
    ) -> None:
        known = self._counts
        words: dict[str, int] = {}
        whole: list[int] = []
        by_word: list[int] = []
        for number in unknown:
            fresh = {word for word in split[number] if word not in known and word not in words}
            if all(map(self._stands_alone, fresh)):
                words.update(dict.fromkeys(fresh, 0))
                by_word.append(number)
            else:
                whole.append(number)
        counts = self._count_texts([*words, *[texts[number] for number in whole]])
        words = dict(zip(words, counts[: len(words)], strict=True))
        for number, count in zip(whole, counts[len(words) :], strict=True):
            found[number] = count
        for number in by_word:
            found[number] += sum([words[word] if word in words else known[word] for word in split[number]])
        if len(known) + len(words) > _MAX_WORDS:
            # Another thread may be counting with the old one.
            self._counts = {"": 0}
        self._counts.update(words)

    def _stands_alone(self, word: str) -> bool:
        """Say whether a word is tokenised alike with and without its neighbours."""
        if len(word) > _MAX_WORD_CHARACTERS or any(token in word for token in self._added_tokens):
            return False
        if word.isascii():
            return word.isprintable()
        # A mark joins what stands before it; some characters become spaces, and spaces in a row become one.
        plain = unicodedata.normalize("NFKC", word)
        becomes_space = not plain.isprintable() or " " in plain or "\u2581" in plain or "\ufffd" in plain
        return not becomes_space and unicodedata.category(word[0])[0] != "M"


def has_independent_words(configuration: str) -> bool:
    """Say whether a tokenizer takes every word between spaces for itself.

    Args:
        configuration: The tokenizer, as JSON.

    Returns:
        True for the makes that are known to: words with a leading mark for the space before them (SentencePiece), and
        BERT's.
    """
    whole = json.loads(configuration)
    splitter = whole["pre_tokenizer"] or {}
    parts_at_spaces = splitter.get("type") == "BertPreTokenizer" or (
        splitter.get("type") == "Metaspace" and splitter.get("split") and splitter.get("prepend_scheme") == "always"
    )
    return bool(parts_at_spaces) and _keeps_words_apart(whole["normalizer"] or {"type": "Lowercase"})


def _keeps_words_apart(normalizer: Mapping[str, Any]) -> bool:
    if normalizer["type"] == "Sequence":
        return all(map(_keeps_words_apart, normalizer["normalizers"]))
    if normalizer["type"] == "Replace":
        return normalizer["content"] in _HARMLESS_REPLACEMENTS and " " not in normalizer["pattern"].get("String", "")
    return normalizer["type"] in _SPACE_FREE_NORMALIZERS
