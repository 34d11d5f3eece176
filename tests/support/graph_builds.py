"""Builds of a knowledge base's graph over stores in memory; what one changes may be the last thing that it does."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from pyroaring import BitMap

from corpusmesh_adapters.communities import LeidenFinder
from corpusmesh_core.artefacts import CHUNKS, pack_chunks
from corpusmesh_core.documents import Chunk
from corpusmesh_core.graphs.corrections import Correction
from corpusmesh_core.graphs.ledger import Ledger, unpack_ledger
from corpusmesh_core.graphs.segments import Segment
from corpusmesh_core.graphs.settings import GraphMethod, GraphSettings
from corpusmesh_core.graphs.values import Triple
from corpusmesh_core.orchestration.values import Lane, Stage
from corpusmesh_core.ports.builds import PublishedState
from corpusmesh_core.ports.work import Claim, StageOutcome
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_graph.building.before import LEDGER, segment_keys
from corpusmesh_graph.building.builder import GraphBuilder
from corpusmesh_graph.building.shelf import SegmentShelf
from corpusmesh_graph.building.tools import BuildTools
from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_graph.models import GraphModels
from corpusmesh_graph.stores import GraphStores
from corpusmesh_runtime.worker import TaskContext
from tests.support.ingest_stages import CountingEmbedder, MemoryMetadata, MemoryObjects, WordCounter, version
from tests.support.tree_builds import Fuse, MemoryTrees, Mortal, RefreshedIndex

MAX_SLICES = 200
NER = GraphSettings(methods=(GraphMethod.NER,))
GRAPH_KINDS = (RecordKind.ENTITY, RecordKind.RELATION, RecordKind.COMMUNITY_REPORT)


@dataclass
class MemoryGraphs(MemoryTrees):
    """The build of one knowledge base's graph, its reservations, and what the knowledge base shows."""

    unshown: set[int] = field(default_factory=set)
    documents: dict[str, tuple[int, ...]] = field(default_factory=dict)

    async def left_over(self, claim: Claim) -> Sequence[int]:
        """See `BuildStore.left_over`."""
        return sorted(self.unshown)

    async def versions_of(
        self, tenant_id: str, knowledge_base_id: str, document_ids: Collection[str]
    ) -> Mapping[str, tuple[int, ...]]:
        """See `BuildStore.versions_of`."""
        return {name: self.documents[name] for name in document_ids if name in self.documents}


@dataclass
class MemoryInputs:
    """Corrections and triples of one knowledge base."""

    corrections: list[Correction] = field(default_factory=list)
    triples: dict[str, tuple[Triple, ...]] = field(default_factory=dict)

    async def corrections_of(self, tenant_id: str, knowledge_base_id: str) -> Sequence[Correction]:
        """See `CorrectionStore.corrections_of`."""
        return list(self.corrections)

    async def triples_of(
        self, tenant_id: str, knowledge_base_id: str, document_ids: Collection[str]
    ) -> Mapping[str, tuple[Triple, ...]]:
        """See `TripleStore.triples_of`."""
        return {name: self.triples[name] for name in document_ids if name in self.triples}

    async def triple_digests(self, tenant_id: str, knowledge_base_id: str) -> Mapping[str, str]:
        """See `TripleStore.triple_digests`."""
        return {name: repr(triples) for name, triples in self.triples.items()}


