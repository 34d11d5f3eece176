from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.ports.index import Candidate
from corpusmesh_core.ranking import LegScore, RankedCandidate, ScoreExplanation
from corpusmesh_core.ranking.hops import (
    MAX_FOLLOW_UPS,
    MAX_NAMES,
    MAX_SOURCES,
    follow_names,
    names_to_search,
    naming_texts,
    read_follow_ups,
)
from corpusmesh_core.ranking.names import MAX_NAME_TERMS, find_names, title_forms
from corpusmesh_core.ranking.scoring import BELOW_THRESHOLD
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.text import analyze, analyze_query

_SONG = ("song", "Cry Over Me", "Cry Over Me is a song written by Diane Warren and sung by Meat Loaf in Germany.")
_AUTHOR = ("author", "Diane Warren", "Warren is an American songwriter.")
_SINGER = ("singer", "Meat Loaf", "Meat Loaf was a singer and actor.")


def _hit(entry: tuple[str, str, str], similarity: float, *, order: float | None = None) -> RankedCandidate:
    record_id, title, text = entry
    leg = LegScore(None, 0, similarity, is_filled_in=False)
    explanation = ScoreExplanation(leg, leg, 0.0, 0.8, False, similarity, similarity if order is None else order, "")
    record = Record(record_id, RecordKind.CHUNK, "kb", Ordinal(1), (Ordinal(1),), text, title=title)
    return RankedCandidate(Candidate(record, " ".join(analyze(f"{title} {text}").fine)), explanation)


def _follow(question: str, ranked: list[RankedCandidate], found: list[RankedCandidate]) -> list[str]:
    texts = naming_texts(question, ranked)
    return [
        item.candidate.record.record_id for item in follow_names(texts, [*ranked, *found], analyze_query(question), {})
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("the song was written by Diane Warren in 1998", "Diane Warren"),
        ("He studied at the University of Paris before the war", "University of Paris"),
        ("directed by Joseph A. Smith", "Joseph A. Smith"),
        ("born in West Chicago, Illinois, to farmers", "West Chicago, Illinois"),
        ("其代表作《无声狂啸》获奖", "无声狂啸"),
        ("als „Faust“ oder “Götz” bekannt", "Götz"),
    ],
)
def test_capitalised_and_quoted_spans_are_names(text: str, name: str) -> None:
    found = {entry.terms: text[entry.start : entry.end] for entry in find_names(text)}
    assert found[analyze(name).fine] == name


def test_function_words_figures_and_single_letters_name_nothing() -> None:
    assert find_names("In 1998 T was on. The 12 of It. A") == ()


def test_title_is_named_with_and_without_what_stands_in_parentheses() -> None:
    assert title_forms("Planet of the Apes (2001 film)") == (
        analyze("Planet of the Apes 2001 film").fine,
        analyze("Planet of the Apes").fine,
    )
    assert title_forms("…") == ()


@given(st.text(max_size=300))
def test_any_text_has_bounded_names_within_it(text: str) -> None:
    for name in find_names(text):
        assert 0 < len(name.terms) <= MAX_NAME_TERMS
        assert 0 <= name.start < name.end <= len(text)


def test_long_texts_give_a_bounded_number_of_names() -> None:
    assert len(find_names("Alpha Beta " * 100_000)) <= 400


def test_what_the_best_hit_names_comes_right_behind_it() -> None:
    question = "Which country is the composer of the song Cry Over Me from?"
    noise = [_hit((f"noise-{i}", f"Noise {i}", "country of a song"), 0.5 - i / 100) for i in range(6)]
    assert _follow(question, [_hit(_SONG, 0.7), *noise], [_hit(_AUTHOR, 0.3)])[:2] == ["song", "author"]


def test_what_a_hit_names_never_passes_it_and_says_what_led_there() -> None:
    ranked = [_hit(_SONG, 0.4), _hit(("other", "Other", "nothing"), 0.1)]
    texts = naming_texts("who wrote it", ranked)
    found = follow_names(texts, [*ranked, _hit(_AUTHOR, 0.39)], analyze_query("who wrote it"), {})
    assert [item.candidate.record.record_id for item in found] == ["song", "author", "other"]
    assert found[1].via_record_ids == ("song",)
    assert found[1].similarity <= found[0].similarity


def test_what_the_question_names_may_pass_the_first_hit() -> None:
    ranked = [_hit(("other", "Other", "nothing"), 0.5), _hit(_AUTHOR, 0.4)]
    assert _follow("When was Diane Warren born?", ranked, []) == ["author", "other"]


def test_sentence_that_bears_on_the_question_leads_further_than_another() -> None:
    page = ("page", "Page", "The composer of the song was Diane Warren. Lunch was had with Meat Loaf.")
    ranked = [_hit(page, 0.9), _hit(_SINGER, 0.31), _hit(_AUTHOR, 0.3)]
    assert _follow("who is the composer of the song", ranked, []) == ["page", "author", "singer"]


