"""Segments: subgraphs of some documents as immutable columns, merged as logs are (ADR-0014).

A segment holds what the graph of a knowledge base needs to be walked, and names; texts and vectors are in the index.
Documents are in the order of their publishers, entities and relations of each in the order of their keys: equal
subgraphs give equal bytes, whatever they were split and merged into before.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import AbstractBitMap

from corpusmesh_core.graphs.columns import Array, invalid, offsets_of, pack_columns, ranges
from corpusmesh_core.graphs.keys import entity_key, pair_of
from corpusmesh_core.graphs.segment import LAYOUT, MAGIC, VERSION, Segment, check_segment
from corpusmesh_core.graphs.settings import GraphMethod
from corpusmesh_core.graphs.strings import Strings, StringWriter
from corpusmesh_core.graphs.values import Mention, Subgraph

__all__ = [
    "METHOD_BITS",
    "Segment",
    "SegmentDocument",
    "merge_segments",
    "pack_segment",
    "pools_of",
    "select",
]

METHOD_BITS: Final[Mapping[GraphMethod, int]] = {
    GraphMethod.NER: 1,
    GraphMethod.LIGHT: 2,
    GraphMethod.GENERAL: 4,
    GraphMethod.TRIPLES: 8,
}
"""How something was found, as bits of `entity_methods` and `relation_methods`."""


@dataclass(frozen=True, slots=True)
class SegmentDocument:
    """The subgraph of a document, as it is published.

    Attributes:
        version: Ordinal of the document's version.
        publisher: Ordinal that publishes the subgraph.
        subgraph: What the document says.
    """

    version: int
    publisher: int
    subgraph: Subgraph


def pack_segment(documents: Sequence[SegmentDocument]) -> bytes:
    """Write the subgraphs of some documents.

    Args:
        documents: In any order, each publisher once.

    Returns:
        The segment.

    Raises:
        InvalidArgumentError: GRAPH_SUBGRAPH_INVALID if a subgraph is not what its class promises.
    """
    ordered = sorted(documents, key=lambda item: item.publisher)
    if len({item.publisher for item in ordered}) < len(ordered):
        raise invalid("a publisher publishes one subgraph")
    lists: dict[str, list[Any]] = {name: [] for name, _ in LAYOUT}
    strings = StringWriter()
    for document in ordered:
        lists["document_version"].append(document.version)
        lists["document_publisher"].append(document.publisher)
        lists["document_entities"].append(len(document.subgraph.entities))
        lists["document_relations"].append(len(document.subgraph.relations))
        _add(document.subgraph, lists, strings)
    columns: dict[str, Array] = {}
    for name, kind in LAYOUT:
        is_offsets = name in _OFFSETS
        try:
            array = np.array(lists[name], "<i8" if is_offsets else kind)
        except (OverflowError, ValueError) as error:
            raise invalid(f"a value of {name} is out of range") from error
        columns[name] = offsets_of(array) if is_offsets else array
    columns["string_offsets"], columns["string_bytes"] = strings.columns()
    segment = Segment(**columns)
    check_segment(segment)
    return _pack(segment)


def merge_segments(segments: Sequence[Segment], keep_publishers: Collection[int] | AbstractBitMap | None) -> bytes:
    """Make one segment of several.

    Args:
        segments: In any order; a publisher that several hold is taken from the first.
        keep_publishers: Publishers that are kept; None for all.

    Returns:
        The segment, the same as `pack_segment` gives of what is kept.
    """
    masks = []
    for segment in segments:
        if keep_publishers is None:
            masks.append(np.ones(segment.document_count, np.bool_))
        else:
            publishers = segment.document_publisher.tolist()
            masks.append(np.fromiter((item in keep_publishers for item in publishers), np.bool_, len(publishers)))
    merged, pools = select(segments, masks)
    return _pack(_with_own_strings(merged, pools))


def select(
    segments: Sequence[Segment], masks: Sequence[NDArray[np.bool_]]
) -> tuple[Segment, tuple[tuple[int, Strings], ...]]:
    """Take some documents out of segments, in the order of their publishers.

    Args:
        segments: The segments.
        masks: For each the documents that are taken, shape (d,).

    Returns:
        The documents as a segment whose strings are empty, and the strings of each given segment with the place at
        which they begin among those that the segment names.
    """
    pools = pools_of(segments)
    parts = [_taken(segment, mask, base) for segment, mask, (base, _) in zip(segments, masks, pools, strict=True)]
    if not parts:
        return _together({}, []), ()
    joined = {
        name: np.concatenate([part[name] for part in parts]) for name, _ in LAYOUT if name not in ("string_offsets",)
    }
    publishers = joined["document_publisher"]
    _, first = np.unique(publishers, return_index=True)
    if len(first) == len(publishers) and bool(np.all(np.diff(first) > 0)):
        return _together(joined, []), pools
    return _together(joined, [first.astype(np.int64)]), pools


def pools_of(segments: Sequence[Segment]) -> tuple[tuple[int, Strings], ...]:
    """Number the strings of segments, those of one after those of the other.

    Args:
        segments: In the order in which they are selected from.

    Returns:
        The strings of each with the place at which they begin.
    """
    bases = offsets_of(np.array([len(segment.strings) for segment in segments], np.int64)).tolist()
    return tuple((base, segment.strings) for base, segment in zip(bases, segments, strict=False))


def _taken(segment: Segment, mask: NDArray[np.bool_], base: int) -> dict[str, Array]:
    """Give the columns of some documents, offsets as lengths, ends of relations within their document."""
    part: dict[str, Array] = {name: getattr(segment, name) for name, _ in LAYOUT}
    for name in _OFFSETS:
        part[name] = np.diff(part[name])
    first = np.repeat(segment.document_entities[:-1], part["document_relations"])
    part["relation_source"] = segment.relation_source.astype(np.int64) - first
    part["relation_target"] = segment.relation_target.astype(np.int64) - first
    for name in ("entity_name", "entity_type", "alias_name"):
        part[name] = getattr(segment, name).astype(np.int64) + base
    return part if bool(mask.all()) else _gathered(part, np.flatnonzero(mask))


def _gathered(part: Mapping[str, Array], documents: NDArray[np.int64]) -> dict[str, Array]:
    """Take documents out of columns whose offsets are lengths, in the order that is given."""
    out = dict(part)
    chosen = {"document": documents}
    for parent, child, counts in _TREE:
        starts = offsets_of(part[counts].astype(np.int64))
        own = chosen[parent]
        chosen[child] = ranges(starts[own], part[counts].astype(np.int64)[own])
    for name, _ in LAYOUT:
        if (level := _LEVELS.get(name)) is not None:
            out[name] = part[name][chosen[level]]
    return out


def _together(joined: Mapping[str, Array], order: Sequence[NDArray[np.int64]]) -> Segment:
    """Make a segment of columns whose offsets are lengths."""
    columns = {name: np.zeros(0, kind) for name, kind in LAYOUT} | dict(joined)
    for documents in order:
        columns = _gathered(columns, documents)
    first = np.cumsum(columns["document_entities"]) - columns["document_entities"]
    shift = np.repeat(first, columns["document_relations"].astype(np.int64)).astype(np.int64)
    columns["relation_source"] = columns["relation_source"].astype(np.int64) + shift
    columns["relation_target"] = columns["relation_target"].astype(np.int64) + shift
    for name in _OFFSETS:
        columns[name] = offsets_of(columns[name].astype(np.int64))
    columns["string_offsets"], columns["string_bytes"] = np.zeros(1, np.int64), np.zeros(0, np.uint8)
    return Segment(**columns)


def _with_own_strings(segment: Segment, pools: Sequence[tuple[int, Strings]]) -> Segment:
    """Give a selection strings of its own, in the order in which `pack_segment` meets them."""
    alias_counts = np.diff(segment.entity_aliases)
    # Name, type, aliases of one entity after the other.
    total = 2 * segment.entity_count + len(segment.alias_name)
    met = np.zeros(total, np.int64)
    starts = np.arange(segment.entity_count, dtype=np.int64) * 2 + segment.entity_aliases[:-1]
    places = ranges(starts + 2, alias_counts)
    met[starts], met[starts + 1], met[places] = segment.entity_name, segment.entity_type, segment.alias_name
    strings = StringWriter()
    own = np.array(strings.add_all(pools, met), np.int64)
    columns: dict[str, Array] = {name: getattr(segment, name) for name, _ in LAYOUT}
    columns |= {"entity_name": own[starts], "entity_type": own[starts + 1], "alias_name": own[places]}
    columns["string_offsets"], columns["string_bytes"] = strings.columns()
    return Segment(**columns)


def _pack(segment: Segment) -> bytes:
    return pack_columns(MAGIC, VERSION, LAYOUT, {name: getattr(segment, name) for name, _ in LAYOUT})


def _add(subgraph: Subgraph, lists: dict[str, list[Any]], strings: StringWriter) -> None:
    """Add one document's entities and relations to the columns; offsets are lengths as yet."""
    first = len(lists["entity_key"])
    places: dict[int, int] = {}
    for place, entity in enumerate(sorted(subgraph.entities, key=lambda item: item.key), start=first):
        places[entity.key] = place
        aliases = sorted({(key, alias) for alias in entity.aliases if (key := entity_key(alias))})
        lists["entity_key"].append(entity.key)
        lists["entity_name"].append(strings.add(entity.name))
        lists["entity_type"].append(strings.add(entity.type))
        lists["entity_confidence"].append(entity.confidence)
        lists["entity_methods"].append(sum({METHOD_BITS[method] for method in entity.methods}))
        lists["entity_aliases"].append(len(aliases))
        for key, alias in aliases:
            lists["alias_key"].append(key)
            lists["alias_name"].append(strings.add(alias))
        lists["entity_mentions"].append(_add_mentions(entity.mentions, lists, ""))
    for relation in sorted(subgraph.relations, key=lambda item: pair_of(item.source, item.target)):
        if relation.source not in places or relation.target not in places:
            raise invalid("a relation has an end that is not among the entities")
        lists["relation_source"].append(places[relation.source])
        lists["relation_target"].append(places[relation.target])
        lists["relation_weight"].append(relation.weight)
        lists["relation_confidence"].append(relation.confidence)
        lists["relation_methods"].append(sum({METHOD_BITS[method] for method in relation.methods}))
        lists["relation_mentions"].append(_add_mentions(relation.mentions, lists, "relation_"))


def _add_mentions(mentions: Sequence[Mention], lists: dict[str, list[Any]], prefix: str) -> int:
    for mention in sorted(mentions, key=lambda item: item.position):
        lists[f"{prefix}mention_position"].append(mention.position)
        lists[f"{prefix}mention_weight"].append(mention.weight)
    return len(mentions)


_TREE: Final = (
    ("document", "entity", "document_entities"),
    ("document", "relation", "document_relations"),
    ("entity", "alias", "entity_aliases"),
    ("entity", "mention", "entity_mentions"),
    ("relation", "relation_mention", "relation_mentions"),
)
"""What belongs to what, and the column that says how many."""
_LEVEL_NAMES: Final = ("relation_mention", "mention", "alias", "relation", "entity", "document")
_OFFSETS: Final = tuple(counts for _, _, counts in _TREE)
_LEVELS: Final[Mapping[str, str]] = {
    name: next(level for level in _LEVEL_NAMES if name.startswith(f"{level}_"))
    for name, _ in LAYOUT
    if not name.startswith("string_")
}
"""Whose value each column holds."""
