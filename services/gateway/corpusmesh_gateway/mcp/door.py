"""`/mcp`: the protocol over streamable HTTP, without sessions, behind the same key as every other path.

Each request stands alone: it is identified by a call of the gateway's own gRPC port before the protocol sees it, and
what a tool does are such calls again. So keys, roles, limits and the audit log bind here as they bind everywhere.
"""

import asyncio
from importlib import metadata
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from corpusmesh.gateway.v1 import admin_service_pb2 as admin_pb
from corpusmesh_gateway.authentication import credential_missing
from corpusmesh_gateway.config import HttpSettings
from corpusmesh_gateway.http.bodies import read_body, unless_gone
from corpusmesh_gateway.http.loopback import Loopback
from corpusmesh_gateway.http.routes import RouteTable
from corpusmesh_gateway.mcp.tools import Toolbox

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

CALLER_METHOD: Final = "/corpusmesh.gateway.v1.AdminService/GetCaller"


class McpDoor:
    """The ASGI application behind `/mcp`."""

    def __init__(self, routes: RouteTable, loopback: Loopback, settings: HttpSettings) -> None:
        """Create the door; nothing runs before the first request.

        Args:
            routes: Methods of the contract.
            loopback: Leads to the gRPC port.
            settings: Bounds, hosts and origins.
        """
        self._caller = routes.binding(CALLER_METHOD)
        self._tools = Toolbox(routes, loopback)
        self._loopback = loopback
        self._settings = settings
        self._starting = asyncio.Lock()
        self._manager: StreamableHTTPSessionManager | None = None
        self._running: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request.

        Args:
            scope: What is asked.
            receive: Gives the body.
            send: Takes the answer.
        """
        request = Request(scope, receive)
        if request.method != "POST":
            # Without sessions there is nothing to listen to, and nothing to end.
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
            return
        if not request.headers.get("authorization"):
            raise credential_missing()
        body = await read_body(
            request,
            max_bytes=self._settings.max_json_body_bytes,
            timeout_seconds=self._settings.body_timeout_seconds,
        )
        await unless_gone(request, self._loopback.call(self._caller, admin_pb.GetCallerRequest(), request))
        manager = await self._started()
        await manager.handle_request(scope, _replayed(body, receive), send)

    async def stop(self) -> None:
        """End what runs."""
        self._ending.set()
        if self._running is not None:
            await asyncio.wait((self._running,))

    async def _started(self) -> "StreamableHTTPSessionManager":
        async with self._starting:
            # A fault that took the tasks of all requests with it ends those requests, not the door.
            if self._manager is None or self._running is None or self._running.done():
                # In a thread: it takes a second, and other callers do not wait for it.
                manager = await asyncio.to_thread(_make_manager, self._tools, self._settings)
                ready = asyncio.Event()
                self._running = asyncio.create_task(_run(manager, ready, self._ending))
                await ready.wait()
                self._manager = manager
            return self._manager


def _make_manager(tools: Toolbox, settings: HttpSettings) -> "StreamableHTTPSessionManager":
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings

    from corpusmesh_gateway.mcp.server import DocumentServer

    return StreamableHTTPSessionManager(
        DocumentServer(tools, metadata.version("corpusmesh")).protocol,
        stateless=True,
        security_settings=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=list(settings.mcp_allowed_hosts),
            allowed_origins=list(settings.mcp_allowed_origins),
        ),
        max_request_body_size=settings.max_json_body_bytes,
    )


async def _run(manager: "StreamableHTTPSessionManager", ready: asyncio.Event, ending: asyncio.Event) -> None:
    """Keep the manager's tasks; they begin and end in this one task."""
    async with manager.run():
        ready.set()
        await ending.wait()


def _replayed(body: bytes, receive: Receive) -> Receive:
    is_given = False

    async def replay() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
