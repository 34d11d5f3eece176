"""Steps that several events of the state machine share; `machine` is the door."""

from collections.abc import Sequence
from dataclasses import replace

from corpusmesh_core.orchestration.values import (
    BUILD_RUNS,
    BUILD_STAGES,
    HOUSEKEEPING,
    PARTLESS,
    SWEEP_STAGES,
    VERSION_STATE_BY_STAGE,
    Advance,
    DeadLetter,
    Decision,
    Dispatch,
    Effect,
    FailParts,
    Lane,
    MoveParts,
    PartFailure,
    Policy,
    Run,
    RunKind,
    RunState,
    Stage,
    Task,
    TaskState,
    Verdict,
)
from corpusmesh_core.tenancy.values import VersionState

_CANCEL = "cancel"
_LATE = "-late"
"""Ends the batch of a sweep's second look."""
SCOPE = "scope"
"""Payload of CLEANUP and the VERIFY after it: how much is removed."""
SCOPE_RUN = "run"
"""Everything that the run wrote: it was cancelled."""
SCOPE_RECORDS = "records"
"""Only the records of its parts: they failed, and a retry needs originals and artefacts."""

SKIP_PUBLISH_GATE = "skip_publish_gate"
"""Payload of a retry: publish without asking the knowledge base's gate. It goes with its parts from stage to stage."""


def task_id_for(run_id: str, batch: str, stage: Stage) -> str:
    """Name a task.

    Args:
        run_id: Its run.
        batch: Place of its parts in the run.
        stage: What is done.

    Returns:
        The same id for the same task, so that making it twice makes it once.
    """
    return f"{run_id}.{batch}.{stage}"


def retry_stage(failed_stage: Stage) -> Stage:
    """Tell where a part starts again.

    Args:
        failed_stage: Stage at which it failed.

    Returns:
        The same stage, but INDEX for PUBLISH: the records of a failed part were removed.
    """
    return Stage.INDEX if failed_stage is Stage.PUBLISH else failed_stage


def holds(task: Task, epoch: int) -> bool:
    """Tell whether a claim is still good; after its lease, too, as long as nobody else was given the task."""
    return task.state is TaskState.RUNNING and task.epoch == epoch


def must_stop(run: Run, task: Task) -> bool:
    """Tell whether a task must not go on because its run was cancelled."""
    return run.state in (RunState.CANCELLING, RunState.CANCELLED) and task.stage not in HOUSEKEEPING


def new_task(
    run: Run,
    batch: str,
    stage: Stage,
    parts: Sequence[int],
    *,
    epoch: int = 0,
    not_before: float = 0.0,
    payload: dict[str, str] | None = None,
) -> Task:
    """Make a task of a run."""
    return Task(
        task_id=task_id_for(run.run_id, batch, stage),
        run_id=run.run_id,
        batch=batch,
        stage=stage,
        # Nobody waits for housekeeping.
        lane=Lane.BULK if stage in HOUSEKEEPING else run.lane,
        state=TaskState.PENDING,
        parts=tuple(parts),
        epoch=epoch,
        not_before_seconds=not_before,
        payload=payload or {},
    )


def _next_stage(run: Run, stage: Stage, skips: frozenset[Stage]) -> Stage | None:
    if stage is Stage.CLEANUP:
        return Stage.VERIFY
    pipeline = run.pipeline
    if stage not in pipeline:
        return None
    return next((later for later in pipeline[pipeline.index(stage) + 1 :] if later not in skips), None)


