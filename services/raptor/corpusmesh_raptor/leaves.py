"""The chunks that trees stand on: what the stages of ingest made of a version, read from its artefacts."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.artefacts import (
    VECTORS,
    VectorSet,
    embedded_chunks,
    embedded_text,
    text_key,
    title_of,
    unpack_vectors,
)
from corpusmesh_core.documents import BlockKind, Chunk, ChunkRole
from corpusmesh_core.errors import InternalError
from corpusmesh_core.ports.embedding import MAX_TEXT_BYTES
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.records import chunk_record_id
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_core.trees.values import Leaf, Vectors
from corpusmesh_runtime.artefact_access import read_artefacts, read_pieces


@dataclass(frozen=True, slots=True)
class LeafSet:
    """The leaves of one version.

    Attributes:
        leaves: Chunks that are searched by their text and by vector, in document order: those that a person switched
            off, parents, examples of tag sets and derived records are none. A version that is tables for the most part
            has no leaves: rows say nothing together that they do not say alone.
        vectors: Their vectors, shape (leaves, dimension).
        positions: Positions of those chunks in their document.
    """

    leaves: tuple[Leaf, ...]
    vectors: Vectors
    positions: tuple[int, ...] = ()


async def read_leaves(
    objects: ObjectStore, versions: Sequence[VersionRow], *, timeout_seconds: float
) -> dict[int, LeafSet]:
    """Read the leaves of versions.

    Args:
        objects: The store.
        versions: Versions that are embedded; those of one batch share their artefacts, which are read once.
        timeout_seconds: Bound of each read.

    Returns:
        Leaves by ordinal, one set for each version, in their order.

    Raises:
        FailedPreconditionError: ARTEFACT_GONE if what was made of a version is not there any more.
        InternalError: VECTORS_MISMATCH if there are fewer vectors than embedded chunks.
    """
    pieces = await read_pieces(objects, versions, timeout_seconds=timeout_seconds)
    vectors = await read_artefacts(objects, versions, VECTORS, unpack_vectors, timeout_seconds=timeout_seconds)
    chunks = {ordinal: found for ordinal, (found, _) in pieces.items()}
    return await asyncio.to_thread(_leaf_sets, versions, chunks, vectors)


def _leaf_sets(
    versions: Sequence[VersionRow], chunks: Mapping[int, Sequence[Chunk]], vectors: Mapping[int, VectorSet]
) -> dict[int, LeafSet]:
    return {
        int(version.ordinal): _leaf_set(version, chunks[version.ordinal], vectors[version.ordinal])
        for version in versions
    }


def _leaf_set(version: VersionRow, chunks: Sequence[Chunk], vectors: VectorSet) -> LeafSet:
    embedded = embedded_chunks(chunks)
    if len(embedded) > len(vectors.vectors):
        raise InternalError(
            "VECTORS_MISMATCH",
            "a version has another number of vectors",
            expected=len(embedded),
            found=len(vectors.vectors),
        )
    rows = [row for row, chunk in enumerate(embedded) if chunk.role is ChunkRole.TEXT]
    if 2 * sum(embedded[row].block_kind is BlockKind.TABLE for row in rows) > len(rows):
        rows = []
    title = title_of(version)
    leaves = tuple(
        Leaf(
            record_id=chunk_record_id(version.ordinal, embedded[row].position),
            key=_key(vectors.keys, row, title, embedded[row]),
            text=embedded[row].text,
            token_count=embedded[row].token_count,
            source=version.ordinal,
            title=title,
            page=embedded[row].page,
            heading_path=embedded[row].heading_path,
        )
        for row in rows
    )
    positions = tuple(embedded[row].position for row in rows)
    return LeafSet(leaves, vectors.vectors[np.array(rows, dtype=np.int64)], positions)


def _key(keys: NDArray[np.uint8], row: int, title: str, chunk: Chunk) -> bytes:
    # Vectors of an earlier release came without keys. A knowledge base has one space, so it need not be in there.
    has_key = row < len(keys)
    key = bytes(keys[row]) if has_key else text_key("", embedded_text(title, chunk.context, chunk.text))
    if 4 * (len(title) + len(chunk.context) + len(chunk.text) + 2) <= MAX_TEXT_BYTES:
        return key
    # Only the beginning of a very long text is embedded. A summary is of all of it: what was struck out behind that
    # beginning must not be taken over with it.
    return text_key(key.hex(), chunk.text)
