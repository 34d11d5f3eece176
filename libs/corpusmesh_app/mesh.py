"""Runs services in this process, and the whole mesh on this machine."""

import asyncio
import secrets
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from corpusmesh.retrieve.v1.conversation_service_pb2_grpc import add_ConversationServiceServicer_to_server
from corpusmesh.retrieve.v1.evaluation_service_pb2_grpc import add_EvaluationServiceServicer_to_server
from corpusmesh.retrieve.v1.ledger_service_pb2_grpc import add_LedgerServiceServicer_to_server
from corpusmesh.retrieve.v1.research_service_pb2_grpc import add_ResearchServiceServicer_to_server
from corpusmesh.retrieve.v1.vocabulary_service_pb2_grpc import add_VocabularyServiceServicer_to_server
from corpusmesh_adapters.clustering.process import MixtureProcess
from corpusmesh_adapters.parsers import ParserPool
from corpusmesh_adapters.postgres import Database, migrate
from corpusmesh_app.backends import (
    chat_model,
    embedding_backend,
    embedding_tokenizer,
    page_embedding_backend,
    rerank_backend,
    web_source,
)
from corpusmesh_app.build_stores import graph_reader, graph_reads, graph_stores, raptor_stores
from corpusmesh_app.settings import MeshSettings
from corpusmesh_app.wiring import (
    Adapters,
    database_settings,
    gateway_stores,
    identity_signer,
    make_rng,
    open_adapters,
    password_sealer,
    retrieve_stores,
)
from corpusmesh_app.working import run_graph_worker, run_tree_worker, run_worker
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_embed.module import EmbedService
from corpusmesh_gateway.bootstrap import bootstrap_first_admin
from corpusmesh_gateway.module import Gateway
from corpusmesh_graph.module import GraphService
from corpusmesh_graph.stores import GraphTools
from corpusmesh_ingest.handlers.previews import PreviewTools
from corpusmesh_ingest.module import IngestService, ServiceTools
from corpusmesh_raptor.module import RaptorService
from corpusmesh_raptor.stores import RaptorTools
from corpusmesh_retrieve.answer_handlers import AnswerHandlers, ModelBounds
from corpusmesh_retrieve.answering import Answerer
from corpusmesh_retrieve.asking import ModelBudget, ModelSession
from corpusmesh_retrieve.assembling import assembly_stages
from corpusmesh_retrieve.conversing import ConversationHandlers, Conversations, ConversationTools
from corpusmesh_retrieve.correcting import CorrectionStage
from corpusmesh_retrieve.evaluating.handlers import EvaluationHandlers, EvaluationTools
from corpusmesh_retrieve.features import feature_stages
from corpusmesh_retrieve.graphs.stages import graph_stages
from corpusmesh_retrieve.hopping import HopStage
from corpusmesh_retrieve.ledger import LedgerHandlers, Recorder, Replayer
from corpusmesh_retrieve.module import RetrieveService
from corpusmesh_retrieve.pages import PageReader
from corpusmesh_retrieve.recalling import Recaller
from corpusmesh_retrieve.researching.handlers import ResearchHandlers, ResearchTools
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_retrieve.stages import SearchStages
from corpusmesh_retrieve.trees.leaves import LeafStage
from corpusmesh_retrieve.trees.stage import TreeStage
from corpusmesh_retrieve.understanding import UnderstandingTools, knowledge_base_router, understanding_stages
from corpusmesh_retrieve.viewing import SnapshotReader, Viewer
from corpusmesh_retrieve.vocabulary.handlers import VocabularyHandlers
from corpusmesh_retrieve.vocabulary.reading import VocabularyReader
from corpusmesh_runtime.graphs.reader import GraphReader
from corpusmesh_runtime.identity import IdentitySigner
from corpusmesh_runtime.logging import configure_logging, get_logger
from corpusmesh_runtime.operations import operations_server
from corpusmesh_runtime.tracing import configure_tracing

SERVICES: Final = ("embed", "ingest", "raptor", "graph", "retrieve", "gateway")
WORKERS: Final = ("ingest", "raptor", "graph")
"""Services that have a worker beside their server."""
ROLES: Final = ("server", "worker", "both")
_log = get_logger(__name__)


