"""Runs, tasks, and what the state machine decides about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from corpusmesh_core.tenancy.values import VersionState


class Stage(StrEnum):
    """One kind of work."""

    PARSE = "parse"
    CHUNK = "chunk"
    ENRICH = "enrich"
    EMBED = "embed"
    TREE = "tree"
    """Trees of single documents, from their chunks and vectors."""
    INDEX = "index"
    PUBLISH = "publish"
    PURGE = "purge"
    VERIFY = "verify"
    CLEANUP = "cleanup"
    SYNC = "sync"
    BUILD_TREE = "build_tree"
    """The tree of a whole knowledge base."""
    SWEEP_TREE = "sweep_tree"
    """Removes what a build of a tree wrote and no snapshot shows."""
    BUILD_GRAPH = "build_graph"
    """The graph of a whole knowledge base."""
    SWEEP_GRAPH = "sweep_graph"
    """Removes what a build of a graph wrote and no snapshot shows."""


class Lane(StrEnum):
    """How urgent work is."""

    INTERACTIVE = "interactive"
    BULK = "bulk"


class RunKind(StrEnum):
    """What a run does."""

    INGEST = "ingest"
    PURGE = "purge"
    SYNC = "sync"
    TREE = "tree"
    """Brings the tree of a knowledge base up to date."""
    TREE_REMOVAL = "tree_removal"
    """Removes a tree that was withdrawn."""
    GRAPH = "graph"
    """Brings the graph of a knowledge base up to date."""
    GRAPH_REMOVAL = "graph_removal"
    """Removes a graph that was withdrawn."""


class RunState(StrEnum):
    """Where a run stands."""

    PENDING = "pending"
    RUNNING = "running"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def is_ended(self) -> bool:
        """Whether nothing but housekeeping can follow."""
        return self in (RunState.CANCELLED, RunState.SUCCEEDED, RunState.FAILED)


class TaskState(StrEnum):
    """Where a task stands."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SPLIT = "split"

    @property
    def is_open(self) -> bool:
        """Whether somebody still has to do something about it."""
        return self in (TaskState.PENDING, TaskState.RUNNING)


PIPELINES: Mapping[RunKind, tuple[Stage, ...]] = {
    RunKind.INGEST: (Stage.PARSE, Stage.CHUNK, Stage.ENRICH, Stage.EMBED, Stage.TREE, Stage.INDEX, Stage.PUBLISH),
    RunKind.PURGE: (Stage.PURGE, Stage.VERIFY),
    RunKind.SYNC: (Stage.SYNC,),
    RunKind.TREE: (Stage.BUILD_TREE, Stage.SWEEP_TREE),
    RunKind.TREE_REMOVAL: (Stage.SWEEP_TREE,),
    RunKind.GRAPH: (Stage.BUILD_GRAPH, Stage.SWEEP_GRAPH),
    RunKind.GRAPH_REMOVAL: (Stage.SWEEP_GRAPH,),
}
"""Stages of each kind of run in order; a new stage or kind is a line here and a handler."""

BUILD_STAGES: frozenset[Stage] = frozenset({Stage.BUILD_TREE, Stage.BUILD_GRAPH})
"""Stages that make builds."""

SWEEP_STAGES: frozenset[Stage] = frozenset({Stage.SWEEP_TREE, Stage.SWEEP_GRAPH})
"""Stages that remove what builds leave."""

HOUSEKEEPING: frozenset[Stage] = frozenset({Stage.PURGE, Stage.VERIFY, Stage.CLEANUP}) | SWEEP_STAGES
"""Stages that remove things: they go on whatever the run's state is."""

PARTLESS: frozenset[Stage] = frozenset({Stage.SYNC}) | BUILD_STAGES | SWEEP_STAGES
"""Stages whose tasks cover no versions: what they work on is named by their payload (ADR-0009, ADR-0012)."""

BUILD_RUNS: frozenset[RunKind] = frozenset({RunKind.TREE, RunKind.GRAPH})
"""Kinds of runs that make builds; their stages are one that builds, and one that sweeps."""

CANCELLABLE: frozenset[RunKind] = frozenset({RunKind.INGEST, RunKind.SYNC}) | BUILD_RUNS
"""Kinds of runs that stop on request."""

