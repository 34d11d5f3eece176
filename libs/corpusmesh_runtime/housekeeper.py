"""What keeps work from being stuck: dead workers' leases, lost messages, uploads that stopped, dead letters.

Any number of processes may run it: every step is a locked transaction that finds nothing the second time.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Protocol

from pydantic import Field

from corpusmesh_core.errors import ConflictError, CorpusMeshError
from corpusmesh_core.ports.work import TaskSweeper, WorkBroker
from corpusmesh_runtime.config import Section
from corpusmesh_runtime.logging import get_logger
from corpusmesh_runtime.worker_metrics import TASKS_RECOVERED_TOTAL

_log = get_logger(__name__)


class HousekeeperSettings(Section):
    """How often things are looked at."""

    sweep_seconds: float = Field(default=5.0, gt=0)
    """Time between two looks at leases, messages and uploads."""
    prune_seconds: float = Field(default=600.0, gt=0)
    """Time between two deletions of what has outlived its use."""
    batch_size: int = Field(default=1000, ge=1)
    """Most tasks set going by one look."""


class _Graveyard(Protocol):
    async def bury_undeliverable(self, limit: int, timeout_seconds: float) -> int: ...


class Housekeeper:
    """Looks after work until it is cancelled."""

    def __init__(
        self,
        sweeper: TaskSweeper,
        broker: WorkBroker,
        graveyard: _Graveyard,
        settings: HousekeeperSettings | None = None,
    ) -> None:
        """Create a housekeeper.

        Args:
            sweeper: The store's side.
            broker: The stream's side.
            graveyard: Moves messages that the broker has given up.
            settings: How often.
        """
        self._sweeper = sweeper
        self._broker = broker
        self._graveyard = graveyard
        self._settings = settings or HousekeeperSettings()

    async def run(self) -> None:
        """Sweep for ever; errors of store and broker are waited out. Ends by cancellation."""
        until_prune = 0.0
        while True:
            await self._guarded(self.sweep_once())
            until_prune -= self._settings.sweep_seconds
            if until_prune <= 0:
                await self._guarded(self._prune())
                until_prune = self._settings.prune_seconds
            await asyncio.sleep(self._settings.sweep_seconds)

    async def sweep_once(self) -> None:
        """Look at everything once; what concerns the store alone goes on while the broker is away."""
        limit = self._settings.batch_size
        with contextlib.suppress(ConflictError):
            self._count("lease_expired", await self._sweeper.expire_leases(limit))
        with contextlib.suppress(ConflictError):
            self._count("upload_stopped", await self._sweeper.end_stale_runs(limit))
        await self._graveyard.bury_undeliverable(limit, 0.2)
        # Counted before the tasks: a message outlives its task by a moment, so what ends in between is not missed.
        messages = await self._broker.count_messages()
        open_tasks = await self._sweeper.count_open_tasks()
        for subject, count in open_tasks.items():
            if messages.get(subject, 0) < count:
                self._count("message_lost", await self._sweeper.redispatch(subject, limit))

    async def _prune(self) -> None:
        await self._sweeper.prune()

    @staticmethod
    async def _guarded(step: Coroutine[None, None, None]) -> None:
        try:
            await step
        except CorpusMeshError as error:
            _log.warning("housekeeping waits", reason=error.reason)

    @staticmethod
    def _count(cause: str, count: int) -> None:
        if count:
            TASKS_RECOVERED_TOTAL.labels(cause).inc(count)
            _log.info("work set going again", cause=cause, task_count=count)
