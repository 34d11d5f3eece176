"""A gRPC server with health, reflection, keepalive, connection ageing and a graceful end."""

import asyncio
from collections.abc import Callable, Sequence

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer as AsyncHealthServicer
from grpc_reflection.v1alpha import reflection

from corpusmesh_core.errors import FailedPreconditionError
from corpusmesh_runtime.config import ServerSettings
from corpusmesh_runtime.interceptor import Interceptor
from corpusmesh_runtime.logging import get_logger

_log = get_logger(__name__)


class MeshServer:
    """Listens for calls of a service's methods."""

    def __init__(
        self,
        settings: ServerSettings,
        *,
        service_names: Sequence[str],
        interceptors: Sequence[Interceptor],
        register: Callable[[grpc.aio.Server], None],
    ) -> None:
        """Create the server without listening.

        Args:
            settings: Address, bounds and how it ends.
            service_names: Full names of the services that `register` adds, for health and reflection.
            interceptors: In order of the call.
            register: Adds the servicers.
        """
        self._settings = settings
        self._service_names = tuple(service_names)
        self._server = grpc.aio.server(
            interceptors=list(interceptors),
            options=_server_options(settings),
            maximum_concurrent_rpcs=settings.max_concurrent_rpcs,
        )
        register(self._server)
        self._health = AsyncHealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        if settings.reflection_enabled:
            reflection.enable_server_reflection((*self._service_names, reflection.SERVICE_NAME), self._server)
        self._port = 0

    @property
    def port(self) -> int:
        """The port it listens on; 0 before `start`."""
        return self._port

    async def start(self) -> None:
        """Begin to listen; health still says NOT_SERVING until `set_serving`.

        Raises:
            FailedPreconditionError: If the port is taken.
        """
        address = f"{self._settings.listen_host}:{self._settings.listen_port}"
        try:
            self._port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise FailedPreconditionError(
                "PORT_UNAVAILABLE", f"cannot listen on {address}; choose another port", address=address
            ) from error
        await self.set_serving(serving=False)
        await self._server.start()

    async def set_serving(self, *, serving: bool) -> None:
        """Say through the health service whether calls are welcome.

        Args:
            serving: Whether they are.
        """
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *self._service_names):
            await self._health.set(name, status)

    async def stop(self) -> None:
        """End gracefully: NOT_SERVING, wait for load balancers, refuse new calls, let running ones end."""
        await self.set_serving(serving=False)
        await asyncio.sleep(self._settings.drain_wait_seconds)
        await self._server.stop(self._settings.drain_grace_seconds)


def _server_options(settings: ServerSettings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", settings.max_receive_message_bytes),
        ("grpc.max_send_message_length", settings.max_send_message_bytes),
        ("grpc.keepalive_time_ms", int(settings.keepalive_time_seconds * 1000)),
        ("grpc.keepalive_timeout_ms", int(settings.keepalive_timeout_seconds * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.max_connection_age_ms", int(settings.max_connection_age_seconds * 1000)),
        ("grpc.max_connection_age_grace_ms", int(settings.max_connection_age_grace_seconds * 1000)),
        ("grpc.so_reuseport", 0),
    ]
