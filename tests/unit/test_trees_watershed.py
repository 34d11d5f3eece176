"""The sequential watershed: where a layer is cut."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from corpusmesh_core.trees.values import Vectors
from corpusmesh_core.trees.watershed import (
    UNRELATED,
    join_lone,
    layer_threshold,
    neighbour_cosines,
    split_oversized,
    watershed_starts,
)

cosine_lists = st.lists(st.sampled_from([-1.0, 0.0, 0.25, 0.5, 0.75, 1.0]) | st.floats(-1, 1, width=32), max_size=300)


def cosines_of(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def matrix(*rows: list[float]) -> Vectors:
    return np.array(rows, dtype=np.float32)


def test_cosines_of_neighbours_do_not_depend_on_length() -> None:
    vectors = matrix([1, 0], [5, 5], [0, 1e-3], [0, -7])
    np.testing.assert_allclose(neighbour_cosines(vectors), [0.707107, 0.707107, -1.0], atol=1e-6)


@pytest.mark.parametrize("lost", [[0, 0], [np.nan, 1], [np.inf, 1], [-np.inf, np.inf]])
def test_what_has_no_direction_is_related_to_nothing(lost: list[float]) -> None:
    assert neighbour_cosines(matrix([1, 0], lost, [1, 0], [1, 0])).tolist() == [UNRELATED, UNRELATED, 1.0]


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e-12, 1e12, 1e19, 1e38])
def test_very_long_and_very_short_vectors_have_a_direction(scale: float) -> None:
    vectors = matrix([scale, 0], [scale, scale], [0.0, 1.0])
    np.testing.assert_allclose(neighbour_cosines(vectors), [0.707107, 0.707107], atol=1e-5)


@pytest.mark.parametrize("shape", [(0, 4), (1, 4), (0, 0), (1, 0)])
def test_fewer_than_two_vectors_have_no_neighbours(shape: tuple[int, int]) -> None:
    assert neighbour_cosines(np.zeros(shape, dtype=np.float32)).tolist() == []


def test_vectors_without_values_are_related_to_nothing() -> None:
    assert neighbour_cosines(np.zeros((3, 0), dtype=np.float32)).tolist() == [UNRELATED, UNRELATED]


def test_blocks_do_not_show_in_the_cosines() -> None:
    vectors = np.random.default_rng(0).normal(size=(5000, 130)).astype(np.float32)
    wide = vectors.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    np.testing.assert_allclose(neighbour_cosines(vectors), (wide[:-1] * wide[1:]).sum(axis=1), atol=2e-6)


def test_noise_of_the_last_digit_does_not_part_equal_texts() -> None:
    vectors = np.repeat(np.random.default_rng(0).normal(size=(1, 384)).astype(np.float32), 200, axis=0)
    vectors *= np.random.default_rng(1).uniform(0.1, 10, size=(200, 1)).astype(np.float32)
    assert set(neighbour_cosines(vectors).tolist()) == {1.0}


def test_memory_does_not_grow_with_the_vectors() -> None:
    vectors = np.ones((60_000, 64), dtype=np.float32)
    # What numpy loads at a first call is not counted.
    layer_threshold(neighbour_cosines(vectors[:9]), 0.3, 0.5)
    tracemalloc.start()
    try:
        cosines = neighbour_cosines(vectors)
        watershed_starts(cosines, layer_threshold(cosines, 0.3, 0.5), 64)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < vectors.nbytes / 2


def test_the_threshold_is_a_percentile_of_the_cosines_not_a_cosine() -> None:
    cosines = cosines_of(*np.linspace(0.8, 0.9, 11)[[4, 0, 5, 6, 1, 7, 8, 2, 9, 10, 3]])
    assert layer_threshold(cosines, 0.3, 0.5) == pytest.approx(0.83, abs=1e-6)
    assert watershed_starts(cosines, layer_threshold(cosines, 0.3, 0.5), 64).tolist() == [0, 2, 5, 8]


def test_the_threshold_is_pressed_until_clusters_are_no_more_than_the_ratio() -> None:
    cosines = cosines_of(*np.linspace(0.1, 0.9, 9)[[3, 0, 4, 5, 1, 6, 7, 2, 8]])
    threshold = layer_threshold(cosines, 0.9, 0.4)
    assert watershed_starts(cosines, threshold, 64).tolist() == [0, 2, 5, 8]


def test_a_lone_node_joins_the_neighbour_that_is_more_alike() -> None:
    assert watershed_starts(cosines_of(0.9, 0.2, 0.1, 0.9), 0.5, 64).tolist() == [0, 3]
    assert watershed_starts(cosines_of(0.9, 0.1, 0.2, 0.9), 0.5, 64).tolist() == [0, 2]
    assert watershed_starts(cosines_of(0.9, 0.2, 0.2, 0.9), 0.5, 64).tolist() == [0, 3]
    assert watershed_starts(cosines_of(0.1, 0.9, 0.9, 0.1), 0.5, 64).tolist() == [0], "at both ends"


def test_lone_nodes_that_stand_together_join_each_other() -> None:
    assert watershed_starts(cosines_of(0.9, 0.1, 0.4, 0.2, 0.9), 0.5, 64).tolist() == [0, 2, 4]


def test_a_lone_node_stays_alone_where_no_join_is_allowed() -> None:
    parted = np.ones(2, dtype=bool)
    join_lone(parted, cosines_of(0.2, 0.1), np.array([False, False]))
    assert parted.tolist() == [True, True]
    join_lone(parted, cosines_of(0.2, 0.1), np.array([False, True]))
    assert parted.tolist() == [True, False]


@settings(deadline=None)
@given(cosine_lists, st.floats(-1, 1), st.integers(4, 64))
def test_no_node_of_a_layer_is_alone(values: list[float], threshold: float, max_size: int) -> None:
    starts = watershed_starts(cosines_of(*values), threshold, max_size)
    assert np.diff(starts, append=len(values) + 1).min() >= min(2, len(values) + 1)


def test_neighbours_as_alike_as_the_threshold_stay_together() -> None:
    cosines = cosines_of(0.5, 0.5, 0.5, 0.5)
    assert watershed_starts(cosines, layer_threshold(cosines, 0.3, 0.5), 64).tolist() == [0]
    assert watershed_starts(cosines, 0.5, 64).tolist() == [0]


@settings(deadline=None)
@given(cosine_lists, st.floats(0.01, 0.99), st.floats(0.05, 0.9))
def test_clusters_are_never_more_than_the_ratio(values: list[float], share: float, ratio: float) -> None:
    cosines = cosines_of(*values)
    starts = watershed_starts(cosines, layer_threshold(cosines, share, ratio), len(values) + 4)
    assert len(starts) <= max(1, int(ratio * (len(values) + 1)))


def test_a_cluster_that_is_too_large_is_cut_at_the_weakest_link_of_its_middle_half() -> None:
    cosines = cosines_of(0.1, 0.9, 0.9, 0.9, 0.3, 0.9, 0.9)
    assert split_oversized(np.array([0]), cosines, 6).tolist() == [0, 5]


def test_equally_weak_links_are_cut_in_the_middle() -> None:
    starts = split_oversized(np.array([0]), np.ones(255, dtype=np.float32), 64)
    assert starts.tolist() == [0, 64, 128, 192]


def test_clusters_of_allowed_size_are_left_as_they_are() -> None:
    starts = np.array([0, 4, 5])
    assert split_oversized(starts, np.zeros(11, dtype=np.float32), 7) is starts


@settings(deadline=None)
@given(cosine_lists, st.integers(4, 64), st.data())
def test_parts_of_a_large_cluster_are_neither_too_large_nor_lone(
    values: list[float], max_size: int, data: st.DataObject
) -> None:
    count = len(values) + 1
    cuts = data.draw(st.sets(st.integers(1, max(count - 1, 1)), max_size=5)) if count > 1 else set()
    starts = np.array(sorted({0} | cuts))
    split = split_oversized(starts, cosines_of(*values), max_size)
    sizes = np.diff(split, append=count)
    assert set(starts) <= set(split)
    assert sizes.max() <= max_size
    assert all(size * 4 > max_size for start, size in zip(split, sizes, strict=True) if start not in starts)


@settings(deadline=None)
@given(hnp.arrays(np.float32, st.tuples(st.integers(0, 40), st.integers(0, 4)), elements=st.floats(width=32)))
def test_any_matrix_has_finite_cosines(vectors: Vectors) -> None:
    cosines = neighbour_cosines(vectors)
    assert cosines.shape == (max(len(vectors) - 1, 0),)
    assert cosines.dtype == np.float32
    assert ((cosines >= -1) & (cosines <= 1)).all()
