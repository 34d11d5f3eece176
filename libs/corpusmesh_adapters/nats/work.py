"""Work messages: publish, fetch, answer, and what happens to those that nobody can use."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js.client import JetStreamContext
from nats.js.errors import APIError, NotFoundError

from corpusmesh_adapters.nats.connection import ADVISORIES, ADVISORY_CONSUMER, WORK, Broker, translated
from corpusmesh_core.errors import UnavailableError
from corpusmesh_core.orchestration.values import Lane, Stage
from corpusmesh_core.ports.work import Delivery, OutboxMessage, WorkMessage, WorkSource

MESSAGE_ID_HEADER = "Nats-Msg-Id"
_CHECK_INTERVAL_SECONDS = 5.0
_MAX_COPIED_BYTES = 64 * 1024


class NatsDelivery:
    """`Delivery` of JetStream."""

    def __init__(self, message: WorkMessage, raw: Msg, timeout_seconds: float) -> None:
        self._message = message
        self._raw = raw
        self._timeout_seconds = timeout_seconds

    @property
    def message(self) -> WorkMessage:
        """What it says."""
        return self._message

    @property
    def raw(self) -> Msg:
        """The client's message."""
        return self._raw

    @property
    def delivery_count(self) -> int:
        """How often it was delivered, from 1."""
        return self._raw.metadata.num_delivered

    @property
    def headers(self) -> Mapping[str, str]:
        """Its headers."""
        return self._raw.headers or {}

    async def ack(self) -> None:
        """See `Delivery`; a plain ack is lost with the broker, this one is not (reliability 2.1).

        Raises:
            UnavailableError: If the broker does not confirm in time.
        """
        with translated():
            await self._raw.ack_sync(timeout=self._timeout_seconds)

    async def nak(self, delay_seconds: float) -> None:
        """See `Delivery`.

        Args:
            delay_seconds: Earliest time of the next delivery.
        """
        with translated():
            await self._raw.nak(delay=delay_seconds)

    async def keep_alive(self) -> None:
        """See `Delivery`."""
        with translated():
            await self._raw.in_progress()


