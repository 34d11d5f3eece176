"""Files of named numpy columns: versioned, checksummed, aligned for memory maps, and safe to read from a stranger."""

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import InvalidArgumentError

Content = bytes | memoryview
"""Bytes in memory, or those of a file that is mapped into it."""
Array = NDArray[Any]
Layout = Sequence[tuple[str, str]]
"""Name and numpy type (little-endian) of each column, in order."""

_HEADER: Final = struct.Struct("<8sIIIIQ")
_ALIGNMENT: Final = 64


def column_parts(
    magic: bytes, version: int, layout: Layout, columns: Mapping[str, Array]
) -> Iterator[bytes | memoryview]:
    """Write columns piece by piece: header (magic, version, column count, two checksums, length), lengths, columns.

    Args:
        magic: Eight bytes that name the kind of file.
        version: Version of the layout.
        layout: The columns.
        columns: One array of one dimension for each.

    Yields:
        Pieces of the file, of the columns without a copy; equal columns, equal bytes.
    """
    arrays = [np.ascontiguousarray(columns[name], dtype=np.dtype(kind)) for name, kind in layout]
    counts = np.array([len(array) for array in arrays], "<u8").tobytes()
    starts, total = _places([len(array) for array in arrays], layout)
    place, checksum, pieces = _HEADER.size + len(counts), 0, list[bytes | memoryview]()
    for start, array in zip(starts, arrays, strict=True):
        piece = array.view(np.uint8).data if array.nbytes else b""
        for part in (bytes(start - place), piece):
            checksum = zlib.crc32(part, checksum)
            pieces.append(part)
        place = start + array.nbytes
    yield _HEADER.pack(magic, version, len(arrays), zlib.crc32(counts), checksum, total) + counts
    yield from pieces


def pack_columns(magic: bytes, version: int, layout: Layout, columns: Mapping[str, Array]) -> bytes:
    """Write columns, see `column_parts`.

    Args:
        magic: Eight bytes that name the kind of file.
        version: Version of the layout.
        layout: The columns.
        columns: One array of one dimension for each.

    Returns:
        The file.
    """
    return b"".join(column_parts(magic, version, layout, columns))


def open_columns(magic: bytes, version: int, layout: Layout, content: Content) -> dict[str, Array]:
    """Read columns without a copy.

    Args:
        magic: Eight bytes that name the kind of file.
        version: Version of the layout.
        layout: The columns.
        content: The file; it must stay as it is as long as the columns are used.

    Returns:
        Column by name, read-only, shape (length,).

    Raises:
        InvalidArgumentError: GRAPH_FILE_INVALID if it is not such a file, or damaged.
    """
    view = memoryview(content).cast("B")
    if len(view) < _HEADER.size:
        raise invalid("the file is too short")
    found, its_version, count, counts_sum, body_sum, total = _HEADER.unpack(view[: _HEADER.size])
    if found != magic or its_version != version or count != len(layout) or total != len(view):
        raise invalid("the file is of another kind or version, or was cut")
    first = _HEADER.size + 8 * count
    if len(view) < first or zlib.crc32(view[_HEADER.size : first]) != counts_sum:
        raise invalid("the head of the file is damaged")
    lengths = np.frombuffer(view[_HEADER.size : first], "<u8")
    if lengths.size and int(lengths.max()) > total:
        raise invalid("a column is longer than the file")
    starts, wanted = _places([int(length) for length in lengths], layout)
    if wanted != total or zlib.crc32(view[first:]) != body_sum:
        raise invalid("the content of the file is damaged")
    columns: dict[str, Array] = {}
    for (name, kind), start, length in zip(layout, starts, lengths.tolist(), strict=True):
        size = length * np.dtype(kind).itemsize
        array = np.frombuffer(view[start : start + size], np.dtype(kind))
        array.flags.writeable = False
        columns[name] = array
    return columns


def invalid(why: str) -> InvalidArgumentError:
    """Say what is wrong with a file of a graph.

    Args:
        why: For people, without content of the file.

    Returns:
        The error.
    """
    return InvalidArgumentError("GRAPH_FILE_INVALID", f"a file of a graph cannot be read: {why}", field="object")


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Name the members of ranges, one range after the other.

    Args:
        starts: First member of each, shape (n,).
        counts: Members of each, shape (n,).

    Returns:
        Shape (sum of counts,).
    """
    total = int(counts.sum())
    if not total:
        return np.zeros(0, np.int64)
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(total, dtype=np.int64)


def offsets_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Turn lengths into offsets.

    Args:
        counts: Shape (n,).

    Returns:
        Shape (n + 1,), from 0 to the sum.
    """
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _places(lengths: Sequence[int], layout: Layout) -> tuple[list[int], int]:
    """Place columns one behind the other, each at a multiple of 64 bytes."""
    place = _HEADER.size + 8 * len(lengths)
    starts = []
    for length, (_, kind) in zip(lengths, layout, strict=True):
        place = -(-place // _ALIGNMENT) * _ALIGNMENT
        starts.append(place)
        place += length * np.dtype(kind).itemsize
    return starts, place
