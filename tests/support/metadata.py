"""A database of one's own with every store on it, and short ways to fill it."""

import asyncio
import contextlib
import hashlib
import os
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from corpusmesh_adapters.postgres import (
    Database,
    DatabaseSettings,
    PostgresDocumentStore,
    PostgresKeyStore,
    PostgresKnowledgeBaseStore,
    PostgresPurgeStore,
    PostgresRunStore,
    PostgresSnapshotStore,
    PostgresTaskQueue,
    PostgresTaskSweeper,
    PostgresTenantStore,
    WorkLimits,
    migrate,
)
from corpusmesh_core.orchestration.values import Lane, Policy, Stage, Verdict
from corpusmesh_core.ports.runs import IngestOptions, IngestResult
from corpusmesh_core.ports.work import Answer, Claim, StageOutcome, WorkMessage
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_core.tenancy.values import Permission, Upload, document_id_for_name

POSTGRES_DSN = os.environ.get("CORPUSMESH_TEST_POSTGRES_DSN", "")
"""A server to use instead of the stack's; its user must be able to create databases."""

POLICY = Policy(
    lease_seconds=1.5, max_attempts=3, retry_backoff_seconds=0.1, max_backoff_seconds=0.5, verify_delay_seconds=0.5
)


def member(tenant_id: str, user_id: str = "owner", role: Role = Role.OWNER, groups: Sequence[str] = ()) -> Identity:
    return Identity(tenant_id, user_id, role, Scope.ADMIN, tuple(groups))


def upload(name: str, content: str = "", size_bytes: int = 1000) -> Upload:
    digest = hashlib.sha256((content or name).encode()).hexdigest()
    return Upload(document_id_for_name(name), name, digest, size_bytes, "text/plain")


@dataclass
class Metadata:
    dsn: str
    database: Database
    policy: Policy = POLICY
    limits: WorkLimits = field(default_factory=WorkLimits)

    def __post_init__(self) -> None:
        self.tenants = PostgresTenantStore(self.database)
        self.keys = PostgresKeyStore(self.database)
        self.knowledge_bases = PostgresKnowledgeBaseStore(self.database)
        self.documents = PostgresDocumentStore(self.database)
        self.purges = PostgresPurgeStore(self.database)
        self.snapshots = PostgresSnapshotStore(self.database)
        self.runs = PostgresRunStore(self.database, self.limits)
        self.queue = PostgresTaskQueue(self.database, self.policy)
        self.sweeper = PostgresTaskSweeper(self.database, self.policy, grace_seconds=0.2)
        self.restored: list[str] = []

    async def tenant(self) -> Identity:
        """Make a tenant with the users owner, admin, editor and viewer; give its owner."""
        tenant_id = f"t-{uuid.uuid4().hex[:12]}"
        await self.tenants.create_tenant(tenant_id, "Test", "owner")
        for role in (Role.ADMIN, Role.EDITOR, Role.VIEWER):
            await self.tenants.create_user(tenant_id, role.name.lower(), role.name, role, ())
        return member(tenant_id)

    async def knowledge_base(
        self, identity: Identity, name: str = "kb", permission: Permission = Permission.TEAM
    ) -> str:
        await self.knowledge_bases.create(
            identity,
            name,
            display_name=name,
            description="",
            permission=permission,
            config={"template": "general"},
            space_id="e5-small",
        )
        return name

    async def ingest(self, identity: Identity, kb: str, uploads: Sequence[Upload], **options: object) -> IngestResult:
        return await self.runs.ingest(identity, kb, uploads, replace(IngestOptions(), **options), restore=self._restore)  # type: ignore[arg-type]

    async def _restore(self, hashes: Sequence[str]) -> None:
        self.restored.extend(hashes)

    async def due_messages(self, tenant_id: str, *, every: bool = False) -> list[WorkMessage]:
        """Take the tenant's due work messages out of the outbox, as the relay would."""
        async with self.database.tenant(tenant_id) as connection:
            rows = await connection.fetch(
                "DELETE FROM corpusmesh.outbox WHERE subject LIKE 'work.%' AND (due_time <= now() OR $1)"
                " RETURNING outbox_id, subject, convert_from(payload, 'UTF8')::jsonb AS body",
                every,
            )
        return [
            WorkMessage(
                tenant_id=tenant_id,
                run_id=row["body"]["run"],
                task_id=row["body"]["task"],
                stage=Stage(row["subject"].split(".")[1]),
                lane=Lane(row["subject"].split(".")[2]),
                dispatch=row["body"]["dispatch"],
            )
            for row in sorted(rows, key=lambda row: row["outbox_id"])
        ]

    async def claim(self, message: WorkMessage, worker: str = "w") -> Claim:
        answer = await self.queue.claim(message, worker)
        assert answer.verdict is Verdict.CLAIMED, answer
        assert answer.claim is not None
        return answer.claim

    async def finish(self, claim: Claim) -> Answer:
        """Complete a claim as a handler would that found every record in the index."""
        publishable = claim.parts if claim.stage is Stage.PUBLISH else ()
        return await self.queue.complete(claim, StageOutcome(publishable=publishable))

    async def work_off(self, tenant_id: str, *, until: Stage | None = None) -> list[WorkMessage]:
        """Do all due work; stop before a stage and give its messages."""
        kept: list[WorkMessage] = []
        while True:
            messages = await self.due_messages(tenant_id)
            if not messages:
                return kept
            for message in messages:
                if message.stage is until:
                    kept.append(message)
                    continue
                answer = await self.queue.claim(message, "w")
                if answer.claim is not None:
                    await self.finish(answer.claim)

    async def published(self, identity: Identity, kb: str) -> set[int]:
        from corpusmesh_core.tenancy.visibility import visible_bitmap

        return set(visible_bitmap(await self.snapshots.visibility_inputs(identity, kb)))


@asynccontextmanager
async def fresh_metadata(server_dsn: str, **settings: object) -> AsyncIterator[Metadata]:
    """Make a database, migrate it, and drop it at the end."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    admin = await asyncpg.connect(server_dsn)
    await admin.execute(f"CREATE DATABASE {name}")
    parts = urlsplit(server_dsn)
    dsn = urlunsplit(parts._replace(path=f"/{name}"))
    try:
        await migrate(dsn)
        database = Database(DatabaseSettings(dsn=dsn, **settings))  # type: ignore[arg-type]
        await database.open()
        try:
            yield Metadata(dsn, database)
        finally:
            await database.close()
    finally:
        for _ in range(20):
            # An autovacuum worker in it belongs to the superuser, whom nobody else may end.
            with contextlib.suppress(asyncpg.InsufficientPrivilegeError, asyncpg.ObjectInUseError):
                await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
                break
            await asyncio.sleep(0.5)
        await admin.close()
