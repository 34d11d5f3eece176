"""What modes of graph search make of words, lists, tables and views, without any search."""

import csv
import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.graph_search.adjacency import expand, in_chosen_order, passages_in_order, read_chosen
from corpusmesh_core.graph_search.keywords import (
    GraphKeywords,
    keywords_by_rule,
    read_keywords_of_levels,
    read_knowledge_terms,
    types_by_rule,
    with_fallback,
)
from corpusmesh_core.graph_search.knowledge import (
    WayScore,
    entities_of_types,
    ranked_entities,
    ranked_relations,
    scores_by_ways,
    types_of,
)
from corpusmesh_core.graph_search.levels import Found, distinct, ends_of, relations_beside
from corpusmesh_core.graph_search.merging import in_turn, within
from corpusmesh_core.graph_search.picking import pick_by_cosine, pick_by_weight
from corpusmesh_core.graph_search.reading import (
    degree_of,
    entity_record,
    named_entities,
    passages_of_entity,
    passages_of_relation,
    relation_between,
    relation_record,
    strongest_relations,
)
from corpusmesh_core.graph_search.records import chunk_links, keys_of, statement_of
from corpusmesh_core.graph_search.tables import Row, cut_table, table_text
from corpusmesh_core.graphs.keys import entity_key, pair_of
from corpusmesh_core.graphs.segments import Segment, SegmentDocument, pack_segment
from corpusmesh_core.graphs.values import EntityFragment, Mention, RelationFragment, Subgraph
from corpusmesh_core.graphs.view import GraphView, compile_view
from corpusmesh_core.token_estimate import estimate_tokens
from corpusmesh_core.visibility import Visibility
from tests.support.graph_shelf import GraphShelf


def _graph(
    pairs: Sequence[tuple[str, str]], *, weights: Sequence[float] = (), types: dict[str, str] | None = None
) -> GraphView:
    """Make a graph of one document; relation i stands in chunk i."""
    names = sorted({name for pair in pairs for name in pair})
    mentions = {name: tuple(Mention(i) for i, pair in enumerate(pairs) if name in pair) for name in names}
    entities = [
        EntityFragment(entity_key(name), name, (types or {}).get(name, ""), mentions=mentions[name]) for name in names
    ]
    relations = [
        RelationFragment(entity_key(a), entity_key(b), mentions=(Mention(i),), weight=weights[i] if weights else 1.0)
        for i, (a, b) in enumerate(pairs)
    ]
    subgraph = Subgraph(
        tuple(sorted(entities, key=lambda item: item.key)),
        tuple(sorted(relations, key=lambda item: pair_of(item.source, item.target))),
    )
    segment = Segment.open(pack_segment([SegmentDocument(1, 2, subgraph)]))
    return compile_view([segment], Visibility.of("s", (1, 2), 3).ordinals)


def _place(view: GraphView, name: str) -> int:
    return int(view.find([entity_key(name)])[0])


def _between(view: GraphView, a: str, b: str) -> int:
    return relation_between(view, _place(view, a), _place(view, b))


_CHAIN = [("A", "B"), ("B", "C"), ("C", "D"), ("D", "E")]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            {"high_level_keywords": [" Trade ", "trade", 3], "low_level_keywords": "Ada, Babbage；引擎"},
            GraphKeywords(("Trade",), ("Ada", "Babbage", "引擎")),
        ),
        ({"high": ["x" * 200], "low": ["<b>Ada</b>", "http://a.b", "Ada"]}, GraphKeywords((), ("Ada",))),
        ({"high_level_keywords": [], "low_level_keywords": []}, GraphKeywords()),
        ({"low_level_keywords": ["Ada"]}, GraphKeywords((), ("Ada",))),
        ({"keywords": ["Ada"]}, None),
        ({"high_level_keywords": 3}, None),
        (["Ada"], None),
        (None, None),
    ],
)
def test_keywords_of_two_levels_are_read_whatever_form_they_have(answer: object, expected: object) -> None:
    assert read_keywords_of_levels(answer) == expected


def test_types_that_the_graph_does_not_have_are_left_out() -> None:
    answer = {"answer_type_keywords": ["Person", "alien", "geo"], "entities_from_query": list("abcdefgh")}
    words = read_knowledge_terms(answer, ("geo", "person"))
    assert words == GraphKeywords(low=tuple("abcde"), types=("person", "geo"))
    assert read_knowledge_terms({"entities": []}, ()) == GraphKeywords()
    assert read_knowledge_terms({"other": []}, ()) is None


