"""Reports, points and follow-up questions as they are chosen and read, without any search."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.graph_search.community_local import RELATIONS_OF_ONE, relations_around, token_shares
from corpusmesh_core.graph_search.community_points import MAX_POINTS, Point, by_report, key_points, read_points
from corpusmesh_core.graph_search.community_reports import (
    LIKELY,
    ReportHit,
    finest,
    inside,
    likely,
    members_of,
    reports_of_members,
    roots_of,
    texts_within,
    united,
    weight_of,
)
from corpusmesh_core.graph_search.drift import (
    Primer,
    ends_beyond,
    key_entities,
    new_questions,
    primer_reader,
    questions_by_rule,
)
from corpusmesh_core.graph_search.levels import Found
from corpusmesh_core.graph_search.listed_numbers import number_of, read_listed
from corpusmesh_core.graph_search.reading import relation_between
from corpusmesh_core.graphs.keys import entity_key, key_text, pair_of
from corpusmesh_core.graphs.records import MAX_LINKED_MEMBERS, report_record
from corpusmesh_core.graphs.segments import Segment, SegmentDocument, pack_segment
from corpusmesh_core.graphs.values import (
    Community,
    CommunityReport,
    EntityFragment,
    Mention,
    RelationFragment,
    Subgraph,
)
from corpusmesh_core.graphs.view import GraphView, compile_view
from corpusmesh_core.token_estimate import estimate_tokens
from corpusmesh_core.visibility import Visibility


def _hit(
    name: str,
    members: Sequence[int],
    *,
    level: int = 0,
    similarity: float = 0.5,
    weight: float = 0.5,
    text: str = "Something is said.",
    base: str = "kb",
) -> ReportHit:
    community = Community(name, level, tuple(sorted(members)))
    report = CommunityReport(community, f"Title {name}", text, weight, "lite", (1,), ((1, 0),))
    return ReportHit(report_record(base, 80, report), similarity)


def _names(hits: Sequence[ReportHit]) -> list[str]:
    return [hit.record.title.removeprefix("Title ") for hit in hits]


def _graph(pairs: Sequence[tuple[str, str]], weights: Sequence[float] = ()) -> GraphView:
    names = sorted({name for pair in pairs for name in pair})
    entities = [EntityFragment(entity_key(name), name, "", mentions=(Mention(0),)) for name in names]
    relations = [
        RelationFragment(entity_key(a), entity_key(b), mentions=(Mention(0),), weight=weights[i] if weights else 1.0)
        for i, (a, b) in enumerate(pairs)
    ]
    subgraph = Subgraph(
        tuple(sorted(entities, key=lambda item: item.key)),
        tuple(sorted(relations, key=lambda item: pair_of(item.source, item.target))),
    )
    return compile_view(
        [Segment.open(pack_segment([SegmentDocument(1, 2, subgraph)]))], Visibility.of("s", (1, 2), 3).ordinals
    )


def _place(view: GraphView, name: str) -> int:
    return int(view.find([entity_key(name)])[0])


_TREE = (
    _hit("top", range(1, 9), similarity=0.4),
    _hit("left", range(1, 5), level=1, similarity=0.6),
    _hit("right", range(5, 9), level=1, similarity=0.0),
    _hit("leaf", (1, 2), level=2, similarity=0.5),
    _hit("other", (20, 21), similarity=0.0),
)


@pytest.mark.parametrize(
    ("weight", "expected"),
    [("0.25", 0.25), ("7", 1.0), ("-1", 0.0), ("nan", 0.0), ("inf", 0.0), ("much", 0.0)],
)
def test_a_weight_is_a_share_whatever_a_record_says(weight: str, expected: float) -> None:
    record = _hit("a", (1, 2)).record
    record.attributes["weight"] = weight  # type: ignore[index]
    assert weight_of(record) == expected


def test_relevance_counts_before_weight() -> None:
    heavy, like = _hit("heavy", (1, 2), similarity=0.1, weight=1.0), _hit("like", (3, 4), similarity=0.4, weight=0.0)
    assert _names(united([[heavy], [like]])) == ["like", "heavy"]
    alike = [_hit("light", (1, 2), weight=0.1), _hit("weighty", (3, 4), weight=0.9)]
    assert _names(united([alike])) == ["weighty", "light"]


def test_what_several_look_ups_found_comes_once_with_its_best_similarity() -> None:
    found = united([[_hit("a", (1, 2), similarity=0.1)], [_hit("a", (1, 2), similarity=0.7)]])
    assert [hit.similarity for hit in found] == [0.7]


def test_the_coarsest_reports_that_can_be_seen_are_roots() -> None:
    assert set(_names(roots_of(_TREE))) == {"top", "other"}
    assert set(_names(roots_of(_TREE[1:]))) == {"left", "right", "other"}, "the top is hidden"
    assert set(_names(roots_of(_TREE[3:]))) == {"leaf", "other"}


def test_reports_of_other_knowledge_bases_are_not_above_each_other() -> None:
    one, other = _hit("a", (1, 2, 3)), _hit("b", (1, 2), level=1, base="other")
    assert _names(roots_of([one, other])) == ["a", "b"]
    assert reports_of_members([one, other], [("other", key_text(1))]) == ((other, 1),)


def test_communities_that_name_a_part_of_their_members_hold_what_shares_its_lowest() -> None:
    members = range(1, MAX_LINKED_MEMBERS + 50)
    large = _hit("large", members)
    below = _hit("below", (MAX_LINKED_MEMBERS - 1, MAX_LINKED_MEMBERS + 10), level=1)
    apart = _hit("apart", (5_000, 5_001), level=1)
    assert roots_of([large, below, apart]) == (large, apart)
    assert inside([below, apart], [large]) == (below,)


def test_a_descent_takes_what_is_near_to_the_best_and_all_below() -> None:
    hits = united([_TREE])
    assert _names(likely(hits)) == [hit for hit in _names(hits) if hit in {"left", "leaf", "top"}]
    assert set(_names(inside(hits, [_TREE[0]]))) == {"top", "left", "right", "leaf"}
    assert set(_names(inside(hits, [_TREE[1]]))) == {"left", "leaf"}
    assert likely(()) == ()


def test_finer_reports_stand_for_coarser_ones_where_they_are_as_good() -> None:
    assert set(_names(finest(_TREE))) == {"leaf", "right", "other"}
    assert set(_names(finest(_TREE, share=0.8))) == {"leaf", "right", "other"}
    strict = _names(finest(_TREE, share=1.0))
    assert "left" in strict, "the leaf is less like the question"
    assert "top" not in strict, "the left half is more like it"


def test_an_entity_has_the_finest_report_that_names_it() -> None:
    chosen = reports_of_members(_TREE, [("kb", key_text(key)) for key in (1, 2, 3, 20, 99)])
    assert [(_names([hit])[0], count) for hit, count in chosen] == [("leaf", 2), ("left", 1), ("other", 1)]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1), st.integers(0, 3_000)), max_size=40),
    st.integers(0, 4_000),
    st.integers(1, 800),
)
@settings(deadline=None, max_examples=50)
def test_texts_of_reports_hold_every_bound(drawn: list[tuple[int, float, int]], most: int, each: int) -> None:
    hits = [
        _hit(
            f"{number:02}", (number, number + 1), level=level, similarity=similarity, text="报告 word " * (length // 8)
        )
        for number, (level, similarity, length) in enumerate(drawn)
    ]
    read = texts_within(hits, max_tokens=most, max_each=each, most=7)
    assert len(read) <= 7
    assert sum(estimate_tokens(text) for _, text in read) <= most
    assert all(estimate_tokens(text) <= each for _, text in read)
    assert [hit for hit, _ in read] == hits[: len(read)]
    chosen = likely(united([hits]), most=5)
    assert len(chosen) <= 5
    assert all(hit.score >= LIKELY * chosen[0].score for hit in chosen)
    assert sum(map(len, members_of(hits, most=10).values())) <= max(10, len(hits))


_THREES: list[object] = [3, "3", "[3] so", "Report 3", " (3)", [3, 6], {"id": 3}, 3.0]
_NO_NUMBERS: list[object] = ["no 3", None, [], {}, True, 2.5, {"name": 3}]


@pytest.mark.parametrize(
    ("item", "expected"), [*((item, 3) for item in _THREES), *((item, None) for item in _NO_NUMBERS)]
)
def test_numbers_are_read_whatever_form_they_have(item: object, expected: int | None) -> None:
    assert number_of(item) == expected


def test_chosen_reports_are_those_that_were_shown() -> None:
    assert read_listed({"reports": [2, "[1] x", 9, 2]}, ("reports",), count=3, most=5) == (1, 0)
    assert read_listed([3, 2, 1], ("reports",), count=3, most=2) == (2, 1)
    useless: list[object] = [{"reports": []}, {"reports": "1"}, {"other": [1]}, [0], "1", None]
    for bad in useless:
        assert read_listed(bad, ("reports",), count=3, most=5) is None


def test_points_are_read_whatever_form_they_have() -> None:
    answer = {
        "points": [
            {"text": " Ada\nwrote it. [Data: Reports (1)]", "score": 90, "report": 1},
            {"description": "Babbage built it.", "score": "45%", "reports": [2]},
            {"text": "It is so.", "score": 0.5, "report": "report 2"},
            {"text": "Ada wrote it.", "score": 10, "report": 1},
            {"text": "It does not help.", "score": 0, "report": 1},
            {"text": "Nobody said that.", "score": 99, "report": 8},
            {"text": "", "score": 99, "report": 1},
            {"text": "No report.", "score": 99},
            "a text",
        ]
    }
    assert read_points(answer, 2) == (
        Point(0, "Ada wrote it.", 0.9),
        Point(1, "Babbage built it.", 0.45),
        Point(1, "It is so.", 0.5),
    )


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -5, True, None, "much", 10**400, [1]])
def test_a_score_is_a_share_whatever_a_model_writes(score: Any) -> None:
    points = read_points({"points": [{"text": "x", "score": score, "report": 1}]}, 1)
    assert points is not None
    assert all(0.0 < point.score <= 1.0 for point in points)


def test_nothing_that_helps_is_an_answer_and_nonsense_is_none() -> None:
    assert read_points({"points": []}, 3) == ()
    assert read_points({"points": [{"text": "x", "score": 0, "report": 1}]}, 3) == ()
    useless: list[object] = [
        {"points": ["x"]},
        {"points": "x"},
        {"answer": []},
        {"points": [{"text": "x", "score": 9}]},
        None,
    ]
    for bad in useless:
        assert read_points(bad, 3) is None


def test_key_sentences_are_those_that_hold_the_words_of_the_question() -> None:
    names = "## Findings\nThe engine:\n**Ada** (person) \u00b7 **engine**\n- Ada Lovelace\n"
    text = f"{names}- The engine was built in Westerby. It was sold later."
    points = key_points("Where was the engine built?", [(text, 0.8), ("Nothing fits here. Not here either.", 0.4)])
    assert [point.text for point in points] == ["The engine was built in Westerby.", "Nothing fits here."]
    assert points[0].report == 0
    assert points[0].score > points[1].score
    chinese = key_points("桥梁是哪一年修建的？", [("城市很大。桥梁修建于一九一〇年。人口众多。", 0.5)])
    assert chinese[0].text == "桥梁修建于一九一〇年。"
    assert key_points("Where?", [("", 0.5)]) == ()


@given(
    st.lists(
        st.builds(Point, st.integers(0, 20), st.text("ab 字", min_size=1, max_size=80), st.floats(0.01, 1)), max_size=60
    ),
    st.integers(0, 300),
    st.integers(1, 6),
)
@settings(deadline=None)
def test_points_are_reduced_within_their_budget_and_the_best_come_first(
    points: list[Point], max_tokens: int, most: int
) -> None:
    told = by_report(points, max_tokens=max_tokens, most=most)
    assert len(told) <= most
    assert len({place for place, _, _ in told}) == len(told)
    assert sum(estimate_tokens(text) for _, text, _ in told) <= max_tokens
    scores = [score for _, _, score in told]
    assert scores == sorted(scores, reverse=True)
    for place, text, score in told:
        own = {point.text for point in points if point.report == place}
        assert score <= max(point.score for point in points if point.report == place)
        assert all(line in "\n".join(own) for line in text.split("\n"))


@given(st.text(max_size=400), st.lists(st.text(max_size=400), max_size=8))
@settings(deadline=None)
def test_any_report_has_bounded_points(question: str, texts: list[str]) -> None:
    points = key_points(question, [(text, 0.5) for text in texts])
    assert len(points) <= MAX_POINTS
    assert all(point.text and 0.0 <= point.score <= 0.5 and point.text.count("\n") == 0 for point in points)


def test_relations_between_the_entities_come_first_then_those_that_they_share() -> None:
    view = _graph(
        [("A", "B"), ("A", "X"), ("B", "X"), ("A", "Y"), ("Y", "Z"), ("Y", "W"), ("A", "V")],
        weights=(0.1, 1.0, 1.0, 1.0, 1.0, 1.0, 9.0),
    )
    entities = [Found(0, _place(view, name), 1.0) for name in "AB"]
    found = relations_around([view], entities)
    ends = [tuple(sorted(view.name(end) for end in view.relation_ends[item.place].tolist())) for item in found]
    assert ends[0] == ("A", "B")
    assert set(ends[1:3]) == {("A", "X"), ("B", "X")}
    assert ends[3:] == [("A", "Y"), ("A", "V")]
    assert {item.hop for item in found} == {1}


def test_a_hub_brings_no_more_than_its_share_of_relations() -> None:
    view = _graph([("Hub", f"n{number}") for number in range(80)])
    assert len(relations_around([view], [Found(0, _place(view, "Hub"), 1.0)])) == RELATIONS_OF_ONE


@given(st.integers(0, 200_000))
def test_shares_of_tokens_are_all_of_them(total: int) -> None:
    texts, reports, rows = token_shares(total)
    assert texts + reports + rows == total
    assert texts <= 0.5 * total
    assert reports <= 0.15 * total
    assert rows >= 0


def test_follow_up_questions_are_read_whatever_form_they_have() -> None:
    read = primer_reader(["Who was Euler?"], 3)
    answer = {"answer": " He\nwas. ", "follow_ups": ["who was Euler", "What did Daniel do?", 3, "What did Daniel do"]}
    assert read(answer) == Primer("He was.", ("What did Daniel do?",))
    assert read({"questions": ["a?", "b?", "c?", "d?"]}) == Primer("", ("a?", "b?", "c?"))
    assert read({"follow_ups": []}) == Primer()
    assert read({"answer": "So."}) == Primer("So.")
    useless: list[object] = [
        {"follow_ups": [3, "x" * 400, "Who was Euler?"]},
        {"other": []},
        ["a?"],
        {"follow_ups": "a?"},
        None,
    ]
    for bad in useless:
        assert read(bad) is None


def test_questions_are_asked_once() -> None:
    asked = ["Where is Basel？"]
    assert new_questions(["where is basel", " Who  then? ", "who then", "", "a\x00b"], asked, 5) == ("Who then?",)
    assert questions_by_rule(["Basel", "Bern"], ("academy", "letters"), ["Bern academy letters"], 5) == (
        "Basel academy letters",
    )
    assert questions_by_rule(["n" * 500], (), (), 5) == ("n" * 300,)


def test_entities_that_communities_are_about_come_in_turn_and_hidden_ones_do_not() -> None:
    view = _graph([("A", "B"), ("A", "C"), ("D", "E")], weights=(1.0, 2.0, 1.0))
    groups = [[key_text(entity_key(name)) for name in names] for names in (("A", "B", "C", "Hidden"), ("D", "E"))]
    chosen = [view.name(place) for place in key_entities(view, groups, [_place(view, "E")], of_one=2)]
    assert chosen == ["A", "D", "C"]
    assert key_entities(view, [[]], (), of_one=2) == ()
    star = _graph([("Hub", name) for name in "abc"] + [("Named", "d")], weights=(5.0, 5.0, 5.0, 0.1))
    group = [[key_text(entity_key(name)) for name in ("Hub", "a", "d")]]
    near = [star.name(place) for place in key_entities(star, group, [_place(star, "Named")], of_one=2)]
    assert near == ["d", "Hub"], "what is related to the question counts before what is strong"


def test_relations_lead_on_to_entities_that_were_not_looked_at() -> None:
    view = _graph([("A", "B"), ("B", "C")])
    relations = [Found(0, relation_between(view, _place(view, "B"), _place(view, name)), 1.0) for name in "CA"]
    beyond = ends_beyond([view], relations, {(0, _place(view, "B"))})
    assert {view.name(place) for _, place in beyond} == {"C", "A"}
    strong = _graph([("A", "B"), ("B", "C")], weights=(1.0, 3.0))
    beyond = ends_beyond([strong], [Found(0, 0, 1.0), Found(0, 1, 1.0)], {(0, _place(strong, "B"))})
    assert [strong.name(place) for _, place in beyond] == ["C", "A"]
