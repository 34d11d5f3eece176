"""One layer of a tree, and whole trees of layers."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from corpusmesh_core.trees.clustering import Grouping, asks_for_mixture, centroids, group_layer
from corpusmesh_core.trees.keys import node_key
from corpusmesh_core.trees.settings import TreeMethod, TreeSettings
from corpusmesh_core.trees.values import Vectors

SETTINGS = TreeSettings()

any_value = st.floats(width=32) | st.sampled_from([0.0, 1.0, -1.0, 1e38, float("nan"), float("inf")])
any_matrix = hnp.arrays(
    np.float32, st.tuples(st.integers(0, 150), st.integers(1, 4)), elements=any_value, fill=st.sampled_from([0.0, 1.0])
)
trees = st.builds(
    TreeSettings,
    clustering_threshold=st.floats(0.01, 0.99),
    clustering_ratio=st.floats(0.05, 0.9),
    small_layer_size=st.integers(2, 64),
    max_cluster_size=st.integers(4, 128),
)


def grow(vectors: Vectors, tree: TreeSettings) -> list[Grouping]:
    layers = []
    while (grouping := group_layer(vectors, tree)) is not None:
        layers.append(grouping)
        vectors = centroids(vectors, grouping)
        assert len(layers) < 100
    return layers


def keys_of(vectors: Vectors, layers: Sequence[Grouping]) -> list[list[bytes]]:
    keys = [[row.tobytes() for row in vectors]]
    for layer in layers:
        keys.append([node_key(b"fingerprint", [keys[-1][place] for place in cluster]) for cluster in layer.clusters])
    return keys


@settings(deadline=None)
@given(any_matrix, trees)
def test_any_matrix_ends_in_one_node_that_reaches_each_leaf_exactly_once(vectors: Vectors, tree: TreeSettings) -> None:
    layers = grow(vectors, tree)
    beneath: list[list[int]] = [[place] for place in range(len(vectors))]
    for layer in layers:
        assert len(layer.clusters) < len(beneath)
        assert np.concatenate(layer.clusters).tolist() == list(range(len(beneath)))
        assert max(layer.sizes) <= max(tree.max_cluster_size, tree.small_layer_size)
        beneath = [[leaf for place in cluster for leaf in beneath[place]] for cluster in layer.clusters]
    assert beneath == ([list(range(len(vectors)))] if len(vectors) else [])


@settings(deadline=None)
@given(any_matrix, trees)
def test_the_same_vectors_give_the_same_keys_however_they_lie_in_memory(vectors: Vectors, tree: TreeSettings) -> None:
    first = keys_of(vectors, grow(vectors, tree))
    again = keys_of(vectors, grow(np.asfortranarray(vectors.copy()), tree))
    assert first == again


@pytest.mark.parametrize("count", [0, 1])
def test_a_layer_of_at_most_one_node_has_nothing_above_it(count: int) -> None:
    assert group_layer(np.ones((count, 3), dtype=np.float32), SETTINGS) is None


def test_a_small_layer_is_one_cluster_and_keeps_its_threshold_for_later() -> None:
    vectors = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    grouping = group_layer(vectors, SETTINGS)
    assert grouping is not None
    assert [cluster.tolist() for cluster in grouping.clusters] == [list(range(8))]
    assert -1 < grouping.threshold < 1


def test_a_layer_above_the_small_size_is_parted() -> None:
    vectors = np.random.default_rng(0).normal(size=(9, 16)).astype(np.float32)
    grouping = group_layer(vectors, SETTINGS)
    assert grouping is not None
    assert len(grouping.clusters) == 3


def test_topics_that_follow_one_another_are_the_clusters() -> None:
    rng = np.random.default_rng(0)
    lengths = [5, 3, 4, 6, 2, 5, 3]
    centres = rng.normal(size=(len(lengths), 64))
    topics = np.repeat(np.arange(len(lengths)), lengths)
    vectors = (centres[topics] + 0.1 * rng.normal(size=(len(topics), 64))).astype(np.float32)
    # Six of the twenty-seven pairs are of two topics.
    grouping = group_layer(vectors, TreeSettings(clustering_threshold=0.22))
    assert grouping is not None
    assert list(grouping.sizes) == lengths


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
def test_vectors_that_are_all_alike_make_no_node_of_all_of_them(value: float) -> None:
    vectors = np.full((1000, 8), value, dtype=np.float32)
    layers = grow(vectors, SETTINGS)
    assert [len(layer.clusters) for layer in layers] == [16, 1]
    assert min(layers[0].sizes) >= 16


@pytest.mark.parametrize("count", [50, 200, 1000, 5000])
def test_a_tree_has_at_most_45_nodes_for_100_leaves(count: int) -> None:
    rng = np.random.default_rng(count)
    drifting = np.cumsum(rng.normal(size=(count, 32)), axis=0) + 3 * rng.normal(size=(count, 32))
    layers = grow(drifting.astype(np.float32), SETTINGS)
    assert sum(len(layer.clusters) for layer in layers) <= 0.45 * count + 2


def test_the_centroid_of_a_cluster_is_its_mean_direction() -> None:
    vectors = np.array([[1, 0], [0, 1], [0, 0], [np.nan, 1], [2, 0]], dtype=np.float32)
    clusters = tuple(np.array(each, dtype=np.int32) for each in ([0, 1], [2], [3, 4], [0, 4]))
    means = centroids(vectors, Grouping(clusters, np.zeros(4, dtype=np.float32), 0.0))
    np.testing.assert_allclose(means, [[0.5**0.5, 0.5**0.5], [0, 0], [0, 0], [1, 0]], atol=1e-6)


# Soft clusters.

MIXTURE = TreeSettings(method=TreeMethod.MIXTURE)


def soft(count: int, found: Sequence[Sequence[int]], tree: TreeSettings = MIXTURE) -> list[list[int]]:
    vectors = np.random.default_rng(0).normal(size=(count, 8)).astype(np.float32)
    grouping = group_layer(vectors, tree, cluster=[np.array(each, dtype=np.int32) for each in found])
    assert grouping is not None
    return [cluster.tolist() for cluster in grouping.clusters]


def test_soft_clusters_may_share_nodes_and_come_ordered_by_their_first() -> None:
    assert soft(10, [[9, 4, 5], [3, 1, 0, 2, 4], [6, 7, 8]]) == [[0, 1, 2, 3, 4], [4, 5, 9], [6, 7, 8]]


def test_soft_clusters_of_the_same_nodes_are_one() -> None:
    assert soft(9, [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [5, 6, 7, 8], []]) == [[0, 1, 2, 3, 4], [5, 6, 7, 8]]


def test_a_node_that_no_soft_cluster_has_is_in_one_nevertheless() -> None:
    assert soft(10, [[0, 1, 2, 3], [5, 6, 8]]) == [[0, 1, 2, 3], [4, 7, 9], [5, 6, 8]]


def test_soft_clusters_that_do_not_shrink_the_layer_are_one() -> None:
    assert soft(9, [[place] for place in range(9)]) == [list(range(9))]


def test_a_soft_cluster_that_is_too_large_is_cut() -> None:
    sizes = [len(cluster) for cluster in soft(100, [list(range(0, 100, 2)), list(range(1, 100, 2))])]
    assert sizes == [50, 50]
    tree = TreeSettings(method=TreeMethod.MIXTURE, max_cluster_size=20)
    found = soft(100, [list(range(0, 100, 2)), list(range(1, 100, 2))], tree)
    assert max(len(cluster) for cluster in found) <= 20
    assert Counter(place for cluster in found for place in cluster) == Counter(range(100))


def test_the_watershed_stands_in_for_a_mixture_that_was_not_found() -> None:
    vectors = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    stood_in, hard = group_layer(vectors, MIXTURE), group_layer(vectors, SETTINGS)
    assert stood_in is not None
    assert hard is not None
    assert [each.tolist() for each in stood_in.clusters] == [each.tolist() for each in hard.clusters]


def test_a_mixture_is_asked_for_where_a_layer_is_not_small() -> None:
    assert asks_for_mixture(9, MIXTURE)
    assert not asks_for_mixture(8, MIXTURE)
    assert not asks_for_mixture(9, SETTINGS)


soft_clusters = st.lists(st.lists(st.integers(0, 39), max_size=40), max_size=50)


@settings(deadline=None)
@given(soft_clusters, st.integers(4, 64))
def test_any_soft_clusters_cover_every_node_and_are_fewer_than_nodes(found: list[list[int]], max_size: int) -> None:
    clusters = soft(40, found, TreeSettings(method=TreeMethod.MIXTURE, max_cluster_size=max_size))
    assert {place for cluster in clusters for place in cluster} == set(range(40))
    assert len(clusters) < 40
    assert max(map(len, clusters)) <= max_size
    assert clusters == sorted(clusters)
    assert len({tuple(cluster) for cluster in clusters}) == len(clusters)