def test_without_a_model_names_are_particular_and_the_rest_is_general() -> None:
    words = keywords_by_rule(
        "Which bridges did Isambard Brunel build over the Thames?", ("Isambard Brunel", "Brunel", "Thames")
    )
    assert words.low == ("Isambard Brunel", "Thames")
    assert "bridges" in words.high
    assert not any("Brunel" in word for word in words.high)
    chinese = keywords_by_rule("李冰在都江堰修建了哪些水利工程？", ("李冰", "都江堰"))
    assert chinese.low == ("李冰", "都江堰")
    assert any("水利" in word for word in chinese.high)


def test_types_follow_from_question_words_and_names_of_types() -> None:
    types = ("person", "geo", "organization", "river system")
    assert types_by_rule("Who built it?", types) == ("person",)
    assert types_by_rule("Which river system feeds it, and where?", types) == ("geo", "river system")
    assert types_by_rule("谁在哪家公司工作？", types) == ("person", "organization")
    assert types_by_rule("How heavy is it?", types) == ()


def test_only_a_short_question_is_looked_up_itself() -> None:
    assert with_fallback(GraphKeywords(), "  what now ").low == ("what now",)
    assert with_fallback(GraphKeywords(), "w" * 50).is_empty
    assert with_fallback(GraphKeywords(), " ").is_empty
    assert with_fallback(GraphKeywords(("x",)), "what now").low == ()


def test_lists_are_merged_in_turn_and_each_thing_comes_once() -> None:
    assert in_turn([[1, 2, 3], [2, 4]], lambda item: item) == (1, 2, 4, 3)
    assert in_turn([[], ["a"]], lambda item: item) == ("a",)
    assert within(["a", "b", "c"], [5, 9, 3], 8) == ("a", "c")


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=4))
@settings(deadline=None)
def test_in_turn_loses_and_doubles_nothing(lists: list[list[int]]) -> None:
    merged = in_turn(lists, lambda item: item)
    assert sorted(merged) == sorted({item for part in lists for item in part})
    firsts = [part[0] for part in lists if part]
    assert set(merged[: len(set(firsts))]) == set(firsts)


def test_votes_decide_within_the_share_of_each_item() -> None:
    groups = [["a", "b", "x"], ["c", "x"], ["d", "x"]]
    assert pick_by_weight(groups, 10)[0] == "x"
    assert set(pick_by_weight(groups, 10)) == {"a", "b", "c", "d", "x"}
    assert pick_by_weight([["a", "b", "c", "d", "e", "f"], ["z"]], 6, per_group=5)[5] == "z"
    assert pick_by_weight([], 3) == ()


def test_cosines_decide_and_what_has_none_comes_last() -> None:
    assert pick_by_cosine(["a", "b", "c", "b"], {"a": 0.1, "b": 0.9}, 3) == ("b", "a", "c")
    assert pick_by_cosine(["a", "b"], {"a": 0.1, "b": 0.9}, 1) == ("b",)


def test_a_text_of_a_document_adds_no_line_and_no_column_to_a_table() -> None:
    row = Row(('Ada "the first", Countess', "person"), 0.5, 'wrote\n---- Relations ----\nx,y,"z"')
    text = table_text([row.line], [], max_tokens=1000)
    assert text.split("\n")[0:2] == ["---- Entities ----", "Entity,Type,Score,Description"]
    parsed = list(csv.reader(text.split("\n")[1:]))
    assert [len(line) for line in parsed] == [4, 4]
    assert parsed[1][0] == 'Ada "the first", Countess'


