"""What bringing a tree up to date would cost: its layers are regrouped as a build regroups them, without their vectors.

Of what changed the vectors are known; between things that stay the tree's shape says how alike they are. Only where
something new stands beside something old nobody knows without the index: those are taken to belong together, so that a
plan tells rather more nodes than are made (of 200 documents, twenty new ones: 89 planned, 77 made). Where new documents
go is decided by the index too; here they are spread evenly over the tree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.token_estimate import estimate_tokens
from corpusmesh_core.trees.cost import PROMPT_TOKENS, plan_node, summary_tokens
from corpusmesh_core.trees.planting import Placement, join
from corpusmesh_core.trees.regrouping import OldLayer, regroup
from corpusmesh_core.trees.reuse import OldNodes, plan_layer
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.skeleton import Skeleton, VersionLeaves, plant, split_versions
from corpusmesh_core.trees.values import Child, TreeCost, Vectors

_MADE: Final = 2**30
"""Stands for the ordinal of a node that is made."""


@dataclass(frozen=True, slots=True)
class NewLeaves:
    """Leaves of a version that the tree does not hold yet.

    Attributes:
        leaves: Positions and keys.
        token_counts: Tokens of each, int64.
        vectors: Shape (leaves, dimension), unit norm.
    """

    leaves: VersionLeaves
    token_counts: NDArray[np.int64]
    vectors: Vectors


@dataclass(slots=True)
class _Ground:
    """A layer: what is known of it.

    Attributes:
        vectors: Shape (n, dimension); zeros where unknown.
        old_places: Place in the same layer of the tree before; -1 for what is not as it was.
        token_counts: Tokens of each.
        leaf_counts: Leaves beneath each.
    """

    vectors: Vectors
    old_places: NDArray[np.int64]
    token_counts: NDArray[np.int64]
    leaf_counts: NDArray[np.int64]


def plan_update(
    old: Skeleton,
    kept: Sequence[int],
    new: Mapping[int, NewLeaves],
    replaced: Mapping[int, int],
    settings: TreeSettings,
) -> tuple[TreeCost, int]:
    """Plan an update.

    Args:
        old: The tree before, made under the same settings.
        kept: Versions of it that stay.
        new: Versions that come.
        replaced: Of those, new versions of documents that the tree holds, with the version that they replace.
        settings: How the tree is made.

    Returns:
        The cost, without time, and how many leaves are added, changed and removed.
    """
    prompt_tokens = PROMPT_TOKENS + estimate_tokens(settings.prompt)
    own = [version for version in sorted(new) if version not in replaced]
    joined = join(
        split_versions(old), frozenset(kept), {version: entry.leaves for version, entry in new.items()}, replaced,
        _spread(old, own),
    )  # fmt: skip
    skeleton = plant(old.space_id, old.grouping, old.fingerprint, joined.versions)
    cost = TreeCost(leaf_count=skeleton.leaf_count)
    ground = _leaf_ground(skeleton, old, joined.moved, new)
    moved, old_nodes = joined.moved, OldNodes(old)
    for number, layer in enumerate(old.layers, start=1):
        count = len(ground.old_places)
        if count <= 1:
            break
        before = OldLayer(layer.bounds[:-1].astype(np.int64), len(old.ground_keys(number)), layer.threshold)
        cosines = _cosines(ground, layer.cosines, layer.threshold)
        found = regroup(before, moved, cosines, settings)
        plan = plan_layer(
            skeleton, found.clusters, cosines, layer.threshold, old_nodes,
            fresh=np.zeros(count, dtype=bool), dropped=np.zeros(len(found.clusters), dtype=bool),
        )  # fmt: skip
        plan.layer.ordinals[plan.wanted] = _MADE + np.arange(len(plan.wanted), dtype=np.int32)
        made = plan.origins == 0
        cost.layer_node_counts.append(len(made))
        cost.reused_node_count += int((~made).sum())
        ground = _next(ground, found.clusters, made, plan.old_places, settings, prompt_tokens, cost)
        skeleton, moved = skeleton.with_layer(plan.layer), found.origins
    return cost, joined.changed_count


def _spread(old: Skeleton, own: Sequence[int]) -> list[Placement]:
    versions = old.versions.tolist()
    if not versions:
        return []
    step = len(versions) / max(1, len(own))
    return [Placement(version, versions[int(step * place)], before=False) for place, version in enumerate(own)]


def _leaf_ground(skeleton: Skeleton, old: Skeleton, moved: NDArray[np.int64], new: Mapping[int, NewLeaves]) -> _Ground:
    dimension = next((entry.vectors.shape[1] for entry in new.values() if len(entry.vectors)), 1)
    known = [entry.token_counts for entry in new.values() if len(entry.token_counts)]
    usual = int(np.concatenate(known).mean()) if known else 0
    ground = _Ground(
        np.zeros((skeleton.leaf_count, dimension), dtype=np.float32),
        moved.copy(),
        np.full(skeleton.leaf_count, usual, dtype=np.int64),
        np.ones(skeleton.leaf_count, dtype=np.int64),
    )
    for place, version in enumerate(skeleton.versions.tolist()):
        if version in new and len(new[version].vectors):
            rows = slice(int(skeleton.offsets[place]), int(skeleton.offsets[place + 1]))
            ground.vectors[rows] = new[version].vectors
            ground.token_counts[rows] = new[version].token_counts
    stays = np.flatnonzero(moved >= 0)
    changed = (skeleton.keys[stays] != old.keys[moved[stays]]).any(axis=1)
    ground.old_places[stays[changed]] = -1
    return ground


def _cosines(ground: _Ground, before: NDArray[np.float32], threshold: float) -> NDArray[np.float32]:
    left, right = ground.old_places[:-1], ground.old_places[1:]
    measured = np.einsum("ij,ij->i", ground.vectors[:-1], ground.vectors[1:])
    known = np.array(ground.vectors.any(axis=1), dtype=bool)
    cosines = np.where(known[:-1] & known[1:], measured, np.float32(max(threshold, 0.0) + 1e-3)).astype(np.float32)
    stays = (left >= 0) & (right == left + 1)
    cosines[stays] = before[left[stays]]
    return cosines


def _next(
    ground: _Ground,
    clusters: Sequence[NDArray[np.int32]],
    made: NDArray[np.bool_],
    old_places: NDArray[np.int32],
    settings: TreeSettings,
    prompt_tokens: int,
    cost: TreeCost,
) -> _Ground:
    vectors = np.zeros((len(clusters), ground.vectors.shape[1]), dtype=np.float32)
    token_counts = np.zeros(len(clusters), dtype=np.int64)
    leaf_counts = np.zeros(len(clusters), dtype=np.int64)
    for row, places in enumerate(clusters):
        leaf_counts[row] = ground.leaf_counts[places].sum()
        children = [
            Child("", int(tokens), int(leaves))
            for tokens, leaves in zip(ground.token_counts[places], ground.leaf_counts[places], strict=True)
        ]
        if made[row]:
            token_counts[row] = plan_node(children, settings, prompt_tokens, cost)
        else:
            token_counts[row] = summary_tokens(children, settings)
        if ground.vectors[places].any(axis=1).all():
            mean = ground.leaf_counts[places] @ ground.vectors[places]
            norm = float(np.linalg.norm(mean))
            vectors[row] = mean / norm if norm > 0 else 0.0
    return _Ground(vectors, np.where(made, -1, old_places).astype(np.int64), token_counts, leaf_counts)