def test_name_of_many_records_says_little_about_each() -> None:
    page = ("page", "Page", "It was won at Super Bowl by them.")
    many = [_hit((f"s-{i}", "Super Bowl", "text"), 0.3 - i / 1000) for i in range(10)]
    middle = _hit(("middle", "Middle", "text"), 0.4)
    assert _follow("who won", [_hit(page, 0.9), middle, *many], [])[:2] == ["page", "middle"]
    assert _follow("who won", [_hit(page, 0.9), middle, many[0]], [])[:2] == ["page", "s-0"]


def test_longest_name_counts_and_parts_of_it_do_not() -> None:
    page = ("page", "Page", "He moved to New York City then.")
    city, state = ("city", "New York City", "x"), ("state", "York", "x")
    assert _follow("where", [_hit(page, 0.9), _hit(("m", "M", "x"), 0.35), _hit(state, 0.3)], [_hit(city, 0.2)]) == [
        "page",
        "city",
        "m",
        "state",
    ]


def test_title_of_a_name_and_words_of_the_question_is_led_to() -> None:
    page = ("page", "Atwater Church", "It stands in Ohio.")
    wanted = ("codes", "List of Ohio area codes", "x")
    other = ("rivers", "List of Ohio rivers", "x")
    question = "list of area codes of the state of the church"
    found = _follow(question, [_hit(page, 0.9), _hit(("m", "M", "x"), 0.4)], [_hit(wanted, 0.3), _hit(other, 0.3)])
    assert found == ["page", "codes", "m", "rivers"]


def test_other_records_of_the_same_title_are_not_what_a_hit_leads_to() -> None:
    page, next_page = ("p-0", "Kowloon", "Kowloon lies in the south."), ("p-1", "Kowloon", "Kowloon again.")
    ranked = [_hit(page, 0.9), _hit(("m", "M", "x"), 0.5), _hit(next_page, 0.4)]
    assert _follow("where does it lie", ranked, []) == ["p-0", "m", "p-1"]


def test_orders_on_another_scale_keep_the_rule() -> None:
    ranked = [_hit(_SONG, 0.7, order=0.032), _hit(("m", "M", "x"), 0.5, order=0.005), _hit(_AUTHOR, 0.2, order=0.001)]
    assert _follow("which country", ranked, []) == ["song", "author", "m"]


def test_dropped_record_that_is_named_comes_back() -> None:
    low = _hit(_AUTHOR, 0.1)
    low = replace(low, explanation=replace(low.explanation, dropped_because=BELOW_THRESHOLD))
    assert follow_names(naming_texts("q", [_hit(_SONG, 0.7)]), [_hit(_SONG, 0.7), low], analyze_query("q"), {})[
        1
    ].is_kept


def test_names_are_bounded_and_followed_once() -> None:
    words = [f"{first}{second}" for first in ("Alpha", "Beta", "Gamma") for second in "abcdefghijklmnopqrstuvwxyz"]
    ranked = [_hit((f"r-{i}", f"Title {i}", ". and then ".join(words)), 0.9) for i in range(9)]
    texts = naming_texts("Who is Diane Warren?", ranked)
    assert [text.record_id for text in texts] == ["", *(f"r-{i}" for i in range(MAX_SOURCES))]
    names = names_to_search(texts)
    assert len(names) <= MAX_NAMES
    assert len(set(names)) == len(names)
    assert analyze("Diane Warren").fine in names
    assert [text.record_id for text in naming_texts("", ranked, known={"r-0"})] == ["r-1", "r-2", "r-3"]


def test_nothing_to_follow_leaves_the_order() -> None:
    ranked = [_hit(("a", "", "nothing here"), 0.5), _hit(("b", "", ""), 0.4)]
    assert _follow("what is it", ranked, []) == ["a", "b"]
    assert follow_names((), [], analyze_query(""), {}) == ()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            {"questions": ["Where was Diane Warren  born?", "Who is it?", "who is it?"]},
            ("Where was Diane Warren born?",),
        ),
        ({"questions": []}, ()),
        ({"questions": ["a?", "b?", "c?", "d?"]}, ("a?", "b?", "c?")),
        ({"questions": [7]}, None),
        ({"questions": ["x" * 501]}, None),
        ({"questions": "a?"}, None),
        (["a?"], None),
    ],
)
def test_follow_ups_of_a_model_are_read_strictly(answer: object, expected: tuple[str, ...] | None) -> None:
    assert read_follow_ups("Who is it?")(answer) == expected
    assert expected is None or len(expected) <= MAX_FOLLOW_UPS


def test_summary_with_the_title_of_a_document_is_not_what_a_name_means() -> None:
    node = _hit(("node", "Diane Warren", "Warren in short."), 0.4)
    record = replace(node.candidate.record, kind=RecordKind.TREE_NODE, layer=1)
    node = replace(node, candidate=replace(node.candidate, record=record))
    ranked = [_hit(("other", "Other", "nothing"), 0.5), node, _hit(_AUTHOR, 0.3)]
    assert _follow("When was Diane Warren born?", ranked, []) == ["author", "other", "node"]
