"""Trees by page and by heading: what is put together in the first layer."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.records import Ordinal
from corpusmesh_core.trees.sections import MIN_GROUP_TOKENS, Section, group_leaves
from corpusmesh_core.trees.settings import TreeMethod
from corpusmesh_core.trees.values import KEY_BYTES, Leaf

LONG = MIN_GROUP_TOKENS
SHORT = 20


def leaf(*path: str, page: int = 0, tokens: int = LONG) -> Leaf:
    return Leaf("r", b"k" * KEY_BYTES, "text", tokens, Ordinal(1), page=page, heading_path=path)


def by_section(*leaves: Leaf, max_size: int = 64) -> list[tuple[str, list[int]]]:
    return plain(group_leaves(leaves, TreeMethod.SECTION, max_size=max_size))


def by_page(*leaves: Leaf, max_size: int = 64) -> list[tuple[str, list[int]]]:
    return plain(group_leaves(leaves, TreeMethod.PAGE, max_size=max_size))


def plain(sections: tuple[Section, ...]) -> list[tuple[str, list[int]]]:
    return [(each.title, list(each.places)) for each in sections]


def test_no_leaves_make_no_groups() -> None:
    assert group_leaves([], TreeMethod.PAGE) == group_leaves([], TreeMethod.SECTION) == ()


def test_each_deepest_heading_with_chunks_is_a_group() -> None:
    leaves = [
        leaf("A"),
        leaf("A"),
        leaf("A", "x"),
        leaf("A", "x"),
        leaf("A", "y"),
        leaf("A", "y"),
        leaf("B"),
        leaf("B"),
    ]
    assert by_section(*leaves) == [("A", [0, 1]), ("A > x", [2, 3]), ("A > y", [4, 5]), ("B", [6, 7])]


def test_lone_chunks_under_one_heading_are_put_together_with_its_introduction() -> None:
    leaves = [leaf("A"), leaf("A", "x"), leaf("A", "y"), leaf("B"), leaf("B"), leaf("C", "z"), leaf("C", "z")]
    assert by_section(*leaves) == [("A", [0, 1, 2]), ("B", [3, 4]), ("C > z", [5, 6])]


def test_lone_chunks_of_different_parents_are_not_put_together() -> None:
    leaves = [leaf("A", "x")] * 3 + [leaf("A", "y"), leaf("B", "z")] + [leaf("B", "v")] * 3
    assert by_section(*leaves) == [("A > x", [0, 1, 2]), ("A > y", [3]), ("B > z", [4]), ("B > v", [5, 6, 7])]


def test_a_long_lone_chunk_between_long_siblings_keeps_its_heading() -> None:
    leaves = [leaf("A", "x")] * 3 + [leaf("A", "y")] + [leaf("A", "z")] * 3
    assert [title for title, _ in by_section(*leaves)] == ["A > x", "A > y", "A > z"]


def test_a_short_lone_chunk_goes_to_its_sibling_before() -> None:
    leaves = [leaf("A", "x")] * 3 + [leaf("A", "y", tokens=SHORT)] + [leaf("A", "z")] * 3
    assert by_section(*leaves) == [("A > x", [0, 1, 2, 3]), ("A > z", [4, 5, 6])]


def test_a_short_introduction_goes_to_its_first_subsection_not_to_the_chapter_before() -> None:
    leaves = [leaf("A")] * 3 + [leaf("B", tokens=SHORT)] + [leaf("B", "x")] * 3
    assert by_section(*leaves) == [("A", [0, 1, 2]), ("B > x", [3, 4, 5, 6])]


def test_a_short_chunk_without_kin_stays_alone() -> None:
    leaves = [leaf("A", "x")] * 4 + [leaf("B", "y", "v", tokens=SHORT)] + [leaf("C", "z")] * 4
    assert by_section(*leaves)[1] == ("B > y > v", [4])


def test_a_heading_for_each_chunk_does_not_make_as_many_groups_as_chunks() -> None:
    leaves = [leaf(f"{chapter}", f"{section}", f"{section}") for chapter in range(10) for section in range(4)]
    sections = by_section(*leaves)
    assert len(sections) <= len(leaves) / 2


def test_chunks_without_headings_are_one_group_cut_by_size() -> None:
    assert by_section(*[leaf()] * 10) == [("", list(range(10)))]
    assert [len(places) for _, places in by_section(*[leaf("A")] * 10, max_size=4)] == [2, 3, 2, 3]


def test_a_large_section_is_cut_where_neighbours_are_least_alike() -> None:
    cosines = np.array([0.9, 0.9, 0.1, 0.9, 0.9, 0.9], dtype=np.float32)
    sections = group_leaves([leaf("A")] * 7, TreeMethod.SECTION, max_size=4, cosines=cosines)
    assert plain(sections) == [("A", [0, 1, 2]), ("A", [3, 4, 5, 6])]


def test_each_page_is_a_group() -> None:
    assert by_page(*[leaf(page=1)] * 2, *[leaf(page=2)] * 3) == [("page 1", [0, 1]), ("page 2", [2, 3, 4])]


def test_chunks_without_pages_are_one_group() -> None:
    assert by_page(*[leaf()] * 5) == [("", [0, 1, 2, 3, 4])]


def test_a_chunk_without_a_page_goes_with_the_page_before_it() -> None:
    leaves = [leaf(), leaf(), leaf(page=3), leaf(), leaf(page=4), leaf(page=4)]
    assert by_page(*leaves) == [("", [0, 1]), ("page 3", [2, 3]), ("page 4", [4, 5])]


def test_slides_of_few_words_are_put_together() -> None:
    leaves = [leaf(page=page, tokens=SHORT) for page in range(1, 31)]
    sections = by_page(*leaves)
    assert len(sections) == 3
    assert sections[0] == ("pages 1–10", list(range(10)))


def test_pages_of_one_chunk_each_are_put_together_in_pairs() -> None:
    assert by_page(*[leaf(page=page) for page in (1, 2, 3, 4)]) == [("pages 1–2", [0, 1]), ("pages 3–4", [2, 3])]


paths = st.lists(st.sampled_from("abc"), max_size=3).map(tuple)
leaves_of_any_kind = st.lists(
    st.builds(
        lambda path, page, tokens: leaf(*path, page=page, tokens=tokens), paths, st.integers(0, 5), st.integers(0, 500)
    ),
    max_size=60,
)


@settings(deadline=None)
@given(leaves_of_any_kind, st.sampled_from([TreeMethod.PAGE, TreeMethod.SECTION]), st.integers(4, 64))
def test_groups_are_contiguous_complete_bounded_and_fewer_than_chunks(
    leaves: list[Leaf], method: TreeMethod, max_size: int
) -> None:
    sections = group_leaves(leaves, method, max_size=max_size)
    assert list(itertools.chain.from_iterable(each.places for each in sections)) == list(range(len(leaves)))
    assert all(1 <= len(each.places) <= max_size for each in sections)
    if len(leaves) > 1:
        assert len(sections) < len(leaves)
