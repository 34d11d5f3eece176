"""How far a tree that was brought up to date again and again is from one that is built anew (ADR-0012)."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.watershed import layer_threshold, watershed_starts

MAX_STALENESS: Final = 0.3
"""Staleness from which a full build pays, and which no update leaves behind: the whole is built instead.

Measured by documents that were added one at a time to trees over half of two sets: up to it, passages are as close to
their nodes of the first layer as in a full build, and to those of the second by at most 0.005 of cosine less so.
"""
MAX_DRIFT: Final = 0.1
"""Drift from which a full build pays; those trees had 0.06 where staleness was 0.34, and 0.09 where it was 0.55."""
_LEAST_PAIRS: Final = 100
"""Pairs that a tree counts as having at least: two boundaries of a dozen are no trend."""


def is_update(changed_count: int, leaf_count: int) -> bool:
    """Say whether a tree can be brought up to date rather than built anew: whether it would want no full build then.

    Args:
        changed_count: Leaves added, changed and removed since the last full build, those of now included.
        leaf_count: Leaves now.
    """
    return not wants_full_build(staleness(added=changed_count, changed=0, removed=0, leaf_count=leaf_count), 0.0)


def staleness(*, added: int, changed: int, removed: int, leaf_count: int) -> float:
    """Say how much of a tree is younger than its last full build.

    Args:
        added: Leaves added since.
        changed: Leaves whose text was changed since.
        removed: Leaves removed since.
        leaf_count: Leaves now.

    Returns:
        Changes for each leaf, at least 0; above 1 where there were more changes than there are leaves.
    """
    return (added + changed + removed) / max(leaf_count, 1)


def layer_drift(starts: NDArray[np.int64], cosines: NDArray[np.float32], settings: TreeSettings) -> int:
    """Count the neighbours of a layer that a full build would judge otherwise.

    What it would: the threshold is taken anew from the cosines as they are now, and boundaries that were kept, forced
    or cut by size are found anew. That it would order the documents anew is not in it.

    Args:
        starts: First place of each cluster of the layer's n children, ascending, the first 0.
        cosines: How alike neighbouring children are, shape (n - 1,).
        settings: How the tree is made.

    Returns:
        Pairs that are parted and would not be, or are not and would be; 0 right after a full build.
    """
    if not len(cosines):
        return 0
    if len(cosines) + 1 <= settings.small_layer_size:
        return len(starts) - 1
    threshold = layer_threshold(cosines, settings.clustering_threshold, settings.clustering_ratio)
    fresh = watershed_starts(cosines, threshold, settings.max_cluster_size)
    return len(np.setxor1d(starts, fresh, assume_unique=True))


def drift(layers: Iterable[tuple[NDArray[np.int64], NDArray[np.float32]]], settings: TreeSettings) -> float:
    """Say which share of the neighbours of a tree a full build would judge otherwise.

    Args:
        layers: For each layer, from the one above the leaves, first places of its clusters among its children, and the
            cosines of those; see `layer_drift`.
        settings: How the tree is made.

    Returns:
        0 to 1; small trees count as if they had a hundred pairs.
    """
    differing = pair_count = 0
    for starts, cosines in layers:
        differing += layer_drift(starts, cosines, settings)
        pair_count += len(cosines)
    return differing / max(pair_count, _LEAST_PAIRS)


def wants_full_build(stale: float, drifted: float) -> bool:
    """Say whether a full build pays: staleness is above MAX_STALENESS, or drift above MAX_DRIFT.

    Args:
        stale: See `staleness`.
        drifted: See `drift`.
    """
    return stale > MAX_STALENESS or drifted > MAX_DRIFT
