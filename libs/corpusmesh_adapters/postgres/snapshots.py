"""Snapshots: what a read may see, and every change of what is published that is not a run's own."""

from collections.abc import Sequence
from typing import Any

from corpusmesh_adapters.postgres.database import Connection, Database
from corpusmesh_adapters.postgres.effects import send_messages
from corpusmesh_adapters.postgres.guards import require_document, require_knowledge_base
from corpusmesh_adapters.postgres.publishing import (
    BUILD_REASON,
    CurrentSnapshot,
    change_snapshot,
    load_refs,
    lock_current,
)
from corpusmesh_adapters.postgres.rows import VERSION_COLUMNS, to_snapshot, to_version
from corpusmesh_core.errors import FailedPreconditionError, NotFoundError
from corpusmesh_core.tenancy.access import (
    Access,
    document_not_found,
    knowledge_base_not_found,
    may_access,
)
from corpusmesh_core.tenancy.identity import Identity, Role
from corpusmesh_core.tenancy.publishing import load_bitmap, plan_change, plan_publish
from corpusmesh_core.tenancy.values import LifeState, Permission, Snapshot, VersionRow
from corpusmesh_core.tenancy.visibility import MetadataFilter, VisibilityInputs


class PostgresSnapshotStore:
    """`SnapshotStore` on Postgres."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def visibility_inputs(
        self,
        identity: Identity,
        knowledge_base_id: str,
        *,
        snapshot_id: int | None = None,
        metadata_filter: MetadataFilter | None = None,
    ) -> VisibilityInputs:
        """See `SnapshotStore`; one statement, one round trip.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            snapshot_id: An earlier snapshot, 0 for that before the first; None for the current one.
            metadata_filter: The caller's filter.

        Returns:
            All that the read needs.

        Raises:
            NotFoundError: If the knowledge base or the snapshot is unknown or forbidden.
        """
        has_filter = metadata_filter is not None and not metadata_filter.is_empty
        row = await self._database.fetch_row(
            "SELECT * FROM corpusmesh.read_visibility($1, $2, $3, $4, $5, $6, $7, $8)",
            identity.tenant_id,
            identity.user_id,
            list(identity.groups),
            identity.role >= Role.ADMIN,
            knowledge_base_id,
            snapshot_id,
            _conditions(metadata_filter) if has_filter else None,
            list(metadata_filter.document_ids)
            if metadata_filter is not None and metadata_filter.document_ids is not None
            else None,
        )
        if (
            row is None
            or LifeState(row["state"]) is not LifeState.ACTIVE
            or not may_access(identity, row["owner_user_id"], Permission(row["permission"]), Access.READ)
        ):
            raise knowledge_base_not_found(knowledge_base_id)
        # 0 is what a read says that found nothing published, and stays that.
        if snapshot_id and row["published"] is None:
            raise _snapshot_not_found(snapshot_id)
        return VisibilityInputs(
            knowledge_base_id=knowledge_base_id,
            owner_user_id=row["owner_user_id"],
            permission=Permission(row["permission"]),
            config=row["config"],
            space_id=row["space_id"],
            policy_epoch=row["policy_epoch"],
            snapshot_id=row["snapshot_id"],
            published=row["published"] or b"",
            hidden=tuple(row["hidden"]),
            matching=tuple(row["matching"]) if row["matching"] is not None else None,
            next_ordinal=row["next_ordinal"],
            builds=tuple(row["builds"]),
            build_kinds=tuple(row["build_kinds"]),
            gone_builds=tuple(row["gone_builds"]),
        )

    async def list(
        self, identity: Identity, knowledge_base_id: str, before_id: int, limit: int
    ) -> tuple[Sequence[Snapshot], int]:
        """See `SnapshotStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            before_id: Only snapshots below; 0 for all.
            limit: Most snapshots.

        Returns:
            Snapshots, newest first, and the id of the current one.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            found = await require_knowledge_base(connection, identity, knowledge_base_id, Access.READ)
            rows = await connection.fetch(
                "SELECT * FROM corpusmesh.snapshots WHERE tenant_id = $1 AND knowledge_base_id = $2"
                " AND ($3 = 0 OR snapshot_id < $3) ORDER BY snapshot_id DESC LIMIT $4",
                identity.tenant_id,
                knowledge_base_id,
                before_id,
                limit,
            )
        return [to_snapshot(row) for row in rows], found.current_snapshot_id

    async def rollback(self, identity: Identity, knowledge_base_id: str, snapshot_id: int) -> Snapshot:
        """See `SnapshotStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            snapshot_id: Snapshot to return to.

        Returns:
            The new current snapshot.

        Raises:
            NotFoundError: If it is unknown, forbidden or not kept any more.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            current = await lock_current(connection, identity.tenant_id, knowledge_base_id)
            ordinals = await connection.fetchval(
                "SELECT ordinals FROM corpusmesh.snapshots"
                " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND snapshot_id = $3",
                identity.tenant_id,
                knowledge_base_id,
                snapshot_id,
            )
            if ordinals is None:
                raise _snapshot_not_found(snapshot_id)
            wanted = load_bitmap(ordinals).to_array().tolist()
            gone = await connection.fetch(
                "SELECT v.ordinal FROM corpusmesh.versions v"
                " JOIN corpusmesh.documents d USING (tenant_id, knowledge_base_id, document_id)"
                " WHERE v.tenant_id = $1 AND v.ordinal = ANY ($2) AND (d.state <> 'active' OR v.state <> 'ready')",
                identity.tenant_id,
                wanted,
            )
            deleting = await connection.fetch(
                "SELECT ordinals FROM corpusmesh.builds"
                " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND state = 'deleting'",
                identity.tenant_id,
                knowledge_base_id,
            )
            removed = load_bitmap(b"").union(*(load_bitmap(row["ordinals"]) for row in deleting))
            remaining, _ = plan_change(ordinals, remove=[*(row["ordinal"] for row in gone), *removed])
            return await self._write(connection, identity, current, remaining, reason="rollback")

    async def publish_version(
        self, identity: Identity, knowledge_base_id: str, document_id: str, version: int
    ) -> Snapshot:
        """See `SnapshotStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            document_id: Document.
            version: Number of the version.

        Returns:
            The current snapshot; a new one if something changed.

        Raises:
            FailedPreconditionError: If the version is not ready.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            found = await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            current = await lock_current(connection, identity.tenant_id, knowledge_base_id)
            await require_document(connection, identity, found, document_id)
            rows = await connection.fetch(
                "SELECT ordinal, version, state FROM corpusmesh.versions"
                " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = $3",
                identity.tenant_id,
                knowledge_base_id,
                document_id,
            )
            chosen = next((row for row in rows if row["version"] == version and row["state"] != "purged"), None)
            if chosen is None:
                raise document_not_found(f"{document_id}/versions/{version}")
            if chosen["state"] != "ready":
                raise FailedPreconditionError(
                    "VERSION_NOT_READY",
                    f"version {version} is {chosen['state']}; only a version that is ready can be published",
                    version=version,
                    state=chosen["state"],
                )
            others = [row["ordinal"] for row in rows if row["ordinal"] != chosen["ordinal"]]
            await connection.execute(
                "UPDATE corpusmesh.versions SET publish_time = coalesce(publish_time, now())"
                " WHERE tenant_id = $1 AND ordinal = $2",
                identity.tenant_id,
                chosen["ordinal"],
            )
            ordinals, changed = plan_change(current.ordinals, add=[chosen["ordinal"]], remove=others)
            if not changed:
                return await _read(connection, identity.tenant_id, knowledge_base_id, current.snapshot_id)
            return await self._write(connection, identity, current, ordinals, reason="publish")

    async def waiting_versions(self, tenant_id: str, knowledge_base_id: str, limit: int) -> Sequence[VersionRow]:
        """See `SnapshotStore`.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.
            limit: Most versions.

        Returns:
            Versions that wait, by ordinal.
        """
        async with self._database.tenant(tenant_id) as connection:
            rows = await connection.fetch(
                f"SELECT {VERSION_COLUMNS} FROM corpusmesh.versions v"  # noqa: S608 - constants
                " JOIN corpusmesh.documents d USING (tenant_id, knowledge_base_id, document_id)"
                " JOIN corpusmesh.runs r ON r.tenant_id = v.tenant_id AND r.run_id = v.run_id"
                " WHERE v.tenant_id = $1 AND v.knowledge_base_id = $2 AND v.state = 'ready' AND v.publish_time IS NULL"
                " AND d.state = 'active' AND NOT r.hold_publish AND r.state NOT IN ('cancelling', 'cancelled')"
                " ORDER BY v.ordinal LIMIT $3",
                tenant_id,
                knowledge_base_id,
                limit,
            )
        return [to_version(row) for row in rows]

    async def plan_candidate(self, tenant_id: str, knowledge_base_id: str, ordinals: Sequence[int]) -> bytes:
        """See `SnapshotStore`; without the lock that publishing takes, since it decides nothing.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.
            ordinals: Versions that would be published.

        Returns:
            Portable roaring bitmap.
        """
        async with self._database.tenant(tenant_id) as connection:
            current = await connection.fetchval(
                "SELECT s.ordinals FROM corpusmesh.knowledge_bases k JOIN corpusmesh.snapshots s"
                "   ON s.tenant_id = k.tenant_id AND s.knowledge_base_id = k.knowledge_base_id"
                "   AND s.snapshot_id = k.current_snapshot_id"
                " WHERE k.tenant_id = $1 AND k.knowledge_base_id = $2",
                tenant_id,
                knowledge_base_id,
            )
            siblings, _ = await load_refs(connection, tenant_id, ordinals)
        wanted = frozenset(ordinals)
        return plan_publish(current or b"", [ref for ref in siblings if ref.ordinal in wanted], siblings).ordinals

    async def change(
        self, tenant_id: str, knowledge_base_id: str, *, add: Sequence[int], remove: Sequence[int], created_by: str
    ) -> Snapshot:
        """See `SnapshotStore`.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.
            add: Builds to show.
            remove: Builds to hide.
            created_by: Run in whose name it happens.

        Returns:
            The current snapshot; a new one if something changed.

        Raises:
            NotFoundError: If the knowledge base is deleted.
        """
        async with self._database.tenant(tenant_id) as connection:
            current = await lock_current(connection, tenant_id, knowledge_base_id)
            if current.state != "active":
                raise knowledge_base_not_found(knowledge_base_id)
            ordinals, changed = plan_change(current.ordinals, add=add, remove=remove)
            if not changed:
                return await _read(connection, tenant_id, knowledge_base_id, current.snapshot_id)
            event = await change_snapshot(
                connection, tenant_id, current, ordinals, reason=BUILD_REASON, created_by=created_by
            )
            await send_messages(connection, tenant_id, {}, [event])
            return await _read(connection, tenant_id, knowledge_base_id, current.last_snapshot_id + 1)

    @staticmethod
    async def _write(
        connection: Connection, identity: Identity, current: CurrentSnapshot, ordinals: bytes, *, reason: str
    ) -> Snapshot:
        event = await change_snapshot(
            connection, identity.tenant_id, current, ordinals, reason=reason, created_by=identity.user_id
        )
        await send_messages(connection, identity.tenant_id, {}, [event])
        return await _read(connection, identity.tenant_id, current.knowledge_base_id, current.last_snapshot_id + 1)


async def _read(connection: Connection, tenant_id: str, knowledge_base_id: str, snapshot_id: int) -> Snapshot:
    row = await connection.fetchrow(
        "SELECT * FROM corpusmesh.snapshots WHERE tenant_id = $1 AND knowledge_base_id = $2 AND snapshot_id = $3",
        tenant_id,
        knowledge_base_id,
        snapshot_id,
    )
    if row is None:
        raise _snapshot_not_found(snapshot_id)
    return to_snapshot(row)


def _conditions(metadata_filter: MetadataFilter | None) -> list[dict[str, Any]]:
    if metadata_filter is None:
        return []
    return [
        {
            "key": condition.key,
            "operator": str(condition.operator),
            "texts": list(condition.texts),
            "numbers": list(condition.numbers),
            "moments": [value.isoformat() for value in condition.moments],
            "negated": condition.negated,
        }
        for condition in metadata_filter.conditions
    ]


def _snapshot_not_found(snapshot_id: int) -> NotFoundError:
    return NotFoundError(
        "SNAPSHOT_NOT_FOUND",
        f"snapshot {snapshot_id} does not exist or is not kept any more; list the ones that are",
        snapshot=snapshot_id,
    )
