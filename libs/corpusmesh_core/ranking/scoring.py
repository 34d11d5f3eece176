"""Score, order and explain the candidates of one request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.ports.index import Candidate, Candidates
from corpusmesh_core.ranking.fusion import fuse_min_max, fuse_ranks, fuse_weighted, fuse_z_scores
from corpusmesh_core.ranking.options import Fusion, RankingOptions
from corpusmesh_core.ranking.signals import inverse_document_frequencies, scale_cosines, term_coverage, term_density
from corpusmesh_core.text import QueryTerms, Script, script_of

BELOW_THRESHOLD = "below_similarity_threshold"
_BORNE_OUT = 0.2
"""Term similarity from which the words of a question are seen to bear a record out."""


@dataclass(frozen=True, slots=True)
class LegScore:
    """What one leg says about one candidate.

    Attributes:
        raw: The leg's own score: BM25, or cosine; None where there is none.
        rank: Place in the leg from 1; 0 where the leg did not return the candidate.
        similarity: What enters the mix, 0 to 1.
        is_filled_in: Whether the leg did not return the candidate and its score was made afterwards.
    """

    raw: float | None
    rank: int
    similarity: float
    is_filled_in: bool


@dataclass(frozen=True, slots=True)
class ScoreExplanation:
    """Why a candidate stands where it stands.

    Attributes:
        lexical: BM25 and the term similarity.
        vector: Cosine and the vector similarity.
        rank_feature: What tags, page rank and the like added.
        vector_weight: Weight of the vector similarity in `similarity`.
        is_cross_script: Whether question and record are of scripts that share no words, so that the vector similarity
            stands in for the term similarity.
        similarity: (1 - vector_weight) * lexical.similarity + vector_weight * vector.similarity + rank_feature; for a
            record in another script at most a little less than the best one in the question's own; where its page was
            looked at, mixed with `page_similarity` (see `rescore_by_pages`).
        order_score: What the order is made of; the similarity itself but for rank, min-max and z-score fusion and for
            requests with one leg, which are ordered by that leg.
        dropped_because: Why it is not in the result; "" if it is.
        page_similarity: What late interaction says of the image of its page; None where it was not looked at.
        rerank_similarity: What a reranker says of it; None where it was not read again.
        variant: Place, among the variants of the search, of the one that raised `similarity` to its own; 0 for the
            question itself.
    """

    lexical: LegScore
    vector: LegScore
    rank_feature: float
    vector_weight: float
    is_cross_script: bool
    similarity: float
    order_score: float
    dropped_because: str
    page_similarity: float | None = None
    variant: int = 0
    rerank_similarity: float | None = None


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """A candidate with its scores.

    Attributes:
        candidate: The candidate.
        explanation: Its scores.
        merged_record_ids: Records whose text its record holds besides its own: children of a parent, neighbours, chunks
            of a segment.
        via_record_ids: Records that led to it, such as a question made from it.
    """

    candidate: Candidate
    explanation: ScoreExplanation
    merged_record_ids: tuple[str, ...] = ()
    via_record_ids: tuple[str, ...] = ()

    @property
    def similarity(self) -> float:
        """Its similarity with the question, about 0 to 1."""
        return self.explanation.similarity

    @property
    def is_kept(self) -> bool:
        """Whether it is part of the result."""
        return not self.explanation.dropped_because


def rank_candidates(
    candidates: Candidates,
    terms: QueryTerms,
    options: RankingOptions,
    *,
    rank_features: Mapping[str, float] | None = None,
) -> tuple[RankedCandidate, ...]:
    """Order candidates, best first.

    Where a signal is missing for all (no term in the question, no vector leg), the other one decides alone; where it
    is missing for one record (a record without a vector), what its words say both ways stands in for it: how much of
    the question it holds, and how little else.

    Args:
        candidates: What the index answered.
        terms: Terms of the question.
        options: How to mix.
        rank_features: What tags, page rank and the like add, by record id.

    Returns:
        All candidates: those that are kept first, then the dropped ones, each group best first. Equal scores keep the
        order of the legs.
    """
    items = candidates.items
    if not items:
        return ()
    features = np.array([(rank_features or {}).get(item.record.record_id, 0.0) for item in items], dtype=np.float64)
    signals = _signals(candidates, terms, options)
    similarity = fuse_weighted(
        signals.terms, signals.vectors, vector_weight=signals.vector_weight, rank_features=features
    )
    similarity = _capped(similarity, signals)
    order_score = _order_score(items, signals, similarity, features, options)
    kept = similarity >= options.similarity_threshold
    order = np.lexsort((np.arange(len(items)), -order_score, ~kept))
    return tuple(
        RankedCandidate(
            items[i],
            ScoreExplanation(
                lexical=LegScore(
                    items[i].lexical_score,
                    items[i].lexical_rank,
                    float(signals.terms[i]),
                    items[i].lexical_rank == 0,
                ),
                vector=LegScore(
                    items[i].cosine, items[i].vector_rank, float(signals.vectors[i]), items[i].vector_rank == 0
                ),
                rank_feature=float(features[i]),
                vector_weight=signals.vector_weight,
                is_cross_script=bool(signals.is_cross_script[i]),
                similarity=float(similarity[i]),
                order_score=float(order_score[i]),
                dropped_because="" if kept[i] else BELOW_THRESHOLD,
            ),
        )
        for i in order.tolist()
    )


def similarities(candidates: Candidates, terms: QueryTerms, options: RankingOptions) -> NDArray[np.float64]:
    """Score candidates without ordering and explaining them, for texts that stand for a question.

    Args:
        candidates: What the index answered.
        terms: Terms of the text.
        options: How to mix.

    Returns:
        What `ScoreExplanation.similarity` of each would be without rank features, in their order, shape [n].
    """
    if not candidates.items:
        return np.zeros(0, dtype=np.float64)
    signals = _signals(candidates, terms, options)
    return _capped(fuse_weighted(signals.terms, signals.vectors, vector_weight=signals.vector_weight), signals)


def raised(
    item: RankedCandidate, score: float, options: RankingOptions, *, variant: int = 0, via: tuple[str, ...] = ()
) -> RankedCandidate:
    """Give a candidate the similarity that something else has found for it, if that is higher.

    Args:
        item: The candidate.
        score: A similarity without rank features.
        options: The options that it was ranked with.
        variant: The variant that found it, see `ScoreExplanation`; 0 for none.
        via: Records that led to it.

    Returns:
        The candidate; its order score rises by as much as its similarity.
    """
    old = item.explanation
    gain = score - (old.similarity - old.rank_feature)
    if gain <= 0.0:
        return item
    similarity = old.similarity + gain
    explanation = replace(
        old,
        similarity=similarity,
        order_score=old.order_score + gain,
        dropped_because=old.dropped_because if similarity < options.similarity_threshold else "",
        variant=variant or old.variant,
    )
    return replace(item, explanation=explanation, via_record_ids=tuple(dict.fromkeys((*item.via_record_ids, *via))))


def in_order(items: Sequence[RankedCandidate]) -> tuple[RankedCandidate, ...]:
    """Sort candidates as every stage must leave them.

    Args:
        items: Candidates.

    Returns:
        Those that are kept first, each group best first; equal scores stay in order.
    """
    return tuple(sorted(items, key=lambda item: (not item.is_kept, -item.explanation.order_score)))


@dataclass(frozen=True, slots=True)
class _Signals:
    """Arrays over the candidates, shape [n] each."""

    terms: NDArray[np.float64]
    vectors: NDArray[np.float64]
    is_cross_script: NDArray[np.bool_]
    has_lexical_leg: bool
    has_vector_leg: bool
    vector_weight: float


def _signals(candidates: Candidates, terms: QueryTerms, options: RankingOptions) -> _Signals:
    items = candidates.items
    weights = inverse_document_frequencies(terms.fine, candidates.document_frequencies, candidates.document_count)
    coverage = term_coverage(terms, weights, items, bigram_share=options.effective_bigram_share)
    script = script_of(terms.fine)
    # The seed's formula knows no scripts.
    knows_scripts = options.fusion is not Fusion.TERM_COVERAGE and not terms.is_empty
    other = {Script.SPACED: Script.UNSPACED, Script.UNSPACED: Script.SPACED}.get(script)
    is_cross_script = np.array([knows_scripts and item.script == other for item in items], dtype=np.bool_)
    has_cosine = np.array([item.cosine is not None for item in items], dtype=np.bool_)
    cosines = np.array([item.cosine or 0.0 for item in items], dtype=np.float64)
    has_lexical_leg = not terms.is_empty and any(item.lexical_score is not None for item in items)
    has_vector_leg = bool(has_cosine.any()) or candidates.has_vector_leg
    if options.fusion is Fusion.TERM_COVERAGE:
        vectors = np.clip(cosines, 0.0, 1.0)
    else:
        vectors = scale_cosines(cosines, is_cross_script, options.scale)
        coverage = np.where(
            is_cross_script & has_cosine, _stand_in(coverage, vectors, is_cross_script, has_cosine), coverage
        )
    if has_vector_leg and not has_cosine.all():
        vectors = np.where(has_cosine, vectors, np.sqrt(coverage * term_density(terms, weights, items)))
    vector_weight = options.vector_weight_for(script)
    if not has_vector_leg:
        vector_weight = 0.0
    elif not has_lexical_leg:
        vector_weight = 1.0
    return _Signals(coverage, vectors, is_cross_script, has_lexical_leg, has_vector_leg, vector_weight)


def _stand_in(
    coverage: NDArray[np.float64],
    vectors: NDArray[np.float64],
    is_cross_script: NDArray[np.bool_],
    has_cosine: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Estimate the term similarity that records would have if they were written in the question's script.

    Words cannot match across scripts, so their absence says nothing. Meaning stands in, by the rate at which words
    bear meaning out in the best record of the question's own script: at full rate any text of the other script would
    pass the right answer. A name that both texts write alike is evidence on top, taken as independent.
    """
    rate = 1.0
    own = np.flatnonzero(~is_cross_script & has_cosine & (vectors > 0.0))
    if own.size:
        best = own[np.argmax(coverage[own] + vectors[own])]
        rate = min(1.0, float(coverage[best] / vectors[best]))
    return np.asarray(1.0 - (1.0 - rate * vectors) * (1.0 - coverage), dtype=np.float64)


