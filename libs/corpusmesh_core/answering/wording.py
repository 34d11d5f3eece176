"""How much of a question's wording a text has, small differences of spelling and form forgiven."""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from corpusmesh_core.citation.weights import telling_terms
from corpusmesh_core.text import Alternative, AnalyzedText, analyze, is_stop_word

_MIN_JOINED_CHARACTERS = 6
_MIN_PREFIX_CHARACTERS = 5
_PREFIX_SHARE = 0.7
_RELATED_CREDIT = 0.5
_ALTERNATIVE_CREDIT = 0.9


_YES_OR_NO = re.compile(
    r"^\W*(?:is|are|was|were|am|do|does|did|can|could|has|have|had|will|would|should|may|might|must)\b|吗|是否|是不是|有没有|能不能",
    re.IGNORECASE,
)


class Wording:
    """The telling terms of one question.

    Attributes:
        terms: Stems and character pairs without function words.
        asks_yes_or_no: Whether a yes could answer it.
    """

    def __init__(self, question: str, alternatives: Sequence[Alternative] = ()) -> None:
        """Read a question.

        Args:
            question: What was asked.
            alternatives: Words that may stand for words of the question.
        """
        self._alternatives = tuple(alternatives)
        self.terms = telling_terms(question)
        self.asks_yes_or_no = _YES_OR_NO.search(question) is not None
        words = analyze(question).coarse
        self._joined = {
            one + other: _own_terms(one) | _own_terms(other)
            for one, other in pairwise(words)
            if _is_joinable(one, other)
        }
        self._long = {
            word: _own_terms(word) for word in words if len(word) >= _MIN_JOINED_CHARACTERS and word.isascii()
        }

    def held_by(self, text: str) -> Mapping[str, float]:
        """Say which terms a text has.

        Args:
            text: Any text.

        Returns:
            By term: 1 for one that the text has, also written apart or together ("roll back", "rollback"); 0.9 for one
            that it has other words for; 0.5 for one whose beginning it has ("publish", "publication"). A term that it
            does not have is not in it.
        """
        return self.held_by_terms(analyze(text))

    def held_by_terms(self, analyzed: AnalyzedText) -> Mapping[str, float]:
        """Say which terms an analysed text has.

        Args:
            analyzed: The text.

        Returns:
            As `held_by`.
        """
        present = set(analyzed.fine)
        held = {term: 1.0 for term in self.terms if term in present}
        if len(held) < len(self.terms):
            self._add_compounds(held, analyzed)
            for alternative in self._alternatives:
                if present.issuperset(alternative.phrase):
                    for term in self.terms.intersection(alternative.replaced):
                        held.setdefault(term, _ALTERNATIVE_CREDIT)
            self._add_relatives(held, present)
        return held

    def _add_compounds(self, held: dict[str, float], analyzed: AnalyzedText) -> None:
        words = {*analyzed.coarse, *analyzed.fine}
        for joined, terms in self._joined.items():
            if joined in words:
                held.update(dict.fromkeys(terms & self.terms, 1.0))
        if any(terms - held.keys() for terms in self._long.values()):
            pairs = {one + other for one, other in pairwise(analyzed.coarse)}
            for word, terms in self._long.items():
                if word in pairs:
                    held.update(dict.fromkeys(terms & self.terms, 1.0))

    def _add_relatives(self, held: dict[str, float], present: Collection[str]) -> None:
        prefixes = {term[:_MIN_PREFIX_CHARACTERS] for term in present if len(term) >= _MIN_PREFIX_CHARACTERS}
        for term in self.terms - held.keys():
            if term[:_MIN_PREFIX_CHARACTERS] not in prefixes or not (term.isascii() and term.isalpha()):
                continue
            if any(_are_related(term, other) for other in present):
                held[term] = _RELATED_CREDIT


def merge_held(one: Mapping[str, float], other: Mapping[str, float]) -> Mapping[str, float]:
    """Join what two texts hold.

    Args:
        one: From `Wording.held_by`.
        other: Likewise, of the same question.

    Returns:
        The greater share of each term.
    """
    return {term: max(one.get(term, 0.0), other.get(term, 0.0)) for term in one.keys() | other.keys()}


def weighted_share(
    wanted: frozenset[str], held: Mapping[str, float], weights: Mapping[str, float], absent: float
) -> float:
    """Say how much of what is wanted is held.

    Args:
        wanted: Terms looked for.
        held: From `Wording.held_by`.
        weights: Weight by term.
        absent: Weight of a term that `weights` does not know.

    Returns:
        Weighted share, 0 to 1; 0 where nothing is wanted.
    """
    whole = sum(weights.get(term, absent) for term in wanted)
    found = sum(weights.get(term, absent) * share for term, share in held.items())
    return min(1.0, found / whole) if whole else 0.0


def _is_joinable(one: str, other: str) -> bool:
    is_word = one.isascii() and other.isascii() and one.isalpha() and other.isalpha()
    return is_word and len(one + other) >= _MIN_JOINED_CHARACTERS and not is_stop_word(one) and not is_stop_word(other)


def _are_related(one: str, other: str) -> bool:
    shared = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        shared += 1
    return shared >= _MIN_PREFIX_CHARACTERS and shared >= _PREFIX_SHARE * max(len(one), len(other))


@lru_cache(maxsize=4096)
def _own_terms(word: str) -> frozenset[str]:
    return frozenset(analyze(word).fine)
