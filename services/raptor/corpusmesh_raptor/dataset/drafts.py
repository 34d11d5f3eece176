"""What one slice of a build hands to the next: how far it is, without any text."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.artefacts.codec import pack, unpack
from corpusmesh_core.artefacts.skeletons import pack_skeleton, unpack_skeleton
from corpusmesh_core.errors import InternalError
from corpusmesh_core.trees.skeleton import Skeleton
from corpusmesh_core.trees.telling import cost_of, cost_values
from corpusmesh_core.trees.values import TreeCost

_ARRAYS: Final = {
    "origins": np.int32,
    "old_places": np.int32,
    "dropped": np.bool_,
    "fresh": np.bool_,
    "moved": np.int64,
}


@dataclass(slots=True)
class Draft:
    """How far a build is.

    Attributes:
        skeleton: The tree so far; the nodes of its last layer have their ordinals, and may not all be written.
        snapshot_id: Snapshot that it is made from.
        is_full: Whether every layer is cut anew.
        dimension: Of the vectors.
        made_count: Nodes of the last layer that are written, of those in `wanted`.
        origins: See `LayerPlan`, for the last layer.
        old_places: Likewise.
        dropped: Likewise.
        fresh: Which nodes of the last layer were summarized, bool.
        moved: For an update: the node of the same layer of the tree before that each node of the last layer is or is a
            part of, as `regroup` tells it; before the first layer the leaf that each leaf is, int64.
        changed_count: Leaves added, changed and removed since the tree before.
        cost: What it cost so far.
    """

    skeleton: Skeleton
    snapshot_id: int
    is_full: bool
    dimension: int
    made_count: int = 0
    origins: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    old_places: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    dropped: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    fresh: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    moved: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    changed_count: int = 0
    cost: TreeCost = field(default_factory=TreeCost)

    @property
    def wanted(self) -> NDArray[np.int64]:
        """Places of the nodes of the last layer that get a new record, whether they are written or not.

        A version that is deleted meanwhile may take their ordinal from them.
        """
        if not self.skeleton.layers:
            return np.zeros(0, dtype=np.int64)
        stays = (self.origins > 0) & (self.origins == self.skeleton.layers[-1].ordinals)
        return np.flatnonzero(~stays & ~self.dropped)


def pack_draft(draft: Draft) -> bytes:
    """Write a draft.

    Args:
        draft: The draft.

    Returns:
        The object.
    """
    values: dict[str, Any] = {
        "skeleton": pack_skeleton(draft.skeleton),
        "snapshot_id": draft.snapshot_id,
        "is_full": draft.is_full,
        "dimension": draft.dimension,
        "made_count": draft.made_count,
        "changed_count": draft.changed_count,
        "cost": cost_values(draft.cost),
    }
    return pack(values | {name: getattr(draft, name).tobytes() for name in _ARRAYS})


def unpack_draft(packed: bytes) -> Draft:
    """Read what `pack_draft` wrote.

    Args:
        packed: The object.

    Returns:
        The draft.

    Raises:
        InternalError: ARTEFACT_UNREADABLE if it is no such object.
    """
    values = unpack(packed)
    try:
        return Draft(
            skeleton=unpack_skeleton(values["skeleton"]),
            snapshot_id=values["snapshot_id"],
            is_full=values["is_full"],
            dimension=values["dimension"],
            made_count=values["made_count"],
            changed_count=values["changed_count"],
            cost=cost_of(values["cost"]),
            **{name: np.frombuffer(values[name], dtype=kind).copy() for name, kind in _ARRAYS.items()},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InternalError("ARTEFACT_UNREADABLE", "a draft of a tree has another form") from error