VERSION_STATE_BY_STAGE: Mapping[Stage, VersionState] = {
    Stage.PARSE: VersionState.PARSING,
    Stage.CHUNK: VersionState.CHUNKING,
    Stage.ENRICH: VersionState.ENRICHING,
    Stage.EMBED: VersionState.EMBEDDING,
    Stage.TREE: VersionState.SUMMARIZING,
    Stage.INDEX: VersionState.INDEXING,
    Stage.PUBLISH: VersionState.READY,
}
"""State of a version that waits for a stage or is in it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Bounds of patience.

    Attributes:
        lease_seconds: How long a claim holds without a heartbeat.
        max_attempts: Claims of a task, counting those that ended in a death or an error of the task's own.
        max_deferrals: How often a task may give way because something it needs does not answer.
        retry_backoff_seconds: Wait before the second attempt; doubles with each.
        max_backoff_seconds: Longest wait.
        verify_delay_seconds: Wait before the second look of a purge: longer than lease, redelivery and the index's
            memory of deleted ids together (reliability rule 8).
    """

    lease_seconds: float = 30.0
    max_attempts: int = 3
    max_deferrals: int = 200
    retry_backoff_seconds: float = 1.0
    max_backoff_seconds: float = 15.0
    verify_delay_seconds: float = 120.0

    def backoff_seconds(self, failure_count: int) -> float:
        """Give the wait after a number of failures.

        Args:
            failure_count: Failures so far, from 1.

        Returns:
            Seconds, doubling from the first and capped.
        """
        return min(self.max_backoff_seconds, self.retry_backoff_seconds * 2.0 ** min(failure_count - 1, 30))


@dataclass(frozen=True, slots=True)
class Run:
    """A piece of long work.

    Attributes:
        run_id: Id.
        kind: What it does.
        state: Where it stands.
        lane: Lane of its tasks.
        part_count: Versions that it covers so far.
        batch_count: Batches made so far.
        accepts_until_seconds: Until when more parts may be added, by the database's clock; 0 if no more come. The
            run does not end before.
        open_task_count: Tasks that are pending or running.
        passed: Parts that have passed each stage, by stage; 1 for a stage that makes a build, which has no parts.
        skipped: Those of them for which the stage had nothing to do, by stage.
        failed_part_count: Parts that ended with a reason.
        retry_count: How often failed parts were started again.
        hold_publish: Whether versions are left ready but unpublished.
        sequence: Rises with each change.
        error_reason: Why the run itself failed, "" where it did not.
        error_message: One sentence for a person.
    """

    run_id: str
    kind: RunKind
    state: RunState
    lane: Lane
    part_count: int = 0
    batch_count: int = 0
    accepts_until_seconds: float = 0.0
    open_task_count: int = 0
    passed: Mapping[Stage, int] = field(default_factory=dict)
    skipped: Mapping[Stage, int] = field(default_factory=dict)
    failed_part_count: int = 0
    retry_count: int = 0
    hold_publish: bool = False
    sequence: int = 0
    error_reason: str = ""
    error_message: str = ""

    @property
    def pipeline(self) -> tuple[Stage, ...]:
        """Its stages in order."""
        stages = PIPELINES[self.kind]
        return tuple(stage for stage in stages if stage is not Stage.PUBLISH) if self.hold_publish else stages

    @property
    def succeeded_part_count(self) -> int:
        """Parts that have passed its last stage."""
        # A purge counts from its first look: the second one only proves it.
        stage = Stage.PURGE if self.kind is RunKind.PURGE else self.pipeline[-1]
        return self.passed.get(stage, 0)


