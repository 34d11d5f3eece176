"""What a build would cost, from the chunks that it would read.

Calls and tokens of extraction follow from token counts, batched as a build batches them; no model is called. What NER
finds and how long it takes is measured on a sample of the chunks themselves, and projected. Memory is bounded by
`plan_max_chunks`: of more chunks, whole documents are taken evenly over all.
"""

import asyncio
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.graphs.cost import GraphCounts, expected_counts, plan_calls
from corpusmesh_core.graphs.extraction import extract_entities
from corpusmesh_core.graphs.keys import entity_key, pair_of
from corpusmesh_core.graphs.ledger import Ledger, unpack_ledger
from corpusmesh_core.graphs.settings import GraphMethod, GraphSettings, GraphVectors, ReportMethod
from corpusmesh_core.graphs.telling import figures_of
from corpusmesh_core.graphs.values import GraphBill, GraphChunk, Triple
from corpusmesh_core.ports.builds import BuildRow, BuildState
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_graph.building.before import LEDGER
from corpusmesh_graph.building.planning import kept_versions
from corpusmesh_graph.building.reading import graph_chunks
from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_graph.models import GraphModels
from corpusmesh_graph.stores import GraphStores, GraphTools
from corpusmesh_runtime.artefact_access import read_pieces
from corpusmesh_runtime.build_plans import projection_factor, read_groups, read_seconds, sample_of

