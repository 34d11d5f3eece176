"""Runs: taking uploads in, reading, cancelling, retrying."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from corpusmesh_adapters.postgres.database import Connection, Database
from corpusmesh_adapters.postgres.derivations import write_derivations
from corpusmesh_adapters.postgres.effects import apply_decision, lock_run
from corpusmesh_adapters.postgres.guards import require_knowledge_base, visibility_arguments, visible_document
from corpusmesh_adapters.postgres.rows import RUN_COLUMNS, VERSION_COLUMNS, to_run_record, to_version
from corpusmesh_adapters.postgres.run_creation import (
    RunOrder,
    WorkLimits,
    check_backlog,
    create_run,
    extend_run,
    find_run,
)
from corpusmesh_adapters.postgres.uploads import write_uploads
from corpusmesh_core.errors import FailedPreconditionError
from corpusmesh_core.orchestration import machine
from corpusmesh_core.orchestration.batching import plan_batches
from corpusmesh_core.orchestration.transitions import SKIP_PUBLISH_GATE, retry_stage
from corpusmesh_core.orchestration.values import HOUSEKEEPING, Lane, RunKind, Stage, Verdict
from corpusmesh_core.ports.runs import Derivation, IngestOptions, IngestResult, RunRecord
from corpusmesh_core.tenancy.access import Access, may_access, run_not_found
from corpusmesh_core.tenancy.identity import Identity
from corpusmesh_core.tenancy.values import KnowledgeBase, Upload, VersionRow

_FOR_EDITORS = frozenset({RunKind.SYNC, RunKind.TREE, RunKind.TREE_REMOVAL, RunKind.GRAPH, RunKind.GRAPH_REMOVAL})
"""Kinds that only those who may write see: a sync counts documents, hidden ones too, and names its source; a build
tells that something was published, whoever may see it."""
_RECORD_COLUMNS = f"r.tenant_id, r.created_by, r.create_time, r.end_time, r.result, {RUN_COLUMNS}"


class PostgresRunStore:
    """`RunStore` on Postgres."""

    def __init__(self, database: Database, limits: WorkLimits) -> None:
        self._database = database
        self._limits = limits

    async def ingest(
        self,
        identity: Identity,
        knowledge_base_id: str,
        uploads: Sequence[Upload],
        options: IngestOptions,
        *,
        restore: Callable[[Sequence[str]], Awaitable[None]],
    ) -> IngestResult:
        """See `RunStore`; documents, versions, tasks and messages are one transaction.

        Args:
            identity: Caller.
            knowledge_base_id: Where to.
            uploads: Originals that are stored already; each document once.
            options: How.
            restore: Puts originals back that a purge may have removed since they were stored.

        Returns:
            The run and one version for each upload.
        """
        # SHARE: uploads go side by side, but not beside the deletion of their knowledge base.
        lock = "FOR SHARE" if all(upload.acl is None for upload in uploads) else "FOR UPDATE"
        async with self._run(identity, knowledge_base_id, options, lock) as (connection, knowledge_base, run_id, again):
            versions, unchanged = await write_uploads(
                connection, identity, knowledge_base, uploads, options, run_id, restore
            )
            await self._extend(connection, identity.tenant_id, run_id, versions, unchanged, options, again=again)
        return IngestResult(run_id, tuple(versions), tuple(unchanged))

    async def derive(
        self, identity: Identity, knowledge_base_id: str, derivations: Sequence[Derivation], options: IngestOptions
    ) -> IngestResult:
        """See `RunStore`; versions, edits, tasks and messages are one transaction.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            derivations: What to make; each document once.
            options: How.

        Returns:
            The run and one version for each derivation.
        """
        async with self._run(identity, knowledge_base_id, options, "FOR SHARE") as (connection, found, run_id, again):
            versions, unchanged = await write_derivations(connection, identity, found, derivations, options, run_id)
            await self._extend(connection, identity.tenant_id, run_id, versions, unchanged, options, again=again)
        return IngestResult(run_id, tuple(versions), tuple(unchanged))

    async def made_by(self, identity: Identity, knowledge_base_id: str, request_id: str) -> Sequence[VersionRow]:
        """See `RunStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            request_id: Names the run.

        Returns:
            Its versions by ordinal; none if there is no such run.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            rows = await connection.fetch(
                f"SELECT {VERSION_COLUMNS} FROM corpusmesh.versions v"  # noqa: S608 - constants
                " JOIN corpusmesh.runs r ON r.tenant_id = v.tenant_id AND r.run_id = v.run_id"
                " WHERE v.tenant_id = $1 AND v.knowledge_base_id = $2 AND r.created_by = $3 AND r.request_id = $4"
                " AND v.state <> 'purged' ORDER BY v.ordinal",
                identity.tenant_id,
                knowledge_base_id,
                identity.user_id,
                request_id,
            )
        return [to_version(row) for row in rows]

    @asynccontextmanager
    async def _run(
        self, identity: Identity, knowledge_base_id: str, options: IngestOptions, lock: str
    ) -> AsyncIterator[tuple[Connection, KnowledgeBase, str, bool]]:
        """Open the transaction that adds to a run: connection, knowledge base, run, whether it was begun before."""
        async with self._database.tenant(identity.tenant_id) as connection:
            if options.run_id:
                # Before the knowledge base, as everywhere.
                await lock_run(connection, identity.tenant_id, options.run_id)
            found = await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE, lock=lock)
            await check_backlog(connection, identity.tenant_id, self._limits)
            run_id, is_repeated = await self._find_or_create(connection, identity, knowledge_base_id, options)
            yield connection, found, run_id, is_repeated

    async def _extend(
        self,
        connection: Connection,
        tenant_id: str,
        run_id: str,
        versions: Sequence[VersionRow],
        unchanged: Sequence[bool],
        options: IngestOptions,
        *,
        again: bool,
    ) -> None:
        fresh = [
            (version.ordinal, version.size_bytes) for version, same in zip(versions, unchanged, strict=True) if not same
        ]
        if again and not fresh:
            return
        _, taken = await extend_run(connection, tenant_id, run_id, fresh, self._limits, is_last=options.is_last)
        if not taken:
            raise FailedPreconditionError("RUN_CLOSED", "the run takes no more documents; begin a new one", run=run_id)

    @staticmethod
    async def _find_or_create(
        connection: Connection, identity: Identity, knowledge_base_id: str, options: IngestOptions
    ) -> tuple[str, bool]:
        if options.run_id:
            found = await connection.fetchval(
                "SELECT run_id FROM corpusmesh.runs WHERE tenant_id = $1 AND knowledge_base_id = $2 AND run_id = $3"
                " AND created_by = $4",
                identity.tenant_id,
                knowledge_base_id,
                options.run_id,
                identity.user_id,
            )
            if found is None:
                raise run_not_found(options.run_id)
            return options.run_id, False
        earlier = await find_run(connection, identity.tenant_id, identity.user_id, options.request_id)
        if earlier is not None:
            return earlier, True
        order = RunOrder(
            RunKind.INGEST,
            identity.user_id,
            options.request_id,
            Lane.INTERACTIVE if options.is_interactive else Lane.BULK,
            options.hold_publish,
            options.headers,
        )
        return await create_run(connection, identity.tenant_id, knowledge_base_id, order), False

    async def get(self, identity: Identity, knowledge_base_id: str, run_id: str) -> RunRecord:
        """See `RunStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Its knowledge base.
            run_id: The run.

        Returns:
            The run.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            sees_all = await _require_for_runs(connection, identity, knowledge_base_id)
            record = await _read(connection, identity, knowledge_base_id, run_id)
            if record.run.kind in _FOR_EDITORS and not sees_all:
                raise run_not_found(run_id)
            return record

    async def list(self, identity: Identity, knowledge_base_id: str, after_key: str, limit: int) -> Sequence[RunRecord]:
        """See `RunStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            after_key: Id of the last run of the page before.
            limit: Most runs.

        Returns:
            Runs, newest first.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            sees_all = await _require_for_runs(connection, identity, knowledge_base_id)
            rows = await connection.fetch(
                f"SELECT {_RECORD_COLUMNS} FROM corpusmesh.runs r"  # noqa: S608 - constants
                " WHERE r.tenant_id = $1 AND r.knowledge_base_id = $2 AND ($3 = '' OR r.run_id < $3)"
                " AND ($5 OR NOT r.kind = ANY ($6)) ORDER BY r.run_id DESC LIMIT $4",
                identity.tenant_id,
                knowledge_base_id,
                after_key,
                limit,
                sees_all,
                [str(kind) for kind in _FOR_EDITORS],
            )
        return [to_run_record(row) for row in rows]

    async def failed_versions(
        self, identity: Identity, knowledge_base_id: str, run_id: str, limit: int
    ) -> Sequence[VersionRow]:
        """See `RunStore`; versions of documents that the caller may not see are left out.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            run_id: The run.
            limit: Most versions.

        Returns:
            Versions by ordinal.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            found = await require_knowledge_base(connection, identity, knowledge_base_id, Access.READ)
            rows = await connection.fetch(
                f"SELECT {VERSION_COLUMNS} FROM corpusmesh.versions v"  # noqa: S608 - constants
                " JOIN corpusmesh.documents d USING (tenant_id, knowledge_base_id, document_id)"
                " WHERE v.tenant_id = $1 AND v.knowledge_base_id = $2 AND v.run_id = $3 AND v.state = 'failed'"
                f" AND {visible_document(5)} ORDER BY v.ordinal LIMIT $4",
                identity.tenant_id,
                knowledge_base_id,
                run_id,
                limit,
                *visibility_arguments(identity, found.owner_user_id),
            )
        return [to_version(row) for row in rows]

    async def cancel(self, identity: Identity, knowledge_base_id: str, run_id: str) -> RunRecord:
        """See `RunStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            run_id: The run.

        Returns:
            The run, cancelling or as it had ended.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            await _read(connection, identity, knowledge_base_id, run_id)
            await cancel_run(connection, identity.tenant_id, run_id)
            return await _read(connection, identity, knowledge_base_id, run_id)

    async def retry(
        self, identity: Identity, knowledge_base_id: str, run_id: str, *, skip_publish_gate: bool = False
    ) -> tuple[RunRecord, int]:
        """See `RunStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            run_id: The run.
            skip_publish_gate: Whether they are published without asking the gate.

        Returns:
            The run and how many parts go again.

        Raises:
            FailedPreconditionError: If the run has not ended or was cancelled.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            await _read(connection, identity, knowledge_base_id, run_id)
            context = await lock_run(connection, identity.tenant_id, run_id)
            assert context is not None, "it was just read, and runs of living knowledge bases are not removed"
            rows = await connection.fetch(
                "SELECT v.failed_stage, v.ordinal, v.size_bytes FROM corpusmesh.versions v"
                " JOIN corpusmesh.documents d USING (tenant_id, knowledge_base_id, document_id)"
                " WHERE v.tenant_id = $1 AND v.run_id = $2 AND v.state = 'failed' AND d.state = 'active'"
                " ORDER BY v.ordinal",
                identity.tenant_id,
                run_id,
            )
            epoch = await connection.fetchval(
                "SELECT coalesce(max(epoch), 0) FROM corpusmesh.tasks WHERE tenant_id = $1 AND run_id = $2",
                identity.tenant_id,
                run_id,
            )
            by_stage: dict[Stage, list[tuple[int, int]]] = {}
            for row in rows:
                stage = retry_stage(Stage(row["failed_stage"]))
                by_stage.setdefault(stage, []).append((row["ordinal"], row["size_bytes"]))
            groups = [
                (stage, batch, int(epoch))
                for stage, sizes in by_stage.items()
                for batch in plan_batches(
                    sizes, max_part_count=self._limits.batch_part_count, max_batch_bytes=self._limits.batch_bytes
                )
            ]
            payload = {SKIP_PUBLISH_GATE: identity.user_id} if skip_publish_gate else None
            decision = machine.retry(context.run, groups, payload=payload)
            if groups and decision.verdict is Verdict.OBSOLETE:
                raise FailedPreconditionError(
                    "RUN_NOT_ENDED", "only a run that has ended and was not cancelled can be retried", run=run_id
                )
            await apply_decision(context, decision)
            return await _read(connection, identity, knowledge_base_id, run_id), len(rows)


async def cancel_run(connection: Connection, tenant_id: str, run_id: str) -> None:
    """Cancel a run in the caller's transaction; one that has ended stays as it is."""
    context = await lock_run(connection, tenant_id, run_id)
    if context is None:
        return
    pending = await connection.fetchval(
        "SELECT count(*) FROM corpusmesh.tasks WHERE tenant_id = $1 AND run_id = $2 AND state = 'pending'"
        " AND NOT stage = ANY ($3)",
        tenant_id,
        run_id,
        [str(stage) for stage in HOUSEKEEPING],
    )
    await apply_decision(context, machine.request_cancel(context.run, pending_task_count=pending))


async def _require_for_runs(connection: Connection, identity: Identity, knowledge_base_id: str) -> bool:
    """Let runs be read also after their knowledge base was deleted, by those who could delete it.

    Returns:
        Whether those of `_FOR_EDITORS` are among them.
    """
    row = await connection.fetchrow(
        "SELECT owner_user_id, state FROM corpusmesh.knowledge_bases WHERE tenant_id = $1 AND knowledge_base_id = $2",
        identity.tenant_id,
        knowledge_base_id,
    )
    if row is not None and row["state"] != "active" and visibility_arguments(identity, row["owner_user_id"])[0]:
        return True
    found = await require_knowledge_base(connection, identity, knowledge_base_id, Access.READ)
    return may_access(identity, found.owner_user_id, found.permission, Access.WRITE)


async def _read(connection: Connection, identity: Identity, knowledge_base_id: str, run_id: str) -> RunRecord:
    row = await connection.fetchrow(
        f"SELECT {_RECORD_COLUMNS} FROM corpusmesh.runs r"  # noqa: S608 - constants
        " WHERE r.tenant_id = $1 AND r.knowledge_base_id = $2 AND r.run_id = $3",
        identity.tenant_id,
        knowledge_base_id,
        run_id,
    )
    if row is None:
        raise run_not_found(run_id)
    return to_run_record(row)
