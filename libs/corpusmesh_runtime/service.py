"""A service of the mesh whose callers come through the gateway: its guard, its server, and how both start and end."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import grpc.aio

from corpusmesh_core.ports.metadata import KnowledgeBaseStore
from corpusmesh_runtime.authenticators import SignedIdentityAuthenticator
from corpusmesh_runtime.config import ServerSettings
from corpusmesh_runtime.guards import StoreGuard
from corpusmesh_runtime.identity import IdentitySigner
from corpusmesh_runtime.interceptor import GuardInterceptor
from corpusmesh_runtime.policy import rules_of
from corpusmesh_runtime.server import MeshServer


class GuardedService:
    """A gRPC server behind the policies of its methods and the rights on knowledge bases; a context manager."""

    def __init__(
        self,
        name: str,
        settings: ServerSettings,
        *,
        service_names: Sequence[str],
        register: Callable[[grpc.aio.Server], None],
        knowledge_bases: KnowledgeBaseStore,
        signer: IdentitySigner,
    ) -> None:
        """Create the service without starting it.

        Args:
            name: Names it in `/readyz`.
            settings: How it listens.
            service_names: Full names of the services that `register` adds.
            register: Adds the servicers.
            knowledge_bases: Guards the knowledge bases that a request names.
            signer: Verifies who calls.

        Raises:
            FailedPreconditionError: METHOD_WITHOUT_POLICY if a method has no complete policy.
        """
        self._name = name
        guard = GuardInterceptor(
            rules_of(service_names), SignedIdentityAuthenticator(signer), StoreGuard(knowledge_bases), settings
        )
        self._server = MeshServer(settings, service_names=service_names, interceptors=[guard], register=register)
        self._is_ready = False

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.port

    def readiness(self) -> dict[str, bool]:
        """Tell which parts are ready, for `/readyz`."""
        return {self._name: self._is_ready}

    async def __aenter__(self) -> Self:
        await self._server.start()
        await self._server.set_serving(serving=True)
        self._is_ready = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_ready = False
        await self._server.stop()