class NatsWorkSource:
    """`WorkSource` of one durable consumer; binds again when the stream or the consumer was lost."""

    def __init__(self, broker: "NatsWorkBroker", stage: Stage, lane: Lane) -> None:
        self._broker = broker
        self._stage = stage
        self._lane = lane
        self._subscription: JetStreamContext.PullSubscription | None = None
        self._checked_at = 0.0

    async def fetch(self, limit: int, timeout_seconds: float) -> Sequence[Delivery]:
        """See `WorkSource`.

        Args:
            limit: Most messages.
            timeout_seconds: Longest wait.

        Returns:
            Messages.

        Raises:
            UnavailableError: If the broker cannot be reached.
        """
        broker = self._broker.broker
        if not broker.is_connected:
            raise UnavailableError("BROKER_UNAVAILABLE", "the work queue is not connected")
        with translated():
            subscription = self._subscription or await self._bind()
            try:
                raw = await subscription.fetch(limit, timeout=timeout_seconds)
            except TimeoutError:
                await self._check()
                return []
            except NatsError:
                await self.close()
                raise
        return [delivery for message in raw if (delivery := await self._broker.understand(message)) is not None]

    async def close(self) -> None:
        """See `WorkSource`."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None and self._broker.broker.is_connected:
            with translated():
                await subscription.unsubscribe()

    async def _bind(self) -> JetStreamContext.PullSubscription:
        broker = self._broker.broker
        try:
            name = await broker.ensure_consumer(self._stage, self._lane)
        except UnavailableError:
            # The stream was lost: make all of them again.
            await broker.ensure_streams()
            name = await broker.ensure_consumer(self._stage, self._lane)
        self._subscription = await broker.stream().pull_subscribe_bind(consumer=name, stream=WORK)
        self._checked_at = time.monotonic()
        return self._subscription

    async def _check(self) -> None:
        """Notice that the consumer is gone: a pull from one that does not exist is answered by silence."""
        if time.monotonic() - self._checked_at < _CHECK_INTERVAL_SECONDS:
            return
        self._checked_at = time.monotonic()
        try:
            await self._broker.broker.stream().consumer_info(WORK, f"{self._stage}-{self._lane}")
        except NotFoundError:
            await self.close()


class NatsWorkBroker:
    """`WorkBroker`, `Publisher` and `EventFeed` on JetStream."""

    def __init__(self, broker: Broker, *, on_rejected: Callable[[str], None] = lambda _: None) -> None:
        """Create it.

        Args:
            broker: The connection.
            on_rejected: Told the reason of every message that went to the dead letters, for the metric.
        """
        self.broker = broker
        self._on_rejected = on_rejected

    async def source(self, stage: Stage, lane: Lane) -> WorkSource:
        """See `WorkBroker`.

        Args:
            stage: Stage.
            lane: Lane.

        Returns:
            The source; it connects at the first fetch.
        """
        return NatsWorkSource(self, stage, lane)

    async def ping(self) -> None:
        """See `WorkBroker`."""
        await self.broker.ping()

    def subscribe(self, subject: str) -> AsyncIterator[bytes]:
        """See `EventFeed`.

        Args:
            subject: What to follow.

        Returns:
            Bodies from now on.
        """
        return self.broker.follow(subject)

    async def publish(self, messages: Sequence[OutboxMessage]) -> Sequence[str | None]:
        """See `Publisher`.

        Args:
            messages: Messages of the outbox.

        Returns:
            None for each that the broker has, otherwise why not.
        """
        if not self.broker.is_connected:
            return ["BROKER_UNAVAILABLE"] * len(messages)
        return await asyncio.gather(*(self._publish_one(message) for message in messages))

    async def _publish_one(self, message: OutboxMessage) -> str | None:
        headers = {**message.headers, MESSAGE_ID_HEADER: message.message_id}
        try:
            await self.broker.stream().publish(message.subject, message.payload, headers=headers)
        except APIError as error:
            return "STREAM_FULL" if error.err_code == 10077 else f"BROKER_REFUSED_{error.err_code}"
        except (NatsError, OSError, TimeoutError) as error:
            if "NoStreamResponse" in type(error).__name__:
                await self._remake_streams()
            return type(error).__name__
        return None

    async def _remake_streams(self) -> None:
        try:
            await self.broker.ensure_streams()
        except UnavailableError as error:
            self._on_rejected(error.reason)

    async def count_messages(self) -> Mapping[str, int]:
        """See `WorkBroker`.

        Returns:
            Messages by subject.
        """
        with translated():
            info = await self.broker.stream().stream_info(WORK, subjects_filter="work.>")
        return dict(info.state.subjects or {})

    async def reject(self, delivery: Delivery, reason: str) -> None:
        """See `WorkBroker`.

        Args:
            delivery: The message.
            reason: UPPER_SNAKE reason.
        """
        assert isinstance(delivery, NatsDelivery), "a source of this broker has made it"
        await self._bury(delivery.raw, reason)

    async def understand(self, raw: Msg) -> NatsDelivery | None:
        """Read a message; one that makes no sense goes to the dead letters and the consumer goes on (FR-A01)."""
        try:
            message = parse_work_message(raw.subject, raw.data)
        except ValueError:
            await self._bury(raw, "MESSAGE_MALFORMED")
            return None
        return NatsDelivery(message, raw, self.broker.settings.request_timeout_seconds)

    async def _bury(self, raw: Msg, reason: str) -> None:
        self._on_rejected(reason)
        sequence = raw.metadata.sequence.stream
        with translated():
            await self._copy_to_dead(raw.subject, raw.data, reason, sequence)
            await raw.term()

    async def _copy_to_dead(self, subject: str, data: bytes, reason: str, sequence: int) -> None:
        body = {
            "reason": reason,
            "subject": subject,
            "sequence": sequence,
            "body": data[:_MAX_COPIED_BYTES].decode(errors="replace"),
        }
        parts = subject.split(".")
        stage = parts[1] if len(parts) > 1 and parts[1] in Stage.__members__.values() else "unknown"
        await self.broker.stream().publish(
            f"dead.{stage}.undeliverable", json.dumps(body).encode(), headers={MESSAGE_ID_HEADER: f"dead-{sequence}"}
        )

    async def bury_undeliverable(self, limit: int, timeout_seconds: float) -> int:
        """Move messages that the broker has given up to the dead letters; otherwise they stay in the stream for ever.

        The task itself is not lost by that: the sweeper finds that it has no message any more.

        Args:
            limit: Most advisories.
            timeout_seconds: Longest wait for the first one.

        Returns:
            How many were moved.

        Raises:
            UnavailableError: If the broker cannot be reached.
        """
        stream = self.broker.stream()
        count = 0
        with translated():
            subscription = await stream.pull_subscribe_bind(consumer=ADVISORY_CONSUMER, stream=ADVISORIES)
            try:
                advisories = await subscription.fetch(limit, timeout=timeout_seconds)
            except TimeoutError:
                advisories = []
            finally:
                await subscription.unsubscribe()
            for advisory in advisories:
                sequence = int(json.loads(advisory.data)["stream_seq"])
                try:
                    message = await stream.get_msg(WORK, seq=sequence)
                except NotFoundError:
                    message = None
                if message is not None:
                    self._on_rejected("MAX_DELIVERIES")
                    await self._copy_to_dead(message.subject or "", message.data or b"", "MAX_DELIVERIES", sequence)
                    await stream.delete_msg(WORK, sequence)
                    count += 1
                await advisory.ack_sync(timeout=self.broker.settings.request_timeout_seconds)
        return count


def parse_work_message(subject: str, data: bytes) -> WorkMessage:
    """Read a work message strictly.

    Args:
        subject: Its subject.
        data: Its body.

    Returns:
        What it says.

    Raises:
        ValueError: If it makes no sense.
    """
    parts = subject.split(".")
    if len(parts) != 4 or parts[0] != "work":
        raise ValueError("not a subject of work")
    body = json.loads(data)
    if not isinstance(body, dict):
        raise ValueError("not an object")  # noqa: TRY004 - one kind of error for one kind of fault
    run_id, task_id, dispatch = body.get("run"), body.get("task"), body.get("dispatch")
    if not isinstance(run_id, str) or not isinstance(task_id, str) or not isinstance(dispatch, int):
        raise ValueError("a value is missing")  # noqa: TRY004 - as above
    if body.get("tenant") != parts[3] or not task_id.startswith(f"{run_id}."):
        raise ValueError("values contradict each other")
    return WorkMessage(parts[3], run_id, task_id, Stage(parts[1]), Lane(parts[2]), dispatch)
