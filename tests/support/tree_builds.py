"""Builds of a knowledge base's tree over stores in memory; what one changes may be the last thing that it does."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from pyroaring import BitMap

from corpusmesh_adapters.opensearch.documents import RECORD_FIELDS, to_record, to_source
from corpusmesh_core.artefacts import CHUNKS, VECTORS, VectorSet, embedded_texts, pack_chunks, pack_vectors, text_key
from corpusmesh_core.artefacts.skeletons import unpack_skeleton
from corpusmesh_core.documents import Chunk
from corpusmesh_core.orchestration.values import Lane, Stage
from corpusmesh_core.ports.builds import BuildRow, BuildState, PublishedState
from corpusmesh_core.ports.index import Candidate, Candidates, RecallRequest, RecordSelection
from corpusmesh_core.ports.work import BuildChange, Claim, StageOutcome
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.skeleton import Skeleton
from corpusmesh_core.trees.values import CHILDREN, Vectors
from corpusmesh_core.visibility import VisibilityFilter
from corpusmesh_ingest.records import VersionPieces, version_records
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.dataset.builder import TreeBuilder
from corpusmesh_raptor.skeletons import SKELETON
from corpusmesh_raptor.stores import RaptorStores, RaptorTools
from corpusmesh_raptor.summarizing import Summarizer
from corpusmesh_runtime.worker import TaskContext
from tests.support.ingest_stages import CountingEmbedder, MemoryMetadata, MemoryObjects, WordCounter, version

DIMENSION = 24
FIRST_NODE = 10_000
"""Ordinals of nodes begin here, so that a test can tell them from versions."""
MAX_SLICES = 200
CHANGING = frozenset({"put", "delete", "write", "refresh", "reserve", "tell_progress"})
"""Calls after which the world is another; a death at any other moment is one after the last of these."""


class Death(BaseException):
    """The process is gone: no error, which somebody might catch."""


@dataclass
class Fuse:
    """Counts what a process changes in the world, and ends it at one of these."""

    dies_at: int = 0
    count: int = 0

    def burn(self) -> None:
        """Go one step further.

        Raises:
            Death: If this was the last one.
        """
        self.count += 1
        if self.count == self.dies_at:
            raise Death


class Mortal:
    """A store whose caller may die after each change, and in the middle of a write."""

    def __init__(self, target: object, fuse: Fuse) -> None:
        self._target = target
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name not in CHANGING:
            return found

        @functools.wraps(found)
        async def call(*args: Any, **options: Any) -> Any:
            if name == "write":
                *names, records = args
                await found(*names, records[: len(records) // 2], **options)
                self._fuse.burn()
            answer = await found(*args, **options)
            self._fuse.burn()
            return answer

        return call


class RefreshedIndex:
    """An index that keeps records as OpenSearch does, and shows what was written after a refresh alone."""

    def __init__(self) -> None:
        self.shown: dict[str, dict[str, Any]] = {}
        self.written: dict[str, dict[str, Any]] = {}

    def put(self, records: Iterable[Record]) -> None:
        """Take records in, not shown yet."""
        self.written.update((record.record_id, to_source(record)) for record in records)

    async def write(self, tenant_id: str, space_id: str, records: Sequence[Record], **_: object) -> None:
        """See `RecordIndex.write`."""
        self.put(records)

    async def refresh(self, tenant_id: str, space_id: str, *, timeout_seconds: float) -> None:
        """See `RecordIndex.refresh`."""
        self.shown |= self.written

    def record(self, record_id: str, *, with_vector: bool = True) -> Record:
        """Read what is shown."""
        source = self.shown[record_id]
        fields = {name: value for name, value in source.items() if name in RECORD_FIELDS}
        return to_record(record_id, fields, source.get("vector") if with_vector else None)

    def records(self) -> list[Record]:
        """Read all that is shown."""
        return [self.record(record_id) for record_id in self.shown]

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
        found = [self.record(name, with_vector=with_vectors) for name in record_ids if name in self.shown]
        return [record for record in found if passes(record, visibility)]

    async def search(
        self, tenant_id: str, space_id: str, requests: Sequence[RecallRequest], *, timeout_seconds: float
    ) -> list[Candidates]:
        """See `RecordIndex.search`: the vector leg alone."""
        return [Candidates(tuple(self._nearest(request)), has_vector_leg=True) for request in requests]

    def _nearest(self, request: RecallRequest) -> list[Candidate]:
        assert request.query_vector is not None
        found = [
            Candidate(record, "", cosine=float(record.vector @ request.query_vector))
            for record in self.records()
            if record.vector is not None and passes(record, request.visibility)
        ]
        return sorted(found, key=lambda item: -(item.cosine or 0.0))[: request.window]

    async def count(self, tenant_id: str, space_id: str, selection: RecordSelection, **_: object) -> int:
        """See `RecordIndex.count`."""
        assert selection.publishers is not None
        wanted = {int(publisher) for publisher in selection.publishers}
        return sum(source["publisher"] in wanted for source in self.shown.values())


def passes(record: Record, filter_: VisibilityFilter) -> bool:
    """Judge a record by a filter's clauses."""
    for clause in filter_.clauses:
        if record.kind in clause.kinds:
            return (
                (clause.publisher_in is None or record.publisher in clause.publisher_in)
                and (clause.source_in is None or any(source in clause.source_in for source in record.sources))
                and (clause.source_not_in is None or not any(one in clause.source_not_in for one in record.sources))
                and (clause.source_below is None or all(one < clause.source_below for one in record.sources))
            )
    return False


