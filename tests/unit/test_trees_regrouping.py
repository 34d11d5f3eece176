"""What a change of its children does to the clusters of a layer, and what it leaves alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.trees.clustering import centroids, group_layer
from corpusmesh_core.trees.keys import node_key
from corpusmesh_core.trees.regrouping import INSERTED, OldLayer, Regrouping, regroup
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.values import Vectors
from corpusmesh_core.trees.watershed import neighbour_cosines

ALIKE = 0.9
UNLIKE = 0.1
TEN = [0, 3, 6]
"""Ten old children in clusters 0-2, 3-5 and 6-9."""
SETTINGS = TreeSettings()


def step(
    origins: Sequence[int],
    cosines: Sequence[float],
    *,
    starts: Sequence[int] = TEN,
    count: int = 10,
    tree: TreeSettings = SETTINGS,
) -> Regrouping:
    old = OldLayer(np.array(starts, dtype=np.int64), count, 0.5)
    return regroup(old, np.array(origins, dtype=np.int64), np.array(cosines, dtype=np.float32), tree)


def inserted_at(place: int, links: Sequence[float], *, tree: TreeSettings = SETTINGS) -> Regrouping:
    """Insert a run before an old place, linked to its neighbours and within itself by `links`; all else is unlike."""
    run = len(links) - 1
    cosines = [UNLIKE] * (9 + run)
    cosines[place - 1 : place - 1 + len(links)] = links
    return step([*range(place), *[INSERTED] * run, *range(place, 10)], cosines, tree=tree)


def plain(regrouping: Regrouping) -> list[list[int]]:
    return [cluster.tolist() for cluster in regrouping.clusters]


def test_without_a_change_every_boundary_stays_whatever_the_threshold_says() -> None:
    for cosine in (ALIKE, UNLIKE):
        found = step(range(10), [cosine] * 9)
        assert plain(found) == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9]]
        assert found.origins.tolist() == [0, 1, 2]


def test_an_insertion_that_is_like_its_neighbours_joins_their_cluster() -> None:
    found = inserted_at(4, [ALIKE, ALIKE])
    assert plain(found) == [[0, 1, 2], [3, 4, 5, 6], [7, 8, 9, 10]]
    assert found.origins.tolist() == [0, 1, 2]


def test_an_insertion_that_fits_neither_side_splits_the_cluster_it_stands_in() -> None:
    found = inserted_at(8, [UNLIKE, ALIKE, UNLIKE], tree=TreeSettings(clustering_threshold=0.5))
    assert plain(found) == [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9], [10, 11]]
    assert found.origins.tolist() == [0, 1, 2, INSERTED, 2]


def test_what_an_insertion_leaves_alone_joins_it_and_no_other_old_cluster() -> None:
    found = inserted_at(4, [UNLIKE, UNLIKE])
    assert plain(found) == [[0, 1, 2], [3, 4], [5, 6], [7, 8, 9, 10]]
    assert found.origins.tolist() == [0, 1, 1, 2]
    assert plain(inserted_at(4, [0.1, 0.2])) == plain(found), "the old child before it has no other judged gap"


def test_a_lone_insertion_joins_the_side_that_is_more_alike() -> None:
    assert plain(inserted_at(8, [0.2, 0.1])) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]
    assert plain(inserted_at(8, [0.1, 0.2])) == [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9, 10]]


def test_a_run_is_cut_by_the_threshold() -> None:
    found = inserted_at(4, [ALIKE, UNLIKE, ALIKE, UNLIKE, ALIKE])
    assert plain(found) == [[0, 1, 2], [3, 4], [5, 6], [7, 8, 9], [10, 11, 12, 13]]
    assert found.origins.tolist() == [0, 1, INSERTED, 1, 2]


def test_an_insertion_where_two_clusters_meet_goes_to_the_one_that_it_is_more_like() -> None:
    assert plain(inserted_at(3, [0.8, ALIKE])) == [[0, 1, 2], [3, 4, 5, 6], [7, 8, 9, 10]]
    assert plain(inserted_at(3, [ALIKE, 0.8])) == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9, 10]]


def test_an_insertion_before_the_first_and_after_the_last_is_judged_at_its_one_gap() -> None:
    first = step([INSERTED, *range(10)], [ALIKE] + [UNLIKE] * 9)
    assert plain(first) == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9, 10]]
    last = step([*range(10), INSERTED], [UNLIKE] * 10)
    assert plain(last) == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9, 10]]
    assert last.origins.tolist() == [0, 1, 2]
    two = step([*range(10), INSERTED, INSERTED], [UNLIKE] * 10 + [ALIKE])
    assert plain(two) == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9], [10, 11]]
    assert two.origins.tolist() == [0, 1, 2, INSERTED]


def test_a_removed_child_leaves_and_its_neighbours_are_judged() -> None:
    kept = [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11]
    old = {"starts": [0, 3, 9], "count": 12}
    assert plain(step(kept, [ALIKE] * 10, **old)) == [[0, 1, 2], [3, 4, 5, 6, 7], [8, 9, 10]]
    parted = step(kept, [UNLIKE] * 10, **old)
    assert plain(parted) == [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9, 10]]
    assert parted.origins.tolist() == [0, 1, 1, 2]


def test_clusters_join_where_what_stood_between_them_is_removed_and_they_are_alike() -> None:
    kept = [0, 1, 4, 5, 6, 7, 8, 9, INSERTED]
    found = step(kept, [ALIKE] * 7 + [UNLIKE])
    assert plain(found) == [[0, 1, 2, 3], [4, 5, 6, 7, 8]]
    assert found.origins.tolist() == [0, 2]


def test_a_cluster_of_which_nothing_is_left_is_gone() -> None:
    found = step([0, 1, 2, 6, 7, 8, 9, INSERTED, INSERTED], [UNLIKE] * 7 + [ALIKE])
    assert plain(found) == [[0, 1, 2], [3, 4, 5, 6], [7, 8]]
    assert found.origins.tolist() == [0, 2, INSERTED]


def test_parts_of_one_old_child_stay_together() -> None:
    found = step([0, 1, 2, 3, 3, 3, 4, 5, 6, 7, 8, 9], [UNLIKE] * 11)
    assert plain(found) == [[0, 1, 2], [3, 4, 5, 6, 7], [8, 9, 10, 11]]


def test_a_child_out_of_order_counts_as_inserted() -> None:
    found = step([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1], [UNLIKE] * 10 + [ALIKE])
    assert plain(found)[-1] == [10, 11]
    assert found.origins.tolist() == [0, 1, 2, INSERTED]


def test_a_cluster_that_grew_too_large_is_cut_at_its_weakest_link() -> None:
    tree = TreeSettings(max_cluster_size=4)
    cosines = [ALIKE] * 10
    cosines[7] = 0.7
    found = step([*range(10), INSERTED], cosines, tree=tree)
    assert plain(found) == [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9, 10]]
    assert found.origins.tolist() == [0, 1, 2, 2]


def test_a_small_layer_is_one_cluster_of_the_origin_that_it_has_most_of() -> None:
    found = step([3, 4, 6, 7, 8, 9], [UNLIKE] * 5)
    assert plain(found) == [[0, 1, 2, 3, 4, 5]]
    assert found.origins.tolist() == [2]


def test_a_layer_that_outgrows_one_cluster_is_judged_at_every_gap() -> None:
    found = step([*range(8), INSERTED], [ALIKE, ALIKE, UNLIKE] * 2 + [ALIKE, ALIKE], starts=[0], count=8)
    assert plain(found) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert found.origins.tolist() == [0, 0, 0]


def test_a_layer_of_lone_clusters_after_removals_is_brought_back_to_its_ratio() -> None:
    # Twenty lone clusters and one of forty children, of which two are left.
    cosines = [UNLIKE + index / 100 for index in range(20)] + [ALIKE]
    found = step(range(22), cosines, starts=range(21), count=60)
    assert len(found.clusters) == 11 + 2 + 1
    assert plain(found)[:13] == [[index] for index in range(13)]


def test_insertions_that_are_like_nothing_do_not_make_as_many_clusters_as_children() -> None:
    starts, count = [0, 5], 10
    for _time in range(40):
        place = count // 2
        origins = [*range(place), INSERTED, *range(place, count)]
        found = step(origins, [UNLIKE] * count, starts=starts, count=count)
        starts, count = found.starts.tolist(), count + 1
        assert len(starts) <= 0.33 * count + 2
    assert count == 50


# A whole tree, as a build makes it; centroids stand in for the vectors of summaries.


@dataclass(frozen=True)
class Layer:
    keys: list[bytes]
    vectors: Vectors
    starts: np.ndarray
    child_count: int
    threshold: float


def digest(children: Sequence[bytes], clusters: Sequence[np.ndarray]) -> list[bytes]:
    return [node_key(b"f", [children[place] for place in cluster]) for cluster in clusters]


def leaf_keys(vectors: Vectors) -> list[bytes]:
    return [row.tobytes() for row in vectors]


def grow(vectors: Vectors, keys: list[bytes], tree: TreeSettings) -> list[Layer]:
    layers = []
    while (grouping := group_layer(vectors, tree)) is not None:
        count = len(vectors)
        keys, vectors = digest(keys, grouping.clusters), centroids(vectors, grouping)
        starts = np.array([cluster[0] for cluster in grouping.clusters], dtype=np.int64)
        layers.append(Layer(keys, vectors, starts, count, grouping.threshold))
    return layers


def update(
    old: list[Layer], vectors: Vectors, keys: list[bytes], origins: np.ndarray, tree: TreeSettings
) -> list[Layer]:
    layers: list[Layer] = []
    while len(vectors) > 1:
        if len(layers) == len(old):
            return layers + grow(vectors, keys, tree)
        before, count = old[len(layers)], len(vectors)
        cosines = neighbour_cosines(vectors)
        found = regroup(OldLayer(before.starts, before.child_count, before.threshold), origins, cosines, tree)
        keys, origins = digest(keys, found.clusters), found.origins
        vectors = np.stack([vectors[cluster].mean(axis=0) for cluster in found.clusters])
        layers.append(Layer(keys, vectors, found.starts, count, before.threshold))
        assert len(vectors) < count
    return layers


def leaves_of(rng: np.random.Generator, count: int) -> Vectors:
    """Distinct vectors that drift and jump, as chunks of documents do."""
    jumps = np.cumsum(rng.random(count) < 0.3)
    centres = rng.normal(size=(count + 1, 8))
    return (centres[jumps] + rng.uniform(0.1, 1.5) * rng.normal(size=(count, 8))).astype(np.float32)


trees = st.builds(
    TreeSettings,
    clustering_threshold=st.floats(0.05, 0.9),
    clustering_ratio=st.floats(0.1, 0.9),
    small_layer_size=st.integers(2, 12),
    max_cluster_size=st.sampled_from([4, 6, 64]),
)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 120), st.integers(1, 12), st.floats(0, 1), trees)
def test_one_inserted_run_changes_at_most_two_old_nodes_of_each_layer(
    seed: int, count: int, run: int, where: float, tree: TreeSettings
) -> None:
    rng = np.random.default_rng(seed)
    vectors, new = leaves_of(rng, count), leaves_of(rng, run)
    place = round(where * count)
    old = grow(vectors, leaf_keys(vectors), tree)
    vectors = np.insert(vectors, place, new, axis=0)
    origins = np.insert(np.arange(count), place, [INSERTED] * run)
    updated = update(old, vectors, leaf_keys(vectors), origins, tree)
    for before, after in zip(old, updated, strict=False):
        left = [key for key in before.keys if key not in set(after.keys)]
        assert len(left) <= 2
        # All else is as it was, in the same order.
        assert [key for key in after.keys if key in set(before.keys)] == [key for key in before.keys if key not in left]
    assert len(updated[-1].keys) == 1


changes = st.lists(st.tuples(st.floats(0, 1), st.integers(1, 8), st.booleans()), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 80), changes, trees)
def test_after_any_changes_the_tree_ends_covers_each_leaf_once_and_keeps_its_proportions(
    seed: int, count: int, steps: list[tuple[float, int, bool]], tree: TreeSettings
) -> None:
    rng = np.random.default_rng(seed)
    vectors = leaves_of(rng, count)
    layers = grow(vectors, leaf_keys(vectors), tree)
    for where, run, removes in steps:
        count = len(vectors)
        if removes:
            first = round(where * count)
            gone = np.arange(first, min(first + run, count))
            if len(gone) == count:
                continue
            vectors, origins = np.delete(vectors, gone, axis=0), np.delete(np.arange(count), gone)
        else:
            place = round(where * count)
            vectors = np.insert(vectors, place, leaves_of(rng, run), axis=0)
            origins = np.insert(np.arange(count), place, [INSERTED] * run)
        layers = update(layers, vectors, leaf_keys(vectors), origins, tree)
        child_count = len(vectors)
        for layer in layers:
            sizes = np.diff(layer.starts, append=child_count)
            assert layer.child_count == child_count
            assert layer.starts[0] == 0
            assert (sizes > 0).all()
            assert sizes.max() <= max(tree.max_cluster_size, tree.small_layer_size)
            assert len(layer.starts) < child_count
            child_count = len(layer.starts)
        assert child_count == 1


@pytest.mark.parametrize("seed", range(3))
def test_many_insertions_keep_the_layers_as_small_as_a_full_build_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = leaves_of(rng, 100)
    layers = grow(vectors, leaf_keys(vectors), SETTINGS)
    for _document in range(60):
        count, run = len(vectors), int(rng.integers(1, 10))
        place = int(rng.integers(0, count + 1))
        vectors = np.insert(vectors, place, leaves_of(rng, run), axis=0)
        origins = np.insert(np.arange(count), place, [INSERTED] * run)
        layers = update(layers, vectors, leaf_keys(vectors), origins, SETTINGS)
    nodes = sum(len(layer.keys) for layer in layers)
    fresh = sum(len(layer.keys) for layer in grow(vectors, leaf_keys(vectors), SETTINGS))
    assert nodes <= 1.2 * fresh
    assert len(layers) <= 7
