"""The legs of a recall, and how every candidate gets both scores in one round trip (ADR-0003)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from corpusmesh_adapters.opensearch.documents import RECORD_FIELDS, TERM_FIELDS, to_record
from corpusmesh_adapters.opensearch.filters import Query, terms_query, visibility_query
from corpusmesh_adapters.opensearch.mapping import VECTOR_FIELD
from corpusmesh_core.ports.index import Candidate, RecallRequest
from corpusmesh_core.text import QueryTerms, Script, script_of

LEXICAL_LEG = "lexical"
VECTOR_LEG = "vector"
OTHER_SCRIPT_LEG = "other_script"

_FIELD_WEIGHTS = (
    # Fine terms carry the recall, words add precision, and a title counts a second time (bench/fusion_study.py).
    ("content_fine", "fine", 1.0),
    ("content_coarse", "coarse", 0.5),
    ("title_fine", "fine", 0.2),
    ("keywords_fine", "fine", 0.5),
    ("questions_fine", "fine", 0.5),
)
_MAX_PREFIX_TERMS = 3
_COSINE_FIELD = "cosine"
_COSINE_SCRIPT = (
    f"if (doc['{VECTOR_FIELD}'].size() == 0) {{ return null; }}"
    f" return cosineSimilarity(params.vector, doc['{VECTOR_FIELD}']);"
)
# A record without a vector (a parent, a table of contents) must not fail the others.


def lexical_query(terms: QueryTerms) -> Query:
    """Make the BM25 query of a question; of terms alone, never of query syntax.

    Args:
        terms: Bounded terms, at least one.

    Returns:
        A scoring query.
    """
    texts = {"fine": " ".join(terms.fine), "coarse": " ".join(terms.coarse)}
    clauses: list[Query] = [
        {"match": {field: {"query": texts[form], "boost": boost}}} for field, form, boost in _FIELD_WEIGHTS
    ]
    clauses += [{"match_phrase": {"content_fine": {"query": " ".join(phrase)}}} for phrase in terms.phrases]
    if len(terms.fine) <= _MAX_PREFIX_TERMS:
        # One character of a script without spaces is a term only where it stands alone; elsewhere it begins a pair.
        clauses += [
            {"prefix": {"content_fine": {"value": term, "rewrite": "top_terms_32"}}}
            for term in terms.fine
            if len(term) == 1 and ord(term) > 0x0E00
        ]
    return {"bool": {"should": clauses, "minimum_should_match": 1}}


def recall_legs(request: RecallRequest, *, timeout_milliseconds: int) -> list[tuple[str, Query]]:
    """Make the searches of one recall.

    Args:
        request: The question.
        timeout_milliseconds: Time that the index may take per leg.

    Returns:
        Per leg its name and search body; empty where the question has neither a term nor a vector.
    """
    filters: list[Query] = [
        terms_query("knowledge_base", request.knowledge_base_ids),
        visibility_query(request.visibility),
    ]
    if request.document_ids is not None:
        filters.append(terms_query("document", request.document_ids))
    vector = None if request.query_vector is None else [round(value, 7) for value in request.query_vector.tolist()]
    common: Query = {
        "size": request.window,
        "_source": [*RECORD_FIELDS, *TERM_FIELDS],
        "track_total_hits": False,
        # No `terminate_after`: it keeps the first records in disk order, not the best. Bounded terms and this timeout
        # bound the work.
        "timeout": f"{timeout_milliseconds}ms",
    }
    if vector is not None:
        common["script_fields"] = {_COSINE_FIELD: {"script": {"source": _COSINE_SCRIPT, "params": {"vector": vector}}}}
    legs: list[tuple[str, Query]] = []
    lexical = None if request.terms.is_empty else lexical_query(request.terms)
    if lexical is not None:
        legs.append((LEXICAL_LEG, {**common, "query": {"bool": {"must": [lexical], "filter": filters}}}))
    if vector is not None:
        legs.append((VECTOR_LEG, {**common, **_vector_search(vector, request.window, filters, lexical)}))
        other = {Script.SPACED: Script.UNSPACED, Script.UNSPACED: Script.SPACED}.get(script_of(request.terms.fine))
        if lexical is not None and other is not None and request.other_script_window:
            narrowed = [*filters, terms_query("script", [other.value])]
            search = _vector_search(vector, min(request.other_script_window, request.window), narrowed, lexical)
            legs.append((OTHER_SCRIPT_LEG, {**common, **search}))
    return legs


def _vector_search(vector: list[float], window: int, filters: list[Query], lexical: Query | None) -> Query:
    search: Query = {
        "size": window,
        "query": {"knn": {VECTOR_FIELD: {"vector": vector, "k": window, "filter": {"bool": {"filter": filters}}}}},
    }
    if lexical is not None:
        # The score becomes BM25, zero where no term matches; the order by cosine is made again from the script field.
        search["rescore"] = {
            "window_size": window,
            "query": {"rescore_query": lexical, "query_weight": 0.0, "rescore_query_weight": 1.0},
        }
    return search


def multi_search_body(bodies: Sequence[Query]) -> str:
    """Join searches for one `_msearch`.

    Args:
        bodies: Search bodies.

    Returns:
        The newline-delimited request body.
    """
    return "".join("{}\n" + json.dumps(body, ensure_ascii=False, separators=(",", ":")) + "\n" for body in bodies)


def merge_legs(legs: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[Candidate, ...]:
    """Make the union of all legs.

    Args:
        legs: Per leg its name and the index's response.

    Returns:
        Each record once, with both scores and its rank in each leg; lexical hits first.
    """
    has_lexical = any(name == LEXICAL_LEG for name, _ in legs)
    hits_by_id: dict[str, Mapping[str, Any]] = {}
    ranks: dict[str, dict[str, int]] = {LEXICAL_LEG: {}, VECTOR_LEG: {}, OTHER_SCRIPT_LEG: {}}
    for name, response in legs:
        hits = response["hits"]["hits"]
        if name != LEXICAL_LEG:
            hits = sorted(hits, key=lambda hit: -(_cosine(hit) or 0.0))
        for rank, hit in enumerate(hits, start=1):
            ranks[name][hit["_id"]] = rank
            hits_by_id.setdefault(hit["_id"], hit)
    return tuple(
        _candidate(
            record_id, hit, ranks[LEXICAL_LEG].get(record_id, 0), ranks[VECTOR_LEG].get(record_id, 0), has_lexical
        )
        for record_id, hit in hits_by_id.items()
    )


def _candidate(
    record_id: str, hit: Mapping[str, Any], lexical_rank: int, vector_rank: int, has_lexical: bool
) -> Candidate:
    source = hit["_source"]
    return Candidate(
        record=to_record(record_id, source),
        content_terms=source.get("content_fine", ""),
        keyword_terms=source.get("keywords_fine", ""),
        question_terms=source.get("questions_fine", ""),
        script=source.get("script", ""),
        lexical_score=float(hit["_score"] or 0.0) if has_lexical else None,
        lexical_rank=lexical_rank,
        cosine=_cosine(hit),
        vector_rank=vector_rank,
    )


def _cosine(hit: Mapping[str, Any]) -> float | None:
    values = hit.get("fields", {}).get(_COSINE_FIELD)
    return None if not values or values[0] is None else float(values[0])
