"""What the records of a graph say of themselves by their ids, and which chunks stand behind them (ADR-0014)."""

import re
from typing import Final

from corpusmesh_core.graphs.records import CHUNKS, texts_of
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
_KEYS: Final = re.compile(r"-(entity|relation|description)-([0-9a-f]{16})([0-9a-f]{16})?\Z")


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


def chunk_links(record: Record) -> tuple[str, ...]:
    """Name the chunks that a record stands for.

    Args:
        record: Such a record; what a report points at are the entities of its community.

    Returns:
        Ids of chunks, best first.
    """
    if record.kind is not RecordKind.COMMUNITY_REPORT:
        return record.links
    return tuple(record.attributes.get(CHUNKS, "").split())


def statement_of(record: Record) -> str:
    """Read what a record says of an entity or a relation.

    Args:
        record: Its record, or what a language model made of all that documents say.

    Returns:
        Description, else what a sentence says; without the name that the text begins with.
    """
    texts = texts_of(record) if record.kind in (RecordKind.ENTITY, RecordKind.RELATION) else None
    if texts is None:
        return record.text.removeprefix(record.title).strip()
    return texts.description or " ".join(filter(None, (texts.predicate, texts.sentence)))


def keys_of(record_id: str) -> tuple[int, ...]:
    """Read the keys out of the id of a record of an entity or a relation.

    Args:
        record_id: The id.

    Returns:
        One key for an entity, two for a relation, for a description those of what it describes; none for any other
        record.
    """
    match = _KEYS.search(record_id)
    if match is None or (match.group(1) == "entity" and match.group(3)) or match.group(1, 3) == ("relation", None):
        return ()
    return tuple(int(part, 16) for part in match.groups()[1:] if part is not None)
