"""The record index on OpenSearch."""

import asyncio
import contextlib
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from corpusmesh_adapters.opensearch import names
from corpusmesh_adapters.opensearch.documents import RECORD_FIELDS, check_records, to_record
from corpusmesh_adapters.opensearch.filters import made_of_query, selection_query, visibility_query
from corpusmesh_adapters.opensearch.mapping import VECTOR_FIELD, properties, space_body
from corpusmesh_adapters.opensearch.recall import (
    LegMerger,
    check_bounds,
    finds_something,
    is_too_strict,
    multi_search_body,
    recall_legs,
    relax,
    terms_of,
)
from corpusmesh_adapters.opensearch.scrolling import scroll
from corpusmesh_adapters.opensearch.settings import OpenSearchSettings
from corpusmesh_adapters.opensearch.spelling import SpellingCache
from corpusmesh_adapters.opensearch.statistics import TermStatisticsCache
from corpusmesh_adapters.opensearch.transport import Transport, check_response
from corpusmesh_adapters.opensearch.writer import BulkWriter
from corpusmesh_core.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from corpusmesh_core.ports.index import (
    MAX_REQUESTS,
    MAX_WINDOW,
    Candidates,
    IndexSpace,
    RecallRequest,
    RecordSelection,
    WriteResult,
)
from corpusmesh_core.records import Ordinal, Record
from corpusmesh_core.visibility import VisibilityFilter

_INDEX_SHARE_OF_DEADLINE = 0.9
_MIN_SECONDS = 0.01
_MAX_DELETE_ROUNDS = 5
_MAX_KNOWN_SPACES = 10_000
_MAX_SCAN = 100_000
_MISSING_IS_EMPTY = {"ignore_unavailable": "true", "allow_no_indices": "true"}


