"""Shapes of trees and drafts in the object store, under the id of their build."""

import asyncio
from typing import Final

from corpusmesh_core.artefacts.skeletons import pack_skeleton, unpack_skeleton
from corpusmesh_core.ports.builds import BuildRow
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.trees.skeleton import Skeleton
from corpusmesh_runtime.build_keys import build_key

SKELETON: Final = "skeleton"
"""Name in `BuildRow.artefacts`."""
_MAX_BYTES: Final = 1 << 30


async def read_skeleton(objects: ObjectStore, build: BuildRow, *, timeout_seconds: float) -> Skeleton | None:
    """Read the shape of a published tree.

    Args:
        objects: The store.
        build: The tree's build.
        timeout_seconds: Bound of the call.

    Returns:
        The shape; None for a tree that was never published.

    Raises:
        NotFoundError: OBJECT_NOT_FOUND if a newer build has taken its place since `build` was read: read that again.
        InternalError: ARTEFACT_UNREADABLE if it cannot be read.
    """
    key = build.artefacts.get(SKELETON)
    if not key:
        return None
    content = await objects.get(key, max_byte_count=_MAX_BYTES, timeout_seconds=timeout_seconds)
    return await asyncio.to_thread(unpack_skeleton, content)


async def write_skeleton(
    objects: ObjectStore, build: BuildRow, run_id: str, skeleton: Skeleton, *, timeout_seconds: float
) -> str:
    """Write the shape of a tree.

    Args:
        objects: The store.
        build: The tree's build.
        run_id: Run that made it.
        skeleton: The shape.
        timeout_seconds: Bound of the call.

    Returns:
        Its key, the same for the same run.
    """
    key = build_key(build, run_id, SKELETON)
    content = await asyncio.to_thread(pack_skeleton, skeleton)
    await objects.put(key, content, timeout_seconds=timeout_seconds)
    return key
