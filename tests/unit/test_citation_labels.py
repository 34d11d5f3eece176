"""Labels of a request: never a number that the model could read in a document."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.citation import MAX_LABEL_COUNT, defuse_markers, draw_labels, filter_answer
from corpusmesh_core.errors import InvalidArgumentError


def test_labels_are_distinct_and_repeat_with_the_same_dice() -> None:
    labels = draw_labels(50, rng=np.random.default_rng(7))
    assert len(set(labels)) == 50
    assert labels == draw_labels(50, rng=np.random.default_rng(7))
    assert labels != draw_labels(50, rng=np.random.default_rng(8))


@given(st.lists(st.integers(1000, 9999), max_size=40), st.integers(0, 2**32 - 1))
def test_a_number_of_the_text_is_never_a_label(numbers: list[int], seed: int) -> None:
    text = " ".join(f"[ID:{number}]" for number in numbers)
    assert not set(draw_labels(20, rng=np.random.default_rng(seed), texts=[text])) & set(numbers)


@pytest.mark.parametrize("spelling", ["[ID:４４７１]", "[ID:44\u200b71]", "order 20204471", "4471kg", "x4471"])
def test_a_disguised_number_is_no_label_either(spelling: str) -> None:
    for seed in range(200):
        assert 4471 not in draw_labels(1000, rng=np.random.default_rng(seed), texts=[spelling])


def test_labels_grow_longer_where_the_text_uses_up_the_short_ones() -> None:
    everything = " ".join(str(number) for number in range(1000, 10000))
    labels = draw_labels(10, rng=np.random.default_rng(0), texts=[everything])
    assert all(100_000 <= label < 1_000_000 for label in labels)


def test_more_evidence_than_labels_is_refused() -> None:
    with pytest.raises(InvalidArgumentError):
        draw_labels(MAX_LABEL_COUNT + 1, rng=np.random.default_rng(0))


@pytest.mark.parametrize("marker", ["[ID:3]", "[ID: 3]", "[ id : 3 ]", "【ID：3】", "(ID:3)", "IDs:3", "ID:#3"])
def test_a_defused_marker_is_no_marker_in_any_spelling(marker: str) -> None:
    defused = defuse_markers(f"See {marker} there.")
    assert defused != f"See {marker} there."
    assert filter_answer(defused, (3,))[1].cited == () or marker == "[3]"


@pytest.mark.parametrize("text", ["ID: unknown", "paid: 3 times", "GUID 3", "the id is 3", "第3条：内容"])
def test_ordinary_text_is_not_touched(text: str) -> None:
    assert defuse_markers(text) == text
