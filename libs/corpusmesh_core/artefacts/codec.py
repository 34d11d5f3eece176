"""How parts of many versions lie in one object: compressed plain values, or arrays as they are."""

import io
from collections.abc import Mapping
from typing import Any, Final

import msgpack
import numpy as np
import zstandard
from numpy.typing import NDArray

from corpusmesh_core.errors import InternalError

_COMPRESSION_LEVEL: Final = 3
_MAX_UNPACKED_BYTES: Final = 2 * 1024 * 1024 * 1024


def pack(plain: Mapping[str, Any]) -> bytes:
    """Write plain values.

    Args:
        plain: Dicts, lists, strings, bytes and numbers.

    Returns:
        The bytes, compressed.
    """
    packed: bytes = msgpack.packb(plain, use_bin_type=True)
    return zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL).compress(packed)


def unpack(artefact: bytes) -> dict[str, Any]:
    """Read what `pack` wrote.

    Args:
        artefact: The bytes.

    Returns:
        The values.

    Raises:
        InternalError: ARTEFACT_UNREADABLE if it is no such thing.
    """
    try:
        packed = zstandard.ZstdDecompressor().decompress(artefact, max_output_size=_MAX_UNPACKED_BYTES)
        plain = msgpack.unpackb(packed, raw=False, strict_map_key=True)
    except (zstandard.ZstdError, ValueError, msgpack.UnpackException) as error:
        raise InternalError("ARTEFACT_UNREADABLE", "an artefact cannot be read") from error
    if not isinstance(plain, dict):
        raise InternalError("ARTEFACT_UNREADABLE", "an artefact has another shape")
    return plain


def pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Write arrays as they are.

    Args:
        arrays: By name.

    Returns:
        The bytes.
    """
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack_arrays(artefact: bytes) -> dict[str, NDArray[Any]]:
    """Read what `pack_arrays` wrote.

    Args:
        artefact: The bytes.

    Returns:
        Arrays by name.

    Raises:
        InternalError: ARTEFACT_UNREADABLE if it is no such thing.
    """
    try:
        with np.load(io.BytesIO(artefact), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, KeyError) as error:
        raise InternalError("ARTEFACT_UNREADABLE", "an artefact of vectors cannot be read") from error
