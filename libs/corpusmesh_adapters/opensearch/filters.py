"""From neutral filters to OpenSearch's query language."""

from collections.abc import Iterable
from typing import Any

from pyroaring import FrozenBitMap

from corpusmesh_core.ports.index import RecordSelection
from corpusmesh_core.visibility import VisibilityClause, VisibilityFilter, encode_bitmap

Query = dict[str, Any]

MATCH_NOTHING: Query = {"match_none": {}}


def visibility_query(visibility: VisibilityFilter) -> Query:
    """Render a visibility filter.

    Args:
        visibility: The filter.

    Returns:
        A query for a filter context, also of a k-NN query; it matches nothing where nothing may be seen.
    """
    if visibility.matches_nothing:
        return MATCH_NOTHING
    encoded: dict[int, str] = {}
    rendered = [_clause_query(clause, encoded) for clause in visibility.clauses]
    return rendered[0] if len(rendered) == 1 else {"bool": {"should": rendered, "minimum_should_match": 1}}


def _clause_query(clause: VisibilityClause, encoded: dict[int, str]) -> Query:
    def in_bitmap(field: str, ordinals: FrozenBitMap) -> Query:
        if id(ordinals) not in encoded:
            encoded[id(ordinals)] = encode_bitmap(ordinals)
        return {"terms": {field: [encoded[id(ordinals)]], "value_type": "bitmap"}}

    required: list[Query] = [{"terms": {"kind": [kind.value for kind in clause.kinds]}}]
    forbidden: list[Query] = []
    if clause.publisher_in is not None:
        required.append(in_bitmap("publisher", clause.publisher_in))
    if clause.source_in is not None:
        required.append(in_bitmap("ver", clause.source_in))
    if clause.source_not_in:
        forbidden.append(in_bitmap("ver", clause.source_not_in))
    if clause.source_below is not None:
        forbidden.append({"range": {"ver": {"gte": clause.source_below}}})
    query: Query = {"filter": required}
    if forbidden:
        query["must_not"] = forbidden
    return {"bool": query}


def terms_query(field: str, values: Iterable[str]) -> Query:
    """Match one of several exact values.

    Args:
        field: A keyword field.
        values: Values; none matches nothing.

    Returns:
        The query.
    """
    return {"terms": {field: list(values)}}


def layers_query(layers: Iterable[int]) -> Query:
    """Match nodes of trees on one of several layers.

    Args:
        layers: Layers from 1; none matches nothing.

    Returns:
        The query.
    """
    return {"terms": {"layer": list(layers)}}


def selection_query(selection: RecordSelection) -> Query:
    """Render a selection of records to count.

    Args:
        selection: The conditions.

    Returns:
        A query that matches every record where no condition is given.
    """
    conditions: list[Query] = []
    if selection.publishers is not None:
        conditions.append(_ordinals_query("publisher", selection.publishers))
    if selection.made_of is not None:
        conditions.append(made_of_query(selection.made_of))
    if selection.visibility is not None:
        conditions.append(visibility_query(selection.visibility))
    for field, values in (
        ("knowledge_base", selection.knowledge_base_ids),
        ("document", selection.document_ids),
        ("kind", selection.kinds),
    ):
        if values is not None:
            conditions.append(terms_query(field, values))
    if selection.layers is not None:
        conditions.append(layers_query(selection.layers))
    return {"bool": {"filter": conditions}} if conditions else {"match_all": {}}


def made_of_query(ordinals: Iterable[int]) -> Query:
    """Match the records that one of these ordinals publishes or is a source of.

    Args:
        ordinals: Ordinals; none matches nothing.

    Returns:
        The query.
    """
    wanted = FrozenBitMap(ordinals)
    either = [_ordinals_query("publisher", wanted), _ordinals_query("ver", wanted)]
    return {"bool": {"should": either, "minimum_should_match": 1}}


def _ordinals_query(field: str, ordinals: Iterable[int]) -> Query:
    wanted = FrozenBitMap(ordinals)
    if not wanted:
        return MATCH_NOTHING
    return {"terms": {field: [encode_bitmap(wanted)], "value_type": "bitmap"}}
