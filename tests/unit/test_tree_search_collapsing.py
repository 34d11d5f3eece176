"""Collapsed trees: which nodes are hits, what they lift, and the scale of their cosines."""

from dataclasses import replace

import pytest

from corpusmesh_core.ports.index import Candidate
from corpusmesh_core.ranking import LegScore, RankedCandidate, RankingOptions, ScoreExplanation
from corpusmesh_core.ranking.scoring import BELOW_THRESHOLD
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.tree_search import (
    COVERED_BY_LEAVES,
    COVERED_BY_SUMMARY,
    CollapseSettings,
    NodeOutcome,
    children_of,
    leaf_count_of,
    leaves_to_score,
    lift_leaves,
    node_title,
    on_scale_of_leaves,
    settle_nodes,
    with_cosines_of_leaves,
)

_OPTIONS = RankingOptions()
_PLAIN = CollapseSettings(lead_penalty=0.0, lead_share=0.5, lead_decay=0.5)


def _item(record: Record, similarity: float, *, dropped: str = "", feature: float = 0.0) -> RankedCandidate:
    leg = LegScore(None, 0, 0.0, is_filled_in=True)
    explanation = ScoreExplanation(leg, leg, feature, 0.8, False, similarity, similarity, dropped)
    return RankedCandidate(Candidate(record, ""), explanation)


def chunk(name: str, similarity: float, **fields: object) -> RankedCandidate:
    record = Record(name, RecordKind.CHUNK, "kb", Ordinal(1), (Ordinal(1),), name, document_id="d")
    return _item(record, similarity, **fields)  # type: ignore[arg-type]


def node(
    name: str, similarity: float, links: str, *, layer: int = 1, children: str = "", **fields: object
) -> RankedCandidate:
    attributes = {"children": children or links, "leaf_count": str(len(links.split()))}
    record = Record(
        name,
        RecordKind.TREE_NODE,
        "kb",
        Ordinal(9),
        (Ordinal(1),),
        name,
        links=tuple(links.split()),
        layer=layer,
        attributes=attributes,
    )
    return _item(record, similarity, **fields)  # type: ignore[arg-type]


def names(ranked: tuple[RankedCandidate, ...]) -> list[str]:
    return [item.candidate.record.record_id for item in ranked if item.is_kept]


def test_a_node_gives_way_to_a_better_leaf_and_is_told_of() -> None:
    ranked = (chunk("c1", 0.9), node("n1", 0.8, "c1 c2"), chunk("c2", 0.3), chunk("x", 0.2))
    settled, [step] = settle_nodes(ranked)
    assert names(settled) == ["c1", "c2", "x"]
    assert settled[-1].explanation.dropped_because == COVERED_BY_LEAVES
    assert (step.record_id, step.outcome, step.led_to, step.layer) == ("n1", NodeOutcome.COVERED, ("c1",), 1)


def test_a_node_that_fits_better_than_all_its_leaves_is_a_hit_and_so_stay_its_leaves() -> None:
    ranked = (chunk("x", 0.9), node("n1", 0.8, "c1 c2"), chunk("c1", 0.7), chunk("c2", 0.3))
    settled, [step] = settle_nodes(ranked)
    assert settled == ranked, "no leaf gives way to a summary"
    assert (step.outcome, step.led_to) == (NodeOutcome.KEPT, ("c1", "c2"))


def test_one_better_leaf_of_many_does_not_cover_a_node() -> None:
    ranked = (chunk("c1", 0.9), node("n1", 0.8, "c1 c2 c3 c4 c5"), chunk("c2", 0.3))
    assert names(settle_nodes(ranked)[0]) == ["c1", "n1", "c2"]
    assert names(settle_nodes(ranked, CollapseSettings(better_share=0.0))[0]) == ["c1", "c2"]


def test_a_node_of_one_leaf_is_no_hit_beside_it() -> None:
    settled, [step] = settle_nodes((node("n1", 0.9, "c1"), chunk("c1", 0.8)))
    assert names(settled) == ["c1"]
    assert step.led_to == ("c1",)
    alone, _ = settle_nodes((node("n1", 0.9, "c1"), chunk("c2", 0.8)))
    assert names(alone) == ["n1", "c2"]


def test_of_two_nodes_that_stand_for_the_same_leaves_the_better_one_is_a_hit() -> None:
    ranked = (
        node("n2", 0.9, "c1 c2 c3", layer=2),
        node("n1", 0.8, "c1 c2"),
        node("other", 0.7, "c3 c4 c5 c6"),
        node("unknown leaves", 0.6, ""),
    )
    settled, steps = settle_nodes(ranked)
    assert names(settled) == ["n2", "other", "unknown leaves"]
    assert settled[-1].explanation.dropped_because == COVERED_BY_SUMMARY
    assert steps[1].led_to == ("n2",)


