"""Sources as callers see them."""

from collections.abc import Mapping, Sequence

import asyncpg

from corpusmesh_adapters.postgres.database import Connection, Database
from corpusmesh_adapters.postgres.guards import require_knowledge_base, visibility_arguments, visible_document
from corpusmesh_adapters.postgres.run_creation import RunOrder
from corpusmesh_adapters.postgres.runs import cancel_run
from corpusmesh_adapters.postgres.source_access import (
    latest_versions,
    living_sync,
    source_not_found,
    start_sync_run,
)
from corpusmesh_adapters.postgres.source_rows import SOURCE_COLUMNS, SOURCE_FROM, spec_values, to_item_row, to_source
from corpusmesh_core.errors import (
    AlreadyExistsError,
    ConflictError,
    FailedPreconditionError,
    PermissionDeniedError,
)
from corpusmesh_core.orchestration.values import Lane, RunKind
from corpusmesh_core.ports.sources import ItemRow, SourceRecord, SourceSpec, StartedSync
from corpusmesh_core.tenancy.access import Access, may_access
from corpusmesh_core.tenancy.identity import Identity

MAX_SOURCES = 100
"""Sources of one knowledge base."""


class PostgresSourceStore:
    """`SourceStore` on Postgres."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, identity: Identity, knowledge_base_id: str, source_id: str, spec: SourceSpec
    ) -> SourceRecord:
        """See `SourceStore`.

        Args:
            identity: Caller, who becomes its owner.
            knowledge_base_id: Its knowledge base.
            source_id: Its id.
            spec: What it reads and how.

        Returns:
            The source.

        Raises:
            AlreadyExistsError: If the id is taken.
            FailedPreconditionError: If the knowledge base has as many sources as it may.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            # FOR UPDATE: of two calls at once, both count.
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE, lock="FOR UPDATE")
            count = await connection.fetchval(
                "SELECT count(*) FROM corpusmesh.sources WHERE tenant_id = $1 AND knowledge_base_id = $2",
                identity.tenant_id,
                knowledge_base_id,
            )
            if count >= MAX_SOURCES:
                raise FailedPreconditionError(
                    "SOURCES_TOO_MANY", f"a knowledge base takes at most {MAX_SOURCES} sources", limit=MAX_SOURCES
                )
            made = await connection.fetchval(
                "INSERT INTO corpusmesh.sources (tenant_id, knowledge_base_id, source_id, owner_user_id, kind,"
                " display_name, place, access, metadata, schedule_seconds, state, next_sync_time)"
                " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, CASE WHEN $10 > 0 THEN now() END)"
                " ON CONFLICT DO NOTHING RETURNING true",
                identity.tenant_id,
                knowledge_base_id,
                source_id,
                identity.user_id,
                *spec_values(spec),
            )
            if not made:
                raise AlreadyExistsError(
                    "SOURCE_EXISTS", f"there is a source {source_id!r} already; choose another id", source=source_id
                )
            return await _read(connection, identity.tenant_id, knowledge_base_id, source_id)

    async def get(self, identity: Identity, knowledge_base_id: str, source_id: str) -> SourceRecord:
        """See `SourceStore`.

        Args:
            identity: Caller, who may write to the knowledge base.
            knowledge_base_id: Its knowledge base.
            source_id: The source.

        Returns:
            The source.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            return await _read(connection, identity.tenant_id, knowledge_base_id, source_id)

    async def list(
        self, identity: Identity, knowledge_base_id: str, after_key: str, limit: int
    ) -> Sequence[SourceRecord]:
        """See `SourceStore`.

        Args:
            identity: Caller, who may write to the knowledge base.
            knowledge_base_id: Knowledge base.
            after_key: Id of the last source of the page before.
            limit: Most sources.

        Returns:
            Sources by id.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            rows = await connection.fetch(
                f"SELECT {SOURCE_COLUMNS} FROM {SOURCE_FROM}"  # noqa: S608 - constants
                " WHERE s.tenant_id = $1 AND s.knowledge_base_id = $2 AND s.source_id > $3"
                " ORDER BY s.source_id LIMIT $4",
                identity.tenant_id,
                knowledge_base_id,
                after_key,
                limit,
            )
        return [to_source(row) for row in rows]

    async def update(
        self,
        identity: Identity,
        knowledge_base_id: str,
        source_id: str,
        spec: SourceSpec,
        *,
        etag: str,
        takes_over: bool,
    ) -> SourceRecord:
        """See `SourceStore`; another place begins without a cursor.

        Args:
            identity: Caller.
            knowledge_base_id: Its knowledge base.
            source_id: The source.
            spec: All of it.
            etag: Expected etag.
            takes_over: Whether the caller becomes its owner.

        Returns:
            The source as it is now.

        Raises:
            ConflictError: If the etag is not the current one.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            row = await _lock_for_change(connection, identity, knowledge_base_id, source_id)
            if str(row["revision"]) != etag:
                raise ConflictError(
                    "ETAG_MISMATCH", "somebody changed the source meanwhile; read it again", field="etag"
                )
            await connection.execute(
                "UPDATE corpusmesh.sources SET owner_user_id = CASE WHEN $4 THEN $5 ELSE owner_user_id END,"
                " cursor = CASE WHEN place = $8 THEN cursor ELSE '' END, display_name = $7, place = $8, access = $9,"
                " metadata = $10, schedule_seconds = $11, state = $12,"
                " next_sync_time = CASE WHEN $11 = 0 THEN NULL"
                "   ELSE least(next_sync_time, now() + make_interval(secs => $11)) END,"
                " revision = revision + 1, update_time = now()"
                " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND source_id = $3 AND kind = $6",
                identity.tenant_id,
                knowledge_base_id,
                source_id,
                takes_over,
                identity.user_id,
                *spec_values(spec),
            )
            return await _read(connection, identity.tenant_id, knowledge_base_id, source_id)

    async def begin_delete(self, identity: Identity, knowledge_base_id: str, source_id: str) -> Sequence[str]:
        """See `SourceStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Its knowledge base.
            source_id: The source.

        Returns:
            Ids of its documents that are there.
        """
        tenant_id = identity.tenant_id
        async with self._database.tenant(tenant_id) as connection:
            row = await _lock_for_change(connection, identity, knowledge_base_id, source_id)
            await connection.execute(
                "UPDATE corpusmesh.sources SET state = 'deleting', next_sync_time = NULL, update_time = now()"
                " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND source_id = $3",
                tenant_id,
                knowledge_base_id,
                source_id,
            )
        # In a transaction of its own: runs are locked before sources. From here on no other sync is started, and one
        # that still runs has nothing that it may write to.
        if row["last_run_id"]:
            async with self._database.tenant(tenant_id) as connection:
                await cancel_run(connection, tenant_id, row["last_run_id"])
        async with self._database.tenant(tenant_id) as connection:
            rows = await connection.fetch(
                "SELECT document_id FROM corpusmesh.source_items WHERE tenant_id = $1 AND knowledge_base_id = $2"
                " AND source_id = $3 AND document_id <> ''",
                tenant_id,
                knowledge_base_id,
                source_id,
            )
            ids = [item["document_id"] for item in rows]
            return sorted(await latest_versions(connection, tenant_id, knowledge_base_id, ids))

    async def finish_delete(self, identity: Identity, knowledge_base_id: str, source_id: str) -> None:
        """See `SourceStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Its knowledge base.
            source_id: The source.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await _lock_for_change(connection, identity, knowledge_base_id, source_id)
            await connection.execute(
                "DELETE FROM corpusmesh.sources WHERE tenant_id = $1 AND knowledge_base_id = $2 AND source_id = $3"
                " AND state = 'deleting'",
                identity.tenant_id,
                knowledge_base_id,
                source_id,
            )

    async def start_sync(
        self,
        identity: Identity,
        knowledge_base_id: str,
        source_id: str,
        *,
        allow_mass_delete: bool,
        headers: Mapping[str, str],
    ) -> StartedSync:
        """See `SourceStore`.

        Args:
            identity: Caller, who may write to the knowledge base.
            knowledge_base_id: Its knowledge base.
            source_id: The source.
            allow_mass_delete: Whether much may go.
            headers: Trace and request id.

        Returns:
            The run.

        Raises:
            FailedPreconditionError: SOURCE_BUSY or SOURCE_DELETING.
            PermissionDeniedError: SOURCE_NOT_YOURS if much may go and the caller is not who may change the source.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE, lock="FOR SHARE")
            if allow_mass_delete:
                # What it takes may be hidden from others who may write.
                row = await _lock_for_change(connection, identity, knowledge_base_id, source_id)
            else:
                row = await _lock(connection, identity.tenant_id, knowledge_base_id, source_id)
            if row["state"] == "deleting":
                raise FailedPreconditionError("SOURCE_DELETING", "the source is being deleted", source=source_id)
            running = await living_sync(connection, row)
            if running:
                if allow_mass_delete:
                    raise FailedPreconditionError(
                        "SOURCE_BUSY", "a sync goes on; allow the mass delete when it has ended", source=source_id
                    )
                return StartedSync(running, is_already_running=True)
            order = RunOrder(RunKind.SYNC, identity.user_id, lane=Lane.INTERACTIVE, headers=headers)
            run_id = await start_sync_run(connection, row, order, allow_mass_delete=allow_mass_delete)
        return StartedSync(run_id, is_already_running=False)

    async def list_items(
        self, identity: Identity, knowledge_base_id: str, source_id: str, after_key: str, limit: int
    ) -> Sequence[ItemRow]:
        """See `SourceStore`; items without a document are for the source's owner and those who see every document.

        Args:
            identity: Caller, who may write to the knowledge base.
            knowledge_base_id: Its knowledge base.
            source_id: The source.
            after_key: Last key of the page before.
            limit: Most items.

        Returns:
            Items by key.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            found = await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            source = await _read(connection, identity.tenant_id, knowledge_base_id, source_id)
            sees_all, user_id, groups = visibility_arguments(identity, found.owner_user_id)
            rows = await connection.fetch(
                "SELECT i.* FROM corpusmesh.source_items i"  # noqa: S608 - a constant with numbered parameters
                " LEFT JOIN corpusmesh.documents d USING (tenant_id, knowledge_base_id, document_id)"
                " WHERE i.tenant_id = $1 AND i.knowledge_base_id = $2 AND i.source_id = $3 AND i.key > $4"
                f" AND ($9 OR $6::bool OR (d.document_id IS NOT NULL AND {visible_document(6)}))"
                " ORDER BY i.key LIMIT $5",
                identity.tenant_id,
                knowledge_base_id,
                source_id,
                after_key,
                limit,
                sees_all,
                user_id,
                groups,
                source.owner_user_id == identity.user_id,
            )
        return [to_item_row(row) for row in rows]


