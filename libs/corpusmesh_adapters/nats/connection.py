"""One connection to the broker, with streams that are made again wherever they are missing."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError as StreamNotFoundError

from corpusmesh_adapters.nats.settings import BrokerSettings
from corpusmesh_core.errors import UnavailableError
from corpusmesh_core.orchestration.values import Lane, Stage

WORK = "WORK"
EVENTS = "EVENTS"
DEAD = "DEAD"
ADVISORIES = "ADVISORIES"
ADVISORY_CONSUMER = "dead-letters"
MAX_DELIVERIES_SUBJECT = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.WORK.*"
MAX_PENDING_EVENT_COUNT = 1024


@contextmanager
def translated() -> Iterator[None]:
    """Turn the client's errors into the project's.

    Raises:
        UnavailableError: Whatever went wrong on the way to the broker.
    """
    try:
        yield
    except (NatsError, OSError, TimeoutError) as error:
        raise UnavailableError(
            "BROKER_UNAVAILABLE", "the work queue does not answer; try again", kind=type(error).__name__
        ) from error


class Broker:
    """A connection to JetStream; open it once per process and close it at the end."""

    def __init__(self, settings: BrokerSettings, *, on_event: Callable[[str], None] = lambda _: None) -> None:
        """Create a broker.

        Args:
            settings: Bounds.
            on_event: Told of disconnects and reconnects, for the log.
        """
        self.settings = settings
        self._on_event = on_event
        self._client: Client | None = None
        self._setup = asyncio.Lock()

    async def open(self) -> None:
        """Connect and make the streams.

        Raises:
            UnavailableError: If the broker does not answer in time.
        """
        settings = self.settings
        with translated():
            async with asyncio.timeout(settings.request_timeout_seconds * 2):
                self._client = await nats.connect(
                    settings.url,
                    name="corpusmesh",
                    ping_interval=settings.ping_interval_seconds,
                    max_outstanding_pings=2,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=0.5,
                    connect_timeout=2,
                    error_cb=self._error,
                    disconnected_cb=self._disconnected,
                    reconnected_cb=self._reconnected,
                )
        await self.ensure_streams()

    async def close(self) -> None:
        """Close the connection; what was acknowledged before has been confirmed already."""
        if self._client is None:
            return
        client, self._client = self._client, None
        await client.close()

    @property
    def client(self) -> Client:
        """The connection.

        Raises:
            UnavailableError: If it is not open.
        """
        if self._client is None:
            raise UnavailableError("BROKER_CLOSED", "the work queue is not open in this process")
        return self._client

    @property
    def is_connected(self) -> bool:
        """Whether the connection is up now."""
        return self._client is not None and self._client.is_connected

    def stream(self) -> JetStreamContext:
        """Give the client of streams, with the deadline of every request set."""
        return self.client.jetstream(timeout=self.settings.request_timeout_seconds)

    async def ping(self) -> None:
        """Ask for a sign of life.

        Raises:
            UnavailableError: If there is none in time.
        """
        if not self.is_connected:
            raise UnavailableError("BROKER_UNAVAILABLE", "the work queue is not connected")
        with translated():
            await self.client.flush(timeout=int(max(1, self.settings.request_timeout_seconds)))

    async def ensure_streams(self) -> None:
        """Make or adjust every stream; safe at any time and from many processes.

        Raises:
            UnavailableError: If the broker does not answer.
        """
        async with self._setup:
            with translated():
                for config in self._stream_configs():
                    await self._ensure_stream(config)
                advisories = ConsumerConfig(
                    durable_name=ADVISORY_CONSUMER, ack_policy=AckPolicy.EXPLICIT, ack_wait=30.0, max_deliver=-1
                )
                await self.stream().add_consumer(ADVISORIES, advisories)

    async def ensure_consumer(self, stage: Stage, lane: Lane) -> str:
        """Make or adjust the consumer of a stage and lane.

        Returns:
            Its name.

        Raises:
            UnavailableError: If the broker does not answer.
        """
        settings = self.settings
        name = f"{stage}-{lane}"
        config = ConsumerConfig(
            durable_name=name,
            filter_subject=f"work.{stage}.{lane}.>",
            ack_policy=AckPolicy.EXPLICIT,
            max_deliver=settings.max_deliver,
            # The first wait, then longer ones: a message whose workers die again and again comes back less often.
            backoff=[settings.ack_wait_seconds, settings.ack_wait_seconds * 2, settings.ack_wait_seconds * 4],
            max_ack_pending=settings.max_ack_pending,
        )
        with translated():
            await self.stream().add_consumer(WORK, config)
        return name

    async def follow(self, subject: str) -> AsyncIterator[bytes]:
        """See `EventFeed.subscribe`; a reader that is too slow loses events, never memory.

        Args:
            subject: What to follow.

        Yields:
            Bodies.
        """
        with translated():
            subscription = await self.client.subscribe(subject, pending_msgs_limit=MAX_PENDING_EVENT_COUNT)
            await self.client.flush(timeout=int(max(1, self.settings.request_timeout_seconds)))
        try:
            async for message in subscription.messages:
                yield message.data
        finally:
            if self.is_connected:
                await subscription.unsubscribe()

    async def _ensure_stream(self, config: StreamConfig) -> None:
        stream = self.stream()
        assert config.name is not None, "every stream has a name"
        try:
            await stream.stream_info(config.name)
        except StreamNotFoundError:
            await stream.add_stream(config)
        else:
            await stream.update_stream(config)

    def _stream_configs(self) -> list[StreamConfig]:
        settings = self.settings
        common = {"storage": StorageType.FILE, "num_replicas": settings.replica_count}
        return [
            StreamConfig(
                name=WORK,
                subjects=["work.>"],
                retention=RetentionPolicy.WORK_QUEUE,
                max_msgs=settings.max_work_messages,
                # Refuse the newest instead of dropping the oldest: the outbox keeps it.
                discard=DiscardPolicy.NEW,
                duplicate_window=settings.duplicate_window_seconds,
                **common,  # type: ignore[arg-type]
            ),
            StreamConfig(
                name=EVENTS,
                subjects=["events.>"],
                retention=RetentionPolicy.LIMITS,
                max_age=settings.event_age_seconds,
                max_bytes=settings.event_bytes,
                discard=DiscardPolicy.OLD,
                duplicate_window=settings.duplicate_window_seconds,
                **common,  # type: ignore[arg-type]
            ),
            StreamConfig(
                name=DEAD,
                subjects=["dead.>"],
                retention=RetentionPolicy.LIMITS,
                max_age=settings.dead_letter_age_seconds,
                max_msgs=settings.max_work_messages,
                discard=DiscardPolicy.OLD,
                duplicate_window=settings.duplicate_window_seconds,
                **common,  # type: ignore[arg-type]
            ),
            StreamConfig(
                name=ADVISORIES,
                subjects=[MAX_DELIVERIES_SUBJECT],
                retention=RetentionPolicy.LIMITS,
                max_age=7 * 24 * 3600.0,
                max_msgs=settings.max_work_messages,
                discard=DiscardPolicy.OLD,
                **common,  # type: ignore[arg-type]
            ),
        ]

    async def _error(self, error: Exception) -> None:
        self._on_event(f"error {type(error).__name__}")

    async def _disconnected(self) -> None:
        self._on_event("disconnected")

    async def _reconnected(self) -> None:
        self._on_event("reconnected")