def test_without_nodes_nothing_changes() -> None:
    ranked = (chunk("a", 0.9), chunk("b", 0.8), chunk("c", 0.1, dropped=BELOW_THRESHOLD))
    assert settle_nodes(ranked) == (ranked, ())
    assert lift_leaves(ranked, _OPTIONS) == ranked
    assert leaves_to_score(ranked, set()) == ()


def test_a_node_lifts_its_leaves_the_best_most_and_never_pushes_one_down() -> None:
    ranked = (chunk("x", 0.9), node("n", 0.8, "c1 c2 c3 best"), chunk("c1", 0.4), chunk("c2", 0.4), chunk("c3", 0.2))
    best = chunk("best", 0.85)
    lifted = {
        item.candidate.record.record_id: item for item in lift_leaves((ranked[0], best, *ranked[1:]), _OPTIONS, _PLAIN)
    }
    assert lifted["best"] == best
    assert lifted["x"] == ranked[0]
    assert lifted["c1"].similarity == pytest.approx(0.4 + 0.5 * 0.4)
    assert lifted["c2"].similarity == pytest.approx(0.4 + 0.25 * 0.4)
    assert lifted["c3"].similarity == pytest.approx(0.2 + 0.125 * 0.6)
    assert lifted["c1"].via_record_ids == ("n",)


def test_what_was_dropped_for_another_reason_is_not_brought_back_by_a_node() -> None:
    ranked = (
        node("n", 0.8, "low gone", dropped=COVERED_BY_LEAVES),
        chunk("low", 0.1, dropped=BELOW_THRESHOLD),
        chunk("gone", 0.1, dropped="irrelevant"),
    )
    lifted = {item.candidate.record.record_id: item for item in lift_leaves(ranked, _OPTIONS)}
    assert lifted["low"].is_kept, "also a node that is no hit leads"
    assert not lifted["gone"].is_kept
    assert not lifted["n"].is_kept


def test_nodes_of_high_layers_and_of_many_leaves_lead_to_none() -> None:
    many = " ".join(f"m{number}" for number in range(65))
    ranked = (node("high", 0.9, "c1", layer=3), node("wide", 0.9, many), node("good", 0.8, "c1 c2", layer=2))
    assert leaves_to_score(ranked, {"c1"}) == ("c2",)
    low = (*ranked, chunk("c1", 0.1), chunk("m1", 0.1))
    assert [item.via_record_ids for item in lift_leaves(low, _OPTIONS) if item.via_record_ids] == [("good",)]


def test_rank_features_are_no_part_of_what_is_lifted() -> None:
    ranked = (node("n", 0.8, "c1"), chunk("c1", 0.5, feature=0.1))
    leaf = next(item for item in lift_leaves(ranked, _OPTIONS, _PLAIN) if item.candidate.record.record_id == "c1")
    assert leaf.similarity == pytest.approx(0.4 + 0.5 * 0.4 + 0.1)


def test_a_node_has_the_mean_cosine_of_its_leaves_where_all_are_known() -> None:
    known = {"c1": 0.8, "c2": 0.6, "c3": None}
    items = [replace(chunk(name, 0.5).candidate, cosine=cosine) for name, cosine in known.items()]
    both = replace(node("both", 0.5, "c1 c2").candidate, cosine=0.9)
    some = replace(node("some", 0.5, "c1 c9").candidate, cosine=0.9)
    silent = replace(node("silent", 0.5, "c1 c3").candidate, cosine=0.9)
    bare = node("bare", 0.5, "c1 c2").candidate
    scaled = {item.record.record_id: item.cosine for item in with_cosines_of_leaves([*items, both, some, silent, bare])}
    assert scaled == {**known, "both": pytest.approx(0.7), "some": 0.9, "silent": 0.9, "bare": None}


@pytest.mark.parametrize(("leaf_count", "factor"), [("2", 0.97), ("5", 0.945), ("64", 0.915), ("900", 0.905)])
def test_cosines_of_a_node_are_brought_onto_the_scale_of_its_leaves(leaf_count: str, factor: float) -> None:
    record = replace(node("n", 0.5, "a b").candidate.record, attributes={"leaf_count": leaf_count})
    scaled = on_scale_of_leaves(Candidate(record, "", cosine=0.8, reference_cosine=0.5))
    assert scaled.cosine == pytest.approx(0.8 * factor)
    assert scaled.reference_cosine == pytest.approx(0.5 * factor)
    assert on_scale_of_leaves(Candidate(record, "")).cosine is None


def test_what_a_record_says_of_its_node() -> None:
    record = node("n", 0.5, "a b", children="k1  k2").candidate.record
    assert children_of(record) == ("k1", "k2")
    assert leaf_count_of(record) == 2
    assert leaf_count_of(replace(record, attributes={"leaf_count": "4000"}, links=())) == 4000
    assert leaf_count_of(replace(record, attributes={"leaf_count": "many"})) == 2
    assert node_title(replace(record, title="Own"), ["A"]) == "Own"
    assert node_title(record, ["A", "B", "A", "", "C", "D"]) == "A, B (+2)"
    assert node_title(record, []) == ""
