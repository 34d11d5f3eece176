"""The gateway as a whole: the gRPC port, the HTTP port, and what stands between them and the services."""

import asyncio
import time
from collections.abc import Mapping

import grpc.aio
import uvicorn

from corpusmesh.gateway.v1 import admin_service_pb2_grpc as admin_grpc
from corpusmesh.graph.v1 import graph_input_service_pb2, graph_service_pb2  # noqa: F401
from corpusmesh.ingest.v1 import (  # noqa: F401
    chunk_service_pb2,
    document_service_pb2,
    knowledge_base_service_pb2,
    run_service_pb2,
    source_service_pb2,
)
from corpusmesh.raptor.v1 import tree_service_pb2  # noqa: F401
from corpusmesh.retrieve.v1 import (  # noqa: F401
    answer_service_pb2,
    conversation_service_pb2,
    evaluation_service_pb2,
    ledger_service_pb2,
    research_service_pb2,
    retrieval_service_pb2,
    vocabulary_service_pb2,
)
from corpusmesh_core.errors import CorpusMeshError, FailedPreconditionError
from corpusmesh_gateway.auditing import AuditDenials
from corpusmesh_gateway.authentication import ApiKeyAuthenticator, AuthenticatorChain
from corpusmesh_gateway.config import GatewaySettings
from corpusmesh_gateway.handlers import AdminHandlers, GatewayStores, RandomBytes
from corpusmesh_gateway.http.app import HttpGateway
from corpusmesh_gateway.http.loopback import Loopback
from corpusmesh_gateway.http.protocol import bounded_protocol
from corpusmesh_gateway.http.routes import RouteTable
from corpusmesh_gateway.limits import LimitInterceptor, RequestRate, StreamSlots
from corpusmesh_gateway.proxy import MemberProxy, StreamBounds, Upstream
from corpusmesh_runtime.channel import open_bare_channel
from corpusmesh_runtime.http import HttpServer
from corpusmesh_runtime.identity import IdentitySigner
from corpusmesh_runtime.interceptor import GuardInterceptor
from corpusmesh_runtime.policy import rules_of
from corpusmesh_runtime.server import MeshServer

ADMIN_SERVICE = "corpusmesh.gateway.v1.AdminService"
UPSTREAM_SERVICES: Mapping[str, tuple[str, ...]] = {
    "ingest": (
        "corpusmesh.ingest.v1.KnowledgeBaseService",
        "corpusmesh.ingest.v1.DocumentService",
        "corpusmesh.ingest.v1.ChunkService",
        "corpusmesh.ingest.v1.RunService",
        "corpusmesh.ingest.v1.SourceService",
    ),
    "raptor": ("corpusmesh.raptor.v1.TreeService",),
    "graph": ("corpusmesh.graph.v1.GraphService", "corpusmesh.graph.v1.GraphInputService"),
    "retrieve": (
        "corpusmesh.retrieve.v1.RetrievalService",
        "corpusmesh.retrieve.v1.AnswerService",
        "corpusmesh.retrieve.v1.ConversationService",
        "corpusmesh.retrieve.v1.EvaluationService",
        "corpusmesh.retrieve.v1.LedgerService",
        "corpusmesh.retrieve.v1.ResearchService",
        "corpusmesh.retrieve.v1.VocabularyService",
    ),
}
"""gRPC services behind the gateway, by the service of the mesh that owns them."""
_READINESS_TRUST_SECONDS = 1.0
_READINESS_TIMEOUT_SECONDS = 2.0


