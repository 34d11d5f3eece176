"""Small questions to a view, each at the cost of what it touches and not of the whole graph."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.graphs.keys import canonical_name, entity_key
from corpusmesh_core.graphs.records import entity_record_id, relation_record_id
from corpusmesh_core.graphs.view import UNKNOWN, GraphView


def relation_between(view: GraphView, entity: int, other: int) -> int:
    """Find the relation of two entities.

    Args:
        view: The graph.
        entity: Place of one.
        other: Place of the other.

    Returns:
        Place of the relation; UNKNOWN where there is none.
    """
    if entity == other or min(entity, other) < 0:
        return UNKNOWN
    own, theirs = view.relations_of(entity), view.relations_of(other)
    few, end = (own, other) if len(own) <= len(theirs) else (theirs, entity)
    found = few[(view.relation_ends[few] == end).any(axis=1)]
    return int(found[0]) if len(found) else UNKNOWN


def strongest_relations(view: GraphView, entity: int, most: int) -> list[int]:
    """List the strongest relations of an entity.

    Args:
        view: The graph.
        entity: Its place.
        most: Most of them.

    Returns:
        Places of relations, strongest first; equal ones by place.
    """
    relations = view.relations_of(entity)
    weights = view.relation_weights[relations]
    if len(relations) > most:
        part = np.argpartition(-weights, most - 1)[:most]
        relations, weights = relations[part], weights[part]
    return [int(place) for place in relations[np.lexsort((relations, -weights))]]


def other_end(view: GraphView, relation: int, entity: int) -> int:
    """Name the other end of a relation.

    Args:
        view: The graph.
        relation: The relation.
        entity: One end.

    Returns:
        The other.
    """
    low, high = view.relation_ends[relation].tolist()
    return int(high if low == entity else low)


def degree_of(view: GraphView, entity: int) -> int:
    """Count the relations of an entity.

    Args:
        view: The graph.
        entity: Its place.

    Returns:
        How many.
    """
    return len(view.relations_of(entity))


def passages_of_entity(view: GraphView, entity: int, most: int) -> tuple[str, ...]:
    """Name the passages that an entity stands in.

    Args:
        view: The graph.
        entity: Its place.
        most: Most of them.

    Returns:
        Ids of chunks, those that it stands in most often first.
    """
    return _strongest_columns(view, view.mentions, entity, most)


def passages_of_relation(view: GraphView, relation: int, most: int) -> tuple[str, ...]:
    """Name the passages that a relation stands in.

    Args:
        view: The graph.
        relation: Its place.
        most: Most of them.

    Returns:
        Ids of chunks, the strongest first.
    """
    return _strongest_columns(view, view.relation_passages, relation, most)


def named_entities(view: GraphView, names: Sequence[str]) -> dict[int, str]:
    """Find the entities that some names are names of.

    Args:
        view: The graph.
        names: Names, of a question all rows of its words; longer ones before those inside of them.

    Returns:
        The name by place of the entity, in the order of the names; without what stands inside of a longer name that
        was found.
    """
    found: dict[int, str] = {}
    held: list[str] = []
    for name, place in zip(names, view.find([entity_key(name) for name in names]).tolist(), strict=True):
        canonical = f" {canonical_name(name)} " if place != UNKNOWN else ""
        inner = canonical if canonical.isascii() else canonical.strip()
        if not canonical or any(inner in longer for longer in held):
            continue
        held.append(canonical)
        found.setdefault(place, name)
    return found


def entity_record(view: GraphView, entity: int, near: Sequence[int] = ()) -> str:
    """Name one record of an entity, at the cost of one however many documents name it.

    Args:
        view: The graph.
        entity: Its place.
        near: Versions of documents, those that the question is nearest to first.

    Returns:
        What the first of those says of it that names it; else the first of `GraphView.entity_records`.
    """
    graph = view.graph
    start, end = (int(place) for place in graph.fragment_offsets[entity : entity + 2])
    chosen = _nearest(view, graph.fragment_document[start:end], near) + start
    publisher = int(graph.document_publisher[graph.fragment_document[chosen]])
    return entity_record_id(publisher, int(graph.fragment_key[chosen]))


def relation_record(view: GraphView, relation: int, near: Sequence[int] = ()) -> str:
    """Name one record of a relation, likewise.

    Args:
        view: The graph.
        relation: Its place.
        near: Versions of documents, those that the question is nearest to first.

    Returns:
        What the first of those says of it that tells of it; else the first of `GraphView.relation_records`.
    """
    graph = view.graph
    start, end = (int(place) for place in graph.relation_fragment_offsets[relation : relation + 2])
    chosen = _nearest(view, graph.relation_fragment_document[start:end], near) + start
    publisher = int(graph.document_publisher[graph.relation_fragment_document[chosen]])
    return relation_record_id(publisher, *(int(key) for key in graph.relation_fragment_ends[chosen]))


def _nearest(view: GraphView, documents: NDArray[np.integer], near: Sequence[int]) -> int:
    if len(documents) < 2 or not near:
        return 0
    versions = view.graph.document_version[documents]
    places = np.flatnonzero(np.isin(versions, np.array(near, np.int64)))
    rank = {version: place for place, version in reversed(list(enumerate(near)))}
    return min(places.tolist(), key=lambda place: rank[int(versions[place])], default=0)


def relation_of_keys(view: GraphView, source: int, target: int) -> int:
    """Look a relation up.

    Args:
        view: The graph.
        source: Key of one end.
        target: Key of the other.

    Returns:
        Its place; UNKNOWN where there is none that is visible.
    """
    one, other = view.find([source, target]).tolist()
    return relation_between(view, one, other)


def _strongest_columns(view: GraphView, matrix: Any, row: int, most: int) -> tuple[str, ...]:
    start, end = (int(place) for place in matrix.indptr[row : row + 2])
    columns = matrix.indices[start:end]
    weights = matrix.data[start:end]
    if len(columns) > most:
        part = np.argpartition(-weights, most - 1)[:most]
        columns, weights = columns[part], weights[part]
    order = np.lexsort((columns, -weights))
    return tuple(view.passage_record_id(int(columns[place])) for place in order)
