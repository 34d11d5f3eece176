"""Segments of graphs in the object store; those that were read last stay in memory, since they never change."""

import asyncio
from collections import OrderedDict

from corpusmesh_core.graphs.segments import Segment
from corpusmesh_core.ports.objects import ObjectStore

_MAX_SEGMENT_BYTES = 1 << 31


class SegmentShelf:
    """Reads segments for all builds of a process."""

    def __init__(self, objects: ObjectStore, *, max_bytes: int) -> None:
        """Create it.

        Args:
            objects: The store.
            max_bytes: Bytes of segments that stay in memory.
        """
        self._objects = objects
        self._max_bytes = max_bytes
        self._segments: OrderedDict[str, Segment] = OrderedDict()
        self._byte_count = 0

    async def read(self, key: str, *, timeout_seconds: float) -> Segment:
        """Read a segment.

        Args:
            key: Its object.
            timeout_seconds: Bound of the call.

        Returns:
            The segment.

        Raises:
            NotFoundError: OBJECT_NOT_FOUND if it is gone.
            InvalidArgumentError: GRAPH_FILE_INVALID if it cannot be read.
        """
        kept = self._segments.get(key)
        if kept is not None:
            self._segments.move_to_end(key)
            return kept
        content = await self._objects.get(key, max_byte_count=_MAX_SEGMENT_BYTES, timeout_seconds=timeout_seconds)
        segment = await asyncio.to_thread(Segment.open, content)
        self._keep(key, segment)
        return segment

    def _keep(self, key: str, segment: Segment) -> None:
        if segment.nbytes > self._max_bytes or key in self._segments:
            return
        self._segments[key] = segment
        self._byte_count += segment.nbytes
        while self._byte_count > self._max_bytes:
            _, oldest = self._segments.popitem(last=False)
            self._byte_count -= oldest.nbytes
