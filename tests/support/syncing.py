"""A sync on a real database: scripted connectors and an object store in memory stand in for what is outside."""

import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from corpusmesh_adapters.postgres import PostgresSourceStore, PostgresSyncStore
from corpusmesh_core.errors import CorpusMeshError, InvalidArgumentError
from corpusmesh_core.orchestration.values import Stage, TaskFailure, Verdict
from corpusmesh_core.ports.objects import ObjectInfo
from corpusmesh_core.ports.runs import RunRecord
from corpusmesh_core.ports.sources import ConnectorCapabilities, SourceSpec
from corpusmesh_core.ports.work import Claim, StageOutcome
from corpusmesh_core.sources import (
    AccessRule,
    FailedItem,
    FolderPlace,
    KnownItem,
    ListingEnd,
    ListingEvent,
    SourceGrant,
    SourceItem,
    SourcePlace,
)
from corpusmesh_core.tenancy import Identity
from corpusmesh_ingest.config import IngestSettings
from corpusmesh_ingest.syncing.config import SourceSettings
from corpusmesh_ingest.syncing.stage import SyncDependencies, SyncStage
from corpusmesh_runtime.worker import TaskContext, failure_of
from tests.support.metadata import Metadata

PLACE = FolderPlace("docs")


@dataclass
class Place:
    """What a scripted place holds: texts by key, and what goes wrong."""

    texts: dict[str, str] = field(default_factory=dict)
    grants: dict[str, tuple[SourceGrant, ...]] = field(default_factory=dict)
    unreadable: dict[str, CorpusMeshError] = field(default_factory=dict)
    unlisted: set[str] = field(default_factory=set)
    breaks_after: int | None = None
    is_complete: bool = True
    cursors: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    capabilities: ConnectorCapabilities = field(default_factory=lambda: ConnectorCapabilities(False, False, True, 4))

    def check(self, tenant_id: str, place: SourcePlace) -> ConnectorCapabilities:
        return self.capabilities

    @asynccontextmanager
    async def connect(self, tenant_id: str, place: SourcePlace) -> AsyncIterator["Place"]:
        yield self

    async def list(
        self, cursor: str, known: Mapping[str, KnownItem], *, timeout_seconds: float
    ) -> AsyncIterator[ListingEvent]:
        self.cursors.append(cursor)
        for place, (key, text) in enumerate(sorted(self.texts.items())):
            if place == self.breaks_after:
                raise InvalidArgumentError("PLACE_BROKEN", "the place broke off")
            if key in self.unlisted:
                yield FailedItem(key, key, "PLACE_UNREADABLE", "it cannot be looked at")
                continue
            etag = hashlib.sha256(text.encode()).hexdigest()[:8]
            yield SourceItem(key, key, etag, len(text), grants=self.grants.get(key))
        yield ListingEnd(cursor=f"c{len(self.cursors)}", is_complete=self.is_complete)

    async def open(self, item: SourceItem, *, timeout_seconds: float) -> AsyncIterator[bytes]:
        self.opened.append(item.key)
        if item.key in self.unreadable:
            raise self.unreadable[item.key]
        yield self.texts[item.key].encode()


@dataclass
class Originals:
    """Originals in memory; only what a sync asks of an object store."""

    kept: dict[str, bytes] = field(default_factory=dict)

    async def put_content(
        self, prefix: str, data: bytes | AsyncIterable[bytes], *, max_byte_count: int, timeout_seconds: float = 60.0
    ) -> ObjectInfo:
        content = data if isinstance(data, bytes) else b"".join([piece async for piece in data])
        if len(content) > max_byte_count:
            raise InvalidArgumentError("OBJECT_TOO_LARGE", "too large")
        digest = hashlib.sha256(content).hexdigest()
        self.kept[prefix + digest] = content
        return ObjectInfo(prefix + digest, len(content), digest)

    async def head(self, key: str, *, timeout_seconds: float = 10.0) -> ObjectInfo | None:
        return ObjectInfo(key, len(self.kept[key])) if key in self.kept else None


@dataclass
class Syncing:
    """A knowledge base with one source, and the worker of its syncs."""

    metadata: Metadata
    owner: Identity
    knowledge_base_id: str
    place: Place
    settings: SourceSettings = field(default_factory=SourceSettings)
    originals: Originals = field(default_factory=Originals)

    def __post_init__(self) -> None:
        self.sources = PostgresSourceStore(self.metadata.database)
        self.syncs = PostgresSyncStore(self.metadata.database)

    def stage(self) -> SyncStage:
        return SyncStage(
            SyncDependencies(
                syncs=self.syncs,
                connectors=self.place,
                knowledge_bases=self.metadata.knowledge_bases,
                documents=self.metadata.documents,
                runs=self.metadata.runs,
                objects=self.originals,  # type: ignore[arg-type] # the part that a sync asks for
                settings=IngestSettings(max_document_bytes=1000, sources=self.settings),
            )
        )

    async def add(self, identity: Identity | None = None, **values: object) -> None:
        spec = replace(SourceSpec("Docs", PLACE), **values)  # type: ignore[arg-type]
        await self.sources.create(identity or self.owner, self.knowledge_base_id, "docs", spec)

    async def start(self, *, allow_mass_delete: bool = False) -> str:
        started = await self.sources.start_sync(
            self.owner, self.knowledge_base_id, "docs", allow_mass_delete=allow_mass_delete, headers={}
        )
        return started.run_id

    async def claim(self) -> Claim:
        """Claim the sync's task that is due."""
        messages = [
            m for m in await self.metadata.due_messages(self.owner.tenant_id, every=True) if m.stage is Stage.SYNC
        ]
        return await self.metadata.claim(messages[-1])

    async def work(self, claim: Claim) -> StageOutcome | TaskFailure:
        """Do a claim and commit it, as the worker would."""
        try:
            outcome = await self.stage()(TaskContext(claim, 60.0))
        except Exception as error:
            failure = failure_of(error, Stage.SYNC)
            await self.metadata.queue.fail(claim, failure)
            return failure
        answer = await self.metadata.queue.complete(claim, outcome)
        assert answer.verdict is Verdict.COMMITTED
        return outcome

    async def sync(self, *, allow_mass_delete: bool = False) -> RunRecord:
        """Sync once, to the end of the run, and work its documents off."""
        run_id = await self.start(allow_mass_delete=allow_mass_delete)
        outcome = await self.work(await self.claim())
        while isinstance(outcome, StageOutcome) and outcome.goes_on:
            outcome = await self.work(await self.claim())
        await self.metadata.work_off(self.owner.tenant_id)
        return await self.metadata.runs.get(self.owner, self.knowledge_base_id, run_id)

    async def names(self, identity: Identity | None = None) -> list[str]:
        """Names of the documents that somebody sees."""
        rows = await self.metadata.documents.list(identity or self.owner, self.knowledge_base_id, "", 1000)
        return sorted(row.display_name for row in rows)


def counts(record: RunRecord, *names: str) -> tuple[int, ...]:
    """Give some counts of a sync."""
    return tuple(record.result.get(name, -1) for name in names)


def follows(**principals: str) -> AccessRule:
    """Make a rule that follows the source."""
    return AccessRule(
        follows_source=True, principals={key.replace("_", ":"): value for key, value in principals.items()}
    )
