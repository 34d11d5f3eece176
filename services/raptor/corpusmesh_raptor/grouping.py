"""Puts the ground of each layer into groups: anew, or as far as may be as the tree before had them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import CorpusMeshError
from corpusmesh_core.ports.clustering import MAX_VECTORS_PER_CALL, SoftClusterer
from corpusmesh_core.trees.clustering import asks_for_mixture, group_layer
from corpusmesh_core.trees.regrouping import INSERTED, OldLayer, regroup
from corpusmesh_core.trees.sections import Section, group_leaves
from corpusmesh_core.trees.settings import TreeMethod, TreeSettings
from corpusmesh_core.trees.soft_regrouping import regroup_softly
from corpusmesh_core.trees.values import Leaf, Vectors
from corpusmesh_core.trees.watershed import neighbour_cosines
from corpusmesh_runtime.logging import get_logger

_BY_DOCUMENT: Final = frozenset({TreeMethod.PAGE, TreeMethod.SECTION})
_NO_THRESHOLD: Final = 0.0
_SHARE_OF_TIME: Final = 0.5
"""Of the time that is left, what soft clustering may take, waiting for its turn behind other trees included: the rest
is for the tree that the watershed then gives."""
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EarlierGroups:
    """How a tree before has put its layers into groups.

    Attributes:
        origins: Shape (leaves,): the leaf of the tree before that each leaf is or replaces; INSERTED for none.
        layers: Its layers, from the one above the leaves.
        clusters: For each layer the places of each cluster's children; of use where they share some.
    """

    origins: NDArray[np.int64]
    layers: tuple[OldLayer, ...]
    clusters: tuple[tuple[NDArray[np.int32], ...], ...]


@dataclass(frozen=True, slots=True)
class Groups:
    """A layer's ground in groups.

    Attributes:
        sections: Places of each group in the ground, and what it speaks of where that is known.
        threshold: Cosine beneath which neighbours were parted; 0 where the document has parted them.
    """

    sections: tuple[Section, ...]
    threshold: float


class Grouper:
    """Groups one layer of one tree after the other, from the leaves up."""

    def __init__(
        self,
        settings: TreeSettings,
        clusterer: SoftClusterer | None = None,
        *,
        max_mixture_nodes: int = MAX_VECTORS_PER_CALL,
        earlier: EarlierGroups | None = None,
    ) -> None:
        """Create it for one tree.

        Args:
            settings: How the tree is made.
            clusterer: For METHOD_MIXTURE; None where there is none, and the watershed stands in.
            max_mixture_nodes: Largest layer for METHOD_MIXTURE; the watershed stands in for larger ones.
            earlier: Groups of a tree before, made by the same settings, that are kept where nothing has changed; None
                groups every layer anew.
        """
        self._settings = settings
        self._clusterer = clusterer
        self._max_mixture_nodes = max_mixture_nodes
        self._earlier = earlier
        self._origins = earlier.origins if earlier is not None else None
        self._depth = 0

    async def group(self, leaves: Sequence[Leaf], vectors: Vectors, *, timeout_seconds: float) -> Groups | None:
        """Group the next layer.

        Args:
            leaves: The leaves of the tree.
            vectors: Vectors of the layer's ground, shape (n, dimension).
            timeout_seconds: How long soft clustering may take.

        Returns:
            The groups; None where one node is left, and the tree is done.
        """
        count = len(vectors)
        if count <= 1:
            return None
        depth, self._depth = self._depth, self._depth + 1
        if not depth and self._settings.method in _BY_DOCUMENT and count > self._settings.small_layer_size:
            return await asyncio.to_thread(self._by_document, leaves, vectors)
        kept = await asyncio.to_thread(self._as_before, depth, vectors)
        if kept is not None:
            return kept
        self._origins = None
        soft = await cluster_softly(
            self._clusterer,
            vectors,
            self._settings,
            max_node_count=self._max_mixture_nodes,
            timeout_seconds=timeout_seconds,
        )
        grouping = await asyncio.to_thread(group_layer, vectors, self._settings, cluster=soft)
        if grouping is None:
            return None
        return Groups(_sections(grouping.clusters), grouping.threshold)

    def _as_before(self, depth: int, vectors: Vectors) -> Groups | None:
        """Group a layer as the tree before had it; None where it had none, or its groups do not hold any more."""
        if self._earlier is None or self._origins is None or depth >= len(self._earlier.layers):
            return None
        old = self._earlier.layers[depth]
        if self._settings.method is TreeMethod.MIXTURE:
            if len(vectors) <= self._settings.small_layer_size:
                return None
            soft = regroup_softly(self._earlier.clusters[depth], self._origins, vectors, self._settings)
            if soft is None:
                return None
            self._origins = soft.origins
            return Groups(_sections(soft.clusters), old.threshold)
        found = regroup(old, self._origins, neighbour_cosines(vectors), self._settings)
        self._origins = found.origins
        return Groups(_sections(found.clusters), old.threshold)

    def _by_document(self, leaves: Sequence[Leaf], vectors: Vectors) -> Groups:
        cosines = neighbour_cosines(vectors)
        settings = self._settings
        sections = group_leaves(leaves, settings.method, max_size=settings.max_cluster_size, cosines=cosines)
        if self._earlier is not None and self._origins is not None:
            self._origins = _origins_of(sections, self._earlier.layers[0], self._origins)
        return Groups(sections, _NO_THRESHOLD)


async def cluster_softly(
    clusterer: SoftClusterer | None,
    vectors: Vectors,
    settings: TreeSettings,
    *,
    max_node_count: int,
    timeout_seconds: float,
) -> Sequence[NDArray[np.int32]] | None:
    """Cluster a layer by METHOD_MIXTURE, where it is asked for and can be had.

    Args:
        clusterer: What clusters softly; None where there is none.
        vectors: Vectors of the layer, shape (n, dimension).
        settings: How the tree is made.
        max_node_count: Largest layer that is clustered so, besides MAX_VECTORS_PER_CALL.
        timeout_seconds: Time that is left for the layer; clustering may take half of it.

    Returns:
        The clusters, see `group_layer`; None where the watershed stands in, which the log tells where it was not asked
        for: it gives a tree where the mixture gives none, and nothing is failed for it.
    """
    count = len(vectors)
    if not asks_for_mixture(count, settings):
        return None
    if clusterer is None or count > min(max_node_count, MAX_VECTORS_PER_CALL):
        reason = "TREE_METHOD_UNAVAILABLE" if clusterer is None else "TREE_LAYER_TOO_LARGE"
    else:
        try:
            return await clusterer.cluster(
                vectors, seed=settings.random_seed, timeout_seconds=_SHARE_OF_TIME * timeout_seconds
            )
        except CorpusMeshError as error:
            reason = error.reason
    _log.warning("watershed in place of the mixture", node_count=count, reason=reason)
    return None


def _sections(clusters: Sequence[NDArray[np.int32]]) -> tuple[Section, ...]:
    return tuple(Section("", tuple(cluster.tolist())) for cluster in clusters)


def _origins_of(sections: Sequence[Section], old: OldLayer, origins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tell which old section each one continues: that of its first chunk that was there before."""
    found = np.full(len(sections), INSERTED, dtype=np.int64)
    for row, section in enumerate(sections):
        kept = origins[np.array(section.places, dtype=np.int64)]
        kept = kept[kept != INSERTED]
        if len(kept):
            found[row] = np.searchsorted(old.starts, kept[0], side="right") - 1
    return found
