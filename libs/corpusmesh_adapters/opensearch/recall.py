"""The legs of a recall, and how every candidate gets both scores in one round trip (ADR-0003)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusmesh_adapters.opensearch.documents import RECORD_FIELDS, TERM_FIELDS, to_record
from corpusmesh_adapters.opensearch.filters import Query, layers_query, terms_query, visibility_query
from corpusmesh_adapters.opensearch.mapping import VECTOR_FIELD
from corpusmesh_adapters.opensearch.words import admission_query, lexical_query, titles_query
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.index import MAX_TITLES, MAX_WINDOW, Candidate, RecallRequest, Reference
from corpusmesh_core.records import Record
from corpusmesh_core.text import Script, script_of

LEXICAL_LEG = "lexical"
VECTOR_LEG = "vector"
OTHER_SCRIPT_LEG = "other_script"

_OTHER_SCRIPT = {Script.SPACED: Script.UNSPACED, Script.UNSPACED: Script.SPACED}
_COSINE_FIELD = "cosine"
_REFERENCE_COSINE_FIELD = "reference_cosine"
_REFERENCE_LEG = "reference"
_GIVEN_LEG = "given"
_TITLE_LEG = "title"
_COSINE_SCRIPT = (
    f"if (doc['{VECTOR_FIELD}'].size() == 0) {{ return null; }}"
    f" return cosineSimilarity(params.vector, doc['{VECTOR_FIELD}']);"
)
# A record without a vector (a parent, a table of contents) must not fail the others.


def recall_legs(request: RecallRequest, *, timeout_milliseconds: int) -> list[tuple[str, Query]]:
    """Make the searches of one request.

    Args:
        request: The text that is searched for.
        timeout_milliseconds: Time that the index may take per leg.

    Returns:
        Per leg its name and search body; empty where the text has neither a term nor a vector.
    """
    filters = _filters(request)
    bare: Query = {
        "size": request.window,
        "track_total_hits": False,
        # No `terminate_after`: it keeps the first records in disk order, not the best. Bounded terms and this timeout
        # bound the work.
        "timeout": f"{timeout_milliseconds}ms",
    }
    vector = _plain(request.query_vector)
    common = {**bare, "_source": [*RECORD_FIELDS, *TERM_FIELDS], **_cosines(vector, request.reference)}
    matching = request.matching
    lexical = None if request.terms.is_empty else lexical_query(request.terms, proximity=matching.proximity)
    scoring = lexical
    legs: list[tuple[str, Query]] = []
    if request.reference is not None:
        asked = request.reference.terms
        scoring = None if asked.is_empty else lexical_query(asked, proximity=matching.proximity)
    if (named := _named(request)) is not None:
        given: Query = {"bool": {"filter": [named, *filters]}}
        if scoring is not None:
            given["bool"]["should"] = [scoring]
        return [(_GIVEN_LEG, {**common, "size": _given_count(request), "query": given})]
    if request.titles is not None:
        titled: Query = {"query": {"bool": {"must": [titles_query(request.titles)], "filter": filters}}}
        return [(_TITLE_LEG, {**common, **titled, **({} if scoring is None else _rescored(scoring, request.window))})]
    if lexical is not None:
        admitted = filters
        if matching.minimum_match > 0.0:
            admitted = [*filters, admission_query(request.terms, matching.minimum_match)]
        by_words: Query = {"query": {"bool": {"must": [lexical], "filter": admitted}}}
        legs.append((LEXICAL_LEG, {**common, **by_words}))
        if scoring is not lexical and scoring is not None:
            # A hit has one score, and its leg's own makes the order: the same hits once more, without their content.
            legs.append((_REFERENCE_LEG, {**bare, "_source": False, **by_words, **_rescored(scoring, request.window)}))
    if vector is not None:
        is_gated = matching.gates_vectors and lexical is not None
        if is_gated:
            filters = [*filters, admission_query(request.terms, matching.minimum_match)]
        legs.append((VECTOR_LEG, {**common, **_vector_search(vector, request.window, filters, scoring)}))
        # No word of the other script passes the gate.
        other = None if is_gated else _OTHER_SCRIPT.get(script_of(request.terms.fine))
        if lexical is not None and other is not None and request.other_script_window:
            narrowed = [*filters, terms_query("script", [other.value])]
            search = _vector_search(vector, min(request.other_script_window, request.window), narrowed, scoring)
            legs.append((OTHER_SCRIPT_LEG, {**common, **search}))
    return legs


def _filters(request: RecallRequest) -> list[Query]:
    filters = [terms_query("knowledge_base", request.knowledge_base_ids), visibility_query(request.visibility)]
    if request.document_ids is not None:
        filters.append(terms_query("document", request.document_ids))
    if request.layers is not None:
        filters.append(layers_query(request.layers))
    return filters


def _named(request: RecallRequest) -> Query | None:
    """Name the records that are only scored; None where records are recalled."""
    if request.record_ids is not None:
        return {"ids": {"values": list(request.record_ids)}}
    return None if request.linking_to is None else terms_query("links", request.linking_to)


def _given_count(request: RecallRequest) -> int:
    if request.record_ids is None:
        return request.window
    return len(request.record_ids) if request.given_count is None else min(request.given_count, len(request.record_ids))


def _plain(vector: NDArray[np.float32] | None) -> list[float] | None:
    return None if vector is None else [round(value, 7) for value in vector.tolist()]


def _cosines(vector: list[float] | None, reference: Reference | None) -> Query:
    compared = {_COSINE_FIELD: vector, _REFERENCE_COSINE_FIELD: _plain(reference.query_vector) if reference else None}
    fields = {
        name: {"script": {"source": _COSINE_SCRIPT, "params": {"vector": numbers}}}
        for name, numbers in compared.items()
        if numbers is not None
    }
    return {"script_fields": fields} if fields else {}


def _rescored(lexical: Query, window: int) -> Query:
    # The score becomes BM25, zero where no term matches.
    query = {"rescore_query": lexical, "query_weight": 0.0, "rescore_query_weight": 1.0}
    return {"rescore": {"window_size": window, "query": query}}


def _vector_search(vector: list[float], window: int, filters: list[Query], scoring: Query | None) -> Query:
    search: Query = {
        "size": window,
        "query": {"knn": {VECTOR_FIELD: {"vector": vector, "k": window, "filter": {"bool": {"filter": filters}}}}},
    }
    # The order by cosine is made again from the script field.
    return search if scoring is None else {**search, **_rescored(scoring, window)}


def check_bounds(request: RecallRequest) -> None:
    """Refuse a request that asks for too much.

    Args:
        request: The request.

    Raises:
        InvalidArgumentError: WINDOW_INVALID or TOO_MANY_TITLES.
    """
    named_count = max(len(request.record_ids or ()), len(request.linking_to or ()))
    if not 1 <= request.window <= MAX_WINDOW or named_count > MAX_WINDOW:
        raise InvalidArgumentError(
            "WINDOW_INVALID",
            f"window must be within 1..{MAX_WINDOW}, for given records too",
            field="window",
            limit=MAX_WINDOW,
        )
    if len(request.titles or ()) > MAX_TITLES:
        raise InvalidArgumentError(
            "TOO_MANY_TITLES", f"at most {MAX_TITLES} titles can be searched for at once", limit=MAX_TITLES
        )


def finds_something(request: RecallRequest) -> bool:
    """Tell whether a request is worth a round trip.

    Args:
        request: The request.

    Returns:
        Whether it searches for something, in something that may be seen.
    """
    has_text = not request.terms.is_empty or request.query_vector is not None
    for named in (request.record_ids, request.linking_to, request.titles):
        if named is not None:
            has_text = bool(named)
    return has_text and not request.visibility.matches_nothing and bool(request.knowledge_base_ids)


def terms_of(requests: Sequence[RecallRequest]) -> list[str]:
    """Give all fine terms that scores are made of.

    Args:
        requests: Requests.

    Returns:
        Distinct terms of them and of their references.
    """
    known = [request.terms for request in requests]
    known += [request.reference.terms for request in requests if request.reference is not None]
    return list(dict.fromkeys(term for terms in known for term in terms.fine))


def is_too_strict(request: RecallRequest, legs: Sequence[tuple[str, Mapping[str, Any]]]) -> bool:
    """Tell whether nothing held enough of the terms.

    Args:
        request: The request.
        legs: Per leg its name and the index's response.

    Returns:
        Whether it is to be asked once more with `relax`.
    """
    return request.matching.minimum_match > 0.0 and any(
        name == LEXICAL_LEG and not response["hits"]["hits"] for name, response in legs
    )


def relax(request: RecallRequest) -> RecallRequest:
    """Ask for a third of the terms.

    Args:
        request: A request that found nothing by its words.

    Returns:
        The request to send instead.
    """
    matching = replace(request.matching, minimum_match=request.matching.minimum_match / 3)
    return replace(request, matching=matching)


def multi_search_body(bodies: Sequence[Query]) -> str:
    """Join searches for one `_msearch`.

    Args:
        bodies: Search bodies.

    Returns:
        The newline-delimited request body.
    """
    return "".join("{}\n" + json.dumps(body, ensure_ascii=False, separators=(",", ":")) + "\n" for body in bodies)


@dataclass(slots=True)
class _Places:
    """Where each record stands in the legs of one request."""

    hits: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    lexical_ranks: dict[str, int] = field(default_factory=dict)
    vector_ranks: dict[str, int] = field(default_factory=dict)
    own_scores: dict[str, float] = field(default_factory=dict)
    reference_scores: dict[str, float] = field(default_factory=dict)


class LegMerger:
    """Makes candidates of the answers to one `_msearch`; a record that several requests found is read once."""

    def __init__(self) -> None:
        """Start without records."""
        self._known: dict[str, tuple[Record, str, str, str, str]] = {}

    def merge(self, request: RecallRequest, legs: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[Candidate, ...]:
        """Make the union of all legs of one request.

        Args:
            request: The request.
            legs: Per leg its name and the index's response.

        Returns:
            Each record once, with all scores and its rank in each leg; lexical hits first.
        """
        has_reference = request.reference is not None
        has_lexical = not request.terms.is_empty
        places = _Places()
        for name, response in legs:
            _place(places, name, response["hits"]["hits"], has_reference=has_reference)
        return tuple(
            self._candidate(record_id, places, has_lexical=has_lexical, has_reference=has_reference)
            for record_id in places.hits
        )

    def _candidate(self, record_id: str, places: _Places, *, has_lexical: bool, has_reference: bool) -> Candidate:
        hit = places.hits[record_id]
        record, content, keywords, questions, script = self._read(record_id, hit)
        return Candidate(
            record=record,
            content_terms=content,
            keyword_terms=keywords,
            question_terms=questions,
            script=script,
            lexical_score=places.own_scores.get(record_id) if has_lexical else None,
            lexical_rank=places.lexical_ranks.get(record_id, 0),
            cosine=_cosine(hit),
            vector_rank=places.vector_ranks.get(record_id, 0),
            reference_lexical_score=places.reference_scores.get(record_id, 0.0) if has_reference else None,
            reference_cosine=_cosine(hit, _REFERENCE_COSINE_FIELD),
        )

    def _read(self, record_id: str, hit: Mapping[str, Any]) -> tuple[Record, str, str, str, str]:
        known = self._known.get(record_id)
        if known is None:
            source = hit["_source"]
            known = (to_record(record_id, source), *(source.get(name, "") for name in TERM_FIELDS))
            self._known[record_id] = known
        return known


def _place(places: _Places, name: str, hits: Sequence[Mapping[str, Any]], *, has_reference: bool) -> None:
    scores = places.own_scores if name == LEXICAL_LEG or not has_reference else places.reference_scores
    for hit in hits:
        scores.setdefault(hit["_id"], float(hit["_score"] or 0.0))
    if name == _REFERENCE_LEG:
        return
    for hit in hits:
        places.hits.setdefault(hit["_id"], hit)
    if name == LEXICAL_LEG:
        places.lexical_ranks.update((hit["_id"], rank) for rank, hit in enumerate(hits, start=1))
    elif name == VECTOR_LEG:
        ordered = sorted(hits, key=lambda hit: -(_cosine(hit) or 0.0))
        places.vector_ranks.update((hit["_id"], rank) for rank, hit in enumerate(ordered, start=1))


def _cosine(hit: Mapping[str, Any], name: str = _COSINE_FIELD) -> float | None:
    values = hit.get("fields", {}).get(name)
    return None if not values or values[0] is None else float(values[0])
