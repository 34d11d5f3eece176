"""The shape of a knowledge base's tree without its texts and vectors: which leaves, in which order, under which nodes.

One immutable object for each build (ADR-0012). Texts and vectors of leaves and nodes lie in the index alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.records import Ordinal, RecordKind, chunk_record_id, derived_record_id
from corpusmesh_core.trees.values import KEY_BYTES, Leaf


@dataclass(frozen=True, slots=True)
class SkeletonLayer:
    """The nodes of a layer.

    Attributes:
        bounds: Where each node's children begin and end in `children`, shape (nodes + 1,), int32.
        children: Places in the layer beneath, the leaves beneath the first, int32.
        keys: Content keys, shape (nodes, KEY_BYTES), uint8.
        ordinals: What publishes each node, int32; 0 for a node that was not made.
        cosines: Of neighbours in the layer beneath, by which it was cut, float32.
        threshold: Cosine beneath which neighbours are parted, as the last full build has found it.
    """

    bounds: NDArray[np.int32]
    children: NDArray[np.int32]
    keys: NDArray[np.uint8]
    ordinals: NDArray[np.int32]
    cosines: NDArray[np.float32]
    threshold: float

    def __len__(self) -> int:
        return len(self.ordinals)

    def children_of(self, node: int) -> NDArray[np.int32]:
        """Give the places of a node's children.

        Args:
            node: Place of the node.

        Returns:
            Places in the layer beneath, ascending.
        """
        return self.children[self.bounds[node] : self.bounds[node + 1]]

    def record_id(self, node: int) -> str:
        """Name the record of a node.

        Args:
            node: Place of the node.

        Returns:
            The id; "" for a node that was not made.
        """
        ordinal = int(self.ordinals[node])
        if not ordinal:
            return ""
        return derived_record_id(Ordinal(ordinal), RecordKind.TREE_NODE, bytes(self.keys[node]).hex())


@dataclass(frozen=True)
class Skeleton:
    """A tree, or as much of it as is made.

    Attributes:
        space_id: Embedding space of its vectors.
        grouping: Digest of the settings that decide how nodes are put together.
        fingerprint: Digest of what decides the text of a summary, see `summary_fingerprint`.
        versions: Ordinals of the versions that it covers, in the tree's order, int32; also those without a leaf.
        leaf_counts: Leaves of each, int32.
        positions: Position of each leaf's chunk in its document, int32.
        keys: Content keys of the leaves, shape (leaves, KEY_BYTES), uint8.
        layers: From the one above the leaves.
        full_leaf_count: Leaves at the last full build.
        changed_leaf_count: Leaves added, changed or removed since.
    """

    space_id: str
    grouping: str
    fingerprint: bytes
    versions: NDArray[np.int32]
    leaf_counts: NDArray[np.int32]
    positions: NDArray[np.int32]
    keys: NDArray[np.uint8]
    layers: tuple[SkeletonLayer, ...] = ()
    full_leaf_count: int = 0
    changed_leaf_count: int = 0

    @property
    def leaf_count(self) -> int:
        """Leaves of the tree."""
        return len(self.positions)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """First leaf of each version, and the number of leaves: shape (versions + 1,)."""
        return np.concatenate(([0], np.cumsum(self.leaf_counts, dtype=np.int64)))

    @cached_property
    def owners(self) -> NDArray[np.int32]:
        """Place of each leaf's version in `versions`."""
        return np.repeat(np.arange(len(self.versions), dtype=np.int32), self.leaf_counts)

    @property
    def ordinals(self) -> NDArray[np.int32]:
        """Ordinals of all nodes that were made."""
        if not self.layers:
            return np.zeros(0, dtype=np.int32)
        every = np.concatenate([layer.ordinals for layer in self.layers])
        return every[every > 0]

    def leaf_record_id(self, leaf: int) -> str:
        """Name the record of a leaf.

        Args:
            leaf: Its place.

        Returns:
            The id of its chunk.
        """
        version = int(self.versions[self.owners[leaf]])
        return chunk_record_id(Ordinal(version), int(self.positions[leaf]))

    def ground_keys(self, layer: int) -> NDArray[np.uint8]:
        """Give the content keys of what a layer stands on.

        Args:
            layer: From 1.

        Returns:
            Shape (n, KEY_BYTES): of the leaves beneath the first layer, of the nodes of the layer beneath else.
        """
        return self.keys if layer == 1 else self.layers[layer - 2].keys

    def ground_record_id(self, layer: int, place: int) -> str:
        """Name the record of something that a layer stands on.

        Args:
            layer: From 1.
            place: Its place.

        Returns:
            Id of a chunk, or of a node of the layer beneath; "" for one that was not made.
        """
        return self.leaf_record_id(place) if layer == 1 else self.layers[layer - 2].record_id(place)

    def with_layer(self, layer: SkeletonLayer) -> "Skeleton":
        """Add a layer.

        Args:
            layer: The layer above the last one.

        Returns:
            The tree with it.
        """
        return replace(self, layers=(*self.layers, layer))


