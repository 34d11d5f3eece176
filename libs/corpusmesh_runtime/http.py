"""Runs an ASGI application inside the process's own event loop and ends it with the process."""

import asyncio
import contextlib
import socket
from collections.abc import Generator

import uvicorn

from corpusmesh_core.errors import FailedPreconditionError

_STARTED_POLL_SECONDS = 0.01
_STOP_TIMEOUT_SECONDS = 10.0


class _EmbeddedServer(uvicorn.Server):
    """A uvicorn server that leaves the process's signal handlers alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none: the composition root owns them."""
        yield


class HttpServer:
    """An HTTP server that a composition starts and stops."""

    def __init__(self, config: uvicorn.Config) -> None:
        """Create the server without listening.

        Args:
            config: Application, address and bounds.
        """
        self._config = config
        self._server = _EmbeddedServer(config)
        self._task: asyncio.Task[None] | None = None
        self._port = 0

    @property
    def port(self) -> int:
        """The port it listens on; 0 before `start`."""
        return self._port

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            FailedPreconditionError: If the port is taken.
        """
        # With the protocol named, or asyncio does not switch Nagle's algorithm off: 44 ms a request instead of 1.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self._config.host, self._config.port))
        except OSError as error:
            listener.close()
            address = f"{self._config.host}:{self._config.port}"
            raise FailedPreconditionError(
                "PORT_UNAVAILABLE", f"cannot listen on {address}; choose another port", address=address
            ) from error
        self._port = listener.getsockname()[1]
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]), name="http-server")
        while not self._server.started and not self._task.done():  # noqa: ASYNC110 - uvicorn offers no event
            await asyncio.sleep(_STARTED_POLL_SECONDS)

    async def stop(self) -> None:
        """Let running requests end, then close."""
        if self._task is None:
            return
        self._server.should_exit = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_TIMEOUT_SECONDS):
                await self._task
        self._task = None
