"""Answers of language models, kept by what decides them."""

from collections.abc import Collection, Mapping, Sequence

from corpusmesh_adapters.postgres.database import Database
from corpusmesh_core.ports.completions import Completion

_MAX_CLEARED = 100


class PostgresCompletionCache:
    """`CompletionCache` on Postgres: table `llm_cache`, row security by tenant."""

    def __init__(self, database: Database, *, retention_days: int = 30) -> None:
        """Create it.

        Args:
            database: The pool.
            retention_days: How long an answer is kept that nobody asks for.
        """
        self._database = database
        self._retention_days = retention_days

    async def get(self, tenant_id: str, keys: Collection[bytes]) -> Mapping[bytes, str]:
        """See `CompletionCache`; marks what it finds as used, so that the unused can be removed.

        Args:
            tenant_id: Tenant.
            keys: Keys.

        Returns:
            Answers by key.
        """
        if not keys:
            return {}
        # What a crash may forget: the time of last use.
        async with self._database.tenant(tenant_id, durable=False) as connection:
            rows = await connection.fetch(
                "UPDATE corpusmesh.llm_cache SET last_use_time = now()"
                " WHERE tenant_id = $1 AND cache_key = ANY ($2::bytea[]) RETURNING cache_key, response",
                tenant_id,
                sorted(keys),
            )
        return {row["cache_key"]: row["response"].decode() for row in rows}

    async def put(self, tenant_id: str, completions: Sequence[Completion]) -> None:
        """See `CompletionCache`.

        Args:
            tenant_id: Tenant.
            completions: What to keep.
        """
        if not completions:
            return
        # In one order everywhere, and each key once: two writers of the same keys wait for each other in turn.
        by_key = {completion.key: completion for completion in completions}
        rows = [by_key[key] for key in sorted(by_key)]
        async with self._database.tenant(tenant_id, durable=False) as connection:
            # A worker that is late writes nothing of a version that was purged meanwhile.
            await connection.executemany(
                "INSERT INTO corpusmesh.llm_cache AS kept (tenant_id, cache_key, model, response, sources)"
                " SELECT $1, $2, $3, $4, $5 WHERE NOT EXISTS (SELECT FROM corpusmesh.versions"
                "   WHERE tenant_id = $1 AND ordinal = ANY ($5::int[]) AND state = 'purged')"
                " ON CONFLICT (tenant_id, cache_key) DO UPDATE SET model = excluded.model,"
                " response = excluded.response, last_use_time = now(),"
                " sources = ARRAY(SELECT DISTINCT unnest(kept.sources || excluded.sources) ORDER BY 1)",
                [(tenant_id, row.key, row.model, row.response.encode(), sorted(set(row.sources))) for row in rows],
            )
            # Whoever writes clears away a little of what nobody asked for in a long time, so that the table ends.
            await connection.execute(
                "DELETE FROM corpusmesh.llm_cache WHERE tenant_id = $1 AND cache_key IN ("
                "  SELECT cache_key FROM corpusmesh.llm_cache WHERE tenant_id = $1"
                "  AND last_use_time < now() - make_interval(days => $2) ORDER BY last_use_time LIMIT $3"
                "  FOR UPDATE SKIP LOCKED)",
                tenant_id,
                self._retention_days,
                _MAX_CLEARED + len(rows),
            )

    async def forget(self, tenant_id: str, ordinals: Collection[int]) -> int:
        """See `CompletionCache`.

        Args:
            tenant_id: Tenant.
            ordinals: Versions.

        Returns:
            Entries erased.
        """
        if not ordinals:
            return 0
        async with self._database.tenant(tenant_id) as connection:
            rows = await connection.fetch(
                "DELETE FROM corpusmesh.llm_cache WHERE tenant_id = $1 AND sources && $2::int[] RETURNING 1",
                tenant_id,
                sorted(ordinals),
            )
        return len(rows)
