"""The workers: that of ingest with its relay and housekeeper, those of trees and of graphs; each as one unit."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from corpusmesh_adapters.communities import LeidenFinder
from corpusmesh_adapters.postgres import OutboxRelay, PostgresCompletionCache, PostgresTaskQueue, PostgresTaskSweeper
from corpusmesh_app.backends import chat_model
from corpusmesh_app.settings import MeshSettings
from corpusmesh_app.wiring import Adapters, password_sealer
from corpusmesh_core.orchestration.values import Policy, Stage
from corpusmesh_core.ports.builds import DATASET_GRAPH, DATASET_TREE, BuildStore
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.ports.parsing import DocumentParser
from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_graph.module import graph_stages
from corpusmesh_graph.stores import GraphStores, GraphTools
from corpusmesh_ingest.enriching import Enricher, EnrichLimits
from corpusmesh_ingest.module import StageTools, ingest_stages
from corpusmesh_ingest.syncing.scheduler import SyncScheduler
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.module import raptor_stages
from corpusmesh_raptor.stores import RaptorStores, RaptorTools
from corpusmesh_runtime.build_scheduler import BuildScheduler
from corpusmesh_runtime.housekeeper import Housekeeper
from corpusmesh_runtime.logging import get_logger
from corpusmesh_runtime.worker import StageHandler, Worker

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RunningWorker:
    """A worker at work."""

    worker: Worker

    name: str = "worker"

    def readiness(self) -> Mapping[str, bool]:
        """Tell whether it can fetch work."""
        return {self.name: self.worker.is_fetching}


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
    policy = _policy(settings)
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
    async with _at_work(
        {
            "worker": worker.run(),
            "relay": relay.run(),
            "housekeeper": housekeeper.run(),
            "schedule": scheduler.run(),
        },
        worker,
        failed,
    ) as running:
        yield running


@asynccontextmanager
async def run_tree_worker(
    settings: MeshSettings,
    adapters: Adapters,
    stores: RaptorStores,
    tools: RaptorTools,
    *,
    failed: Callable[[BaseException], None],
) -> AsyncIterator[RunningWorker]:
    """Make trees until the block ends; then let running tasks end or give them back.

    Args:
        settings: The configuration.
        adapters: Open connections.
        stores: What trees stand on.
        tools: What they are made with.
        failed: Told when a loop that must run has ended.

    Yields:
        The worker.
    """
    handlers = raptor_stages(settings.raptor, stores, tools)
    async with _build_worker(
        settings, adapters, settings.raptor, handlers, stores.trees, DATASET_TREE, failed
    ) as running:
        yield running


@asynccontextmanager
async def run_graph_worker(
    settings: MeshSettings,
    adapters: Adapters,
    stores: GraphStores,
    tools: GraphTools,
    *,
    failed: Callable[[BaseException], None],
) -> AsyncIterator[RunningWorker]:
    """Make graphs until the block ends; then let running tasks end or give them back.

    Args:
        settings: The configuration.
        adapters: Open connections.
        stores: What graphs stand on.
        tools: What they are made with.
        failed: Told when a loop that must run has ended.

    Yields:
        The worker.
    """
    handlers = graph_stages(settings.graph, stores, tools, LeidenFinder())
    async with _build_worker(
        settings, adapters, settings.graph, handlers, stores.builds, DATASET_GRAPH, failed
    ) as running:
        yield running


@asynccontextmanager
async def _build_worker(
    settings: MeshSettings,
    adapters: Adapters,
    section: GraphServiceSettings | RaptorSettings,
    handlers: Mapping[Stage, StageHandler],
    builds: BuildStore,
    kind: str,
    failed: Callable[[BaseException], None],
) -> AsyncIterator[RunningWorker]:
    """Do builds of one kind, and start those that follow by themselves, beside the block."""
    queue = PostgresTaskQueue(adapters.database, _policy(settings))
    name = f"{socket.gethostname()}-{os.getpid()}-{kind}s"
    worker = Worker(name, handlers, queue, adapters.broker, section.worker)
    scheduler = BuildScheduler(
        builds, kind=kind, poll_seconds=section.update_poll_seconds, quiet_seconds=section.update_quiet_seconds
    )
    loops = {f"{kind} worker": worker.run(), f"{kind} schedule": scheduler.run()}
    async with _at_work(loops, worker, failed) as running:
        yield running


def _policy(settings: MeshSettings) -> Policy:
    section = settings.ingest
    return Policy(
        lease_seconds=section.lease_seconds,
        max_attempts=section.max_attempts,
        verify_delay_seconds=section.purge_verify_delay_seconds,
    )


@asynccontextmanager
async def _at_work(
    coroutines: Mapping[str, Coroutine[Any, Any, None]], worker: Worker, failed: Callable[[BaseException], None]
) -> AsyncIterator[RunningWorker]:
    """Run loops beside the block, that of the worker first; end them with it."""
    loops = [asyncio.create_task(coroutine, name=name) for name, coroutine in coroutines.items()]

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("loop ended", loop=task.get_name(), exc_info=error)
            failed(error)

    for loop in loops:
        loop.add_done_callback(ended)
    try:
        yield RunningWorker(worker, loops[0].get_name())
    finally:
        worker.stop()
        for loop in loops[1:]:
            loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*loops, return_exceptions=True)
