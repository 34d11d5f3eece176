"""Claims on tasks: lock, ask the state machine, write what it says."""

from collections.abc import Callable

from corpusmesh_adapters.postgres.builds import publish_build
from corpusmesh_adapters.postgres.database import Connection, Database
from corpusmesh_adapters.postgres.effects import RunTransaction, apply_decision, lock_task
from corpusmesh_adapters.postgres.publishing import publish_waiting
from corpusmesh_adapters.postgres.rows import metadata_to_json
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.orchestration import machine
from corpusmesh_core.orchestration.values import (
    HOUSEKEEPING,
    Ack,
    Advance,
    Decision,
    PartFailure,
    Policy,
    RunKind,
    Stage,
    Task,
    TaskFailure,
    Verdict,
)
from corpusmesh_core.ports.work import Answer, Claim, StageOutcome, VersionPatch, WorkMessage

_DELETED = ("DOCUMENT_DELETED", "the document was deleted while it was worked on")


class PostgresTaskQueue:
    """`TaskQueue` on Postgres; the clock of every lease is the database's."""

    def __init__(self, database: Database, policy: Policy) -> None:
        self._database = database
        self._policy = policy

    async def claim(self, message: WorkMessage, worker: str) -> Answer:
        """See `TaskQueue`.

        Args:
            message: What the message says.
            worker: Who asks.

        Returns:
            CLAIMED with the claim, or why not.

        Raises:
            NotFoundError: If there is no such task.
        """
        async with self._database.tenant(message.tenant_id) as connection:
            context, task = await _locked(connection, message.tenant_id, message.run_id, message.task_id)
            decision = machine.claim(
                context.run,
                task,
                dispatch=message.dispatch,
                worker=worker,
                now_seconds=context.now_seconds,
                policy=self._policy,
            )
            await apply_decision(context, decision, task)
            claim = None
            if decision.verdict is Verdict.CLAIMED and decision.task is not None:
                living = await _living_parts(context, decision.task)
                claim = self._claim(context, decision.task, living)
        return _answer(decision, claim)

    async def heartbeat(self, claim: Claim) -> Answer:
        """See `TaskQueue`.

        Args:
            claim: The claim.

        Returns:
            CONTINUES, CANCELLED or FENCED.
        """
        return await self._decide(
            claim,
            lambda context, task: machine.heartbeat(
                context.run, task, epoch=claim.epoch, now_seconds=context.now_seconds, policy=self._policy
            ),
            # What a crash of the database forgets of it costs an attempt; waiting for the disk each second costs more.
            durable=False,
        )

    async def complete(self, claim: Claim, outcome: StageOutcome) -> Answer:
        """See `TaskQueue`.

        Args:
            claim: The claim.
            outcome: What the stage made of it.

        Returns:
            COMMITTED, CANCELLED or FENCED.
        """
        async with self._database.tenant(claim.tenant_id) as connection:
            context, task = await _locked(connection, claim.tenant_id, claim.run_id, claim.task_id)
            failures = {failure.ordinal: failure for failure in outcome.failures}
            if claim.stage not in HOUSEKEEPING:
                living = frozenset(await _living_parts(context, task))
                for part in task.parts:
                    if part not in living:
                        failures.setdefault(part, PartFailure(part, *_DELETED))
            decision = machine.complete(
                context.run,
                task,
                epoch=claim.epoch,
                failures=tuple(failures.values()),
                now_seconds=context.now_seconds,
                policy=self._policy,
                advance=Advance(outcome.payload, goes_on=outcome.goes_on, is_late=outcome.is_late, skips=outcome.skips),
            )
            if decision.verdict is Verdict.COMMITTED:
                await _patch_versions(connection, claim.tenant_id, outcome.patches)
            await apply_decision(context, decision, task)
            if decision.verdict is Verdict.COMMITTED and claim.stage is Stage.PUBLISH:
                await self._publish(context, claim, outcome, failures)
            if decision.verdict is Verdict.COMMITTED and outcome.build is not None:
                await publish_build(context, claim, outcome.build)
                await apply_decision(context, Decision(Verdict.COMMITTED, context.run, None))
        return _answer(decision)

    async def fail(self, claim: Claim, failure: TaskFailure) -> Answer:
        """See `TaskQueue`.

        Args:
            claim: The claim.
            failure: The error.

        Returns:
            What it led to.
        """
        return await self._decide(
            claim,
            lambda context, task: machine.fail(
                context.run,
                task,
                epoch=claim.epoch,
                failure=failure,
                now_seconds=context.now_seconds,
                policy=self._policy,
            ),
        )

    async def release(self, claim: Claim) -> Answer:
        """See `TaskQueue`.

        Args:
            claim: The claim.

        Returns:
            REDISPATCHED, CANCELLED or FENCED.
        """
        return await self._decide(
            claim,
            lambda context, task: machine.release(
                context.run, task, epoch=claim.epoch, now_seconds=context.now_seconds
            ),
        )

    async def _decide(
        self, claim: Claim, decide: Callable[[RunTransaction, Task], Decision], *, durable: bool = True
    ) -> Answer:
        async with self._database.tenant(claim.tenant_id, durable=durable) as connection:
            context, task = await _locked(connection, claim.tenant_id, claim.run_id, claim.task_id)
            decision = decide(context, task)
            await apply_decision(context, decision, task)
        return _answer(decision)

    def _claim(self, context: RunTransaction, task: Task, living: tuple[int, ...]) -> Claim:
        return Claim(
            tenant_id=context.tenant_id,
            knowledge_base_id=context.knowledge_base_id,
            run_id=task.run_id,
            task_id=task.task_id,
            stage=task.stage,
            lane=task.lane,
            parts=living,
            attempt=task.attempt,
            epoch=task.epoch,
            lease_seconds=self._policy.lease_seconds,
            payload=task.payload,
            headers=context.headers,
        )

    @staticmethod
    async def _publish(
        context: RunTransaction, claim: Claim, outcome: StageOutcome, failures: dict[int, PartFailure]
    ) -> None:
        ordinals = [ordinal for ordinal in outcome.publishable if ordinal not in failures]
        events = await publish_waiting(
            context.connection, context.tenant_id, context.knowledge_base_id, ordinals, run_id=claim.run_id
        )
        context.messages.extend(events)
        await apply_decision(context, Decision(Verdict.COMMITTED, context.run, None))