def _capped(similarity: NDArray[np.float64], signals: _Signals) -> NDArray[np.float64]:
    """Keep records of the other script behind the best record that the question's words bear out.

    Across scripts similarity is an estimate: it may add to a good answer in the question's own language, not replace
    it.
    """
    own = np.flatnonzero(~signals.is_cross_script & (signals.terms >= _BORNE_OUT))
    if not own.size or not signals.is_cross_script.any():
        return similarity
    limit = float(similarity[own].max())
    is_over = signals.is_cross_script & (similarity >= limit)
    # The step is too small to matter and keeps the order among those that are held back.
    return np.where(is_over, limit - 1e-6 * (2.0 - similarity), similarity)


def _order_score(
    items: Sequence[Candidate],
    signals: _Signals,
    similarity: NDArray[np.float64],
    features: NDArray[np.float64],
    options: RankingOptions,
) -> NDArray[np.float64]:
    lexical = np.array([item.lexical_score or 0.0 for item in items], dtype=np.float64)
    if not signals.has_vector_leg:
        return lexical + features
    if not signals.has_lexical_leg:
        return similarity
    if options.fusion is Fusion.RECIPROCAL_RANK:
        ranks = [
            np.array([item.lexical_rank for item in items], dtype=np.int32),
            np.array([item.vector_rank for item in items], dtype=np.int32),
        ]
        return fuse_ranks(ranks) + features
    weights = (1.0 - signals.vector_weight, signals.vector_weight)
    if options.fusion is Fusion.MIN_MAX:
        return fuse_min_max((lexical, signals.vectors), weights) + features
    if options.fusion is Fusion.Z_SCORE:
        return fuse_z_scores((lexical, signals.vectors), weights) + features
    return similarity
