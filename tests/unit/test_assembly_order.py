"""Reranking, parents and the bound per document: pure orders of candidates."""

from dataclasses import replace

import numpy as np
import pytest

from corpusmesh_core.assembly import (
    MERGED_INTO_PARENT,
    OVER_DOCUMENT_CAP,
    cap_per_document,
    level_scores,
    mix_rerank_scores,
    parents_of,
    reordered,
    replace_children,
)
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ranking.variants import in_order
from corpusmesh_core.records import Ordinal, Record, RecordKind, parent_record_id
from tests.support.candidates import chunk, ids, ranked, reasons


def _parent(position: int, *, version: int = 7) -> Record:
    record = chunk(position, f"whole section {position}", version=version, page=3)
    return replace(record, record_id=parent_record_id(Ordinal(version), position), kind=RecordKind.PARENT)


def test_levels_are_the_similarities_where_these_made_the_order_and_keep_every_other_order() -> None:
    own = [ranked(chunk(0, "a"), 0.9), ranked(chunk(1, "b"), 0.4)]
    assert level_scores(own).tolist() == [0.9, 0.4]
    by_ranks = [ranked(chunk(0, "a"), 0.2, order_score=0.03), ranked(chunk(1, "b"), 0.7, order_score=0.01)]
    assert level_scores(by_ranks).tolist() == [0.7, 0.2]


def test_the_new_score_weighs_as_much_as_it_is_given() -> None:
    items = [ranked(chunk(0, "a"), 0.8), ranked(chunk(1, "b"), 0.6), ranked(chunk(2, "c"), 0.5)]
    mixed = mix_rerank_scores(items, np.array([0.1, 0.2, 0.9]), weight=0.5)
    assert ids(mixed) == ["7-2", "7-0", "7-1"]
    assert [item.similarity for item in mixed] == pytest.approx([0.7, 0.45, 0.4])
    assert [item.explanation.rerank_similarity for item in mixed] == [0.9, 0.1, 0.2]
    assert ids(mix_rerank_scores(items, np.array([0.1, 0.2, 0.9]), weight=0.0)) == ["7-0", "7-1", "7-2"]
    assert ids(mix_rerank_scores(items, np.array([0.1, 0.2, 0.9]), weight=1.0)) == ["7-2", "7-1", "7-0"]


def test_what_lies_beyond_the_depth_stays_behind_in_its_order_however_a_later_stage_sorts() -> None:
    items = [ranked(chunk(i, "a"), 0.9 - 0.1 * i) for i in range(5)]
    mixed = mix_rerank_scores(items, np.array([0.0, 0.1]), weight=1.0)
    assert ids(mixed) == ["7-1", "7-0", "7-2", "7-3", "7-4"]
    assert mixed[2].similarity == pytest.approx(0.7), "what was not read again keeps its similarity"
    assert mixed[2].explanation.rerank_similarity is None
    assert ids(in_order(mixed)) == ids(mixed)


def test_the_order_of_a_fusion_by_ranks_is_not_lost_when_all_grades_are_the_same() -> None:
    items = [ranked(chunk(0, "a"), 0.2, order_score=0.03), ranked(chunk(1, "b"), 0.7, order_score=0.01)]
    assert ids(mix_rerank_scores(items, np.array([0.5, 0.5]), weight=0.7)) == ["7-0", "7-1"]


def test_a_passage_that_falls_below_the_threshold_is_dropped_with_the_reason() -> None:
    items = [ranked(chunk(0, "a"), 0.8), ranked(chunk(1, "b"), 0.6), ranked(chunk(2, "c"), 0.1, dropped=True)]
    mixed = mix_rerank_scores(items, np.array([0.0, 0.9]), weight=1.0, similarity_threshold=0.2)
    assert ids(mixed) == ["7-1"]
    assert reasons(mixed) == {"7-0": "below_similarity_threshold", "7-2": "below_similarity_threshold"}


@pytest.mark.parametrize("scores", [[1.5], [-0.1], [float("nan")], [0.1, 0.2, 0.3]])
def test_scores_that_are_none_are_refused(scores: list[float]) -> None:
    with pytest.raises(InvalidArgumentError, match="one score within"):
        mix_rerank_scores([ranked(chunk(0, "a"), 0.8), ranked(chunk(1, "b"), 0.7)], np.array(scores), weight=0.5)


