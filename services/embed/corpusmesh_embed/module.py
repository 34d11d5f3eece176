"""The embed service as one unit that a process starts and stops."""

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self

import grpc.aio

from corpusmesh.embed.v1.embed_service_pb2 import DESCRIPTOR
from corpusmesh.embed.v1.embed_service_pb2_grpc import add_EmbedServiceServicer_to_server
from corpusmesh_core.ports.embedding import EmbeddingBackend
from corpusmesh_core.ports.page_embedding import PageEmbeddingBackend
from corpusmesh_core.ports.reranking import RerankBackend
from corpusmesh_embed.batching import BatchingEmbedder
from corpusmesh_embed.config import BackendKind, EmbedSettings
from corpusmesh_embed.handlers import EmbedHandlers
from corpusmesh_embed.pages import PageEngine
from corpusmesh_embed.reranking import RerankEngine
from corpusmesh_runtime.authenticators import SignedIdentityAuthenticator
from corpusmesh_runtime.identity import IdentitySigner
from corpusmesh_runtime.interceptor import GuardInterceptor
from corpusmesh_runtime.policy import rules_of
from corpusmesh_runtime.server import MeshServer

EMBED_SERVICE_NAMES: Final = tuple(service.full_name for service in DESCRIPTOR.services_by_name.values())


class EmbedService:
    """Engine and gRPC server of the embed service; an asynchronous context manager.

    The order of starting is engine, server, SERVING; that of stopping the reverse: running calls end within the
    server's grace before the engine fails what is left.
    """

    def __init__(
        self,
        settings: EmbedSettings,
        backend: EmbeddingBackend,
        signer: IdentitySigner,
        *,
        page_backend: PageEmbeddingBackend | None = None,
        rerank_backend: RerankBackend | None = None,
    ) -> None:
        """Create the service without starting it.

        Args:
            settings: Its settings.
            backend: The model, made by the composition root from the settings.
            signer: Verifies who calls.
            page_backend: The vision model, likewise; None for none.
            rerank_backend: The cross-encoder, likewise; None for none.
        """
        self._pages = PageEngine(page_backend, max_waiting_calls=settings.max_waiting_page_calls)
        is_local = settings.rerank_model_directory is not None
        self._reranker = RerankEngine(
            rerank_backend,
            max_waiting_calls=settings.max_waiting_rerank_calls,
            concurrent_batch_count=1 if is_local else settings.rerank.concurrent_request_count,
        )
        concurrent = settings.openai.concurrent_request_count if settings.backend is BackendKind.OPENAI else 1
        self.engine = BatchingEmbedder(backend, settings, concurrent_batch_count=concurrent)
        guard = GuardInterceptor(
            rules_of(EMBED_SERVICE_NAMES), SignedIdentityAuthenticator(signer), None, settings.server
        )
        self._server = MeshServer(
            settings.server, service_names=EMBED_SERVICE_NAMES, interceptors=[guard], register=self._register
        )
        self._stack = AsyncExitStack()
        self._is_ready = False

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.port

    def readiness(self) -> dict[str, bool]:
        """Tell which parts are ready, for `/readyz`."""
        return {"embed-model": self._is_ready}

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.engine)
            await self._server.start()
            stack.push_async_callback(self._server.stop)
            await self._server.set_serving(serving=True)
            self._stack = stack.pop_all()
        self._is_ready = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_ready = False
        await self._stack.aclose()

    def _register(self, server: grpc.aio.Server) -> None:
        add_EmbedServiceServicer_to_server(EmbedHandlers(self.engine, self._pages, self._reranker), server)
