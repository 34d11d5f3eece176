"""What counts as the same text, and what must not."""

from dataclasses import replace

import numpy as np
import pytest

from corpusmesh_core.assembly import (
    DUPLICATE_OF_BETTER,
    DuplicateSettings,
    collapse,
    confirmed_pairs,
    exact_duplicates,
    near_pairs,
)
from corpusmesh_core.records import RecordKind
from tests.support.candidates import chunk, ids, ranked, reasons, unit

SETTINGS = DuplicateSettings()
LONG = (
    "The leaf pages of a clustered index hold whole rows in the order of the primary key so that a range query reads"
    " neighbouring pages one after another without going back to the root of the tree for every single row it wants"
)


def _near(*texts: str) -> list[tuple[int, int, float]]:
    return near_pairs([ranked(chunk(i, text), 0.9 - i / 100) for i, text in enumerate(texts)], SETTINGS, without={})


def test_case_punctuation_width_and_script_variant_do_not_make_another_text() -> None:
    texts = [
        "Leaf pages, in order.",
        "LEAF  PAGES — in order",
        "聚簇索引",
        "聚簇索引。",
        "叢集索引",
        "丛集索引",
        "other",
    ]
    kept = [ranked(chunk(i, text), 0.9 - i / 100) for i, text in enumerate(texts)]
    assert exact_duplicates(kept) == {1: 0, 3: 2, 5: 4}


def test_texts_without_a_letter_are_never_the_same() -> None:
    assert exact_duplicates([ranked(chunk(0, "—"), 0.9), ranked(chunk(1, "..."), 0.8), ranked(chunk(2, ""), 0.7)]) == {}


def test_a_text_with_one_word_changed_is_nearly_the_same() -> None:
    ((better, worse, overlap),) = _near(LONG, LONG.replace("neighbouring", "adjacent"))
    assert (better, worse) == (0, 1)
    assert 0.9 <= overlap < 1.0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a range query reads", "a range query never reads"),
        ("whole rows", "whole 12 rows"),
        ("a clustered index hold", "a clustered index don't hold"),
    ],
)
def test_a_number_or_a_negation_makes_another_statement(old: str, new: str) -> None:
    assert _near(LONG, LONG.replace(old, new)) == []


def test_years_that_differ_make_another_statement_in_chinese_too() -> None:
    text = (
        "公司在2019年的营业收入为五百亿元，主要来自国内市场的销售增长以及新产品的推出，毛利率保持稳定并略有上升趋势明显"
    )
    assert _near(text, text.replace("2019", "2020")) == []
    assert _near(text, text.replace("保持稳定", "没有稳定")) == []
    assert _near(text, text.replace("国内", "海外")) == []
    assert len(_near(text, text + "好")) == 1


def test_another_name_makes_another_statement() -> None:
    text = LONG.replace("a clustered index", "the Grant County index")
    assert _near(text, text.replace("Grant", "Kingfisher")) == []
    assert len(_near(text, f"{text} once")) == 1


def test_vectors_decide_and_where_there_are_none_a_stricter_share_of_words_does() -> None:
    kept = [ranked(chunk(0, "a"), 0.9), ranked(chunk(1, "b"), 0.8)]
    close = {"7-0": unit([1, 0, 0.1]), "7-1": unit([1, 0.05, 0.1])}
    far = {"7-0": unit([1, 0, 0]), "7-1": unit([1, 1, 0])}
    pairs = [(0, 1, 0.92)]
    assert confirmed_pairs(pairs, kept, close, SETTINGS) == {1: 0}
    assert confirmed_pairs(pairs, kept, far, SETTINGS) == {}
    assert confirmed_pairs(pairs, kept, {}, SETTINGS) == {}
    assert confirmed_pairs([(0, 1, 0.97)], kept, {}, SETTINGS) == {1: 0}


def test_cosines_with_the_question_that_lie_apart_rule_a_pair_out_without_reading_vectors() -> None:
    kept = [ranked(chunk(0, LONG), 0.9, cosine=0.95), ranked(chunk(1, LONG + " once"), 0.8, cosine=0.6)]
    assert near_pairs(kept, SETTINGS, without={}) == []


def test_the_bound_by_the_question_never_rules_out_a_pair_that_vectors_would_confirm() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        question, one = unit(rng.normal(size=6).tolist()), unit(rng.normal(size=6).tolist())
        other = unit((one + 0.1 * rng.normal(size=6)).tolist())
        if float(one @ other) < SETTINGS.min_cosine:
            continue
        kept = [
            ranked(chunk(0, LONG), 0.9, cosine=float(question @ one)),
            ranked(chunk(1, LONG + " once"), 0.8, cosine=float(question @ other)),
        ]
        assert len(near_pairs(kept, SETTINGS, without={})) == 1


def test_what_is_collapsed_is_named_by_the_best_of_all() -> None:
    items = [
        ranked(chunk(0, "a"), 0.9),
        ranked(chunk(1, "b"), 0.8, merged=["7-10"]),
        ranked(chunk(2, "c"), 0.7),
        ranked(chunk(3, "d"), 0.6),
    ]
    left = collapse(items, {1: 0, 3: 1})
    assert ids(left) == ["7-0", "7-2"]
    assert left[0].merged_record_ids == ("7-1", "7-10", "7-3")
    assert reasons(left) == {"7-1": DUPLICATE_OF_BETTER, "7-3": DUPLICATE_OF_BETTER}


def test_a_chain_of_near_texts_does_not_swallow_what_is_far_from_the_best() -> None:
    kept = [ranked(chunk(i, "a"), 0.9 - i / 100) for i in range(3)]
    vectors = {"7-0": unit([1, 0]), "7-1": unit([1, 0.2]), "7-2": unit([1, 0.42])}
    found = confirmed_pairs([(0, 1, 0.95), (0, 2, 0.95), (1, 2, 0.95)], kept, vectors, SETTINGS)
    assert found == {1: 0}


def test_a_summary_swallows_no_chunk_and_no_chunk_a_summary() -> None:
    summary = ranked(replace(chunk(0, LONG), kind=RecordKind.TREE_NODE, layer=1), 0.9)
    kept = [summary, ranked(chunk(1, LONG), 0.8), ranked(chunk(2, LONG), 0.7)]
    assert exact_duplicates(kept) == {2: 1}
    assert near_pairs(kept, SETTINGS, without={}) == [(1, 2, 1.0)]
