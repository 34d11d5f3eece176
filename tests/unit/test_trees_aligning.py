"""New leaves find the old ones that they are, or replace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.trees.aligning import align
from corpusmesh_core.trees.regrouping import INSERTED


def keys(text: str) -> list[bytes]:
    return [character.encode() for character in text]


@pytest.mark.parametrize(
    ("old", "new", "origins", "changed"),
    [
        ("abcd", "abcd", [0, 1, 2, 3], 0),
        ("abcd", "abXd", [0, 1, 2, 3], 1),
        ("abcd", "abXcd", [0, 1, -1, 2, 3], 1),
        ("abcd", "ad", [0, 3], 2),
        ("abcd", "aXYd", [0, 1, 2, 3], 2),
        ("abcd", "aXd", [0, 1, 3], 2),
        ("abcd", "XYabcd", [-1, -1, 0, 1, 2, 3], 2),
        ("abcd", "abcdX", [0, 1, 2, 3, -1], 1),
        # A page that occurs often is told by its neighbours.
        ("a-b-c-d", "a-b-X-d", [0, 1, 2, 3, 4, 5, 6], 1),
        ("----", "-----", [0, 1, 2, 3, -1], 1),
        # What was moved is new at its place.
        ("abcdef", "bcdefa", [1, 2, 3, 4, 5, -1], 2),
        ("", "ab", [-1, -1], 2),
        ("ab", "", [], 2),
    ],
)
def test_leaves_are_found_again(old: str, new: str, origins: list[int], changed: int) -> None:
    found = align(keys(old), keys(new))
    assert (found.origins.tolist(), found.changed_count) == (origins, changed)


@given(st.text("abcd", max_size=30), st.text("abcd", max_size=30))
def test_origins_ascend_and_none_is_taken_twice(old: str, new: str) -> None:
    found = align(keys(old), keys(new))
    taken = [origin for origin in found.origins.tolist() if origin != INSERTED]
    assert taken == sorted(set(taken))
    assert all(0 <= origin < len(old) for origin in taken)
    same = sum(old[origin] == new[place] for place, origin in enumerate(found.origins.tolist()) if origin != INSERTED)
    assert found.changed_count == (len(old) - len(taken)) + (len(new) - len(taken)) + (len(taken) - same)


@given(st.text(max_size=40))
def test_a_document_that_stayed_the_same_has_no_change(text: str) -> None:
    found = align(keys_of := keys(text), keys_of)
    assert (found.origins.tolist(), found.changed_count) == (list(range(len(keys_of))), 0)
