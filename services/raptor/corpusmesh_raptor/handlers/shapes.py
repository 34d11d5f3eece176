"""Shapes of the trees of knowledge bases, kept a while: they are immutable, and read for every page of a listing."""

import asyncio
from collections import OrderedDict
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import DeadlineExceededError
from corpusmesh_core.ports.builds import BuildRow
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.tenancy import VisibilityInputs, visible_bitmap
from corpusmesh_core.trees.skeleton import Skeleton, SkeletonLayer
from corpusmesh_raptor.skeletons import SKELETON, read_skeleton

_MAX_KEPT_PLACES = 2_000_000
"""Leaves and nodes of the shapes that are kept, some 30 bytes each."""


class SkeletonShelf:
    """Reads shapes, and keeps those that were read last."""

    def __init__(self, objects: ObjectStore) -> None:
        """Create it.

        Args:
            objects: Where they lie.
        """
        self._objects = objects
        self._kept: OrderedDict[str, Skeleton] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def read(self, build: BuildRow, *, timeout_seconds: float) -> Skeleton | None:
        """Read the shape of a published tree.

        Args:
            build: Its build.
            timeout_seconds: Bound of the call.

        Returns:
            The shape; None for a tree that was never published.

        Raises:
            NotFoundError: OBJECT_NOT_FOUND if a newer build has taken its place since `build` was read.
            DeadlineExceededError: TREE_SHAPE_TIMEOUT if it was not read in time.
        """
        key = build.artefacts.get(SKELETON, "")
        # Whoever asks for the same shape waits for the one read of it: some 15 MB packed, and more when it is not.
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with asyncio.timeout(timeout_seconds), lock:
                return await self._read(key, build, timeout_seconds)
        except TimeoutError as error:
            raise DeadlineExceededError(
                "TREE_SHAPE_TIMEOUT", "the shape of the tree was not read in time; try again"
            ) from error

    async def _read(self, key: str, build: BuildRow, timeout_seconds: float) -> Skeleton | None:
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        skeleton = await read_skeleton(self._objects, build, timeout_seconds=timeout_seconds)
        if skeleton is not None:
            self._kept[key] = skeleton
            while len(self._kept) > 1 and sum(map(_place_count, self._kept.values())) > _MAX_KEPT_PLACES:
                self._kept.popitem(last=False)
        return skeleton


async def visible_nodes(
    skeleton: Skeleton, inputs: VisibilityInputs, layer: int, *, start: int, size: int
) -> tuple[list[str], int]:
    """List a page of the nodes of a tree that a caller may see: those that are published and stand on nothing hidden.

    The index decides in the end, by the same rule: what is listed here is read under the caller's filter.

    Args:
        skeleton: The shape of the tree.
        inputs: What the caller may see.
        layer: Only this layer, from 1; 0 for all.
        start: Place of the first one in the whole list.
        size: Most nodes.

    Returns:
        Ids of records, from the top layer down, each layer in order; and how many the whole list has.
    """
    return await asyncio.to_thread(_visible_nodes, skeleton, inputs, layer, start, size)


def _visible_nodes(
    skeleton: Skeleton, inputs: VisibilityInputs, wanted: int, start: int, size: int
) -> tuple[list[str], int]:
    visible = np.array(visible_bitmap(inputs).to_array(), dtype=np.int64)
    beneath: NDArray[np.bool_] = np.isin(skeleton.versions, visible)[skeleton.owners]
    found: list[tuple[SkeletonLayer, NDArray[np.int64]]] = []
    for number, layer in enumerate(skeleton.layers, start=1):
        whole = np.logical_and.reduceat(beneath[layer.children], layer.bounds[:-1])
        beneath = whole & np.isin(layer.ordinals, visible)
        if wanted in (0, number):
            found.append((layer, np.flatnonzero(beneath)))
    # Of a hundred thousand nodes, the ids of one page alone are made.
    record_ids: list[str] = []
    passed = 0
    for layer, nodes in reversed(found):
        first = max(0, start - passed)
        last = max(first, start + size - passed)
        record_ids += [layer.record_id(node) for node in nodes[first:last].tolist()]
        passed += len(nodes)
    return record_ids, passed


def _place_count(skeleton: Skeleton) -> int:
    return skeleton.leaf_count + sum(map(len, skeleton.layers))