@given(st.integers(0, 400), st.integers(0, 30), st.integers(0, 30))
@settings(deadline=None)
def test_tables_hold_their_budget_in_whole_lines(most: int, entities: int, relations: int) -> None:
    first = [Row((f"name {i}", "person"), 1.0, "says something").line for i in range(entities)]
    second = [Row((f"name {i}", f"name {i + 1}"), 1.0, "leads to the other").line for i in range(relations)]
    text = table_text(first, second, [("Title", "word " * 200)], max_tokens=most)
    assert estimate_tokens(text) <= most + 4
    cut = cut_table(text, most // 2)
    assert estimate_tokens(cut) <= max(most // 2, 0) + 4
    assert set(cut.split("\n")) <= set(text.split("\n")) | {""}


def test_keys_are_read_out_of_ids() -> None:
    assert keys_of("7-entity-00000000000000ff") == (255,)
    assert keys_of("7-relation-00000000000000ff0000000000000100") == (255, 256)
    assert keys_of("7-description-00000000000000ff") == (255,)
    for name in ("7-entity-00000000000000ff0000000000000100", "7-relation-00000000000000ff", "7-0", "", "7-entity-xyz"):
        assert keys_of(name) == ()


def test_records_say_what_they_stand_for() -> None:
    shelf = GraphShelf()
    report = shelf.report("Title", "Text.", [entity_key("Euler")], (2, 3))
    assert chunk_links(report) == ("2-0", "3-0")
    relation = next(record for record in shelf.records if "fluid" in record.title and "\u2013" in record.title)
    assert chunk_links(relation) == ("3-0",)
    assert "lasting contribution" in statement_of(relation)


def test_a_name_inside_of_a_longer_one_is_not_named() -> None:
    view = _graph([("New York", "York"), ("art", "cartography"), ("约翰伯努利", "伯努利")])
    assert list(named_entities(view, ("New York", "York")).values()) == ["New York"]
    assert set(named_entities(view, ("cartography", "art", "nothing")).values()) == {"cartography", "art"}
    assert list(named_entities(view, ("约翰伯努利", "伯努利")).values()) == ["约翰伯努利"]


def test_small_questions_to_a_view_are_answered() -> None:
    view = _graph([("A", "B"), ("A", "C"), ("A", "D"), ("D", "E")], weights=(0.1, 3.0, 2.0, 1.0))
    a = _place(view, "A")
    assert degree_of(view, a) == 3
    assert strongest_relations(view, a, 2) == [_between(view, "A", "C"), _between(view, "A", "D")]
    assert _between(view, "E", "A") == -1
    assert relation_between(view, a, a) == -1
    assert relation_between(view, a, -1) == -1
    assert set(passages_of_entity(view, a, 5)) == {"1-0", "1-1", "1-2"}
    assert len(passages_of_entity(view, a, 1)) == 1
    assert passages_of_relation(view, _between(view, "D", "E"), 5) == ("1-3",)
    assert (entity_record(view, a),) == view.entity_records(a)
    assert (relation_record(view, 2),) == view.relation_records(2)


def test_of_many_documents_that_name_something_the_nearest_to_the_question_speaks() -> None:
    view = GraphShelf().view_of(Visibility.of("s", range(60), 60))
    johann = _place(view, "Johann Bernoulli")
    assert entity_record(view, johann) == view.entity_records(johann)[0]
    assert entity_record(view, johann, (9, 2, 1)).startswith("52-entity-")
    assert entity_record(view, johann, (4,)) == view.entity_records(johann)[0]
    daniel = _between(view, "Daniel Bernoulli", "Johann Bernoulli")
    assert relation_record(view, daniel, (1, 2)) == view.relation_records(daniel)[0]


def test_relations_beside_entities_come_by_degree_then_strength() -> None:
    view = _graph([("A", "B"), ("A", "C"), ("B", "D"), ("B", "E")], weights=(1.0, 5.0, 2.0, 1.0))
    found = relations_beside([view], [Found(0, _place(view, "A"), 0.7)], 10)
    assert [item.place for item in found] == [_between(view, "A", "B"), _between(view, "A", "C")]
    assert {item.score for item in found} == {0.7}
    assert len(relations_beside([view], [Found(0, _place(view, "B"), 1.0)], 2)) == 2
    ends = ends_of([view], [Found(0, _between(view, "B", "D"), 0.4), Found(0, _between(view, "A", "B"), 0.3)])
    assert {view.name(item.place) for item in ends[:2]} == {"B", "D"}
    assert view.name(ends[2].place) == "A"
    assert distinct([Found(0, 1, 0.1), Found(0, 2, 0.2), Found(0, 1, 0.3)]) == (Found(0, 1, 0.1), Found(0, 2, 0.2))


def test_ways_decay_with_each_hop_and_add_up_over_entities() -> None:
    view = _graph(_CHAIN)
    scores = scores_by_ways(view, [(_place(view, "A"), 1.0)], 2)
    assert scores == {
        _between(view, "A", "B"): WayScore(pytest.approx(1.0 / 2.0), 1),  # type: ignore[arg-type]
        _between(view, "B", "C"): WayScore(pytest.approx(1.0 / 3.0), 2),  # type: ignore[arg-type]
    }
    both = scores_by_ways(view, [(_place(view, "A"), 1.0), (_place(view, "D"), 0.5)], 2)
    assert both[_between(view, "B", "C")].similarity == pytest.approx(1.0 / 3.0 + 0.5 / 3.0)
    assert both[_between(view, "C", "D")].hop == 1
    assert _between(view, "D", "E") in both


def test_entities_are_ranked_by_rank_times_similarity_doubled_for_the_type_of_the_answer() -> None:
    star = [("Hub", name) for name in "ABCD"]
    view = _graph(star, types={"A": "person", "B": "geo"})
    entities = [Found(0, _place(view, name), 0.5) for name in ("A", "B", "Hub")]
    names = [view.name(item.place) for item in ranked_entities([view], entities, ("person",))]
    assert names == ["Hub", "A", "B"]
    scores = {view.name(item.place): item.score for item in ranked_entities([view], entities, ("person",))}
    assert scores["A"] == pytest.approx(2.0 * scores["B"])
    assert [view.name(item.place) for item in entities_of_types(view, 0, ("geo",), 5)] == ["B"]
    assert set(types_of(view, 5)) == {"person", "geo"}


def test_relations_are_ranked_by_types_and_ways() -> None:
    view = _graph(_CHAIN, types={"A": "person", "E": "person"})
    first, last = _between(view, "A", "B"), _between(view, "D", "E")
    middle = _between(view, "B", "C")
    plain = ranked_relations([view], {(0, first): 0.4, (0, last): 0.4}, [{}], ())
    assert plain[0].score == pytest.approx(plain[1].score)
    raised = ranked_relations([view], {(0, first): 0.4, (0, last): 0.4}, [{last: WayScore(0.5, 2)}], ("person",))
    assert [item.place for item in raised] == [last, first]
    assert raised[0].score / raised[1].score == pytest.approx(2.5 / 2.0)
    by_way = ranked_relations([view], {}, [{middle: WayScore(0.5, 2)}], ())
    assert [(item.place, item.hop) for item in by_way] == [(middle, 2)]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=25),
    st.integers(1, 4),
    st.sets(st.integers(0, 9), max_size=2),
    st.integers(0, 24),
)
@settings(deadline=None, max_examples=60)
def test_expansion_is_the_product_of_adjacency_matrices(
    drawn: list[tuple[int, int]], hops: int, named: set[int], seed: int
) -> None:
    pairs = sorted({(min(a, b), max(a, b)) for a, b in drawn if a != b})
    if not pairs:
        return
    view = _graph([(f"n{a}", f"n{b}") for a, b in pairs])
    entity_count, relation_count = len(view.entity_keys), len(view.relation_ends)
    incidence = np.zeros((entity_count, relation_count), dtype=np.int64)
    for relation, ends in enumerate(view.relation_ends.tolist()):
        incidence[ends, relation] = 1
    entities = [place for name in named if (place := _place(view, f"n{name}")) >= 0]
    relation = seed % relation_count
    entity_hops = np.linalg.matrix_power(np.minimum(incidence @ incidence.T, 1), hops - 1)
    expected = set(np.flatnonzero((entity_hops @ incidence)[entities].sum(axis=0)).tolist())
    relation_hops = np.linalg.matrix_power(np.minimum(incidence.T @ incidence, 1), hops)
    expected |= set(np.flatnonzero(relation_hops[relation]).tolist())
    found = expand(view, entities, [relation], hops)
    assert set(found.relations.tolist()) == expected
    assert found.relations[0] == relation
    assert found.hops.tolist() == sorted(found.hops.tolist())
    assert found.reached_count == len(expected)


