"""Syncs as their worker sees them: what is known of a source, and what was done with its items."""

import json
from collections.abc import Sequence

import asyncpg

from corpusmesh_adapters.postgres.database import Connection, Database
from corpusmesh_adapters.postgres.effects import lock_task, send_messages
from corpusmesh_adapters.postgres.run_creation import RunOrder
from corpusmesh_adapters.postgres.source_access import latest_versions, living_sync, source_not_found, start_sync_run
from corpusmesh_adapters.postgres.source_rows import SOURCE_COLUMNS, SOURCE_FROM, to_known_item, to_source
from corpusmesh_core.errors import ConflictError, FailedPreconditionError
from corpusmesh_core.orchestration.transitions import holds, must_stop
from corpusmesh_core.orchestration.values import RunKind
from corpusmesh_core.ports.sources import ItemUpdate, OpenSync, SourceRecord
from corpusmesh_core.ports.work import Claim
from corpusmesh_core.sources import PLATFORM_KINDS, ItemChange, KnownItem, kind_of
from corpusmesh_core.tenancy.identity import Identity, Role, Scope

_MAX_NAMED_RUNS = 100
_PAGE_ITEMS = 5000


class PostgresSyncStore:
    """`SyncStore` on Postgres."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def start_due(self, limit: int) -> int:
        """See `SyncStore`; whoever locks a due source first starts its sync, and the others pass it by.

        Args:
            limit: Most sources.

        Returns:
            How many syncs were started.
        """
        async with self._database.system() as connection:
            due = await connection.fetch(
                "SELECT tenant_id, knowledge_base_id, source_id FROM corpusmesh.sources"
                " WHERE state = 'active' AND next_sync_time <= now() ORDER BY next_sync_time LIMIT $1",
                limit,
            )
        count = 0
        for row in due:
            async with self._database.tenant(row["tenant_id"]) as connection:
                count += await _start_if_due(connection, row)
        return count

    async def open_sync(self, claim: Claim) -> OpenSync:
        """See `SyncStore`.

        Args:
            claim: The sync's claim.

        Returns:
            What it begins with.
        """
        async with self._database.tenant(claim.tenant_id) as connection:
            source = await _read_source(connection, claim)
            identity = await _owner_identity(connection, source)
            start_time = await connection.fetchval(
                "SELECT create_time FROM corpusmesh.runs WHERE tenant_id = $1 AND run_id = $2",
                claim.tenant_id,
                claim.run_id,
            )
            known = await _read_known(connection, claim)
        return OpenSync(
            source=source,
            identity=identity,
            known=known,
            allow_mass_delete=claim.payload.get("allow_mass_delete") == "1",
            start_time=start_time,
        )

    async def record(
        self, claim: Claim, updates: Sequence[ItemUpdate], *, listed_count: int, runs: Sequence[str]
    ) -> None:
        """See `SyncStore`.

        Args:
            claim: The sync's claim.
            updates: Items; each key once.
            listed_count: Items listed so far.
            runs: Ids of runs that it caused.
        """
        async with self._database.tenant(claim.tenant_id) as connection:
            headers = await _require_claim(connection, claim)
            await _write_items(connection, claim, updates)
            await _show(connection, claim, headers, listed_count, runs)

    async def finish(self, claim: Claim, *, cursor: str, listed_count: int) -> None:
        """See `SyncStore`.

        Args:
            claim: The sync's claim.
            cursor: Where the next listing begins.
            listed_count: Items listed.
        """
        key = (claim.tenant_id, claim.knowledge_base_id, claim.payload["source"])
        async with self._database.tenant(claim.tenant_id) as connection:
            headers = await _require_claim(connection, claim)
            await connection.execute(
                "UPDATE corpusmesh.sources SET cursor = $4, last_sync_time = now()"
                " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND source_id = $3",
                *key,
                cursor,
            )
            await connection.execute(
                "DELETE FROM corpusmesh.source_items WHERE tenant_id = $1 AND knowledge_base_id = $2"
                " AND source_id = $3 AND state = 'removed' AND (run_id <> $4 OR document_id = '')",
                *key,
                claim.run_id,
            )
            await _show(connection, claim, headers, listed_count, ())


async def _start_if_due(connection: Connection, due: asyncpg.Record) -> int:
    source = await connection.fetchrow(
        "SELECT s.* FROM corpusmesh.sources s"
        " JOIN corpusmesh.knowledge_bases k USING (tenant_id, knowledge_base_id)"
        " WHERE s.tenant_id = $1 AND s.knowledge_base_id = $2 AND s.source_id = $3 AND s.state = 'active'"
        " AND s.next_sync_time <= now() AND k.state = 'active' FOR UPDATE OF s SKIP LOCKED",
        due["tenant_id"],
        due["knowledge_base_id"],
        due["source_id"],
    )
    if source is None:
        return 0
    if await living_sync(connection, source):
        await connection.execute(
            "UPDATE corpusmesh.sources SET next_sync_time = now() + make_interval(secs => schedule_seconds)"
            " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND source_id = $3",
            due["tenant_id"],
            due["knowledge_base_id"],
            due["source_id"],
        )
        return 0
    await start_sync_run(connection, source, RunOrder(RunKind.SYNC, source["owner_user_id"]), allow_mass_delete=False)
    return 1


async def _read_known(connection: Connection, claim: Claim) -> dict[str, KnownItem]:
    """Read all items of the sync's source, page by page."""
    known: dict[str, KnownItem] = {}
    after = ""
    while True:
        rows = await connection.fetch(
            "SELECT key, etag, access_digest, document_id, state, memo, run_id = $4 AND state = 'active' AS is_current"
            " FROM corpusmesh.source_items"
            " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND source_id = $3 AND key > $5 ORDER BY key LIMIT $6",
            claim.tenant_id,
            claim.knowledge_base_id,
            claim.payload["source"],
            claim.run_id,
            after,
            _PAGE_ITEMS,
        )
        latest = await latest_versions(
            connection, claim.tenant_id, claim.knowledge_base_id, [row["document_id"] for row in rows]
        )
        known.update((row["key"], to_known_item(row, latest)) for row in rows)
        if len(rows) < _PAGE_ITEMS:
            return known
        after = rows[-1]["key"]


