"""One server process: started in a session of its own, logged to a file of bounded size, ended without a rest."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import psutil

_GROUP_END_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05
_TAIL_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """How to start and stop a server.

    Attributes:
        command: Program and arguments.
        environment: The whole environment: nothing of ours leaks into a server.
        working_directory: Where it runs.
        death_signal: What it gets when this process dies; without `SIG`.
        stop_signal: What asks it to end.
        stop_grace_seconds: How long it may take over that before it is killed.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    working_directory: Path
    death_signal: str
    stop_signal: signal.Signals
    stop_grace_seconds: float


class ServerProcess:
    """A running server and all that it started.

    The death signal is bound to the thread that starts the process: start it from a thread that lives as long as the
    server shall.
    """

    def __init__(self, process: asyncio.subprocess.Process, plan: LaunchPlan) -> None:
        self._process = process
        self._plan = plan

    @classmethod
    async def start(cls, plan: LaunchPlan, prefix: Sequence[str], log_path: Path) -> Self:
        """Start a server.

        Args:
            plan: What to start.
            prefix: Words before the command (see `spawn_prefix`).
            log_path: Where its output is appended.

        Returns:
            The running process.
        """
        descriptor = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        try:
            process = await asyncio.create_subprocess_exec(
                *prefix,
                *plan.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                env=dict(plan.environment),
                cwd=plan.working_directory,
                start_new_session=True,
            )
        finally:
            os.close(descriptor)
        return cls(process, plan)

    @property
    def pid(self) -> int:
        """The leader of the server's session; `setpriv` becomes the server, so it is the server itself."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """Wait until it ended and return its exit code."""
        return await self._process.wait()

    async def stop(self) -> bool:
        """Ask it to end, then kill what is left of it.

        Returns:
            Whether it ended by itself within its grace.
        """
        clean = True
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(self._plan.stop_signal)
            try:
                async with asyncio.timeout(self._plan.stop_grace_seconds):
                    await self._process.wait()
            except TimeoutError:
                clean = False
        await self.kill()
        return clean

    async def kill(self) -> None:
        """Kill it and all that it started, and wait until none is left."""
        kill_session(self.pid)
        async with asyncio.timeout(_GROUP_END_SECONDS):
            await self._process.wait()
            while session_members(self.pid):
                kill_session(self.pid)
                await asyncio.sleep(_POLL_SECONDS)


def session_members(session: int) -> list[psutil.Process]:
    """List the living processes of a session; the dead ones that nobody has reaped yet do not count."""
    members = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
        except (psutil.Error, ProcessLookupError, PermissionError):
            continue
    return members


def kill_session(session: int) -> None:
    """Kill the process group of a session's leader and every other member of the session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(session, signal.SIGKILL)
    for process in session_members(session):
        with contextlib.suppress(psutil.Error):
            process.kill()


def trim_log(path: Path, limit_bytes: int) -> None:
    """Cut a log that has grown too long: its content moves to `<name>.1`, replacing what was there.

    The server goes on writing to the same file, which works because it was opened for appending.

    Args:
        path: The log.
        limit_bytes: Its greatest size.
    """
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > limit_bytes:
            shutil.copyfile(path, path.with_name(f"{path.name}.1"))
            os.truncate(path, 0)


def read_tail(path: Path) -> str:
    """Read the last lines of a log, for an error message."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    return text[text.find("\n") + 1 :].rstrip() if len(text) >= _TAIL_BYTES else text.rstrip()
