"""Extracts: sentences by centrality and coverage, in source order, whatever the children are."""

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.chunking.tokens import WordTokenCounter
from corpusmesh_core.trees.clauses import cut_to_clause
from corpusmesh_core.trees.extractive import Extract, extract
from corpusmesh_core.trees.settings import SummaryMethod
from corpusmesh_core.trees.values import Child, Summary, Vectors
from corpusmesh_core.trees.vectors import needs_embedding, node_vector

COUNTER = WordTokenCounter()
ENGINE = (
    "The steam engine of the mill was built in 1850. Steam engines of this kind drove mills all over the county. "
    "The owner kept a grey cat."
)
BOILER = (
    "The boiler of the steam engine burnt two tonnes of coal a day. Coal for the engine came by barge along the canal. "
    "A postcard shows a tree."
)
MILL = (
    "The mill spun cotton with the power of its steam engine. Cotton from the mill was sold in the county town. "
    "Somebody once painted the door."
)


def children_of(*texts: str, titles: Sequence[str] = ()) -> tuple[Child, ...]:
    counts = COUNTER.count_tokens(texts)
    return tuple(
        Child(text, count, title=titles[place] if titles else "")
        for place, (text, count) in enumerate(zip(texts, counts, strict=True))
    )


def vectors_of(count: int) -> Vectors:
    vectors = np.random.default_rng(count).normal(1.0, 0.2, (count, 8)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def made_of(*texts: str, max_tokens: int = 128) -> Extract:
    children = children_of(*texts)
    return extract(children, vectors_of(len(children)), COUNTER, max_tokens=max_tokens)


def test_the_central_sentences_win_and_the_odd_ones_do_not() -> None:
    made = made_of(ENGINE, BOILER, MILL, max_tokens=45)
    assert "steam engine" in made.text
    for odd in ("cat", "postcard", "painted"):
        assert odd not in made.text


def test_sentences_stand_in_the_order_of_the_children_and_the_places_say_where_from() -> None:
    made = made_of(ENGINE, BOILER, MILL, max_tokens=60)
    source = " ".join((ENGINE, BOILER, MILL))
    places = [source.index(sentence) for sentence in made.text.rstrip(".").split(". ")]
    assert places == sorted(places)
    assert made.places == (0, 1, 2)


def test_a_chinese_cluster_is_joined_without_blanks() -> None:
    made = made_of(
        "蒸汽机是十九世纪纺织厂的主要动力来源。这家纺织厂的蒸汽机建于一八五〇年。猫在门口睡觉的样子很好看。",
        "蒸汽机的锅炉每天要烧掉两吨煤炭。煤炭经过运河用驳船运到纺织厂。有人画过那扇门。",
        max_tokens=50,
    )
    assert "蒸汽机" in made.text
    assert " " not in made.text
    assert made.token_count <= 50


def test_english_and_chinese_children_both_have_a_voice() -> None:
    made = made_of(ENGINE, "蒸汽机的锅炉每天要烧掉两吨煤炭。煤炭经过运河用驳船运到纺织厂。", max_tokens=40)
    assert made.places == (0, 1)


def test_tables_headings_and_rows_do_not_win_beside_sentences() -> None:
    table = "| engine | mill | coal |\n| --- | --- | --- |\n| steam engine | cotton mill | coal |\n# The steam engine\n"
    made = made_of(table + ENGINE, BOILER)
    assert "|" not in made.text
    assert "#" not in made.text


def test_a_cluster_of_tables_alone_has_a_summary_of_its_rows() -> None:
    made = made_of("| town | people |\n| Ely | 20112 |", "| town | people |\n| Bath | 94782 |")
    assert "Ely" in made.text or "Bath" in made.text


def test_what_every_child_repeats_is_no_summary() -> None:
    footer = " This report on steam engines was printed for the mill owners of the county."
    made = made_of(ENGINE + footer, BOILER + footer, MILL + footer)
    assert "printed for the mill owners" not in made.text


def test_notices_and_references_are_left_out() -> None:
    notice = " Copyright 2020 by the Steam Engine Society, all rights reserved."
    reference = " [12] A. Watt, Steam engines of mills, pp. 12-19, in Proceedings of the Steam Society 1990."
    assert "Society" not in made_of(ENGINE + notice, BOILER + reference).text


@pytest.mark.parametrize(
    "pointer",
    [
        "What the steam engine of the mill drove, and how its boiler burnt coal, stands in mills/*/README.md.",
        "See docs/engines.md for the steam engine of the mill and the coal of its boiler.",
    ],
)
def test_what_only_says_where_something_is_said_loses_to_what_says_it(pointer: str) -> None:
    assert ".md" not in made_of(f"{pointer} {ENGINE}", BOILER, MILL, max_tokens=60).text


def test_a_statement_that_names_a_file_in_passing_may_stay() -> None:
    made = made_of(ENGINE.replace("in 1850", "in 1850 (see docs/mill.md)"), BOILER, MILL, max_tokens=60)
    assert "in 1850 (see docs/mill.md)" in made.text


def test_what_a_program_says_of_a_picture_is_left_out_even_where_nothing_but_lines_is_there() -> None:
    guess = "A duck on a pond Description automatically generated"
    made = made_of(f"Summer activities\nDuck\n{guess}\nFigure 1: A duck", f"Winter activities\n{guess}\nFigure 2: Skis")
    assert "automatically generated" not in made.text
    assert "Summer activities" in made.text


def test_no_sentence_is_taken_twice_where_chunks_overlap() -> None:
    overlap = "The boiler of the steam engine burnt two tonnes of coal a day."
    made = made_of(f"{ENGINE} {overlap}", f"{overlap} {MILL}")
    assert made.text.count(overlap) <= 1


def test_what_says_nearly_the_same_is_passed_over() -> None:
    made = made_of(
        "The steam engine of the cotton mill was built in 1850 by Harland.",
        "The steam engine of the cotton mill was built by Harland in 1850.",
        "The canal brought coal to the town every morning of the week.",
    )
    assert made.text.count("Harland") == 1


def test_a_sentence_that_leans_on_the_one_before_is_not_taken_without_it() -> None:
    texts = (
        "The canal was dug in 1790 by hand. It carried coal and cotton on barges through the county and the town.",
        "The mill bought coal from barges. However, it was carried from the canal through the town on carts of cotton.",
    )
    for max_tokens in range(8, 50):
        text = made_of(*texts, max_tokens=max_tokens).text
        assert "It carried" not in text or "dug in 1790" in text
        assert "However" not in text or "bought coal" in text


def test_a_sentence_over_the_budget_is_cut_at_a_clause() -> None:
    long = "The engine drove the mill, " + "which spun cotton for the county, " * 20 + "until it was sold."
    made = made_of(long, max_tokens=32)
    assert made.token_count <= 32
    assert made.text.endswith(("county…", "mill…"))


def test_the_summary_of_short_children_is_at_most_half_of_them() -> None:
    children = children_of(ENGINE, BOILER, MILL)
    made = extract(children, vectors_of(3), COUNTER, max_tokens=1000)
    assert made.token_count <= sum(child.token_count for child in children) / 2 + 1


def test_a_cluster_without_any_text_is_still_named() -> None:
    children = (Child("", 0), Child("  \n", 0, title="Tariffs"))
    assert extract(children, vectors_of(2), COUNTER, max_tokens=32).text == "Tariffs"
    assert extract((Child("", 0),), vectors_of(1), COUNTER, max_tokens=32).text


def test_the_same_children_give_the_same_summary() -> None:
    assert made_of(ENGINE, BOILER, MILL) == made_of(ENGINE, BOILER, MILL)


@given(
    st.lists(st.text(alphabet="abAB .,!?。，|\n#-19蒸汽机", max_size=120), min_size=1, max_size=6),
    st.integers(min_value=1, max_value=64),
)
def test_any_children_give_a_summary_within_the_budget(texts: list[str], max_tokens: int) -> None:
    children = children_of(*texts)
    made = extract(children, vectors_of(len(children)), COUNTER, max_tokens=max_tokens)
    assert made.text.strip()
    assert made.token_count == COUNTER.count_tokens([made.text])[0] <= max(max_tokens, 1)
    assert made.places == tuple(sorted(set(made.places)))
    assert set(made.places) <= set(range(len(children)))


@given(st.text(min_size=1, max_size=200), st.integers(min_value=1, max_value=60))
def test_a_cut_text_fits_and_is_a_beginning(text: str, size: int) -> None:
    cut = cut_to_clause(text, None, size)
    assert 0 < len(cut) <= max(size, 2)
    assert text.startswith(cut.removesuffix("…").rstrip())


def test_a_text_of_words_that_occur_once_takes_bounded_memory() -> None:
    words = iter("".join(chr(97 + n // 26**place % 26) for place in range(4)) for n in range(26**4))
    texts = [" ".join(f"The {' '.join(next(words) for _ in range(30))} is." for _ in range(4)) for _ in range(256)]
    tracemalloc.start()
    try:
        assert made_of(*texts).text
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Dense over all terms it was 600 MB here, and 1.3 GB for the largest cluster of the largest chunks.
    assert peak_bytes < 400e6


@pytest.mark.parametrize("bad", [np.nan, 0.0])
def test_vectors_without_direction_do_no_harm(bad: float) -> None:
    vectors = np.full((2, 8), bad, np.float32)
    made = extract(children_of(ENGINE, BOILER), vectors, COUNTER, max_tokens=40)
    assert made.text


def test_a_lite_node_has_the_mean_of_its_children_weighed_by_leaves_and_needs_no_model() -> None:
    vectors = np.eye(2, dtype=np.float32)
    made = node_vector((Child("a", 1, leaf_count=3), Child("b", 1, leaf_count=1)), vectors)
    assert made == pytest.approx(np.array([3, 1]) / np.sqrt(10))
    assert made.dtype == np.float32
    assert not needs_embedding(Summary("a", 1))


def test_what_a_model_wrote_moves_the_vector_of_its_node() -> None:
    vectors = np.eye(2, dtype=np.float32)[:1]
    made = node_vector((Child("a", 1),), vectors, np.array([0, 1], np.float32))
    assert made == pytest.approx(np.array([1, 1]) / np.sqrt(2))
    assert needs_embedding(Summary("a", 1, SummaryMethod.LLM))


def test_children_that_cancel_each_other_out_leave_the_first_ones_vector() -> None:
    vectors = np.array([[1, 0], [-1, 0]], np.float32)
    assert node_vector((Child("a", 1), Child("b", 1)), vectors) == pytest.approx(np.array([1, 0]))
