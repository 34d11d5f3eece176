"""What happens to a run and its tasks, event by event; no I/O, no clock.

The order that these functions enforce (reliability rule 3): claim with a new epoch and a lease, work, write records,
commit where the epoch is still one's own, then acknowledge. A message stands for one attempt: an attempt that is over
gets a new message through the outbox in the transaction that ended it, so that redelivery by the broker is only for
deaths, and a late acknowledgement by a zombie removes nothing that anybody needs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from corpusmesh_core.orchestration.transitions import (
    cancel_task,
    closing,
    continue_task,
    exhaust,
    fail_parts,
    holds,
    must_stop,
    new_task,
    pass_on,
    send_again,
    settle,
    try_again,
)
from corpusmesh_core.orchestration.values import (
    BUILD_RUNS,
    BUILD_STAGES,
    CANCELLABLE,
    VERSION_STATE_BY_STAGE,
    Ack,
    Advance,
    CancelParts,
    Decision,
    Dispatch,
    Effect,
    FailureKind,
    MoveParts,
    PartFailure,
    Policy,
    Run,
    RunState,
    Stage,
    Task,
    TaskFailure,
    TaskState,
    Verdict,
)

DEATH_REASON = "WORKER_DIED"
_DEATH_MESSAGE = "the process that worked on it ended without an answer"


def extend(
    run: Run,
    batches: Sequence[Sequence[int]],
    *,
    accepts_until_seconds: float = 0.0,
    payload: dict[str, str] | None = None,
) -> Decision:
    """Add parts to a run, the first ones included.

    Args:
        run: The run.
        batches: Parts of each task of the first stage.
        accepts_until_seconds: Until when more may be added; 0 if these are the last.
        payload: Values for the first stage.

    Returns:
        COMMITTED with one task a batch (a run that has nothing to do ends at once), or OBSOLETE if the run takes no
        more parts.
    """
    is_new = run.state is RunState.PENDING and run.batch_count == 0
    if not is_new and (run.accepts_until_seconds <= 0.0 or run.state not in (RunState.PENDING, RunState.RUNNING)):
        return Decision(Verdict.OBSOLETE, run, None)
    effects: list[Effect] = []
    for place, parts in enumerate(batches, start=run.batch_count):
        task = new_task(run, str(place), run.pipeline[0], parts, payload=payload)
        effects.append(Dispatch(task, is_new=True))
    run = replace(
        run,
        part_count=run.part_count + sum(len(parts) for parts in batches),
        batch_count=run.batch_count + len(batches),
        open_task_count=run.open_task_count + len(batches),
        accepts_until_seconds=accepts_until_seconds,
        sequence=run.sequence + 1,
    )
    run, ending = settle(run, None)
    return Decision(Verdict.COMMITTED, run, None, (*effects, *ending))


def claim(run: Run, task: Task, *, dispatch: int, worker: str, now_seconds: float, policy: Policy) -> Decision:
    """Decide whether a worker may begin.

    Args:
        run: Its run.
        task: The task.
        dispatch: Number of the message that the worker holds.
        worker: Who asks.
        now_seconds: The database's clock.
        policy: Bounds.

    Returns:
        CLAIMED with the new epoch and lease; BUSY or NOT_YET with a delay; OBSOLETE if there is nothing to do; or
        what a dead claim led to (REDISPATCHED, SPLIT, EXHAUSTED, CANCELLED).
    """
    if not task.state.is_open:
        return Decision(Verdict.OBSOLETE, run, task)
    is_current = dispatch >= task.dispatch
    if task.state is TaskState.RUNNING:
        if task.lease_until_seconds > now_seconds:
            # An older message of a task that runs under a newer one is superfluous; the current one must stay.
            delay = max(0.1, task.lease_until_seconds - now_seconds)
            return Decision(Verdict.BUSY, run, task, ack=Ack.NAK if is_current else Ack.ACK, delay_seconds=delay)
        return expire(run, task, now_seconds=now_seconds, policy=policy)
    if must_stop(run, task):
        return cancel_task(run, task)
    if task.not_before_seconds > now_seconds:
        delay = max(0.1, task.not_before_seconds - now_seconds)
        return Decision(Verdict.NOT_YET, run, task, ack=Ack.NAK if is_current else Ack.ACK, delay_seconds=delay)
    claimed = replace(
        task,
        state=TaskState.RUNNING,
        attempt=task.attempt + 1,
        epoch=task.epoch + 1,
        lease_until_seconds=now_seconds + policy.lease_seconds,
        worker=worker,
    )
    if run.state is RunState.PENDING:
        run = replace(run, state=RunState.RUNNING, sequence=run.sequence + 1)
    return Decision(Verdict.CLAIMED, run, claimed, ack=Ack.KEEP)


def heartbeat(run: Run, task: Task, *, epoch: int, now_seconds: float, policy: Policy) -> Decision:
    """Extend a lease, and learn whether to stop.

    Args:
        run: Its run.
        task: The task.
        epoch: Epoch of the worker's claim.
        now_seconds: The database's clock.
        policy: Bounds.

    Returns:
        CONTINUES with the longer lease, CANCELLED if the worker must stop, FENCED if it is not its task any more.
    """
    if not holds(task, epoch):
        return Decision(Verdict.FENCED, run, task, ack=Ack.DROP)
    if must_stop(run, task):
        return Decision(Verdict.CANCELLED, run, task, ack=Ack.KEEP)
    longer = replace(task, lease_until_seconds=now_seconds + policy.lease_seconds)
    return Decision(Verdict.CONTINUES, run, longer, ack=Ack.KEEP)


def complete(
    run: Run,
    task: Task,
    *,
    epoch: int,
    failures: Sequence[PartFailure],
    now_seconds: float,
    policy: Policy,
    advance: Advance | None = None,
) -> Decision:
    """Commit a stage and create the next one for the parts that survive.

    Args:
        run: Its run.
        task: The task.
        epoch: Epoch of the worker's claim.
        failures: Parts that cannot go on; parts that are not the task's own are ignored.
        now_seconds: The database's clock.
        policy: Bounds.
        advance: What comes behind it; None for the next stage of its pipeline.

    Returns:
        COMMITTED; CANCELLED if the run was cancelled meanwhile; FENCED if the claim is not valid any more.
    """
    if not holds(task, epoch):
        return Decision(Verdict.FENCED, run, task, ack=Ack.DROP)
    if must_stop(run, task):
        return cancel_task(run, task)
    advance = advance or Advance()
    effects: list[Effect] = []
    lost = [failure for failure in failures if failure.ordinal in task.parts]
    lost_ordinals = {failure.ordinal for failure in lost}
    survivors = tuple(part for part in task.parts if part not in lost_ordinals)
    passed = dict(run.passed)
    for stage in (task.stage, *advance.skips):
        passed[stage] = passed.get(stage, 0) + len(survivors)
    if task.stage in BUILD_STAGES and not advance.goes_on:
        passed[task.stage] = 1
    skipped = dict(run.skipped)
    for stage in advance.skips:
        skipped[stage] = skipped.get(stage, 0) + len(survivors)
    run = replace(closing(run, task), passed=passed, skipped=skipped)
    if lost:
        run, more = fail_parts(run, task, lost)
        effects.extend(more)
    done = replace(task, state=TaskState.DONE, error_reason="", error_message="")
    if advance.goes_on:
        run, more = continue_task(run, done, now_seconds, policy, advance)
        effects.extend(more)
    elif survivors or task.stage in BUILD_STAGES:
        run, more = pass_on(run, done, survivors, now_seconds, policy, advance)
        effects.extend(more)
    run, ending = settle(run, done)
    return Decision(Verdict.COMMITTED, run, done, (*effects, *ending))


def fail(run: Run, task: Task, *, epoch: int, failure: TaskFailure, now_seconds: float, policy: Policy) -> Decision:
    """Report that a task's work raised an error.

    Args:
        run: Its run.
        task: The task.
        epoch: Epoch of the worker's claim.
        failure: The error.
        now_seconds: The database's clock.
        policy: Bounds.

    Returns:
        REDISPATCHED with a delay, SPLIT, EXHAUSTED, CANCELLED or FENCED.
    """
    if not holds(task, epoch):
        return Decision(Verdict.FENCED, run, task, ack=Ack.DROP)
    if must_stop(run, task):
        return cancel_task(run, task)
    task = replace(task, error_reason=failure.reason, error_message=failure.message)
    if failure.kind is FailureKind.DEFERRED:
        if task.deferral_count < policy.max_deferrals:
            deferred = replace(task, deferral_count=task.deferral_count + 1, attempt=task.attempt - 1)
            wait = max(failure.delay_seconds, policy.backoff_seconds(deferred.deferral_count))
            return send_again(run, deferred, now_seconds + wait)
        return exhaust(run, task)
    if failure.kind is FailureKind.PERMANENT and len(task.parts) <= 1:
        return exhaust(run, task)
    return try_again(run, task, now_seconds, policy, split_from=1 if failure.kind is FailureKind.PERMANENT else 2)


def expire(run: Run, task: Task, *, now_seconds: float, policy: Policy) -> Decision:
    """Take a task away from a worker that has not been heard of.

    Args:
        run: Its run.
        task: The task.
        now_seconds: The database's clock.
        policy: Bounds.

    Returns:
        What the death led to (a batch is split at once, so that a poison document is alone at its next try), or
        BUSY if the lease is still good, OBSOLETE if nobody holds the task.
    """
    if task.state is not TaskState.RUNNING:
        return Decision(Verdict.OBSOLETE, run, task)
    if task.lease_until_seconds > now_seconds:
        return Decision(Verdict.BUSY, run, task, ack=Ack.KEEP)
    if must_stop(run, task):
        return cancel_task(run, task)
    task = replace(task, error_reason=DEATH_REASON, error_message=_DEATH_MESSAGE)
    return try_again(run, task, now_seconds, policy, split_from=1)


def release(run: Run, task: Task, *, epoch: int, now_seconds: float) -> Decision:
    """Give a task back unharmed: its worker is told to end.

    Args:
        run: Its run.
        task: The task.
        epoch: Epoch of the worker's claim.
        now_seconds: The database's clock.

    Returns:
        REDISPATCHED at once, CANCELLED or FENCED.
    """
    if not holds(task, epoch):
        return Decision(Verdict.FENCED, run, task, ack=Ack.DROP)
    if must_stop(run, task):
        return cancel_task(run, task)
    return send_again(run, replace(task, attempt=task.attempt - 1), now_seconds)


def redispatch(run: Run, task: Task, *, now_seconds: float) -> Decision:
    """Send a waiting task's message again: the broker has lost it.

    Args:
        run: Its run.
        task: The task.
        now_seconds: The database's clock.

    Returns:
        REDISPATCHED, or OBSOLETE if the task does not wait.
    """
    if task.state is not TaskState.PENDING:
        return Decision(Verdict.OBSOLETE, run, task)
    return send_again(run, task, max(now_seconds, task.not_before_seconds))


def request_cancel(run: Run, *, pending_task_count: int) -> Decision:
    """Stop a run on request.

    Args:
        run: The run.
        pending_task_count: Its tasks in state PENDING that are not housekeeping; the store cancels them in the same
            transaction.

    Returns:
        COMMITTED with the run CANCELLING (or already in its clean-up); OBSOLETE if it has ended or cannot be
        cancelled.
    """
    if run.state.is_ended or run.state is RunState.CANCELLING or run.kind not in CANCELLABLE:
        return Decision(Verdict.OBSOLETE, run, None)
    if run.kind in BUILD_RUNS and (run.passed.get(run.pipeline[0]) or run.error_reason):
        # The build is published, or given up: what is left to do is to tidy up.
        return Decision(Verdict.OBSOLETE, run, None)
    run = replace(
        run,
        state=RunState.CANCELLING,
        accepts_until_seconds=0.0,
        open_task_count=run.open_task_count - pending_task_count,
        sequence=run.sequence + 1,
    )
    run, more = settle(run, None)
    return Decision(Verdict.COMMITTED, run, None, (CancelParts(), *more))


def retry(
    run: Run, failed: Iterable[tuple[Stage, Sequence[int], int]], *, payload: dict[str, str] | None = None
) -> Decision:
    """Start failed parts again from the stage at which they failed.

    Args:
        run: The run; it must have ended, so that no clean-up of its failed parts is still under way.
        failed: Stage, parts and highest epoch so far, for each task to make.
        payload: Values for the stages at which they start.

    Returns:
        COMMITTED with the new tasks; OBSOLETE if there is nothing to start, or the run goes on or was cancelled.
    """
    groups = [group for group in failed if group[1]]
    if not groups or run.state not in (RunState.SUCCEEDED, RunState.FAILED):
        return Decision(Verdict.OBSOLETE, run, None)
    effects: list[Effect] = []
    for place, (stage, parts, epoch) in enumerate(groups):
        task = new_task(run, f"r{run.retry_count + 1}-{place}", stage, parts, epoch=epoch, payload=payload)
        effects.append(Dispatch(task, is_new=True))
        if stage in VERSION_STATE_BY_STAGE:
            effects.append(MoveParts(tuple(parts), VERSION_STATE_BY_STAGE[stage]))
    run = replace(
        run,
        state=RunState.RUNNING,
        retry_count=run.retry_count + 1,
        open_task_count=run.open_task_count + len(groups),
        failed_part_count=max(0, run.failed_part_count - sum(len(parts) for _, parts, _ in groups)),
        sequence=run.sequence + 1,
        error_reason="",
        error_message="",
    )
    return Decision(Verdict.COMMITTED, run, None, tuple(effects))
