"""The signals that ranking mixes, each between 0 and 1."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.ports.index import Candidate
from corpusmesh_core.ranking.options import VectorScale
from corpusmesh_core.text import QueryTerms, is_stop_word

_STOP_WORD_WEIGHT = 0.1


def inverse_document_frequencies(
    terms: Sequence[str], document_frequencies: Mapping[str, int], document_count: int
) -> NDArray[np.float64]:
    """Weigh terms by how rare they are.

    Args:
        terms: Terms of the question.
        document_frequencies: Records that hold a term; an absent term is in none.
        document_count: Records in all; 0 where nothing is known.

    Returns:
        Weights, shape [n], positive: ln(1 + (N - n + 0.5) / (n + 0.5)); without statistics 1.0, and 0.1 for function
        words.

    References:
        Robertson, Zaragoza: The Probabilistic Relevance Framework, 2009; the form that Lucene uses.
    """
    if document_count <= 0:
        return np.array([_STOP_WORD_WEIGHT if is_stop_word(term) else 1.0 for term in terms], dtype=np.float64)
    counts = np.array([min(document_frequencies.get(term, 0), document_count) for term in terms], dtype=np.float64)
    return np.log1p((document_count - counts + 0.5) / (counts + 0.5))


def term_coverage(
    terms: QueryTerms, weights: NDArray[np.float64], candidates: Sequence[Candidate], *, bigram_share: float
) -> NDArray[np.float64]:
    """Measure which share of the question's terms a candidate covers, by weight.

    A term or a pair of neighbouring terms is covered if the content (title included), the keywords or the questions of
    the record hold it; where they hold an alternative instead, the term is covered at the alternative's weight.

    Args:
        terms: Terms of the question.
        weights: Weight of each fine term before emphasis, shape [n_terms], positive.
        candidates: Candidates.
        bigram_share: Share of the pairs in the result, 0 to 1; without a pair the single terms have it all.

    Returns:
        Coverage, shape [n_candidates], 0 to 1; 0 for a question without terms.
    """
    if terms.is_empty or not candidates:
        return np.zeros(len(candidates), dtype=np.float64)
    # Searching " term " in one string is faster than splitting it into a set, and finds pairs as well.
    texts = [
        f" {candidate.content_terms} | {candidate.keyword_terms} | {candidate.question_terms} "
        for candidate in candidates
    ]
    needles = [f" {term} " for term in terms.fine]
    held = np.array([[needle in text for needle in needles] for text in texts], dtype=np.float64)
    _hold_alternatives(held, terms, texts)
    if terms.emphasis:
        weights = weights * np.array([terms.emphasis.get(term, 1.0) for term in terms.fine])
    coverage = held @ weights / weights.sum()
    if not terms.bigrams or bigram_share <= 0.0:
        return _unit(coverage)
    weight_by_term = dict(zip(terms.fine, weights.tolist(), strict=True))
    pair_weights = np.array([weight_by_term[first] + weight_by_term[second] for first, second in terms.bigrams])
    pairs = [f" {first} {second} " for first, second in terms.bigrams]
    held_pairs = np.array([[pair in text for pair in pairs] for text in texts], dtype=np.float64)
    pair_coverage = held_pairs @ pair_weights / pair_weights.sum()
    return _unit((1.0 - bigram_share) * coverage + bigram_share * pair_coverage)


def term_density(
    terms: QueryTerms, weights: NDArray[np.float64], candidates: Sequence[Candidate]
) -> NDArray[np.float64]:
    """Measure which share of a candidate's distinct terms are terms of the question, by weight.

    Args:
        terms: Terms of the question.
        weights: Weight of each fine term, shape [n_terms], positive; other terms count as the mean of them.
        candidates: Candidates.

    Returns:
        Shape [n_candidates], 0 to 1; 0 for a question without terms.
    """
    if terms.is_empty:
        return np.zeros(len(candidates), dtype=np.float64)
    weight_by_term = dict(zip(terms.fine, weights.tolist(), strict=True))
    mean = float(weights.mean())
    shares: list[float] = []
    for candidate in candidates:
        own = set(candidate.content_terms.split())
        asked = sum(weight_by_term[term] for term in own & weight_by_term.keys())
        whole = asked + mean * len(own - weight_by_term.keys())
        shares.append(asked / whole if whole else 0.0)
    return np.array(shares, dtype=np.float64)


def _hold_alternatives(held: NDArray[np.float64], terms: QueryTerms, texts: Sequence[str]) -> None:
    columns = {term: column for column, term in enumerate(terms.fine)}
    for alternative in terms.alternatives:
        replaced = [columns[term] for term in alternative.replaced if term in columns]
        needle = f" {' '.join(alternative.phrase)} "
        rows = [row for row, text in enumerate(texts) if needle in text]
        if replaced and rows and alternative.phrase:
            places = np.ix_(rows, replaced)
            held[places] = np.maximum(held[places], alternative.weight)


def scale_cosines(
    cosines: NDArray[np.float64], is_cross_script: NDArray[np.bool_], scale: VectorScale
) -> NDArray[np.float64]:
    """Stretch cosines so that unrelated texts are near 0 and equal texts at 1.

    Args:
        cosines: Cosines, shape [n].
        is_cross_script: Where question and record are of scripts that share no words, shape [n].
        scale: How the model's cosines are to be read.

    Returns:
        Vector similarity, shape [n], 0 to 1.
    """
    raised = cosines + scale.cross_script_gain * is_cross_script
    return _unit((raised - scale.floor) / (1.0 - scale.floor))


def _unit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    # A sum of shares can exceed 1 by a rounding error.
    return np.clip(values, 0.0, 1.0)
