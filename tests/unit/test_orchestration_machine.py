"""Rules of the state machine and of publishing, one by one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.orchestration import machine
from corpusmesh_core.orchestration.batching import plan_batches
from corpusmesh_core.orchestration.values import (
    Ack,
    Advance,
    DeadLetter,
    Dispatch,
    FailureKind,
    Lane,
    PartFailure,
    Policy,
    Run,
    RunKind,
    RunState,
    Stage,
    Task,
    TaskFailure,
    TaskState,
    Verdict,
)
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_core.tenancy.access import Access, may_access
from corpusmesh_core.tenancy.publishing import VersionRef, load_bitmap, plan_publish, plan_withdrawal
from corpusmesh_core.tenancy.values import Permission, document_id_for_name

POLICY = Policy()


def begin(parts: tuple[int, ...] = (1, 2)) -> tuple[Run, Task]:
    run = Run("r", RunKind.INGEST, RunState.PENDING, Lane.BULK)
    decision = machine.extend(run, [parts])
    [effect] = decision.effects
    assert isinstance(effect, Dispatch)
    return decision.run, effect.task


def claimed(run: Run, task: Task, now_seconds: float = 0.0) -> tuple[Run, Task]:
    decision = machine.claim(run, task, dispatch=task.dispatch, worker="w", now_seconds=now_seconds, policy=POLICY)
    assert decision.verdict is Verdict.CLAIMED
    assert decision.task is not None
    return decision.run, decision.task


def test_claim_raises_the_epoch_and_keeps_the_message() -> None:
    run, task = claimed(*begin())
    assert (run.state, task.epoch, task.attempt, task.lease_until_seconds) == (RunState.RUNNING, 1, 1, 30.0)


def test_fenced_events_drop_the_message_and_change_nothing() -> None:
    run, task = claimed(*begin())
    for decision in (
        machine.complete(run, task, epoch=0, failures=[], now_seconds=0, policy=POLICY),
        machine.heartbeat(run, task, epoch=2, now_seconds=0, policy=POLICY),
        machine.release(run, task, epoch=0, now_seconds=0),
    ):
        assert (decision.verdict, decision.ack, decision.effects) == (Verdict.FENCED, Ack.DROP, ())
        assert (decision.run, decision.task) == (run, task)


def test_next_stage_covers_the_survivors_and_goes_on_from_the_epoch() -> None:
    run, task = claimed(*begin((1, 2, 3)))
    decision = machine.complete(
        run, task, epoch=1, failures=[PartFailure(2, "X", "x"), PartFailure(99, "Y", "y")], now_seconds=0, policy=POLICY
    )
    [following] = [effect.task for effect in decision.effects if isinstance(effect, Dispatch)]
    assert (following.stage, following.parts, following.epoch) == (Stage.CHUNK, (1, 3), 1)
    assert (decision.run.failed_part_count, decision.run.open_task_count) == (1, 1)


def test_run_without_survivors_fails() -> None:
    run, task = claimed(*begin((1,)))
    decision = machine.complete(run, task, epoch=1, failures=[PartFailure(1, "X", "x")], now_seconds=0, policy=POLICY)
    assert (decision.run.state, decision.run.open_task_count) == (RunState.FAILED, 0)


def test_permanent_error_of_one_part_ends_it_with_a_dead_letter_at_once() -> None:
    run, task = claimed(*begin((1,)))
    failure = TaskFailure(FailureKind.PERMANENT, "DOCUMENT_CORRUPT", "it is corrupt")
    decision = machine.fail(run, task, epoch=1, failure=failure, now_seconds=0, policy=POLICY)
    assert decision.verdict is Verdict.EXHAUSTED
    assert any(isinstance(effect, DeadLetter) for effect in decision.effects)


def test_deferrals_are_bounded_too() -> None:
    run, task = begin((1,))
    failure = TaskFailure(FailureKind.DEFERRED, "AWAY", "it is away")
    policy = replace(POLICY, max_deferrals=5)
    for count in range(100):
        run, task = claimed(run, task, now_seconds=1e6 * (count + 1))
        decision = machine.fail(run, task, epoch=task.epoch, failure=failure, now_seconds=0, policy=policy)
        if decision.verdict is Verdict.EXHAUSTED:
            assert count == 5
            return
        assert decision.task is not None
        run, task = decision.run, decision.task
    pytest.fail("it went on for ever")


def test_purge_looks_again_after_the_delay_before_it_ends() -> None:
    run = Run("r", RunKind.PURGE, RunState.PENDING, Lane.BULK)
    first = machine.extend(run, [(1,)])
    [effect] = first.effects
    assert isinstance(effect, Dispatch)
    run, task = claimed(first.run, effect.task)
    decision = machine.complete(run, task, epoch=1, failures=[], now_seconds=100.0, policy=POLICY)
    [again] = [effect.task for effect in decision.effects if isinstance(effect, Dispatch)]
    assert (again.stage, again.not_before_seconds) == (Stage.VERIFY, 100.0 + POLICY.verify_delay_seconds)
    assert decision.run.state is RunState.RUNNING
    run, task = claimed(decision.run, again, now_seconds=1000.0)
    assert (
        machine.complete(run, task, epoch=task.epoch, failures=[], now_seconds=1000.0, policy=POLICY).run.state
        is RunState.SUCCEEDED
    )


def begin_sync() -> tuple[Run, Task]:
    first = machine.extend(Run("s", RunKind.SYNC, RunState.PENDING, Lane.BULK), [()], payload={"source": "docs"})
    [effect] = first.effects
    assert isinstance(effect, Dispatch)
    assert (effect.task.stage, effect.task.parts, first.run.open_task_count) == (Stage.SYNC, (), 1)
    return claimed(first.run, effect.task)


def test_sync_without_parts_ends_with_its_only_task() -> None:
    run, task = begin_sync()
    decision = machine.complete(run, task, epoch=1, failures=[], now_seconds=0, policy=POLICY)
    assert (decision.run.state, decision.run.part_count, decision.run.succeeded_part_count) == (
        RunState.SUCCEEDED,
        0,
        0,
    )
    assert decision.effects == ()


def test_sync_that_goes_on_gets_another_task_with_the_same_payload() -> None:
    run, task = begin_sync()
    decision = machine.complete(
        run, task, epoch=1, failures=[], now_seconds=0, policy=POLICY, advance=Advance(goes_on=True)
    )
    [following] = [effect.task for effect in decision.effects if isinstance(effect, Dispatch)]
    assert (following.task_id, following.payload, following.epoch) == ("s.1.sync", {"source": "docs"}, 1)
    assert (decision.run.state, decision.run.open_task_count) == (RunState.RUNNING, 1)


def test_sync_fails_with_the_reason_of_its_task_and_is_not_tried_again_where_that_cannot_help() -> None:
    run, task = begin_sync()
    failure = TaskFailure(FailureKind.PERMANENT, "SOURCE_UNREADABLE", "the folder is gone")
    decision = machine.fail(run, task, epoch=1, failure=failure, now_seconds=0, policy=POLICY)
    assert decision.verdict is Verdict.EXHAUSTED
    assert (decision.run.state, decision.run.error_reason) == (RunState.FAILED, "SOURCE_UNREADABLE")


def test_sync_of_a_dead_worker_is_given_up_after_its_attempts_and_never_split() -> None:
    run, task = begin_sync()
    for attempt in range(1, POLICY.max_attempts + 1):
        decision = machine.expire(run, task, now_seconds=1e6 * attempt, policy=POLICY)
        if decision.verdict is Verdict.EXHAUSTED:
            break
        assert decision.verdict is Verdict.REDISPATCHED
        assert decision.task is not None
        run, task = claimed(decision.run, decision.task, now_seconds=1e6 * attempt + 1000)
    assert (decision.run.state, decision.run.error_reason) == (RunState.FAILED, machine.DEATH_REASON)
    assert attempt == POLICY.max_attempts


def test_cancelled_sync_ends_without_a_clean_up() -> None:
    run, task = begin_sync()
    cancelling = machine.request_cancel(run, pending_task_count=0)
    assert cancelling.run.state is RunState.CANCELLING
    stopped = machine.release(cancelling.run, task, epoch=1, now_seconds=0)
    assert (stopped.run.state, stopped.run.open_task_count, stopped.effects) == (RunState.CANCELLED, 0, ())


def begin_tree(kind: RunKind = RunKind.TREE) -> tuple[Run, Task]:
    run = Run("tree", kind, RunState.PENDING, Lane.BULK)
    decision = machine.extend(run, [()], payload={"full": ""})
    [effect] = decision.effects
    assert isinstance(effect, Dispatch)
    return decision.run, effect.task


def done(run: Run, task: Task, advance: Advance | None = None) -> tuple[Run, list[Task]]:
    """Claim a task and complete it; the run and the tasks that follow."""
    run, task = claimed(run, task, now_seconds=task.not_before_seconds)
    decision = machine.complete(
        run, task, epoch=task.epoch, failures=[], now_seconds=task.not_before_seconds, policy=POLICY, advance=advance
    )
    assert decision.verdict is Verdict.COMMITTED
    return decision.run, [effect.task for effect in decision.effects if isinstance(effect, Dispatch)]


def test_build_goes_on_is_swept_and_does_not_wait_for_the_second_look() -> None:
    run, [following] = done(*begin_tree(), Advance({"draft": "key"}, goes_on=True))
    assert (following.stage, following.payload) == (Stage.BUILD_TREE, {"draft": "key"})
    run, [sweep] = done(run, following)
    assert (sweep.stage, run.state, run.open_task_count) == (Stage.SWEEP_TREE, RunState.RUNNING, 1)
    run, [late] = done(run, sweep, Advance({"late": "x"}, goes_on=True, is_late=True))
    assert (run.state, run.open_task_count) == (RunState.SUCCEEDED, 0)
    assert late.not_before_seconds == POLICY.verify_delay_seconds
    run, more = done(run, late, Advance({"late": "x"}, goes_on=True))
    assert (run.state, [task.not_before_seconds for task in more]) == (RunState.SUCCEEDED, [0.0])
    assert done(run, more[0]) == (replace(run, sequence=run.sequence + 1, passed=run.passed), [])


def test_cancelled_build_is_swept_before_its_run_ends_and_a_published_one_is_not_cancelled() -> None:
    run, task = claimed(*begin_tree())
    run = machine.request_cancel(run, pending_task_count=0).run
    cancelled = machine.complete(run, task, epoch=task.epoch, failures=[], now_seconds=0, policy=POLICY)
    assert (cancelled.verdict, cancelled.run.state) == (Verdict.CANCELLED, RunState.CANCELLING)
    [effect] = cancelled.effects
    assert isinstance(effect, Dispatch)
    ended, _ = done(cancelled.run, effect.task)
    assert ended.state is RunState.CANCELLED

    run, _ = done(*begin_tree())
    assert machine.request_cancel(run, pending_task_count=0).verdict is Verdict.OBSOLETE


def test_build_that_is_given_up_is_swept_and_a_sweep_that_is_given_up_fails_no_build() -> None:
    failure = TaskFailure(FailureKind.PERMANENT, "TREE_TOO_LARGE", "it is too large")
    run, task = claimed(*begin_tree())
    failed = machine.fail(run, task, epoch=task.epoch, failure=failure, now_seconds=0, policy=POLICY)
    [sweep] = [effect.task for effect in failed.effects if isinstance(effect, Dispatch)]
    assert (sweep.stage, failed.run.state) == (Stage.SWEEP_TREE, RunState.RUNNING)
    assert machine.request_cancel(failed.run, pending_task_count=0).verdict is Verdict.OBSOLETE
    ended, _ = done(failed.run, sweep)
    assert (ended.state, ended.error_reason) == (RunState.FAILED, "TREE_TOO_LARGE")

    run, [sweep] = done(*begin_tree())
    run, task = claimed(run, sweep)
    given_up = machine.fail(run, task, epoch=task.epoch, failure=failure, now_seconds=0, policy=POLICY)
    assert (given_up.run.state, given_up.run.error_reason) == (RunState.SUCCEEDED, "")
    run, task = claimed(*begin_tree(RunKind.TREE_REMOVAL))
    given_up = machine.fail(run, task, epoch=task.epoch, failure=failure, now_seconds=0, policy=POLICY)
    assert given_up.run.state is RunState.FAILED, "a removal is nothing but its sweep"


def test_ended_run_cannot_be_cancelled_or_extended() -> None:
    run = Run("r", RunKind.INGEST, RunState.SUCCEEDED, Lane.BULK, part_count=1, batch_count=1)
    assert machine.request_cancel(run, pending_task_count=0).verdict is Verdict.OBSOLETE
    assert machine.extend(run, [(2,)]).verdict is Verdict.OBSOLETE


def test_finished_task_makes_every_message_obsolete() -> None:
    run, task = begin()
    for state in (TaskState.DONE, TaskState.FAILED, TaskState.CANCELLED, TaskState.SPLIT):
        decision = machine.claim(run, replace(task, state=state), dispatch=9, worker="w", now_seconds=0, policy=POLICY)
        assert (decision.verdict, decision.ack) == (Verdict.OBSOLETE, Ack.ACK)


@given(st.lists(st.integers(0, 100), max_size=50), st.integers(1, 8), st.integers(1, 120))
def test_batches_keep_order_and_bounds(sizes: list[int], max_part_count: int, max_batch_bytes: int) -> None:
    batches = plan_batches(enumerate(sizes), max_part_count=max_part_count, max_batch_bytes=max_batch_bytes)
    assert [part for batch in batches for part in batch] == list(range(len(sizes)))
    for batch in batches:
        assert 1 <= len(batch) <= max_part_count
        assert len(batch) == 1 or sum(sizes[part] for part in batch) <= max_batch_bytes


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=4), max_size=8))
def test_published_documents_show_their_newest_version_and_come_back_by_withdrawal(
    rounds: list[list[tuple[int, bool]]],
) -> None:
    """Publish in any order; each document shows one version, and a withdrawal leaves the newest of the others."""
    bitmap = b""
    refs: list[VersionRef] = []
    superseded: dict[int, int] = {}
    withdrawn: set[int] = set()
    for uploads in rounds:
        fresh = []
        for document, _ in uploads:
            number = 1 + sum(ref.document_id == str(document) for ref in refs)
            fresh.append(VersionRef(len(refs), str(document), number))
            refs.append(fresh[-1])
        siblings = [replace(ref, superseded=superseded.get(ref.ordinal)) for ref in refs]
        plan = plan_publish(bitmap, reversed(fresh), siblings)
        bitmap = plan.ordinals
        superseded |= plan.superseded
        if uploads and uploads[0][1]:
            gone = {ref.ordinal for ref in fresh}
            withdrawn |= gone
            restorable = {ref.ordinal for ref in refs} - withdrawn
            bitmap, _ = plan_withdrawal(bitmap, gone, superseded, restorable)
        newest: dict[str, int] = {}
        for ref in refs:
            if ref.ordinal not in withdrawn:
                newest[ref.document_id] = ref.ordinal
        assert set(load_bitmap(bitmap)) == set(newest.values())


@pytest.mark.parametrize(
    ("role", "is_owner", "permission", "expected"),
    [
        (Role.VIEWER, False, Permission.TEAM, {Access.READ}),
        (Role.EDITOR, False, Permission.TEAM, {Access.READ, Access.WRITE}),
        (Role.ADMIN, False, Permission.TEAM, set(Access)),
        (Role.ADMIN, False, Permission.PRIVATE, set()),
        (Role.EDITOR, False, Permission.PRIVATE, set()),
        (Role.EDITOR, True, Permission.PRIVATE, set(Access)),
        (Role.VIEWER, True, Permission.PRIVATE, {Access.READ}),
        (Role.OWNER, False, Permission.PRIVATE, set(Access)),
    ],
)
def test_access_table(role: Role, is_owner: bool, permission: Permission, expected: set[Access]) -> None:
    identity = Identity("t", "me", role, Scope.ADMIN)
    owner = "me" if is_owner else "other"
    assert {access for access in Access if may_access(identity, owner, permission, access)} == expected


@given(st.text(max_size=300))
def test_document_ids_fit_the_pattern_and_tell_names_apart(name: str) -> None:
    made = document_id_for_name(name)
    assert 1 <= len(made) <= 63
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert made != document_id_for_name(name + "x")
