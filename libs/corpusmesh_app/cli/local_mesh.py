"""Runs a whole mesh inside a command and ends it cleanly."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from corpusmesh_app.cli.failures import CommandFailedError, ExitStatus
from corpusmesh_app.cli.mesh_files import RunningMesh, announce, read_mesh, withdraw
from corpusmesh_app.cli.output import Output
from corpusmesh_app.local import run_mesh
from corpusmesh_app.stack import running_pid
from corpusmesh_core.errors import InternalError
from corpusmesh_runtime.config import LogSettings
from corpusmesh_runtime.logging import configure_logging


@asynccontextmanager
async def local_mesh(
    data: Path, config: Path | None, output: Output, stop: asyncio.Event
) -> AsyncIterator[tuple[RunningMesh, "asyncio.Task[None]"]]:
    """Run a mesh; commands find it while it runs.

    Args:
        data: Its data folder.
        config: Configuration file; None for the defaults.
        output: Where messages go.
        stop: Ends it.

    Yields:
        The mesh and the task that it runs in, which ends when the mesh does.

    Raises:
        CorpusMeshError: If it does not come up.
        CommandFailedError: If it was stopped before it was up.
    """
    started: asyncio.Future[RunningMesh] = asyncio.get_running_loop().create_future()

    def ready(gateway_grpc: str, gateway_http: str) -> None:
        if not started.done():
            started.set_result(announce(data, gateway_grpc, gateway_http, config, os.environ))

    if running_pid(data) is None:
        withdraw(data)  # left by a mesh that was killed; a living one's must stay, for this one will be refused
    # Standard output belongs to the result; the services have a log of their own below the data folder.
    level = "warning" if output.as_json else "info"
    configure_logging(LogSettings(level=level, format="console"), service="stack")
    output.message(f"Starting the mesh on {data}")
    running = asyncio.create_task(run_mesh(data, config=config, ready=ready, stop=stop), name="mesh")
    stopped = asyncio.create_task(stop.wait())
    try:
        waited: set[asyncio.Future[Any]] = {running, started, stopped}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            if stop.is_set():
                running.cancel()
                raise CommandFailedError(ExitStatus.INTERRUPTED)
            await running  # raises why it did not come up
            raise InternalError("MESH_ENDED", "the mesh ended before it was ready")
        yield started.result(), running
    finally:
        stop.set()
        stopped.cancel()
        if (announced := read_mesh(data)) is not None and announced.pid == os.getpid():
            withdraw(data)
        with contextlib.suppress(asyncio.CancelledError):
            await running
