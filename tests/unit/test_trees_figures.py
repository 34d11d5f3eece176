"""How far a tree that follows changes is from one that is built anew."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.trees.clustering import group_layer
from corpusmesh_core.trees.figures import drift, is_update, layer_drift, staleness, wants_full_build
from corpusmesh_core.trees.settings import TreeSettings

SETTINGS = TreeSettings()


def test_staleness_counts_every_change_for_each_leaf() -> None:
    assert staleness(added=10, changed=5, removed=15, leaf_count=300) == pytest.approx(0.1)
    assert staleness(added=0, changed=0, removed=0, leaf_count=300) == 0.0


def test_a_tree_of_which_every_leaf_was_removed_is_stale() -> None:
    assert staleness(added=0, changed=0, removed=7, leaf_count=0) == 7.0


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(0, 2**32 - 1))
def test_there_is_no_drift_right_after_a_full_build(count: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32)
    grouping = group_layer(vectors, SETTINGS)
    if grouping is not None:
        starts = np.array([cluster[0] for cluster in grouping.clusters])
        assert layer_drift(starts, grouping.similarities, SETTINGS) == 0


def test_drift_counts_boundaries_that_are_missing_and_boundaries_that_are_too_many() -> None:
    # Of ten pairs the three least alike are parted by a full build: before 2, 5 and 8.
    cosines = np.array([0.8, 0.1, 0.8, 0.8, 0.2, 0.8, 0.8, 0.3, 0.8, 0.8], dtype=np.float32)
    built, other = np.array([0, 2, 5, 8]), np.array([0, 2, 6, 8])
    assert layer_drift(built, cosines, SETTINGS) == 0
    assert layer_drift(other, cosines, SETTINGS) == 2
    upper = (np.array([0]), np.full(200, 0.5, dtype=np.float32))
    assert drift([(other, cosines)], SETTINGS) == pytest.approx(2 / 100), "two boundaries of a dozen are no trend"
    missing = layer_drift(upper[0], upper[1], SETTINGS)
    assert missing > 0
    assert drift([(other, cosines), upper], SETTINGS) == pytest.approx((2 + missing) / 210)


def test_a_small_layer_that_is_parted_has_drifted() -> None:
    assert layer_drift(np.array([0, 2, 3]), np.full(5, 0.5, dtype=np.float32), SETTINGS) == 2


def test_a_layer_without_pairs_has_no_drift() -> None:
    none = np.empty(0, dtype=np.float32)
    assert layer_drift(np.array([0]), none, SETTINGS) == 0
    assert drift([], SETTINGS) == drift([(np.array([0]), none)], SETTINGS) == 0.0


@pytest.mark.parametrize(("stale", "drifted", "wants"), [(0.3, 0.1, False), (0.31, 0.0, True), (0.0, 0.11, True)])
def test_either_figure_may_ask_for_a_full_build(stale: float, drifted: float, wants: bool) -> None:
    assert wants_full_build(stale, drifted) is wants


@given(st.integers(0, 500), st.integers(0, 500))
def test_no_update_leaves_a_tree_that_wants_a_full_build(changed: int, leaves: int) -> None:
    stale = staleness(added=changed, changed=0, removed=0, leaf_count=leaves)
    assert is_update(changed, leaves) is not wants_full_build(stale, 0.0)


@pytest.mark.parametrize(
    ("changed", "leaves", "holds"), [(0, 0, True), (3, 10, True), (4, 10, False), (68, 145, False)]
)
def test_few_changes_are_an_update(changed: int, leaves: int, holds: bool) -> None:
    assert is_update(changed, leaves) is holds
