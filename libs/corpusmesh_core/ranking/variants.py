"""One order out of what a question and its variants found; the question's own scores decide.

A variant (a translation, a part of the question, what an answer could look like, …) is there to bring up records that
the question's own words do not lead to. It lifts records, never pushes one down, and never lifts one over the best
record of the question itself where that is a good one: whoever made the variant may have been wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from corpusmesh_core.ports.index import Candidate, Candidates
from corpusmesh_core.ranking.options import RankingOptions, VectorScale
from corpusmesh_core.ranking.scoring import (
    BELOW_THRESHOLD,
    RankedCandidate,
    ScoreExplanation,
    in_order,
    raised,
    rank_candidates,
    similarities,
)
from corpusmesh_core.text import QueryTerms

LEAST_TRUST: Final = 0.3
"""Trust in a variant that is as far from the question as any other question is."""
_FOREIGN = 0.13
_RELATED = 0.4
"""Scaled cosines: another question of 2wiki, mh_small or xling has 0.1 to 0.35 with a question, nineteen of twenty
translations have more than 0.4 (docs/adr/0011-variants-and-derived.md)."""
_GOOD_HIT = 0.5
"""Similarity from which the best record of the question itself keeps its place."""
_STEP = 1e-6


@dataclass(frozen=True, slots=True)
class VariantCandidates:
    """What the index found for one variant.

    Attributes:
        candidates: Its candidates; those of a variant carry the scores of the question as their reference's.
        terms: Terms of the variant.
        weight: Its weight against the question's own, above 0, at most 1.
        trust: How far it can be about the same as the question, 0 to 1; see `trust_in`.
    """

    candidates: Candidates
    terms: QueryTerms
    weight: float = 1.0
    trust: float = 1.0


def trust_in(cosine: float, *, is_cross_script: bool, scale: VectorScale) -> float:
    """Tell how far a variant can be about the same as its question.

    Args:
        cosine: Between the vectors of the two.
        is_cross_script: Whether they are written in scripts that share no words.
        scale: How the model's cosines are to be read.

    Returns:
        1 for whatever is as near to the question as its parts and translations are, LEAST_TRUST for what is as far from
        it as another question.
    """
    raised = cosine + scale.cross_script_gain * is_cross_script
    similarity = (raised - scale.floor) / (1.0 - scale.floor)
    return min(1.0, max(LEAST_TRUST, (similarity - _FOREIGN) / (_RELATED - _FOREIGN)))


def rank_variants(
    question: VariantCandidates,
    variants: Sequence[VariantCandidates],
    options: RankingOptions,
    *,
    rank_features: Mapping[str, float] | None = None,
) -> tuple[RankedCandidate, ...]:
    """Order what the question and its variants found, best first.

    A record's similarity is the larger of its similarity with the question and, of all variants that found it, the
    largest product of a variant's weight, the trust in it and the similarity with it. Similarities are absolute, so the
    two can be compared (ADR-0006); fusions that order by something else are raised by the same difference. Where the
    best record of the question is a good one, variants lift others up to it and not over it.

    Measured in docs/adr/0011-variants-and-derived.md.

    Args:
        question: What the question itself found; nothing where it was not searched.
        variants: What its variants found.
        options: How to mix.
        rank_features: What tags, page rank and the like add, by record id.

    Returns:
        All candidates: those that are kept first, then the dropped ones, each group best first.
    """
    ranked = rank_candidates(
        _united(question.candidates, variants), question.terms, options, rank_features=rank_features
    )
    if not variants:
        return ranked
    limit = max((item.similarity - item.explanation.rank_feature for item in ranked), default=0.0)
    best: dict[str, tuple[float, int]] = {}
    for place, variant in enumerate(variants, start=1):
        own = similarities(variant.candidates, variant.terms, options) * (variant.weight * variant.trust)
        for found, score in zip(variant.candidates.items, own.tolist(), strict=True):
            record_id = found.record.record_id
            if limit >= _GOOD_HIT and score >= limit:
                # The step is too small to matter and keeps the order of those that are held back.
                score = limit - _STEP * (2.0 - score)
            if score > best.get(record_id, (0.0, 0))[0]:
                best[record_id] = (score, place)
    lifted: list[RankedCandidate] = []
    for item in ranked:
        score, place = best.get(item.candidate.record.record_id, (0.0, 0))
        lifted.append(raised(item, score, options, variant=place))
    return in_order(lifted)


def merge_ranked(ranked: Sequence[RankedCandidate], further: Sequence[RankedCandidate]) -> tuple[RankedCandidate, ...]:
    """Add what a further search found to what stages have made of the first one.

    Args:
        ranked: An order; its records may have been joined, compressed or replaced by parents meanwhile.
        further: Candidates of a further search for the same question, see `rank_variants`.

    Returns:
        All of both, each record once, best first; a record that both hold keeps the higher score and all that it was
        joined with, and one that is part of another in `ranked` is not added again. One that a stage has dropped for
        another reason than its score stays dropped, and one that was reranked keeps that score.
    """
    known = {item.candidate.record.record_id: item for item in ranked}
    parts = {record_id for item in ranked for record_id in item.merged_record_ids}
    for item in further:
        record_id = item.candidate.record.record_id
        old = known.get(record_id)
        if old is None:
            if record_id not in parts:
                known[record_id] = item
        elif _is_settled(old.explanation, item.explanation):
            continue
        elif item.explanation.order_score > old.explanation.order_score:
            known[record_id] = replace(
                old,
                explanation=item.explanation,
                via_record_ids=tuple(dict.fromkeys((*old.via_record_ids, *item.via_record_ids))),
            )
    return in_order(list(known.values()))


def _is_settled(old: ScoreExplanation, new: ScoreExplanation) -> bool:
    """Tell whether a candidate was judged by more than a search looks at, so that other words for it change nothing."""
    is_reranked = old.rerank_similarity is not None and new.rerank_similarity is None
    return is_reranked or old.dropped_because not in ("", BELOW_THRESHOLD)


def _united(found: Candidates, variants: Sequence[VariantCandidates]) -> Candidates:
    """Give every candidate the question's scores."""
    items = {item.record.record_id: item for item in found.items}
    for variant in variants:
        for item in variant.candidates.items:
            if item.record.record_id not in items:
                items[item.record.record_id] = _seen_by_question(item)
    parts = [found, *(variant.candidates for variant in variants)]
    informed = max(parts, key=lambda part: part.document_count)
    return Candidates(
        tuple(items.values()),
        document_count=informed.document_count,
        document_frequencies={term: count for part in parts for term, count in part.document_frequencies.items()},
        has_vector_leg=any(part.has_vector_leg for part in parts),
    )


def _seen_by_question(item: Candidate) -> Candidate:
    return replace(
        item,
        lexical_score=item.reference_lexical_score,
        lexical_rank=0,
        cosine=item.reference_cosine,
        vector_rank=0,
    )