class Process:
    """The services of one process, started in the order of their needs and stopped in reverse."""

    def __init__(self, settings: MeshSettings, services: Collection[str], role: str) -> None:
        """Create the process without starting anything.

        Args:
            settings: The configuration.
            services: Names out of `SERVICES`.
            role: One of `ROLES`; those of `WORKERS` alone have a worker.

        Raises:
            InvalidArgumentError: If a name is unknown, or a worker is asked of a service that has none.
        """
        if role not in ROLES or not set(services) <= set(SERVICES):
            raise InvalidArgumentError(
                "SERVICE_UNKNOWN", f"services are {', '.join(SERVICES)}; roles are {', '.join(ROLES)}"
            )
        if role == "worker" and not set(services) <= set(WORKERS):
            raise InvalidArgumentError(
                "SERVICE_WITHOUT_WORKER", f"those that have a worker are {', '.join(WORKERS)}", field="role"
            )
        self._settings = settings
        self._services = tuple(services)
        self._role = role
        self._stack = AsyncExitStack()
        self._readiness: list[Callable[[], Mapping[str, bool]]] = []
        self.gateway: Gateway | None = None
        self._failed: asyncio.Future[None] | None = None
        self._reader: GraphReader | None = None

    def readiness(self) -> dict[str, bool]:
        """Tell which parts are ready."""
        parts: dict[str, bool] = {}
        for read in self._readiness:
            parts.update(read())
        return parts

    async def __aenter__(self) -> "Process":
        name = self._services[0] if len(self._services) == 1 else "mesh"
        configure_logging(self._settings.log, service=name)
        configure_tracing(self._settings.telemetry, service=name)
        self._failed = asyncio.get_running_loop().create_future()
        async with AsyncExitStack() as stack:
            await self._start(stack, identity_signer(self._settings))
            operations = self._settings.operations
            server = operations_server(
                host=operations.listen_host, port=operations.listen_port, readiness=self.readiness
            )
            await server.start()
            stack.push_async_callback(server.stop)
            self._stack = stack.pop_all()
        _log.info("ready", services=list(self._services), role=self._role)
        return self

    async def __aexit__(self, *_: object) -> None:
        _log.info("ending", services=list(self._services))
        await self._stack.aclose()

    async def run_until(self, stop: asyncio.Event) -> None:
        """Wait until `stop`, or until a part that must run has ended.

        Args:
            stop: Ends the wait.

        Raises:
            BaseException: What ended the part.
        """
        assert self._failed is not None
        stopped = asyncio.create_task(stop.wait())
        failed = asyncio.shield(self._failed)
        try:
            await asyncio.wait([stopped, failed], return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]
            if self._failed.done():
                self._failed.result()
        finally:
            stopped.cancel()

    async def _start(self, stack: AsyncExitStack, signer: IdentitySigner) -> None:
        settings = self._settings
        serves = self._role != "worker"
        if "embed" in self._services and serves:
            backend = await asyncio.to_thread(embedding_backend, settings)
            page_backend = await asyncio.to_thread(page_embedding_backend, settings)
            reranker = await asyncio.to_thread(rerank_backend, settings)
            embed = await stack.enter_async_context(
                EmbedService(settings.embed, backend, signer, page_backend=page_backend, rerank_backend=reranker)
            )
            self._readiness.append(embed.readiness)
        if own := [name for name in ("ingest", "raptor", "graph", "retrieve") if name in self._services]:
            name = own[0]
            adapters = await stack.enter_async_context(open_adapters(settings, signer, service=name))
            if "ingest" in self._services:
                await self._start_ingest(stack, adapters, signer, serves=serves)
            if "raptor" in self._services:
                await self._start_raptor(stack, adapters, signer, serves=serves)
            if "graph" in self._services:
                await self._start_graph(stack, adapters, signer, serves=serves)
            if "retrieve" in self._services and serves:
                await self._start_retrieve(stack, adapters, signer)
        if "gateway" in self._services and serves:
            await self._start_gateway(stack, signer)

    async def _start_ingest(
        self, stack: AsyncExitStack, adapters: Adapters, signer: IdentitySigner, *, serves: bool
    ) -> None:
        settings = self._settings
        if serves:
            tools = ServiceTools(previews=self._preview_tools(stack), sealer=password_sealer(settings))
            service = IngestService(settings.ingest, adapters.stores, tools, adapters.broker, signer)
            await stack.enter_async_context(service)
            self._readiness.append(service.readiness)
        if self._role != "server":
            parser = await stack.enter_async_context(ParserPool(process_count=settings.ingest.parse_processes))
            tokenizer = await asyncio.to_thread(embedding_tokenizer, settings)
            worker = await stack.enter_async_context(
                run_worker(settings, adapters, parser=parser, tokenizer=tokenizer, failed=self._fail)
            )
            self._readiness.append(worker.readiness)

    async def _start_raptor(
        self, stack: AsyncExitStack, adapters: Adapters, signer: IdentitySigner, *, serves: bool
    ) -> None:
        settings = self._settings
        stores = raptor_stores(settings, adapters)
        tokenizer = await asyncio.to_thread(embedding_tokenizer, settings)
        # Its process starts with the first tree of METHOD_MIXTURE: most meshes never make one.
        clusterer = await stack.enter_async_context(MixtureProcess())
        tools = RaptorTools(counter=tokenizer, chat=chat_model(settings), events=adapters.broker, clusterer=clusterer)
        if serves:
            service = RaptorService(settings.raptor, stores, tools, signer)
            await stack.enter_async_context(service)
            self._readiness.append(service.readiness)
        if self._role != "server":
            worker = await stack.enter_async_context(
                run_tree_worker(settings, adapters, stores, tools, failed=self._fail)
            )
            self._readiness.append(worker.readiness)

    async def _start_graph(
        self, stack: AsyncExitStack, adapters: Adapters, signer: IdentitySigner, *, serves: bool
    ) -> None:
        settings = self._settings
        stores = graph_stores(settings, adapters)
        tokenizer = await asyncio.to_thread(embedding_tokenizer, settings)
        tools = GraphTools(counter=tokenizer, chat=chat_model(settings), events=adapters.broker)
        if serves:
            views = await self._graph_reader(stack, adapters)
            service = GraphService(settings.graph, stores, tools, graph_reads(adapters, views), signer)
            await stack.enter_async_context(service)
            self._readiness.append(service.readiness)
        if self._role != "server":
            worker = await stack.enter_async_context(
                run_graph_worker(settings, adapters, stores, tools, failed=self._fail)
            )
            self._readiness.append(worker.readiness)

    async def _graph_reader(self, stack: AsyncExitStack, adapters: Adapters) -> GraphReader:
        """Give the one reader of graphs of this process."""
        if self._reader is None:
            self._reader = await stack.enter_async_context(graph_reader(self._settings, adapters))
        return self._reader

    def _preview_tools(self, stack: AsyncExitStack) -> PreviewTools:
        section = self._settings.ingest
        # Its process starts with the first preview: most servers never make one.
        parser = ParserPool(process_count=1, max_waiting=section.max_previews)
        stack.push_async_callback(parser.close)
        return PreviewTools(
            parser=parser,
            counter=lambda: embedding_tokenizer(self._settings),
            limits=section.parse_limits.limits(max_bytes=section.max_preview_bytes),
            max_waiting=section.max_previews,
            max_seconds=section.preview_timeout_seconds,
        )

    async def _start_retrieve(self, stack: AsyncExitStack, adapters: Adapters, signer: IdentitySigner) -> None:
        settings = self._settings
        stores = adapters.stores
        chat = chat_model(settings)
        # A step waits no longer for the model than an answer does.
        usual = ModelBudget()
        usual = replace(usual, call_timeout_seconds=min(usual.call_timeout_seconds, settings.chat.deadline_seconds))

        def open_session(*, model_free: bool, budget: ModelBudget | None = None) -> ModelSession:
            return ModelSession(None if model_free else chat, make_rng, budget or usual)

        pages = PageReader(
            stores.index,
            stores.objects,
            adapters.embedder,
            max_cached_bytes=settings.retrieve.max_cached_page_bytes,
        )
        own = retrieve_stores(adapters.database)
        words = VocabularyReader(own.vocabularies)

        web = web_source(settings, stores.embedder)
        if web is not None:
            stack.push_async_callback(web.close)
        views = await self._graph_reader(stack, adapters)

        def make_searcher(reader: SnapshotReader) -> Searcher:
            understanding = UnderstandingTools(
                Viewer(reader), stores.index, stores.embedder, words, partial(datetime.now, UTC)
            )
            correction = CorrectionStage(web=web)
            recaller = Recaller(stores.index, stores.embedder)
            graph = graph_stages(views, stores.index, recaller, adapters.embedder)
            stages = SearchStages(
                route=knowledge_base_router(understanding, stores.knowledge_bases).route,
                understanding=understanding_stages(understanding, beside=(graph.words,)),
                features=feature_stages(reader, stores.index),
                assembly=(
                    TreeStage(recaller),
                    graph.search,
                    correction,
                    *assembly_stages(
                        stores.index,
                        stores.embedder,
                        adapters.embedder,
                        between=(graph.walk, HopStage(recaller), pages),
                        compress_by_model=settings.retrieve.compress_by_model,
                    ),
                    graph.tables,
                    LeafStage(stores.index),
                ),
            )
            searcher = Searcher(reader, stores.index, stores.embedder, stages)
            correction.attach(searcher)
            return searcher

        searcher = make_searcher(stores.snapshots)
        conversations = ConversationTools(
            own.conversations,
            stores.snapshots,
            stores.knowledge_bases,
            settings.retrieve.conversations,
        )
        answerer = Answerer(stores.embedder, chat, make_rng)
        bounds = ModelBounds(settings.chat.max_answer_tokens, settings.chat.deadline_seconds)
        research = ResearchTools(searcher, answerer, web, open_session, chat is not None, bounds)
        recorder = Recorder(own.retrievals)

        def make_answers(recorder: Recorder | None) -> AnswerHandlers:
            return AnswerHandlers(
                searcher,
                answerer,
                settings.retrieve,
                bounds,
                open_session,
                Conversations(conversations),
                recorder,
            )

        window = settings.retrieve.candidate_window
        replayer = Replayer(searcher, stores.snapshots, open_session, default_window=window)
        evaluated_answers = make_answers(None)
        evaluation = EvaluationTools(
            golden_sets=own.golden_sets,
            evaluations=own.evaluations,
            snapshots=stores.snapshots,
            index=stores.index,
            make_searcher=make_searcher,
            open_session=open_session,
            answer=lambda request: evaluated_answers.AnswerQuestion(request, None),
            make_rng=make_rng,
            default_window=window,
        )
        service = RetrieveService(
            settings.retrieve,
            searcher=searcher,
            answers=make_answers(recorder),
            recorder=recorder,
            servicers=(
                partial(add_ConversationServiceServicer_to_server, ConversationHandlers(conversations)),
                partial(add_LedgerServiceServicer_to_server, LedgerHandlers(own.retrievals, replayer)),
                partial(
                    add_EvaluationServiceServicer_to_server,
                    EvaluationHandlers(evaluation, settings.retrieve.evaluation),
                ),
                partial(add_ResearchServiceServicer_to_server, ResearchHandlers(research, settings.retrieve)),
                partial(
                    add_VocabularyServiceServicer_to_server, VocabularyHandlers(own.vocabularies, words, stores.audit)
                ),
            ),
            open_session=open_session,
            knowledge_bases=stores.knowledge_bases,
            signer=signer,
        )
        await stack.enter_async_context(service)
        self._readiness.append(service.readiness)

    async def _start_gateway(self, stack: AsyncExitStack, signer: IdentitySigner) -> None:
        settings = self._settings
        database = Database(database_settings(settings))
        await database.open()
        stack.push_async_callback(database.close)
        peers = settings.peers
        gateway = Gateway(
            settings.gateway,
            stores=gateway_stores(database),
            signer=signer,
            addresses={
                "ingest": peers.ingest,
                "raptor": peers.raptor,
                "graph": peers.graph,
                "retrieve": peers.retrieve,
            },
            random_bytes=secrets.token_bytes,
        )
        await gateway.start()
        stack.push_async_callback(gateway.stop)
        self.gateway = gateway
        self._readiness.append(gateway.readiness)

    def _fail(self, error: BaseException) -> None:
        """End the process: a part that must run has ended."""
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)


async def prepare_database(settings: MeshSettings) -> str | None:
    """Bring the schema up to date, and make the first admin where there is no tenant.

    Args:
        settings: The configuration.

    Returns:
        The first admin's API key, this once; None if there is an admin already.

    Raises:
        CorpusMeshError: If the database does not answer or its schema is newer than this release.
    """
    access = database_settings(settings)
    await migrate(access.dsn)
    database = Database(access)
    await database.open()
    try:
        return await bootstrap_first_admin(gateway_stores(database), secrets.token_bytes)
    finally:
        await database.close()
