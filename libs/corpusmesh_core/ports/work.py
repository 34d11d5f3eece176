"""What the mesh asks of its queue and of the store behind it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from corpusmesh_core.orchestration.values import Lane, PartFailure, Stage, TaskFailure, Verdict
from corpusmesh_core.tenancy.values import MetadataValue


@dataclass(frozen=True, slots=True)
class WorkMessage:
    """What a work message says: references, never payloads.

    Attributes:
        tenant_id: Tenant.
        run_id: Run.
        task_id: Task.
        stage: Stage, as in the subject.
        lane: Lane, as in the subject.
        dispatch: Which of the task's messages this is.
    """

    tenant_id: str
    run_id: str
    task_id: str
    stage: Stage
    lane: Lane
    dispatch: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A task in the hands of one worker.

    Attributes:
        tenant_id: Tenant.
        knowledge_base_id: Knowledge base.
        run_id: Run.
        task_id: Task.
        stage: Stage.
        lane: Lane.
        parts: Ordinals to work on (of versions or builds); those that were deleted meanwhile are left out already.
        attempt: From 1.
        epoch: Fencing token; write it as the external version of every record.
        lease_seconds: How long the claim holds without a heartbeat.
        payload: Values that the stage before handed on.
        headers: Trace and request id of the run.
    """

    tenant_id: str
    knowledge_base_id: str
    run_id: str
    task_id: str
    stage: Stage
    lane: Lane
    parts: tuple[int, ...]
    attempt: int
    epoch: int
    lease_seconds: float
    payload: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the store decided, and what to do with the message.

    Attributes:
        verdict: What became of the event.
        claim: The claim, for CLAIMED.
        must_ack: Acknowledge the message.
        nak_delay_seconds: Give the message back after this; None to leave it alone.
    """

    verdict: Verdict
    claim: Claim | None = None
    must_ack: bool = False
    nak_delay_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class VersionPatch:
    """What a stage found out about a version; None leaves a value as it is.

    Attributes:
        ordinal: The version.
        media_type: Decided from the content.
        title: Title found.
        page_count: Pages, slides or sheets.
        chunk_count: Chunks that are searched and cited.
        record_count: Records of every kind that the index must hold before it may be published.
        token_count: Tokens of its chunks.
        artefacts: Storage keys to add, by name.
        warnings: What could not be read.
        extracted_metadata: Values found in the document, set on it when the version is published.
        forgets_password: Whether the password that opened the original is erased.
    """

    ordinal: int
    media_type: str | None = None
    title: str | None = None
    page_count: int | None = None
    chunk_count: int | None = None
    record_count: int | None = None
    token_count: int | None = None
    artefacts: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] | None = None
    extracted_metadata: Mapping[str, MetadataValue] | None = None
    forgets_password: bool = False


@dataclass(frozen=True, slots=True)
class StageAttempt:
    """A task that has worked, or may have worked, on versions; one that died may have written what no version names.

    Attributes:
        run_id: Its run.
        task_id: The task.
        stage: Its stage.
        parts: Ordinals that it covers.
    """

    run_id: str
    task_id: str
    stage: Stage
    parts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BuildChange:
    """What a build publishes, all at once (ADR-0007, decision 4).

    Attributes:
        build_id: The build.
        nodes: Ordinals of all that it consists of now, as a portable roaring bitmap: they become visible, and whatever
            else of it was visible is withdrawn; its records stay until no kept snapshot shows them.
        sources: Ordinals of the versions that it covers now, as a portable roaring bitmap.
        snapshot_id: Snapshot of the knowledge base that it was made from.
        artefacts: Storage keys by name, in place of those before.
        figures: Plain values that describe it, in place of those before.
    """

    build_id: str
    nodes: bytes
    sources: bytes
    snapshot_id: int
    artefacts: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StageOutcome:
    """What a stage made of a claim.

    Attributes:
        failures: Parts that cannot go on, each with its reason; the others go on.
        patches: What was found out about versions.
        publishable: For PUBLISH: ordinals whose records the index was seen to hold in full (parts of the claim, and
            others of the knowledge base that wait).
        payload: Values for the next stage.
        goes_on: Whether more of the same work is left than one task may do; another task of the stage follows.
        is_late: Whether that task is a second look, see `Advance`.
        skips: Stages that have nothing to do for the parts that go on.
        build: For the last task of a build: what becomes visible and what is withdrawn, in the same transaction.
    """

    failures: tuple[PartFailure, ...] = ()
    patches: tuple[VersionPatch, ...] = ()
    publishable: tuple[int, ...] = ()
    payload: Mapping[str, str] = field(default_factory=dict)
    goes_on: bool = False
    is_late: bool = False
    skips: frozenset[Stage] = frozenset()
    build: BuildChange | None = None


class TaskQueue(Protocol):
    """Claims on tasks; every method is one transaction, and every message that it causes is in the outbox with it."""

    async def claim(self, message: WorkMessage, worker: str) -> Answer:
        """Claim a task.

        Raises:
            NotFoundError: TASK_UNKNOWN if there is no such task: the message is a dead letter.
        """
        ...

    async def heartbeat(self, claim: Claim) -> Answer:
        """Extend the lease: CONTINUES, CANCELLED (stop and release), or FENCED (stop and touch nothing)."""
        ...

    async def complete(self, claim: Claim, outcome: StageOutcome) -> Answer:
        """Commit a stage (and for PUBLISH the snapshot): COMMITTED, CANCELLED or FENCED."""
        ...

    async def fail(self, claim: Claim, failure: TaskFailure) -> Answer:
        """Report an error of the whole task."""
        ...

    async def release(self, claim: Claim) -> Answer:
        """Give a task back unharmed."""
        ...


class TaskSweeper(Protocol):
    """What one process does now and then so that nothing is ever stuck."""

    async def expire_leases(self, limit: int) -> int:
        """Take tasks away from workers that have not been heard of, and tell how many."""
        ...

    async def count_open_tasks(self) -> Mapping[str, int]:
        """Count the open tasks whose message should be in the stream, by subject."""
        ...

    async def redispatch(self, subject: str, limit: int) -> int:
        """Send the messages of waiting tasks of a subject again (twice is harmless), and tell how many."""
        ...

    async def end_stale_runs(self, limit: int) -> int:
        """End runs whose uploader has gone, and tell how many."""
        ...

    async def prune(self) -> int:
        """Delete what has outlived its use: responses, ended tasks, old snapshots; tell how many rows."""
        ...


class Delivery(Protocol):
    """One delivery of a work message."""

    @property
    def message(self) -> WorkMessage:
        """What it says."""
        ...

    @property
    def delivery_count(self) -> int:
        """How often it was delivered, from 1."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Its headers."""
        ...

    async def ack(self) -> None:
        """Acknowledge, and wait for the broker's word that it has it.

        Raises:
            UnavailableError: If the broker does not confirm in time; the message may come again.
        """
        ...

    async def nak(self, delay_seconds: float) -> None:
        """Give it back."""
        ...

    async def keep_alive(self) -> None:
        """Tell the broker that work goes on."""
        ...


