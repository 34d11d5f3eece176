"""A seeded simulation of the whole orchestration: the real state machine under kills, pauses, losses and cancels.

One seed is one world: workers (which may die or freeze at any step and wake up later as zombies), a broker that
redelivers, duplicates, loses its acknowledgements and now and then its whole stream, a relay, a sweeper, a user who
cancels. When the world is quiet again a checker compares what is there with what must be there. The mutations at the
end prove that the checker sees what it is for. `CORPUSMESH_SIMULATION_SEEDS` sets the number of seeds.
"""

import heapq
import os
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace

import pytest

from corpusmesh_core.orchestration import machine
from corpusmesh_core.orchestration.transitions import holds, must_stop
from corpusmesh_core.orchestration.values import (
    BUILD_RUNS,
    BUILD_STAGES,
    HOUSEKEEPING,
    SWEEP_STAGES,
    Ack,
    Advance,
    CancelParts,
    Decision,
    Dispatch,
    FailParts,
    FailureKind,
    Lane,
    MoveParts,
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
from corpusmesh_core.tenancy.publishing import VersionRef, load_bitmap, plan_publish, plan_withdrawal
from corpusmesh_core.tenancy.values import VersionState

SEED_COUNT = int(os.environ.get("CORPUSMESH_SIMULATION_SEEDS", "2000"))
RECORDS_PER_PART = 2
ITEMS_PER_SYNC = 5
SYNC_RUN = "sync"
SLICES_PER_TREE = 3
NODES_PER_SLICE = 2
FIRST_NODE_ORDINAL = 1000
ACK_WAIT_SECONDS = 6.0
HORIZON_SECONDS = 3000.0
POLICY = Policy(
    lease_seconds=5.0, max_attempts=6, retry_backoff_seconds=0.5, max_backoff_seconds=4.0, verify_delay_seconds=90.0
)
LONGEST_PAUSE_SECONDS = 30.0
END_OF_FAULTS_SECONDS = 120.0

Steps = Generator[float, None, None]


@dataclass(frozen=True)
class Mutation:
    """A worker or store that breaks one rule."""

    name: str = "none"


@dataclass
class Message:
    message_id: int
    task_id: str
    dispatch: int
    visible_at: float = 0.0
    delivery: int = 0


@dataclass
class Version:
    ordinal: int
    document_id: str
    number: int
    run_id: str
    state: VersionState = VersionState.PENDING
    reason: str = ""
    was_published: bool = False
    supersedes: int | None = None


@dataclass
class World:
    seed: int
    mutation: str = "none"
    sweeper: bool = True
    rng: random.Random = field(init=False)
    now: float = 0.0
    runs: dict[str, Run] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    versions: dict[int, Version] = field(default_factory=dict)
    outbox: list[tuple[float, int, str, int]] = field(default_factory=list)
    stream: dict[int, Message] = field(default_factory=dict)
    index: dict[tuple[float, ...], int] = field(default_factory=dict)
    bitmap: bytes = b""
    history: list[tuple[str, frozenset[int]]] = field(default_factory=list)
    next_message_id: int = 1
    poison: set[int] = field(default_factory=set)
    bad: set[int] = field(default_factory=set)
    taken_in: set[int] = field(default_factory=set)
    """Items of the source whose versions were accepted."""
    is_sync_cancelled: bool = False
    nodes: set[int] = field(default_factory=set)
    """Ordinals of the tree's nodes that are published."""
    known_nodes: set[int] = field(default_factory=set)
    """Ordinals of nodes whose records may be in the index, beside drafts."""
    drafts: dict[str, dict[str, int]] = field(default_factory=dict)
    """Ordinals that a run has reserved, by slot."""
    published_trees: list[str] = field(default_factory=list)
    """Runs that have published the tree, in order."""
    cancelled_trees: set[str] = field(default_factory=set)
    is_tree_poison: bool = False
    is_tree_removed: bool = False

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    @property
    def build_kinds(self) -> tuple[RunKind, RunKind]:
        """Half of the worlds build a tree, the others a graph."""
        return (RunKind.TREE, RunKind.TREE_REMOVAL) if self.seed % 2 else (RunKind.GRAPH, RunKind.GRAPH_REMOVAL)

    # The store: each method is one transaction.

    def apply(self, decision: Decision) -> None:
        self.runs[decision.run.run_id] = decision.run
        if decision.task is not None:
            self.tasks[decision.task.task_id] = decision.task
        for effect in decision.effects:
            match effect:
                case Dispatch(task, is_new, all_parts):
                    if all_parts:
                        parts = tuple(v.ordinal for v in self.versions.values() if v.run_id == task.run_id)
                        task = replace(task, parts=parts)
                    if is_new:
                        assert task.task_id not in self.tasks, f"task {task.task_id} made twice"
                        self.tasks[task.task_id] = task
                    self.outbox.append((task.not_before_seconds, self.next_message_id, task.task_id, task.dispatch))
                    self.next_message_id += 1
                case FailParts(_, failures):
                    for failure in failures:
                        self.versions[failure.ordinal].state = VersionState.FAILED
                        self.versions[failure.ordinal].reason = failure.reason
                case MoveParts(parts, state):
                    for part in parts:
                        self.versions[part].state = state
                case CancelParts():
                    self._cancel_parts(decision.run.run_id)
                case _:
                    pass

    def _cancel_parts(self, run_id: str) -> None:
        for task in list(self.tasks.values()):
            if task.run_id == run_id and task.state is TaskState.PENDING and task.stage not in HOUSEKEEPING:
                self.tasks[task.task_id] = replace(task, state=TaskState.CANCELLED)
        mine = [v for v in self.versions.values() if v.run_id == run_id]
        chain = {v.ordinal: v.supersedes for v in self.versions.values() if v.supersedes is not None}
        complete = [
            v.ordinal
            for v in self.versions.values()
            if v.state is VersionState.READY and v.was_published and v.run_id != run_id
        ]
        self.bitmap, changed = plan_withdrawal(
            self.bitmap, [v.ordinal for v in mine if v.was_published], chain, complete
        )
        if changed:
            self.history.append(("cancel", frozenset(load_bitmap(self.bitmap))))
        for version in mine:
            if version.state is not VersionState.FAILED:
                version.state = VersionState.CANCELLED
                version.reason = "CANCELLED"

    def start(self, run_id: str, versions: list[Version], batch_size: int) -> None:
        for version in versions:
            self.versions[version.ordinal] = version
        run = Run(run_id, RunKind.INGEST, RunState.PENDING, Lane.BULK)
        ordinals = [v.ordinal for v in versions]
        batches = [ordinals[i : i + batch_size] for i in range(0, len(ordinals), batch_size)]
        first = machine.extend(run, batches[:1], accepts_until_seconds=self.now + 60.0)
        self.apply(first)
        self.apply(machine.extend(first.run, batches[1:]))

    def start_sync(self) -> None:
        run = Run(SYNC_RUN, RunKind.SYNC, RunState.PENDING, Lane.BULK)
        self.apply(machine.extend(run, [()], payload={"source": "s"}))

    def claim(self, message: Message, worker: str) -> Decision:
        task = self.tasks[message.task_id]
        run = self.runs[task.run_id]
        if (
            self.mutation.startswith("reclaim")
            and task.state is TaskState.RUNNING
            and task.lease_until_seconds <= self.now
            and task.attempt < POLICY.max_attempts
            and run.state is RunState.RUNNING
        ):
            # The usual design: the same message is claimed again. Right only if a fenced worker never acknowledges.
            task = replace(task, state=TaskState.PENDING, not_before_seconds=0.0)
        decision = machine.claim(
            run, task, dispatch=message.dispatch, worker=worker, now_seconds=self.now, policy=POLICY
        )
        self.apply(decision)
        return decision

    def heartbeat(self, task_id: str, epoch: int) -> Decision:
        task = self.tasks[task_id]
        decision = machine.heartbeat(self.runs[task.run_id], task, epoch=epoch, now_seconds=self.now, policy=POLICY)
        self.apply(decision)
        return decision

    def release(self, task_id: str, epoch: int) -> Decision:
        task = self.tasks[task_id]
        decision = machine.release(self.runs[task.run_id], task, epoch=epoch, now_seconds=self.now)
        self.apply(decision)
        return decision

    def fail(self, task_id: str, epoch: int, kind: FailureKind, reason: str) -> Decision:
        task = self.tasks[task_id]
        failure = TaskFailure(kind, reason, "it failed")
        decision = machine.fail(
            self.runs[task.run_id], task, epoch=epoch, failure=failure, now_seconds=self.now, policy=POLICY
        )
        self.apply(decision)
        return decision

    def start_tree(self, run_id: str) -> None:
        run = Run(run_id, self.build_kinds[0], RunState.PENDING, Lane.BULK)
        self.apply(machine.extend(run, [()], payload={"slice": "0"}))

    def remove_tree(self) -> None:
        self.nodes = set()
        self.is_tree_removed = True
        self.apply(machine.extend(Run("removal", self.build_kinds[1], RunState.PENDING, Lane.BULK), [()]))

    def reserve(self, task: Task, slot: str) -> int | None:
        """Give the ordinal of a slot; None to a worker that has lost its claim."""
        current = self.tasks[task.task_id]
        if not holds(current, task.epoch) or must_stop(self.runs[task.run_id], current):
            return None
        slots = self.drafts.setdefault(task.run_id, {})
        taken = self.known_nodes.union(*(set(run.values()) for run in self.drafts.values()))
        return slots.setdefault(slot, 1 + max(taken, default=FIRST_NODE_ORDINAL))

    def complete(
        self, task_id: str, epoch: int, failures: list[PartFailure], advance: Advance | None = None
    ) -> Decision:
        task = self.tasks[task_id]
        if self.mutation == "no fence" and task.epoch != epoch:
            task = replace(task, epoch=epoch, state=TaskState.RUNNING)
        decision = machine.complete(
            self.runs[task.run_id],
            task,
            epoch=epoch,
            failures=failures,
            now_seconds=self.now,
            policy=POLICY,
            advance=advance,
        )
        self.apply(decision)
        if decision.verdict is Verdict.COMMITTED and task.stage is Stage.PUBLISH:
            self._publish()
        if decision.verdict is Verdict.COMMITTED and task.stage in BUILD_STAGES and not (advance or Advance()).goes_on:
            self.nodes = set(self.drafts.pop(task.run_id).values())
            self.known_nodes |= self.nodes
            self.published_trees.append(task.run_id)
        return decision

    def _publish(self) -> None:
        waiting = [
            version
            for version in self.versions.values()
            if version.state is VersionState.READY
            and not version.was_published
            and self.runs[version.run_id].state is not RunState.CANCELLING
            and self.count_records(version.ordinal) == RECORDS_PER_PART
        ]
        refs = [VersionRef(v.ordinal, v.document_id, v.number, v.supersedes) for v in self.versions.values()]
        plan = plan_publish(self.bitmap, [r for r in refs if any(r.ordinal == v.ordinal for v in waiting)], refs)
        for version in waiting:
            version.was_published = True
        for upper, lower in plan.superseded.items():
            self.versions[upper].supersedes = lower
        if plan.changed:
            self.bitmap = plan.ordinals
            self.history.append(("publish", frozenset(load_bitmap(self.bitmap))))

    # The index: external versions, own ids.

    def write_record(self, ordinal: int, position: int, epoch: int) -> None:
        if self.mutation == "server ids":
            self.index[(ordinal, position, self.rng.random())] = epoch
            return
        if self.index.get((ordinal, position), -1) <= epoch:
            self.index[(ordinal, position)] = epoch

    def count_records(self, ordinal: int) -> int:
        return sum(1 for key in self.index if key[0] == ordinal)

    def remove_records(self, ordinals: list[int]) -> None:
        wanted = set(ordinals)
        for key in [key for key in self.index if key[0] in wanted]:
            del self.index[key]

    # The broker.

    def relay(self) -> Steps:
        while True:
            due = [row for row in self.outbox if row[0] <= self.now]
            for row in due:
                self.stream[row[1]] = Message(row[1], row[2], row[3], visible_at=self.now)
                if self.now < END_OF_FAULTS_SECONDS and self.rng.random() < 0.05:
                    break  # It dies between publish and delete, and comes back: the same id is stored again.
                self.outbox.remove(row)
            yield 0.2

    def sweep(self) -> Steps:
        while True:
            for task in list(self.tasks.values()):
                if task.state is TaskState.RUNNING and task.lease_until_seconds <= self.now:
                    self.apply(machine.expire(self.runs[task.run_id], task, now_seconds=self.now, policy=POLICY))
            known = {m.task_id for m in self.stream.values()} | {row[2] for row in self.outbox}
            for task in list(self.tasks.values()):
                if task.state is TaskState.PENDING and task.task_id not in known:
                    self.apply(machine.redispatch(self.runs[task.run_id], task, now_seconds=self.now))
            yield 3.0

    def fetch(self) -> Message | None:
        ready = [m for m in self.stream.values() if m.visible_at <= self.now]
        if not ready:
            return None
        message = ready[self.rng.randrange(len(ready))]
        message.delivery += 1
        message.visible_at = self.now + ACK_WAIT_SECONDS
        if self.now < END_OF_FAULTS_SECONDS and self.rng.random() < 0.02:
            message.visible_at = self.now  # Delivered twice.
        return message

    def acknowledge(self, message: Message) -> None:
        self.stream.pop(message.message_id, None)

    def keep_alive(self, message: Message) -> None:
        if message.message_id in self.stream:
            self.stream[message.message_id].visible_at = self.now + ACK_WAIT_SECONDS

    def answer(self, message: Message, decision: Decision) -> None:
        ack = decision.ack
        if self.mutation == "reclaim, ack when fenced" and decision.verdict is Verdict.FENCED:
            ack = Ack.ACK
        if ack is Ack.ACK:
            self.acknowledge(message)
        elif ack is Ack.NAK and message.message_id in self.stream:
            self.stream[message.message_id].visible_at = self.now + decision.delay_seconds

    # Workers: a yield is a step at which they may die or freeze.

    def worker(self, name: str) -> Steps:
        while True:
            message = self.fetch()
            if message is None:
                yield 0.3
                continue
            yield from self._handle(message, name)

    def _handle(self, message: Message, name: str) -> Steps:
        yield 0.05
        decision = self.claim(message, name)
        yield 0.05
        if decision.verdict is not Verdict.CLAIMED:
            self.answer(message, decision)
            return
        task = decision.task
        assert task is not None
        if self.mutation == "ack before work":
            self.acknowledge(message)
        for _ in range(self.rng.randrange(1, 4)):
            yield self.rng.uniform(0.1, 1.0)
            beat = self.heartbeat(task.task_id, task.epoch)
            if beat.verdict is Verdict.FENCED:
                self.answer(message, beat)
                return
            if beat.verdict is Verdict.CANCELLED:
                yield 0.05
                self.answer(message, self.release(task.task_id, task.epoch))
                return
            self.keep_alive(message)
        outcome = yield from self._work(task)
        yield 0.05
        self.answer(message, outcome)

    def _work(self, task: Task) -> Generator[float, None, Decision]:
        failures = [
            PartFailure(part, "DOCUMENT_CORRUPT", "it is corrupt")
            for part in task.parts
            if part in self.bad and task.stage in (Stage.PARSE, Stage.INDEX)
        ]
        if task.stage is Stage.PARSE and self.poison & set(task.parts):
            yield -1.0  # It kills its process.
        if self.now < END_OF_FAULTS_SECONDS and self.rng.random() < 0.05:
            kind = FailureKind.DEFERRED if self.rng.random() < 0.7 else FailureKind.TRANSIENT
            return self.fail(task.task_id, task.epoch, kind, "SOMETHING_AWAY")
        if task.stage is Stage.SYNC:
            return (yield from self._sync(task))
        if task.stage in BUILD_STAGES:
            return (yield from self._build_tree(task))
        if task.stage in SWEEP_STAGES:
            return (yield from self._sweep_tree(task))
        if task.stage is Stage.INDEX:
            for part in task.parts:
                for position in range(RECORDS_PER_PART):
                    self.write_record(part, position, task.epoch)
                    yield 0.02
        if task.stage in (Stage.CLEANUP, Stage.VERIFY):
            gone = (VersionState.FAILED, VersionState.CANCELLED, VersionState.PURGED)
            self.remove_records([part for part in task.parts if self.versions[part].state in gone])
            yield 0.05
        if task.stage is Stage.PUBLISH:
            short = [p for p in task.parts if self.count_records(p) < RECORDS_PER_PART]
            if short:
                return self.fail(task.task_id, task.epoch, FailureKind.TRANSIENT, "RECORDS_MISSING")
        yield 0.05
        return self.complete(task.task_id, task.epoch, failures)

    def _sync(self, task: Task) -> Generator[float, None, Decision]:
        """Take in what is missing, two items a task; an item counts when its version was accepted."""
        assert task.payload == {"source": "s"}, "a slice knows its source"
        for item in sorted(set(range(ITEMS_PER_SYNC)) - self.taken_in)[:2]:
            self.taken_in.add(item)
            yield 0.05
        left = len(self.taken_in) < ITEMS_PER_SYNC
        if self.mutation == "sync without slices":
            left = False
        return self.complete(task.task_id, task.epoch, [], Advance(goes_on=left))

    def _build_tree(self, task: Task) -> Generator[float, None, Decision]:
        """Reserve, write, commit, slice by slice; the last one is published with all before it."""
        place = int(task.payload["slice"])
        if self.is_tree_poison and place == 1:
            yield -1.0
        for node in range(NODES_PER_SLICE):
            ordinal = self.reserve(task, f"{place}-{node}")
            if ordinal is None:
                return self.fail(task.task_id, task.epoch, FailureKind.DEFERRED, "CLAIM_LOST")
            for position in range(RECORDS_PER_PART):
                yield 0.02
                self.write_record(ordinal, position, task.epoch)
        if place + 1 < SLICES_PER_TREE:
            advance = Advance({"slice": str(place + 1)}, goes_on=True)
            return self.complete(task.task_id, task.epoch, [], advance)
        if any(self.count_records(ordinal) < RECORDS_PER_PART for ordinal in self.drafts.get(task.run_id, {}).values()):
            return self.fail(task.task_id, task.epoch, FailureKind.TRANSIENT, "RECORDS_MISSING")
        yield 0.05
        return self.complete(task.task_id, task.epoch, [])

    def _sweep_tree(self, task: Task) -> Generator[float, None, Decision]:
        """Remove what is not published; a zombie may write more, so all is looked at again before it is forgotten."""
        over = [
            run_id
            for run_id in self.drafts
            if self.runs[run_id].state not in (RunState.PENDING, RunState.RUNNING) or self.runs[run_id].error_reason
        ]
        left = {ordinal for run_id in over for ordinal in self.drafts[run_id].values()} | self.known_nodes - self.nodes
        seen = {int(ordinal) for ordinal in task.payload.get("seen", "").split()}
        if self.mutation == "sweep without a late look":
            seen = left
        yield 0.05
        self.remove_records(sorted(left & seen if seen else left))
        yield 0.05
        if left and not seen:
            payload = {"seen": " ".join(map(str, sorted(left)))}
            return self.complete(task.task_id, task.epoch, [], Advance(payload, goes_on=True, is_late=True))
        if holds(self.tasks[task.task_id], task.epoch):
            self.known_nodes -= left & seen
            for run_id in over:
                slots = self.drafts.get(run_id, {})
                self.drafts[run_id] = {slot: ordinal for slot, ordinal in slots.items() if ordinal not in seen}
                if not self.drafts[run_id]:
                    del self.drafts[run_id]
        return self.complete(task.task_id, task.epoch, [])


class Scheduler:
    """Runs the actors of a world in the order of its one clock."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.heap: list[tuple[float, int, str, Steps]] = []
        self.counter = 0

    def add(self, name: str, steps: Steps, at: float) -> None:
        self.counter += 1
        heapq.heappush(self.heap, (at, self.counter, name, steps))

    def run(self) -> None:
        world, rng = self.world, self.world.rng
        worker_count = 0
        while self.heap:
            at, _, name, steps = heapq.heappop(self.heap)
            world.now = max(world.now, at)
            if world.now > HORIZON_SECONDS or self._is_quiet():
                return
            try:
                wait = next(steps)
            except StopIteration:
                continue
            is_worker = name.startswith("worker")
            faults = world.now < END_OF_FAULTS_SECONDS
            if is_worker and (wait < 0 or (faults and rng.random() < 0.01)):
                worker_count += 1  # Killed; its pod comes back under another name.
                fresh = f"worker-{worker_count}-again"
                self.add(fresh, world.worker(fresh), world.now + 1.0)
                continue
            if is_worker and faults and rng.random() < 0.015:
                wait += rng.uniform(4.0, LONGEST_PAUSE_SECONDS)
            self.add(name, steps, world.now + wait)

    def _is_quiet(self) -> bool:
        world = self.world
        return (
            world.now > END_OF_FAULTS_SECONDS + LONGEST_PAUSE_SECONDS
            and not world.outbox
            and not any(task.state.is_open for task in world.tasks.values())
        )


def user(world: World) -> Steps:
    for run_id in sorted(world.runs):
        yield world.rng.uniform(0.0, 15.0)
        if world.rng.random() < 0.4:
            cancelled = cancel(world, run_id)
            world.is_sync_cancelled |= run_id == SYNC_RUN and cancelled


def cancel(world: World, run_id: str) -> bool:
    pending = sum(
        task.run_id == run_id and task.state is TaskState.PENDING and task.stage not in HOUSEKEEPING
        for task in world.tasks.values()
    )
    run = world.runs[run_id]
    decision = machine.request_cancel(run, pending_task_count=pending)
    world.apply(decision)
    if run.kind in BUILD_RUNS and decision.verdict is Verdict.COMMITTED:
        world.cancelled_trees.add(run_id)
    return decision.verdict is Verdict.COMMITTED


def gardener(world: World) -> Steps:
    """Has the tree built some times, one after the other, and now and then removed in the end."""
    for place in range(world.rng.randrange(1, 4)):
        run_id = f"tree{place}"
        world.start_tree(run_id)
        yield world.rng.uniform(0.0, 8.0)
        if world.rng.random() < 0.4:
            cancel(world, run_id)
        while not world.runs[run_id].state.is_ended:
            yield 1.0
    if world.rng.random() < 0.3:
        world.remove_tree()


def disaster(world: World) -> Steps:
    yield world.rng.uniform(2.0, 40.0)
    if world.rng.random() < 0.3:
        world.stream.clear()


def simulate(seed: int, *, mutation: str = "none", sweeper: bool = True) -> list[str]:
    """Run one world and return what is wrong with its end."""
    world = World(seed, mutation, sweeper)
    rng = world.rng
    ordinal = 0
    for place in range(rng.randrange(1, 3)):
        versions: list[Version] = []
        for _ in range(rng.randrange(2, 5)):
            # Some runs bring a new version of a document that the other run brings too.
            document_id = f"d{ordinal % 4}"
            number = 1 + max((v.number for v in world.versions.values() if v.document_id == document_id), default=0)
            number = max(number, 1 + max((v.number for v in versions if v.document_id == document_id), default=0))
            versions.append(Version(ordinal, document_id, number, f"run{place}"))
            ordinal += 1
        world.start(f"run{place}", versions, batch_size=rng.randrange(1, 4))
    if rng.random() < 0.3:
        world.start_sync()
    if rng.random() < 0.2:
        world.poison.add(rng.randrange(ordinal))
    if rng.random() < 0.3:
        world.bad.add(rng.randrange(ordinal))
    scheduler = Scheduler(world)
    for place in range(3):
        scheduler.add(f"worker-{place}", world.worker(f"worker-{place}"), 0.0)
    scheduler.add("relay", world.relay(), 0.0)
    scheduler.add("user", user(world), 0.0)
    if rng.random() < 0.3:
        world.is_tree_poison = rng.random() < 0.1
        scheduler.add("gardener", gardener(world), rng.uniform(0.0, 10.0))
    if sweeper:
        scheduler.add("sweeper", world.sweep(), 1.0)
        scheduler.add("disaster", disaster(world), 0.0)
    scheduler.run()
    return check(world)


def check(world: World) -> list[str]:
    problems = [f"task {task.task_id} is {task.state} for ever" for task in world.tasks.values() if task.state.is_open]
    published = load_bitmap(world.bitmap)
    newest: dict[str, tuple[int, int]] = {}
    for version in world.versions.values():
        run = world.runs[version.run_id]
        count = world.count_records(version.ordinal)
        if version.state is VersionState.READY:
            if count != RECORDS_PER_PART:
                problems.append(f"part {version.ordinal} has {count} records")
            if not version.was_published:
                problems.append(f"part {version.ordinal} was never published")
            newest[version.document_id] = max(
                newest.get(version.document_id, (0, 0)), (version.number, version.ordinal)
            )
        elif version.state in (VersionState.FAILED, VersionState.CANCELLED):
            if not version.reason:
                problems.append(f"part {version.ordinal} is {version.state} without a reason")
            if count:
                problems.append(f"part {version.ordinal} is {version.state} and left {count} records")
            if version.ordinal in published:
                problems.append(f"part {version.ordinal} is {version.state} and visible")
        else:
            problems.append(f"part {version.ordinal} ended as {version.state}")
        if version.ordinal in world.poison | world.bad and version.state is VersionState.READY:
            problems.append(f"bad part {version.ordinal} was published")
        if version.state is VersionState.CANCELLED and run.state is not RunState.CANCELLED:
            problems.append(f"part {version.ordinal} is cancelled in a run that is {run.state}")
    expected = {ordinal for _, ordinal in newest.values()}
    if set(published) != expected:
        problems.append(f"published {sorted(published)}, expected {sorted(expected)}")
    return problems + check_runs(world) + check_history(world)


def check_runs(world: World) -> list[str]:
    problems = []
    for run in world.runs.values():
        if not run.state.is_ended:
            problems.append(f"{run.run_id} is {run.state} for ever")
        if run.open_task_count != 0:
            problems.append(f"{run.run_id} counts {run.open_task_count} open tasks")
        ended = run.succeeded_part_count + run.failed_part_count
        if run.state is not RunState.CANCELLED and ended != run.part_count:
            problems.append(f"{run.run_id} counts {ended} of {run.part_count} parts")
    return problems + check_sync(world) + check_trees(world)


def check_trees(world: World) -> list[str]:
    """What is published is the last tree that was built, whole, and nothing else of any build is left."""
    problems = []
    for run in world.runs.values():
        if run.kind not in BUILD_RUNS:
            continue
        if (run.state is RunState.CANCELLED) is not (run.run_id in world.cancelled_trees):
            problems.append(f"{run.run_id} is {run.state}, cancelled: {run.run_id in world.cancelled_trees}")
        if (run.state is RunState.SUCCEEDED) is not (world.published_trees.count(run.run_id) == 1):
            problems.append(f"{run.run_id} is {run.state}, published: {run.run_id in world.published_trees}")
        if run.state is RunState.FAILED and not run.error_reason:
            problems.append(f"{run.run_id} failed without a reason")
    shown = SLICES_PER_TREE * NODES_PER_SLICE if world.published_trees and not world.is_tree_removed else 0
    if len(world.nodes) != shown:
        problems.append(f"the tree shows {len(world.nodes)} of {shown} nodes")
    if any(world.count_records(ordinal) != RECORDS_PER_PART for ordinal in world.nodes):
        problems.append("a published node has lost or doubled records")
    if left := {key[0] for key in world.index if key[0] > FIRST_NODE_ORDINAL} - world.nodes:
        problems.append(f"builds left records of {sorted(left)}")
    if world.drafts:
        problems.append(f"drafts of {sorted(world.drafts)} are left")
    return problems


def check_sync(world: World) -> list[str]:
    """A sync that succeeded has taken in its whole source; one that did not says why."""
    run = world.runs.get(SYNC_RUN)
    if run is None:
        return []
    problems = []
    if run.state is RunState.SUCCEEDED and len(world.taken_in) != ITEMS_PER_SYNC:
        problems.append(f"the sync succeeded with {len(world.taken_in)} of {ITEMS_PER_SYNC} items")
    if run.state is RunState.FAILED and not run.error_reason:
        problems.append("the sync failed without a reason")
    if (run.state is RunState.CANCELLED) is not world.is_sync_cancelled:
        problems.append(f"the sync is {run.state}, cancelled: {world.is_sync_cancelled}")
    if any(task.run_id == SYNC_RUN and task.stage is not Stage.SYNC for task in world.tasks.values()):
        problems.append("a sync has nothing to clean up")
    return problems


def check_history(world: World) -> list[str]:
    """A publish shows of each document the same version as before, or a newer one; only a cancel goes back."""
    problems = []
    before: frozenset[int] = frozenset()
    for reason, after in world.history:
        numbers = {world.versions[o].document_id: world.versions[o].number for o in after}
        if len(numbers) != len(after):
            problems.append("a snapshot shows two versions of a document")
        for ordinal in before:
            version = world.versions[ordinal]
            if reason == "publish" and numbers.get(version.document_id, 0) < version.number:
                problems.append(f"a publish took {version.document_id} back")
        before = after
    return problems


def first_problem(seeds: range, run: Callable[[int], list[str]]) -> tuple[int, list[str]] | None:
    for seed in seeds:
        problems = run(seed)
        if problems:
            return seed, problems
    return None


def test_no_seed_loses_duplicates_or_shows_what_it_must_not() -> None:
    assert first_problem(range(SEED_COUNT), simulate) is None


def test_redelivery_alone_recovers_every_death_without_a_sweeper() -> None:
    assert first_problem(range(SEED_COUNT // 4), lambda seed: simulate(seed, sweeper=False)) is None


def test_reclaiming_the_same_message_is_safe_while_the_fenced_do_not_acknowledge() -> None:
    run = lambda seed: simulate(seed, mutation="reclaim", sweeper=False)  # noqa: E731
    assert first_problem(range(SEED_COUNT // 8), run) is None


@pytest.mark.parametrize(
    "mutation",
    [
        "ack before work",
        "reclaim, ack when fenced",
        "no fence",
        "server ids",
        "sync without slices",
        "sweep without a late look",
    ],
)
def test_checker_catches_a_broken_rule(mutation: str) -> None:
    def run(seed: int) -> list[str]:
        try:
            return simulate(seed, mutation=mutation, sweeper=False)
        except AssertionError as error:
            return [str(error)]

    assert first_problem(range(2000), run) is not None