async def _read_source(connection: Connection, claim: Claim) -> SourceRecord:
    source_id = claim.payload["source"]
    row = await connection.fetchrow(
        f"SELECT {SOURCE_COLUMNS} FROM {SOURCE_FROM}"  # noqa: S608 - constants
        " WHERE s.tenant_id = $1 AND s.knowledge_base_id = $2 AND s.source_id = $3 AND s.state <> 'deleting'",
        claim.tenant_id,
        claim.knowledge_base_id,
        source_id,
    )
    if row is None:
        raise source_not_found(source_id)
    return to_source(row)


async def _owner_identity(connection: Connection, source: SourceRecord) -> Identity:
    """Give the owner's identity with the rights of this moment."""
    row = await connection.fetchrow(
        "SELECT m.role, m.groups FROM corpusmesh.users u JOIN corpusmesh.memberships m USING (tenant_id, user_id)"
        " WHERE u.tenant_id = $1 AND u.user_id = $2 AND NOT u.disabled",
        source.tenant_id,
        source.owner_user_id,
    )
    role = Role[row["role"].upper()] if row is not None else None
    needed = Role.ADMIN if kind_of(source.spec.place) in PLATFORM_KINDS else Role.EDITOR
    if row is None or role is None or role < needed:
        raise FailedPreconditionError(
            "SOURCE_OWNER_GONE",
            f"the owner of the source is disabled or has no longer the role {needed.name}; "
            "somebody who has it sets the source's place again and so becomes its owner",
            source=source.source_id,
        )
    return Identity(source.tenant_id, source.owner_user_id, role, Scope.WRITE, tuple(row["groups"]))


async def _require_claim(connection: Connection, claim: Claim) -> dict[str, str]:
    """Lock the sync's run, task and source, so that no worker thought dead writes over a newer one."""
    found = await lock_task(connection, claim.tenant_id, claim.run_id, claim.task_id)
    if found is None or not holds(found[1], claim.epoch) or must_stop(found[0].run, found[1]):
        raise ConflictError("SYNC_CLAIM_LOST", "the sync was cancelled or is done by another worker")
    living = await connection.fetchval(
        "SELECT true FROM corpusmesh.sources WHERE tenant_id = $1 AND knowledge_base_id = $2 AND source_id = $3"
        " AND state <> 'deleting' FOR UPDATE",
        claim.tenant_id,
        claim.knowledge_base_id,
        claim.payload["source"],
    )
    if not living:
        raise source_not_found(claim.payload["source"])
    return dict(found[0].headers)


