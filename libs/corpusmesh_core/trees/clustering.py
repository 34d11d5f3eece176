"""One layer of a tree: which nodes go together under one node of the layer above."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.trees.settings import TreeMethod, TreeSettings
from corpusmesh_core.trees.values import Vectors
from corpusmesh_core.trees.watershed import layer_threshold, neighbour_cosines, split_oversized, watershed_starts


@dataclass(frozen=True, slots=True)
class Grouping:
    """The clusters of a layer of n nodes.

    Attributes:
        clusters: Places of each cluster's nodes, int32, ascending; ordered by their first place. Those of hard methods
            are contiguous, disjoint and complete; those of the mixture may share nodes, and leave none out.
        similarities: Cosines of neighbours, shape (n - 1,).
        threshold: Cosine beneath which neighbours are parted; what later changes are judged by (ADR-0012).
    """

    clusters: tuple[NDArray[np.int32], ...]
    similarities: NDArray[np.float32]
    threshold: float

    @property
    def sizes(self) -> tuple[int, ...]:
        """Nodes of each cluster."""
        return tuple(len(cluster) for cluster in self.clusters)


def asks_for_mixture(count: int, settings: TreeSettings) -> bool:
    """Say whether a layer of `count` nodes is one for `corpusmesh_core.ports.clustering.SoftClusterer`."""
    return settings.method is TreeMethod.MIXTURE and count > settings.small_layer_size


def group_layer(
    vectors: Vectors, settings: TreeSettings, *, cluster: Sequence[NDArray[np.int32]] | None = None
) -> Grouping | None:
    """Put the nodes of a layer into clusters, fewer than nodes.

    A layer of at most `settings.small_layer_size` nodes is one cluster. So is one that would not shrink, cut by
    `settings.max_cluster_size` where it is large; so that every tree ends, in at most log2(n) + 1 layers or so.

    Args:
        vectors: Vectors of the nodes in order, shape (n, dimension); any values.
        settings: How trees are made. A `method` other than the mixture is grouped by the watershed; pages and sections
            are for the first layer only, see `corpusmesh_core.trees.sections`.
        cluster: For the mixture, what a `SoftClusterer` gave for these vectors; None lets the watershed stand in.

    Returns:
        The clusters; None where at most one node is left, and the tree is done.
    """
    count = len(vectors)
    if count <= 1:
        return None
    cosines = neighbour_cosines(vectors)
    threshold = layer_threshold(cosines, settings.clustering_threshold, settings.clustering_ratio)
    if count <= settings.small_layer_size:
        return Grouping(contiguous(np.zeros(1, dtype=np.int64), count), cosines, threshold)
    if cluster is not None:
        soft = _bounded(vectors, cluster, settings.max_cluster_size)
        if len(soft) < count:
            return Grouping(soft, cosines, threshold)
        starts = split_oversized(np.zeros(1, dtype=np.int64), cosines, settings.max_cluster_size)
    else:
        starts = watershed_starts(cosines, threshold, settings.max_cluster_size)
    return Grouping(contiguous(starts, count), cosines, threshold)


def contiguous(starts: NDArray[np.int64], count: int) -> tuple[NDArray[np.int32], ...]:
    """Make the clusters that begin at some places.

    Args:
        starts: First place of each, ascending, the first 0.
        count: Nodes of the layer, at least 1.

    Returns:
        Places of each cluster's nodes.
    """
    places = np.arange(count, dtype=np.int32)
    bounds = [*starts.tolist(), count]
    return tuple(places[first:end] for first, end in itertools.pairwise(bounds))


def centroids(vectors: Vectors, grouping: Grouping) -> Vectors:
    """Take the mean direction of each cluster: what stands for a summary's vector before there is a summary.

    Args:
        vectors: Vectors of the layer, shape (n, dimension).
        grouping: Its clusters.

    Returns:
        Shape (clusters, dimension), float32, unit norm; zeros where a cluster has no direction.
    """
    means = np.zeros((len(grouping.clusters), vectors.shape[1]), dtype=np.float32)
    with np.errstate(all="ignore"):
        for row, places in enumerate(grouping.clusters):
            np.add.reduce(vectors[places[0] : places[-1] + 1] if _is_run(places) else vectors[places], out=means[row])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
    means[~np.isfinite(means).all(axis=1)] = 0.0
    return means


def _is_run(places: NDArray[np.int32]) -> bool:
    return int(places[-1]) - int(places[0]) + 1 == len(places)


def _bounded(vectors: Vectors, found: Sequence[NDArray[np.int32]], max_size: int) -> tuple[NDArray[np.int32], ...]:
    """Tidy soft clusters: ascending, none twice, none too large, no node without one."""
    count = len(vectors)
    lonely = np.ones(count, dtype=bool)
    distinct: dict[bytes, NDArray[np.int32]] = {}
    for members in found:
        places = np.unique(members).astype(np.int32)
        if not len(places):
            continue
        lonely[places] = False
        cosines = (
            neighbour_cosines(vectors[places]) if len(places) > max_size else np.zeros(len(places) - 1, np.float32)
        )
        starts = split_oversized(np.zeros(1, dtype=np.int64), cosines, max_size)
        for piece in np.split(places, starts[1:]):
            distinct[piece.tobytes()] = piece
    left = np.flatnonzero(lonely).astype(np.int32)
    pieces = (
        [*distinct.values(), *np.split(left, range(max_size, len(left), max_size))]
        if len(left)
        else [*distinct.values()]
    )
    return tuple(sorted(pieces, key=lambda piece: piece.tolist()))
