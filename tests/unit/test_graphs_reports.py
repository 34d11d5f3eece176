"""Reports of communities without a model: what they hold, and how long they are."""

import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.graphs.communities import WeightedGraph, community_key
from corpusmesh_core.graphs.keys import entity_key
from corpusmesh_core.graphs.reports import (
    ReportEntity,
    ReportInput,
    ReportRelation,
    ReportSentence,
    community_weights,
    lite_report,
)
from corpusmesh_core.graphs.values import Community
from corpusmesh_core.token_estimate import estimate_tokens

JOHANN, LEONHARD, BASEL, OTHER = map(entity_key, ("Johann Bernoulli", "Leonhard Euler", "Basel", "Other"))
_NAMES = ("Johann Bernoulli", "Leonhard Euler", "Basel", "约翰·伯努利", "欧拉", "x", "St. Petersburg")
_WORDS = st.sampled_from([*_NAMES, "taught", "was born in", "he", "教过", "1707", "and", "a\n b", "**bold**"])


def _community(*keys: int) -> Community:
    members = tuple(sorted(keys))
    return Community(community_key(0, members), 0, members)


def _bernoulli(*sentences: str, said: str = "") -> ReportInput:
    return ReportInput(
        _community(JOHANN, LEONHARD, BASEL),
        (
            ReportEntity(BASEL, "Basel", "geo", rank=0.2),
            ReportEntity(JOHANN, "Johann Bernoulli", "person", rank=0.5),
            ReportEntity(LEONHARD, "Leonhard Euler", "person", rank=0.4),
        ),
        (ReportRelation(JOHANN, LEONHARD, said, 2.0), ReportRelation(BASEL, JOHANN, "", 1.0)),
        tuple(ReportSentence(text, 7, at) for at, text in enumerate(sentences)),
    )


@st.composite
def _given(draw: st.DrawFn) -> ReportInput:
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, unique=True))
    entities = tuple(
        ReportEntity(
            entity_key(name),
            name,
            draw(st.sampled_from(["", "person"])),
            draw(st.sampled_from(["", "A mathematician."])),
            draw(st.floats(0.01, 1)),
        )
        for name in names
    )
    keys = [entity.key for entity in entities]
    key = st.sampled_from(keys)
    pairs = draw(st.lists(st.tuples(key, key), max_size=6))
    text = st.sampled_from(["", "taught"])
    relations = tuple(ReportRelation(a, b, draw(text), draw(st.floats(0.1, 5))) for a, b in pairs if a != b)
    texts = draw(st.lists(st.lists(_WORDS, max_size=12).map(" ".join), max_size=12))
    sentences = tuple(
        ReportSentence(f"{text}.", draw(st.integers(1, 3)), draw(st.integers(0, 4)), (draw(key),)) for text in texts
    )
    return ReportInput(_community(*keys), entities, relations, sentences)


@given(_given(), st.integers(0, 120), st.randoms())
@settings(deadline=None)
def test_a_report_keeps_to_its_budget_and_holds_given_text_alone(
    told: ReportInput, max_tokens: int, dice: random.Random
) -> None:
    report = lite_report(told, max_tokens=max_tokens)
    assert estimate_tokens(report.text) <= max_tokens
    sentences = {" ".join(sentence.text.split()) for sentence in told.sentences}
    names = {entity.name for entity in told.entities}
    by_key = {entity.key: entity for entity in told.entities}
    sentences |= {entity.description for entity in told.entities}
    sentences |= {f"{by_key[item.source].name} – {by_key[item.target].name}: {item.text}" for item in told.relations}
    for line in report.text.splitlines():
        if line.startswith("- "):
            assert line[2:] in sentences
        elif line:
            for part in line.split(" · "):
                shown = re.fullmatch(r"\*\*(.*?)\*\*(?: \((.*)\))?", part)
                assert shown
                assert shown[1] in names
                assert shown[2] in (None, "person")
    places = {(sentence.version, sentence.position) for sentence in told.sentences}
    assert set(report.chunks) <= places
    assert len(set(report.chunks)) == len(report.chunks)
    shuffled = list(told.sentences)
    dice.shuffle(shuffled)
    again = ReportInput(told.community, told.entities[::-1], told.relations[::-1], tuple(shuffled))
    assert lite_report(again, max_tokens=max_tokens) == report


def test_a_report_begins_with_what_tells_most_and_sorts_by_entity() -> None:
    report = lite_report(
        _bernoulli(
            "Basel lies on the Rhine.",
            "Johann Bernoulli taught Leonhard Euler in Basel.",
            "He had a brother.",
            "Leonhard Euler was a pupil of Johann Bernoulli at home in Basel in his youth.",
        )
    )
    assert report.title == "Johann Bernoulli, Leonhard Euler, Basel"
    assert report.text.splitlines()[:2] == [
        "**Johann Bernoulli** (person)",
        "- Johann Bernoulli taught Leonhard Euler in Basel.",
    ]
    assert (7, 1) in report.chunks


