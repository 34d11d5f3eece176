from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from corpusmesh_core.ports.index import Candidate, Candidates
from corpusmesh_core.ranking import (
    Fusion,
    RankedCandidate,
    RankingOptions,
    VariantCandidates,
    VectorScale,
    merge_ranked,
    rank_candidates,
    rank_variants,
    trust_in,
)
from corpusmesh_core.ranking.scoring import BELOW_THRESHOLD
from corpusmesh_core.ranking.variants import LEAST_TRUST
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.text import analyze_query

OPTIONS = RankingOptions()
QUESTION = analyze_query("alpha beta")


def _candidate(record_id: str, text: str, cosine: float | None, *, asked: float | None = None) -> Candidate:
    record = Record(record_id, RecordKind.CHUNK, "kb", Ordinal(1), (Ordinal(1),), text)
    return Candidate(
        record,
        text,
        script="spaced",
        lexical_score=1.0,
        lexical_rank=1,
        cosine=cosine,
        vector_rank=1,
        reference_cosine=asked,
        reference_lexical_score=None if asked is None else 0.5,
    )


def _found(*items: Candidate) -> Candidates:
    return Candidates(items, has_vector_leg=True)


def _ids(ranked: tuple[RankedCandidate, ...]) -> list[str]:
    return [item.candidate.record.record_id for item in ranked]


DIRECT = VariantCandidates(_found(_candidate("good", "alpha beta", 0.9), _candidate("poor", "gamma", 0.75)), QUESTION)


def test_a_candidate_of_a_variant_alone_is_scored_by_the_question() -> None:
    variant = VariantCandidates(_found(_candidate("new", "alpha", 0.99, asked=0.8)), analyze_query("delta"), weight=0.1)
    ranked = rank_variants(DIRECT, [variant], OPTIONS)
    [new] = [item for item in ranked if item.candidate.record.record_id == "new"]
    same = rank_candidates(_found(_candidate("new", "alpha", 0.8)), QUESTION, OPTIONS)[0]
    assert new.similarity == pytest.approx(same.similarity)
    assert new.explanation.variant == 0
    assert new.explanation.lexical.raw == 0.5
    assert new.explanation.lexical.is_filled_in
    assert new.explanation.vector.is_filled_in


def test_a_variant_lifts_what_it_fits_better_and_names_itself() -> None:
    terms = analyze_query("gamma")
    other = VariantCandidates(_found(), analyze_query("x"))
    variant = VariantCandidates(_found(_candidate("poor", "gamma", 0.95, asked=0.75)), terms, weight=0.8)
    ranked = rank_variants(DIRECT, [other, variant], OPTIONS)
    own = rank_candidates(variant.candidates, terms, OPTIONS)[0].similarity
    [lifted] = [item for item in ranked if item.candidate.record.record_id == "poor"]
    assert lifted.similarity == pytest.approx(0.8 * own)
    assert lifted.explanation.variant == 2


@pytest.mark.parametrize("fusion", list(Fusion))
def test_no_variant_takes_similarity_or_score_from_a_direct_hit(fusion: Fusion) -> None:
    rng = np.random.default_rng(20261130)
    options = RankingOptions(fusion)
    for _ in range(50):
        direct = VariantCandidates(
            _found(*(_candidate(f"r{i}", "alpha" if i % 2 else "beta", float(rng.uniform(0.7, 1))) for i in range(8))),
            QUESTION,
        )
        variants = [
            VariantCandidates(
                _found(
                    *(
                        _candidate(f"r{i}", "gamma", float(rng.uniform(0.7, 1)), asked=float(rng.uniform(0.7, 1)))
                        for i in rng.choice(16, size=6, replace=False)
                    )
                ),
                analyze_query("gamma delta"),
                weight=float(rng.uniform(0.1, 1.0)),
            )
            for _ in range(2)
        ]
        union = rank_variants(direct, [replace(variant, weight=1e-9) for variant in variants], options)
        before = {item.candidate.record.record_id: item.explanation for item in union}
        for item in rank_variants(direct, variants, options):
            old = before[item.candidate.record.record_id]
            assert item.explanation.similarity >= old.similarity - 1e-9
            assert item.explanation.order_score - old.order_score == pytest.approx(
                item.explanation.similarity - old.similarity
            )


def test_without_variants_the_order_is_that_of_the_question() -> None:
    assert rank_variants(DIRECT, [], OPTIONS) == rank_candidates(DIRECT.candidates, QUESTION, OPTIONS)


def test_rank_features_add_to_what_a_variant_found() -> None:
    variant = VariantCandidates(_found(_candidate("poor", "gamma", 0.95, asked=0.75)), analyze_query("gamma"))
    plain = rank_variants(DIRECT, [variant], OPTIONS)
    tagged = rank_variants(DIRECT, [variant], OPTIONS, rank_features={"poor": 0.05})
    by_id = {item.candidate.record.record_id: item for item in plain}
    for item in tagged:
        expected = by_id[item.candidate.record.record_id].similarity
        gain = 0.05 if item.candidate.record.record_id == "poor" else 0.0
        assert item.similarity == pytest.approx(expected + gain)


