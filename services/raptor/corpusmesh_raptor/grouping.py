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
from corpusmesh_core.trees.values import Leaf, Vectors
from corpusmesh_core.trees.watershed import neighbour_cosines
from corpusmesh_runtime.logging import get_logger

_BY_DOCUMENT: Final = frozenset({TreeMethod.PAGE, TreeMethod.SECTION})
_NO_THRESHOLD: Final = 0.0
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EarlierGroups:
    """How a tree before has put its layers into groups.

    Attributes:
        origins: Shape (leaves,): the leaf of the tree before that each leaf is or replaces; INSERTED for none.
        layers: Its layers, from the one above the leaves.
    """

    origins: NDArray[np.int64]
    layers: tuple[OldLayer, ...]


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
                draws every boundary anew. A mixture always does: its clusters have none.
        """
        self._settings = settings
        self._clusterer = clusterer
        self._max_mixture_nodes = min(max_mixture_nodes, MAX_VECTORS_PER_CALL)
        keeps = earlier is not None and settings.method is not TreeMethod.MIXTURE
        self._earlier = earlier if keeps else None
        self._origins = earlier.origins if keeps and earlier is not None else None
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
        old = self._old_layer(depth)
        if old is not None:
            return await asyncio.to_thread(self._as_before, old, vectors)
        self._origins = None
        soft = await self._cluster_softly(vectors, timeout_seconds)
        grouping = await asyncio.to_thread(group_layer, vectors, self._settings, cluster=soft)
        if grouping is None:
            return None
        return Groups(tuple(Section("", tuple(one.tolist())) for one in grouping.clusters), grouping.threshold)

    def _old_layer(self, depth: int) -> OldLayer | None:
        if self._earlier is None or self._origins is None or depth >= len(self._earlier.layers):
            return None
        return self._earlier.layers[depth]

    def _as_before(self, old: OldLayer, vectors: Vectors) -> Groups:
        assert self._origins is not None
        found = regroup(old, self._origins, neighbour_cosines(vectors), self._settings)
        self._origins = found.origins
        return Groups(tuple(Section("", tuple(one.tolist())) for one in found.clusters), old.threshold)

    def _by_document(self, leaves: Sequence[Leaf], vectors: Vectors) -> Groups:
        cosines = neighbour_cosines(vectors)
        settings = self._settings
        sections = group_leaves(leaves, settings.method, max_size=settings.max_cluster_size, cosines=cosines)
        old = self._old_layer(0)
        if old is not None and self._origins is not None:
            self._origins = _origins_of(sections, old, self._origins)
        return Groups(sections, _NO_THRESHOLD)

    async def _cluster_softly(self, vectors: Vectors, timeout_seconds: float) -> Sequence[NDArray[np.int32]] | None:
        if not asks_for_mixture(len(vectors), self._settings):
            return None
        if self._clusterer is None or len(vectors) > self._max_mixture_nodes:
            reason = "TREE_METHOD_UNAVAILABLE" if self._clusterer is None else "TREE_LAYER_TOO_LARGE"
            _log.warning("watershed in place of the mixture", node_count=len(vectors), reason=reason)
            return None
        try:
            return await self._clusterer.cluster(
                vectors, seed=self._settings.random_seed, timeout_seconds=timeout_seconds
            )
        except CorpusMeshError as error:
            # The watershed gives a tree where the mixture gives none; a document is not failed for it.
            _log.warning("watershed in place of the mixture", node_count=len(vectors), reason=error.reason)
            return None


def _origins_of(sections: Sequence[Section], old: OldLayer, origins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tell which old section each one continues: that of its first chunk that was there before."""
    found = np.full(len(sections), INSERTED, dtype=np.int64)
    for row, section in enumerate(sections):
        kept = origins[np.array(section.places, dtype=np.int64)]
        kept = kept[kept != INSERTED]
        if len(kept):
            found[row] = np.searchsorted(old.starts, kept[0], side="right") - 1
    return found
