"""Writes what the state machine decided: rows, snapshots, messages, in the caller's transaction.

Locks are always taken in the same order, so that no two transactions wait for each other: run, task, knowledge base,
versions.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from corpusmesh_adapters.postgres.database import Connection
from corpusmesh_adapters.postgres.erasure import erase_made_of
from corpusmesh_adapters.postgres.publishing import change_snapshot, load_refs, lock_current
from corpusmesh_adapters.postgres.rows import RUN_COLUMNS, TASK_COLUMNS, moment, to_run, to_task
from corpusmesh_core.orchestration.values import (
    HOUSEKEEPING,
    CancelParts,
    DeadLetter,
    Decision,
    Dispatch,
    FailParts,
    MoveParts,
    Run,
    Task,
)
from corpusmesh_core.tenancy.publishing import plan_withdrawal
from corpusmesh_core.tenancy.values import VersionState


@dataclass(slots=True)
class RunTransaction:
    """A run, locked, in a transaction.

    Attributes:
        connection: The transaction.
        tenant_id: Tenant.
        knowledge_base_id: Knowledge base of the run.
        run: The run as it is now.
        now_seconds: The database's clock.
        headers: Trace and request id of the run.
        messages: Messages to put into the outbox at the end: subject, body, seconds at which they are due (0 for now).
    """

    connection: Connection
    tenant_id: str
    knowledge_base_id: str
    run: Run
    now_seconds: float
    headers: Mapping[str, str]
    messages: list[tuple[str, bytes, float]] = field(default_factory=list)


def work_subject(task: Task, tenant_id: str) -> str:
    """Name the subject of a task's messages."""
    return f"work.{task.stage}.{task.lane}.{tenant_id}"


async def lock_run(connection: Connection, tenant_id: str, run_id: str) -> RunTransaction | None:
    """Lock a run; None if there is none."""
    row = await connection.fetchrow(
        f"SELECT {RUN_COLUMNS}, extract(epoch FROM clock_timestamp())::float8 AS now_seconds"  # noqa: S608 - constants
        " FROM corpusmesh.runs r WHERE r.tenant_id = $1 AND r.run_id = $2 FOR UPDATE",
        tenant_id,
        run_id,
    )
    if row is None:
        return None
    return RunTransaction(
        connection, tenant_id, row["knowledge_base_id"], to_run(row), row["now_seconds"], row["headers"]
    )


async def lock_task(
    connection: Connection, tenant_id: str, run_id: str, task_id: str
) -> tuple[RunTransaction, Task] | None:
    """Lock a run and a task of it, in this order and in one round trip; None if there is no such task."""
    row = await connection.fetchrow(
        "WITH r AS MATERIALIZED (SELECT * FROM corpusmesh.runs WHERE tenant_id = $1 AND run_id = $2 FOR UPDATE)"  # noqa: S608
        f" SELECT {RUN_COLUMNS}, {TASK_COLUMNS}, extract(epoch FROM clock_timestamp())::float8 AS now_seconds"
        " FROM r JOIN corpusmesh.tasks t ON t.tenant_id = r.tenant_id AND t.run_id = r.run_id"
        " WHERE t.task_id = $3 FOR UPDATE OF t",
        tenant_id,
        run_id,
        task_id,
    )
    if row is None:
        return None
    context = RunTransaction(
        connection, tenant_id, row["knowledge_base_id"], to_run(row), row["now_seconds"], row["headers"]
    )
    return context, to_task(row)


async def apply_decision(context: RunTransaction, decision: Decision, before: Task | None = None) -> None:
    """Write a decision.

    Args:
        context: The locked run.
        decision: What was decided.
        before: The task as it was, if the decision is about one.
    """
    if decision.task is not None and decision.task != before:
        await _update_task(context, decision.task)
    for effect in decision.effects:
        match effect:
            case Dispatch():
                await _dispatch(context, effect)
            case FailParts():
                await _fail_parts(context, effect)
            case MoveParts():
                await _move_parts(context, effect)
            case DeadLetter():
                _dead_letter(context, effect)
            case CancelParts():
                await _cancel_parts(context)
    if decision.run != context.run:
        await _update_run(context, decision.run, stage=str(decision.task.stage) if decision.task is not None else "")
    await send_messages(context.connection, context.tenant_id, context.headers, context.messages)
    context.messages.clear()


async def send_messages(
    connection: Connection,
    tenant_id: str,
    headers: Mapping[str, str],
    messages: Sequence[tuple[str, bytes, float]],
) -> None:
    """Put messages into the outbox of the transaction."""
    if not messages:
        return
    await connection.execute(
        "INSERT INTO corpusmesh.outbox (tenant_id, subject, payload, headers, due_time)"
        " SELECT $1, m.subject, m.payload, $2, CASE WHEN m.due > 0 THEN to_timestamp(m.due) ELSE now() END"
        " FROM unnest($3::text[], $4::bytea[], $5::float8[]) AS m(subject, payload, due)",
        tenant_id,
        dict(headers),
        [subject for subject, _, _ in messages],
        [payload for _, payload, _ in messages],
        [due for _, _, due in messages],
    )


