"""What the records of a graph say of themselves by their ids, and which chunks stand behind them (ADR-0014)."""

import re
from typing import Final

from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.records import Record, RecordKind

GRAPH_KINDS: Final = frozenset(
    {
        RecordKind.ENTITY,
        RecordKind.RELATION,
        RecordKind.COMMUNITY_REPORT,
        RecordKind.DESCRIPTION,
        RecordKind.GRAPH_TABLE,
    }
)
"""Kinds of what graphs are made of."""
_STANDING_FOR_CHUNKS: Final = GRAPH_KINDS | {RecordKind.TREE_NODE}
_KEYS: Final = re.compile(r"-(entity|relation)-([0-9a-f]{16})([0-9a-f]{16})?\Z")


def stands_for_chunks(item: RankedCandidate) -> bool:
    """Tell whether a hit is made of chunks, so that its citations lead to their places.

    Args:
        item: The hit.

    Returns:
        True for nodes of trees and for what graphs are made of.
    """
    return item.candidate.record.kind in _STANDING_FOR_CHUNKS


def is_table(record: Record) -> bool:
    """Tell whether a record is a table that was made for one request.

    Args:
        record: The record.

    Returns:
        Whether it is; it is in no index and has no sentences to quote.
    """
    return record.kind is RecordKind.GRAPH_TABLE


def keys_of(record_id: str) -> tuple[int, ...]:
    """Read the keys out of the id of a record of an entity or a relation.

    Args:
        record_id: The id.

    Returns:
        One key for an entity, two for a relation, none for any other record.
    """
    match = _KEYS.search(record_id)
    if match is None or (match.group(1) == "relation") != (match.group(3) is not None):
        return ()
    return tuple(int(part, 16) for part in match.groups()[1:] if part is not None)
