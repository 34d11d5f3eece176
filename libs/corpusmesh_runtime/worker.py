"""The worker loop: fetch, claim, work under a heartbeat, commit, acknowledge; in this order and no other.

One loop for each stage and lane, so that interactive work never waits behind bulk work. The order is rule 3 of
`research/reliability.md` 2.3: a claim that was lost meanwhile is dropped without an acknowledgement.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from corpusmesh_core.errors import (
    ConflictError,
    CorpusMeshError,
    DeadlineExceededError,
    NotFoundError,
    OverloadedError,
    UnavailableError,
    first_cause,
)
from corpusmesh_core.orchestration.values import HOUSEKEEPING, PARTLESS, FailureKind, Lane, Stage, TaskFailure, Verdict
from corpusmesh_core.ports.work import Answer, Claim, Delivery, StageOutcome, TaskQueue, WorkBroker, WorkSource
from corpusmesh_runtime.config import Section
from corpusmesh_runtime.logging import get_logger
from corpusmesh_runtime.status import HIDDEN_MESSAGE, Disposition, disposition_of
from corpusmesh_runtime.tracing import incoming_context, tracer
from corpusmesh_runtime.worker_metrics import (
    TASK_DURATION_SECONDS,
    TASKS_IN_FLIGHT,
    TASKS_TOTAL,
    WORKER_FETCHING,
)

_log = get_logger(__name__)
_STORE_ERRORS = (UnavailableError, OverloadedError, ConflictError)
_PASSING_ERRORS = (UnavailableError, OverloadedError, ConflictError, DeadlineExceededError)

FailPoint = Literal["before_work", "after_artefact", "after_index", "after_commit", "before_ack"]


class WorkerSettings(Section):
    """How a worker takes and does work."""

    interactive_slots: int = Field(default=1, ge=1)
    """Tasks of each stage done at once in the interactive lane."""
    bulk_slots: int = Field(default=2, ge=1)
    """Tasks of each stage done at once in the bulk lane."""
    max_tasks_per_tenant: int = Field(default=4, ge=1)
    """Tasks of one tenant that this worker does at once."""
    heartbeat_seconds: float = Field(default=1.0, gt=0)
    """Time between two signs of life; also how soon a cancel is noticed."""
    poll_seconds: float = Field(default=2.0, gt=0)
    """Longest wait of one fetch."""
    task_timeout_seconds: float = Field(default=3600.0, gt=0)
    """Longest time of one task."""
    drain_seconds: float = Field(default=20.0, ge=0)
    """How long a stopping worker lets tasks end before it gives them back."""


class TaskContext:
    """What a stage's handler is given."""

    def __init__(self, claim: Claim, timeout_seconds: float, failpoint: str = "") -> None:
        self._claim = claim
        self._deadline = time.monotonic() + timeout_seconds
        self._failpoint = failpoint

    @property
    def claim(self) -> Claim:
        """The task."""
        return self._claim

    def remaining_seconds(self) -> float:
        """Tell how long the task may still take.

        Returns:
            Seconds, more than zero.

        Raises:
            DeadlineExceededError: If the time is over.
        """
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise DeadlineExceededError("TASK_TIMEOUT", "the task took longer than it may")
        return remaining

    def reach(self, point: FailPoint) -> None:
        """Mark a point of the work; the process is killed here if `CORPUSMESH_FAILPOINT` says so (crash tests).

        Args:
            point: The point.
        """
        if self._failpoint == f"{self._claim.stage}:{point}":
            os.kill(os.getpid(), signal.SIGKILL)


StageHandler = Callable[[TaskContext], Awaitable[StageOutcome]]
"""Does one stage of a task; it may be called any number of times for the same task, also at the same time."""


@dataclass(slots=True)
class _LaneState:
    stage: Stage
    lane: Lane
    slots: int
    is_fetching: bool = False
    running: set[asyncio.Task[None]] = field(default_factory=set)