def test_children_give_way_to_their_parent_with_the_mean_of_their_similarities() -> None:
    family, other = parent_record_id(Ordinal(7), 0), parent_record_id(Ordinal(7), 1)
    items = [
        ranked(chunk(0, "leaf pages", parent=family), 0.8),
        ranked(chunk(9, "alone"), 0.75),
        ranked(chunk(1, "range query", parent=family), 0.64),
        ranked(chunk(5, "elsewhere", parent=other), 0.5),
    ]
    merged = replace_children(items, {family: _parent(0)})
    assert ids(merged) == ["7-9", family, "7-5"], "a family without its parent stays as it is"
    parent = merged[1]
    assert parent.similarity == pytest.approx(0.72)
    assert parent.candidate.record.text == "whole section 0"
    assert parent.candidate.record.page == 3
    assert parent.merged_record_ids == ("7-0", "7-1")
    assert parent.candidate.content_terms == "leaf page rang queri"
    assert reasons(merged) == {"7-0": MERGED_INTO_PARENT, "7-1": MERGED_INTO_PARENT}


def test_a_familys_also_rans_do_not_pull_down_the_parent_of_the_best_hit() -> None:
    family = parent_record_id(Ordinal(7), 0)
    items = [
        ranked(chunk(0, "a", parent=family), 0.9),
        ranked(chunk(8, "b", version=8), 0.6),
        *(ranked(chunk(i, "c", parent=family), 0.2) for i in range(1, 6)),
    ]
    merged = replace_children(items, {family: _parent(0)})
    assert ids(merged) == [family, "8-8"]
    assert merged[0].similarity == pytest.approx(0.9)
    assert len(merged[0].merged_record_ids) == 6


def test_a_parent_that_was_a_hit_itself_is_one_hit_with_its_children() -> None:
    family = _parent(0)
    items = [ranked(family, 0.7), ranked(chunk(0, "a", parent=family.record_id), 0.6)]
    merged = replace_children(items, {family.record_id: family})
    assert ids(merged) == [family.record_id]
    assert merged[0].merged_record_ids == ("7-0",)


def test_without_a_parent_that_may_be_seen_nothing_changes() -> None:
    items = (ranked(chunk(0, "a", parent="7-parent-0"), 0.6), ranked(chunk(1, "b"), 0.5))
    assert replace_children(items, {}) == items
    assert parents_of(items, max_count=5) == ("7-parent-0",)


def test_parents_are_asked_for_from_the_best_child_on_and_no_more_than_allowed() -> None:
    items = [ranked(chunk(i, "a", parent=f"7-parent-{i}"), 0.9 - i / 100) for i in range(9)]
    items.append(ranked(chunk(20, "a", parent="7-parent-20"), 0.1, dropped=True))
    assert parents_of(items, max_count=3) == ("7-parent-0", "7-parent-1", "7-parent-2")
    assert "7-parent-20" not in parents_of(items, max_count=50)


def test_a_document_keeps_its_best_hits_and_says_what_happened_to_the_others() -> None:
    page = replace(chunk(0, "from the web", version=0), record_id="web-0", document_id="", kind=RecordKind.WEB_PAGE)
    items = [
        ranked(chunk(0, "a", version=1), 0.9),
        ranked(chunk(1, "b", version=1), 0.8),
        ranked(chunk(2, "c", version=1), 0.7),
        ranked(chunk(0, "d", version=2), 0.6),
        ranked(page, 0.5),
        ranked(replace(page, record_id="web-1"), 0.4),
    ]
    capped = cap_per_document(items, max_count=1)
    assert ids(capped) == ["1-0", "2-0", "web-0", "web-1"]
    assert reasons(capped) == {"1-1": OVER_DOCUMENT_CAP, "1-2": OVER_DOCUMENT_CAP}


def test_a_new_order_survives_a_later_sort_and_leaves_similarities_alone() -> None:
    items = [ranked(chunk(i, "a"), 0.9 - 0.1 * i) for i in range(4)]
    moved = reordered(items, [2, 0, 1])
    assert ids(moved) == ["7-2", "7-0", "7-1", "7-3"]
    assert ids(in_order(moved)) == ids(moved)
    assert [item.similarity for item in moved] == pytest.approx([0.7, 0.9, 0.8, 0.6])