@dataclass
class MemoryTrees:
    """The build of one knowledge base, its reservations, and what the knowledge base shows."""

    row: BuildRow = field(default_factory=lambda: BuildRow("acme", "build", "kb", BuildState.EMPTY, run_id="run"))
    state: PublishedState = field(default_factory=lambda: PublishedState(0, (), CountingEmbedder.space.space_id))
    slots: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    next_ordinal: int = FIRST_NODE
    gone: frozenset[int] = frozenset()

    async def published(self, tenant_id: str, knowledge_base_id: str) -> PublishedState:
        """See `BuildStore.published`."""
        return self.state

    async def reserve(self, claim: Claim, slot: str, count: int) -> int:
        """See `BuildStore.reserve`."""
        first, reserved = self.slots.get((claim.run_id, slot), (0, 0))
        if reserved < count:
            first, self.next_ordinal = self.next_ordinal, self.next_ordinal + count
            self.slots[claim.run_id, slot] = (first, count)
        return first

    async def tell_progress(self, claim: Claim, progress: Mapping[str, object]) -> None:
        """See `BuildStore.tell_progress`."""
        self.row = replace(self.row, progress=dict(progress))

    async def removed(self, claim: Claim, versions: Sequence[int]) -> frozenset[int]:
        """See `BuildStore.removed`."""
        return self.gone & frozenset(versions)

    def publish(self, change: BuildChange) -> None:
        """Do what the transaction does that ends a build."""
        self.row = replace(
            self.row,
            state=BuildState.READY,
            published=change.nodes,
            sources=change.sources,
            snapshot_id=change.snapshot_id,
            artefacts=change.artefacts,
            figures=change.figures,
        )


class World:
    """One knowledge base with all that outlives a process."""

    def __init__(self) -> None:
        self.trees = MemoryTrees()
        self.objects = MemoryObjects()
        self.index = RefreshedIndex()
        self.metadata = MemoryMetadata()
        self.embedder = CountingEmbedder()
        self.space_id = self.embedder.space.space_id
        self.run_count = 0

    def put(self, ordinal: int, document: str, texts: Sequence[str], vectors: Vectors) -> None:
        """Publish a version; that of the same document before is not shown any more."""
        row = version(ordinal, document_id=document, title=f"Book of {document}", version=ordinal)
        chunks = [
            Chunk(place, text, (f"Part {place}",), page=1, boxes=(), token_count=len(text.split()))
            for place, text in enumerate(texts)
        ]
        keys = b"".join(text_key(self.space_id, text) for text in embedded_texts(row.title, chunks))
        stored = VectorSet(vectors, np.frombuffer(keys, dtype=np.uint8).reshape(len(chunks), 16))
        self.objects.kept[f"{ordinal}.chunks"] = pack_chunks({ordinal: chunks})
        self.objects.kept[f"{ordinal}.vectors"] = pack_vectors({ordinal: stored})
        row = replace(row, artefacts={CHUNKS: f"{ordinal}.chunks", VECTORS: f"{ordinal}.vectors"})
        self.metadata.add(row)
        self.index.put(version_records(VersionPieces(row, chunks, []), vectors))
        self.index.shown |= self.index.written
        self._show(row, document)

    def remove(self, document: str) -> None:
        """Show no version of a document any more."""
        self._show(None, document)

    def _show(self, row: VersionRow | None, document: str) -> None:
        state = self.trees.state
        kept = {ordinal for ordinal in state.versions if self.metadata.rows[ordinal].document_id != document}
        shown = sorted(kept | ({int(row.ordinal)} if row is not None else set()))
        self.trees.state = replace(state, snapshot_id=state.snapshot_id + 1, versions=tuple(shown))

    def stores(self, fuse: Fuse) -> RaptorStores:
        """Give a process its stores."""

        def mortal(target: object) -> Any:
            return Mortal(target, fuse)

        return RaptorStores(
            **dict.fromkeys(("snapshots", "runs", "usage", "cache", "idempotency", "audit"), cast(Any, None)),
            trees=mortal(self.trees),
            documents=mortal(self.metadata),
            knowledge_bases=mortal(self.metadata),
            objects=mortal(self.objects),
            index=mortal(self.index),
            embedder=mortal(self.embedder),
        )

    def begin(self) -> "Task":
        """Begin a run that brings the tree up to date."""
        self.run_count += 1
        self.trees.row = replace(self.trees.row, run_id=f"run{self.run_count}", progress={})
        return Task(self, f"run{self.run_count}")

    async def build(self, settings: RaptorSettings) -> int:
        """Bring the tree up to date, undisturbed.

        Returns:
            Changes that it made.
        """
        task, fuse = self.begin(), Fuse()
        await task.work(fuse, settings)
        return fuse.count

    def skeleton(self) -> Skeleton:
        """Read the published shape."""
        return unpack_skeleton(self.objects.kept[self.trees.row.artefacts[SKELETON]])

    def nodes(self) -> list[Record]:
        """Read the published nodes; each ordinal publishes exactly one record, and each node is there."""
        published = BitMap.deserialize(self.trees.row.published)
        found = [record for record in self.index.records() if record.publisher in published]
        assert sorted(record.publisher for record in found) == list(published)
        return found


