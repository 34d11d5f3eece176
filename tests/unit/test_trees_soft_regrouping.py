"""Soft clusters are carried over: who was together stays together, who is new joins its like."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from corpusmesh_core.trees.regrouping import INSERTED
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.soft_regrouping import regroup_softly
from corpusmesh_core.trees.values import Vectors
from tests.support.tree_growing import walk

SETTINGS = TreeSettings(max_cluster_size=4)


def clusters(*members: tuple[int, ...]) -> list[NDArray[np.int32]]:
    return [np.array(places, dtype=np.int32) for places in members]


def regrouped(
    old: list[NDArray[np.int32]], origins: list[int], vectors: Vectors
) -> tuple[list[list[int]], list[int]] | None:
    found = regroup_softly(old, np.array(origins, dtype=np.int64), vectors, SETTINGS)
    if found is None:
        return None
    return [cluster.tolist() for cluster in found.clusters], found.origins.tolist()


OLD = clusters((0, 1, 2), (2, 3), (3, 4, 5))
AXES = np.eye(8, dtype=np.float32)


@pytest.mark.parametrize(
    ("origins", "vectors", "expected"),
    [
        ([0, 1, 2, 3, 4, 5], AXES[:6], ([[0, 1, 2], [2, 3], [3, 4, 5]], [0, 1, 2])),
        # A new one, most like the third, whose clusters it joins both.
        ([0, 1, 2, INSERTED, 3, 4, 5], AXES[[0, 1, 2, 2, 3, 4, 5]], ([[0, 1, 2, 3], [2, 3, 4], [4, 5, 6]], [0, 1, 2])),
        # The fourth is gone, and what is left of its first cluster is a cluster still.
        ([0, 1, 2, 4, 5], AXES[:5], ([[0, 1, 2], [2], [3, 4]], [0, 1, 2])),
        # Two clusters that have become the same are one.
        ([0, 1, 2], AXES[:3], ([[0, 1, 2], [2]], [0, 1])),
        # More than a cluster holds.
        ([0, 1, 2, INSERTED, INSERTED, 3, 4, 5], AXES[[0, 1, 2, 2, 2, 3, 4, 5]], None),
        # As many clusters as children.
        ([2, 3], AXES[:2], None),
        ([INSERTED] * 3, AXES[:3], None),
    ],
)
def test_clusters_are_carried_over(
    origins: list[int], vectors: Vectors, expected: tuple[list[list[int]], list[int]] | None
) -> None:
    assert regrouped(OLD, origins, vectors) == expected


@settings(max_examples=50, deadline=None)
@given(st.data(), st.integers(2, 30))
def test_whatever_holds_is_complete_and_smaller_than_its_ground(data: st.DataObject, count: int) -> None:
    old = [np.unique(np.array([place, data.draw(st.integers(0, count - 1))], dtype=np.int32)) for place in range(count)]
    origins = data.draw(st.lists(st.integers(INSERTED, count - 1), min_size=1, max_size=30))
    vectors = walk(len(origins), 4, seed=data.draw(st.integers(0, 9)))
    if data.draw(st.booleans()):
        vectors[0] = np.nan
    found = regroup_softly(old, np.array(origins, dtype=np.int64), vectors, SETTINGS)
    if found is not None:
        assert set(np.concatenate(found.clusters).tolist()) == set(range(len(origins)))
        assert len(found.clusters) == len(found.origins) < len(origins)
