"""The graph of one caller at one snapshot: sparse matrices over what the caller may see (ADR-0014)."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import AbstractBitMap

from corpusmesh_core.graphs.compiled import CompiledGraph
from corpusmesh_core.graphs.compiling import compile_graph
from corpusmesh_core.graphs.corrections import Corrections
from corpusmesh_core.graphs.edits import EntityTexts, GraphEdits, RelationTexts, edits_of
from corpusmesh_core.graphs.keys import key_text, pair_of
from corpusmesh_core.graphs.ranks import page_rank
from corpusmesh_core.graphs.resolution import JoinedNames
from corpusmesh_core.graphs.segments import Segment
from corpusmesh_core.graphs.strings import Strings
from corpusmesh_core.records import Ordinal, RecordKind, chunk_record_id, derived_record_id

UNKNOWN: Final = -1
"""Place of what is not in a view."""


class GraphView:
    """The graph of one caller; n entities, r relations, p passages. Everything in it is visible to the caller."""

    def __init__(
        self, graph: CompiledGraph, pools: Sequence[tuple[int, Strings]], edits: GraphEdits | None = None
    ) -> None:
        """Create the view; see `compile_view`.

        Args:
            graph: The compiled graph.
            pools: Strings, each with the place at which they begin.
            edits: What people have corrected, the same as the graph was compiled with.
        """
        self._graph = graph
        self._edits = edits or GraphEdits()
        self._pools = tuple(pools)
        self._bases = np.array([base for base, _ in pools], np.int64)

    @property
    def graph(self) -> CompiledGraph:
        """The columns that it is made of."""
        return self._graph

    @property
    def entity_keys(self) -> NDArray[np.uint64]:
        """Key that stands for each entity, ascending, shape (n,)."""
        return self._graph.entity_key

    @property
    def passages(self) -> NDArray[np.uint32]:
        """Version and position of each passage, ascending, shape (p, 2)."""
        return self._graph.passages

    @property
    def relation_ends(self) -> NDArray[np.int32]:
        """Smaller and larger entity of each relation, ascending, shape (r, 2)."""
        return self._graph.relation_ends

    @property
    def relation_weights(self) -> NDArray[np.float32]:
        """Strength of each relation, above 0, shape (r,)."""
        return self._graph.relation_weight

    @property
    def document_frequency(self) -> NDArray[np.int32]:
        """Documents that name each entity, shape (n,)."""
        return self._graph.document_frequency

    @cached_property
    def mentions(self) -> Any:
        """How often each entity stands in each passage: `scipy.sparse.csr_array`, float32, shape (n, p)."""
        return self._graph.mentions.matrix()

    @cached_property
    def relation_passages(self) -> Any:
        """How strongly each relation stands in each passage: `csr_array`, float32, shape (r, p)."""
        return self._graph.relation_passages.matrix()

    @cached_property
    def adjacency(self) -> Any:
        """Strength of relations between entities: `csr_array`, float32, shape (n, n), symmetric."""
        return self._graph.adjacency.matrix()

    @cached_property
    def passage_mentions(self) -> Any:
        """The transpose of `mentions`, by rows: `csr_array`, float32, shape (p, n)."""
        return self._graph.passage_mentions.matrix()

    @cached_property
    def mention_sums(self) -> NDArray[np.float32]:
        """Sum of each row of `mentions`, shape (n,)."""
        return _row_sums(self.mentions)

    @cached_property
    def passage_sums(self) -> NDArray[np.float32]:
        """Sum of each row of `passage_mentions`, shape (p,)."""
        return _row_sums(self.passage_mentions)

    @cached_property
    def adjacency_sums(self) -> NDArray[np.float32]:
        """Sum of each row of `adjacency`, shape (n,)."""
        return _row_sums(self.adjacency)

    @cached_property
    def page_rank(self) -> NDArray[np.float32]:
        """PageRank of each entity over `adjacency`, damping 0.85, sum 1, shape (n,)."""
        return page_rank(self.adjacency)

    def find(self, keys: Iterable[int] | NDArray[np.uint64]) -> NDArray[np.int32]:
        """Look entities up by the keys of their names; aliases and names that are held to be one lead there too.

        Args:
            keys: Keys, see `corpusmesh_core.graphs.keys.entity_key`.

        Returns:
            Places of the entities, UNKNOWN where there is none that is visible, shape (len(keys),).
        """
        wanted = np.asarray(keys if isinstance(keys, np.ndarray) else list(keys), np.uint64)
        known = self._graph.found_key
        if not len(known) or not len(wanted):
            return np.full(len(wanted), UNKNOWN, np.int32)
        places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[places] == wanted, self._graph.found_entity[places], UNKNOWN).astype(np.int32)

    def name(self, entity: int) -> str:
        """Read the name of an entity: what a person calls it, or what most documents do, the longest of those.

        Args:
            entity: Its place.

        Returns:
            The name.
        """
        given = self.entity_texts(entity).name
        return self._most(self._graph.fragment_name, entity) if given is None else given

    def type(self, entity: int) -> str:
        """Read the type of an entity: what a person says, or most documents.

        Args:
            entity: Its place.

        Returns:
            The type; "" where it is unknown.
        """
        given = self.entity_texts(entity).type
        return self._most(self._graph.fragment_type, entity) if given is None else given

    def names(self, entity: int) -> tuple[str, ...]:
        """Read the names by which visible documents call an entity.

        Args:
            entity: Its place.

        Returns:
            Names, ascending.
        """
        places = np.unique(self._graph.fragment_name[self._fragments(entity)])
        return tuple(sorted({self._text(place) for place in places.tolist()}))

    def entity_texts(self, entity: int) -> EntityTexts:
        """Read what people have said of an entity.

        Args:
            entity: Its place.

        Returns:
            Name, type and description, each None where nothing was said.
        """
        return self._entity_texts.get(entity, _NO_ENTITY_TEXTS)

    def relation_texts(self, relation: int) -> RelationTexts:
        """Read what people have said of a relation.

        Args:
            relation: Its place.

        Returns:
            Predicate, description and keywords, each None where nothing was said.
        """
        low, high = self._graph.relation_ends[relation].tolist()
        return self._relation_texts.get((low, high), _NO_RELATION_TEXTS)

    def passage_record_id(self, passage: int) -> str:
        """Name the record of a passage.

        Args:
            passage: Its place.

        Returns:
            Id of a chunk.
        """
        version, position = self._graph.passages[passage].tolist()
        return chunk_record_id(Ordinal(version), position)

    def find_passages(self, record_ids: Iterable[str]) -> NDArray[np.int32]:
        """Look passages up by their records.

        Args:
            record_ids: Ids of chunks; others are unknown.

        Returns:
            Places of the passages, UNKNOWN where no entity stands in them, shape (len(record_ids),).
        """
        wanted = np.array([_passage_code(record_id) for record_id in record_ids], np.int64)
        known = self._passage_codes
        if not len(known) or not len(wanted):
            return np.full(len(wanted), UNKNOWN, np.int32)
        places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[places] == wanted, places, UNKNOWN).astype(np.int32)

    def relations_of(self, entity: int) -> NDArray[np.int32]:
        """List the relations of an entity.

        Args:
            entity: Its place.

        Returns:
            Places of relations, ascending.
        """
        offsets, relations = self._relations_by_entity
        return relations[int(offsets[entity]) : int(offsets[entity + 1])]

    def find_relations(self, pairs: Sequence[tuple[int, int]]) -> NDArray[np.int32]:
        """Look relations up by their ends.

        Args:
            pairs: Places of two entities each, in either order.

        Returns:
            Places of the relations, UNKNOWN where there is none, shape (len(pairs),).
        """
        count, known = len(self.entity_keys), self._relation_codes
        wanted = np.array([low * count + high for low, high in (pair_of(a, b) for a, b in pairs)], np.int64)
        if not len(known) or not len(wanted):
            return np.full(len(wanted), UNKNOWN, np.int32)
        places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[places] == wanted, places, UNKNOWN).astype(np.int32)

    def entity_records(self, entity: int, most: int | None = None) -> tuple[str, ...]:
        """Name the records of an entity, one for each visible document and name.

        Args:
            entity: Its place.
            most: The first of them alone, at the cost of these; None for all.

        Returns:
            Ids, by publisher.
        """
        graph, span = self._graph, _first(self._fragments(entity), most)
        publishers = graph.document_publisher[graph.fragment_document[span]].tolist()
        keys = graph.fragment_key[span].tolist()
        return tuple(
            derived_record_id(Ordinal(publisher), RecordKind.ENTITY, key_text(key))
            for publisher, key in zip(publishers, keys, strict=True)
        )

    def relation_records(self, relation: int, most: int | None = None) -> tuple[str, ...]:
        """Name the records of a relation, one for each visible document and pair of names.

        Args:
            relation: Its place.
            most: The first of them alone, at the cost of these; None for all.

        Returns:
            Ids, by publisher.
        """
        graph = self._graph
        offsets = graph.relation_fragment_offsets
        span = _first(slice(int(offsets[relation]), int(offsets[relation + 1])), most)
        publishers = graph.document_publisher[graph.relation_fragment_document[span]].tolist()
        return tuple(
            derived_record_id(Ordinal(publisher), RecordKind.RELATION, "".join(map(key_text, pair_of(*ends))))
            for publisher, ends in zip(publishers, graph.relation_fragment_ends[span].tolist(), strict=True)
        )

    def versions_of(self, entity: int) -> tuple[int, ...]:
        """List the versions of documents that name an entity.

        Args:
            entity: Its place.

        Returns:
            Ordinals, ascending.
        """
        documents = self._graph.fragment_document[self._fragments(entity)]
        return tuple(np.unique(self._graph.document_version[documents]).tolist())

    @cached_property
    def _entity_texts(self) -> dict[int, EntityTexts]:
        return self._edits.entity_texts(self._entity_of)

    @cached_property
    def _relation_texts(self) -> dict[tuple[int, int], RelationTexts]:
        return self._edits.relation_texts(self._entity_of)

    def _entity_of(self, key: int) -> int | None:
        place = int(self.find((key,))[0])
        return None if place == UNKNOWN else place

    @cached_property
    def _relation_codes(self) -> NDArray[np.int64]:
        ends = self._graph.relation_ends.astype(np.int64)
        return ends[:, 0] * len(self.entity_keys) + ends[:, 1]

    @cached_property
    def _passage_codes(self) -> NDArray[np.int64]:
        passages = self._graph.passages.astype(np.int64)
        return (passages[:, 0] << 32) | passages[:, 1]

    @cached_property
    def _relations_by_entity(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        ends = self._graph.relation_ends
        both = np.concatenate([ends[:, 0], ends[:, 1]])
        relations = np.tile(np.arange(len(ends), dtype=np.int32), 2)
        order = np.lexsort((relations, both))
        offsets = np.searchsorted(both[order], np.arange(len(self.entity_keys) + 1))
        return offsets.astype(np.int64), relations[order]

    def _fragments(self, entity: int) -> slice:
        offsets = self._graph.fragment_offsets
        return slice(int(offsets[entity]), int(offsets[entity + 1]))

    def _most(self, column: NDArray[np.int64], entity: int) -> str:
        """Read the string that most fragments of an entity have; of several the longest, then the first."""
        places, counts = np.unique(column[self._fragments(entity)], return_counts=True)
        votes: dict[str, int] = {}
        for place, count in zip(places.tolist(), counts.tolist(), strict=True):
            text = self._text(place)
            votes[text] = votes.get(text, 0) + count
        named = {text: count for text, count in votes.items() if text}
        return min(named, key=lambda text: (-named[text], -len(text), text), default="")

    def _text(self, place: int) -> str:
        base, strings = self._pools[int(np.searchsorted(self._bases, place, "right")) - 1]
        return strings.raw(place - base).decode("utf-8", "replace")


def compile_view(
    segments: Sequence[Segment],
    visible: AbstractBitMap,
    resolved: Sequence[JoinedNames] = (),
    corrections: Corrections | None = None,
) -> GraphView:
    """Make the graph of a caller.

    Args:
        segments: Segments of the build, in any order.
        visible: Ordinals that the caller may see; a subgraph counts if its version and its publisher are there.
        resolved: Names that are held to be one entity; a pair counts if both names are visible.
        corrections: What people have corrected.

    Returns:
        The view, the same as the visible subgraphs alone would give.
    """
    edits = edits_of(corrections or Corrections())
    graph, pools = compile_graph(segments, visible, resolved, edits)
    return GraphView(graph, pools, edits)


def _first(span: slice, most: int | None) -> slice:
    return span if most is None else slice(span.start, min(span.stop, span.start + most))


def _row_sums(matrix: Any) -> NDArray[np.float32]:
    return np.asarray(matrix.sum(axis=1), np.float32).ravel()


def _passage_code(record_id: str) -> int:
    version, dash, position = record_id.partition("-")
    if not dash or not version.isdecimal() or not position.isdecimal() or len(record_id) > _MAX_ID_CHARACTERS:
        return UNKNOWN
    return (int(version) << 32) | int(position)


_NO_ENTITY_TEXTS: Final = EntityTexts()
_NO_RELATION_TEXTS: Final = RelationTexts()
_MAX_ID_CHARACTERS: Final = 20
"""A version of ten digits, a dash, a position of nine."""
