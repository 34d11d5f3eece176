"""Segments: subgraphs of some documents as immutable columns, merged as logs are (ADR-0014).

A segment holds what the graph of a knowledge base needs to be walked, and names; texts and vectors are in the index.
Documents are in the order of their publishers, entities and relations of each in the order of their keys: equal
subgraphs give equal bytes, whatever they were split and merged into before.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import AbstractBitMap

from corpusmesh_core.graphs.columns import Array, Content, invalid, offsets_of, open_columns, pack_columns, ranges
from corpusmesh_core.graphs.keys import entity_key, pair_of
from corpusmesh_core.graphs.settings import GraphMethod
from corpusmesh_core.graphs.strings import Strings, StringWriter
from corpusmesh_core.graphs.values import Mention, Subgraph

METHOD_BITS: Final[Mapping[GraphMethod, int]] = {
    GraphMethod.NER: 1,
    GraphMethod.LIGHT: 2,
    GraphMethod.GENERAL: 4,
    GraphMethod.TRIPLES: 8,
}
"""How something was found, as bits of `entity_methods` and `relation_methods`."""
MAX_POSITION: Final = 2**31 - 1

_MAGIC: Final = b"CMGRAPH\x01"
_VERSION: Final = 1
_LAYOUT: Final = (
    ("document_version", "<u4"),
    ("document_publisher", "<u4"),
    ("document_entities", "<i8"),
    ("document_relations", "<i8"),
    ("entity_key", "<u8"),
    ("entity_name", "<u4"),
    ("entity_type", "<u4"),
    ("entity_confidence", "<f4"),
    ("entity_methods", "|u1"),
    ("entity_aliases", "<i8"),
    ("alias_key", "<u8"),
    ("alias_name", "<u4"),
    ("entity_mentions", "<i8"),
    ("mention_position", "<u4"),
    ("mention_weight", "<f4"),
    ("relation_source", "<u4"),
    ("relation_target", "<u4"),
    ("relation_weight", "<f4"),
    ("relation_confidence", "<f4"),
    ("relation_methods", "|u1"),
    ("relation_mentions", "<i8"),
    ("relation_mention_position", "<u4"),
    ("relation_mention_weight", "<f4"),
    ("string_offsets", "<i8"),
    ("string_bytes", "|u1"),
)


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


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Columns of a segment; d documents, e entities (one for each document and key), r relations likewise.

    Attributes:
        document_version: Version, shape (d,).
        document_publisher: Publisher of the subgraph, ascending, shape (d,).
        document_entities: Where the entities of each document begin, shape (d + 1,).
        document_relations: Where its relations begin, shape (d + 1,).
        entity_key: Key, ascending within a document, shape (e,).
        entity_name: Place of the name among the strings, shape (e,).
        entity_type: Place of the type, shape (e,).
        entity_confidence: Confidence 0 to 1, shape (e,).
        entity_methods: See METHOD_BITS, shape (e,).
        entity_aliases: Where the aliases of each entity begin, shape (e + 1,).
        alias_key: Key of each alias.
        alias_name: Place of the alias among the strings.
        entity_mentions: Where the mentions of each entity begin, shape (e + 1,).
        mention_position: Chunk of each mention.
        mention_weight: Its weight, above 0.
        relation_source: Source among the entities of the segment, shape (r,).
        relation_target: Target, likewise, of the same document.
        relation_weight: Strength, above 0, shape (r,).
        relation_confidence: Confidence 0 to 1, shape (r,).
        relation_methods: See METHOD_BITS, shape (r,).
        relation_mentions: Where the mentions of each relation begin, shape (r + 1,).
        relation_mention_position: Chunk of each.
        relation_mention_weight: Its weight, above 0.
        string_offsets: Where strings begin.
        string_bytes: UTF-8.
    """

    document_version: NDArray[np.uint32]
    document_publisher: NDArray[np.uint32]
    document_entities: NDArray[np.int64]
    document_relations: NDArray[np.int64]
    entity_key: NDArray[np.uint64]
    entity_name: NDArray[np.uint32]
    entity_type: NDArray[np.uint32]
    entity_confidence: NDArray[np.float32]
    entity_methods: NDArray[np.uint8]
    entity_aliases: NDArray[np.int64]
    alias_key: NDArray[np.uint64]
    alias_name: NDArray[np.uint32]
    entity_mentions: NDArray[np.int64]
    mention_position: NDArray[np.uint32]
    mention_weight: NDArray[np.float32]
    relation_source: NDArray[np.uint32]
    relation_target: NDArray[np.uint32]
    relation_weight: NDArray[np.float32]
    relation_confidence: NDArray[np.float32]
    relation_methods: NDArray[np.uint8]
    relation_mentions: NDArray[np.int64]
    relation_mention_position: NDArray[np.uint32]
    relation_mention_weight: NDArray[np.float32]
    string_offsets: NDArray[np.int64]
    string_bytes: NDArray[np.uint8]

    @classmethod
    def open(cls, content: Content, *, checks_content: bool = True) -> "Segment":
        """Read a segment without a copy.

        Args:
            content: The file, in memory or mapped into it; it must stay as it is as long as the segment is used.
            checks_content: Whether to read everything; no need for what this process has checked before.

        Returns:
            The segment.

        Raises:
            InvalidArgumentError: GRAPH_FILE_INVALID if it is none, or is not what `pack_segment` writes.
        """
        columns: dict[str, Any] = open_columns(_MAGIC, _VERSION, _LAYOUT, content, checks_content=checks_content)
        segment = cls(**columns)
        if checks_content:
            _check(segment)
        return segment

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(getattr(self, name).nbytes for name, _ in _LAYOUT)

    @property
    def document_count(self) -> int:
        """Documents whose subgraphs it holds."""
        return len(self.document_version)

    @property
    def entity_count(self) -> int:
        """Entities, those of each document counted by themselves."""
        return len(self.entity_key)

    @property
    def relation_count(self) -> int:
        """Relations, those of each document counted by themselves."""
        return len(self.relation_source)

    @property
    def strings(self) -> Strings:
        """Names and types."""
        return Strings(self.string_offsets, self.string_bytes)

    def shows(self, visible: AbstractBitMap) -> NDArray[np.bool_]:
        """Tell which documents a bitmap shows: both the version and the subgraph must be in it.

        Args:
            visible: Ordinals.

        Returns:
            Shape (d,).
        """
        # A publisher is rarely shared, so one look-up for each; the bitmap of a tenant may be far larger than this.
        pairs = zip(self.document_publisher.tolist(), self.document_version.tolist(), strict=True)
        return np.fromiter((a in visible and b in visible for a, b in pairs), np.bool_, self.document_count)


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
    lists: dict[str, list[Any]] = {name: [] for name, _ in _LAYOUT}
    strings = StringWriter()
    for document in ordered:
        lists["document_version"].append(document.version)
        lists["document_publisher"].append(document.publisher)
        lists["document_entities"].append(len(document.subgraph.entities))
        lists["document_relations"].append(len(document.subgraph.relations))
        _add(document.subgraph, lists, strings)
    columns: dict[str, Array] = {}
    for name, kind in _LAYOUT:
        is_offsets = name in _OFFSETS
        try:
            array = np.array(lists[name], "<i8" if is_offsets else kind)
        except (OverflowError, ValueError) as error:
            raise invalid(f"a value of {name} is out of range") from error
        columns[name] = offsets_of(array) if is_offsets else array
    columns["string_offsets"], columns["string_bytes"] = strings.columns()
    segment = Segment(**columns)
    _check(segment)
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
    bases = offsets_of(np.array([len(segment.strings) for segment in segments], np.int64))
    pools = tuple((int(base), segment.strings) for base, segment in zip(bases, segments, strict=False))
    parts = [_taken(segment, mask, int(base)) for segment, mask, base in zip(segments, masks, bases, strict=False)]
    if not parts:
        return _together({}, []), ()
    joined = {
        name: np.concatenate([part[name] for part in parts]) for name, _ in _LAYOUT if name not in ("string_offsets",)
    }
    publishers = joined["document_publisher"]
    _, first = np.unique(publishers, return_index=True)
    if len(first) == len(publishers) and bool(np.all(np.diff(first) > 0)):
        return _together(joined, []), pools
    return _together(joined, [first.astype(np.int64)]), pools