async def _write_items(connection: Connection, claim: Claim, updates: Sequence[ItemUpdate]) -> None:
    values = [
        {
            "key": update.key,
            "display_name": update.display_name,
            "change": str(update.change or ""),
            "state": str(update.state),
            "etag": update.etag,
            "access_digest": update.access_digest,
            "document_id": update.document_id,
            "memo": update.memo,
            "error_reason": update.error_reason,
            "error_message": update.error_message,
        }
        for update in updates
    ]
    await connection.execute(
        # What is not given stays: nobody else writes to the items of a locked source.
        "INSERT INTO corpusmesh.source_items AS i (tenant_id, knowledge_base_id, source_id, key, display_name,"
        " document_id, etag, access_digest, state, change, run_id, memo, error_reason, error_message)"
        " SELECT $1, $2, $3, u.key, coalesce(u.display_name, o.display_name, ''),"
        "   coalesce(u.document_id, o.document_id, ''), coalesce(u.etag, o.etag, ''),"
        "   coalesce(u.access_digest, o.access_digest, ''), u.state, u.change, $4, coalesce(u.memo, o.memo, ''),"
        "   u.error_reason, u.error_message"
        " FROM jsonb_to_recordset($5) AS u(key text, display_name text, change text, state text, etag text,"
        "   access_digest text, document_id text, memo text, error_reason text, error_message text)"
        " LEFT JOIN corpusmesh.source_items o ON o.tenant_id = $1 AND o.knowledge_base_id = $2 AND o.source_id = $3"
        "   AND o.key = u.key"
        " ON CONFLICT (tenant_id, knowledge_base_id, source_id, key) DO UPDATE SET"
        "   display_name = excluded.display_name, document_id = excluded.document_id, etag = excluded.etag,"
        "   access_digest = excluded.access_digest, state = excluded.state, memo = excluded.memo,"
        "   error_reason = excluded.error_reason, error_message = excluded.error_message, update_time = now(),"
        # What was added by this very sync stays added, whatever else it finds to do with it.
        "   change = CASE WHEN i.run_id = $4 AND i.change = 'added' AND excluded.change <> 'removed' THEN i.change"
        "     WHEN excluded.change = '' AND i.run_id = $4 THEN i.change ELSE excluded.change END,"
        "   run_id = $4",
        claim.tenant_id,
        claim.knowledge_base_id,
        claim.payload["source"],
        claim.run_id,
        values,
    )


async def _show(
    connection: Connection, claim: Claim, headers: dict[str, str], listed_count: int, runs: Sequence[str]
) -> None:
    """Write on the run what its sync has done so far, and tell those who watch."""
    rows = await connection.fetch(
        "SELECT change, count(*)::int AS count FROM corpusmesh.source_items"
        " WHERE tenant_id = $1 AND run_id = $2 AND change <> '' GROUP BY 1",
        claim.tenant_id,
        claim.run_id,
    )
    counts = {str(change): 0 for change in ItemChange} | {row["change"]: row["count"] for row in rows}
    touched = sum(count for change, count in counts.items() if change != ItemChange.REMOVED)
    result = await connection.fetchval(
        "SELECT result FROM corpusmesh.runs WHERE tenant_id = $1 AND run_id = $2", claim.tenant_id, claim.run_id
    )
    named = list(dict.fromkeys((*result.get("runs", ()), *runs)))[-_MAX_NAMED_RUNS:]
    result = {
        **result,
        **counts,
        "listed": listed_count,
        "unchanged": max(0, listed_count - touched),
        "runs": named,
    }
    sequence = await connection.fetchval(
        "UPDATE corpusmesh.runs SET result = $3, sequence = sequence + 1 WHERE tenant_id = $1 AND run_id = $2"
        " RETURNING sequence",
        claim.tenant_id,
        claim.run_id,
        result,
    )
    body = {
        "tenant_id": claim.tenant_id,
        "run": f"knowledgeBases/{claim.knowledge_base_id}/runs/{claim.run_id}",
        "stage": str(claim.stage),
        "state": "running",
        "sequence": sequence,
    }
    subject = f"events.run.{claim.tenant_id}.{claim.run_id}"
    await send_messages(connection, claim.tenant_id, headers, [(subject, json.dumps(body).encode(), 0.0)])