async def _lock(connection: Connection, tenant_id: str, knowledge_base_id: str, source_id: str) -> asyncpg.Record:
    row = await connection.fetchrow(
        "SELECT * FROM corpusmesh.sources WHERE tenant_id = $1 AND knowledge_base_id = $2 AND source_id = $3"
        " FOR UPDATE",
        tenant_id,
        knowledge_base_id,
        source_id,
    )
    if row is None:
        raise source_not_found(source_id)
    return row


async def _lock_for_change(
    connection: Connection, identity: Identity, knowledge_base_id: str, source_id: str
) -> asyncpg.Record:
    found = await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
    row = await _lock(connection, identity.tenant_id, knowledge_base_id, source_id)
    if row["owner_user_id"] != identity.user_id and not may_access(
        identity, found.owner_user_id, found.permission, Access.MANAGE
    ):
        raise PermissionDeniedError(
            "SOURCE_NOT_YOURS",
            "a source is changed by its owner and by who manages the knowledge base",
            source=source_id,
        )
    return row


async def _read(connection: Connection, tenant_id: str, knowledge_base_id: str, source_id: str) -> SourceRecord:
    row = await connection.fetchrow(
        f"SELECT {SOURCE_COLUMNS} FROM {SOURCE_FROM}"  # noqa: S608 - constants
        " WHERE s.tenant_id = $1 AND s.knowledge_base_id = $2 AND s.source_id = $3",
        tenant_id,
        knowledge_base_id,
        source_id,
    )
    if row is None:
        raise source_not_found(source_id)
    return to_source(row)