def _taken(segment: Segment, mask: NDArray[np.bool_], base: int) -> dict[str, Array]:
    """Give the columns of some documents, offsets as lengths, ends of relations within their document."""
    part: dict[str, Array] = {name: getattr(segment, name) for name, _ in _LAYOUT}
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
    for name, _ in _LAYOUT:
        if (level := _LEVELS.get(name)) is not None:
            out[name] = part[name][chosen[level]]
    return out


def _together(joined: Mapping[str, Array], order: Sequence[NDArray[np.int64]]) -> Segment:
    """Make a segment of columns whose offsets are lengths."""
    columns = {name: np.zeros(0, kind) for name, kind in _LAYOUT} | dict(joined)
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
    columns: dict[str, Array] = {name: getattr(segment, name) for name, _ in _LAYOUT}
    columns |= {"entity_name": own[starts], "entity_type": own[starts + 1], "alias_name": own[places]}
    columns["string_offsets"], columns["string_bytes"] = strings.columns()
    return Segment(**columns)


def _pack(segment: Segment) -> bytes:
    return pack_columns(_MAGIC, _VERSION, _LAYOUT, {item.name: getattr(segment, item.name) for item in fields(segment)})


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


def _check(segment: Segment) -> None:
    """Refuse what `pack_segment` would not write: every place must be one that is there."""
    for name, owner, members in _SPANS:
        offsets, length = getattr(segment, name), len(getattr(segment, members))
        if len(offsets) != len(getattr(segment, owner)) + 1 or offsets[0] != 0 or offsets[-1] != length:
            raise invalid(f"{name} does not fit")
        if bool(np.any(np.diff(offsets) < 0)):
            raise invalid(f"{name} goes back")
    for name, like in _ALIKE:
        if len(getattr(segment, name)) != len(getattr(segment, like)):
            raise invalid(f"{name} does not fit")
    for name in ("entity_name", "entity_type", "alias_name"):
        _require(bool(np.all(getattr(segment, name) < len(segment.string_offsets) - 1)), name)
    for name in ("mention_position", "relation_mention_position"):
        _require(bool(np.all(getattr(segment, name) <= MAX_POSITION)), name)
    for name in ("mention_weight", "relation_mention_weight", "relation_weight"):
        values = getattr(segment, name)
        _require(bool(np.all(np.isfinite(values) & (values > 0))), name)
    for name in ("entity_confidence", "relation_confidence"):
        values = getattr(segment, name)
        # False for NaN.
        _require(bool(np.all((values >= 0) & (values <= 1))), name)
    _require(bool(np.all(segment.entity_key > 0)), "entity_key")
    _require(_ascends(segment.document_publisher, None), "document_publisher")
    _require(_ascends(segment.entity_key, segment.document_entities), "entity_key")
    for name, spans in (("mention_position", "entity_mentions"), ("relation_mention_position", "relation_mentions")):
        _require(_ascends(getattr(segment, name), getattr(segment, spans)), name)
    _check_relations(segment)


