"""Begins runs; shared by everything that causes work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corpusmesh_adapters.postgres.database import Connection
from corpusmesh_adapters.postgres.effects import RunTransaction, apply_decision, lock_run
from corpusmesh_adapters.postgres.rows import new_id
from corpusmesh_core.errors import OverloadedError
from corpusmesh_core.orchestration import machine
from corpusmesh_core.orchestration.batching import plan_batches
from corpusmesh_core.orchestration.values import Lane, RunKind, Verdict


@dataclass(frozen=True, slots=True)
class RunOrder:
    """What a new run shall be.

    Attributes:
        kind: What it does.
        created_by: User.
        request_id: The same id of the same user gives the same run; "" for none.
        lane: Lane of its tasks.
        hold_publish: Whether versions are left unpublished.
        headers: Trace and request id.
    """

    kind: RunKind
    created_by: str
    request_id: str = ""
    lane: Lane = Lane.BULK
    hold_publish: bool = False
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """Bounds of the work that is taken in.

    Attributes:
        max_open_tasks: Open tasks of a tenant above which new work is refused.
        batch_part_count: Most documents of a task.
        batch_bytes: Most bytes of originals of a task.
        upload_idle_seconds: How long a run waits for its next group of uploads.
    """

    max_open_tasks: int = 20_000
    batch_part_count: int = 64
    batch_bytes: int = 8 * 1024 * 1024
    upload_idle_seconds: float = 120.0


async def check_backlog(connection: Connection, tenant_id: str, limits: WorkLimits) -> None:
    """Refuse new work early if too much waits already.

    Raises:
        OverloadedError: With a retry delay.
    """
    count = await connection.fetchval(
        "SELECT count(*) FROM (SELECT 1 FROM corpusmesh.tasks WHERE tenant_id = $1"
        " AND state IN ('pending', 'running') LIMIT $2) AS open",
        tenant_id,
        limits.max_open_tasks,
    )
    if count >= limits.max_open_tasks:
        raise OverloadedError(
            "WORK_QUEUE_FULL",
            f"{limits.max_open_tasks} tasks wait already; try again later",
            retry_delay_seconds=10.0,
            limit=limits.max_open_tasks,
        )


async def find_run(connection: Connection, tenant_id: str, user_id: str, request_id: str) -> str | None:
    """Find the run that a request id of a user has begun."""
    if not request_id:
        return None
    run_id: str | None = await connection.fetchval(
        "SELECT run_id FROM corpusmesh.runs WHERE tenant_id = $1 AND created_by = $2 AND request_id = $3",
        tenant_id,
        user_id,
        request_id,
    )
    return run_id


async def create_run(connection: Connection, tenant_id: str, knowledge_base_id: str, order: RunOrder) -> str:
    """Insert a run without parts; the same request id of the same user gives the same run.

    Returns:
        Its id.
    """
    run_id = new_id()
    inserted = await connection.fetchval(
        "INSERT INTO corpusmesh.runs (tenant_id, run_id, knowledge_base_id, kind, state, lane, request_id, created_by,"
        " part_count, hold_publish, headers) VALUES ($1, $2, $3, $4, 'pending', $5, $6, $7, 0, $8, $9)"
        " ON CONFLICT (tenant_id, created_by, request_id) WHERE request_id IS NOT NULL DO NOTHING RETURNING run_id",
        tenant_id,
        run_id,
        knowledge_base_id,
        str(order.kind),
        str(order.lane),
        order.request_id or None,
        order.created_by,
        order.hold_publish,
        dict(order.headers or {}),
    )
    if inserted is None:
        return await find_run(connection, tenant_id, order.created_by, order.request_id) or run_id
    return run_id


async def extend_run(
    connection: Connection,
    tenant_id: str,
    run_id: str,
    sizes_bytes: Sequence[tuple[int, int]],
    limits: WorkLimits,
    *,
    is_last: bool = True,
) -> tuple[RunTransaction, bool]:
    """Add parts to a run and create their tasks.

    Returns:
        The run, and whether it took them.
    """
    context = await lock_run(connection, tenant_id, run_id)
    assert context is not None, "the caller has found or made it"
    batches = plan_batches(sizes_bytes, max_part_count=limits.batch_part_count, max_batch_bytes=limits.batch_bytes)
    accepts_until = 0.0 if is_last else context.now_seconds + limits.upload_idle_seconds
    decision = machine.extend(context.run, batches, accepts_until_seconds=accepts_until)
    await apply_decision(context, decision)
    return context, decision.verdict is Verdict.COMMITTED


async def start_purge(
    connection: Connection, tenant_id: str, knowledge_base_id: str, ordinals: Sequence[int], order: RunOrder
) -> str:
    """Begin the run that removes everything that was made of some versions.

    Returns:
        Its id.
    """
    run_id = await create_run(connection, tenant_id, knowledge_base_id, order)
    # Removing costs by the call, not by the byte.
    limits = WorkLimits(batch_part_count=1000)
    await extend_run(connection, tenant_id, run_id, [(ordinal, 0) for ordinal in ordinals], limits)
    return run_id
