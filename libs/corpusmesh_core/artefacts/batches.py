"""What one stage hands to the next: compressed objects that hold the results of a whole batch.

Messages and rows carry keys alone (design, section 4). One object per batch and stage, because a small document is
smaller than the cost of an object.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.artefacts.codec import pack, pack_arrays, unpack, unpack_arrays
from corpusmesh_core.artefacts.names import VECTORS
from corpusmesh_core.documents import Chunk, ParsedDocument
from corpusmesh_core.documents_codec import (
    chunks_from_plain,
    chunks_to_plain,
    document_from_plain,
    document_to_plain,
)
from corpusmesh_core.enrichment.values import Derived, derived_from_plain, derived_to_plain
from corpusmesh_core.errors import InternalError

_PARSING: Final = "parsing"
_KEYS_SUFFIX: Final = ".keys"


@dataclass(frozen=True, slots=True)
class Reading:
    """A parsed document and how it was read.

    Attributes:
        document: The document; its pictures lie in the object store.
        fingerprint: Digest of the settings that it was read under; "" where unknown.
    """

    document: ParsedDocument
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class VectorSet:
    """Vectors of one version.

    Attributes:
        vectors: Shape (n, dimension), float32.
        keys: Shape (n, 16), uint8: digest of the text and space that each vector stands for.
    """

    vectors: NDArray[np.float32]
    keys: NDArray[np.uint8]


def pack_readings(readings: Mapping[int, Reading]) -> bytes:
    """Write parsed documents.

    Args:
        readings: By ordinal.

    Returns:
        The artefact.
    """
    return pack(
        {
            str(ordinal): {**document_to_plain(reading.document), _PARSING: reading.fingerprint}
            for ordinal, reading in readings.items()
        }
    )


def unpack_readings(artefact: bytes) -> dict[int, Reading]:
    """Read what `pack_readings` wrote.

    Args:
        artefact: The artefact.

    Returns:
        Readings by ordinal.

    Raises:
        InternalError: If it is not such an artefact.
        InvalidArgumentError: ARTEFACT_MALFORMED if another build wrote it.
    """
    return {
        int(ordinal): Reading(document_from_plain(plain), plain.get(_PARSING, ""))
        for ordinal, plain in unpack(artefact).items()
    }


def unpack_documents(artefact: bytes) -> dict[int, ParsedDocument]:
    """Read the documents of what `pack_readings` wrote.

    Args:
        artefact: The artefact.

    Returns:
        Documents by ordinal.

    Raises:
        InternalError: If it is not such an artefact.
        InvalidArgumentError: ARTEFACT_MALFORMED if another build wrote it.
    """
    return {int(ordinal): document_from_plain(plain) for ordinal, plain in unpack(artefact).items()}


def pack_chunks(chunks: Mapping[int, Sequence[Chunk]]) -> bytes:
    """Write chunks.

    Args:
        chunks: By ordinal.

    Returns:
        The artefact.
    """
    return pack({str(ordinal): chunks_to_plain(items) for ordinal, items in chunks.items()})


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
    return {int(ordinal): chunks_from_plain(plain) for ordinal, plain in unpack(artefact).items()}


def pack_enriched(enriched: Mapping[int, tuple[Sequence[Chunk], Sequence[Derived]]]) -> bytes:
    """Write what enrichment made.

    Args:
        enriched: Chunks and derived records by ordinal.

    Returns:
        The artefact.
    """
    return pack(
        {
            str(ordinal): {"chunks": chunks_to_plain(chunks), "derived": derived_to_plain(derived)}
            for ordinal, (chunks, derived) in enriched.items()
        }
    )


def unpack_enriched(artefact: bytes) -> dict[int, tuple[list[Chunk], list[Derived]]]:
    """Read what `pack_enriched` wrote.

    Args:
        artefact: The artefact.

    Returns:
        Chunks and derived records by ordinal.

    Raises:
        InternalError: If it is not such an artefact.
        InvalidArgumentError: ARTEFACT_MALFORMED if another build wrote it.
    """
    plain = unpack(artefact)
    try:
        return {
            int(ordinal): (chunks_from_plain(entry["chunks"]), derived_from_plain(entry["derived"]))
            for ordinal, entry in plain.items()
        }
    except (KeyError, TypeError) as error:
        raise InternalError("ARTEFACT_UNREADABLE", "an artefact has another shape") from error


def pack_vectors(vectors: Mapping[int, VectorSet]) -> bytes:
    """Write vectors; they do not compress, so they are written as they are.

    Args:
        vectors: By ordinal.

    Returns:
        The artefact.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for ordinal, entry in vectors.items():
        arrays[str(ordinal)] = entry.vectors
        arrays[f"{ordinal}{_KEYS_SUFFIX}"] = entry.keys
    return pack_arrays(arrays)


def unpack_vectors(artefact: bytes) -> dict[int, VectorSet]:
    """Read what `pack_vectors` wrote.

    Args:
        artefact: The artefact.

    Returns:
        Vectors by ordinal; without keys where an earlier release wrote them.

    Raises:
        InternalError: If it is not such an artefact.
    """
    arrays = unpack_arrays(artefact)
    without_keys = np.zeros((0, 0), dtype=np.uint8)
    return {
        int(name): VectorSet(array, arrays.get(f"{name}{_KEYS_SUFFIX}", without_keys))
        for name, array in arrays.items()
        if not name.endswith(_KEYS_SUFFIX)
    }


def ordinals_in(key: str, artefact: bytes) -> frozenset[int]:
    """Tell whose parts an artefact holds.

    Args:
        key: Its key, which says what kind it is.
        artefact: The artefact.

    Returns:
        Ordinals.

    Raises:
        InternalError: ARTEFACT_UNREADABLE if it is no artefact.
    """
    names = unpack_arrays(artefact) if _kind_of(key) == VECTORS else unpack(artefact)
    return frozenset(int(name.removesuffix(_KEYS_SUFFIX)) for name in names)


def without(key: str, artefact: bytes, ordinals: Collection[int]) -> bytes | None:
    """Take the parts of some versions out of an artefact of their batch.

    Args:
        key: Its key, which says what kind it is.
        artefact: The artefact.
        ordinals: The versions.

    Returns:
        The artefact of the others, the very same object where it holds nothing of these; None where there are none.

    Raises:
        InternalError: ARTEFACT_UNREADABLE if it is no artefact.
    """
    is_vectors = _kind_of(key) == VECTORS
    parts = unpack_arrays(artefact) if is_vectors else unpack(artefact)
    kept = {name: part for name, part in parts.items() if int(name.removesuffix(_KEYS_SUFFIX)) not in ordinals}
    if len(kept) == len(parts):
        return artefact
    if not kept:
        return None
    return pack_arrays(kept) if is_vectors else pack(kept)


def _kind_of(key: str) -> str:
    return key.rpartition(".")[2]
