"""Measures of retrieval against values worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.evaluation import (
    QueryOutcome,
    ndcg_at,
    recall_at,
    reciprocal_rank,
    summarise_quality,
    unique_in_order,
)


def test_recall_counts_gold_among_the_first_places() -> None:
    assert recall_at(["a", "x", "b", "c"], {"a", "b", "z"}, 2) == pytest.approx(1 / 3)
    assert recall_at(["a", "x", "b", "c"], {"a", "b", "z"}, 3) == pytest.approx(2 / 3)


def test_recall_below_the_gold_count_cannot_reach_one() -> None:
    assert recall_at(["a", "b", "c"], {"a", "b", "c"}, 2) == pytest.approx(2 / 3)


def test_ndcg_follows_the_definition() -> None:
    gained = 1 / math.log2(2 + 1) + 1 / math.log2(4 + 1)
    best = 1 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert ndcg_at(["x", "a", "y", "b"], {"a", "b", "z"}, 10) == pytest.approx(gained / best)


def test_ndcg_is_one_for_the_best_order_even_with_more_gold_than_places() -> None:
    assert ndcg_at(["a", "b"], {"a", "b", "c"}, 2) == pytest.approx(1.0)


def test_reciprocal_rank_is_zero_where_nothing_is_found() -> None:
    assert reciprocal_rank(["x", "a"], {"a"}) == 0.5
    assert reciprocal_rank(["x"], {"a"}) == 0.0


def test_summary_is_the_mean_over_questions() -> None:
    quality = summarise_quality([QueryOutcome(("a",), frozenset({"a"})), QueryOutcome(("x",), frozenset({"a", "b"}))])
    assert quality.recall == ((2, 0.5), (5, 0.5), (10, 0.5))
    assert (quality.ndcg, quality.mean_reciprocal_rank, quality.query_count) == (0.5, 0.5, 2)


def test_a_document_ranks_where_its_best_chunk_ranks() -> None:
    assert unique_in_order(["b", "a", "b", "c", "a"]) == ("b", "a", "c")


@pytest.mark.parametrize("call", [lambda: recall_at(["a"], set(), 2), lambda: ndcg_at(["a"], {"a"}, 0)])
def test_impossible_measures_are_refused(call: object) -> None:
    with pytest.raises(InvalidArgumentError):
        call()  # type: ignore[operator]
    with pytest.raises(InvalidArgumentError):
        summarise_quality([])


@given(st.permutations(list("abcdefghij")), st.sets(st.sampled_from("abcdefghijk"), min_size=1))
def test_measures_stay_within_zero_and_one_and_grow_with_depth(ranked: list[str], gold: set[str]) -> None:
    recalls = [recall_at(ranked, gold, depth) for depth in range(1, 11)]
    assert recalls == sorted(recalls)
    assert all(0.0 <= value <= 1.0 for value in (*recalls, ndcg_at(ranked, gold, 10), reciprocal_rank(ranked, gold)))
