"""The terms of a question, bounded."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from corpusmesh_core.request_limits import MAX_QUESTION_CHARACTERS
from corpusmesh_core.text.analysis import analyze
from corpusmesh_core.text.stop_words import is_stop_word

MAX_QUERY_TERMS = 64
"""Most distinct terms a question may have: 300 fuzzy words once took the index 10.7 s."""
_MAX_PHRASES = 8


@dataclass(frozen=True, slots=True)
class Alternative:
    """Words that mean the same as words of the question.

    Attributes:
        replaced: Fine terms of the question that they can stand for, at least one.
        phrase: Fine terms that are searched instead, at least one, in order.
        weight: Weight against the words of the question themselves, 0 to 1.
        is_secret: Whether it was looked up among the words of all records, those that the caller may not see included:
            it is searched for, and never shown.
    """

    replaced: tuple[str, ...]
    phrase: tuple[str, ...]
    weight: float = 0.25
    is_secret: bool = False


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """What the lexical leg searches and the re-scoring covers.

    Attributes:
        coarse: Distinct words in order of first appearance, at most MAX_QUERY_TERMS.
        fine: Distinct stems and character pairs in order of first appearance, at most MAX_QUERY_TERMS.
        bigrams: Distinct pairs of fine terms that stand side by side in the question and are both in `fine`.
        phrases: Tenant's own terms that occur in the question, each as its fine terms in order.
        is_cut: Whether terms were dropped to stay within the bound.
        emphasis: Factor of single fine terms beside their rarity, above 0; a term that is not named has 1.
        alternatives: Words that may stand for words of the question.
    """

    coarse: tuple[str, ...]
    fine: tuple[str, ...]
    bigrams: tuple[tuple[str, str], ...] = ()
    phrases: tuple[tuple[str, ...], ...] = ()
    is_cut: bool = False
    emphasis: Mapping[str, float] = field(default_factory=dict)
    alternatives: tuple[Alternative, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the question has no term, as "+" or an emoji."""
        return not self.fine


def analyze_query(question: str, *, own_terms: Collection[str] = ()) -> QueryTerms:
    """Analyse a question as the index analyses a text, and bound it.

    Args:
        question: The question as it was asked.
        own_terms: The tenant's dictionary: terms to search as phrases where the question holds them. They need no
            re-indexing, since a phrase is a sequence of fine terms, which the index has for every text.

    Returns:
        Its terms. A question with too many loses function words first and then its last terms.
    """
    analyzed = analyze(question[:MAX_QUESTION_CHARACTERS])
    coarse, coarse_cut = _bounded(analyzed.coarse)
    fine, fine_cut = _bounded(analyzed.fine)
    kept = frozenset(fine)
    bigrams = dict.fromkeys(
        pair for pair in zip(analyzed.fine, analyzed.fine[1:], strict=False) if pair[0] in kept and pair[1] in kept
    )
    return QueryTerms(
        coarse=coarse,
        fine=fine,
        bigrams=tuple(bigrams)[: 2 * MAX_QUERY_TERMS],
        phrases=_phrases(analyzed.fine, own_terms),
        is_cut=coarse_cut or fine_cut or len(question) > MAX_QUESTION_CHARACTERS,
    )


def _bounded(terms: Iterable[str]) -> tuple[tuple[str, ...], bool]:
    distinct = tuple(dict.fromkeys(terms))
    if len(distinct) <= MAX_QUERY_TERMS:
        return distinct, False
    telling = [term for term in distinct if not is_stop_word(term)]
    return tuple((telling or distinct)[:MAX_QUERY_TERMS]), True


def _phrases(fine: tuple[str, ...], own_terms: Collection[str]) -> tuple[tuple[str, ...], ...]:
    found: list[tuple[str, ...]] = []
    for own_term in sorted(own_terms):
        phrase = analyze(own_term).fine
        width = len(phrase)
        if width and any(fine[i : i + width] == phrase for i in range(len(fine) - width + 1)):
            found.append(phrase)
            if len(found) == _MAX_PHRASES:
                break
    return tuple(found)
