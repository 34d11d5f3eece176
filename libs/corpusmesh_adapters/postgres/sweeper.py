"""Finds what is stuck, in every tenant, and sets it going again."""

from collections.abc import Mapping

import asyncpg

from corpusmesh_adapters.postgres.database import Database
from corpusmesh_adapters.postgres.effects import apply_decision, lock_run, lock_task
from corpusmesh_core.orchestration import machine
from corpusmesh_core.orchestration.values import Policy, Verdict


class PostgresTaskSweeper:
    """`TaskSweeper` on Postgres."""

    def __init__(
        self, database: Database, policy: Policy, *, grace_seconds: float = 30.0, kept_task_days: float = 30.0
    ) -> None:
        """Create a sweeper.

        Args:
            database: The store.
            policy: Bounds of patience.
            grace_seconds: How long a message may be on its way before it counts as lost.
            kept_task_days: How long ended runs and their tasks are kept.
        """
        self._database = database
        self._policy = policy
        self._grace_seconds = grace_seconds
        self._kept_task_days = kept_task_days

    async def expire_leases(self, limit: int) -> int:
        """See `TaskSweeper`.

        Args:
            limit: Most tasks.

        Returns:
            How many were taken away.
        """
        async with self._database.system() as connection:
            rows = await connection.fetch(
                "SELECT tenant_id, run_id, task_id FROM corpusmesh.tasks"
                " WHERE state = 'running' AND lease_until < now() ORDER BY lease_until LIMIT $1",
                limit,
            )
        count = 0
        for row in rows:
            async with self._database.tenant(row["tenant_id"]) as connection:
                found = await lock_task(connection, row["tenant_id"], row["run_id"], row["task_id"])
                if found is None:
                    continue
                context, task = found
                decision = machine.expire(context.run, task, now_seconds=context.now_seconds, policy=self._policy)
                await apply_decision(context, decision, task)
                count += decision.verdict not in (Verdict.BUSY, Verdict.OBSOLETE)
        return count

    async def count_open_tasks(self) -> Mapping[str, int]:
        """See `TaskSweeper`; tasks whose message is still in the outbox or not due are left out.

        Returns:
            Open tasks by subject.
        """
        async with self._database.system() as connection:
            rows = await connection.fetch(
                "SELECT 'work.' || stage || '.' || lane || '.' || tenant_id AS subject, count(*) AS count"
                " FROM corpusmesh.tasks WHERE state IN ('pending', 'running')"
                " AND dispatch_time < now() - make_interval(secs => $1) GROUP BY 1",
                self._grace_seconds,
            )
            waiting = await connection.fetch(
                "SELECT subject, count(*) AS count FROM corpusmesh.outbox WHERE subject LIKE 'work.%'"
                " AND due_time < now() GROUP BY 1"
            )
        counts = {row["subject"]: row["count"] for row in rows}
        for row in waiting:
            if row["subject"] in counts:
                counts[row["subject"]] -= row["count"]
        return {subject: count for subject, count in counts.items() if count > 0}

    async def redispatch(self, subject: str, limit: int) -> int:
        """See `TaskSweeper`.

        Args:
            subject: `work.<stage>.<lane>.<tenant>`.
            limit: Most tasks.

        Returns:
            How many messages were sent again.
        """
        _, stage, lane, tenant_id = subject.split(".", 3)
        async with self._database.tenant(tenant_id) as connection:
            rows = await connection.fetch(
                "SELECT run_id, task_id FROM corpusmesh.tasks WHERE tenant_id = $1 AND stage = $2 AND lane = $3"
                " AND state = 'pending' AND dispatch_time < now() - make_interval(secs => $4)"
                " ORDER BY dispatch_time LIMIT $5",
                tenant_id,
                stage,
                lane,
                self._grace_seconds,
                limit,
            )
        count = 0
        for row in rows:
            count += await self._redispatch_one(tenant_id, row)
        return count

    async def _redispatch_one(self, tenant_id: str, row: asyncpg.Record) -> int:
        async with self._database.tenant(tenant_id) as connection:
            found = await lock_task(connection, tenant_id, row["run_id"], row["task_id"])
            if found is None:
                return 0
            context, task = found
            decision = machine.redispatch(context.run, task, now_seconds=context.now_seconds)
            await apply_decision(context, decision, task)
            return int(decision.verdict is Verdict.REDISPATCHED)

    async def end_stale_runs(self, limit: int) -> int:
        """See `TaskSweeper`.

        Args:
            limit: Most runs.

        Returns:
            How many were ended.
        """
        async with self._database.system() as connection:
            rows = await connection.fetch(
                "SELECT tenant_id, run_id FROM corpusmesh.runs WHERE accepts_until < now() LIMIT $1", limit
            )
        for row in rows:
            async with self._database.tenant(row["tenant_id"]) as connection:
                context = await lock_run(connection, row["tenant_id"], row["run_id"])
                if context is not None and 0 < context.run.accepts_until_seconds < context.now_seconds:
                    await apply_decision(context, machine.extend(context.run, []))
        return len(rows)

    async def prune(self) -> int:
        """See `TaskSweeper`.

        Returns:
            How many rows were deleted, at most some thousands a call.
        """
        statements = (
            ("DELETE FROM corpusmesh.idempotency WHERE ctid IN (SELECT ctid FROM corpusmesh.idempotency"
             " WHERE expire_time < now() - make_interval(days => 0 * $1::int) LIMIT 5000)"),
            ("DELETE FROM corpusmesh.retrievals WHERE ctid IN (SELECT ctid FROM corpusmesh.retrievals"
             " WHERE expire_time < now() - make_interval(days => 0 * $1::int) LIMIT 5000)"),
            ("DELETE FROM corpusmesh.tasks WHERE ctid IN (SELECT t.ctid FROM corpusmesh.tasks t"
             " JOIN corpusmesh.runs r USING (tenant_id, run_id)"
             # The others may have written what only their rows can name, should their versions be purged.
             " WHERE r.end_time < now() - make_interval(days => $1::int) AND t.state IN ('done', 'cancelled')"
             " LIMIT 5000)"),
            # Kept as long as a version of before the withdrawal may still be tried again.
            ("DELETE FROM corpusmesh.chunk_edits WHERE ctid IN (SELECT ctid FROM corpusmesh.chunk_edits"
             " WHERE state = 'withdrawn' AND update_time < now() - make_interval(days => 30 + $1::int) LIMIT 5000)"),
            # One row for each run that asked a language model; a year and a month are enough for any bill.
            ("DELETE FROM corpusmesh.llm_usage WHERE ctid IN (SELECT ctid FROM corpusmesh.llm_usage"
             " WHERE day < now()::date - (366 + $1::int) LIMIT 5000)"),
        )  # fmt: skip
        count = 0
        async with self._database.system() as connection:
            for statement in statements:
                status = await connection.execute(statement, int(self._kept_task_days))
                count += int(status.rsplit(" ", 1)[1])
        return count