@dataclass(frozen=True, slots=True)
class Task:
    """One stage of a batch of parts.

    Attributes:
        task_id: `<run>.<batch>.<stage>`, the same however often it is made.
        run_id: Its run.
        batch: Place of its parts in the run: "3", after a split "3-17", after a retry "r1-0".
        stage: What is done.
        lane: How urgent it is.
        state: Where it stands.
        parts: Ordinals of the versions (or builds) that it covers.
        attempt: Claims so far that count.
        deferral_count: How often it gave way to an outage.
        epoch: Rises with each claim and never falls along a batch: the fencing token, and the external version of
            what the claim writes.
        dispatch: Which of its messages is the current one; rises with each.
        lease_until_seconds: End of the lease by the database's clock, seconds since 1970.
        not_before_seconds: Earliest claim by the same clock.
        worker: Who claimed it last.
        error_reason: Last error.
        error_message: Its sentence.
        payload: Values that the stage before handed on.
    """

    task_id: str
    run_id: str
    batch: str
    stage: Stage
    lane: Lane
    state: TaskState
    parts: tuple[int, ...]
    attempt: int = 0
    deferral_count: int = 0
    epoch: int = 0
    dispatch: int = 1
    lease_until_seconds: float = 0.0
    not_before_seconds: float = 0.0
    worker: str = ""
    error_reason: str = ""
    error_message: str = ""
    payload: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartFailure:
    """A part that cannot go on.

    Attributes:
        ordinal: The part.
        reason: UPPER_SNAKE reason.
        message: One sentence for a person, without document text.
    """

    ordinal: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Advance:
    """What comes behind a stage that is done.

    Attributes:
        payload: Values for the next stage.
        goes_on: Whether the stage has done a slice of its work and wants another task of the same stage.
        is_late: Whether that other task is a second look: it begins when every worker that was thought dead has ended
            (`Policy.verify_delay_seconds`), and the run does not wait for it.
        skips: Stages behind this one that have nothing to do for these parts; they count as passed.
    """

    payload: Mapping[str, str] = field(default_factory=dict)
    goes_on: bool = False
    is_late: bool = False
    skips: frozenset[Stage] = frozenset()


class FailureKind(StrEnum):
    """What an error means for the task."""

    TRANSIENT = "transient"
    """Of the task's own; may go well the next time, counted as an attempt."""
    DEFERRED = "deferred"
    """Something it needs does not answer or is full; no attempt is used up."""
    PERMANENT = "permanent"
    """Trying again cannot help."""


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """An error of a whole task.

    Attributes:
        kind: What it means.
        reason: UPPER_SNAKE reason.
        message: One sentence for a person, without document text.
        delay_seconds: Least wait before the next try.
    """

    kind: FailureKind
    reason: str
    message: str
    delay_seconds: float = 0.0


class Verdict(StrEnum):
    """What became of an event."""

    CLAIMED = "claimed"
    BUSY = "busy"
    NOT_YET = "not_yet"
    OBSOLETE = "obsolete"
    REDISPATCHED = "redispatched"
    SPLIT = "split"
    EXHAUSTED = "exhausted"
    CANCELLED = "cancelled"
    CONTINUES = "continues"
    COMMITTED = "committed"
    FENCED = "fenced"


class Ack(StrEnum):
    """What to do with the message that brought the event."""

    ACK = "ack"
    NAK = "nak"
    DROP = "drop"
    """Neither: the message belongs to somebody else by now (reliability rule 3)."""
    KEEP = "keep"
    """Work goes on under it."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Send a task's message (its row may be new); due at the task's `not_before_seconds`."""

    task: Task
    is_new: bool = False
    all_parts_of_run: bool = False
    """Whether the store fills in every part of the run."""


@dataclass(frozen=True, slots=True)
class FailParts:
    """End parts with a reason."""

    stage: Stage
    failures: tuple[PartFailure, ...]


@dataclass(frozen=True, slots=True)
class MoveParts:
    """Set the state of versions."""

    parts: tuple[int, ...]
    state: VersionState


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Keep a task that nobody can do for a person to look at."""

    task: Task
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class CancelParts:
    """Cancel every unfinished part of the run, take back what it published, and drop its waiting tasks."""


Effect = Dispatch | FailParts | MoveParts | DeadLetter | CancelParts


@dataclass(frozen=True, slots=True)
class Decision:
    """What the state machine decided.

    Attributes:
        verdict: What became of the event.
        run: The run afterwards.
        task: The task afterwards; None for an event of a run alone.
        effects: What else to write in the same transaction.
        ack: What to do with the message.
        delay_seconds: Wait for NAK.
    """

    verdict: Verdict
    run: Run
    task: Task | None
    effects: tuple[Effect, ...] = ()
    ack: Ack = Ack.ACK
    delay_seconds: float = 0.0
