"""Reads the chunks of versions, bounded in memory and kept for a moment, because pages follow one another."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence

from corpusmesh_core.artefacts import CHUNKS, ENRICHED, unpack_chunks, unpack_enriched
from corpusmesh_core.documents import Chunk
from corpusmesh_core.errors import FailedPreconditionError, NotFoundError
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_runtime.context import require_call

_MAX_ARTEFACT_BYTES = 512 * 1024 * 1024
_READS_IN_FLIGHT = 2
_KEPT_VERSIONS = 4
_KEPT_SECONDS = 60.0
_MAX_KEPT_CHARACTERS = 16 * 1024 * 1024


class ChunkReader:
    """Gives the chunks of a version; whoever asks has the right to it."""

    def __init__(self, objects: ObjectStore) -> None:
        """Create the reader.

        Args:
            objects: Artefacts.
        """
        self._objects = objects
        self._gate = asyncio.Semaphore(_READS_IN_FLIGHT)
        self._kept: OrderedDict[tuple[str, int, str], tuple[float, Sequence[Chunk]]] = OrderedDict()

    async def chunks_of(self, version: VersionRow, *, as_cut: bool = False) -> Sequence[Chunk]:
        """Read the chunks of a version.

        Args:
            version: The version, which the caller may read.
            as_cut: Whether to give them as they were cut, with people's edits and without what enrichment made of them
                since; what an edit remembers of its chunk is compared with chunks as they are cut.

        Returns:
            Chunks of every role, in reading order.

        Raises:
            FailedPreconditionError: CHUNKS_MISSING if it is not cut yet, or could not be.
        """
        name = ENRICHED if ENRICHED in version.artefacts and not as_cut else CHUNKS
        key = (version.tenant_id, int(version.ordinal), version.artefacts.get(name, ""))
        if not key[2]:
            raise _missing()
        kept = self._kept.get(key)
        if kept is not None and kept[0] > time.monotonic():
            return kept[1]
        async with self._gate:
            chunks = await self._read(version, name)
        if sum(len(chunk.text) for chunk in chunks) <= _MAX_KEPT_CHARACTERS:
            self._kept[key] = (time.monotonic() + _KEPT_SECONDS, chunks)
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT_VERSIONS:
                self._kept.popitem(last=False)
        return chunks

    async def _read(self, version: VersionRow, name: str) -> Sequence[Chunk]:
        try:
            content = await self._objects.get(
                version.artefacts[name],
                max_byte_count=_MAX_ARTEFACT_BYTES,
                timeout_seconds=require_call().remaining_seconds(),
            )
        except NotFoundError as error:
            raise _missing() from error
        chunks = await asyncio.to_thread(_chunks, content, name, int(version.ordinal))
        if chunks is None:
            raise _missing()
        return chunks


def _chunks(content: bytes, name: str, ordinal: int) -> Sequence[Chunk] | None:
    if name == ENRICHED:
        enriched = unpack_enriched(content).get(ordinal)
        return enriched[0] if enriched is not None else None
    return unpack_chunks(content).get(ordinal)


def _missing() -> FailedPreconditionError:
    return FailedPreconditionError(
        "CHUNKS_MISSING", "the version has no chunks yet, or none any more: wait for its run, or process it again"
    )
