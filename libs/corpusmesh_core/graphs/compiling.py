"""Compiles the visible documents of segments into the matrices of one graph; numpy alone, no loop over edges.

What is not visible is taken out before anything is put together, so that the graph is bit by bit the one that the
visible documents alone would give: no name, count, weight or rank can tell of what is hidden.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import AbstractBitMap
from scipy import sparse

from corpusmesh_core.graphs.columns import offsets_of
from corpusmesh_core.graphs.compiled import CompiledGraph, Compressed
from corpusmesh_core.graphs.edits import DELETED, GraphEdits
from corpusmesh_core.graphs.resolution import JoinedNames, joined_pairs
from corpusmesh_core.graphs.segments import Segment, select
from corpusmesh_core.graphs.strings import Strings

MIN_ASSOCIATION: Final = 0.1
"""Share of a relation's strength that stays where its ends meet no more often than by chance: documents say it."""
_ABSENT: Final = -1
_SPARE_POSITIONS: Final = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class _Entities:
    """Entities of a graph.

    Attributes:
        keys: Smallest key of each, ascending, shape (n,).
        names: Every key that a name has once corrected, ascending.
        of_name: Entity of each.
        of_fragment: Entity of each fragment of the selection, _ABSENT where a person has deleted it.
        edited_keys: Key of each fragment once corrected.
        document: Document of each fragment.
    """

    keys: NDArray[np.uint64]
    names: NDArray[np.uint64]
    of_name: NDArray[np.int64]
    of_fragment: NDArray[np.int64]
    edited_keys: NDArray[np.uint64]
    document: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Relations:
    """Relations of a graph.

    Attributes:
        ends: Smaller and larger entity of each, ascending, shape (r, 2).
        of_fragment: Relation of each fragment, _ABSENT where it has none.
        document: Document of each fragment.
    """

    ends: NDArray[np.int32]
    of_fragment: NDArray[np.int64]
    document: NDArray[np.int64]


def compile_graph(
    segments: Sequence[Segment], visible: AbstractBitMap, resolved: Sequence[JoinedNames], edits: GraphEdits
) -> tuple[CompiledGraph, tuple[tuple[int, Strings], ...]]:
    """Put the visible documents of segments together.

    Args:
        segments: In any order.
        visible: Ordinals that the caller may see: a document counts if both its version and its subgraph are there.
        resolved: Names that are one entity; a pair counts if both names are visible.
        edits: What people have corrected.

    Returns:
        The graph, and the strings that its places are about.
    """
    chosen, pools = select(segments, [segment.shows(visible) for segment in segments])
    entities = _entities(chosen, resolved, edits)
    count = len(entities.keys)
    places = np.repeat(entities.of_fragment, np.diff(chosen.entity_mentions))
    sizes = np.bincount(places[places >= 0], minlength=count)
    found_key, found_entity = _found(chosen, entities, edits, sizes)
    relations = _relations(chosen, entities, _deleted_codes(edits, found_key, found_entity, count))
    passages, mentions, relation_passages = _occurrences(chosen, entities, relations)
    strength = _strength(chosen, relations)
    weights = _weights(strength, relations.ends, mentions, relation_passages)
    by_entity = _ordered(entities.of_fragment)
    by_relation = _ordered(relations.of_fragment)
    source, target = chosen.relation_source[by_relation], chosen.relation_target[by_relation]
    graph = CompiledGraph(
        entity_key=entities.keys,
        found_key=found_key,
        found_entity=found_entity,
        document_frequency=_document_frequency(chosen, entities, by_entity),
        passages=passages,
        mentions=mentions,
        passage_mentions=Compressed.from_matrix(mentions.matrix().T.tocsr()),
        relation_ends=relations.ends,
        relation_weight=weights,
        relation_passages=relation_passages,
        adjacency=_adjacency(relations.ends, weights, count),
        fragment_offsets=_offsets(entities.of_fragment[by_entity], count),
        fragment_key=chosen.entity_key[by_entity],
        fragment_document=entities.document[by_entity].astype(np.uint32),
        fragment_name=chosen.entity_name[by_entity].astype(np.int64),
        fragment_type=chosen.entity_type[by_entity].astype(np.int64),
        relation_fragment_offsets=_offsets(relations.of_fragment[by_relation], len(relations.ends)),
        relation_fragment_ends=np.stack([chosen.entity_key[source], chosen.entity_key[target]], axis=1),
        relation_fragment_document=relations.document[by_relation].astype(np.uint32),
        document_version=np.array(chosen.document_version),
        document_publisher=np.array(chosen.document_publisher),
    )
    return graph, pools


