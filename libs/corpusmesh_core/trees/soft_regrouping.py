"""The incremental step of one layer of soft clusters: who was together stays together (ADR-0012).

A mixture fitted anew gives other clusters everywhere, so that one edited chunk would cost a whole tree. Clusters are
carried over instead; a new child joins those of the one that it is most like.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.trees.regrouping import INSERTED
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.values import Vectors

_INSERTED_AT_ONCE: Final = 256
"""Inserted children that are compared with all others at once: bounds memory."""


@dataclass(frozen=True, slots=True)
class SoftRegrouping:
    """A layer after the change.

    Attributes:
        clusters: Places of each cluster's children, int32, ascending; ordered by their places.
        origins: For each cluster the old cluster that it continues.
    """

    clusters: tuple[NDArray[np.int32], ...]
    origins: NDArray[np.int64]


def regroup_softly(
    old: Sequence[NDArray[np.int32]], origins: NDArray[np.int64], vectors: Vectors, settings: TreeSettings
) -> SoftRegrouping | None:
    """Carry soft clusters over to changed children.

    Args:
        old: Places of each old cluster's children.
        origins: Shape (n,): the old child that each child is or replaces, or INSERTED.
        vectors: Vectors of the children, shape (n, dimension), unit norm.
        settings: How the tree is made.

    Returns:
        The clusters, fewer than children, each child in one at least; None where they do not hold any more: one has
        outgrown `max_cluster_size`, there are too many for the children left, or nothing is left of them.
    """
    count = len(origins)
    kept = np.flatnonzero(origins != INSERTED)
    if not len(kept):
        return None
    stand_ins = origins.copy()
    inserted = np.flatnonzero(origins == INSERTED)
    known = vectors[kept] if len(inserted) else vectors[:0]
    for start in range(0, len(inserted), _INSERTED_AT_ONCE):
        new = inserted[start : start + _INSERTED_AT_ONCE]
        with np.errstate(all="ignore"):
            cosines = np.nan_to_num(vectors[new] @ known.T, nan=-1.0)
        stand_ins[new] = origins[kept[np.argmax(cosines, axis=1)]]
    by_origin = np.argsort(stand_ins, kind="stable")
    old_places = np.arange(1 + max(int(members.max()) for members in old))
    firsts = np.searchsorted(stand_ins[by_origin], old_places, side="left")
    ends = np.searchsorted(stand_ins[by_origin], old_places, side="right")
    by_members: dict[bytes, tuple[NDArray[np.int32], int]] = {}
    for number, members in enumerate(old):
        places = np.sort(np.concatenate([by_origin[firsts[one] : ends[one]] for one in members])).astype(np.int32)
        if len(places) > settings.max_cluster_size:
            return None
        if len(places):
            by_members.setdefault(places.tobytes(), (places, number))
    found = sorted(by_members.values(), key=lambda entry: entry[0].tolist())
    covered = np.unique(np.concatenate([places for places, _ in found])) if found else np.zeros(0, dtype=np.int32)
    if len(found) >= count or len(covered) < count:
        return None
    return SoftRegrouping(
        tuple(places for places, _ in found), np.array([number for _, number in found], dtype=np.int64)
    )
