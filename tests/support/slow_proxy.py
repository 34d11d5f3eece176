"""A TCP proxy that can be slow or silent, and counts what goes through."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class SlowProxy:
    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self.delay_seconds = 0.0
        self.is_silent = False
        self.port = 0
        self.open_count = 0
        self.most_open_count = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        self.open_count += 1
        self.most_open_count = max(self.most_open_count, self.open_count)
        pumps = [
            asyncio.create_task(self._pump(reader, up_writer)),
            asyncio.create_task(self._pump(up_reader, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.open_count -= 1
            for pump in pumps:
                pump.cancel()
            for each in (writer, up_writer):
                each.close()
            self._tasks.discard(task)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                while self.is_silent:  # noqa: ASYNC110 - a test may look every 50 ms
                    await asyncio.sleep(0.05)
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def slow_proxy(host: str, port: int) -> AsyncIterator[SlowProxy]:
    proxy = SlowProxy(host, port)
    server = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for task in list(proxy._tasks):
            task.cancel()
        await asyncio.gather(*proxy._tasks, return_exceptions=True)
