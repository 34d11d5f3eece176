"""A tenant's own words: terms that are searched as phrases, and groups of words that mean the same (FR-A13).

They change what a question is turned into and nothing in the index, so that they hold from the next question on.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.text.analysis import analyze
from corpusmesh_core.text.query_terms import Alternative

MAX_TERMS: Final = 10_000
"""Most terms of a vocabulary."""
MAX_GROUPS: Final = 2_000
"""Most groups of synonyms of a vocabulary."""
MAX_GROUP_WORDS: Final = 16
"""Most words of a group."""
MAX_WORD_CHARACTERS: Final = 100
"""Longest term or synonym."""
MAX_CHARACTERS: Final = 500_000
"""Most characters of all words together."""
_MAX_PHRASES: Final = 8
_MAX_ALTERNATIVES: Final = 16
_MAX_FINE_TERMS: Final = 64
_CONTROLS: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)
_Phrase = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of a tenant.

    Attributes:
        terms: Terms that are searched as phrases where a question holds them; distinct.
        synonyms: Groups of at least two distinct words that mean the same.
    """

    terms: tuple[str, ...] = ()
    synonyms: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def checked(cls, terms: Iterable[str], synonyms: Iterable[Iterable[str]]) -> "Vocabulary":
        """Make a vocabulary of what somebody gives.

        Args:
            terms: Terms.
            synonyms: Groups of synonyms.

        Returns:
            The vocabulary, blanks folded and repetitions left out.

        Raises:
            InvalidArgumentError: VOCABULARY_INVALID with the field, if a bound is passed or a word has nothing that
                could be searched.
        """
        kept = tuple(dict.fromkeys(_word(term, f"vocabulary.terms[{place}]") for place, term in enumerate(terms)))
        _check(len(kept) <= MAX_TERMS, "vocabulary.terms", f"at most {MAX_TERMS:,} terms")
        groups: list[tuple[str, ...]] = []
        for place, group in enumerate(synonyms):
            field = f"vocabulary.synonyms[{place}]"
            words = tuple(dict.fromkeys(_word(word, field) for word in group))
            _check(2 <= len(words) <= MAX_GROUP_WORDS, field, f"2 to {MAX_GROUP_WORDS} different words")
            groups.append(words)
        _check(len(groups) <= MAX_GROUPS, "vocabulary.synonyms", f"at most {MAX_GROUPS:,} groups")
        size = sum(map(len, kept)) + sum(len(word) for group in groups for word in group)
        _check(size <= MAX_CHARACTERS, "vocabulary", f"at most {MAX_CHARACTERS:,} characters")
        return cls(kept, tuple(dict.fromkeys(groups)))

    @property
    def is_empty(self) -> bool:
        """Whether it has no word."""
        return not self.terms and not self.synonyms


class VocabularyIndex:
    """A vocabulary that finds its words in a question, in time that does not grow with the vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Analyse the words of a vocabulary, which takes up to a second for the largest.

        Args:
            vocabulary: The vocabulary.
        """
        self._terms = _Phrases(_fine(term) for term in vocabulary.terms)
        self._groups = [tuple(dict.fromkeys(filter(None, map(_fine, group)))) for group in vocabulary.synonyms]
        self._groups_of: dict[_Phrase, list[int]] = defaultdict(list)
        for number, group in enumerate(self._groups):
            for phrase in group:
                self._groups_of[phrase].append(number)
        self._synonyms = _Phrases(self._groups_of)
        self.is_empty = not vocabulary.terms and not self._groups

    def phrases_in(self, question: str) -> tuple[tuple[str, ...], ...]:
        """Find the tenant's own terms in a question.

        Args:
            question: The question.

        Returns:
            Their fine terms in the order of the question, the longest at each place, at most 8.
        """
        return tuple(dict.fromkeys(self._terms.found_in(analyze(question).fine)))[:_MAX_PHRASES]

    def alternatives_in(self, question: str, terms: Sequence[str]) -> tuple[Alternative, ...]:
        """Find what may be searched instead of words of a question.

        Args:
            question: The question.
            terms: Fine terms of the question that are searched at all.

        Returns:
            The other words of every group that the question holds a word of, at most 16.
        """
        held = frozenset(terms)
        fine = analyze(question).fine
        spelled = f" {' '.join(fine)} "
        found: dict[tuple[_Phrase, _Phrase], Alternative] = {}
        for phrase in dict.fromkeys(self._synonyms.found_in(fine)):
            if len(found) >= _MAX_ALTERNATIVES:
                break
            replaced = tuple(dict.fromkeys(term for term in phrase if term in held))
            for number in self._groups_of[phrase] if replaced else ():
                for other in self._groups[number]:
                    # What the question says itself is searched already.
                    if f" {' '.join(other)} " not in spelled:
                        found.setdefault((replaced, other), Alternative(replaced, other))
        return tuple(found.values())[:_MAX_ALTERNATIVES]


def _fine(word: str) -> _Phrase:
    return analyze(word).fine[:_MAX_FINE_TERMS]


class _Phrases:
    """Phrases that are found in a text in time that grows with the text alone, however many begin alike."""

    def __init__(self, phrases: Iterable[_Phrase]) -> None:
        self._known = frozenset(filter(None, phrases))
        lengths: dict[str, set[int]] = defaultdict(set)
        for phrase in self._known:
            lengths[phrase[0]].add(len(phrase))
        # At most _MAX_FINE_TERMS of them, the longest first.
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}

    def found_in(self, fine: Sequence[str]) -> list[_Phrase]:
        found: list[_Phrase] = []
        place = 0
        while place < len(fine):
            pieces = (tuple(fine[place : place + length]) for length in self._lengths.get(fine[place], ()))
            phrase = next((piece for piece in pieces if piece in self._known), None)
            if phrase is not None:
                found.append(phrase)
            # Pairs of Chinese characters overlap: the next word may begin with the last pair of this one.
            place += max(1, len(phrase) - 1) if phrase is not None else 1
        return found


def _word(word: str, field: str) -> str:
    text = " ".join(word.split())
    _check(0 < len(text) <= MAX_WORD_CHARACTERS, field, f"words of 1 to {MAX_WORD_CHARACTERS} characters")
    _check(_CONTROLS.search(text) is None, field, "words without control characters")
    _check(bool(analyze(text).fine), field, "words with a letter or a digit")
    return text


def _check(holds: bool, field: str, allowed: str) -> None:
    if not holds:
        raise InvalidArgumentError("VOCABULARY_INVALID", f"{field} takes {allowed}", field=field, allowed=allowed)