def test_a_short_report_covers_different_entities_before_it_repeats_one() -> None:
    report = lite_report(
        _bernoulli(
            "Johann Bernoulli was a mathematician of renown.",
            "Johann Bernoulli wrote letters for many years.",
            "Johann Bernoulli received a medal once in Paris.",
            "Leonhard Euler went to Saint Petersburg in 1727.",
        ),
        max_tokens=60,
    )
    assert "Leonhard Euler went" in report.text


def test_sentences_that_refer_to_something_before_come_last() -> None:
    report = lite_report(
        _bernoulli("He was Johann Bernoulli of Basel.", "There was Johann Bernoulli from Basel once."),
        max_tokens=40,
    )
    assert "He was" not in report.text or "There was" not in report.text
    alone = lite_report(
        _bernoulli("His brother Johann Bernoulli lived here.", "A brother of Johann Bernoulli lived there."),
        max_tokens=36,
    )
    assert "A brother" in alone.text
    assert "His brother" not in alone.text


def test_the_same_sentence_is_told_once() -> None:
    report = lite_report(
        _bernoulli(
            "Johann Bernoulli taught Leonhard Euler in Basel.", "Johann  Bernoulli taught Leonhard Euler in Basel."
        )
    )
    assert report.text.count("taught") == 1
    nearly = lite_report(
        _bernoulli(
            "Johann Bernoulli taught Leonhard Euler in Basel.", "Johann Bernoulli taught Leonhard Euler at Basel."
        )
    )
    assert nearly.text.count("taught") == 1


def test_names_are_found_in_sentences_of_scripts_without_spaces() -> None:
    keys = entity_key("约翰·伯努利"), entity_key("欧拉")
    told = ReportInput(
        _community(*keys),
        (ReportEntity(keys[0], "约翰·伯努利", "person", rank=2.0), ReportEntity(keys[1], "欧拉", "person")),
        (),
        (ReportSentence("巴塞尔是一座城市。", 1, 0), ReportSentence("莱昂哈德·欧拉曾随人学习数学。", 1, 1)),
    )
    assert lite_report(told).text.startswith("**欧拉** (person)\n- 莱昂哈德·欧拉曾随人学习数学。")


def test_what_models_and_people_say_is_told_where_no_sentence_is_known() -> None:
    told = ReportInput(
        _community(JOHANN, LEONHARD),
        (
            ReportEntity(JOHANN, "Johann Bernoulli", "person", "A mathematician of Basel.", rank=2.0),
            ReportEntity(LEONHARD, "Leonhard Euler", "person"),
        ),
        (ReportRelation(JOHANN, LEONHARD, "was the teacher of"),),
    )
    report = lite_report(told)
    assert report.text.splitlines() == [
        "**Johann Bernoulli** (person)",
        "- A mathematician of Basel.",
        "- Johann Bernoulli – Leonhard Euler: was the teacher of",
        "",
        "**Leonhard Euler** (person)",
    ]
    assert report.chunks == ()


def test_a_model_is_told_entities_relations_and_sentences() -> None:
    told = _bernoulli("Johann Bernoulli taught Leonhard Euler in Basel.", said="taught")
    assert told.lines == (
        "Johann Bernoulli (person)",
        "Leonhard Euler (person)",
        "Basel (geo)",
        "Johann Bernoulli – Leonhard Euler: taught",
        "Johann Bernoulli taught Leonhard Euler in Basel.",
    )


def test_communities_weigh_what_holds_them_together_against_the_strongest_of_their_level() -> None:
    graph = WeightedGraph(
        np.array([1, 2, 3, 4, 5], dtype=np.uint64),
        np.array([0, 0, 3, 2], dtype=np.int32),
        np.array([1, 2, 4, 3], dtype=np.int32),
        np.array([1.0, 1.0, 1.0, 9.0], dtype=np.float32),
    )
    large, small = _community(1, 2, 3), _community(4, 5)
    finer = Community(community_key(1, (1, 2)), 1, (1, 2), large.key)
    weights = community_weights([large, small, finer], graph)
    # Degrees 2, 1, 2, 2, 1: (2 + 1) + (2 + 2) against 2 + 1; what leads outwards does not count.
    assert weights == pytest.approx({large.key: 1.0, small.key: 3 / 7, finer.key: 1.0})
    assert community_weights([], graph) == {}
