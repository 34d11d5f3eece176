"""What language models have cost, by tenant and day."""

from corpusmesh_adapters.postgres.database import Connection, Database
from corpusmesh_core.ports.usage import UsageEntry

_TODAY = "(now() AT TIME ZONE 'UTC')::date"


class PostgresUsageLedger:
    """`UsageLedger` on Postgres: table `llm_usage`, row security by tenant."""

    def __init__(self, database: Database) -> None:
        """Create it.

        Args:
            database: The pool.
        """
        self._database = database

    async def reserve(self, tenant_id: str, entry: UsageEntry, *, max_tokens_per_day: int) -> bool:
        """See `UsageLedger`; a lock for each tenant lets those that ask at once ask in turn.

        Args:
            tenant_id: Tenant.
            entry: What the calls may cost at most.
            max_tokens_per_day: Bound; 0 for none.

        Returns:
            Whether they are counted.
        """
        async with self._database.tenant(tenant_id, durable=False) as connection:
            if max_tokens_per_day:
                await connection.execute(
                    "SELECT pg_advisory_xact_lock(hashtextextended('llm_usage:' || $1, 0))", tenant_id
                )
                wanted = entry.input_token_count + entry.output_token_count
                if await _spent(connection, tenant_id) + wanted > max_tokens_per_day:
                    return False
            await _add(connection, tenant_id, entry)
        return True

    async def settle(self, tenant_id: str, reserved: UsageEntry, spent: UsageEntry) -> None:
        """See `UsageLedger`.

        Args:
            tenant_id: Tenant.
            reserved: As it was reserved.
            spent: What the calls cost.
        """
        difference = UsageEntry(
            spent.model,
            spent.purpose,
            spent.run_id,
            spent.call_count - reserved.call_count,
            spent.input_token_count - reserved.input_token_count,
            spent.output_token_count - reserved.output_token_count,
        )
        async with self._database.tenant(tenant_id, durable=False) as connection:
            await _add(connection, tenant_id, difference)

    async def spent_by_run(self, tenant_id: str, purpose: str, run_id: str) -> tuple[int, int, int]:
        """See `UsageLedger`.

        Args:
            tenant_id: Tenant.
            purpose: What for.
            run_id: The run.

        Returns:
            Calls, tokens sent and tokens received.
        """
        async with self._database.tenant(tenant_id) as connection:
            [row] = await connection.fetch(
                "SELECT coalesce(sum(call_count), 0)::bigint, coalesce(sum(input_token_count), 0)::bigint,"
                " coalesce(sum(output_token_count), 0)::bigint FROM corpusmesh.llm_usage"
                " WHERE tenant_id = $1 AND purpose = $2 AND run_id = $3",
                tenant_id,
                purpose,
                run_id,
            )
        return row[0], row[1], row[2]

    async def spent_today(self, tenant_id: str) -> int:
        """See `UsageLedger`.

        Args:
            tenant_id: Tenant.

        Returns:
            Tokens.
        """
        async with self._database.tenant(tenant_id) as connection:
            return await _spent(connection, tenant_id)


async def _spent(connection: Connection, tenant_id: str) -> int:
    spent: int = await connection.fetchval(
        "SELECT coalesce(sum(input_token_count + output_token_count), 0)::bigint FROM corpusmesh.llm_usage"  # noqa: S608
        f" WHERE tenant_id = $1 AND day = {_TODAY}",
        tenant_id,
    )
    return spent


async def _add(connection: Connection, tenant_id: str, entry: UsageEntry) -> None:
    # What is settled after midnight was reserved on the day before, which keeps it: today never counts below nothing.
    await connection.execute(
        "INSERT INTO corpusmesh.llm_usage AS u"  # noqa: S608 - a constant
        " (tenant_id, day, model, purpose, run_id, call_count, input_token_count, output_token_count)"
        f" VALUES ($1, {_TODAY}, $2, $3, $4, greatest($5, 0), greatest($6, 0), greatest($7, 0))"
        " ON CONFLICT (tenant_id, day, model, purpose, run_id) DO UPDATE SET"
        " call_count = greatest(u.call_count + $5, 0),"
        " input_token_count = greatest(u.input_token_count + $6, 0),"
        " output_token_count = greatest(u.output_token_count + $7, 0)",
        tenant_id,
        entry.model,
        entry.purpose,
        entry.run_id,
        entry.call_count,
        entry.input_token_count,
        entry.output_token_count,
    )
