"""The worker of ingest with its relay and housekeeper, as one unit."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from corpusmesh_adapters.postgres import OutboxRelay, PostgresCompletionCache, PostgresTaskQueue, PostgresTaskSweeper
from corpusmesh_app.settings import MeshSettings
from corpusmesh_app.wiring import Adapters, chat_model, password_sealer
from corpusmesh_core.orchestration.values import Policy
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.ports.parsing import DocumentParser
from corpusmesh_ingest.enriching import Enricher, EnrichLimits
from corpusmesh_ingest.module import StageTools, ingest_stages
from corpusmesh_ingest.syncing.scheduler import SyncScheduler
from corpusmesh_runtime.housekeeper import Housekeeper
from corpusmesh_runtime.logging import get_logger
from corpusmesh_runtime.worker import Worker

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RunningWorker:
    """A worker at work."""

    worker: Worker

    def readiness(self) -> Mapping[str, bool]:
        """Tell whether it can fetch work."""
        return {"worker": self.worker.is_fetching}


@asynccontextmanager
async def run_worker(
    settings: MeshSettings,
    adapters: Adapters,
    *,
    parser: DocumentParser,
    tokenizer: TextTokenizer,
    failed: Callable[[BaseException], None],
) -> AsyncIterator[RunningWorker]:
    """Work until the block ends; then let running tasks end or give them back.

    Args:
        settings: The configuration.
        adapters: Open connections.
        parser: The parser pool.
        tokenizer: The embedder's tokenizer.
        failed: Told when a loop that must run has ended.

    Yields:
        The worker.
    """
    section = settings.ingest
    policy = Policy(
        lease_seconds=section.lease_seconds,
        max_attempts=section.max_attempts,
        verify_delay_seconds=section.purge_verify_delay_seconds,
    )
    handlers = ingest_stages(
        section,
        adapters.stores,
        StageTools(
            parser=parser,
            parse_limits=section.parse_limits.limits(max_bytes=section.max_document_bytes),
            unseal=password_sealer(settings).unseal,
            counter=tokenizer,
            embedder_max_tokens=adapters.embedder.max_input_tokens,
            enricher=Enricher(
                counter=tokenizer,
                chat=chat_model(settings),
                cache=PostgresCompletionCache(adapters.database),
                limits=EnrichLimits(
                    max_concurrent_calls=section.enrich_calls_in_flight,
                    call_timeout_seconds=section.enrich_call_timeout_seconds,
                ),
            ),
            judge=adapters.judge,
        ),
    )
    queue = PostgresTaskQueue(adapters.database, policy)
    worker = Worker(f"{socket.gethostname()}-{os.getpid()}", handlers, queue, adapters.broker, section.worker)
    relay = OutboxRelay(
        adapters.database, adapters.broker, on_error=lambda kind: _log.warning("relay round failed", kind=kind)
    )
    housekeeper = Housekeeper(
        PostgresTaskSweeper(adapters.database, policy), adapters.broker, adapters.broker, section.housekeeper
    )
    scheduler = SyncScheduler(adapters.stores.syncs, poll_seconds=section.sources.schedule_poll_seconds)
    loops = {
        asyncio.create_task(worker.run(), name="worker"),
        asyncio.create_task(relay.run(), name="relay"),
        asyncio.create_task(housekeeper.run(), name="housekeeper"),
        asyncio.create_task(scheduler.run(), name="schedule"),
    }

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("loop ended", loop=task.get_name(), exc_info=error)
            failed(error)

    for loop in loops:
        loop.add_done_callback(ended)
    try:
        yield RunningWorker(worker)
    finally:
        worker.stop()
        for loop in loops:
            if loop.get_name() != "worker":
                loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*loops, return_exceptions=True)
