"""Keep one embedded server alive: start it, wait until it works, start it again when it dies, end it."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from corpusmesh_app.stack.leftovers import forget_process, record_process
from corpusmesh_app.stack.privileges import spawn_prefix
from corpusmesh_app.stack.process import ServerProcess, read_tail
from corpusmesh_app.stack.servers import EmbeddedServer, ServerContext
from corpusmesh_app.stack.settings import ServerName, ServerState, ServerStatus, StackEvent
from corpusmesh_core.errors import CorpusMeshError, UnavailableError

_POLL_SECONDS: Final = 0.1
_FIRST_BACKOFF_SECONDS: Final = 0.5
_LAST_BACKOFF_SECONDS: Final = 15.0

_log = structlog.get_logger(__name__)


class SupervisedServer:
    """One server and the task that watches it."""

    def __init__(
        self,
        server: EmbeddedServer,
        context: ServerContext,
        *,
        log_path: Path,
        notes_directory: Path,
        program: Path,
        on_event: Callable[[StackEvent], None],
    ) -> None:
        """Create it, not running.

        Args:
            server: The server.
            context: What the server was given.
            log_path: Where its output goes.
            notes_directory: Where its process is noted for a successor of this supervisor.
            program: The program that its process will be.
            on_event: Told of every change of state.
        """
        self._server = server
        self._context = context
        self._log_path = log_path
        self._notes_directory = notes_directory
        self._program = program
        self._on_event = on_event
        self._process: ServerProcess | None = None
        self._watch: asyncio.Task[None] | None = None
        self._state = ServerState.STOPPED
        self._start_seconds: float | None = None
        self._deaths: deque[float] = deque(maxlen=max(1, context.settings.max_restart_count + 1))
        self._restart_count = 0
        self._ready = asyncio.Event()
        self._commands = asyncio.Lock()

    @property
    def name(self) -> ServerName:
        """Which server it is."""
        return self._server.name

    @property
    def log_path(self) -> Path:
        """Where its output goes."""
        return self._log_path

    def status(self) -> ServerStatus:
        """Say what is known of it."""
        process = self._process
        return ServerStatus(
            name=self.name,
            state=self._state,
            pid=process.pid if process is not None and process.returncode is None else None,
            ports=self._context.ports,
            restart_count=self._restart_count,
            start_seconds=self._start_seconds,
            log_path=self._log_path,
        )

    async def start(self) -> None:
        """Start it and wait until it works.

        Raises:
            UnavailableError: SERVER_START_FAILED if it ends or does not answer in time; shows the end of its log.
        """
        async with self._commands:
            self._enter(ServerState.STARTING)
            await self._launch()
            self._watch = asyncio.create_task(self._keep_alive(), name=f"watch-{self.name}")

    async def stop(self) -> None:
        """End it and everything that it started. Does nothing if it does not run."""
        async with self._commands:
            await self._end()
            self._enter(ServerState.STOPPED)

    async def restart(self) -> None:
        """End it and start it again.

        Raises:
            UnavailableError: SERVER_START_FAILED as for `start`.
        """
        async with self._commands:
            await self._end()
            self._enter(ServerState.STARTING)
            await self._launch()
            self._watch = asyncio.create_task(self._keep_alive(), name=f"watch-{self.name}")

    async def kill(self) -> None:
        """Kill it as a crash would; the watching task then starts it again."""
        if self._process is not None:
            self._ready.clear()
            await self._process.kill()

    async def wait_ready(self) -> None:
        """Wait until it works (again)."""
        await self._ready.wait()

    def _enter(self, state: ServerState, detail: str = "") -> None:
        if state is self._state and not detail:
            return
        self._state = state
        if state is ServerState.READY:
            self._ready.set()
        else:
            self._ready.clear()
        self._on_event(StackEvent(self.name, state, detail))

    async def _end(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
            self._watch = None
        await self._end_process()

    async def _end_process(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        clean = await process.stop()
        await asyncio.to_thread(self._server.clean_up, clean=clean)
        await asyncio.to_thread(forget_process, self._notes_directory, self.name)

    async def _launch(self) -> None:
        """Start the process and wait until it works; leaves none behind if it does not."""
        started = time.monotonic()
        plan = await asyncio.to_thread(self._server.prepare)
        prefix = spawn_prefix(self._context.identity, plan.death_signal)
        process = await ServerProcess.start(plan, prefix, self._log_path)
        self._process = process
        try:
            await asyncio.to_thread(record_process, self._notes_directory, self.name, process.pid, self._program)
            await self._await_ready(process)
        except BaseException:
            await self._end_process()
            raise
        self._start_seconds = time.monotonic() - started
        self._enter(ServerState.READY)
        _log.info("server ready", server=self.name, pid=process.pid, duration_seconds=round(self._start_seconds, 2))

    async def _await_ready(self, process: ServerProcess) -> None:
        problem = "it has not answered"
        try:
            async with asyncio.timeout(self._context.settings.start_timeout_seconds):
                while process.returncode is None:
                    try:
                        await self._server.check()
                    except UnavailableError as error:
                        problem = error.message
                    else:
                        return
                    await asyncio.sleep(_POLL_SECONDS)
            problem = f"it ended with code {process.returncode}"
        except TimeoutError:
            problem = f"not ready after {self._context.settings.start_timeout_seconds:.0f} s ({problem})"
        tail = await asyncio.to_thread(read_tail, self._log_path)
        raise UnavailableError(
            "SERVER_START_FAILED",
            f"{self.name} did not start: {problem}; the end of its log {self._log_path} is:\n{tail}",
            server=self.name,
            problem=problem,
            log_path=self._log_path,
        )

    async def _keep_alive(self) -> None:
        """Start the server again whenever it dies, until that is of no use any more."""
        while True:
            process = self._process
            if process is not None:
                code = await process.wait()
                _log.warning("server died", server=self.name, exit_code=code)
                self._enter(ServerState.RESTARTING, f"it ended with code {code}")
                await self._end_process()  # its children, and what it left
            self._deaths.append(time.monotonic())
            if self._has_died_too_often():
                detail = f"it died {len(self._deaths)} times; its log is {self._log_path}"
                _log.error("server given up", server=self.name, death_count=len(self._deaths))
                self._enter(ServerState.FAILED, detail)
                return
            delay_seconds = min(_FIRST_BACKOFF_SECONDS * 2 ** (self._recent_death_count() - 1), _LAST_BACKOFF_SECONDS)
            await asyncio.sleep(delay_seconds)
            self._restart_count += 1
            try:
                await self._launch()
            except (CorpusMeshError, OSError) as error:
                _log.warning("server not restarted", server=self.name, problem=str(error))

    def _recent_death_count(self) -> int:
        horizon = time.monotonic() - self._context.settings.restart_window_seconds
        return sum(death > horizon for death in self._deaths)

    def _has_died_too_often(self) -> bool:
        return self._recent_death_count() > self._context.settings.max_restart_count
