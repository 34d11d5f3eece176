"""How the next layer of a build is put together: cut anew, or carried over from the tree before."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.ports.clustering import SoftClusterer
from corpusmesh_core.trees.clustering import group_layer
from corpusmesh_core.trees.regrouping import INSERTED, OldLayer, regroup
from corpusmesh_core.trees.settings import TreeMethod, TreeSettings
from corpusmesh_core.trees.skeleton import Skeleton, SkeletonLayer
from corpusmesh_core.trees.soft_regrouping import regroup_softly
from corpusmesh_core.trees.watershed import neighbour_cosines
from corpusmesh_raptor.dataset.drafts import Draft
from corpusmesh_raptor.dataset.ground import Ground, TreeReader
from corpusmesh_raptor.grouping import cluster_softly
from corpusmesh_runtime.worker import TaskContext


@dataclass(frozen=True, slots=True)
class Cut:
    """The clusters of a layer.

    Attributes:
        clusters: Places of each cluster's children.
        cosines: Of neighbouring children.
        threshold: Cosine beneath which neighbours are parted.
        moved: For an update: node of the tree before that each cluster is or is a part of; empty else.
    """

    clusters: Sequence[NDArray[np.int32]]
    cosines: NDArray[np.float32]
    threshold: float
    moved: NDArray[np.int64]


class LayerCutter:
    """Cuts layers."""

    def __init__(
        self,
        context: TaskContext,
        reader: TreeReader,
        settings: TreeSettings,
        clusterer: SoftClusterer | None,
        *,
        max_mixture_nodes: int,
        old: Skeleton | None,
    ) -> None:
        """Create it.

        Args:
            context: The build's task.
            reader: Reads vectors.
            settings: How trees are made.
            clusterer: For METHOD_MIXTURE; None where the watershed stands in.
            max_mixture_nodes: Largest layer for it.
            old: The tree before; None for none.
        """
        self._context = context
        self._reader = reader
        self._settings = settings
        self._clusterer = clusterer
        self._max_mixture_nodes = max_mixture_nodes
        self._old = old

    async def cut(self, draft: Draft, ground: Ground) -> Cut | None:
        """Cut the layer that the next one stands on.

        Args:
            draft: The build so far.
            ground: The layer.

        Returns:
            The clusters; None where the tree is done.
        """
        number = len(draft.skeleton.layers) + 1
        if len(ground) <= 1:
            return None
        if not draft.is_full and self._old is not None and number <= len(self._old.layers):
            layer = self._old.layers[number - 1]
            if self._settings.method is not TreeMethod.MIXTURE:
                return await self._carried_over(draft, ground, self._old, layer)
            if (carried := await self._carried_softly(draft, ground, layer)) is not None:
                return carried
        await ground.load(np.arange(len(ground)), draft.skeleton, number, self._reader, with_texts=False)
        soft = await cluster_softly(
            self._clusterer,
            ground.vectors,
            self._settings,
            max_node_count=self._max_mixture_nodes,
            timeout_seconds=self._context.remaining_seconds(),
        )
        grouping = await asyncio.to_thread(group_layer, ground.vectors, self._settings, cluster=soft)
        if grouping is None:
            return None
        moved = np.full(len(grouping.clusters), INSERTED, dtype=np.int64)
        return Cut(grouping.clusters, grouping.similarities, grouping.threshold, moved)

    async def _carried_over(self, draft: Draft, ground: Ground, old: Skeleton, layer: SkeletonLayer) -> Cut:
        number = len(draft.skeleton.layers) + 1
        cosines = await self._cosines(draft, ground, old, layer)
        starts = layer.bounds[:-1].astype(np.int64)
        before = OldLayer(starts, len(old.ground_keys(number)), layer.threshold)
        found = await asyncio.to_thread(regroup, before, draft.moved, cosines, self._settings)
        return Cut(found.clusters, cosines, layer.threshold, found.origins)

    async def _carried_softly(self, draft: Draft, ground: Ground, layer: SkeletonLayer) -> Cut | None:
        """Carry over clusters that share members; None where they do not hold any more."""
        if len(ground) <= self._settings.small_layer_size:
            return None
        number = len(draft.skeleton.layers) + 1
        await ground.load(np.arange(len(ground)), draft.skeleton, number, self._reader, with_texts=False)
        clusters = [layer.children_of(node) for node in range(len(layer))]
        found = await asyncio.to_thread(regroup_softly, clusters, draft.moved, ground.vectors, self._settings)
        if found is None:
            return None
        return Cut(found.clusters, neighbour_cosines(ground.vectors), layer.threshold, found.origins)

    async def _cosines(self, draft: Draft, ground: Ground, old: Skeleton, layer: SkeletonLayer) -> NDArray[np.float32]:
        """Take the cosines of neighbours that are as they were from the tree before, and measure the others."""
        number = len(draft.skeleton.layers) + 1
        if number == 1:
            same = _same_leaves(draft.skeleton, old, draft.moved)
        else:
            same = np.where(draft.fresh, -1, draft.old_places).astype(np.int64)
        left, right = same[:-1], same[1:]
        known = (left >= 0) & (right == left + 1)
        cosines = np.zeros(len(ground) - 1, dtype=np.float32)
        cosines[known] = layer.cosines[left[known]]
        gaps = np.flatnonzero(~known)
        places = np.unique(np.concatenate([gaps, gaps + 1]))
        await ground.load(places, draft.skeleton, number, self._reader, with_texts=False)
        for gap in gaps:
            cosines[gap] = neighbour_cosines(ground.vectors[gap : gap + 2])[0]
        return cosines


def _same_leaves(skeleton: Skeleton, old: Skeleton, moved: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give the leaf of the tree before whose text each leaf has, and with it the vector; -1 for none."""
    same = moved.copy()
    found = np.flatnonzero(moved >= 0)
    changed = (skeleton.keys[found] != old.keys[moved[found]]).any(axis=1)
    same[found[changed]] = -1
    return same
