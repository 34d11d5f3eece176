"""A plan of an update against the update itself, as the parts of a build that are pure make it."""

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.trees.clustering import centroids, group_layer
from corpusmesh_core.trees.reuse import OldNodes, plan_layer
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.skeleton import Skeleton, VersionLeaves, plant
from corpusmesh_core.trees.update_plan import NewLeaves, plan_update
from corpusmesh_core.trees.values import TreeCost

SETTINGS = TreeSettings.of({"tree": {"scope": "dataset"}})
MODEL = TreeSettings.of({"tree": {"scope": "dataset", "summaries": "llm"}})
LEAVES = 10
DIMENSION = 16


def vectors_of(version: int, count: int = LEAVES) -> NDArray[np.float32]:
    rng = np.random.default_rng(version)
    drawn = rng.normal(size=(count, DIMENSION)) + 2.0 * rng.normal(size=DIMENSION)
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


def keys_of(version: int, count: int = LEAVES) -> NDArray[np.uint8]:
    return np.random.default_rng(1000 + version).integers(0, 256, (count, 16), dtype=np.uint8)


def entry(version: int, keys: NDArray[np.uint8] | None = None, count: int = LEAVES) -> VersionLeaves:
    return VersionLeaves(version, np.arange(count, dtype=np.int32), keys_of(version, count) if keys is None else keys)


def new_leaves(version: int, keys: NDArray[np.uint8] | None = None, count: int = LEAVES) -> NewLeaves:
    return NewLeaves(entry(version, keys, count), np.full(count, 100, dtype=np.int64), vectors_of(version, count))


def built(version_count: int) -> Skeleton:
    """Build a tree of everything, ordinals counted up."""
    skeleton = plant("space", "g", b"f" * 16, [entry(version) for version in range(1, version_count + 1)])
    vectors = np.concatenate([vectors_of(version) for version in range(1, version_count + 1)])
    nothing, ordinal = OldNodes(None), 1000
    while (grouping := group_layer(vectors, SETTINGS)) is not None:
        count = len(grouping.clusters)
        plan = plan_layer(
            skeleton, grouping.clusters, grouping.similarities, grouping.threshold, nothing,
            fresh=np.zeros(len(vectors), bool), dropped=np.zeros(count, bool),
        )  # fmt: skip
        plan.layer.ordinals[:] = np.arange(ordinal, ordinal + count)
        ordinal += count
        skeleton = skeleton.with_layer(plan.layer)
        vectors = centroids(vectors, grouping)
    return skeleton


OLD = built(40)
ALL = range(1, 41)


def made_count(cost: TreeCost) -> int:
    return cost.extractive_node_count + cost.model_node_count


def test_nothing_changed_costs_nothing() -> None:
    cost, changed = plan_update(OLD, list(ALL), {}, {}, SETTINGS)
    assert (changed, made_count(cost)) == (0, 0)
    assert cost.layer_node_counts == [len(layer) for layer in OLD.layers]
    assert cost.reused_node_count == sum(cost.layer_node_counts)


def test_a_new_document_costs_its_own_nodes_and_few_others() -> None:
    cost, changed = plan_update(OLD, list(ALL), {99: new_leaves(99)}, {}, SETTINGS)
    assert (changed, cost.leaf_count) == (LEAVES, 41 * LEAVES)
    # At most two nodes of each layer beside those that are new.
    grown = sum(cost.layer_node_counts) - sum(len(layer) for layer in OLD.layers)
    assert 1 <= made_count(cost) <= grown + 2 * len(OLD.layers)
    assert cost.reused_node_count == sum(cost.layer_node_counts) - made_count(cost)
    assert cost.model_call_count == 0


def test_a_changed_chunk_costs_the_path_above_it() -> None:
    keys = keys_of(7)
    keys[4] = 0
    kept = [version for version in ALL if version != 7]
    new = {99: NewLeaves(entry(99, keys), np.full(LEAVES, 100, dtype=np.int64), vectors_of(7))}
    cost, changed = plan_update(OLD, kept, new, {99: 7}, MODEL)
    assert changed == 1
    # Nodes beside it keep their texts: their keys are those of before, though their chunks are of another version.
    assert cost.model_call_count == made_count(cost) == len(OLD.layers)
    assert cost.output_token_count == len(OLD.layers) * MODEL.effective_summary_tokens
    assert cost.input_token_count > 0


def test_a_removed_document_costs_less_than_its_share() -> None:
    kept = [version for version in ALL if version != 20]
    cost, changed = plan_update(OLD, kept, {}, {}, SETTINGS)
    assert (changed, cost.leaf_count) == (LEAVES, 39 * LEAVES)
    assert made_count(cost) <= 3 * len(OLD.layers)


def test_everything_removed_ends() -> None:
    cost, changed = plan_update(OLD, [], {}, {}, SETTINGS)
    assert (cost.leaf_count, cost.layer_node_counts, changed) == (0, [], 40 * LEAVES)


def test_a_document_without_chunks_costs_nothing() -> None:
    cost, _ = plan_update(OLD, list(ALL), {99: new_leaves(99, count=0)}, {}, SETTINGS)
    assert made_count(cost) == 0
