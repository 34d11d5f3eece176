"""One order out of what a question and its variants found; the question's own scores decide.

A variant (a translation, a part of the question, what an answer could look like, …) is there to bring up records that
the question's own words do not lead to. It may lift a record, never push one down.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from corpusmesh_core.ports.index import Candidate, Candidates
from corpusmesh_core.ranking.options import RankingOptions
from corpusmesh_core.ranking.scoring import RankedCandidate, in_order, raised, rank_candidates
from corpusmesh_core.text import QueryTerms


@dataclass(frozen=True, slots=True)
class VariantCandidates:
    """What the index found for one variant.

    Attributes:
        candidates: Its candidates; those of a variant carry the scores of the question as their reference's.
        terms: Terms of the variant.
        weight: Its weight against the question's own, above 0, at most 1.
    """

    candidates: Candidates
    terms: QueryTerms
    weight: float = 1.0


def rank_variants(
    question: VariantCandidates,
    variants: Sequence[VariantCandidates],
    options: RankingOptions,
    *,
    rank_features: Mapping[str, float] | None = None,
) -> tuple[RankedCandidate, ...]:
    """Order what the question and its variants found, best first.

    A record's similarity is the larger of its similarity with the question and, of all variants that found it, the
    largest product of a variant's weight and its similarity with that variant. Similarities are absolute, so the two
    can be compared (ADR-0006); fusions that order by something else are raised by the same difference.

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
    best: dict[str, tuple[float, int]] = {}
    for place, variant in enumerate(variants, start=1):
        for item in rank_candidates(variant.candidates, variant.terms, options):
            record_id = item.candidate.record.record_id
            score = variant.weight * item.similarity
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
        joined with, and one that is part of another in `ranked` is not added again.
    """
    known = {item.candidate.record.record_id: item for item in ranked}
    parts = {record_id for item in ranked for record_id in item.merged_record_ids}
    for item in further:
        record_id = item.candidate.record.record_id
        old = known.get(record_id)
        if old is None:
            if record_id not in parts:
                known[record_id] = item
        elif item.explanation.order_score > old.explanation.order_score:
            known[record_id] = replace(
                old,
                explanation=item.explanation,
                via_record_ids=tuple(dict.fromkeys((*old.via_record_ids, *item.via_record_ids))),
            )
    return in_order(list(known.values()))


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