class Gateway:
    """The only door of the mesh."""

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        stores: GatewayStores,
        signer: IdentitySigner,
        addresses: Mapping[str, str],
        random_bytes: RandomBytes,
    ) -> None:
        """Create the gateway without listening.

        Args:
            settings: Its settings.
            stores: The metadata store.
            signer: Signs callers' identities for the services.
            addresses: Address of every service of `UPSTREAM_SERVICES`, `host:port` or `dns:///name:port`.
            random_bytes: Source of API keys, cryptographic.
        """
        self._settings = settings
        self._stores = stores
        self._signer = signer
        self._addresses = dict(addresses)
        self._random_bytes = random_bytes
        self._channels: list[grpc.aio.Channel] = []
        self._server: MeshServer | None = None
        self._http: HttpServer | None = None
        self._doors: HttpGateway | None = None
        self._loopback = Loopback(settings.http)
        self._serving = False
        self._store_answered_at_seconds = float("-inf")

    @property
    def grpc_port(self) -> int:
        """The gRPC port; 0 before `start`."""
        return self._server.port if self._server else 0

    @property
    def http_port(self) -> int:
        """The HTTP port; 0 before `start`."""
        return self._http.port if self._http else 0

    async def start(self) -> None:
        """Listen on both ports.

        Raises:
            FailedPreconditionError: If a method has no policy, or a port is taken.
        """
        self._server, routes = self._build_server()
        self._http = self._build_http(routes)
        try:
            await self._server.start()
            self._loopback.connect(self._server.port)
            await self._http.start()
        except FailedPreconditionError:
            await self.stop()
            raise
        await self._server.set_serving(serving=True)
        self._serving = True

    async def stop(self) -> None:
        """Stop gracefully: no new calls, running ones end, then the ports and channels close."""
        self._serving = False
        if self._server is not None:
            await self._server.set_serving(serving=False)
        if self._http is not None:
            await self._http.stop()
        if self._doors is not None:
            await self._doors.stop()
        if self._server is not None:
            await self._server.stop()
        await self._loopback.close()
        for channel in self._channels:
            await channel.close(grace=None)
        self._channels.clear()

    async def check_ready(self) -> bool:
        """Tell whether calls can be served: it listens, and the metadata store answers.

        The services behind are not asked: one that is away must not take the door to the others with it.

        Returns:
            Whether it is ready; an answer of the store is trusted for a second, so that probes cost nothing.
        """
        if not self._serving:
            return False
        if time.monotonic() - self._store_answered_at_seconds < _READINESS_TRUST_SECONDS:
            return True
        try:
            async with asyncio.timeout(_READINESS_TIMEOUT_SECONDS):
                await self._stores.tenants.list_tenants("", 1)
        except (CorpusMeshError, TimeoutError):
            return False
        self._store_answered_at_seconds = time.monotonic()
        return True

    def readiness(self) -> Mapping[str, bool]:
        """Tell which parts are ready, for the operations port.

        Returns:
            Parts by name.
        """
        return {"gateway": self._serving}

    def _build_server(self) -> tuple[MeshServer, RouteTable]:
        settings = self._settings
        upstream_names = [name for names in UPSTREAM_SERVICES.values() for name in names]
        service_names = (ADMIN_SERVICE, *upstream_names)
        rules = rules_of(service_names)
        upstreams = []
        for name, owned in UPSTREAM_SERVICES.items():
            channel = open_bare_channel(self._addresses[name], rules=rules_of(owned).values())
            self._channels.append(channel)
            upstreams.append(Upstream(name, channel, owned))
        limits = settings.limits
        bounds = StreamBounds(limits.max_upload_stream_bytes, limits.stream_idle_timeout_seconds)
        proxy = MemberProxy(upstreams, rules, self._signer, bounds)
        api_keys = ApiKeyAuthenticator(self._stores.keys, settings.authentication)
        admin = AdminHandlers(self._stores, api_keys, self._random_bytes)

        def register(server: grpc.aio.Server) -> None:
            admin_grpc.add_AdminServiceServicer_to_server(admin, server)
            server.add_generic_rpc_handlers((proxy,))

        guard = GuardInterceptor(
            rules,
            AuthenticatorChain([api_keys]),
            # The owning service guards its knowledge bases: the gateway does not read requests.
            None,
            settings.server,
            AuditDenials(self._stores.audit),
        )
        rate = RequestRate(limits.requests_per_second, limits.request_burst)
        slots = StreamSlots(limits.max_streams_per_key)
        server = MeshServer(
            settings.server,
            service_names=service_names,
            interceptors=[guard, LimitInterceptor([rate, slots])],
            register=register,
        )
        admin_methods = {name for name, rule in rules.items() if ADMIN_SERVICE in name and not rule.for_services}
        return server, RouteTable(service_names, proxy.full_methods | admin_methods)

    def _build_http(self, routes: RouteTable) -> HttpServer:
        settings = self._settings.http
        self._doors = HttpGateway(routes, self._loopback, settings, self._settings.limits, self.check_ready)
        config = uvicorn.Config(
            self._doors.application(),
            host=settings.listen_host,
            port=settings.listen_port,
            http=bounded_protocol(settings.header_timeout_seconds),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=settings.max_connections,
            h11_max_incomplete_event_size=settings.max_header_bytes,
            timeout_keep_alive=settings.keep_alive_seconds,
            timeout_graceful_shutdown=max(1, int(self._settings.server.drain_grace_seconds)),
        )
        return HttpServer(config)