def _entities(chosen: Segment, resolved: Sequence[JoinedNames], edits: GraphEdits) -> _Entities:
    document = np.repeat(np.arange(chosen.document_count), np.diff(chosen.document_entities))
    edited = edits.keys_of(chosen.document_version[document], chosen.entity_key)
    keys, place = np.unique(edited, return_inverse=True)
    if len(keys) and int(keys[0]) == DELETED:
        keys, place = keys[1:], place - 1
    entity_of_key, entity_keys = _joined(keys, resolved, edits)
    of_fragment = np.full(len(edited), _ABSENT, np.int64)
    of_fragment[place >= 0] = entity_of_key[place[place >= 0]]
    return _Entities(entity_keys, keys, entity_of_key, of_fragment, edited, document)


def _joined(
    keys: NDArray[np.uint64], resolved: Sequence[JoinedNames], edits: GraphEdits
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Join names; returns the entity of each key, and the smallest key of each entity, ascending."""
    wanted = np.array([(pair.a, pair.b) for pair in resolved], np.uint64).reshape(-1, 2)
    apart = np.array(sorted(edits.apart), np.uint64).reshape(-1, 2)
    # Out of millions of keys only those that a pair names are of interest.
    named = np.concatenate([wanted.ravel(), apart.ravel()])
    visible = set(named[_places(keys, named)[1]].tolist())
    pairs = np.array(joined_pairs(resolved, visible, edits.apart), np.uint64).reshape(-1, 2) if visible else wanted[:0]
    if not len(pairs):
        return np.arange(len(keys)), keys
    places = np.searchsorted(keys, pairs)
    links = sparse.coo_array((np.ones(len(places), np.int8), (places[:, 0], places[:, 1])), shape=(len(keys),) * 2)
    count, labels = sparse.csgraph.connected_components(links, directed=False)
    # Keys ascend, so the first of a label is its smallest.
    _, smallest = np.unique(labels, return_index=True)
    rank = np.empty(count, np.int64)
    rank[np.argsort(smallest)] = np.arange(count)
    return rank[labels], keys[np.sort(smallest)]


def _found(
    chosen: Segment, entities: _Entities, edits: GraphEdits, sizes: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """List the keys that lead to entities.

    A name leads to its own entity; then what a person has called one, then names that a person has moved, then the
    aliases of documents: each to the entity that most passages name.
    """
    own = entities.names
    given = np.array(sorted(edits.aliases.items()), np.uint64).reshape(-1, 2)
    at, is_known = _places(own, given[:, 1])
    moved = (entities.of_fragment >= 0) & (entities.edited_keys != chosen.entity_key)
    alias_entity = np.repeat(entities.of_fragment, np.diff(chosen.entity_aliases))
    gone = np.array(sorted(key for key, target in edits.merged.items() if target == DELETED), np.uint64)
    is_alias = (alias_entity >= 0) & ~np.isin(chosen.alias_key, gone)
    keys = [own, given[is_known, 0], chosen.entity_key[moved], chosen.alias_key[is_alias]]
    found = [entities.of_name, entities.of_name[at[is_known]], entities.of_fragment[moved], alias_entity[is_alias]]
    all_keys, all_found = np.concatenate(keys), np.concatenate(found)
    precedence = np.repeat(np.arange(len(keys)), [len(part) for part in keys])
    if len(all_keys) > len(own):
        order = np.lexsort((all_found, -sizes[all_found], precedence, all_keys))
        all_keys, all_found = all_keys[order], all_found[order]
        is_first = np.ones(len(all_keys), np.bool_)
        is_first[1:] = all_keys[1:] != all_keys[:-1]
        all_keys, all_found = all_keys[is_first], all_found[is_first]
    return all_keys, all_found.astype(np.int32)


def _deleted_codes(
    edits: GraphEdits, found_key: NDArray[np.uint64], found_entity: NDArray[np.int32], count: int
) -> NDArray[np.int64]:
    """Name the relations that a person has deleted, see `_codes`."""

    def entity_of(key: int) -> int | None:
        place = int(np.searchsorted(found_key, np.uint64(key)))
        return int(found_entity[place]) if place < len(found_key) and int(found_key[place]) == key else None

    deleted = [pair for pair, texts in edits.relation_texts(entity_of).items() if texts.deleted]
    pairs = np.array(sorted(deleted), np.int64).reshape(-1, 2)
    return pairs[:, 0] * count + pairs[:, 1]


def _relations(chosen: Segment, entities: _Entities, deleted: NDArray[np.int64]) -> _Relations:
    """Join relations of the same entities; those whose ends have become one, or are gone, are none."""
    count = max(1, len(entities.keys))
    document = np.repeat(np.arange(chosen.document_count), np.diff(chosen.document_relations))
    source = entities.of_fragment[chosen.relation_source]
    target = entities.of_fragment[chosen.relation_target]
    low, high = np.minimum(source, target), np.maximum(source, target)
    codes = low * count + high
    is_kept = (low >= 0) & (low < high)
    if len(deleted):
        is_kept &= ~np.isin(codes, deleted)
    known, place = np.unique(codes[is_kept], return_inverse=True)
    of_fragment = np.full(len(codes), _ABSENT, np.int64)
    of_fragment[is_kept] = place
    ends = np.stack([known // count, known % count], axis=1).astype(np.int32)
    return _Relations(ends, of_fragment, document)


def _occurrences(
    chosen: Segment, entities: _Entities, relations: _Relations
) -> tuple[NDArray[np.uint32], Compressed, Compressed]:
    """Tell which passages there are, and where entities and relations stand among them."""
    versions, version = np.unique(chosen.document_version, return_inverse=True)
    parts = []
    for of_fragment, document, offsets, position in (
        (entities.of_fragment, entities.document, chosen.entity_mentions, chosen.mention_position),
        (relations.of_fragment, relations.document, chosen.relation_mentions, chosen.relation_mention_position),
    ):
        counts = np.diff(offsets)
        rows = np.repeat(of_fragment, counts)
        is_kept = rows >= 0
        where = np.repeat(version[document], counts)
        parts.append((rows[is_kept], where[is_kept], position[is_kept].astype(np.int64), is_kept))
    (own, own_where, own_position, kept), (other, other_where, other_position, other_kept) = parts
    passages, of_entities, of_relations = _numbered(versions, own_where, own_position, other_where, other_position)
    size = len(passages)
    mentions = Compressed.of(chosen.mention_weight[kept], own, of_entities, (len(entities.keys), size))
    others = Compressed.of(chosen.relation_mention_weight[other_kept], other, of_relations, (len(relations.ends), size))
    return passages, mentions, others


def _numbered(
    versions: NDArray[np.uint32],
    where: NDArray[np.int64],
    position: NDArray[np.int64],
    other_where: NDArray[np.int64],
    other_position: NDArray[np.int64],
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64]]:
    """Number the passages that are named, by version and position; returns them, and the number of each occurrence."""
    length = np.zeros(len(versions), np.int64)
    for places, positions in ((where, position), (other_where, other_position)):
        np.maximum.at(length, places, positions + 1)
    base = offsets_of(length)
    # Chunks are numbered without gaps, so a flag for each is cheaper than an order of all mentions.
    if int(base[-1]) > 4 * (len(where) + len(other_where)) + _SPARE_POSITIONS:
        codes, places = np.unique(
            np.concatenate([(where << 32) | position, (other_where << 32) | other_position]), return_inverse=True
        )
        passages = np.stack([versions[codes >> 32], (codes & 0xFFFFFFFF).astype(np.uint32)], axis=1)
        return passages, places[: len(where)], places[len(where) :]
    own, others = base[where] + position, base[other_where] + other_position
    is_named = np.zeros(int(base[-1]), np.bool_)
    is_named[own] = True
    is_named[others] = True
    number = np.cumsum(is_named) - 1
    slots = np.flatnonzero(is_named)
    version = np.searchsorted(base, slots, "right") - 1
    passages = np.stack([versions[version], (slots - base[version]).astype(np.uint32)], axis=1)
    return passages, number[own], number[others]


def _strength(chosen: Segment, relations: _Relations) -> NDArray[np.float64]:
    """Add up what documents say, the surer the more."""
    is_kept = relations.of_fragment >= 0
    said = chosen.relation_weight.astype(np.float64) * np.maximum(chosen.relation_confidence, MIN_ASSOCIATION)
    return np.bincount(relations.of_fragment[is_kept], said[is_kept], minlength=len(relations.ends)).astype(np.float64)


def _weights(
    strength: NDArray[np.float64], ends: NDArray[np.int32], mentions: Compressed, relation_passages: Compressed
) -> NDArray[np.float32]:
    """Weigh relations: what documents say, times how much more often than by chance both ends stand together.

    The association is normalised pointwise mutual information over passages (Bouma 2009), as in the model-free graphs
    of the field, from visible counts alone.
    """
    alone = np.maximum(1, mentions.counts).astype(np.float64)
    together = np.maximum(1, relation_passages.counts).astype(np.float64)
    total = float(max(2, mentions.width))
    surprise = np.log(total * together / (alone[ends[:, 0]] * alone[ends[:, 1]]))
    association = surprise / np.maximum(np.log(total / together), 1e-9)
    return (strength * np.clip(association, MIN_ASSOCIATION, 1.0)).astype(np.float32)


def _adjacency(ends: NDArray[np.int32], weights: NDArray[np.float32], count: int) -> Compressed:
    # Ends ascend, so the upper half is in order already and each half has no duplicates.
    upper = sparse.csr_array(
        (weights, ends[:, 1], _offsets(ends[:, 0], count).astype(np.int32)), shape=(count, count), copy=False
    )
    return Compressed.from_matrix(upper + upper.T.tocsr())


def _document_frequency(chosen: Segment, entities: _Entities, by_entity: NDArray[np.int64]) -> NDArray[np.int32]:
    _, version = np.unique(chosen.document_version, return_inverse=True)
    entity, own = entities.of_fragment[by_entity], version[entities.document[by_entity]]
    if bool(np.any(np.diff(version) < 0)):
        order = np.lexsort((own, entity))
        entity, own = entity[order], own[order]
    is_first = np.ones(len(entity), np.bool_)
    is_first[1:] = (entity[1:] != entity[:-1]) | (own[1:] != own[:-1])
    return np.bincount(entity[is_first], minlength=len(entities.keys)).astype(np.int32)


def _ordered(of_fragment: NDArray[np.int64]) -> NDArray[np.int64]:
    """Order fragments by what they belong to, leaving out those that belong to nothing."""
    order = np.argsort(of_fragment, kind="stable")
    return order[int(np.count_nonzero(of_fragment < 0)) :]


def _places(known: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Look up where values stand in ascending ones, and whether they do."""
    if not len(known):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return at, known[at] == wanted


def _offsets(places: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    return offsets_of(np.bincount(places, minlength=count))
