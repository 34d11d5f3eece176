"""What one stage hands to the next: compressed objects that hold the results of a whole batch.

Messages and rows carry keys alone (design, section 4). One object per batch and stage, because a small document is
smaller than the cost of an object.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import msgpack
import numpy as np
import zstandard
from numpy.typing import NDArray

from corpusmesh_core.documents import Chunk, ParsedDocument
from corpusmesh_core.documents_codec import (
    chunks_from_plain,
    chunks_to_plain,
    document_from_plain,
    document_to_plain,
)
from corpusmesh_core.errors import InternalError
from corpusmesh_core.orchestration.values import Stage
from corpusmesh_core.ports.objects import artefact_key

ARTEFACT_BY_STAGE: Mapping[Stage, str] = {Stage.PARSE: "parsed", Stage.CHUNK: "chunks", Stage.EMBED: "vectors"}
"""What each stage writes, as in `VersionRow.artefacts`; every other stage writes none."""

_COMPRESSION_LEVEL = 3
_MAX_UNPACKED_BYTES = 2 * 1024 * 1024 * 1024


def stage_artefact_key(tenant_id: str, run_id: str, task_id: str, stage: Stage) -> str:
    """Name what a task writes: the same however often it is tried, so that a purge finds it whatever became of it.

    Args:
        tenant_id: Tenant.
        run_id: Run.
        task_id: Task.
        stage: A stage of `ARTEFACT_BY_STAGE`.

    Returns:
        The object's key.
    """
    return artefact_key(tenant_id, run_id, f"{task_id}.{ARTEFACT_BY_STAGE[stage]}")


def pack_documents(documents: Mapping[int, ParsedDocument]) -> bytes:
    """Write parsed documents.

    Args:
        documents: By ordinal.

    Returns:
        The artefact.
    """
    return _pack({str(ordinal): document_to_plain(document) for ordinal, document in documents.items()})


def unpack_documents(artefact: bytes) -> dict[int, ParsedDocument]:
    """Read what `pack_documents` wrote.

    Args:
        artefact: The artefact.

    Returns:
        Documents by ordinal.

    Raises:
        InternalError: If it is not such an artefact.
        InvalidArgumentError: ARTEFACT_MALFORMED if another build wrote it.
    """
    return {int(ordinal): document_from_plain(plain) for ordinal, plain in _unpack(artefact).items()}


def pack_chunks(chunks: Mapping[int, Sequence[Chunk]]) -> bytes:
    """Write chunks.

    Args:
        chunks: By ordinal.

    Returns:
        The artefact.
    """
    return _pack({str(ordinal): chunks_to_plain(items) for ordinal, items in chunks.items()})


def unpack_chunks(artefact: bytes) -> dict[int, list[Chunk]]:
    """Read what `pack_chunks` wrote.

    Args:
        artefact: The artefact.

    Returns:
        Chunks by ordinal.

    Raises:
        InternalError: If it is not such an artefact.
        InvalidArgumentError: ARTEFACT_MALFORMED if another build wrote it.
    """
    return {int(ordinal): chunks_from_plain(plain) for ordinal, plain in _unpack(artefact).items()}


def pack_vectors(vectors: Mapping[int, NDArray[np.float32]]) -> bytes:
    """Write vectors; they do not compress, so they are written as they are.

    Args:
        vectors: By ordinal, each of shape (chunks, dimension).

    Returns:
        The artefact.
    """
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **{str(ordinal): matrix for ordinal, matrix in vectors.items()})
    return buffer.getvalue()


def unpack_vectors(artefact: bytes) -> dict[int, NDArray[np.float32]]:
    """Read what `pack_vectors` wrote.

    Args:
        artefact: The artefact.

    Returns:
        Vectors by ordinal.

    Raises:
        InternalError: If it is not such an artefact.
    """
    try:
        with np.load(io.BytesIO(artefact), allow_pickle=False) as archive:
            return {int(ordinal): archive[ordinal] for ordinal in archive.files}
    except (ValueError, OSError, KeyError) as error:
        raise InternalError("ARTEFACT_UNREADABLE", "an artefact of vectors cannot be read") from error


def _pack(plain: Mapping[str, Any]) -> bytes:
    packed: bytes = msgpack.packb(plain, use_bin_type=True)
    return zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL).compress(packed)


def _unpack(artefact: bytes) -> dict[str, Any]:
    try:
        packed = zstandard.ZstdDecompressor().decompress(artefact, max_output_size=_MAX_UNPACKED_BYTES)
        plain = msgpack.unpackb(packed, raw=False, strict_map_key=True)
    except (zstandard.ZstdError, ValueError, msgpack.UnpackException) as error:
        raise InternalError("ARTEFACT_UNREADABLE", "an artefact cannot be read") from error
    if not isinstance(plain, dict):
        raise InternalError("ARTEFACT_UNREADABLE", "an artefact has another shape")
    return plain