async def _locked(connection: Connection, tenant_id: str, run_id: str, task_id: str) -> tuple[RunTransaction, Task]:
    found = await lock_task(connection, tenant_id, run_id, task_id)
    if found is None:
        raise NotFoundError("TASK_UNKNOWN", "there is no such task", task=task_id)
    return found


async def _living_parts(context: RunTransaction, task: Task) -> tuple[int, ...]:
    """Leave out what may not be worked on: deleted documents, or for housekeeping what has come back to life."""
    if context.run.kind is RunKind.PURGE:
        return task.parts
    if task.stage in HOUSEKEEPING:
        condition = "v.state IN ('failed', 'cancelled', 'purged')"
    else:
        condition = "d.state = 'active' AND v.state <> 'purged'"
    rows = await context.connection.fetch(
        "SELECT v.ordinal FROM corpusmesh.versions v"  # noqa: S608 - one of two constants
        " JOIN corpusmesh.documents d USING (tenant_id, knowledge_base_id, document_id)"
        f" WHERE v.tenant_id = $1 AND v.ordinal = ANY ($2) AND {condition}",
        context.tenant_id,
        list(task.parts),
    )
    living = frozenset(row["ordinal"] for row in rows)
    return tuple(part for part in task.parts if part in living)


async def _patch_versions(connection: Connection, tenant_id: str, patches: tuple[VersionPatch, ...]) -> None:
    if not patches:
        return
    values = [
        {
            "ordinal": patch.ordinal,
            "media_type": patch.media_type,
            "title": patch.title,
            "page_count": patch.page_count,
            "chunk_count": patch.chunk_count,
            "record_count": patch.record_count,
            "token_count": patch.token_count,
            "artefacts": dict(patch.artefacts),
            "warnings": None if patch.warnings is None else list(patch.warnings),
            "extracted_metadata": None
            if patch.extracted_metadata is None
            else metadata_to_json(patch.extracted_metadata),
            "forgets_password": patch.forgets_password,
        }
        for patch in patches
    ]
    await connection.execute(
        "UPDATE corpusmesh.versions v SET media_type = coalesce(p.media_type, v.media_type),"
        " title = CASE WHEN v.title = '' THEN coalesce(p.title, '') ELSE v.title END,"
        " page_count = coalesce(p.page_count, v.page_count),"
        " chunk_count = coalesce(p.chunk_count, v.chunk_count), token_count = coalesce(p.token_count, v.token_count),"
        " record_count = coalesce(p.record_count, v.record_count),"
        " extracted_metadata = coalesce(p.extracted_metadata, v.extracted_metadata),"
        " sealed_password = CASE WHEN p.forgets_password THEN '' ELSE v.sealed_password END,"
        " artefacts = v.artefacts || p.artefacts, warnings = coalesce(p.warnings, v.warnings)"
        " FROM jsonb_to_recordset($2) AS p(ordinal int, media_type text, title text, page_count int, chunk_count int,"
        " record_count int, token_count bigint, artefacts jsonb, warnings text[], extracted_metadata jsonb,"
        " forgets_password boolean)"
        " WHERE v.tenant_id = $1 AND v.ordinal = p.ordinal",
        tenant_id,
        values,
    )


def _answer(decision: Decision, claim: Claim | None = None) -> Answer:
    return Answer(
        verdict=decision.verdict,
        claim=claim,
        must_ack=decision.ack is Ack.ACK,
        nak_delay_seconds=decision.delay_seconds if decision.ack is Ack.NAK else None,
    )
