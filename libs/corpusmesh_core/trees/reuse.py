"""What of a tree before stays as it is, and what is taken over, when the tree is made again (ADR-0012)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.trees.keys import node_key
from corpusmesh_core.trees.skeleton import Skeleton, SkeletonLayer
from corpusmesh_core.trees.values import KEY_BYTES

MAX_NODE_SOURCES = 20_000
"""Versions that a node may stand for: a tree over more ends in several nodes."""


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """A layer that is about to be made.

    Attributes:
        layer: Its nodes; those that stay as they are have their ordinal, all others 0.
        origins: Ordinal of the node before whose text and vector are taken over, int32; its own for a node that stays;
            0 for one that is summarized.
        old_places: Place of that node in the same layer of the tree before, int32; -1 where it is on another layer, or
            there is none.
        dropped: Whether a node is not made at all, nor any above it.
    """

    layer: SkeletonLayer
    origins: NDArray[np.int32]
    old_places: NDArray[np.int32]
    dropped: NDArray[np.bool_]

    @property
    def wanted(self) -> NDArray[np.int64]:
        """Places of the nodes that get a new record."""
        return np.flatnonzero((self.layer.ordinals == 0) & ~self.dropped)

    def slot(self, snapshot_id: int, number: int) -> str:
        """Name what is reserved for the nodes that get a new record.

        Two attempts that want other nodes (a document was deleted between them, or settings were changed) get other
        names: an ordinal that both used would publish what the first one wrote beside what the second one writes.

        Args:
            snapshot_id: Snapshot that the tree is made from.
            number: The layer, from 1.

        Returns:
            The same for the same nodes in the same order alone.
        """
        names = hashlib.blake2b(self.layer.keys[self.wanted].tobytes(), digest_size=KEY_BYTES)
        return f"{snapshot_id}.{number}.{names.hexdigest()}"


class OldNodes:
    """Finds nodes of the tree before by content key."""

    def __init__(self, old: Skeleton | None) -> None:
        """Take note of the nodes of a tree.

        Args:
            old: The tree; None for none.
        """
        self._same: dict[tuple[bytes, int, bytes], tuple[int, int]] = {}
        self._on_layer: dict[tuple[bytes, int], tuple[int, int]] = {}
        self._anywhere: dict[bytes, int] = {}
        if old is None:
            return
        for number, layer in enumerate(old.layers, start=1):
            for node in range(len(layer)):
                ordinal = int(layer.ordinals[node])
                if ordinal:
                    key = bytes(layer.keys[node])
                    self._same.setdefault(
                        (key, number, _identity(old, number, layer.children_of(node))), (ordinal, node)
                    )
                    self._on_layer.setdefault((key, number), (ordinal, node))
                    self._anywhere.setdefault(key, ordinal)

    def find(self, key: bytes, number: int, identity: bytes) -> tuple[int, int, bool]:
        """Find a node with a content key.

        Args:
            key: The key.
            number: Layer that it is wanted on.
            identity: What it stands on, see `_identity`.

        Returns:
            Its ordinal, its place on that layer or -1, and whether it is the very same node; (0, -1, False) for none.
        """
        if found := self._same.get((key, number, identity)):
            return *found, True
        # One on the same layer rather than one elsewhere.
        if found := self._on_layer.get((key, number)):
            return *found, False
        return self._anywhere.get(key, 0), -1, False


def plan_layer(
    skeleton: Skeleton,
    clusters: Sequence[NDArray[np.int32]],
    cosines: NDArray[np.float32],
    threshold: float,
    old: OldNodes,
    *,
    fresh: NDArray[np.bool_],
    dropped: NDArray[np.bool_],
) -> LayerPlan:
    """Say of each node of the next layer whether it stays, is taken over, or is made.

    Args:
        skeleton: The tree as far as it is made, with ordinals.
        clusters: Children of each node, places in the last layer of `skeleton`, or among its leaves.
        cosines: Of neighbours in that layer.
        threshold: By which it was cut, or was when it was last cut as a whole.
        old: The tree before.
        fresh: Whether each child's text was made anew, whatever its key; then nothing above it is taken over.
        dropped: Nodes to leave out, beside those above a child that has none.

    Returns:
        The plan.
    """
    number = len(skeleton.layers) + 1
    ground = skeleton.ground_keys(number)
    keys = np.zeros((len(clusters), KEY_BYTES), dtype=np.uint8)
    ordinals = np.zeros(len(clusters), dtype=np.int32)
    origins = np.zeros(len(clusters), dtype=np.int32)
    old_places = np.full(len(clusters), -1, dtype=np.int32)
    for node, places in enumerate(clusters):
        key = node_key(skeleton.fingerprint, [bytes(ground[place]) for place in places])
        keys[node] = np.frombuffer(key, dtype=np.uint8)
        if dropped[node] or fresh[places].any():
            continue
        ordinal, place, is_same = old.find(key, number, _identity(skeleton, number, places))
        origins[node], old_places[node] = ordinal, place
        if is_same:
            ordinals[node] = ordinal
    sizes = np.array([0, *(len(places) for places in clusters)])
    layer = SkeletonLayer(
        bounds=np.cumsum(sizes).astype(np.int32),
        children=np.concatenate([np.zeros(0, np.int32), *clusters]).astype(np.int32),
        keys=keys,
        ordinals=ordinals,
        cosines=cosines,
        threshold=threshold,
    )
    return LayerPlan(layer, origins, old_places, dropped)


def left_out(
    skeleton: Skeleton,
    clusters: Sequence[NDArray[np.int32]],
    rows: Sequence[NDArray[np.int32]],
    gone: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Find nodes that must not be made: of versions that were deleted, of too many, or above such a node.

    Args:
        skeleton: The tree as far as it is made.
        clusters: Children of each node of the next layer.
        rows: Leaves beneath each place of the layer that it stands on.
        gone: Whether each leaf's version was deleted.

    Returns:
        Shape (clusters,).
    """
    below = skeleton.layers[-1].ordinals == 0 if skeleton.layers else np.zeros(len(rows), dtype=bool)
    dropped = np.zeros(len(clusters), dtype=bool)
    for node, places in enumerate(clusters):
        leaves = np.concatenate([rows[place] for place in places])
        dropped[node] = bool(below[places].any() or gone[leaves].any()) or (
            len(np.unique(skeleton.owners[leaves])) > MAX_NODE_SOURCES
        )
    return dropped


def _identity(skeleton: Skeleton, number: int, places: NDArray[np.int32]) -> bytes:
    """Tell what records a node stands on: chunks by version and position, nodes by ordinal."""
    if number == 1:
        versions = skeleton.versions[skeleton.owners[places]]
        return np.stack([versions, skeleton.positions[places]]).astype(np.int32).tobytes()
    return skeleton.layers[number - 2].ordinals[places].astype(np.int32).tobytes()
