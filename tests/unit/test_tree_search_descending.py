"""From summaries down to chunks: which nodes are followed, which chunks come first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.ranking import RankedCandidate, RankingOptions
from corpusmesh_core.ranking.scoring import BELOW_THRESHOLD
from corpusmesh_core.tree_search import (
    LEADS_TO_CHUNKS,
    NodeOutcome,
    best_leaves,
    best_of_layer,
    descend,
    lead_by,
    orphans,
    path_of,
)
from tests.unit.test_tree_search_collapsing import chunk, names, node

_ROOT = node("root", 0.3, "c1 c2 c3 c4", layer=2, children="left right")
_LEFT = node("left", 0.5, "c1 c2")
_RIGHT = node("right", 0.9, "c3 c4")


def ids(items: tuple[RankedCandidate, ...]) -> list[str]:
    return [item.candidate.record.record_id for item in items]


def test_the_best_nodes_of_each_layer_are_followed_down() -> None:
    descent = descend([_RIGHT, _LEFT, _ROOT], width=1)
    assert ids(descent.followed) == ["root", "right"]
    assert ids(descent.passed_by) == ["left"]
    assert ids(descent.last) == ["right"]
    assert descent.missing == ()


def test_what_is_not_known_yet_is_asked_for_before_the_way_goes_on() -> None:
    descent = descend([_RIGHT, _ROOT], width=1)
    assert descent.missing == ("left",)
    assert descent.last == ()
    gone = descend([_RIGHT, _ROOT], width=1, absent={"left"})
    assert (gone.missing, ids(gone.last)) == ((), ["right"])


def test_a_node_beneath_one_that_is_not_followed_is_not_reached() -> None:
    other = node("other", 0.8, "d1 d2", layer=2, children="below")
    below = node("below", 0.99, "d1 d2")
    descent = descend([below, _RIGHT, other, _LEFT, _ROOT], width=1)
    assert ids(descent.followed) == ["other", "below"]
    assert ids(orphans([below, _RIGHT, other, _LEFT, _ROOT])) == ["other", "root"]


def test_nodes_whose_parents_are_hidden_begin_by_themselves() -> None:
    descent = descend([_RIGHT, _LEFT], width=5)
    assert ids(descent.last) == ["right", "left"]
    # A root of one layer competes with nodes that were reached from above.
    alone = node("alone", 0.95, "e1")
    assert ids(descend([alone, _RIGHT, _LEFT, _ROOT], width=1).last) == ["alone"]


def test_chunks_that_were_led_to_are_preferred_and_nodes_are_no_hits() -> None:
    ranked = (
        _RIGHT,
        chunk("x", 0.43),
        chunk("c3", 0.4),
        chunk("c4", 0.3),
        chunk("low", 0.1, dropped=BELOW_THRESHOLD),
        chunk("gone", 0.1, dropped="irrelevant"),
    )
    assert best_leaves(ranked, [_RIGHT, _LEFT]) == (("c3", "c4"), ())
    assert best_leaves(ranked, [_RIGHT], per_node=1) == (("c3",),)
    led = lead_by(ranked, {"c3", "low", "gone"}, RankingOptions())
    assert names(led) == ["c3", "x", "c4", "low"], "a good chunk that nothing has led to stays where it is"
    assert [item.similarity for item in led if item.is_kept] == pytest.approx([0.46, 0.43, 0.3, 0.16])
    reasons = {item.candidate.record.record_id: item.explanation.dropped_because for item in led}
    assert (reasons["right"], reasons["gone"]) == (LEADS_TO_CHUNKS, "irrelevant")


def test_the_best_nodes_of_a_layer_are_hits_of_that_layer_alone() -> None:
    ranked = (_RIGHT, _LEFT, _ROOT, chunk("c1", 0.1), node("low", 0.05, "z", dropped=BELOW_THRESHOLD))
    assert ids(best_of_layer(ranked, layer=1, count=5)) == ["right", "left"]
    assert ids(best_of_layer(ranked, layer=2, count=1)) == ["root"]


def test_the_path_tells_from_the_top_and_names_nothing_that_was_not_read() -> None:
    steps = path_of(descend([_RIGHT, _LEFT, _ROOT], width=1), {"left", "right", "c4"})
    told = [(step.record_id, step.outcome, step.led_to) for step in steps]
    assert told == [
        ("root", NodeOutcome.FOLLOWED, ("left", "right")),
        ("right", NodeOutcome.FOLLOWED, ("c4",)),
        ("left", NodeOutcome.DROPPED, ()),
    ]


@given(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=6), min_size=1, max_size=4), st.integers(1, 4))
def test_a_way_down_ends_and_follows_no_more_than_its_width(shape: list[list[int]], width: int) -> None:
    beneath = [f"c{number}" for number in range(sum(shape[0]))]
    known: list[RankedCandidate] = []
    for layer, sizes in enumerate(shape, start=1):
        above: list[str] = []
        left = list(beneath)
        for place, size in enumerate(sizes):
            own, left = left[:size], left[size:]
            if not own:
                break
            name = f"n{layer}-{place}"
            above.append(name)
            known.append(node(name, 1.0 / (layer + place), " ".join(own), layer=layer, children=" ".join(own)))
        beneath = above
    ranked = sorted(known, key=lambda item: -item.similarity)
    descent = descend(ranked, width=width)
    assert descent.missing == ()
    by_layer = [item.candidate.record.layer for item in descent.followed]
    assert max(by_layer.count(layer) for layer in set(by_layer)) <= width
    assert by_layer == sorted(by_layer, reverse=True)
    assert descent.last or max(by_layer) > 1
