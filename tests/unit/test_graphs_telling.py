"""What builds of graphs tell of themselves as plain values, and what documents say put together."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.graphs.descriptions import assembled_description
from corpusmesh_core.graphs.telling import (
    GraphProgress,
    bill_of,
    bill_values,
    figures_of,
    figures_values,
    progress_of,
    progress_values,
)
from corpusmesh_core.graphs.values import GraphBill, GraphFigures

BILL = GraphBill(document_count=3, model_call_count=7, duration_seconds=1.5, stepped_down_reason="GRAPH_BUDGET_SPENT")


def test_what_is_written_is_read_again() -> None:
    assert bill_of(json.loads(json.dumps(bill_values(BILL)))) == BILL
    figures = GraphFigures(4, 5, 6, BILL)
    assert figures_of(json.loads(json.dumps(figures_values(figures)))) == figures
    progress = GraphProgress("extract", 10, 4, BILL)
    assert progress_of(json.loads(json.dumps(progress_values(progress)))) == progress


def test_what_is_missing_or_of_another_kind_is_nothing() -> None:
    assert bill_of(None) == GraphBill()
    assert bill_of({"document_count": "many", "stepped_down_reason": 7, "of_another_release": 1}) == GraphBill()
    assert figures_of({}) == GraphFigures()
    assert progress_of({"phase": None}) == GraphProgress()


def test_what_documents_say_is_told_once_and_in_their_order() -> None:
    said = ["She chairs  the board.", "she chairs the board.", "", "The board.", "Chairs the board", "She sails."]
    assert assembled_description(said) == "She chairs the board.\nShe sails."
    assert assembled_description(["A long one.", "long"]) == "A long one."
    assert assembled_description([]) == ""


def test_a_description_is_bounded_and_whole_fragments_are_left_out() -> None:
    assert assembled_description(["x" * 50], max_characters=10) == "x" * 10
    assert assembled_description(["abc", "d" * 50, "e"], max_characters=20) == "abc"


@settings(deadline=None)
@given(st.lists(st.text(max_size=30), max_size=12), st.integers(1, 60))
def test_a_description_is_never_longer_than_wished(fragments: list[str], most: int) -> None:
    text = assembled_description(fragments, max_characters=most)
    assert len(text) <= most
    assert bool(text) == any(fragment.split() for fragment in fragments)