def leaf_rows(skeleton: Skeleton) -> list[NDArray[np.int32]]:
    """Give the first ground of a tree: each leaf stands for itself.

    Args:
        skeleton: The tree.

    Returns:
        Places of leaves for each.
    """
    return list(np.arange(skeleton.leaf_count, dtype=np.int32).reshape(-1, 1))


def beneath(rows: Sequence[NDArray[np.int32]], layer: SkeletonLayer) -> list[NDArray[np.int32]]:
    """Give the leaves beneath each node of a layer.

    Args:
        rows: Leaves beneath each place that the layer stands on.
        layer: The layer.

    Returns:
        Places of leaves, distinct and ascending, for each node.
    """
    found = []
    for node in range(len(layer)):
        places = layer.children_of(node)
        # Of hard methods all are ascending and distinct already.
        joined = np.concatenate([rows[place] for place in places])
        found.append(joined if len(joined) < 2 or (np.diff(joined) > 0).all() else np.unique(joined))
    return found


@dataclass(frozen=True, slots=True)
class VersionLeaves:
    """What a skeleton keeps of the leaves of one version.

    Attributes:
        version: Its ordinal.
        positions: Position of each leaf's chunk, int32.
        keys: Content keys, shape (leaves, KEY_BYTES), uint8.
    """

    version: int
    positions: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    keys: NDArray[np.uint8] = field(default_factory=lambda: np.zeros((0, KEY_BYTES), dtype=np.uint8))


def version_leaves(version: int, leaves: Sequence[Leaf]) -> VersionLeaves:
    """Take of leaves what a skeleton keeps.

    Args:
        version: Ordinal of their version.
        leaves: All leaves of the version, in document order.

    Returns:
        Positions and keys.
    """
    return VersionLeaves(
        version,
        np.array([int(leaf.record_id.rpartition("-")[2]) for leaf in leaves], dtype=np.int32),
        np.frombuffer(b"".join(leaf.key for leaf in leaves), dtype=np.uint8).reshape(len(leaves), KEY_BYTES),
    )


def plant(space_id: str, grouping: str, fingerprint: bytes, versions: Sequence[VersionLeaves]) -> Skeleton:
    """Make a tree that has leaves alone.

    Args:
        space_id: Embedding space.
        grouping: Digest of the settings that decide how nodes are put together.
        fingerprint: Digest of what decides the text of a summary.
        versions: The versions in the tree's order.

    Returns:
        The tree.
    """
    keys = [entry.keys for entry in versions]
    return Skeleton(
        space_id=space_id,
        grouping=grouping,
        fingerprint=fingerprint,
        versions=np.array([entry.version for entry in versions], dtype=np.int32),
        leaf_counts=np.array([len(entry.positions) for entry in versions], dtype=np.int32),
        positions=np.concatenate([np.zeros(0, np.int32), *(entry.positions for entry in versions)]),
        keys=np.concatenate([np.zeros((0, KEY_BYTES), np.uint8), *keys]),
    )


def split_versions(skeleton: Skeleton) -> list[VersionLeaves]:
    """Take a tree's leaves apart by version; the opposite of `plant`.

    Args:
        skeleton: The tree.

    Returns:
        Its versions in order.
    """
    return [
        VersionLeaves(int(version), skeleton.positions[start:end], skeleton.keys[start:end])
        for version, start, end in zip(skeleton.versions, skeleton.offsets[:-1], skeleton.offsets[1:], strict=True)
    ]
