"""What a purge has to know and to prove."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from corpusmesh_adapters.postgres.database import Connection, Database
from corpusmesh_adapters.postgres.erasure import count_made_of
from corpusmesh_adapters.postgres.originals import lock_originals
from corpusmesh_core.orchestration.values import Stage
from corpusmesh_core.ports.work import StageAttempt

_OWN_ORDINALS = (
    "ARRAY(SELECT ordinal FROM corpusmesh.versions WHERE tenant_id = $1 AND knowledge_base_id = $2"
    " AND document_id = $3)"
)


class PostgresPurgeStore:
    """`PurgeStore` on Postgres."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def remove_originals(
        self, tenant_id: str, ordinals: Sequence[int], remove: Callable[[str], Awaitable[None]]
    ) -> int:
        """See `PurgeStore`; each original is removed in a transaction that uploads of the same bytes wait for.

        Args:
            tenant_id: Tenant.
            ordinals: Versions that are purged.
            remove: Removes the original with a hash.

        Returns:
            How many were removed.
        """
        async with self._database.tenant(tenant_id) as connection:
            candidates = await _unshared_originals(connection, tenant_id, ordinals)
        count = 0
        for sha256 in candidates:
            async with self._database.tenant(tenant_id) as connection:
                await lock_originals(connection, tenant_id, [sha256])
                if sha256 in await _unshared_originals(connection, tenant_id, ordinals, sha256):
                    await remove(sha256)
                    count += 1
        return count

    @asynccontextmanager
    async def artefact_lock(self, tenant_id: str, key: str) -> AsyncIterator[None]:
        """See `PurgeStore`.

        Args:
            tenant_id: Tenant.
            key: The artefact's key.

        Yields:
            Nothing; the artefact is held.
        """
        async with self._database.tenant(tenant_id) as connection:
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('artefact/' || $1, 0))", key)
            yield

    async def unshared_originals(self, tenant_id: str, ordinals: Sequence[int]) -> Sequence[str]:
        """See `PurgeStore`.

        Args:
            tenant_id: Tenant.
            ordinals: Versions.

        Returns:
            Hashes, sorted.
        """
        async with self._database.tenant(tenant_id) as connection:
            return await _unshared_originals(connection, tenant_id, ordinals)

    async def attempts(self, tenant_id: str, ordinals: Sequence[int]) -> Sequence[StageAttempt]:
        """See `PurgeStore`.

        Args:
            tenant_id: Tenant.
            ordinals: Versions.

        Returns:
            Tasks, by id.
        """
        async with self._database.tenant(tenant_id) as connection:
            rows = await connection.fetch(
                "SELECT t.run_id, t.task_id, t.stage, t.parts FROM corpusmesh.tasks t"
                " WHERE t.tenant_id = $1 AND t.run_id IN ("
                "   SELECT run_id FROM corpusmesh.versions WHERE tenant_id = $1 AND ordinal = ANY ($2))"
                " AND t.parts && $2::int[] ORDER BY t.task_id",
                tenant_id,
                list(ordinals),
            )
        return [StageAttempt(row["run_id"], row["task_id"], Stage(row["stage"]), tuple(row["parts"])) for row in rows]

    async def ordinals_of(self, tenant_id: str, knowledge_base_id: str, document_id: str) -> Sequence[int]:
        """See `PurgeStore`.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.
            document_id: Document.

        Returns:
            Ordinals, rising.
        """
        async with self._database.tenant(tenant_id) as connection:
            rows = await connection.fetch(
                "SELECT ordinal FROM corpusmesh.versions WHERE tenant_id = $1 AND knowledge_base_id = $2"
                " AND document_id = $3 ORDER BY 1",
                tenant_id,
                knowledge_base_id,
                document_id,
            )
        return [row["ordinal"] for row in rows]

    async def build_ids(self, tenant_id: str, knowledge_base_id: str) -> Sequence[str]:
        """See `PurgeStore`.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.

        Returns:
            Ids, those that are being removed included.
        """
        async with self._database.tenant(tenant_id) as connection:
            rows = await connection.fetch(
                "SELECT build_id FROM corpusmesh.builds WHERE tenant_id = $1 AND knowledge_base_id = $2 ORDER BY 1",
                tenant_id,
                knowledge_base_id,
            )
        return [row["build_id"] for row in rows]

    async def count_rows(self, tenant_id: str, knowledge_base_id: str, document_id: str) -> int:
        """See `PurgeStore`.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.
            document_id: Document.

        Returns:
            Rows that are left, versions that are not marked as purged included.
        """
        async with self._database.tenant(tenant_id) as connection:
            count: int = await connection.fetchval(
                "SELECT (SELECT count(*) FROM corpusmesh.document_acl WHERE tenant_id = $1 AND knowledge_base_id = $2"  # noqa: S608
                "   AND document_id = $3)"
                " + (SELECT count(*) FROM corpusmesh.document_metadata WHERE tenant_id = $1"
                "   AND knowledge_base_id = $2 AND document_id = $3)"
                " + (SELECT count(*) FROM corpusmesh.chunk_edits WHERE tenant_id = $1 AND knowledge_base_id = $2"
                "   AND document_id = $3)"
                " + (SELECT count(*) FROM corpusmesh.versions WHERE tenant_id = $1 AND knowledge_base_id = $2"
                f"   AND document_id = $3 AND state <> 'purged') + {count_made_of(_OWN_ORDINALS)}",
                tenant_id,
                knowledge_base_id,
                document_id,
            )
        return count


async def _unshared_originals(
    connection: Connection, tenant_id: str, ordinals: Sequence[int], sha256: str | None = None
) -> list[str]:
    """Give hashes of originals that no version outside of `ordinals` still needs, or that one hash if it is such."""
    rows = await connection.fetch(
        "SELECT DISTINCT v.original_sha256 AS sha256 FROM corpusmesh.versions v"
        " WHERE v.tenant_id = $1 AND v.ordinal = ANY ($2) AND ($3::text IS NULL OR v.original_sha256 = $3)"
        " AND NOT EXISTS (SELECT FROM corpusmesh.versions o"
        "   JOIN corpusmesh.documents d USING (tenant_id, knowledge_base_id, document_id)"
        "   WHERE o.tenant_id = $1 AND o.original_sha256 = v.original_sha256 AND NOT o.ordinal = ANY ($2)"
        "   AND o.state <> 'purged' AND d.state = 'active')"
        " ORDER BY 1",
        tenant_id,
        list(ordinals),
        sha256,
    )
    return [row["sha256"] for row in rows]
