from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.ports.index import Candidate, Candidates
from corpusmesh_core.ranking import (
    Fusion,
    RankedCandidate,
    RankingOptions,
    VectorScale,
    inverse_document_frequencies,
    rank_candidates,
    scale_cosines,
    term_coverage,
)
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.text import analyze, analyze_query, script_of


def _candidate(
    record_id: str,
    text: str,
    *,
    bm25: float | None = 0.0,
    cosine: float | None = None,
    ranks: tuple[int, int] = (0, 0),
    keywords: str = "",
) -> Candidate:
    fine = analyze(text).fine
    return Candidate(
        record=Record(record_id, RecordKind.CHUNK, "kb", Ordinal(1), (Ordinal(1),), text),
        content_terms=" ".join(fine),
        keyword_terms=" ".join(analyze(keywords).fine),
        script=script_of(fine).value,
        lexical_score=bm25,
        lexical_rank=ranks[0],
        cosine=cosine,
        vector_rank=ranks[1],
    )


def _rank(
    question: str,
    items: tuple[Candidate, ...],
    options: RankingOptions | None = None,
    *,
    frequencies: Mapping[str, int] | None = None,
    count: int = 0,
    features: Mapping[str, float] | None = None,
) -> tuple[RankedCandidate, ...]:
    candidates = Candidates(items, document_count=count, document_frequencies=frequencies or {})
    return rank_candidates(candidates, analyze_query(question), options or RankingOptions(), rank_features=features)


def _ids(ranked: tuple[RankedCandidate, ...]) -> list[str]:
    return [item.candidate.record.record_id for item in ranked]


def test_rare_terms_weigh_more_and_unknown_statistics_weigh_words_over_function_words() -> None:
    weights = inverse_document_frequencies(["the", "index"], {"the": 900, "index": 3}, 1000)
    assert weights[1] > 20 * weights[0] > 0
    assert inverse_document_frequencies(["the", "index"], {}, 0).tolist() == [0.1, 1.0]
    assert inverse_document_frequencies(["x"], {"x": 5000}, 1000)[0] > 0, "stale statistics stay positive"


def test_coverage_is_the_weighted_share_of_the_question() -> None:
    question = analyze_query("btree range query")
    items = (_candidate("a", "btree for a range query"), _candidate("b", "btree query"), _candidate("c", "hash table"))
    coverage = term_coverage(question, np.array([2.0, 1.0, 1.0]), items, bigram_share=0.0)
    assert coverage.tolist() == pytest.approx([1.0, 0.75, 0.0])


def test_neighbouring_terms_raise_coverage() -> None:
    question = analyze_query("range query")
    items = (_candidate("apart", "query of a range"), _candidate("together", "a range query"))
    apart, together = term_coverage(question, np.ones(2), items, bigram_share=0.2)
    assert (apart, together) == pytest.approx((0.8, 1.0))


def test_keywords_cover_terms_too_but_pairs_do_not_span_fields() -> None:
    question = analyze_query("range query")
    (coverage,) = term_coverage(
        question, np.ones(2), (_candidate("a", "about a range", keywords="query"),), bigram_share=0.5
    )
    assert coverage == pytest.approx(0.5)


def test_a_term_is_not_found_inside_another() -> None:
    (coverage,) = term_coverage(analyze_query("art"), np.ones(1), (_candidate("a", "party start"),), bigram_share=0.1)
    assert coverage == 0.0


def test_cosines_are_stretched_from_the_floor_of_the_model() -> None:
    scaled = scale_cosines(
        np.array([0.7, 0.85, 1.0, 0.3, 0.79]),
        np.array([False, False, False, False, True]),
        VectorScale(floor=0.7, cross_script_gain=0.06),
    )
    assert scaled.tolist() == pytest.approx([0.0, 0.5, 1.0, 0.0, 0.5])


def test_seed_formula_takes_cosine_as_it_is_and_drops_below_the_threshold() -> None:
    options = RankingOptions(fusion=Fusion.TERM_COVERAGE, vector_weight=0.3, similarity_threshold=0.2, bigram_share=0.0)
    ranked = _rank(
        "range query",
        (_candidate("half", "a range", bm25=2.0, cosine=0.5), _candidate("none", "hash", cosine=0.4)),
        options,
    )
    assert _ids(ranked) == ["half", "none"]
    assert ranked[0].similarity == pytest.approx(0.7 * 0.5 + 0.3 * 0.5)
    assert ranked[0].is_kept
    assert ranked[1].explanation.dropped_because == "below_similarity_threshold"
    assert ranked[1].similarity == pytest.approx(0.12)


@pytest.mark.parametrize("fusion", list(Fusion))
def test_equal_scores_keep_the_order_of_the_legs(fusion: Fusion) -> None:
    items = tuple(_candidate(f"r{i}", "same text", bm25=1.0, cosine=0.8, ranks=(1, 1)) for i in range(7))
    assert _ids(_rank("same text", items, RankingOptions(fusion=fusion))) == [f"r{i}" for i in range(7)]


