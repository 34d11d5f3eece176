"""Lets what a page looks like speak in the order of candidates: late interaction over the images of their pages."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from corpusmesh_core.ports.index import Candidate
from corpusmesh_core.ranking.scoring import BELOW_THRESHOLD, LegScore, RankedCandidate, ScoreExplanation
from corpusmesh_core.records import Record, RecordKind, derived_record_id


def page_image_ids(record: Record) -> tuple[str, ...]:
    """Name the records of the page images on which a record stands.

    Args:
        record: Any record of a document version.

    Returns:
        The ids, by page; none for a record without a page.
    """
    if record.page < 1 or not record.document_id:
        return ()
    pages = sorted({record.page, *(box.page for box in record.boxes)})
    return tuple(derived_record_id(record.publisher, RecordKind.PAGE_IMAGE, str(page)) for page in pages)


def rescore_by_pages(
    ranked: Sequence[RankedCandidate],
    pages: Sequence[Record],
    scores: Mapping[str, float],
    *,
    weight: float,
    similarity_threshold: float,
) -> tuple[RankedCandidate, ...]:
    """Mix the scores of page images into the candidates on those pages, and add the pages themselves.

    Args:
        ranked: Candidates with their scores; dropped ones stay dropped.
        pages: Records of page images that may be seen.
        scores: Late-interaction score of each page image by record id, see `max_sim`.
        weight: Weight of the page's score, 0 to 1.
        similarity_threshold: Candidates below it are dropped.

    Returns:
        Candidates and pages: similarity is (1 - weight) * similarity + weight * page score where a page was looked at;
        of several pages the best one counts.
        A page that was no candidate takes the similarity of the best candidate on it. Kept ones first, best first;
        equal scores keep their order.
    """
    best: dict[str, RankedCandidate] = {}
    for item in ranked:
        if item.is_kept:
            for page_id in page_image_ids(item.candidate.record):
                best.setdefault(page_id, item)
    candidates = [*ranked]
    known = {item.candidate.record.record_id for item in ranked}
    for page in pages:
        if page.record_id not in known and page.record_id in scores:
            similarity = best[page.record_id].similarity if page.record_id in best else 0.0
            candidates.append(_as_candidate(page, similarity))
    rescored = [_mixed(item, scores, weight, similarity_threshold) for item in candidates]
    return tuple(sorted(rescored, key=lambda item: (not item.is_kept, -item.explanation.order_score)))


def _as_candidate(page: Record, similarity: float) -> RankedCandidate:
    silent = LegScore(raw=None, rank=0, similarity=0.0, is_filled_in=True)
    explanation = ScoreExplanation(
        lexical=silent,
        vector=silent,
        rank_feature=0.0,
        vector_weight=0.0,
        is_cross_script=False,
        similarity=similarity,
        order_score=similarity,
        dropped_because="",
    )
    return RankedCandidate(Candidate(page, ""), explanation)


def _mixed(
    item: RankedCandidate, scores: Mapping[str, float], weight: float, similarity_threshold: float
) -> RankedCandidate:
    looked_at = [scores[page_id] for page_id in page_image_ids(item.candidate.record) if page_id in scores]
    before = item.explanation
    if not looked_at:
        # Two scales cannot be put in one order: a candidate that was not looked at is ordered by its similarity too.
        return RankedCandidate(item.candidate, replace(before, order_score=before.similarity))
    page_similarity = min(max(0.0, *looked_at), 1.0)
    similarity = (1.0 - weight) * before.similarity + weight * page_similarity
    dropped = before.dropped_because or ("" if similarity >= similarity_threshold else BELOW_THRESHOLD)
    return RankedCandidate(
        item.candidate,
        replace(
            before,
            similarity=similarity,
            order_score=similarity,
            dropped_because=dropped,
            page_similarity=page_similarity,
        ),
    )