async def _update_run(context: RunTransaction, run: Run, stage: str) -> None:
    await context.connection.execute(
        "UPDATE corpusmesh.runs SET state = $3, part_count = $4, batch_count = $5, open_task_count = $6, passed = $7,"
        " failed_part_count = $8, retry_count = $9, sequence = $10, error_reason = $11, error_message = $12,"
        " accepts_until = $13, skipped = $15,"
        " start_time = CASE WHEN $3 = 'pending' THEN NULL ELSE coalesce(start_time, now()) END,"
        " end_time = CASE WHEN $14 THEN coalesce(end_time, now()) ELSE NULL END"
        " WHERE tenant_id = $1 AND run_id = $2",
        context.tenant_id,
        run.run_id,
        str(run.state),
        run.part_count,
        run.batch_count,
        run.open_task_count,
        {str(name): count for name, count in run.passed.items()},
        run.failed_part_count,
        run.retry_count,
        run.sequence,
        run.error_reason,
        run.error_message,
        moment(run.accepts_until_seconds),
        run.state.is_ended,
        {str(name): count for name, count in run.skipped.items()},
    )
    if run.sequence != context.run.sequence:
        body = {
            "tenant_id": context.tenant_id,
            "run": f"knowledgeBases/{context.knowledge_base_id}/runs/{run.run_id}",
            "stage": stage,
            "state": str(run.state),
            "sequence": run.sequence,
        }
        context.messages.append((f"events.run.{context.tenant_id}.{run.run_id}", json.dumps(body).encode(), 0.0))
    context.run = run


async def _update_task(context: RunTransaction, task: Task) -> None:
    await context.connection.execute(
        "UPDATE corpusmesh.tasks SET state = $3, attempt = $4, deferral_count = $5, epoch = $6, dispatch = $7,"
        " lease_until = $8, not_before = $9, worker = $10, error_reason = $11, error_message = $12,"
        " dispatch_time = CASE WHEN dispatch = $7 THEN dispatch_time ELSE greatest(now(), coalesce($9, now())) END,"
        " end_time = CASE WHEN $13 THEN NULL ELSE now() END"
        " WHERE tenant_id = $1 AND task_id = $2",
        context.tenant_id,
        task.task_id,
        str(task.state),
        task.attempt,
        task.deferral_count,
        task.epoch,
        task.dispatch,
        moment(task.lease_until_seconds),
        moment(task.not_before_seconds),
        task.worker,
        task.error_reason,
        task.error_message,
        task.state.is_open,
    )


async def _dispatch(context: RunTransaction, effect: Dispatch) -> None:
    task = effect.task
    if effect.is_new:
        if effect.all_parts_of_run:
            rows = await context.connection.fetch(
                "SELECT ordinal FROM corpusmesh.versions WHERE tenant_id = $1 AND run_id = $2",
                context.tenant_id,
                task.run_id,
            )
            task = replace(task, parts=tuple(row["ordinal"] for row in rows))
        await context.connection.execute(
            "INSERT INTO corpusmesh.tasks (tenant_id, task_id, run_id, batch, stage, lane, state, parts, attempt,"
            " deferral_count, epoch, dispatch, not_before, dispatch_time, payload)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,"
            " greatest(now(), coalesce($13, now())), $14)",
            context.tenant_id,
            task.task_id,
            task.run_id,
            task.batch,
            str(task.stage),
            str(task.lane),
            str(task.state),
            list(task.parts),
            task.attempt,
            task.deferral_count,
            task.epoch,
            task.dispatch,
            moment(task.not_before_seconds),
            dict(task.payload),
        )
    body = {"tenant": context.tenant_id, "run": task.run_id, "task": task.task_id, "dispatch": task.dispatch}
    context.messages.append((work_subject(task, context.tenant_id), json.dumps(body).encode(), task.not_before_seconds))


async def _fail_parts(context: RunTransaction, effect: FailParts) -> None:
    await context.connection.execute(
        # What is wrong with a document stays wrong: its password is kept for a retry of everything else alone.
        "UPDATE corpusmesh.versions v SET state = 'failed', failed_stage = $2, error_reason = f.reason,"
        " error_message = f.message,"
        " sealed_password = CASE WHEN starts_with(f.reason, 'DOCUMENT_') THEN '' ELSE v.sealed_password END"
        " FROM unnest($3::int[], $4::text[], $5::text[]) AS f(ordinal, reason, message)"
        " WHERE v.tenant_id = $1 AND v.ordinal = f.ordinal AND v.state NOT IN ('cancelled', 'purged')",
        context.tenant_id,
        str(effect.stage),
        [failure.ordinal for failure in effect.failures],
        [failure.reason for failure in effect.failures],
        [failure.message for failure in effect.failures],
    )