class GraphWorld:
    """One knowledge base with all that outlives a process."""

    def __init__(self, graph: GraphSettings = NER) -> None:
        self.graph = graph
        self.embedder = CountingEmbedder()
        self.space_id = self.embedder.space.space_id
        self.builds = MemoryGraphs(state=PublishedState(0, (), self.space_id))
        self.inputs = MemoryInputs()
        self.objects = MemoryObjects()
        self.index = RefreshedIndex()
        self.metadata = MemoryMetadata()
        self.run_count = 0
        self.shelf: SegmentShelf | None = None
        """What stays in memory between builds; None where each process is another."""

    def put(self, ordinal: int, document: str, texts: Sequence[str], title: str = "") -> None:
        """Publish a version; that of the same document before is not shown any more."""
        row = version(
            ordinal, document_id=document, title=title or f"Book {document}", version=ordinal, chunk_count=len(texts)
        )
        chunks = [
            Chunk(place, text, (), page=1, boxes=(), token_count=len(text.split())) for place, text in enumerate(texts)
        ]
        self.objects.kept[f"{ordinal}.chunks"] = pack_chunks({ordinal: chunks})
        self.metadata.add(replace(row, artefacts={CHUNKS: f"{ordinal}.chunks"}))
        self.builds.documents[document] = (*self.builds.documents.get(document, ()), ordinal)
        self._show(ordinal, document)

    def remove(self, document: str, *, is_purged: bool = False) -> None:
        """Show no version of a document any more."""
        self._show(None, document)
        if is_purged:
            self.builds.gone |= frozenset(self.builds.documents[document])

    def _show(self, ordinal: int | None, document: str) -> None:
        state = self.builds.state
        kept = {one for one in state.versions if self.metadata.rows[one].document_id != document}
        shown = sorted(kept | ({ordinal} if ordinal is not None else set()))
        self.builds.state = replace(state, snapshot_id=state.snapshot_id + 1, versions=tuple(shown))

    def stores(self, fuse: Fuse) -> GraphStores:
        """Give a process its stores."""

        def mortal(target: object) -> Any:
            return Mortal(target, fuse)

        names = GraphStores.__dataclass_fields__.keys()
        return GraphStores(
            **{name: cast(Any, None) for name in names}
            | {
                "builds": mortal(self.builds),
                "corrections": mortal(self.inputs),
                "triples": mortal(self.inputs),
                "documents": mortal(self.metadata),
                "knowledge_bases": mortal(self.metadata),
                "objects": mortal(self.objects),
                "index": mortal(self.index),
                "embedder": mortal(self.embedder),
            }
        )

    def begin(self, **payload: str) -> "GraphTask":
        """Begin a run that brings the graph up to date."""
        self.run_count += 1
        self.builds.row = replace(self.builds.row, run_id=f"run{self.run_count}", progress={})
        return GraphTask(self, f"run{self.run_count}", payload)

    async def build(self, settings: GraphServiceSettings | None = None, **payload: str) -> int:
        """Bring the graph up to date, undisturbed.

        Returns:
            Changes that it made.
        """
        task, fuse = self.begin(**payload), Fuse()
        await task.work(fuse, settings or GraphServiceSettings())
        return fuse.count

    def ledger(self) -> Ledger:
        """Read what the published graph consists of."""
        return unpack_ledger(self.objects.kept[self.builds.row.artefacts[LEDGER]])

    def segments(self) -> list[Segment]:
        """Read the published segments."""
        return [Segment.open(self.objects.kept[key]) for key in segment_keys(self.builds.row.artefacts)]

    def records(self) -> list[Record]:
        """Read the published records."""
        published = BitMap.deserialize(self.builds.row.published)
        return [record for record in self.index.records() if record.publisher in published]


@dataclass
class GraphTask:
    """The task of a run that is under way."""

    world: GraphWorld
    run_id: str
    payload: Mapping[str, str] = field(default_factory=dict)
    slice_count: int = 0

    async def work(self, fuse: Fuse, settings: GraphServiceSettings) -> None:
        """Go on until the graph is published, or the process dies; what the queue does is done wholly or not at all."""
        while True:
            outcome = await self.attempt(fuse, settings)
            self.slice_count += 1
            assert self.slice_count < MAX_SLICES
            if outcome.build is not None:
                self.world.builds.publish(outcome.build)
                return
            assert outcome.goes_on
            self.payload = outcome.payload

    async def attempt(self, fuse: Fuse, settings: GraphServiceSettings) -> StageOutcome:
        """Do the task as it stands once, without telling the queue."""
        world = self.world
        claim = Claim(
            tenant_id="acme",
            knowledge_base_id="kb",
            run_id=self.run_id,
            task_id=f"{self.run_id}.{self.slice_count}",
            stage=Stage.BUILD_GRAPH,
            lane=Lane.BULK,
            parts=(),
            attempt=1,
            epoch=1,
            lease_seconds=30.0,
            payload=self.payload,
        )
        stores = world.stores(fuse)
        models = GraphModels(None, None, cast(Any, None), WordCounter(), settings)
        shelf = world.shelf or SegmentShelf(stores.objects, max_bytes=1 << 20)
        tools = BuildTools(models=models, shelf=shelf, communities=LeidenFinder())
        return await GraphBuilder(
            settings, stores, tools, TaskContext(claim, 600.0), world.builds.row, world.graph
        ).work()


def content(world: GraphWorld) -> list[tuple[object, ...]]:
    """Tell what the published records say, whatever ordinals they were given; sorted."""
    return sorted(
        (
            record.kind.value,
            record.record_id.rpartition("-")[2],
            record.text,
            record.title,
            record.sources,
            record.links,
            record.keywords,
            tuple(sorted(record.attributes.items())),
            () if record.vector is None else tuple(record.vector.tolist()),
        )
        for record in world.records()
        if record.kind in GRAPH_KINDS
    )


def columns(world: GraphWorld) -> list[tuple[object, ...]]:
    """Tell what the published segments hold of published documents, whatever ordinals these were given; sorted."""
    published = BitMap.deserialize(world.builds.row.published)
    found: list[tuple[object, ...]] = []
    for segment in world.segments():
        for place in range(segment.document_count):
            if int(segment.document_publisher[place]) not in published:
                continue
            span = slice(int(segment.document_entities[place]), int(segment.document_entities[place + 1]))
            ends = slice(int(segment.document_relations[place]), int(segment.document_relations[place + 1]))
            found.append(
                (
                    int(segment.document_version[place]),
                    segment.entity_key[span].tolist(),
                    np.diff(segment.entity_mentions[span.start : span.stop + 1]).tolist(),
                    segment.entity_key[segment.relation_source[ends]].tolist(),
                    segment.entity_key[segment.relation_target[ends]].tolist(),
                    segment.relation_weight[ends].tolist(),
                )
            )
    return sorted(found, key=lambda item: cast(int, item[0]))