_NAME_TOKENS: Final = 4
_RELATION_TOKENS: Final = 30
_MIN_GROWTH: Final = 0.3
_MAX_TRIPLED: Final = 1_000
_MAX_LEDGER_BYTES: Final = 1 << 29
"""Documents whose triples a plan counts."""
_MODEL_NOT_CONFIGURED: Final = "MODEL_NOT_CONFIGURED"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a build would cost.

    Attributes:
        cost: The cost.
        sampled_document_count: Documents of those that would be read whose chunks were read for it.
    """

    cost: GraphBill
    sampled_document_count: int


@dataclass(frozen=True, slots=True)
class _Measured:
    """What NER found in a sample.

    Attributes:
        chunk_count: Chunks of it.
        entity_count: Distinct entities.
        relation_count: Distinct relations.
        entity_growth: Exponent by which distinct entities grow with the text (Heaps 1978), 0.3 to 1.
        relation_growth: Likewise of relations.
        seconds: CPU that it took.
    """

    chunk_count: int = 0
    entity_count: int = 0
    relation_count: int = 0
    entity_growth: float = 1.0
    relation_growth: float = 1.0
    seconds: float = 0.0


@dataclass(slots=True)
class _Sample:
    """Chunks that were read for a plan.

    Attributes:
        tokens: Tokens of the chunks of each document.
        documents: Chunks of the documents that NER is measured on.
    """

    tokens: list[list[int]] = field(default_factory=list)
    documents: list[Sequence[GraphChunk]] = field(default_factory=list)


class GraphPlanner:
    """Plans builds from what they would read; no model is called."""

    def __init__(self, settings: GraphServiceSettings, stores: GraphStores, tools: GraphTools) -> None:
        """Create it.

        Args:
            settings: Bounds, and how fast work goes where no bill tells.
            stores: Hold chunks and the graph before.
            tools: What the language model's session is opened with.
        """
        self._settings = settings
        self._stores = stores
        self._has_model = tools.chat is not None
        self._models = GraphModels(tools.chat, stores.cache, stores.usage, tools.counter, settings)

    async def plan(
        self, versions: Sequence[VersionRow], settings: GraphSettings, *, row: BuildRow | None, full: bool
    ) -> Plan:
        """Plan a build.

        Args:
            versions: Versions that the graph shall cover, by ordinal.
            settings: How the graph is made.
            row: The graph as it is: what of it stays, and how fast its last build went. None where there is none, or
                where the caller may not see all of it.
            full: Whether the whole is built anew rather than what has changed.

        Returns:
            The plan.

        Raises:
            DeadlineExceededError: If the caller's time is over.
            FailedPreconditionError: ARTEFACT_GONE if what was made of a version is not there any more.
        """
        asked = settings
        asks = bool(settings.model_methods) or settings.reports is ReportMethod.LLM
        if asks and not self._has_model:
            settings = _without_model(settings)
        before = await self._ledger(row)
        kept = await self._kept(versions, asked, before, row) if before is not None and not full else frozenset()
        read = [version for version in versions if int(version.ordinal) not in kept]
        taken = sample_of(read, self._settings.plan_max_chunks)
        sample = await self._read(taken)
        measured = await asyncio.to_thread(_measure, sample.documents, settings)
        factor = projection_factor(taken, read)
        counts = _counts(sample.tokens, settings, measured, factor)
        counts = _with_triples(counts, await self._triples(read, settings), settings)
        cost = _projected(plan_calls(sample.tokens, settings, counts), counts, factor)
        cost.document_count = len(read)
        cost.reused_document_count = len(versions) - len(read)
        cost.chunk_count = sum(version.chunk_count for version in read)
        _put_reports(cost, row, full=full)
        _put_vectors(cost, settings)
        cost.stepped_down_reason = _MODEL_NOT_CONFIGURED if settings is not asked else ""
        cost.duration_seconds = self._seconds(cost, measured)
        return Plan(cost, len(taken))

    async def _ledger(self, row: BuildRow | None) -> Ledger | None:
        key = row.artefacts.get(LEDGER) if row is not None and row.state is BuildState.READY else None
        if key is None:
            return None
        try:
            content = await self._stores.objects.get(
                key, max_byte_count=_MAX_LEDGER_BYTES, timeout_seconds=read_seconds()
            )
        except NotFoundError:
            # A newer build has taken its place since.
            return None
        return await asyncio.to_thread(unpack_ledger, content)

    async def _kept(
        self, versions: Sequence[VersionRow], settings: GraphSettings, ledger: Ledger, row: BuildRow | None
    ) -> frozenset[int]:
        triples: Mapping[str, str] = {}
        if GraphMethod.TRIPLES in settings.methods and row is not None:
            triples = await self._stores.triples.triple_digests(row.tenant_id, row.knowledge_base_id)
        changed = {
            document
            for document in triples.keys() | ledger.triples.keys()
            if triples.get(document) != ledger.triples.get(document)
        }
        touched = [int(version.ordinal) for version in versions if version.document_id in changed]
        published = np.array([version.ordinal for version in versions], np.int32)
        session = self._models.open(tenant_id="", run_id="", settings=settings, bill=GraphBill())
        return frozenset(kept_versions(published, ledger, settings, session.fingerprint, touched).tolist())

    async def _triples(self, versions: Sequence[VersionRow], settings: GraphSettings) -> Sequence[Triple]:
        """Read the facts that people have given for what would be read."""
        if GraphMethod.TRIPLES not in settings.methods or not versions:
            return ()
        tenant_id, knowledge_base_id = versions[0].tenant_id, versions[0].knowledge_base_id
        given = await self._stores.triples.triple_digests(tenant_id, knowledge_base_id)
        wanted = [version.document_id for version in versions if version.document_id in given]
        found = await self._stores.triples.triples_of(tenant_id, knowledge_base_id, wanted[:_MAX_TRIPLED])
        return [triple for triples in found.values() for triple in triples]

    async def _read(self, versions: Sequence[VersionRow]) -> _Sample:
        sample = _Sample()
        left = self._settings.plan_sample_chunks
        stride = max(1, len(versions) // max(1, left // 8))
        for group in read_groups(versions):
            pieces = await read_pieces(self._stores.objects, group, timeout_seconds=read_seconds())
            for place, version in enumerate(group):
                chunks = graph_chunks(version, pieces[int(version.ordinal)][0])
                sample.tokens.append([chunk.token_count for chunk in chunks])
                if left > 0 and chunks and place % stride == 0:
                    sample.documents.append(chunks[:left])
                    left -= len(chunks)
        return sample

    def _seconds(self, cost: GraphBill, measured: _Measured) -> float:
        rates = self._settings
        seconds_of_ner = measured.seconds / measured.chunk_count if measured.chunk_count else 0.0
        model_seconds = cost.input_token_count / rates.plan_read_tokens_per_second
        model_seconds += cost.output_token_count / rates.plan_written_tokens_per_second
        written = cost.entity_count + cost.relation_count + cost.report_count
        return (
            cost.chunk_count * seconds_of_ner
            + written * rates.plan_milliseconds_per_record / 1000.0
            + cost.embedded_token_count / rates.plan_embedded_tokens_per_second
            + model_seconds / rates.model_calls_in_flight
        )


def _without_model(settings: GraphSettings) -> GraphSettings:
    """Give what is made where no language model is configured: NER reads what the model would have."""
    methods = dict.fromkeys(
        GraphMethod.NER if method in settings.model_methods else method for method in settings.methods
    )
    reports = ReportMethod.LITE if settings.reports is ReportMethod.LLM else settings.reports
    return replace(settings, methods=tuple(methods), reports=reports)


def _measure(documents: Sequence[Sequence[GraphChunk]], settings: GraphSettings) -> _Measured:
    """Find what NER finds in a sample, and how long that takes."""
    if GraphMethod.NER not in settings.methods or not documents:
        return _Measured()
    began = time.thread_time()
    found = [extract_entities(chunks, settings) for chunks in documents]
    seconds = time.thread_time() - began
    entities = [{entity.key for entity in subgraph.entities} for subgraph in found]
    relations = [{pair_of(one.source, one.target) for one in subgraph.relations} for subgraph in found]
    sizes = [len(chunks) for chunks in documents]
    return _Measured(
        chunk_count=sum(sizes),
        entity_count=len(set().union(*entities)),
        relation_count=len(set().union(*relations)),
        entity_growth=_growth(entities, sizes),
        relation_growth=_growth(relations, sizes),
        seconds=seconds,
    )


def _growth(found: Sequence[Iterable[object]], sizes: Sequence[int]) -> float:
    """Tell how distinct things grow with the text: by how many more there are in all of it than in its first half."""
    half = len(found) // 2
    first: set[object] = set().union(*found[:half])
    everything = first.union(*found[half:])
    if not half or not first:
        return 1.0
    exponent = math.log(len(everything) / len(first)) / math.log(sum(sizes) / sum(sizes[:half]))
    return min(1.0, max(_MIN_GROWTH, exponent))


def _counts(
    tokens: Sequence[Sequence[int]], settings: GraphSettings, measured: _Measured, factor: float
) -> GraphCounts:
    """Tell how much there will be in all that is read: as much as was measured, else as much as is to be expected."""
    expected = expected_counts(tokens, settings)
    if not measured.chunk_count:
        return _scaled(expected, factor)
    share = factor * sum(map(len, tokens)) / measured.chunk_count
    entities = round(measured.entity_count * share**measured.entity_growth)
    ratio = entities / expected.entity_count if expected.entity_count else 0.0
    scaled = _scaled(expected, ratio)
    return replace(
        scaled, entity_count=entities, relation_count=round(measured.relation_count * share**measured.relation_growth)
    )


def _with_triples(counts: GraphCounts, triples: Sequence[Triple], settings: GraphSettings) -> GraphCounts:
    """Count what people have given exactly; where there is nothing else, it is all that there will be."""
    if GraphMethod.TRIPLES not in settings.methods:
        return counts
    pairs = {pair_of(entity_key(triple.subject), entity_key(triple.object)) for triple in triples}
    entities = len({key for pair in pairs for key in pair})
    if set(settings.methods) != {GraphMethod.TRIPLES}:
        return replace(
            counts, entity_count=counts.entity_count + entities, relation_count=counts.relation_count + len(pairs)
        )
    share = entities / counts.entity_count if counts.entity_count else 0.0
    return replace(_scaled(counts, share), entity_count=entities, relation_count=len(pairs))


def _scaled(counts: GraphCounts, factor: float) -> GraphCounts:
    return GraphCounts(
        entity_count=round(counts.entity_count * factor),
        relation_count=round(counts.relation_count * factor),
        merged_count=round(counts.merged_count * factor),
        pair_count=round(counts.pair_count * factor),
        report_count=round(counts.report_count * factor),
    )


def _projected(sampled: GraphBill, counts: GraphCounts, factor: float) -> GraphBill:
    """Project calls and tokens of a sample to all that is read; the counts are of all of it already."""
    return GraphBill(
        entity_count=counts.entity_count,
        relation_count=counts.relation_count,
        report_count=counts.report_count,
        model_call_count=math.ceil(sampled.model_call_count * factor),
        input_token_count=round(sampled.input_token_count * factor),
        output_token_count=round(sampled.output_token_count * factor),
    )


def _put_reports(cost: GraphBill, row: BuildRow | None, *, full: bool) -> None:
    """Expect of an update that the communities of what is read change, and the others stay."""
    if row is None or full:
        return
    there = figures_of(row.figures)
    if not there.entity_count or not there.report_count:
        return
    changed = min(1.0, cost.entity_count / there.entity_count)
    cost.report_count = math.ceil(there.report_count * changed)
    cost.reused_report_count = there.report_count - cost.report_count


def _put_vectors(cost: GraphBill, settings: GraphSettings) -> None:
    if settings.effective_vectors is GraphVectors.NONE:
        return
    cost.embedded_text_count = cost.entity_count
    cost.embedded_token_count = _NAME_TOKENS * cost.entity_count
    if settings.effective_vectors is GraphVectors.ALL:
        cost.embedded_text_count += cost.relation_count
        cost.embedded_token_count += _RELATION_TOKENS * cost.relation_count