async def _move_parts(context: RunTransaction, effect: MoveParts) -> None:
    await context.connection.execute(
        "UPDATE corpusmesh.versions SET state = $2, failed_stage = '', error_reason = '', error_message = ''"
        " WHERE tenant_id = $1 AND ordinal = ANY ($3) AND state <> 'purged'",
        context.tenant_id,
        str(effect.state),
        list(effect.parts),
    )
    if effect.state is VersionState.PURGED:
        await _forget(context, effect.parts)


async def _forget(context: RunTransaction, ordinals: Sequence[int]) -> None:
    """Leave of purged versions only the mark that they were; of a document without others likewise."""
    connection = context.connection
    await erase_made_of(connection, context.tenant_id, ordinals)
    await connection.execute(
        "UPDATE corpusmesh.versions SET display_name = '', title = '', media_type = '', artefacts = '{}',"
        " warnings = '{}', config = '{}', extracted_metadata = '{}', sealed_password = ''"
        " WHERE tenant_id = $1 AND ordinal = ANY ($2)",
        context.tenant_id,
        list(ordinals),
    )
    await connection.execute(
        "UPDATE corpusmesh.documents d SET state = 'deleted', display_name = '', title = '', source_uri = '',"
        " update_time = now()"
        " WHERE d.tenant_id = $1 AND d.state = 'deleting' AND (d.knowledge_base_id, d.document_id) IN ("
        "   SELECT knowledge_base_id, document_id FROM corpusmesh.versions WHERE tenant_id = $1 AND ordinal = ANY ($2))"
        " AND NOT EXISTS (SELECT FROM corpusmesh.versions v WHERE v.tenant_id = $1"
        "   AND v.knowledge_base_id = d.knowledge_base_id AND v.document_id = d.document_id AND v.state <> 'purged')",
        context.tenant_id,
        list(ordinals),
    )
    await connection.execute(
        "UPDATE corpusmesh.knowledge_bases k SET state = 'deleted', display_name = '', description = '',"
        " update_time = now()"
        " WHERE k.tenant_id = $1 AND k.knowledge_base_id = $2 AND k.state = 'deleting'"
        " AND NOT EXISTS (SELECT FROM corpusmesh.documents d WHERE d.tenant_id = $1 AND d.knowledge_base_id = $2"
        "   AND d.state <> 'deleted')",
        context.tenant_id,
        context.knowledge_base_id,
    )


def _dead_letter(context: RunTransaction, effect: DeadLetter) -> None:
    task = effect.task
    body = {
        "tenant": context.tenant_id,
        "run": task.run_id,
        "task": task.task_id,
        "stage": str(task.stage),
        "parts": list(task.parts),
        "attempt": task.attempt,
        "reason": effect.reason,
        "message": effect.message,
    }
    context.messages.append((f"dead.{task.stage}.{context.tenant_id}", json.dumps(body).encode(), 0.0))


async def _cancel_parts(context: RunTransaction) -> None:
    """Drop waiting tasks, take back what the run published, and end its versions."""
    connection = context.connection
    await connection.execute(
        "UPDATE corpusmesh.tasks SET state = 'cancelled', end_time = now()"
        " WHERE tenant_id = $1 AND run_id = $2 AND state = 'pending' AND NOT stage = ANY ($3)",
        context.tenant_id,
        context.run.run_id,
        [str(stage) for stage in HOUSEKEEPING],
    )
    current = await lock_current(connection, context.tenant_id, context.knowledge_base_id)
    published = [
        row["ordinal"]
        for row in await connection.fetch(
            "SELECT ordinal FROM corpusmesh.versions WHERE tenant_id = $1 AND run_id = $2 AND publish_time IS NOT NULL",
            context.tenant_id,
            context.run.run_id,
        )
    ]
    if published:
        siblings, restorable = await load_refs(connection, context.tenant_id, published)
        chain = {ref.ordinal: ref.superseded for ref in siblings if ref.superseded is not None}
        ordinals, changed = plan_withdrawal(current.ordinals, published, chain, restorable)
        if changed:
            snapshot = await change_snapshot(
                connection, context.tenant_id, current, ordinals, reason="cancel", created_by=context.run.run_id
            )
            context.messages.append(snapshot)
    await connection.execute(
        "UPDATE corpusmesh.versions SET state = 'cancelled', error_reason = 'RUN_CANCELLED',"
        " error_message = 'its run was cancelled', sealed_password = ''"
        " WHERE tenant_id = $1 AND run_id = $2 AND state NOT IN ('failed', 'cancelled', 'purged')",
        context.tenant_id,
        context.run.run_id,
    )
