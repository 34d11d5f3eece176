"""Measures retrieval of a knowledge base against an evaluation set."""

import asyncio
import hashlib
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from corpusmesh.ingest.v1.document_service_pb2 import Document
from corpusmesh.retrieve.v1.retrieval_service_pb2 import RetrievalPlan
from corpusmesh_app.cli.evaluation_sets import CorpusEntry, Query
from corpusmesh_app.cli.ingestion import IngestReport, ingest_items
from corpusmesh_app.cli.output import Output
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_core.evaluation import QueryOutcome, RetrievalQuality, summarise_quality, unique_in_order

_SUFFIX = ".txt"
_SCORED_HITS = 40
"""Hits asked for when scoring: a document may hold several chunks, and ten documents are needed."""
_TIMED_HITS = 10
_TIMED_QUERIES = 50
_AT_ONCE = 4
_STREAM_DOCUMENTS = 500


@dataclass(frozen=True, slots=True)
class Timing:
    """How long queries took, one at a time, as the caller sees it.

    Attributes:
        query_count: Queries that were timed.
        mean_milliseconds: Mean.
        p50_milliseconds: Median.
        p95_milliseconds: 95th percentile.
    """

    query_count: int
    mean_milliseconds: float
    p50_milliseconds: float
    p95_milliseconds: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """Quality and time of one plan on one set.

    Attributes:
        plan: Name of the plan.
        quality: Quality.
        timing: Time.
    """

    plan: str
    quality: RetrievalQuality
    timing: Timing

    def shape(self) -> dict[str, object]:
        """Describe the measurement in JSON.

        Returns:
            Its shape.
        """
        return {
            "plan": self.plan,
            "query_count": self.quality.query_count,
            **{f"recall_at_{depth}": value for depth, value in self.quality.recall},
            "ndcg_at_10": self.quality.ndcg,
            "mean_reciprocal_rank": self.quality.mean_reciprocal_rank,
            "milliseconds_per_query": self.timing.mean_milliseconds,
            "milliseconds_p50": self.timing.p50_milliseconds,
            "milliseconds_p95": self.timing.p95_milliseconds,
            "timed_query_count": self.timing.query_count,
        }


def display_name(identifier: str) -> str:
    """Give the display name of a document of a set: its identifier as a text file.

    Args:
        identifier: Identifier in the set.

    Returns:
        The display name; the suffix says that it is plain text, whatever it looks like.
    """
    return identifier + _SUFFIX


async def ensure_corpus(
    client: CorpusMeshClient, knowledge_base: str, corpus: Sequence[CorpusEntry], output: Output
) -> IngestReport:
    """Ingest the documents that the knowledge base does not hold yet, with the same content and published.

    Args:
        client: The client.
        knowledge_base: `knowledgeBases/{knowledge_base}`.
        corpus: The documents of the set.
        output: Where progress goes.

    Returns:
        What became of the documents that were missing.
    """
    held = {
        document.display_name: document.latest_version.sha256
        async for document in client.documents.list(knowledge_base)
        if _is_current(document)
    }
    missing = [
        UploadItem(display_name=display_name(entry.identifier), content=entry.text.encode(), title=entry.title)
        for entry in corpus
        if held.get(display_name(entry.identifier)) != hashlib.sha256(entry.text.encode()).hexdigest()
    ]
    if not missing:
        return IngestReport(waited=True)
    output.message(f"Ingesting {len(missing)} of {len(corpus)} documents into {knowledge_base}")
    return await ingest_items(
        client, knowledge_base, missing, output, wait=True, max_stream_documents=_STREAM_DOCUMENTS
    )


async def measure(
    client: CorpusMeshClient, knowledge_base: str, queries: Sequence[Query], plan: RetrievalPlan, name: str
) -> Measurement:
    """Measure one plan: quality over all questions, then time over a sample, one at a time.

    Args:
        client: The client.
        knowledge_base: `knowledgeBases/{knowledge_base}`.
        queries: The questions.
        plan: How to search.
        name: Name of the plan.

    Returns:
        The measurement.
    """
    gate = asyncio.Semaphore(_AT_ONCE)
    outcomes: list[QueryOutcome | None] = [None] * len(queries)

    async def score(position: int, query: Query) -> None:
        async with gate:
            response = await client.search([knowledge_base], query.question, plan=plan, page_size=_SCORED_HITS)
        found = (hit.place.display_name.removesuffix(_SUFFIX) for hit in response.hits)
        outcomes[position] = QueryOutcome(unique_in_order(found), query.gold)

    async with asyncio.TaskGroup() as group:
        for position, query in enumerate(queries):
            group.create_task(score(position, query))
    quality = summarise_quality([outcome for outcome in outcomes if outcome is not None])
    return Measurement(name, quality, await _time(client, knowledge_base, queries, plan))


def at_least_better_leg(measurements: Sequence[Measurement]) -> dict[str, bool]:
    """Tell where hybrid is at least as good as the better one of its legs.

    Args:
        measurements: Those of hybrid, lexical and vector, by name.

    Returns:
        For every measure whether hybrid holds, up to rounding.
    """
    by_name = {entry.plan: _values(entry.quality) for entry in measurements}
    return {
        measure_name: value + 1e-9 >= max(by_name["lexical"][measure_name], by_name["vector"][measure_name])
        for measure_name, value in by_name["hybrid"].items()
    }


def _values(quality: RetrievalQuality) -> dict[str, float]:
    return {**{f"recall_at_{depth}": value for depth, value in quality.recall}, "ndcg_at_10": quality.ndcg}


async def _time(client: CorpusMeshClient, knowledge_base: str, queries: Sequence[Query], plan: RetrievalPlan) -> Timing:
    step = max(1, len(queries) // _TIMED_QUERIES)
    durations: list[float] = []
    for query in queries[::step][:_TIMED_QUERIES]:
        started = time.perf_counter()
        await client.search([knowledge_base], query.question, plan=plan, page_size=_TIMED_HITS)
        durations.append((time.perf_counter() - started) * 1000)
    ordered = sorted(durations)
    return Timing(
        query_count=len(ordered),
        mean_milliseconds=statistics.fmean(ordered),
        p50_milliseconds=statistics.median(ordered),
        p95_milliseconds=ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))],
    )


def _is_current(document: Document) -> bool:
    return bool(document.published_version) and document.published_version == document.latest_version.name
