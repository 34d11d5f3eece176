"""A worker with its relay and housekeeper as a process that can be killed: `python -m tests.support.worker_process`.

Its stages keep their records as files: `<folder>/index/<ordinal>-<position>`, written under names that are the same
however often a stage runs, and one line a call in `<folder>/calls`.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from corpusmesh_adapters.nats import Broker, BrokerSettings, NatsWorkBroker
from corpusmesh_adapters.postgres import (
    Database,
    DatabaseSettings,
    OutboxRelay,
    PostgresSnapshotStore,
    PostgresTaskQueue,
    PostgresTaskSweeper,
    RelaySettings,
)
from corpusmesh_core.errors import DocumentError, UnavailableError
from corpusmesh_core.orchestration.values import PartFailure, Policy, Stage
from corpusmesh_core.ports.work import StageOutcome
from corpusmesh_runtime.housekeeper import Housekeeper, HousekeeperSettings
from corpusmesh_runtime.worker import StageHandler, TaskContext, Worker, WorkerSettings
from corpusmesh_runtime.worker_metrics import MESSAGES_REJECTED_TOTAL
from tests.support.metadata import POLICY

RECORDS_PER_PART = 3
SETTINGS = WorkerSettings(
    interactive_slots=1,
    bulk_slots=2,
    heartbeat_seconds=0.3,
    poll_seconds=0.5,
    task_timeout_seconds=30.0,
    drain_seconds=2.0,
)


RELAY = RelaySettings(standby_seconds=0.2, poll_seconds=0.1, round_timeout_seconds=2.0, leader_silence_seconds=3.0)


class FileStages:
    def __init__(self, folder: Path, snapshots: PostgresSnapshotStore, work_seconds: float) -> None:
        self._index = folder / "index"
        self._index.mkdir(exist_ok=True)
        self._calls = folder / "calls"
        self._snapshots = snapshots
        self._work_seconds = work_seconds
        self.bad: frozenset[int] = frozenset()
        self.outage = False

    def handlers(self) -> Mapping[Stage, StageHandler]:
        return dict.fromkeys(Stage, self)

    def records(self, ordinal: int) -> list[Path]:
        return list(self._index.glob(f"{ordinal}-*"))

    def _remove(self, parts: tuple[int, ...]) -> None:
        for part in parts:
            for path in self.records(part):
                path.unlink(missing_ok=True)

    async def __call__(self, context: TaskContext) -> StageOutcome:
        claim = context.claim
        with self._calls.open("a") as calls:
            calls.write(json.dumps({"stage": claim.stage, "parts": claim.parts, "attempt": claim.attempt}) + "\n")
        if self.outage:
            raise UnavailableError("INDEX_AWAY", "the index does not answer", retry_delay_seconds=0.2)
        if claim.stage is Stage.EMBED:
            for _ in range(10):
                await asyncio.sleep(self._work_seconds / 10)
        failures = []
        if claim.stage is Stage.PARSE:
            if self.bad.issuperset(claim.parts):
                raise DocumentError("DOCUMENT_CORRUPT", "it is corrupt")
            failures = [PartFailure(part, "DOCUMENT_CORRUPT", "corrupt") for part in claim.parts if part in self.bad]
        context.reach("after_artefact")
        if claim.stage is Stage.INDEX:
            for part in claim.parts:
                for position in range(RECORDS_PER_PART):
                    (self._index / f"{part}-{position}").write_text(str(claim.epoch))
                context.reach("after_index")
        if claim.stage in (Stage.CLEANUP, Stage.VERIFY, Stage.PURGE):
            self._remove(claim.parts)
        publishable: tuple[int, ...] = ()
        if claim.stage is Stage.PUBLISH:
            waiting = await self._snapshots.waiting_versions(claim.tenant_id, claim.knowledge_base_id, 1000)
            wanted = {*claim.parts, *(version.ordinal for version in waiting)}
            publishable = tuple(part for part in wanted if len(self.records(part)) == RECORDS_PER_PART)
        return StageOutcome(failures=tuple(failures), publishable=publishable)


class WorkerParts:
    """Everything one process of work consists of."""

    def __init__(
        self, dsn: str, url: str, folder: Path, *, policy: Policy = POLICY, work_seconds: float = 0.05
    ) -> None:
        self.database = Database(DatabaseSettings(dsn, command_timeout_seconds=3.0))
        self.broker = Broker(
            BrokerSettings(url, request_timeout_seconds=2.0, ping_interval_seconds=0.5, ack_wait_seconds=1.5)
        )
        self.work = NatsWorkBroker(self.broker, on_rejected=lambda reason: MESSAGES_REJECTED_TOTAL.labels(reason).inc())
        self.stages = FileStages(folder, PostgresSnapshotStore(self.database), work_seconds)
        queue = PostgresTaskQueue(self.database, policy)
        self.worker = Worker(f"w-{os.getpid()}", self.stages.handlers(), queue, self.work, SETTINGS)
        self.relay = OutboxRelay(self.database, self.work, RELAY)
        self.housekeeper = Housekeeper(
            PostgresTaskSweeper(self.database, policy, grace_seconds=1.0),
            self.work,
            self.work,
            HousekeeperSettings(sweep_seconds=0.5),
        )

    async def run(self) -> None:
        await self.database.open()
        await self.broker.open()
        helpers = [asyncio.create_task(self.relay.run()), asyncio.create_task(self.housekeeper.run())]
        try:
            await self.worker.run()
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            await self.broker.close()
            await self.database.close()


if __name__ == "__main__":
    asyncio.run(WorkerParts(sys.argv[1], sys.argv[2], Path(sys.argv[3])).run())
