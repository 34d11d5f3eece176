"""The communities of a graph as a build keeps them (ADR-0014)."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.graphs.columns import invalid, open_columns, pack_columns
from corpusmesh_core.graphs.values import Community

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Grouping:
    """The communities of a graph, and what tells when they are found anew.

    Attributes:
        communities: By level, then by key; each has two members at least. Each entity with a relation is in exactly
            one of every level down to the last one that it reaches.
        found_count: Members when all were found.
        found_modularity: Modularity of the coarsest level then.
        placed_count: Members that came or went since then.
    """

    communities: tuple[Community, ...] = ()
    found_count: int = 0
    found_modularity: float = 0.0
    placed_count: int = 0


def community_key(level: int, members: Sequence[int]) -> str:
    """Name a community.

    Args:
        level: Its level.
        members: Keys of its members, ascending.

    Returns:
        Sixteen hexadecimal digits.
    """
    return digest_of(level, np.array(members, dtype="<u8").tobytes())


def digest_of(level: int, members: bytes | memoryview) -> str:
    """Name a community, see `community_key`.

    Args:
        level: Its level.
        members: Keys of its members, ascending, eight bytes each, the lowest first.

    Returns:
        Sixteen hexadecimal digits.
    """
    digest = hashlib.blake2b(level.to_bytes(2), digest_size=8)
    digest.update(members)
    return digest.hexdigest()


def pack_grouping(grouping: Grouping) -> bytes:
    """Write communities.

    Args:
        grouping: The communities.

    Returns:
        The bytes; equal communities give equal bytes.
    """
    items = grouping.communities
    place = {item.key: number for number, item in enumerate(items)}
    told = {
        "found_count": grouping.found_count,
        "found_modularity": grouping.found_modularity,
        "placed_count": grouping.placed_count,
    }
    columns: dict[str, NDArray[Any]] = {
        "key": np.array([int(item.key, 16) for item in items], np.uint64),
        "level": np.array([item.level for item in items], np.uint8),
        "parent": np.array([place.get(item.parent, -1) for item in items], np.int32),
        "size": np.array([len(item.members) for item in items], np.int64),
        "members": np.fromiter(chain.from_iterable(item.members for item in items), np.uint64),
        "told": np.frombuffer(json.dumps(told).encode(), np.uint8),
    }
    return pack_columns(_MAGIC, FORMAT, _LAYOUT, columns)


def unpack_grouping(artefact: bytes) -> Grouping:
    """Read communities.

    Args:
        artefact: What `pack_grouping` wrote.

    Returns:
        Equal communities.

    Raises:
        InvalidArgumentError: GRAPH_FILE_INVALID if it is no such thing.
    """
    columns = open_columns(_MAGIC, FORMAT, _LAYOUT, artefact)
    sizes, members = columns["size"], columns["members"].tolist()
    if len(members) != int(sizes.sum()) or len(sizes) != len(columns["key"]):
        raise invalid("its members do not fit its communities")
    keys = [f"{key:016x}" for key in columns["key"].tolist()]
    ends = np.cumsum(sizes).tolist()
    rows = zip(keys, columns["level"].tolist(), columns["parent"].tolist(), sizes.tolist(), ends, strict=True)
    try:
        communities = tuple(
            Community(key, level, tuple(members[end - size : end]), keys[parent] if parent >= 0 else "")
            for key, level, parent, size, end in rows
        )
        return Grouping(communities, **json.loads(columns["told"].tobytes()))
    except (ValueError, IndexError, TypeError) as error:
        raise invalid("its communities do not fit together") from error


_MAGIC: Final = b"CMGGROUP"
_LAYOUT: Final = (
    ("key", "<u8"),
    ("level", "u1"),
    ("parent", "<i4"),
    ("size", "<i8"),
    ("members", "<u8"),
    ("told", "u1"),
)