class OpenSearchRecordIndex:
    """`RecordIndex` on OpenSearch with the k-NN plugin; one object per process, safe for concurrent use."""

    def __init__(self, settings: OpenSearchSettings, *, rng: np.random.Generator | None = None) -> None:
        """Prepare; nothing is sent yet.

        Args:
            settings: Where the cluster is, and the bounds.
            rng: Dice for the jitter of retries.
        """
        self._settings = settings
        self._transport = Transport(settings)
        self._writer = BulkWriter(self._transport, settings, rng or np.random.default_rng())
        self._statistics = TermStatisticsCache(self._transport)
        self._spellings = SpellingCache(self._transport)
        self._dimensions: dict[str, int] = {}
        self._extended: set[str] = set()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def ping(self, *, timeout_seconds: float) -> None:
        """Check that the cluster answers and has a usable state; for readiness probes.

        Args:
            timeout_seconds: Deadline.

        Raises:
            UnavailableError: If the cluster does not answer or is red.
        """
        health = await self._transport.request("GET", "/_cluster/health", timeout_seconds=timeout_seconds)
        if health["status"] == "red":
            raise UnavailableError("INDEX_UNAVAILABLE", "the index cluster is red: some data cannot be read")

    async def ensure_space(self, tenant_id: str, space: IndexSpace, *, timeout_seconds: float) -> None:
        """See `RecordIndex.ensure_space`."""
        alias = names.space_alias(tenant_id, space.space_id)
        if alias not in self._dimensions and not await self._extend(alias, space, timeout_seconds):
            # Somebody else may have made it meanwhile: then the mapping decides.
            with contextlib.suppress(AlreadyExistsError):
                await self._transport.request(
                    "PUT",
                    f"/{names.space_index(tenant_id, space.space_id)}",
                    body=space_body(tenant_id, space, self._settings),
                    timeout_seconds=timeout_seconds,
                )
        dimension = await self._dimension(alias, timeout_seconds=timeout_seconds)
        if dimension != space.dimension:
            raise FailedPreconditionError(
                "SPACE_DIMENSION_MISMATCH",
                f"space {space.space_id} has dimension {dimension}, not {space.dimension}; use another space",
                space_id=space.space_id,
                existing_dimension=dimension,
                requested_dimension=space.dimension,
            )

    async def write(
        self, tenant_id: str, space_id: str, records: Sequence[Record], *, epoch: int, timeout_seconds: float
    ) -> WriteResult:
        """See `RecordIndex.write`."""
        alias = names.space_alias(tenant_id, space_id)
        dimension = await self._dimension(alias, timeout_seconds=timeout_seconds)
        check_records(records, dimension)
        if alias not in self._extended:
            # An earlier release may have made the space: it learns this one's fields before it is sent any.
            await self._extend(alias, IndexSpace(space_id, dimension), timeout_seconds)
        return await self._writer.write(alias, records, epoch=epoch, timeout_seconds=timeout_seconds)

    async def refresh(self, tenant_id: str, space_id: str, *, timeout_seconds: float) -> None:
        """See `RecordIndex.refresh`."""
        alias = names.space_alias(tenant_id, space_id)
        response = await self._transport.request(
            "POST", f"/{alias}/_refresh", timeout_seconds=timeout_seconds, is_repeatable=True
        )
        if response["_shards"]["failed"]:
            raise UnavailableError("INDEX_UNAVAILABLE", "the index could not refresh all shards; try again")

    async def count(
        self, tenant_id: str, space_id: str | None, selection: RecordSelection, *, timeout_seconds: float
    ) -> int:
        """See `RecordIndex.count`."""
        alias = names.tenant_alias(tenant_id) if space_id is None else names.space_alias(tenant_id, space_id)
        response = await self._transport.request(
            "POST",
            f"/{alias}/_count",
            body={"query": selection_query(selection)},
            params=_MISSING_IS_EMPTY,
            timeout_seconds=timeout_seconds,
            is_repeatable=True,
        )
        if response["_shards"]["failed"]:
            raise UnavailableError("INDEX_UNAVAILABLE", "the index could not count in all shards; try again")
        return int(response["count"])

    async def search(
        self, tenant_id: str, space_id: str, requests: Sequence[RecallRequest], *, timeout_seconds: float
    ) -> list[Candidates]:
        """See `RecordIndex.search`."""
        alias = names.space_alias(tenant_id, space_id)
        if len(requests) > MAX_REQUESTS:
            raise InvalidArgumentError(
                "TOO_MANY_REQUESTS", f"at most {MAX_REQUESTS} texts can be searched for at once", limit=MAX_REQUESTS
            )
        for request in requests:
            await self._check_recall(alias, request, timeout_seconds)
        if not any(finds_something(request) for request in requests):
            return [Candidates(()) for _ in requests]
        started = time.perf_counter()
        asked = [request.terms for request in requests if request.matching.corrects_spelling]
        # Term statistics and near words come mostly from memory, else at the same time as the hits.
        sent = [self._respelt(alias, request) for request in requests]
        answers, statistics, _ = await asyncio.gather(
            self._search_legs(alias, sent, timeout_seconds),
            self._statistics.of(alias, terms_of(requests), timeout_seconds=timeout_seconds),
            self._spellings.read(alias, asked, timeout_seconds=timeout_seconds),
        )
        again: dict[int, RecallRequest] = {}
        for place, request in enumerate(requests):
            respelt = self._respelt(alias, request)
            if is_too_strict(respelt, answers[place]):
                respelt = relax(respelt)
            if (respelt.terms, respelt.matching) != (sent[place].terms, sent[place].matching):
                again[place] = sent[place] = respelt
        if again:
            remaining = timeout_seconds - (time.perf_counter() - started)
            further = await self._search_legs(alias, list(again.values()), max(remaining, _MIN_SECONDS))
            for place, answer in zip(again, further, strict=True):
                answers[place] = answer
        merger, elapsed_milliseconds = LegMerger(), (time.perf_counter() - started) * 1000
        return [
            Candidates(
                items=merger.merge(request, legs),
                document_count=statistics.document_count,
                document_frequencies=statistics.document_frequencies,
                incomplete_legs=tuple(name for name, response in legs if response["timed_out"]),
                index_milliseconds={name: float(response["took"]) for name, response in legs},
                round_trip_milliseconds=elapsed_milliseconds,
                has_vector_leg=request.query_vector is not None,
                spellings=request.terms.alternatives[len(given.terms.alternatives) :],
            )
            for given, request, legs in zip(requests, sent, answers, strict=True)
        ]

    def _respelt(self, alias: str, request: RecallRequest) -> RecallRequest:
        """Add what misspelt words may have been meant for, as far as that is remembered."""
        near = self._spellings.known(alias, request.terms) if request.matching.corrects_spelling else ()
        if not near:
            return request
        return replace(request, terms=replace(request.terms, alternatives=(*request.terms.alternatives, *near)))

    async def _search_legs(
        self, alias: str, requests: Sequence[RecallRequest], timeout_seconds: float
    ) -> list[list[tuple[str, Mapping[str, Any]]]]:
        """Run all legs of all requests in one round trip; per request its legs with their responses."""
        milliseconds = max(1, round(timeout_seconds * 1000 * _INDEX_SHARE_OF_DEADLINE))
        legs = [
            (place, name, body)
            for place, request in enumerate(requests)
            if finds_something(request)
            for name, body in recall_legs(request, timeout_milliseconds=milliseconds)
        ]
        answers: list[list[tuple[str, Mapping[str, Any]]]] = [[] for _ in requests]
        if not legs:
            return answers
        answer = await self._transport.request(
            "POST",
            f"/{alias}/_msearch",
            body=multi_search_body([body for _, _, body in legs]),
            timeout_seconds=timeout_seconds,
            is_repeatable=True,
        )
        for (place, name, _), response in zip(legs, answer["responses"], strict=True):
            check_response(response)
            answers[place].append((name, response))
        return answers

    async def fetch(
        self,
        tenant_id: str,
        space_id: str,
        record_ids: Sequence[str],
        visibility: VisibilityFilter,
        *,
        with_vectors: bool = False,
        timeout_seconds: float,
    ) -> list[Record]:
        """See `RecordIndex.fetch`."""
        if len(record_ids) > MAX_WINDOW:
            raise InvalidArgumentError(
                "TOO_MANY_RECORDS",
                f"at most {MAX_WINDOW} records can be read at once",
                field="record_ids",
                limit=MAX_WINDOW,
                count=len(record_ids),
            )
        if not record_ids or visibility.matches_nothing:
            return []
        wanted = list(dict.fromkeys(record_ids))
        response = await self._transport.request(
            "POST",
            f"/{names.space_alias(tenant_id, space_id)}/_search",
            body={
                "size": len(wanted),
                "_source": [*RECORD_FIELDS, *([VECTOR_FIELD] if with_vectors else [])],
                "track_total_hits": False,
                "query": {"bool": {"filter": [{"ids": {"values": wanted}}, visibility_query(visibility)]}},
            },
            timeout_seconds=timeout_seconds,
            is_repeatable=True,
        )
        check_response(response)
        records = {
            hit["_id"]: to_record(hit["_id"], hit["_source"], hit["_source"].get(VECTOR_FIELD))
            for hit in response["hits"]["hits"]
        }
        return [records[record_id] for record_id in wanted if record_id in records]

    async def scan(
        self,
        tenant_id: str,
        space_id: str,
        visibility: VisibilityFilter,
        *,
        knowledge_base_ids: Sequence[str],
        document_ids: Sequence[str] | None = None,
        layers: Sequence[int] | None = None,
        max_count: int,
        timeout_seconds: float,
    ) -> list[Record]:
        """See `RecordIndex.scan`."""
        if not 1 <= max_count <= _MAX_SCAN:
            raise InvalidArgumentError(
                "TOO_MANY_RECORDS", f"a scan reads 1 to {_MAX_SCAN} records", field="max_count", limit=_MAX_SCAN
            )
        if visibility.matches_nothing or not knowledge_base_ids:
            return []
        selection = RecordSelection(
            visibility=visibility,
            knowledge_base_ids=tuple(knowledge_base_ids),
            document_ids=None if document_ids is None else tuple(document_ids),
            layers=None if layers is None else tuple(layers),
        )
        body = {
            "size": min(MAX_WINDOW, max_count),
            "_source": list(RECORD_FIELDS),
            "query": selection_query(selection),
            "sort": ["_doc"],
        }
        records = [
            to_record(hit["_id"], hit["_source"])
            async for hit in scroll(
                self._transport,
                names.space_alias(tenant_id, space_id),
                body,
                max_count=max_count,
                timeout_seconds=timeout_seconds,
            )
        ]
        return sorted(records, key=lambda record: (record.publisher, record.position, record.record_id))

    async def delete_made_of(self, tenant_id: str, ordinals: Collection[Ordinal], *, timeout_seconds: float) -> int:
        """See `RecordIndex.delete_made_of`."""
        if not ordinals:
            return 0
        alias = names.tenant_alias(tenant_id)
        await self._transport.request(
            "POST", f"/{alias}/_refresh", params=_MISSING_IS_EMPTY, timeout_seconds=timeout_seconds
        )
        deleted_count = 0
        for _ in range(_MAX_DELETE_ROUNDS):
            response = await self._transport.request(
                "POST",
                f"/{alias}/_delete_by_query",
                body={"query": made_of_query(ordinals)},
                params={**_MISSING_IS_EMPTY, "conflicts": "proceed", "refresh": "true"},
                timeout_seconds=timeout_seconds,
            )
            deleted_count += int(response["deleted"])
            if not response["version_conflicts"] and not response["failures"]:
                return deleted_count
        raise UnavailableError(
            "INDEX_PURGE_INCOMPLETE", "some records are still being written; purge again", deleted=deleted_count
        )

    async def _extend(self, alias: str, space: IndexSpace, timeout_seconds: float) -> bool:
        """Add this release's new fields to a space that an earlier one made; False where there is no such space.

        The alias is asked for, not the index: beside one of another generation there must never be a second.
        """
        try:
            response = await self._transport.request(
                "GET", f"/{alias}/_mapping", timeout_seconds=timeout_seconds, is_repeatable=True
            )
        except NotFoundError:
            return False
        known = next(iter(response.values()))["mappings"]["properties"]
        missing = {name: field for name, field in properties(space, self._settings).items() if name not in known}
        if missing:
            await self._transport.request(
                "PUT", f"/{alias}/_mapping", body={"properties": missing}, timeout_seconds=timeout_seconds
            )
        if len(self._extended) >= _MAX_KNOWN_SPACES:
            self._extended.clear()
        self._extended.add(alias)
        return True

    async def _check_recall(self, alias: str, request: RecallRequest, timeout_seconds: float) -> None:
        check_bounds(request)
        vectors = [request.query_vector, request.reference.query_vector if request.reference else None]
        for vector in vectors:
            if vector is None:
                continue
            dimension = await self._dimension(alias, timeout_seconds=timeout_seconds)
            norm = float(np.linalg.norm(vector))
            if vector.shape != (dimension,) or not np.isfinite(norm) or norm == 0.0:
                raise InvalidArgumentError(
                    "QUERY_VECTOR_INVALID",
                    f"the query vector must hold {dimension} finite numbers, not all zero",
                    field="query_vector",
                    dimension=dimension,
                )

    async def _dimension(self, alias: str, *, timeout_seconds: float) -> int:
        """Read the dimension of a space once per process: it never changes."""
        known = self._dimensions.get(alias)
        if known is not None:
            return known
        response = await self._transport.request(
            "GET", f"/{alias}/_mapping", timeout_seconds=timeout_seconds, is_repeatable=True
        )
        if not response:
            raise NotFoundError("SPACE_NOT_FOUND", "the embedding space does not exist; create it first")
        mapping = next(iter(response.values()))["mappings"]
        dimension = int(mapping["properties"][VECTOR_FIELD]["dimension"])
        if len(self._dimensions) >= _MAX_KNOWN_SPACES:
            self._dimensions.clear()
        self._dimensions[alias] = dimension
        return dimension