def test_filled_in_scores_are_marked() -> None:
    (only_vector,) = _rank("range", (_candidate("a", "hash", bm25=0.0, cosine=0.9, ranks=(0, 3)),))
    assert only_vector.explanation.lexical.is_filled_in
    assert not only_vector.explanation.vector.is_filled_in
    assert only_vector.explanation.vector.rank == 3
    assert only_vector.explanation.vector.raw == 0.9


def test_lexical_leg_alone_orders_by_bm25() -> None:
    ranked = _rank("a b", (_candidate("low", "a b", bm25=1.0), _candidate("high", "a", bm25=5.0)))
    assert _ids(ranked) == ["high", "low"]
    assert ranked[0].explanation.vector_weight == 0.0


def test_question_without_words_orders_by_meaning_alone() -> None:
    ranked = _rank("🎉", (_candidate("a", "x", bm25=None, cosine=0.8), _candidate("b", "y", bm25=None, cosine=0.9)))
    assert _ids(ranked) == ["b", "a"]
    assert ranked[0].explanation.vector_weight == 1.0


def test_record_without_vector_competes_by_its_words() -> None:
    ranked = _rank(
        "range query",
        (
            _candidate("plain", "range query", bm25=3.0, ranks=(1, 0)),
            _candidate("other", "hash", cosine=0.8, ranks=(0, 1)),
        ),
    )
    assert _ids(ranked) == ["plain", "other"]
    assert ranked[0].similarity == pytest.approx(1.0)


def test_record_in_another_script_is_not_punished_for_its_words() -> None:
    items = (
        _candidate("english", "nothing of it", bm25=0.1, cosine=0.84, ranks=(1, 1)),
        _candidate("chinese", "范围查询很快", bm25=0.0, cosine=0.83),
    )
    ranked = _rank("why are range lookups fast", items)
    assert _ids(ranked) == ["chinese", "english"]
    assert ranked[0].explanation.is_cross_script
    without = RankingOptions(scale=VectorScale(cross_script_gain=0.0))
    assert ranked[0].similarity > _rank("why are range lookups fast", items, without)[0].similarity


def test_record_in_another_script_does_not_pass_one_that_the_words_bear_out() -> None:
    items = (
        _candidate("chinese", "范围查询很快", bm25=0.0, cosine=0.95),
        _candidate("next", "关于范围", bm25=0.0, cosine=0.94),
        _candidate("english", "why range lookups are fast", bm25=9.0, cosine=0.8, ranks=(1, 1)),
        _candidate("other", "something else", bm25=0.0, cosine=0.8),
    )
    assert _ids(_rank("why are range lookups fast", items)) == ["english", "chinese", "next", "other"]


def test_text_that_mixes_scripts_is_foreign_to_no_question() -> None:
    (mixed,) = _rank("tracks", (_candidate("m", "铺轨 making tracks 音乐剧", bm25=1.0, cosine=0.8),))
    assert not mixed.explanation.is_cross_script


def test_rank_features_are_added() -> None:
    items = (_candidate("a", "x y", bm25=1.0, cosine=0.8), _candidate("b", "x y", bm25=1.0, cosine=0.8))
    assert _ids(_rank("x y", items, features={"b": 0.1})) == ["b", "a"]


def test_nothing_in_nothing_out() -> None:
    assert _rank("x", ()) == ()


_scores = st.tuples(st.floats(0, 30), st.floats(-1, 1), st.booleans(), st.sampled_from(["x y", "x", "z", "税法"]))


@given(st.lists(_scores, min_size=1, max_size=12), st.sampled_from(list(Fusion)), st.floats(0, 1), st.floats(0, 1))
def test_every_candidate_comes_out_once_with_kept_ones_first(
    rows: list[tuple[float, float, bool, str]], fusion: Fusion, weight: float, threshold: float
) -> None:
    items = tuple(
        _candidate(f"r{i}", text, bm25=bm25, cosine=None if no_vector else cosine, ranks=(i + 1, 0))
        for i, (bm25, cosine, no_vector, text) in enumerate(rows)
    )
    ranked = _rank("x y", items, RankingOptions(fusion, weight, threshold))
    assert sorted(_ids(ranked)) == sorted(item.record.record_id for item in items)
    kept = [item.is_kept for item in ranked]
    assert kept == sorted(kept, reverse=True)
    for group in (True, False):
        scores = [item.explanation.order_score for item in ranked if item.is_kept is group]
        assert scores == sorted(scores, reverse=True)
    for item in ranked:
        assert item.is_kept is (item.similarity >= threshold)
        assert -1e-9 <= item.similarity <= 1 + 1e-9