class WorkSource(Protocol):
    """Work messages of one stage and lane."""

    async def fetch(self, limit: int, timeout_seconds: float) -> Sequence[Delivery]:
        """Wait for messages.

        Args:
            limit: Most messages.
            timeout_seconds: Longest wait.

        Returns:
            Messages; none if there were none in time. Messages that cannot be understood never appear here: they are
            moved to the dead letters.

        Raises:
            UnavailableError: If the broker cannot be reached; call again.
        """
        ...

    async def close(self) -> None:
        """Stop listening."""
        ...


class WorkBroker(Protocol):
    """The broker of work."""

    async def source(self, stage: Stage, lane: Lane) -> WorkSource:
        """Begin to listen to a stage and lane."""
        ...

    async def reject(self, delivery: Delivery, reason: str) -> None:
        """Move a message to the dead letters."""
        ...

    async def count_messages(self) -> Mapping[str, int]:
        """Count the work messages in the stream, by subject."""
        ...

    async def ping(self) -> None:
        """Ask for a sign of life.

        Raises:
            UnavailableError: If there is none in time.
        """
        ...


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """A message that waits to be published.

    Attributes:
        message_id: Id for deduplication: that of its outbox row.
        subject: Where to.
        payload: Body.
        headers: Trace and request id.
    """

    message_id: str
    subject: str
    payload: bytes
    headers: Mapping[str, str]


class Publisher(Protocol):
    """Publishes messages of the outbox."""

    async def publish(self, messages: Sequence[OutboxMessage]) -> Sequence[str | None]:
        """Publish messages at once.

        Returns:
            For each message None if the broker has it; otherwise why not. A timeout counts as not: the same id is
            published again and the broker drops the second one.
        """
        ...


class EventFeed(Protocol):
    """Events of the mesh: a view, never the truth."""

    def subscribe(self, subject: str) -> AsyncIterator[bytes]:
        """Follow a subject from now on; bodies are as published. Ends only by being closed; gaps are possible."""
        ...
