"""Compiles the visible documents of segments into the matrices of one graph; numpy alone, no loop over edges.

What is not visible is taken out before anything is put together, so that the graph is bit by bit the one that the
visible documents alone would give: no name, count, weight or rank can tell of what is hidden.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray
from pyroaring import AbstractBitMap
from scipy import sparse

from corpusmesh_core.graphs.columns import offsets_of
from corpusmesh_core.graphs.segments import Segment, select
from corpusmesh_core.graphs.strings import Strings

_MIN_ASSOCIATION: Final = 0.1
"""Share of a relation's strength that stays where its ends meet no more often than by chance: documents say it."""


class NamePair(Protocol):
    """Two names that are one entity; see `corpusmesh_core.graphs.resolution.ResolvedPair`."""

    @property
    def a(self) -> int:
        """Key of one."""
        ...

    @property
    def b(self) -> int:
        """Key of the other."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Compressed:
    """A sparse matrix by rows, columns ascending within a row.

    Attributes:
        offsets: Shape (rows + 1,).
        columns: Shape (entries,).
        values: Shape (entries,).
        width: Columns of the matrix.
    """

    offsets: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    width: int

    def matrix(self) -> Any:
        """Give it as scipy's `csr_array`, without a copy."""
        shape = (len(self.offsets) - 1, self.width)
        return sparse.csr_array((self.values, self.columns, self.offsets), shape=shape, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class CompiledGraph:
    """Columns of a graph of n entities, r relations, p passages, f fragments of entities, g of relations, d documents.

    Attributes:
        entity_key: Key that stands for the entity, ascending, shape (n,).
        found_key: Every key that leads to an entity (names and aliases), ascending, shape (k,).
        found_entity: The entity that it leads to, shape (k,).
        document_frequency: Documents that name the entity, shape (n,).
        passages: Version and position, ascending, shape (p, 2).
        mentions: Entities by passages.
        relation_ends: Smaller, then larger entity, ascending, shape (r, 2).
        relation_weight: Strength, shape (r,).
        relation_passages: Relations by passages.
        adjacency: Entities by entities, symmetric.
        fragment_offsets: Where the fragments of each entity begin, shape (n + 1,).
        fragment_key: Their keys, shape (f,).
        fragment_document: Their documents, shape (f,).
        fragment_name: Places of their names among the strings, shape (f,).
        fragment_type: Places of their types, shape (f,).
        relation_fragment_offsets: Where the fragments of each relation begin, shape (r + 1,).
        relation_fragment_ends: Keys of source and target, shape (g, 2).
        relation_fragment_document: Their documents, shape (g,).
        document_version: Versions, shape (d,).
        document_publisher: Publishers, ascending, shape (d,).
    """

    entity_key: NDArray[np.uint64]
    found_key: NDArray[np.uint64]
    found_entity: NDArray[np.int32]
    document_frequency: NDArray[np.int32]
    passages: NDArray[np.uint32]
    mentions: Compressed
    relation_ends: NDArray[np.int32]
    relation_weight: NDArray[np.float32]
    relation_passages: Compressed
    adjacency: Compressed
    fragment_offsets: NDArray[np.int64]
    fragment_key: NDArray[np.uint64]
    fragment_document: NDArray[np.uint32]
    fragment_name: NDArray[np.int64]
    fragment_type: NDArray[np.int64]
    relation_fragment_offsets: NDArray[np.int64]
    relation_fragment_ends: NDArray[np.uint64]
    relation_fragment_document: NDArray[np.uint32]
    document_version: NDArray[np.uint32]
    document_publisher: NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class _Passages:
    """Passages of a graph, and where each mention stands among them."""

    codes: NDArray[np.int64]
    of_entities: NDArray[np.int64]
    of_relations: NDArray[np.int64]


def compile_graph(
    segments: Sequence[Segment], visible: AbstractBitMap, resolved: Sequence[NamePair]
) -> tuple[CompiledGraph, tuple[tuple[int, Strings], ...]]:
    """Put the visible documents of segments together.

    Args:
        segments: In any order.
        visible: Ordinals that the caller may see: a document counts if both its version and its subgraph are there.
        resolved: Names that are one entity; a pair counts if both names are visible.

    Returns:
        The graph, and the strings that its places are about.
    """
    chosen, pools = select(segments, [segment.shows(visible) for segment in segments])
    keys, place_of_key = np.unique(chosen.entity_key, return_inverse=True)
    entity_of_key, entity_keys = _components(keys, resolved)
    entity = entity_of_key[place_of_key]
    document = np.repeat(np.arange(chosen.document_count), np.diff(chosen.document_entities))
    relation_document = np.repeat(np.arange(chosen.document_count), np.diff(chosen.document_relations))
    passages = _passages(chosen, document, relation_document)
    rows = np.repeat(entity, np.diff(chosen.entity_mentions))
    size = (len(entity_keys), len(passages.codes))
    mentions = _compressed(chosen.mention_weight, rows, passages.of_entities, size)
    order, ends, relation = _relations(chosen, entity, len(entity_keys))
    counts = np.diff(chosen.relation_mentions)
    rows = np.repeat(relation, counts)
    is_kept = rows >= 0
    relation_passages = _compressed(
        chosen.relation_mention_weight[is_kept],
        rows[is_kept],
        passages.of_relations[is_kept],
        (len(ends), len(passages.codes)),
    )
    weights = _weights(chosen, relation, ends, mentions, relation_passages)
    by_entity = np.argsort(entity, kind="stable")
    found_key, found_entity = _found(chosen, keys, entity_of_key, entity, mentions)
    graph = CompiledGraph(
        entity_key=entity_keys,
        found_key=found_key,
        found_entity=found_entity,
        document_frequency=_document_frequency(chosen, entity, document, len(entity_keys)),
        passages=np.stack([passages.codes >> 32, passages.codes & 0xFFFFFFFF], axis=1).astype(np.uint32),
        mentions=mentions,
        relation_ends=ends,
        relation_weight=weights,
        relation_passages=relation_passages,
        adjacency=_adjacency(ends, weights, len(entity_keys)),
        fragment_offsets=offsets_of(np.bincount(entity, minlength=len(entity_keys)).astype(np.int64)),
        fragment_key=chosen.entity_key[by_entity],
        fragment_document=document[by_entity].astype(np.uint32),
        fragment_name=chosen.entity_name[by_entity].astype(np.int64),
        fragment_type=chosen.entity_type[by_entity].astype(np.int64),
        relation_fragment_offsets=offsets_of(np.bincount(relation[order], minlength=len(ends)).astype(np.int64)),
        relation_fragment_ends=np.stack(
            [chosen.entity_key[chosen.relation_source[order]], chosen.entity_key[chosen.relation_target[order]]], axis=1
        ),
        relation_fragment_document=relation_document[order].astype(np.uint32),
        document_version=chosen.document_version,
        document_publisher=chosen.document_publisher,
    )
    return graph, pools


def _components(keys: NDArray[np.uint64], resolved: Sequence[NamePair]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Join names; returns the entity of each key, and the smallest key of each entity, ascending."""
    pairs = np.array([(pair.a, pair.b) for pair in resolved], np.uint64).reshape(-1, 2)
    if not len(keys) or not len(pairs):
        return np.arange(len(keys)), keys
    places = np.searchsorted(keys, pairs)
    places[places == len(keys)] = 0
    both = np.all(keys[places] == pairs, axis=1)
    first, second = places[both, 0], places[both, 1]
    links = sparse.coo_array((np.ones(len(first), np.int8), (first, second)), shape=(len(keys), len(keys)))
    count, labels = sparse.csgraph.connected_components(links, directed=False)
    # Keys ascend, so the first of a label is its smallest.
    _, smallest = np.unique(labels, return_index=True)
    rank = np.empty(count, np.int64)
    rank[np.argsort(smallest)] = np.arange(count)
    return rank[labels], keys[np.sort(smallest)]


def _passages(chosen: Segment, document: NDArray[np.int64], relation_document: NDArray[np.int64]) -> _Passages:
    version = chosen.document_version.astype(np.int64) << 32
    own = np.repeat(version[document], np.diff(chosen.entity_mentions)) | chosen.mention_position
    others = np.repeat(version[relation_document], np.diff(chosen.relation_mentions)) | chosen.relation_mention_position
    codes, places = np.unique(np.concatenate([own, others]), return_inverse=True)
    return _Passages(codes, places[: len(own)], places[len(own) :])


def _relations(
    chosen: Segment, entity: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Join relations of the same entities.

    Returns:
        Fragments by relation, the ends of each relation, and the relation of each fragment: -1 where both ends have
        become one entity.
    """
    source, target = entity[chosen.relation_source], entity[chosen.relation_target]
    code = np.minimum(source, target) * max(1, count) + np.maximum(source, target)
    is_kept = source != target
    codes, places = np.unique(code[is_kept], return_inverse=True)
    relation = np.full(len(code), -1, np.int64)
    relation[is_kept] = places
    kept = np.flatnonzero(is_kept)
    order = kept[np.argsort(relation[kept], kind="stable")]
    ends = np.stack([codes // max(1, count), codes % max(1, count)], axis=1).astype(np.int32)
    return order, ends, relation


def _weights(
    chosen: Segment,
    relation: NDArray[np.int64],
    ends: NDArray[np.int32],
    mentions: Compressed,
    relation_passages: Compressed,
) -> NDArray[np.float32]:
    """Weigh relations: what documents say, times how much more often than by chance both ends stand together.

    The association is normalised pointwise mutual information over passages (Bouma 2009), as in the model-free graphs
    of the field, from visible counts alone.
    """
    is_kept = relation >= 0
    said = chosen.relation_weight.astype(np.float64) * np.maximum(chosen.relation_confidence, _MIN_ASSOCIATION)
    strength = np.bincount(relation[is_kept], said[is_kept], minlength=len(ends))
    alone = np.maximum(1, np.diff(mentions.offsets)).astype(np.float64)[ends]
    together = np.maximum(1, np.diff(relation_passages.offsets)).astype(np.float64)
    total = float(max(2, mentions.width))
    surprise = np.log(np.maximum(total * together, 1.0) / (alone[:, 0] * alone[:, 1]))
    association = surprise / np.maximum(np.log(total / together), 1e-9)
    return (strength * np.clip(association, _MIN_ASSOCIATION, 1.0)).astype(np.float32)


def _adjacency(ends: NDArray[np.int32], weights: NDArray[np.float32], count: int) -> Compressed:
    rows = np.concatenate([ends[:, 0], ends[:, 1]])
    columns = np.concatenate([ends[:, 1], ends[:, 0]])
    return _compressed(np.concatenate([weights, weights]), rows, columns, (count, count))


def _compressed(values: NDArray[np.float32], rows: Any, columns: Any, shape: tuple[int, int]) -> Compressed:
    matrix = sparse.coo_array((values, (rows.astype(np.int32), columns.astype(np.int32))), shape=shape).tocsr()
    matrix.sum_duplicates()
    return Compressed(
        matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data.astype(np.float32), shape[1]
    )


def _found(
    chosen: Segment,
    keys: NDArray[np.uint64],
    entity_of_key: NDArray[np.int64],
    entity: NDArray[np.int64],
    mentions: Compressed,
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """List the keys that lead to entities: a name leads to its own; an alias to the entity that most passages name."""
    alias_entity = np.repeat(entity, np.diff(chosen.entity_aliases))
    counts = np.diff(mentions.offsets).astype(np.int64)
    all_keys = np.concatenate([keys, chosen.alias_key])
    entities = np.concatenate([entity_of_key, alias_entity])
    is_alias = np.concatenate([np.zeros(len(keys), np.int8), np.ones(len(alias_entity), np.int8)])
    order = np.lexsort((entities, -counts[entities], is_alias, all_keys))
    found, first = np.unique(all_keys[order], return_index=True)
    return found, entities[order][first].astype(np.int32)


def _document_frequency(
    chosen: Segment, entity: NDArray[np.int64], document: NDArray[np.int64], count: int
) -> NDArray[np.int32]:
    versions, place = np.unique(chosen.document_version, return_inverse=True)
    codes = np.unique(entity * max(1, len(versions)) + place[document])
    return np.bincount(codes // max(1, len(versions)), minlength=count).astype(np.int32)