class Worker:
    """Does the work of some stages until it is stopped."""

    def __init__(
        self,
        name: str,
        handlers: Mapping[Stage, StageHandler],
        queue: TaskQueue,
        broker: WorkBroker,
        settings: WorkerSettings | None = None,
        *,
        failpoint: str | None = None,
    ) -> None:
        """Create a worker.

        Args:
            name: Names this process in task rows and logs.
            handlers: What to do at each stage.
            queue: Claims.
            broker: Messages.
            settings: Bounds.
            failpoint: `stage:point` at which to die; None to read `CORPUSMESH_FAILPOINT`.
        """
        self._name = name
        self._handlers = handlers
        self._queue = queue
        self._broker = broker
        self._settings = settings or WorkerSettings()
        self._failpoint = os.environ.get("CORPUSMESH_FAILPOINT", "") if failpoint is None else failpoint
        self._stopping = asyncio.Event()
        self._by_tenant: Tally[str] = Tally()
        self._lanes = [
            _LaneState(stage, lane, slots)
            for stage in handlers
            for lane, slots in (
                (Lane.INTERACTIVE, self._settings.interactive_slots),
                (Lane.BULK, self._settings.bulk_slots),
            )
            if lane is Lane.BULK or stage not in HOUSEKEEPING
        ]

    @property
    def is_fetching(self) -> bool:
        """Whether every lane gets answers from the broker: the worker's health."""
        return all(lane.is_fetching for lane in self._lanes)

    async def run(self) -> None:
        """Work until `stop` is called; then let running tasks end, and give back those that do not in time."""
        async with asyncio.TaskGroup() as group:
            for lane in self._lanes:
                group.create_task(self._serve(lane), name=f"{lane.stage}-{lane.lane}")

    def stop(self) -> None:
        """Stop fetching and let `run` end."""
        self._stopping.set()

    async def _serve(self, lane: _LaneState) -> None:
        source = await self._broker.source(lane.stage, lane.lane)
        slots = asyncio.Semaphore(lane.slots)
        while not self._stopping.is_set():
            # A slot first: a message is never fetched to wait here while its time runs.
            if not await self._acquire(slots):
                break
            deliveries = await self._fetch(source, lane)
            if not deliveries:
                slots.release()
                continue
            task = asyncio.create_task(self._handle(deliveries[0]))
            lane.running.add(task)
            task.add_done_callback(lane.running.discard)
            task.add_done_callback(lambda _: slots.release())
        self._set_health(lane, fetching=False)
        # Every task ends by itself: it watches the same event and gives its claim back when the time to drain is over.
        await asyncio.gather(*lane.running, return_exceptions=True)
        with contextlib.suppress(UnavailableError):
            await source.close()

    async def _acquire(self, slots: asyncio.Semaphore) -> bool:
        while not self._stopping.is_set():
            try:
                async with asyncio.timeout(self._settings.poll_seconds):
                    await slots.acquire()
            except TimeoutError:
                continue
            return True
        return False

    async def _fetch(self, source: WorkSource, lane: _LaneState) -> list[Delivery]:
        try:
            deliveries = list(await source.fetch(1, self._settings.poll_seconds))
        except CorpusMeshError as error:
            if lane.is_fetching:
                _log.warning("worker cannot fetch", stage=lane.stage, lane=lane.lane, reason=error.reason)
            self._set_health(lane, fetching=False)
            await asyncio.sleep(min(0.5, self._settings.poll_seconds))
            return []
        self._set_health(lane, fetching=True)
        return deliveries

    def _set_health(self, lane: _LaneState, *, fetching: bool) -> None:
        lane.is_fetching = fetching
        WORKER_FETCHING.labels(lane.stage, lane.lane).set(float(fetching))

    async def _handle(self, delivery: Delivery) -> None:
        message = delivery.message
        # A sync mostly waits for its source: its slots bound it, and it takes none from the tenant's documents.
        weight = 0 if message.stage in PARTLESS else 1
        if weight and self._by_tenant[message.tenant_id] >= self._settings.max_tasks_per_tenant:
            # Others first; the wait grows so that a long queue of one tenant does not spin.
            await self._give_back(delivery, min(30.0, 0.2 * 2.0 ** min(delivery.delivery_count, 10)))
            return
        self._by_tenant[message.tenant_id] += weight
        TASKS_IN_FLIGHT.labels(message.stage, message.lane).inc()
        try:
            await self._claim_and_work(delivery)
        except Exception as error:  # noqa: BLE001 - the worker loop is one of the three places that may
            _log.error("task left alone", stage=message.stage, error=type(error).__name__, exc_info=error)
        finally:
            TASKS_IN_FLIGHT.labels(message.stage, message.lane).dec()
            self._by_tenant[message.tenant_id] -= weight
            if not self._by_tenant[message.tenant_id]:
                del self._by_tenant[message.tenant_id]

    async def _claim_and_work(self, delivery: Delivery) -> None:
        message = delivery.message
        try:
            answer = await self._queue.claim(message, self._name)
        except NotFoundError:
            _log.warning("unknown task", stage=message.stage, task_id=message.task_id)
            TASKS_TOTAL.labels(message.stage, message.lane, "unknown").inc()
            await self._broker.reject(delivery, "TASK_UNKNOWN")
            return
        except _STORE_ERRORS as error:
            await self._give_back(delivery, error.retry_delay_seconds or 1.0)
            return
        if answer.claim is None:
            TASKS_TOTAL.labels(message.stage, message.lane, answer.verdict).inc()
            await self._answer(delivery, answer)
            return
        claim = answer.claim
        span = tracer().start_as_current_span(f"task {claim.stage}", context=incoming_context(claim.headers))
        with span, TASK_DURATION_SECONDS.labels(claim.stage, claim.lane).time():
            final = await self._work(delivery, claim)
        if final is None:
            return
        TASKS_TOTAL.labels(claim.stage, claim.lane, final.verdict).inc()
        _log.info(
            "task ended",
            tenant_id=claim.tenant_id,
            run_id=claim.run_id,
            task_id=claim.task_id,
            stage=claim.stage,
            verdict=final.verdict,
            attempt=claim.attempt,
            part_count=len(claim.parts),
            request_id=claim.headers.get("request_id", ""),
        )
        await self._answer(delivery, final)

    async def _work(self, delivery: Delivery, claim: Claim) -> Answer | None:
        """Do a claim under its heartbeat; None if it is somebody else's by now."""
        context = TaskContext(claim, self._settings.task_timeout_seconds, self._failpoint)
        context.reach("before_work")
        work = asyncio.create_task(self._call(context))
        beat = asyncio.create_task(self._beat(delivery, claim))
        stop = asyncio.create_task(self._stopped())
        try:
            await asyncio.wait(
                {work, beat, stop}, timeout=self._settings.task_timeout_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if work.done():
                final = await self._commit(context, work)
                context.reach("after_commit")
                context.reach("before_ack")
                return final
            if beat.done() and beat.result() is Verdict.FENCED:
                return None
            if beat.done() or stop.done():
                work.cancel()
                await asyncio.wait({work}, timeout=self._settings.drain_seconds)
                return await self._persist(claim, lambda: self._queue.release(claim))
            failure = TaskFailure(FailureKind.TRANSIENT, "TASK_TIMEOUT", "the task took longer than it may")
            return await self._persist(claim, lambda: self._queue.fail(claim, failure))
        finally:
            for task in (work, beat, stop):
                task.cancel()
            await asyncio.gather(work, beat, stop, return_exceptions=True)

    async def _call(self, context: TaskContext) -> StageOutcome:
        claim = context.claim
        if not claim.parts and claim.stage not in PARTLESS:
            return StageOutcome()
        return await self._handlers[claim.stage](context)

    async def _commit(self, context: TaskContext, work: asyncio.Task[StageOutcome]) -> Answer | None:
        claim = context.claim
        error = work.exception()
        if error is None:
            outcome = work.result()
            return await self._persist(claim, lambda: self._queue.complete(claim, outcome))
        failure = failure_of(error, claim.stage)
        _log.warning(
            "task failed",
            tenant_id=claim.tenant_id,
            run_id=claim.run_id,
            task_id=claim.task_id,
            stage=claim.stage,
            reason=failure.reason,
            kind=failure.kind,
            exc_info=error if failure.reason == "INTERNAL" else None,
        )
        return await self._persist(claim, lambda: self._queue.fail(claim, failure))

    async def _persist(self, claim: Claim, write: Callable[[], Awaitable[Answer]]) -> Answer | None:
        """Write an outcome; while the store is away, try again until the lease would have run out for sure.

        A write that went through although its answer was lost is answered FENCED the second time: the message is left
        alone, comes again, and finds the task done.
        """
        deadline = time.monotonic() + claim.lease_seconds * 2
        delay = 0.2
        while True:
            try:
                return await write()
            except _STORE_ERRORS as error:
                if time.monotonic() + delay >= deadline:
                    _log.error("outcome not written", task_id=claim.task_id, stage=claim.stage, reason=error.reason)
                    return None
                await asyncio.sleep(delay)
                delay = min(2.0, delay * 2)

    async def _beat(self, delivery: Delivery, claim: Claim) -> Verdict:
        """Extend the lease and the delivery; ends when the work must stop."""
        while True:
            await asyncio.sleep(self._settings.heartbeat_seconds)
            with contextlib.suppress(*_STORE_ERRORS):
                verdict = (await self._queue.heartbeat(claim)).verdict
                if verdict is not Verdict.CONTINUES:
                    return verdict
            with contextlib.suppress(UnavailableError):
                await delivery.keep_alive()

    async def _stopped(self) -> None:
        await self._stopping.wait()
        await asyncio.sleep(self._settings.drain_seconds)

    async def _answer(self, delivery: Delivery, answer: Answer) -> None:
        """Acknowledge what is over; an acknowledgement that fails is repaired by the next delivery."""
        with contextlib.suppress(UnavailableError):
            if answer.must_ack:
                await delivery.ack()
            elif answer.nak_delay_seconds is not None:
                await delivery.nak(answer.nak_delay_seconds)

    @staticmethod
    async def _give_back(delivery: Delivery, delay_seconds: float) -> None:
        with contextlib.suppress(UnavailableError):
            await delivery.nak(delay_seconds)


def failure_of(error: BaseException, stage: Stage) -> TaskFailure:
    """Tell what an error of a handler means for its task.

    Args:
        error: What the handler raised.
        stage: Its stage.

    Returns:
        DEFERRED for something that is away or full, PERMANENT for what cannot get better, TRANSIENT for the rest, whose
        text stays in the log.
    """
    cause = first_cause(error) if isinstance(error, Exception) else error
    if not isinstance(cause, CorpusMeshError):
        return TaskFailure(FailureKind.TRANSIENT, "INTERNAL", f"stage {stage}: {HIDDEN_MESSAGE}")
    if cause.reason == "TASK_TIMEOUT":
        return TaskFailure(FailureKind.TRANSIENT, cause.reason, cause.message)
    if isinstance(cause, _PASSING_ERRORS):
        return TaskFailure(FailureKind.DEFERRED, cause.reason, cause.message, cause.retry_delay_seconds or 0.0)
    if disposition_of(cause) is Disposition.RETRY:
        return TaskFailure(FailureKind.TRANSIENT, cause.reason, cause.message)
    return TaskFailure(FailureKind.PERMANENT, cause.reason, cause.message)
