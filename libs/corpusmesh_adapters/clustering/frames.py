"""What the clustering process is asked and answers: heads of fixed size, then plain arrays."""

import struct
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.trees.values import Vectors

REQUEST: Final = struct.Struct("<IIQ")
"""Vectors, values of each, seed; then the values, float32."""
ANSWER: Final = struct.Struct("<IQ")
"""Clusters, members of all of them; then the size of each and the members, int32."""
MAX_MEMBERS: Final = 10_000_000
"""Most members of an answer; a node belongs to at most ten of the components of each fit."""


def request_head(vectors: Vectors, seed: int) -> bytes:
    """Write the head of a request; the bytes of the vectors follow."""
    return REQUEST.pack(len(vectors), vectors.shape[1], seed % 2**32)


def pack_answer(clusters: Sequence[NDArray[np.int32]]) -> bytes:
    """Write an answer."""
    sizes = np.array([len(cluster) for cluster in clusters], dtype=np.int32)
    return (
        ANSWER.pack(len(clusters), int(sizes.sum())) + sizes.tobytes() + b"".join(each.tobytes() for each in clusters)
    )


def answer_bytes(head: bytes) -> tuple[int, int]:
    """Read the head of an answer.

    Returns:
        Its clusters, and the bytes that follow.

    Raises:
        ValueError: If there are more members than an answer can have.
    """
    cluster_count, member_count = ANSWER.unpack(head)
    if cluster_count > member_count or member_count > MAX_MEMBERS:
        raise ValueError("too many members")
    return cluster_count, 4 * (cluster_count + member_count)


def unpack_answer(cluster_count: int, body: bytes) -> tuple[NDArray[np.int32], ...]:
    """Read what follows the head of an answer."""
    values = np.frombuffer(body, dtype=np.int32)
    sizes, members = values[:cluster_count], values[cluster_count:]
    return tuple(np.split(members, np.cumsum(sizes)[:-1])) if cluster_count else ()
