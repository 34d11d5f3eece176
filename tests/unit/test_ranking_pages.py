from dataclasses import replace

import pytest

from corpusmesh_core.documents import Box
from corpusmesh_core.ports.index import Candidate
from corpusmesh_core.ranking import LegScore, RankedCandidate, ScoreExplanation, page_image_ids, rescore_by_pages
from corpusmesh_core.records import Ordinal, Record, RecordKind

_LEG = LegScore(raw=1.0, rank=1, similarity=0.5, is_filled_in=False)


def _record(record_id: str, page: int, kind: RecordKind = RecordKind.CHUNK) -> Record:
    return Record(record_id, kind, "kb", Ordinal(7), (Ordinal(7),), "text", document_id="d", version=1, page=page)


def _ranked(record: Record, similarity: float, *, dropped: str = "") -> RankedCandidate:
    explanation = ScoreExplanation(_LEG, _LEG, 0.0, 0.5, False, similarity, similarity, dropped)
    return RankedCandidate(Candidate(record, "text"), explanation)


def _page(page: int) -> Record:
    return _record(f"7-page_image-{page}", page, RecordKind.PAGE_IMAGE)


def test_page_image_ids_are_those_of_all_pages_on_which_a_record_stands() -> None:
    assert page_image_ids(_record("7-0", 3)) == ("7-page_image-3",)
    boxes = (Box(3, 0, 0, 1, 1), Box(4, 0, 0, 1, 1), Box(4, 0, 2, 1, 3))
    assert page_image_ids(replace(_record("7-0", 3), boxes=boxes)) == ("7-page_image-3", "7-page_image-4")
    assert page_image_ids(_record("7-0", 0)) == ()
    assert page_image_ids(replace(_record("7-0", 3), document_id="")) == ()


def test_of_several_pages_the_best_one_counts() -> None:
    across = replace(_record("7-0", 1), boxes=(Box(1, 0, 0, 1, 1), Box(2, 0, 0, 1, 1)))
    scores = {"7-page_image-1": 0.2, "7-page_image-2": 0.8}
    (item,) = rescore_by_pages([_ranked(across, 0.4)], [], scores, weight=0.5, similarity_threshold=0.0)
    assert item.explanation.page_similarity == 0.8
    assert item.similarity == pytest.approx(0.6)


def test_a_page_that_looks_right_lifts_what_stands_on_it_and_comes_along() -> None:
    ranked = [_ranked(_record("7-0", 1), 0.6), _ranked(_record("7-1", 2), 0.5)]
    scores = {"7-page_image-1": 0.1, "7-page_image-2": 0.9}
    order = rescore_by_pages(ranked, [_page(1), _page(2)], scores, weight=0.5, similarity_threshold=0.0)
    assert [item.candidate.record.record_id for item in order] == ["7-1", "7-page_image-2", "7-0", "7-page_image-1"]
    assert [item.similarity for item in order] == pytest.approx([0.7, 0.7, 0.35, 0.35])
    assert order[0].explanation.page_similarity == 0.9


def test_what_was_not_looked_at_keeps_its_similarity_and_what_was_dropped_stays_dropped() -> None:
    ranked = [_ranked(_record("7-0", 0), 0.6), _ranked(_record("7-1", 1), 0.1, dropped="below_similarity_threshold")]
    order = rescore_by_pages(ranked, [_page(1)], {"7-page_image-1": 1.0}, weight=0.5, similarity_threshold=0.2)
    assert [item.candidate.record.record_id for item in order if item.is_kept] == ["7-0", "7-page_image-1"]
    assert order[0].explanation.page_similarity is None
    assert order[0].similarity == 0.6
    assert not order[-1].is_kept


def test_weight_zero_leaves_the_order_and_weight_one_is_the_page_alone() -> None:
    ranked = [_ranked(_record("7-0", 1), 0.6), _ranked(_record("7-1", 2), 0.5)]
    scores = {"7-page_image-1": 0.2, "7-page_image-2": 2.0}
    same = rescore_by_pages(ranked, [], scores, weight=0.0, similarity_threshold=0.0)
    assert [item.similarity for item in same] == [0.6, 0.5]
    alone = rescore_by_pages(ranked, [], scores, weight=1.0, similarity_threshold=0.3)
    assert [(item.similarity, item.is_kept) for item in alone] == [(1.0, True), (0.2, False)]