def _check_relations(segment: Segment) -> None:
    counts = np.diff(segment.document_relations)
    first, end = (np.repeat(part, counts) for part in (segment.document_entities[:-1], segment.document_entities[1:]))
    source, target = segment.relation_source.astype(np.int64), segment.relation_target.astype(np.int64)
    low, high = np.minimum(source, target), np.maximum(source, target)
    _require(bool(np.all((low >= first) & (high < end) & (low < high))), "relation_source")
    _require(_ascends((low << 32) | high, segment.document_relations), "relation_target")


def _ascends(values: Array, offsets: NDArray[np.int64] | None) -> bool:
    """Tell whether values rise within each span."""
    if len(values) < 2:
        return True
    rises: NDArray[np.bool_] = values[1:] > values[:-1]
    if offsets is not None:
        # Where a span ends the next may begin below.
        inner = offsets[1:-1]
        inner = inner[(inner > 0) & (inner < len(values))]
        rises[inner - 1] = True
    return bool(np.all(rises))


def _require(holds: bool, name: str) -> None:
    if not holds:
        raise invalid(f"{name} has a value that must not be")


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
    for name, _ in _LAYOUT
    if not name.startswith("string_")
}
"""Whose value each column holds."""
_SPANS: Final = (
    ("document_entities", "document_version", "entity_key"),
    ("document_relations", "document_version", "relation_source"),
    ("entity_aliases", "entity_key", "alias_key"),
    ("entity_mentions", "entity_key", "mention_position"),
    ("relation_mentions", "relation_source", "relation_mention_position"),
)
_ALIKE: Final = (
    ("document_publisher", "document_version"),
    ("entity_name", "entity_key"),
    ("entity_type", "entity_key"),
    ("entity_confidence", "entity_key"),
    ("entity_methods", "entity_key"),
    ("alias_name", "alias_key"),
    ("mention_weight", "mention_position"),
    ("relation_target", "relation_source"),
    ("relation_weight", "relation_source"),
    ("relation_confidence", "relation_source"),
    ("relation_methods", "relation_source"),
    ("relation_mention_weight", "relation_mention_position"),
)