def test_a_dropped_candidate_comes_back_where_a_variant_lifts_it_over_the_threshold() -> None:
    options = RankingOptions(similarity_threshold=0.4)
    assert not rank_variants(DIRECT, [], options)[1].is_kept
    variant = VariantCandidates(_found(_candidate("poor", "gamma", 0.95, asked=0.75)), analyze_query("gamma"))
    assert all(item.is_kept for item in rank_variants(DIRECT, [variant], options))


def test_merging_keeps_each_record_once_with_its_higher_score_and_all_it_was_joined_with() -> None:
    ranked = rank_candidates(
        _found(_candidate("a", "alpha", 0.8), _candidate("b", "alpha beta", 0.9)), QUESTION, OPTIONS
    )
    joined = tuple(
        replace(item, merged_record_ids=("part",)) if item.candidate.record.record_id == "a" else item
        for item in ranked
    )
    further = rank_candidates(
        _found(_candidate("a", "alpha beta", 0.99), _candidate("part", "beta", 0.8), _candidate("c", "x", 0.7)),
        QUESTION,
        OPTIONS,
    )
    merged = merge_ranked(joined, further)
    assert _ids(merged) == ["a", "b", "c"]
    assert merged[0].merged_record_ids == ("part",)
    assert merged[0].similarity == max(item.similarity for item in further)
    assert merge_ranked(merged, further) == merged


@pytest.mark.parametrize("settled", [{"dropped_because": "graded_irrelevant"}, {"rerank_similarity": 0.1}])
def test_a_further_search_does_not_undo_what_a_stage_has_judged(settled: dict[str, Any]) -> None:
    before = rank_candidates(_found(_candidate("a", "alpha", 0.8), _candidate("b", "beta", 0.9)), QUESTION, OPTIONS)
    judged = [replace(item, explanation=replace(item.explanation, order_score=0.1, **settled)) for item in before[:1]]
    assert merge_ranked([*before[1:], *judged], before)[-1] == judged[0]


def test_a_further_search_brings_back_what_its_score_alone_had_dropped() -> None:
    (found,) = rank_candidates(_found(_candidate("a", "alpha", 0.8)), QUESTION, OPTIONS)
    poor = replace(found.explanation, order_score=0.0, similarity=0.0, dropped_because=BELOW_THRESHOLD)
    assert merge_ranked([replace(found, explanation=poor)], [found]) == (found,)


def test_a_wrong_variant_does_not_take_first_place_from_a_good_hit() -> None:
    wrong = VariantCandidates(
        _found(*(_candidate(f"w{i}", "gamma", 0.97 + i / 100, asked=0.72) for i in range(3))), analyze_query("gamma")
    )
    ranked = rank_variants(DIRECT, [wrong], OPTIONS)
    assert _ids(ranked)[:4] == ["good", "w2", "w1", "w0"], "those that are held back keep their order"
    assert ranked[0].similarity - ranked[3].similarity < 1e-4


def test_where_the_question_finds_nothing_good_a_variant_may_go_first() -> None:
    poor = VariantCandidates(_found(_candidate("poor", "gamma", 0.75)), QUESTION)
    found = VariantCandidates(_found(_candidate("new", "delta", 0.95, asked=0.72)), analyze_query("delta"))
    assert _ids(rank_variants(poor, [found], OPTIONS)) == ["new", "poor"]


def test_trust_lowers_what_a_variant_may_lift() -> None:
    variant = VariantCandidates(_found(_candidate("poor", "gamma", 0.95, asked=0.75)), analyze_query("gamma"))
    full = rank_variants(DIRECT, [variant], OPTIONS)[1]
    half = rank_variants(DIRECT, [replace(variant, trust=0.5)], OPTIONS)[1]
    own = rank_candidates(variant.candidates, variant.terms, OPTIONS)[0].similarity
    assert half.similarity == pytest.approx(0.5 * own)
    assert full.similarity > half.similarity


def test_a_variant_is_trusted_by_how_near_it_is_to_the_question() -> None:
    scale = VectorScale(floor=0.7, cross_script_gain=0.05)
    trusts = [trust_in(cosine, is_cross_script=False, scale=scale) for cosine in (0.5, 0.72, 0.76, 0.79, 0.83, 1.0)]
    assert trusts == sorted(trusts)
    assert trusts[0] == trusts[1] == LEAST_TRUST
    assert LEAST_TRUST < trusts[3] < 1.0
    assert trusts[4] == trusts[5] == 1.0
    assert trust_in(0.76, is_cross_script=True, scale=scale) == pytest.approx(
        trust_in(0.81, is_cross_script=False, scale=scale)
    )