@dataclass
class Task:
    """The task of a run that is under way."""

    world: World
    run_id: str
    payload: Mapping[str, str] = field(default_factory=dict)
    slice_count: int = 0

    async def work(self, fuse: Fuse, settings: RaptorSettings) -> None:
        """Go on until the tree is published, or the process dies; what the queue does is done at once or not at all."""
        while True:
            outcome = await self.attempt(fuse, settings)
            self.slice_count += 1
            assert self.slice_count < MAX_SLICES
            if outcome.build is not None:
                self.world.trees.publish(outcome.build)
                return
            assert outcome.goes_on
            self.payload = outcome.payload

    async def attempt(self, fuse: Fuse, settings: RaptorSettings) -> StageOutcome:
        """Do the task as it stands once, without telling the queue."""
        world = self.world
        claim = Claim(
            tenant_id="acme",
            knowledge_base_id="kb",
            run_id=self.run_id,
            task_id=f"{self.run_id}.{self.slice_count}",
            stage=Stage.BUILD_TREE,
            lane=Lane.BULK,
            parts=(),
            attempt=1,
            epoch=1,
            lease_seconds=30.0,
            payload=self.payload,
        )
        tools = RaptorTools(counter=WordCounter(), chat=None, events=cast(Any, None))
        summarizer = Summarizer(None, None, cast(Any, None), tools.counter, settings)
        context = TaskContext(claim, 600.0)
        builder = TreeBuilder(
            settings, world.stores(fuse), tools, summarizer, context, world.trees.row, TreeSettings(small_layer_size=3)
        )
        return await builder.work()


def content(world: World) -> list[tuple[object, ...]]:
    """Tell what the published nodes are, whatever ordinals they were given; sorted."""
    nodes = world.nodes()
    keys = {node.record_id: node.record_id.rpartition("-")[2] for node in nodes}
    return sorted(
        (
            node.layer,
            node.position,
            keys[node.record_id],
            node.text,
            node.title,
            node.sources,
            node.links,
            tuple(keys.get(child, child) for child in node.attributes[CHILDREN].split()),
            tuple(sorted((name, value) for name, value in node.attributes.items() if name != CHILDREN)),
            () if node.vector is None else tuple(node.vector.tolist()),
        )
        for node in nodes
        if node.kind is RecordKind.TREE_NODE
    )


def shape(skeleton: Skeleton) -> list[object]:
    """Tell what a tree's shape is, whatever ordinals its nodes were given."""
    own = [skeleton.grouping, skeleton.fingerprint, skeleton.full_leaf_count, skeleton.changed_leaf_count]
    arrays = (skeleton.versions, skeleton.leaf_counts, skeleton.positions, skeleton.keys)
    layers = [
        (layer.threshold, *(part.tolist() for part in (layer.bounds, layer.children, layer.keys, layer.cosines)))
        for layer in skeleton.layers
    ]
    return [*own, *(part.tolist() for part in arrays), *layers]
