"""The shape of a knowledge base's tree: built whole, then changed; what stays as it is, and what is made again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from corpusmesh_core.artefacts.skeletons import pack_skeleton, unpack_skeleton
from corpusmesh_core.errors import InternalError
from corpusmesh_core.records import Ordinal, chunk_record_id
from corpusmesh_core.trees.clustering import group_layer
from corpusmesh_core.trees.planting import join, placements
from corpusmesh_core.trees.regrouping import OldLayer, regroup
from corpusmesh_core.trees.reuse import MAX_NODE_SOURCES, OldNodes, left_out, plan_layer
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.skeleton import (
    Skeleton,
    VersionLeaves,
    beneath,
    leaf_rows,
    plant,
    split_versions,
    version_leaves,
)
from corpusmesh_core.trees.values import KEY_BYTES, Leaf
from corpusmesh_core.trees.watershed import neighbour_cosines

SETTINGS = TreeSettings()
DIMENSION = 24


@dataclass(frozen=True)
class Document:
    """A version with one vector for each of its leaves."""

    version: int
    vectors: NDArray[np.float32]
    keys: NDArray[np.uint8]

    @property
    def leaves(self) -> VersionLeaves:
        return VersionLeaves(self.version, np.arange(len(self.keys), dtype=np.int32), self.keys)


@dataclass
class Built:
    """A tree with the vectors of each layer, and what the last build made."""

    skeleton: Skeleton
    made_counts: list[int]
    summarized: int
    vectors: list[NDArray[np.float32]]


def document(version: int, topic: NDArray[np.float32], count: int, rng: np.random.Generator) -> Document:
    vectors = topic + 0.6 * rng.normal(size=(count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    keys = rng.integers(0, 256, size=(count, KEY_BYTES), dtype=np.uint8)
    return Document(version, vectors.astype(np.float32), keys)


def library(count: int, rng: np.random.Generator) -> list[Document]:
    topics = rng.normal(size=(max(2, count // 10), DIMENSION)).astype(np.float32)
    return [document(place + 1, topics[place * len(topics) // count], 10, rng) for place in range(count)]


class Gardener:
    """Does with arrays alone what a build does with texts: full, or over the tree before."""

    def __init__(self) -> None:
        self.next_ordinal = 100_000

    def build(
        self,
        planted: Skeleton,
        vectors: NDArray[np.float32],
        old: Built | None = None,
        moved: NDArray[np.int64] | None = None,
    ) -> Built:
        built = Built(planted, [], 0, [vectors])
        nodes = OldNodes(old.skeleton if old is not None else None)
        rows, fresh = leaf_rows(planted), np.zeros(len(vectors), dtype=bool)
        nothing_gone = np.zeros(planted.leaf_count, dtype=bool)
        while len(vectors) > 1:
            number = len(built.skeleton.layers)
            cosines = neighbour_cosines(vectors)
            if old is not None and moved is not None and number < len(old.skeleton.layers):
                layer = old.skeleton.layers[number]
                before = OldLayer(
                    layer.bounds[:-1].astype(np.int64), len(old.skeleton.ground_keys(number + 1)), layer.threshold
                )
                found = regroup(before, moved, cosines, SETTINGS)
                clusters, moved, threshold = found.clusters, found.origins, layer.threshold
            else:
                grouping = group_layer(vectors, SETTINGS)
                assert grouping is not None
                clusters, threshold = grouping.clusters, grouping.threshold
                moved = np.full(len(clusters), -1, dtype=np.int64)
            dropped = left_out(built.skeleton, clusters, rows, nothing_gone)
            plan = plan_layer(built.skeleton, clusters, cosines, threshold, nodes, fresh=fresh, dropped=dropped)
            wanted = plan.wanted
            plan.layer.ordinals[wanted] = np.arange(self.next_ordinal, self.next_ordinal + len(wanted))
            self.next_ordinal += len(wanted)
            built.made_counts.append(len(wanted))
            fresh = np.zeros(len(plan.layer), dtype=bool)
            fresh[wanted] = plan.origins[wanted] == 0
            built.summarized += int(fresh.sum())
            vectors = np.stack([vectors[places].mean(axis=0) for places in clusters]).astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            built.skeleton = built.skeleton.with_layer(plan.layer)
            built.vectors.append(vectors)
            rows = beneath(rows, plan.layer)
        return built

    def full(self, documents: Sequence[Document], old: Built | None = None) -> Built:
        planted = plant("s", "g", b"f" * KEY_BYTES, [item.leaves for item in documents])
        return self.build(planted, np.concatenate([item.vectors for item in documents]), old)

    def change(self, old: Built, wanted: Sequence[Document], replaced: Mapping[int, int] | None = None) -> Built:
        by_version = {item.version: item for item in wanted}
        before = set(old.skeleton.versions.tolist())
        new = sorted(by_version.keys() - before)
        nearest = {}
        for version in new:
            centroid = by_version[version].vectors.mean(axis=0)
            cosines = old.vectors[0] @ centroid
            best = [int(place) for place in np.argsort(-cosines)[:16]]
            owners = old.skeleton.owners
            nearest[version] = [(int(old.skeleton.versions[owners[place]]), float(cosines[place])) for place in best]
            nearest[version] = [entry for entry in nearest[version] if entry[0] in by_version]
        added = [version for version in new if version not in (replaced or {})]
        joined = join(
            split_versions(old.skeleton),
            by_version.keys(),
            {version: by_version[version].leaves for version in new},
            replaced or {},
            placements(old.skeleton, added, nearest),
        )
        planted = plant("s", "g", b"f" * KEY_BYTES, joined.versions)
        vectors = np.concatenate([by_version[version].vectors for version in planted.versions.tolist()])
        return self.build(planted, vectors, old, joined.moved)


def ordinals_by_layer(skeleton: Skeleton) -> list[set[int]]:
    return [set(layer.ordinals.tolist()) for layer in skeleton.layers]


def rewritten(before: Built, after: Built) -> list[int]:
    """Count the nodes of each layer that are not there any more."""
    old, new = ordinals_by_layer(before.skeleton), ordinals_by_layer(after.skeleton)
    new += [set() for _ in range(len(old) - len(new))]
    return [len(one - other) for one, other in zip(old, new, strict=False)]


def check_whole(skeleton: Skeleton) -> None:
    """Every leaf is reached from the top once; every node has an ordinal of its own."""
    rows = leaf_rows(skeleton)
    for layer in skeleton.layers:
        assert layer.bounds[0] == 0
        assert layer.children.tolist() == list(range(len(rows))), "contiguous and complete"
        rows = beneath(rows, layer)
    assert len(rows) == 1
    assert rows[0].tolist() == list(range(skeleton.leaf_count))
    assert len(set(skeleton.ordinals.tolist())) == sum(len(layer) for layer in skeleton.layers)


@pytest.mark.parametrize("seed", range(5))
def test_new_document_rewrites_two_nodes_of_a_layer_at_most_and_costs_little(seed: int) -> None:
    rng = np.random.default_rng(seed)
    documents = library(200, rng)
    gardener = Gardener()
    tree = gardener.full(documents)
    check_whole(tree.skeleton)
    another = document(900, documents[57].vectors.mean(axis=0), 10, rng)
    after = gardener.change(tree, [*documents, another])
    check_whole(after.skeleton)
    assert max(rewritten(tree, after)) <= 2
    assert after.summarized <= 0.03 * tree.summarized


@pytest.mark.parametrize("seed", range(5))
def test_changed_document_costs_three_percent_of_a_full_build_and_keeps_what_it_says_again(seed: int) -> None:
    rng = np.random.default_rng(seed)
    documents = library(200, rng)
    gardener = Gardener()
    tree = gardener.full(documents)
    old = documents[120]
    fresh = document(901, old.vectors.mean(axis=0), 10, rng)
    vectors, keys = old.vectors.copy(), old.keys.copy()
    vectors[4], keys[4] = fresh.vectors[4], fresh.keys[4]
    changed = Document(901, vectors, keys)
    wanted = [item for item in documents if item is not old] + [changed]
    after = gardener.change(tree, wanted, {901: old.version})
    check_whole(after.skeleton)
    assert after.summarized <= 0.03 * tree.summarized
    assert after.summarized <= sum(after.made_counts), "what says the same is taken over under a new ordinal"
    assert old.version not in after.skeleton.versions
    # The same document at the same place: nothing is summarized at all.
    again = gardener.change(after, wanted)
    assert (sum(again.made_counts), again.summarized) == (0, 0)
    assert ordinals_by_layer(again.skeleton) == ordinals_by_layer(after.skeleton)


@pytest.mark.parametrize("seed", range(5))
def test_removed_document_leaves_what_it_does_not_touch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    documents = library(100, rng)
    gardener = Gardener()
    tree = gardener.full(documents)
    gone = documents[33]
    after = gardener.change(tree, [item for item in documents if item is not gone])
    check_whole(after.skeleton)
    assert gone.version not in after.skeleton.versions
    rows = leaf_rows(tree.skeleton)
    kept: set[int] = set()
    for layer in tree.skeleton.layers:
        rows = beneath(rows, layer)
        touched = [gone.version in tree.skeleton.versions[tree.skeleton.owners[leaves]] for leaves in rows]
        kept |= {int(ordinal) for ordinal, is_touched in zip(layer.ordinals, touched, strict=True) if not is_touched}
    stayed = kept & set(after.skeleton.ordinals.tolist())
    assert len(kept) - len(stayed) <= 2 * len(tree.skeleton.layers)


def test_many_changes_one_after_the_other_end_in_a_whole_tree() -> None:
    rng = np.random.default_rng(7)
    documents = library(40, rng)
    gardener = Gardener()
    tree = gardener.full(documents)
    for step in range(60):
        if rng.random() < 0.5 and len(documents) > 3:
            documents.pop(int(rng.integers(len(documents))))
        else:
            topic = documents[int(rng.integers(len(documents)))].vectors.mean(axis=0)
            documents.append(document(1000 + step, topic, int(rng.integers(1, 14)), rng))
        tree = gardener.change(tree, documents)
        assert set(tree.skeleton.versions.tolist()) == {item.version for item in documents}
        check_whole(tree.skeleton)


def test_full_build_takes_over_what_says_the_same() -> None:
    rng = np.random.default_rng(3)
    documents = library(30, rng)
    gardener = Gardener()
    tree = gardener.full(documents)
    again = gardener.full(documents, tree)
    assert (sum(again.made_counts), again.summarized) == (0, 0)
    renumbered = [replace(item, version=item.version + 500) for item in documents]
    copied = gardener.full(renumbered, tree)
    assert copied.summarized == 0
    assert sum(copied.made_counts) == len(copied.skeleton.ordinals), "other versions: other records"


def test_nodes_of_deleted_versions_and_of_too_many_are_left_out_with_all_above() -> None:
    rng = np.random.default_rng(1)
    tree = Gardener().full(library(3, rng))
    bare = replace(tree.skeleton, layers=())
    clusters = [np.arange(0, 15, dtype=np.int32), np.arange(15, 30, dtype=np.int32)]
    gone = np.zeros(30, dtype=bool)
    gone[2] = True
    assert left_out(bare, clusters, leaf_rows(bare), gone).tolist() == [True, False]
    many = plant(
        "s",
        "g",
        b"f",
        [
            VersionLeaves(place, np.zeros(1, np.int32), np.zeros((1, KEY_BYTES), np.uint8))
            for place in range(MAX_NODE_SOURCES + 2)
        ],
    )
    halves = np.array_split(np.arange(many.leaf_count, dtype=np.int32), [MAX_NODE_SOURCES])
    whole = [np.arange(many.leaf_count, dtype=np.int32)]
    none = np.zeros(many.leaf_count, dtype=bool)
    assert left_out(many, halves, leaf_rows(many), none).tolist() == [False, False]
    assert left_out(many, whole, leaf_rows(many), none).tolist() == [True]


def test_what_is_above_a_node_that_was_made_again_is_made_again() -> None:
    rng = np.random.default_rng(2)
    tree = Gardener().full(library(4, rng))
    first = replace(tree.skeleton, layers=tree.skeleton.layers[:1])
    above = tree.skeleton.layers[1]
    clusters = [above.children_of(node) for node in range(len(above))]
    fresh = np.zeros(len(first.layers[0]), dtype=bool)
    none = np.zeros(len(clusters), dtype=bool)
    old = OldNodes(tree.skeleton)
    same = plan_layer(first, clusters, above.cosines, above.threshold, old, fresh=fresh, dropped=none)
    assert not len(same.wanted)
    fresh[clusters[0][0]] = True
    again = plan_layer(first, clusters, above.cosines, above.threshold, old, fresh=fresh, dropped=none)
    assert again.wanted.tolist() == [0]
    assert again.origins[0] == 0


def test_attempts_that_want_other_nodes_reserve_other_ordinals() -> None:
    tree = Gardener().full(library(4, np.random.default_rng(2)))
    bare = replace(tree.skeleton, layers=())
    layer = tree.skeleton.layers[0]
    clusters = [layer.children_of(node) for node in range(len(layer))]
    none = np.zeros(len(clusters), dtype=bool)
    fresh = np.zeros(bare.leaf_count, dtype=bool)

    def slot(planted: Skeleton, dropped: NDArray[np.bool_], number: int = 1) -> str:
        plan = plan_layer(planted, clusters, layer.cosines, 0.0, OldNodes(None), fresh=fresh, dropped=dropped)
        return plan.slot(7, number)

    first = slot(bare, none)
    assert slot(bare, none) == first, "a task that runs twice writes over itself"
    without = none.copy()
    without[0] = True
    other = replace(bare, fingerprint=b"other settings")
    assert len({first, slot(bare, without), slot(other, none), slot(bare, none, 2)}) == 4


def test_shape_is_read_as_it_was_written() -> None:
    tree = Gardener().full(library(12, np.random.default_rng(4))).skeleton
    read = unpack_skeleton(pack_skeleton(replace(tree, full_leaf_count=7, changed_leaf_count=3)))
    assert (read.space_id, read.grouping, read.fingerprint) == (tree.space_id, tree.grouping, tree.fingerprint)
    assert (read.full_leaf_count, read.changed_leaf_count, len(read.layers)) == (7, 3, len(tree.layers))
    assert read.ordinals.tolist() == tree.ordinals.tolist()
    assert [read.leaf_record_id(leaf) for leaf in range(3)] == [tree.leaf_record_id(leaf) for leaf in range(3)]
    assert read.layers[0].record_id(0) == tree.layers[0].record_id(0)
    for packed in (b"", b"nonsense", pack_skeleton(tree)[:-9]):
        with pytest.raises(InternalError, match="tree"):
            unpack_skeleton(packed)


def test_leaves_of_a_version_keep_their_positions_though_some_chunks_are_none() -> None:
    leaves = [
        Leaf(chunk_record_id(Ordinal(9), position), bytes([position]) * KEY_BYTES, "text", 3, Ordinal(9))
        for position in (0, 2, 5)
    ]
    entry = version_leaves(9, leaves)
    assert entry.positions.tolist() == [0, 2, 5]
    tree = plant("s", "g", b"f", [version_leaves(8, ()), entry])
    assert [tree.leaf_record_id(leaf) for leaf in range(3)] == [leaf.record_id for leaf in leaves]
    assert [len(item.positions) for item in split_versions(tree)] == [0, 3]


def test_new_document_goes_to_the_side_whose_neighbour_is_more_like_it() -> None:
    rng = np.random.default_rng(5)
    old = plant("s", "g", b"f", [item.leaves for item in library(5, rng)])
    [left] = placements(old, [9], {9: [(3, 0.9), (2, 0.8), (4, 0.1)]})
    assert (left.anchor, left.before) == (3, True)
    [right] = placements(old, [9], {9: [(3, 0.9), (4, 0.8)]})
    assert (right.anchor, right.before) == (3, False)
    assert placements(old, [9], {9: []}) == ()