def pass_on(
    run: Run,
    task: Task,
    survivors: tuple[int, ...],
    now_seconds: float,
    policy: Policy,
    advance: Advance,
) -> tuple[Run, list[Effect]]:
    """Move the parts that survive a stage, and create the next stage's task."""
    effects: list[Effect] = []
    following = _next_stage(run, task.stage, advance.skips)
    if task.stage is Stage.INDEX:
        effects.append(MoveParts(survivors, VersionState.READY))
    elif task.stage is Stage.VERIFY and run.kind is RunKind.PURGE:
        effects.append(MoveParts(survivors, VersionState.PURGED))
    elif following is not None and following in VERSION_STATE_BY_STAGE:
        effects.append(MoveParts(survivors, VERSION_STATE_BY_STAGE[following]))
    if following is None:
        return run, effects
    due = 0.0
    payload = dict(advance.payload)
    if SKIP_PUBLISH_GATE in task.payload:
        payload = {SKIP_PUBLISH_GATE: task.payload[SKIP_PUBLISH_GATE], **payload}
    if following is Stage.VERIFY:
        due = now_seconds + policy.verify_delay_seconds
        payload = dict(task.payload)
    task = new_task(run, task.batch, following, survivors, epoch=task.epoch, not_before=due, payload=payload)
    effects.append(Dispatch(task, is_new=True))
    return replace(run, open_task_count=run.open_task_count + int(counts(run, task))), effects


def continue_task(
    run: Run, task: Task, now_seconds: float, policy: Policy, advance: Advance
) -> tuple[Run, list[Effect]]:
    """Create another task of the same stage and parts: the work is longer than a task may be, or wants a late look."""
    is_late = advance.is_late or task.batch.endswith(_LATE)
    following = new_task(
        run,
        f"{run.batch_count}{_LATE if is_late else ''}",
        task.stage,
        task.parts,
        epoch=task.epoch,
        not_before=now_seconds + policy.verify_delay_seconds if advance.is_late else 0.0,
        payload=dict(advance.payload) or dict(task.payload),
    )
    run = replace(
        run, batch_count=run.batch_count + 1, open_task_count=run.open_task_count + int(counts(run, following))
    )
    return run, [Dispatch(following, is_new=True)]


def send_again(run: Run, task: Task, due_seconds: float) -> Decision:
    """Let a task wait for a new message."""
    waiting = replace(
        task,
        state=TaskState.PENDING,
        dispatch=task.dispatch + 1,
        not_before_seconds=due_seconds,
        lease_until_seconds=0.0,
        worker="",
    )
    return Decision(Verdict.REDISPATCHED, run, waiting, (Dispatch(waiting),))


def try_again(run: Run, task: Task, now_seconds: float, policy: Policy, *, split_from: int) -> Decision:
    """Send a task again, split it, or give it up."""
    # Removing is the same for every part: no part of it can be the poison.
    if len(task.parts) > 1 and task.attempt >= split_from and task.stage not in HOUSEKEEPING:
        return _split(run, task, now_seconds, policy)
    if task.attempt >= policy.max_attempts:
        return exhaust(run, task)
    return send_again(run, task, now_seconds + policy.backoff_seconds(task.attempt))


def _split(run: Run, task: Task, now_seconds: float, policy: Policy) -> Decision:
    due = now_seconds + policy.backoff_seconds(task.attempt)
    # One attempt is left at least: a part must not fail for what its batch did.
    attempt = min(task.attempt, policy.max_attempts - 1)
    effects: list[Effect] = []
    for place, part in enumerate(task.parts):
        child = new_task(
            run,
            f"{task.batch}-{place}",
            task.stage,
            (part,),
            epoch=task.epoch,
            not_before=due,
            payload=dict(task.payload),
        )
        effects.append(Dispatch(replace(child, attempt=attempt, deferral_count=task.deferral_count), is_new=True))
    run = closing(run, task)
    if counts(run, task):
        run = replace(run, open_task_count=run.open_task_count + len(effects))
    return Decision(Verdict.SPLIT, run, replace(task, state=TaskState.SPLIT), tuple(effects))


def exhaust(run: Run, task: Task) -> Decision:
    """Give a task up."""
    failed = replace(task, state=TaskState.FAILED)
    effects: list[Effect] = [DeadLetter(failed, task.error_reason, task.error_message)]
    run = closing(run, task)
    if task.stage in SWEEP_STAGES and run.kind in BUILD_RUNS:
        # The build is what was asked for; what a sweep leaves is found by the next one.
        pass
    elif task.stage in HOUSEKEEPING or task.stage in PARTLESS:
        # No version can carry the reason.
        run = replace(run, error_reason=task.error_reason, error_message=task.error_message)
        if task.stage in BUILD_STAGES:
            run, more = _sweep(run, task)
            effects.extend(more)
    else:
        failures = tuple(PartFailure(part, task.error_reason, task.error_message) for part in task.parts)
        run, more = fail_parts(run, task, failures)
        effects.extend(more)
    run, ending = settle(run, failed)
    return Decision(Verdict.EXHAUSTED, run, failed, (*effects, *ending))


