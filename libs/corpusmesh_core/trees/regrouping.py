"""The incremental step of one layer: what a change of its children does to its clusters, and what it leaves alone.

A tree over a knowledge base changes with every document. Cutting a layer anew would move the percentile, and with it
boundaries and summaries everywhere. So a layer keeps the threshold of the last full build and every boundary between
neighbours that it still has; only gaps that are new are judged (ADR-0012).

How a build goes up: it regroups the first layer over the leaves. Each cluster is a child of the next layer, and
`Regrouping.origins` says which old child it is, or is a part of; that is `origins` of the next call. A cluster whose
children and keys are those of the old one is untouched whatever its origin says. A layer that the old tree did not have
is grouped by `group_layer`; the tree ends where a layer has one cluster, though the old one went on.

Why at most two old clusters of a layer change for one inserted run of leaves: only clusters at the two ends of the run
can change, since every other gap stays as it was. Their parts keep their origin and stay together above, so that in the
next layer the changed children are again at most two neighbours, and what is inserted stands between them.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.trees.clustering import contiguous
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.watershed import join_lone, split_oversized

INSERTED: Final = -1
"""Origin of what the old layer has nothing of."""
_SPARE: Final = 2
"""Clusters that a layer may have to spare: one insertion can part a cluster in three."""
_SPARE_SHARE: Final = 1.1


@dataclass(frozen=True, slots=True)
class OldLayer:
    """A layer before the change.

    Attributes:
        starts: First place of each cluster among the old children, ascending, the first 0.
        child_count: Old children, at least 1.
        threshold: Cosine beneath which the last full build parted neighbours, see `Grouping.threshold`.
    """

    starts: NDArray[np.int64]
    child_count: int
    threshold: float


@dataclass(frozen=True, slots=True)
class Regrouping:
    """A layer after the change.

    Attributes:
        clusters: Places of each cluster's children, int32; contiguous, disjoint, complete, in order.
        starts: First place of each cluster.
        origins: For each cluster the old cluster that it has most children of; the parts of one that was cut have the
            same. INSERTED where all its children are. Never descending but for INSERTED.
    """

    clusters: tuple[NDArray[np.int32], ...]
    starts: NDArray[np.int64]
    origins: NDArray[np.int64]


def regroup(
    old: OldLayer, origins: NDArray[np.int64], cosines: NDArray[np.float32], settings: TreeSettings
) -> Regrouping:
    """Carry the clusters of a layer over to its changed children.

    - Between two that were neighbours before, or are parts of one: as it was.
    - At a gap beside an inserted child: parted where the cosine is beneath the threshold. A run that is inserted where
      two clusters meet does not join them: it is parted at its weakest link at least.
    - Where children between two were removed: parted where the cosine is beneath the threshold.
    - A layer of at most `small_layer_size` children is one cluster; one that outgrows it is judged anew at every gap.
    - Where clusters become more than a full build would make, those of the judged gaps that are most alike are closed;
      where they are too many for the ratio after removals, others too, and no more than needed.
    - What is alone beside a judged gap joins the neighbour across it that is more alike, and no other: so that no more
      old clusters change than those at the ends of what was inserted.
    - A cluster of more than `max_cluster_size` is cut at its weakest link.

    Args:
        old: The layer before.
        origins: Shape (n,), n >= 1: the place among the old children of what each child is, replaces or is a part of,
            or INSERTED; ascending. One that is out of order counts as inserted.
        cosines: How alike neighbours of the new children are, shape (n - 1,).
        settings: How the tree is made.

    Returns:
        The clusters. Fewer than children where there are two or more.
    """
    count = len(origins)
    origins = _in_order(origins)
    labels = _labels(old)
    if count <= settings.small_layer_size:
        return _regrouping(np.zeros(1, dtype=np.int64), origins, labels)
    known = _known_gaps(origins) if len(old.starts) > 1 else np.zeros(count - 1, dtype=bool)
    was_parted = labels[origins[:-1]] != labels[origins[1:]]
    parted = np.where(known, was_parted, cosines < np.float32(old.threshold))
    kept_apart = _weakest_of_meetings(origins, labels, cosines)
    parted[kept_apart] = True

    judged = ~known
    judged[kept_apart] = False
    join_lone(parted, cosines, judged)
    _close(parted, judged, cosines, _usual_clusters(count, settings))
    if _has_removals(origins, old.child_count):
        _close(parted, np.ones(count - 1, dtype=bool), cosines, _most_clusters(count, settings))
    starts = np.concatenate((np.zeros(1, dtype=np.int64), np.flatnonzero(parted) + 1))
    return _regrouping(split_oversized(starts, cosines, settings.max_cluster_size), origins, labels)


def _in_order(origins: NDArray[np.int64]) -> NDArray[np.int64]:
    highest = np.maximum.accumulate(origins)
    return np.where(origins < highest, INSERTED, origins)


def _labels(old: OldLayer) -> NDArray[np.int64]:
    """Number the old cluster of each old child."""
    sizes = np.diff(old.starts, append=old.child_count)
    return np.repeat(np.arange(len(old.starts), dtype=np.int64), sizes)


def _known_gaps(origins: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Find gaps between children that were neighbours, or one, before."""
    left, right = origins[:-1], origins[1:]
    known: NDArray[np.bool_] = (left != INSERTED) & (right != INSERTED) & (right - left <= 1)
    return known