def test_too_many_relations_are_evicted_the_furthest_and_weakest_first() -> None:
    view = _graph([("A", "B"), ("A", "C"), ("B", "D"), ("B", "E")], weights=(1.0, 2.0, 5.0, 4.0))
    found = expand(view, [_place(view, "A")], [], 2, most=3)
    kept = [_between(view, "A", "C"), _between(view, "A", "B"), _between(view, "B", "D")]
    assert found.relations.tolist() == kept
    assert found.reached_count == 4
    assert len(expand(view, [], [], 3).relations) == 0


def test_chosen_relations_are_read_whatever_form_their_numbers_have() -> None:
    answer = {"reasoning": "so", "relations": [3, "2", "[1] A – B", {"number": 4}, 9, "none", 3, True]}
    assert read_chosen(answer, 5) == (2, 1, 0, 3)
    assert read_chosen({"useful_relationships": ["[2] x"]}, 5) == (1,)
    useless: list[object] = [{"relations": []}, {"relations": "2"}, {}, [2], None, {"relations": [7]}]
    for bad in useless:
        assert read_chosen(bad, 5) is None
    assert in_chosen_order(4, (2, 0)) == [2, 0, 1, 3]
    assert passages_in_order([("a", "b"), ("b", "c")], 2) == ("a", "b")


def test_ends_of_every_pair_are_found_in_either_order() -> None:
    view = _graph(_CHAIN)
    for a, b in itertools.permutations("ABCDE", 2):
        assert (_between(view, a, b) >= 0) == (tuple(sorted((a, b))) in _CHAIN)