def cancel_task(run: Run, task: Task) -> Decision:
    """End a task whose run was cancelled."""
    cancelled = replace(task, state=TaskState.CANCELLED)
    run, more = settle(closing(run, task), cancelled)
    return Decision(Verdict.CANCELLED, run, cancelled, more)


def settle(run: Run, task: Task | None) -> tuple[Run, tuple[Effect, ...]]:
    """End the run, or begin its clean-up, when its last task is over."""
    if run.state is RunState.CANCELLING and task is not None and task.stage is Stage.CLEANUP and task.batch == _CANCEL:
        return replace(run, state=RunState.CANCELLED), ()
    if run.open_task_count > 0 or run.accepts_until_seconds > 0.0:
        return run, ()
    if run.state is RunState.CANCELLING and run.kind in BUILD_RUNS:
        if task is not None and task.stage in SWEEP_STAGES:
            return replace(run, state=RunState.CANCELLED), ()
        run, more = _sweep(run, task)
        return run, tuple(more)
    if run.state is RunState.CANCELLING and run.pipeline[0] in PARTLESS:
        # It has written nothing under its own name; what it had accepted are runs of their own.
        return replace(run, state=RunState.CANCELLED), ()
    if run.state is RunState.CANCELLING:
        cleanup = new_task(run, _CANCEL, Stage.CLEANUP, (), payload={SCOPE: SCOPE_RUN})
        return replace(run, open_task_count=1), (Dispatch(cleanup, is_new=True, all_parts_of_run=True),)
    if run.state in (RunState.PENDING, RunState.RUNNING):
        has_good_part = run.succeeded_part_count > 0 or run.part_count == 0
        is_good = has_good_part and (run.kind is RunKind.INGEST or not run.error_reason)
        return replace(run, state=RunState.SUCCEEDED if is_good else RunState.FAILED), ()
    return run, ()


def closing(run: Run, task: Task) -> Run:
    """Count a task as over."""
    return replace(run, open_task_count=run.open_task_count - int(counts(run, task)), sequence=run.sequence + 1)


def counts(run: Run, task: Task) -> bool:
    """Tell whether a run waits for a task; not for the second look at what it left behind."""
    if task.stage in SWEEP_STAGES:
        return not task.batch.endswith(_LATE)
    return task.stage is not Stage.VERIFY or run.kind is RunKind.PURGE


def _sweep(run: Run, task: Task | None) -> tuple[Run, list[Effect]]:
    """Have removed what a build wrote that is not published."""
    epoch = task.epoch if task is not None else 0
    payload = dict(task.payload) if task is not None else {}
    sweep = new_task(run, _CANCEL, run.pipeline[-1], (), epoch=epoch, payload=payload)
    return replace(run, open_task_count=run.open_task_count + 1), [Dispatch(sweep, is_new=True)]


def fail_parts(run: Run, task: Task, failures: Sequence[PartFailure]) -> tuple[Run, list[Effect]]:
    """End parts with a reason, and have removed what they may have put into the index."""
    effects: list[Effect] = [FailParts(task.stage, tuple(failures))]
    run = replace(run, failed_part_count=run.failed_part_count + len(failures))
    if task.stage in (Stage.INDEX, Stage.PUBLISH):
        parts = [failure.ordinal for failure in failures]
        batch = f"{task.batch}-x{run.failed_part_count}"
        scope = {SCOPE: SCOPE_RECORDS}
        cleanup = new_task(run, batch, Stage.CLEANUP, parts, epoch=task.epoch, payload=scope)
        effects.append(Dispatch(cleanup, is_new=True))
        run = replace(run, open_task_count=run.open_task_count + 1)
    return run, effects