def _weakest_of_meetings(
    origins: NDArray[np.int64], labels: NDArray[np.int64], cosines: NDArray[np.float32]
) -> list[int]:
    """Find the gap to keep open of each run that is inserted where two clusters meet."""
    kept = np.flatnonzero(origins != INSERTED)
    before, after = origins[kept[:-1]], origins[kept[1:]]
    meets = (np.diff(kept) > 1) & (after - before <= 1) & (labels[before] != labels[after])
    return [int(kept[run] + np.argmin(cosines[kept[run] : kept[run + 1]])) for run in np.flatnonzero(meets)]


def _has_removals(origins: NDArray[np.int64], child_count: int) -> bool:
    return len(np.unique(origins[origins != INSERTED])) < child_count


def _usual_clusters(count: int, settings: TreeSettings) -> int:
    """Say how many clusters a full build gives, with some to spare."""
    threshold = settings.clustering_threshold
    # Of independent gaps so many stay open where what is alone joins a neighbour.
    joined = threshold * (1 - threshold * (1 - threshold / 2))
    share = min(_SPARE_SHARE * joined, settings.clustering_ratio)
    return min(int(share * count) + _SPARE, count - 1)


def _most_clusters(count: int, settings: TreeSettings) -> int:
    """Say how many clusters a layer may have; what `split_oversized` adds in a full build is within it."""
    most = int(settings.clustering_ratio * count) + _SPARE + 4 * count // settings.max_cluster_size
    return min(most, count - 1)


def _close(parted: NDArray[np.bool_], closable: NDArray[np.bool_], cosines: NDArray[np.float32], most: int) -> None:
    """Close the gaps that are most alike until there are at most `most` clusters."""
    excess = int(np.count_nonzero(parted)) + 1 - most
    if excess > 0:
        gaps = np.flatnonzero(parted & closable)
        parted[gaps[np.argsort(-cosines[gaps], kind="stable")[:excess]]] = False


def _regrouping(starts: NDArray[np.int64], origins: NDArray[np.int64], labels: NDArray[np.int64]) -> Regrouping:
    count = len(origins)
    new_labels = np.repeat(np.arange(len(starts), dtype=np.int64), np.diff(starts, append=count))
    kept = origins != INSERTED
    width = int(labels[-1]) + 1
    pairs, shares = np.unique(new_labels[kept] * width + labels[origins[kept]], return_counts=True)
    new, old = np.divmod(pairs, width)
    # Ascending by cluster, then by share: the last of each cluster is written last, and stays; of equal ones the first.
    order = np.lexsort((-old, shares, new))
    found = np.full(len(starts), INSERTED, dtype=np.int64)
    found[new[order]] = old[order]
    return Regrouping(contiguous(starts, count), starts, found)
