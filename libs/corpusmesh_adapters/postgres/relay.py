"""The outbox relay: what a transaction said goes to the broker, whoever died in between.

One process at a time holds an advisory lock and relays; the others stand by. Rows are deleted once the broker has
them, so that the table stays as small as what is on its way. A timeout counts as "not known": the same id is published
again and the broker drops the second one (reliability rule 2).
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import asyncpg

from corpusmesh_adapters.postgres.database import Database
from corpusmesh_core.errors import CorpusMeshError
from corpusmesh_core.ports.work import OutboxMessage, Publisher

_LOCK_KEY = 0x636D_7265_6C61
"""Advisory lock of the relay ("cmrela")."""


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """How the relay works.

    Attributes:
        batch_size: Messages published at once.
        poll_seconds: Longest wait without a notification; also the resolution of delayed messages.
        standby_seconds: How often a process that stands by tries to take over.
        retry_seconds: Wait for a message that the broker did not take.
        round_timeout_seconds: Longest time for one batch.
        leader_silence_seconds: Silence after which the server ends a leader's session and so frees the lock: a process
            that is frozen must not lead. Longer than a round.
    """

    batch_size: int = 256
    poll_seconds: float = 0.5
    standby_seconds: float = 2.0
    retry_seconds: float = 2.0
    round_timeout_seconds: float = 10.0
    leader_silence_seconds: float = 15.0


class OutboxRelay:
    """Publishes the outbox until it is cancelled."""

    def __init__(
        self,
        database: Database,
        publisher: Publisher,
        settings: RelaySettings | None = None,
        *,
        on_error: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Create a relay.

        Args:
            database: The store; its settings name the server for the relay's own connection.
            publisher: Where messages go.
            settings: How.
            on_error: Told why a round failed, for the log.
        """
        self._database = database
        self._publisher = publisher
        self._settings = settings or RelaySettings()
        self._on_error = on_error
        self._wake = asyncio.Event()
        self.is_leader = False
        self.published_count = 0

    async def run(self) -> None:
        """Relay for ever; errors of store and broker are waited out. Ends by cancellation."""
        while True:
            try:
                await self._lead()
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, CorpusMeshError) as error:
                self._on_error(type(error).__name__)
            finally:
                self.is_leader = False
            await asyncio.sleep(self._settings.standby_seconds)

    async def _lead(self) -> None:
        """Take the lock if it is free and relay while the connection that holds it lives."""
        settings = self._database.settings
        connection = await asyncpg.connect(
            settings.dsn, timeout=settings.connect_timeout_seconds, command_timeout=settings.command_timeout_seconds
        )
        try:
            silence = f"{int(self._settings.leader_silence_seconds * 1000)}ms"
            await connection.execute(f"SET idle_session_timeout = '{silence}'")
            if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK_KEY):
                return
            await connection.add_listener("corpusmesh_outbox", self._notified)
            self.is_leader = True
            while True:
                self._wake.clear()
                # A leader whose connection is dead has lost its lock, and must notice before it goes on.
                await connection.execute("SELECT 1")
                async with asyncio.timeout(self._settings.round_timeout_seconds):
                    count = await self.relay_once()
                if count < self._settings.batch_size:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), self._settings.poll_seconds)
        finally:
            connection.terminate()

    def _notified(self, *_: object) -> None:
        self._wake.set()

    async def relay_once(self) -> int:
        """Publish one batch of due messages.

        Returns:
            How many were due.
        """
        async with self._database.system() as connection:
            rows = await connection.fetch(
                "SELECT outbox_id, subject, payload, headers FROM corpusmesh.outbox WHERE due_time <= now()"
                " ORDER BY due_time, outbox_id LIMIT $1",
                self._settings.batch_size,
            )
        if not rows:
            return 0
        results = await self._publisher.publish([_to_message(row) for row in rows])
        await self._settle(rows, results)
        return len(rows)

    async def _settle(self, rows: Sequence[asyncpg.Record], results: Sequence[str | None]) -> None:
        taken = [row["outbox_id"] for row, problem in zip(rows, results, strict=True) if problem is None]
        refused = [row["outbox_id"] for row, problem in zip(rows, results, strict=True) if problem is not None]
        async with self._database.system() as connection:
            await connection.execute("DELETE FROM corpusmesh.outbox WHERE outbox_id = ANY ($1)", taken)
            if refused:
                # Later, so that messages that the broker refuses (a full stream) do not hold up the others.
                await connection.execute(
                    "UPDATE corpusmesh.outbox SET due_time = now() + make_interval(secs => $2)"
                    " WHERE outbox_id = ANY ($1)",
                    refused,
                    self._settings.retry_seconds,
                )
        self.published_count += len(taken)
        for problem in {problem for problem in results if problem is not None}:
            self._on_error(problem)


def _to_message(row: asyncpg.Record) -> OutboxMessage:
    return OutboxMessage(str(row["outbox_id"]), row["subject"], row["payload"], row["headers"])
