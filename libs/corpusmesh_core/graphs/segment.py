"""A segment: subgraphs of some documents as immutable columns, which can be mapped into memory (ADR-0014)."""

from array import array
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import AbstractBitMap, BitMap

from corpusmesh_core.graphs.columns import Array, Content, invalid, open_columns
from corpusmesh_core.graphs.strings import Strings

MAX_POSITION: Final = 2**31 - 1
"""Largest place of a chunk in its document."""

MAGIC: Final = b"CMGRAPH\x01"
VERSION: Final = 1
LAYOUT: Final = (
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
    def open(cls, content: Content) -> "Segment":
        """Read a segment without a copy.

        Args:
            content: The file, in memory or mapped into it; it must stay as it is as long as the segment is used.

        Returns:
            The segment.

        Raises:
            InvalidArgumentError: GRAPH_FILE_INVALID if it is none, or is not what `pack_segment` writes.
        """
        columns: dict[str, Any] = open_columns(MAGIC, VERSION, LAYOUT, content)
        segment = cls(**columns)
        check_segment(segment)
        return segment

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(getattr(self, name).nbytes for name, _ in LAYOUT)

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
        # The bitmap of a tenant may be far larger than this.
        ordinals = np.concatenate([self.document_publisher, self.document_version])
        known = np.array((BitMap(array("I", ordinals.tobytes())) & visible).to_array(), np.uint32)
        if not len(known):
            return np.zeros(self.document_count, np.bool_)
        places = np.minimum(np.searchsorted(known, ordinals), len(known) - 1)
        is_visible: NDArray[np.bool_] = known[places] == ordinals
        return is_visible[: self.document_count] & is_visible[self.document_count :]


def check_segment(segment: Segment) -> None:
    """Refuse what `pack_segment` would not write: every place must be one that is there.

    Args:
        segment: Columns of the right types.

    Raises:
        InvalidArgumentError: GRAPH_FILE_INVALID with what is wrong.
    """
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
