"""Where a name stands in what a language model read, in canonical form; whole, or by half of its words."""

import re
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.citation.sentences import split_sentences
from corpusmesh_core.graphs.values import GraphChunk
from corpusmesh_core.text import normalize

WHOLE_CONFIDENCE: Final = 0.9
"""Of an entity whose name stands in the text."""
PARTIAL_CONFIDENCE: Final = 0.45
"""Of an entity of whose name a part stands there."""
_MIN_SHARE: Final = 0.5
_MIN_WORD: Final = 3
_MAX_HITS: Final = 200
"""Places of one name that are looked at in one batch."""
_MAX_SENTENCE_CHARACTERS: Final = 500
_TITLE_WEIGHT: Final = 0.5
_NO_WORD: Final = re.compile(r"[^\w\n]+", re.UNICODE)
_BOUNDLESS: Final = "\u0590"
"""From here on letters of scripts whose words have no clear edges: none between them (Chinese, Thai), or with particles
written to them (Hebrew, Arabic, Korean)."""
_MIN_STEM_WORD: Final = 7
_MIN_FOREIGN_STEM_WORD: Final = 5
_MAX_ENDING: Final = 5
_ENDINGS: Final = ("", "s", "es")


def canonical_text(text: str) -> str:
    """Bring a text into the form in which canonical names can be looked for.

    Args:
        text: Any text without line breaks that matter.

    Returns:
        Folded as `canonical_name` folds, with single spaces for all that is no letter, digit or line break.
    """
    folded = normalize(text).casefold()
    if not folded.isascii():
        folded = "".join(c for c in unicodedata.normalize("NFKD", folded) if not unicodedata.combining(c))
    return _NO_WORD.sub(" ", folded)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a name stands in a batch.

    Attributes:
        counts: How often in each chunk, by position.
        sentences: Numbers of the sentences, ascending.
        confidence: WHOLE_CONFIDENCE or PARTIAL_CONFIDENCE.
    """

    counts: Mapping[int, float]
    sentences: tuple[int, ...]
    confidence: float


class BatchText:
    """The text of a batch, sentence by sentence, with titles and headings behind it."""

    def __init__(self, chunks: Sequence[GraphChunk]) -> None:
        """Read the chunks.

        Args:
            chunks: What a language model reads at once.
        """
        self.sentences: list[str] = []
        self._positions: list[int] = []
        for chunk in chunks:
            for span in split_sentences(chunk.text):
                self.sentences.append(" ".join(chunk.text[span.start : span.end].split()))
                self._positions.append(chunk.position)
        self._spoken_count = len(self.sentences)
        for chunk in chunks:
            self.sentences.append(" ".join(" / ".join((chunk.title, *chunk.heading_path)).split()))
            self._positions.append(chunk.position)
        lines = [canonical_text(sentence) for sentence in self.sentences]
        self._starts: list[int] = []
        at = 0
        for line in lines:
            self._starts.append(at)
            at += len(line) + 1
        self._text = "\n".join(lines)

    def find(self, name: str) -> Standing | None:
        """Tell where a name stands.

        Args:
            name: The name in canonical form.

        Returns:
            Where it stands whole, else where most of its words stand; None where not even half of them do.
        """
        hits = self._hits(name)
        if hits:
            return self._standing(hits, WHOLE_CONFIDENCE)
        words = _words(name)
        found = {word: set(self._hits(word) or self._hits(_stem(word), max_ending=_MAX_ENDING)) for word in words}
        held = [word for word in words if found[word]]
        if not held or len(held) < _MIN_SHARE * len(words):
            return None
        # Where most of its words stand.
        counts = Counter(sentence for word in held for sentence in found[word])
        most = max(counts.values())
        return self._standing([sentence for sentence in sorted(counts) if counts[sentence] == most], PARTIAL_CONFIDENCE)

    def sentence_of(self, numbers: Sequence[int]) -> str:
        """Give the first of some sentences that is one, not a title.

        Args:
            numbers: Numbers of sentences, ascending.

        Returns:
            The sentence; "" for none.
        """
        place = next((number for number in numbers if number < self._spoken_count), None)
        return "" if place is None else self.sentences[place][:_MAX_SENTENCE_CHARACTERS]

    def _standing(self, hits: Sequence[int], confidence: float) -> Standing:
        spoken = [number for number in hits if number < self._spoken_count]
        counts: defaultdict[int, float] = defaultdict(float)
        for number in spoken or hits:
            counts[self._positions[number]] += 1.0 if spoken else _TITLE_WEIGHT
        return Standing(counts, tuple(dict.fromkeys(spoken)), confidence)

    def _hits(self, name: str, *, max_ending: int = 0) -> list[int]:
        """Give the sentence of each place where a name stands as words, of at most _MAX_HITS places.

        Args:
            name: The name, or the stem of a word of it.
            max_ending: Letters that may follow a stem; 0 for a name, which may be a plural.
        """
        text, at = self._text, 0
        hits: list[int] = []
        for _ in range(_MAX_HITS if name else 0):
            at = text.find(name, at)
            if at < 0:
                break
            end = at + len(name)
            if _is_bound(text, at, end, max_ending):
                hits.append(bisect_right(self._starts, at) - 1)
            at = end
        return hits


def _is_bound(text: str, start: int, end: int, max_ending: int) -> bool:
    """Tell whether a piece is cut at the edges of words, where its script has them."""
    if start and _is_letter(text[start]) and _is_letter(text[start - 1]):
        return False
    if not _is_letter(text[end - 1]):
        return True
    rest = end
    while rest < len(text) and rest - end <= _MAX_ENDING and _is_letter(text[rest]):
        rest += 1
    return rest - end <= max_ending if max_ending else text[end:rest] in _ENDINGS


def _is_letter(character: str) -> bool:
    return character < _BOUNDLESS and character.isalnum()


def _stem(word: str) -> str:
    """Leave the ending of an inflected word out; "" for a word that is too short to have one that is told apart."""
    least = _MIN_STEM_WORD if word.isascii() else _MIN_FOREIGN_STEM_WORD
    if len(word) < least or not _is_letter(word[-1]):
        return ""
    return word[: -2 if len(word) >= _MIN_STEM_WORD else -1]


def _words(name: str) -> tuple[str, ...]:
    """Cut a canonical name into words that tell something; what has no clear edges into pairs of characters."""
    words: dict[str, None] = {}
    for word in name.split():
        if any(character >= _BOUNDLESS for character in word):
            words.update((word[place : place + 2], None) for place in range(len(word) - 1))
        elif len(word) >= _MIN_WORD:
            words[word] = None
    return tuple(words)
