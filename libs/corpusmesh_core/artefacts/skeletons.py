"""The shape of a knowledge base's tree as one compressed object."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import zstandard
from numpy.typing import NDArray

from corpusmesh_core.artefacts.codec import pack_arrays, unpack_arrays
from corpusmesh_core.errors import InternalError
from corpusmesh_core.trees.skeleton import Skeleton, SkeletonLayer

_LEVEL: Final = 1
_MAX_UNPACKED_BYTES: Final = 2 * 1024 * 1024 * 1024
_FORMAT: Final = 1


def pack_skeleton(skeleton: Skeleton) -> bytes:
    """Write a tree.

    Args:
        skeleton: The tree.

    Returns:
        The object, compressed.
    """
    arrays: dict[str, NDArray[Any]] = {
        "format": np.array([_FORMAT, len(skeleton.layers), skeleton.full_leaf_count, skeleton.changed_leaf_count]),
        "names": np.array([skeleton.space_id, skeleton.grouping, skeleton.fingerprint.hex()]),
        "versions": skeleton.versions,
        "leaf_counts": skeleton.leaf_counts,
        "positions": skeleton.positions,
        "keys": skeleton.keys,
    }
    for number, layer in enumerate(skeleton.layers):
        for name in ("bounds", "children", "keys", "ordinals", "cosines"):
            arrays[f"{number}.{name}"] = getattr(layer, name)
        arrays[f"{number}.threshold"] = np.array(layer.threshold, dtype=np.float64)
    return zstandard.ZstdCompressor(level=_LEVEL).compress(pack_arrays(arrays))


def unpack_skeleton(packed: bytes) -> Skeleton:
    """Read what `pack_skeleton` wrote.

    Args:
        packed: The object.

    Returns:
        The tree.

    Raises:
        InternalError: ARTEFACT_UNREADABLE if it is no such object.
    """
    try:
        content = zstandard.ZstdDecompressor().decompress(packed, max_output_size=_MAX_UNPACKED_BYTES)
    except zstandard.ZstdError as error:
        raise InternalError("ARTEFACT_UNREADABLE", "the shape of a tree cannot be read") from error
    arrays = unpack_arrays(content)
    try:
        number, layer_count, full_leaf_count, changed_leaf_count = (int(value) for value in arrays["format"])
        if number != _FORMAT:
            raise InternalError("ARTEFACT_UNREADABLE", "the shape of a tree is of another release")
        space_id, grouping, fingerprint = (str(value) for value in arrays["names"])
        return Skeleton(
            space_id=space_id,
            grouping=grouping,
            fingerprint=bytes.fromhex(fingerprint),
            versions=arrays["versions"],
            leaf_counts=arrays["leaf_counts"],
            positions=arrays["positions"],
            keys=arrays["keys"],
            layers=tuple(_layer(arrays, place) for place in range(layer_count)),
            full_leaf_count=full_leaf_count,
            changed_leaf_count=changed_leaf_count,
        )
    except (KeyError, ValueError) as error:
        raise InternalError("ARTEFACT_UNREADABLE", "the shape of a tree has another form") from error


def _layer(arrays: Mapping[str, NDArray[Any]], number: int) -> SkeletonLayer:
    return SkeletonLayer(
        bounds=arrays[f"{number}.bounds"],
        children=arrays[f"{number}.children"],
        keys=arrays[f"{number}.keys"],
        ordinals=arrays[f"{number}.ordinals"],
        cosines=arrays[f"{number}.cosines"],
        threshold=float(arrays[f"{number}.threshold"]),
    )
