"""How well evidence carries an answer: calibrated, forgiving of form, and honest about what is not there."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.answering import Evidence, measure_support
from corpusmesh_core.answering.support import DEFAULT_CALIBRATION, SupportWeights
from corpusmesh_core.answering.wording import Wording
from corpusmesh_core.text import Alternative

SHARED = Path(os.environ.get("CORPUSMESH_SHARED", Path(__file__).parents[3] / "shared"))
ROLLBACK = Evidence("a", "A rollback points the base at an earlier snapshot.", "Knowledge base guide.md", 20)
MENU = Evidence("b", "On Mondays the canteen serves soup with bread.", "menu.md", 20)


def confidence(question: str, *evidence: Evidence) -> float:
    return measure_support(question, evidence).confidence


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("roll back", "A rollback is quick."),
        ("rollback", "You can roll back quickly."),
        ("publication of it", "It is published at once."),
        ("rolled", "They roll."),
    ],
)
def test_form_and_spelling_are_forgiven(question: str, text: str) -> None:
    wording = Wording(question)
    assert set(wording.held_by(text)) == wording.terms


@pytest.mark.parametrize(
    ("question", "text"), [("carpet", "A car is a pet."), ("contract", "A contest."), ("back", "A backbone.")]
)
def test_other_words_are_other_words(question: str, text: str) -> None:
    assert not Wording(question).held_by(text)


def test_a_tenants_synonyms_count() -> None:
    alternatives = (Alternative(("rollback",), ("undo",)),)
    undo = replace(MENU, text="The undo of a base is quick.")
    plain = measure_support("rollback of a base", [undo])
    helped = measure_support("rollback of a base", [undo], alternatives=alternatives)
    assert helped.confidence > plain.confidence


def test_a_how_to_question_is_carried_by_a_description_with_its_headings() -> None:
    assert confidence("How do I roll back a knowledge base?", ROLLBACK, MENU) >= DEFAULT_CALIBRATION.min_confidence
    assert confidence("How do I bake bread rolls?", ROLLBACK) < DEFAULT_CALIBRATION.min_confidence


def test_the_cosine_counts_beside_the_words() -> None:
    question = "How can one return to the former state?"
    near, far = replace(ROLLBACK, cosine=0.95), replace(ROLLBACK, cosine=0.75)
    assert confidence(question, near) > 0.5 > confidence(question, far)


def test_evidence_in_another_language_can_carry_an_answer() -> None:
    others = [replace(MENU, record_id=str(number), cosine=0.76) for number in range(8)]
    found = measure_support("读者什么时候能看到以前的内容？", [replace(ROLLBACK, cosine=0.86), *others])
    assert found.best == 0
    assert found.confidence > DEFAULT_CALIBRATION.min_confidence


def test_no_evidence_carries_nothing() -> None:
    assert measure_support("anything", []).confidence == 0.0


def test_each_passage_has_its_grade() -> None:
    found = measure_support("rollback to an earlier snapshot", [MENU, ROLLBACK])
    assert found.best == 1
    assert found.grades[1] > 0.5 > found.grades[0]
    assert "snapshot" in found.held_terms


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(-1, 1), st.floats(0, 2))
def test_a_probability_is_one_whatever_the_weights(
    intercept: float, weight: float, cosine: float, margin: float
) -> None:
    assert 0.0 <= SupportWeights(intercept, weight, weight, weight).probability(0.5, cosine, margin) <= 1.0


@pytest.mark.skipif(not (SHARED / "eval" / "popqa").is_dir(), reason="the evaluation sets are not there")
def test_without_vectors_answerable_questions_are_told_from_foreign_ones() -> None:
    folder = SHARED / "eval" / "popqa"
    corpus = {entry["id"]: entry for entry in map(json.loads, (folder / "corpus.jsonl").open(encoding="utf-8"))}
    queries = [json.loads(line) for line in (folder / "queries.jsonl").open(encoding="utf-8")][:100]
    pieces = [
        [Evidence(key, corpus[key]["text"], corpus[key]["title"], 100) for key in query["gold_ids"]]
        for query in queries
    ]
    least = DEFAULT_CALIBRATION.min_confidence
    own = [confidence(query["question"], *pieces[place]) >= least for place, query in enumerate(queries)]
    foreign = [confidence(query["question"], *pieces[place - 7]) < least for place, query in enumerate(queries)]
    assert sum(own) >= 85
    assert sum(foreign) >= 85
