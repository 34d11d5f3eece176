"""Runs services until the process is told to end."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from corpusmesh_app.mesh import SERVICES, Process
from corpusmesh_app.settings import MeshSettings


@contextmanager
def stop_on_signals() -> Iterator[asyncio.Event]:
    """Turn SIGTERM and SIGINT into an event.

    Yields:
        The event.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def serve(service: str, settings: MeshSettings, role: str) -> None:
    """Run one service, or all of them, until SIGTERM or SIGINT.

    Args:
        service: A name out of `SERVICES`, or "all".
        settings: The configuration.
        role: "server", "worker" or "both".

    Raises:
        CorpusMeshError: If it does not come up, or a part of it ends.
    """
    names = SERVICES if service == "all" else (service,)
    with stop_on_signals() as stop:
        async with Process(settings, names, role) as process:
            await process.run_until(stop)
