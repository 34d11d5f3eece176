"""The retrieve service as one unit that a process starts and stops."""

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self

import grpc.aio

from corpusmesh.retrieve.v1 import answer_service_pb2, retrieval_service_pb2
from corpusmesh.retrieve.v1.answer_service_pb2_grpc import add_AnswerServiceServicer_to_server
from corpusmesh.retrieve.v1.retrieval_service_pb2_grpc import add_RetrievalServiceServicer_to_server
from corpusmesh_core.ports.metadata import KnowledgeBaseStore
from corpusmesh_retrieve.answering import Answerer
from corpusmesh_retrieve.config import RetrieveSettings
from corpusmesh_retrieve.handlers import AnswerHandlers, ModelBounds, RetrievalHandlers
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_runtime.authenticators import SignedIdentityAuthenticator
from corpusmesh_runtime.guards import StoreGuard
from corpusmesh_runtime.identity import IdentitySigner
from corpusmesh_runtime.interceptor import GuardInterceptor
from corpusmesh_runtime.policy import rules_of
from corpusmesh_runtime.server import MeshServer

RETRIEVE_SERVICE_NAMES: Final = tuple(
    service.full_name
    for descriptor in (retrieval_service_pb2.DESCRIPTOR, answer_service_pb2.DESCRIPTOR)
    for service in descriptor.services_by_name.values()
)


class RetrieveService:
    """The gRPC server of the retrieve service; an asynchronous context manager."""

    def __init__(
        self,
        settings: RetrieveSettings,
        *,
        searcher: Searcher,
        answerer: Answerer,
        bounds: ModelBounds,
        knowledge_bases: KnowledgeBaseStore,
        signer: IdentitySigner,
    ) -> None:
        """Create the service without starting it.

        Args:
            settings: Its settings.
            searcher: Runs searches.
            answerer: Writes answers.
            bounds: Bounds of the language model.
            knowledge_bases: Guards the knowledge bases that a request names.
            signer: Verifies who calls.
        """
        self._retrieval = RetrievalHandlers(searcher, settings)
        self._answers = AnswerHandlers(searcher, answerer, settings, bounds)
        guard = GuardInterceptor(
            rules_of(RETRIEVE_SERVICE_NAMES),
            SignedIdentityAuthenticator(signer),
            StoreGuard(knowledge_bases),
            settings.server,
        )
        self._server = MeshServer(
            settings.server, service_names=RETRIEVE_SERVICE_NAMES, interceptors=[guard], register=self._register
        )
        self._stack = AsyncExitStack()
        self._is_ready = False

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.port

    def readiness(self) -> dict[str, bool]:
        """Tell which parts are ready, for `/readyz`."""
        return {"retrieve": self._is_ready}

    async def __aenter__(self) -> Self:
        await self._server.start()
        self._stack.push_async_callback(self._server.stop)
        await self._server.set_serving(serving=True)
        self._is_ready = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_ready = False
        await self._stack.aclose()

    def _register(self, server: grpc.aio.Server) -> None:
        add_RetrievalServiceServicer_to_server(self._retrieval, server)
        add_AnswerServiceServicer_to_server(self._answers, server)
