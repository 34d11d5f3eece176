"""The servers of a laptop, supervised as one."""

import asyncio
import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType, TracebackType
from typing import Final

import filelock
import structlog
from pydantic import SecretStr

from corpusmesh_app.stack.credentials import load_credentials, write_private
from corpusmesh_app.stack.folder import endpoints_path, pid_path, read_text
from corpusmesh_app.stack.leftovers import end_leftovers
from corpusmesh_app.stack.ports import choose_ports
from corpusmesh_app.stack.privileges import choose_identity
from corpusmesh_app.stack.probes import probe_nats, probe_opensearch, probe_postgres, probe_s3
from corpusmesh_app.stack.process import trim_log
from corpusmesh_app.stack.servers import (
    EmbeddedServer,
    NatsServer,
    OpenSearchServer,
    PostgresServer,
    SeaweedServer,
    ServerContext,
)
from corpusmesh_app.stack.servers.postgres import psql_program
from corpusmesh_app.stack.settings import (
    ServerName,
    ServerState,
    ServerStatus,
    StackEndpoints,
    StackEvent,
    StackSettings,
)
from corpusmesh_app.stack.supervised import SupervisedServer
from corpusmesh_core.errors import CorpusMeshError, FailedPreconditionError, InvalidArgumentError, UnavailableError

_LOG_CHECK_SECONDS: Final = 5.0
_EXTERNAL_POLL_SECONDS: Final = 1.0
_SERVER_CLASSES: Final = (OpenSearchServer, PostgresServer, NatsServer, SeaweedServer)

_log = structlog.get_logger(__name__)


class Stack:
    """OpenSearch, Postgres, NATS and S3: those that run elsewhere are checked, the others run here.

    Use it as `async with Stack(settings) as endpoints`, from a thread that lives as long as the servers shall.
    """

    def __init__(self, settings: StackSettings, *, on_event: Callable[[StackEvent], None] | None = None) -> None:
        """Create it, not running.

        Args:
            settings: How it runs.
            on_event: Told of every change of a server's state, on the event loop; must not block.
        """
        self._settings = settings.model_copy(update={"data_directory": settings.data_directory.absolute()})
        self._on_event = on_event
        self._supervised: dict[ServerName, SupervisedServer] = {}
        self._lock: filelock.BaseFileLock | None = None
        self._log_task: asyncio.Task[None] | None = None
        self._endpoints: StackEndpoints | None = None

    async def __aenter__(self) -> StackEndpoints:
        return await self.start()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def endpoints(self) -> StackEndpoints:
        """Where the servers answer.

        Raises:
            FailedPreconditionError: STACK_NOT_RUNNING before `start` and after `stop`.
        """
        if self._endpoints is None:
            raise FailedPreconditionError("STACK_NOT_RUNNING", "the local stack is not running; start it first")
        return self._endpoints

    async def start(self) -> StackEndpoints:
        """Start all servers side by side and wait until each does its work.

        Returns:
            Where they answer.

        Raises:
            FailedPreconditionError: STACK_ALREADY_RUNNING if another process runs one on this data folder, or for what
                is missing on this machine (Java, a wheel, rights).
            InvalidArgumentError: S3_KEYS_MISSING if `s3_url` has no keys.
            UnavailableError: SERVER_START_FAILED with the end of that server's log, EXTERNAL_SERVER_NOT_READY, or what
                the installation of OpenSearch raises.
        """
        self._check_settings()
        if self._lock is not None:
            raise FailedPreconditionError("STACK_ALREADY_RUNNING", "this stack is running already; stop it first")
        try:
            await asyncio.to_thread(self._take_folder)
            servers = await asyncio.to_thread(self._make_servers)
            await self._start_all()
        except BaseException:
            await self.stop()
            raise
        self._endpoints = self._make_endpoints(servers)
        write = json.dumps(dataclasses.asdict(self._endpoints), indent=1)
        await asyncio.to_thread(write_private, endpoints_path(self._settings.data_directory), write)
        self._log_task = asyncio.create_task(self._bound_logs(), name="bound-logs")
        return self._endpoints

    async def stop(self) -> None:
        """End all servers side by side, and all that they started. Does nothing if none runs."""
        if self._log_task is not None:
            self._log_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._log_task
            self._log_task = None
        outcomes = await asyncio.gather(
            *(server.stop() for server in self._supervised.values()), return_exceptions=True
        )
        self._supervised = {}
        self._endpoints = None
        await asyncio.to_thread(self._leave_folder)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    def status(self) -> tuple[ServerStatus, ...]:
        """Say what is known of each server."""
        external = (
            ServerStatus(name, ServerState.EXTERNAL, None, MappingProxyType({}), 0, None, None)
            for name in ServerName
            if self._is_external(name)
        )
        return (*(server.status() for server in self._supervised.values()), *external)

    def pids(self) -> Mapping[ServerName, int]:
        """The processes of the servers that run here now."""
        return {status.name: status.pid for status in self.status() if status.pid is not None}

    async def kill(self, name: str) -> None:
        """Kill one server as a crash would; it is then started again by itself (see `wait_ready`).

        Args:
            name: Which server (`ServerName`).

        Raises:
            InvalidArgumentError: SERVER_UNKNOWN if no such server runs here.
        """
        await self._find(name).kill()

    async def restart(self, name: str) -> None:
        """End one server and start it again on the same ports.

        Args:
            name: Which server (`ServerName`).

        Raises:
            InvalidArgumentError: SERVER_UNKNOWN if no such server runs here.
            UnavailableError: SERVER_START_FAILED if it does not come up.
        """
        await self._find(name).restart()

    async def wait_ready(self, name: str, *, timeout_seconds: float) -> None:
        """Wait until one server works (again).

        Args:
            name: Which server (`ServerName`).
            timeout_seconds: How long.

        Raises:
            InvalidArgumentError: SERVER_UNKNOWN if no such server runs here.
            UnavailableError: SERVER_NOT_READY if it does not in that time.
        """
        server = self._find(name)
        try:
            async with asyncio.timeout(timeout_seconds):
                await server.wait_ready()
        except TimeoutError as error:
            raise UnavailableError(
                "SERVER_NOT_READY", f"{name} is {server.status().state} after {timeout_seconds:.0f} s", server=name
            ) from error

    def _find(self, name: str) -> SupervisedServer:
        for server in self._supervised.values():
            if server.name == name:
                return server
        raise InvalidArgumentError("SERVER_UNKNOWN", f"no server {name!r} runs here", server=name)

    def _check_settings(self) -> None:
        settings = self._settings
        if settings.s3_url is not None and (settings.s3_access_key is None or settings.s3_secret_key is None):
            raise InvalidArgumentError(
                "S3_KEYS_MISSING", "s3_url needs s3_access_key and s3_secret_key", field="s3_access_key"
            )

    def _is_external(self, name: ServerName) -> bool:
        settings = self._settings
        configured = {
            ServerName.OPENSEARCH: settings.opensearch_url,
            ServerName.POSTGRES: settings.postgres_dsn,
            ServerName.NATS: settings.nats_url,
            ServerName.S3: settings.s3_url,
        }
        return configured[name] is not None

    def _take_folder(self) -> None:
        """Lock the data folder, and end what a killed predecessor left."""
        directory = self._settings.data_directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            lock = filelock.FileLock(directory / "stack.lock", thread_local=False)
            lock.acquire(timeout=0)
        except filelock.Timeout as error:
            pid = read_text(pid_path(directory)) or "unknown"
            raise FailedPreconditionError(
                "STACK_ALREADY_RUNNING",
                f"process {pid} runs the servers on {directory} already; end it or use another data folder",
                pid=pid,
                data_directory=directory,
            ) from error
        except OSError as error:
            raise FailedPreconditionError(
                "STACK_DATA_NOT_WRITABLE",
                f"cannot write the data folder {directory}: {error}",
                data_directory=directory,
            ) from error
        self._lock = lock
        endpoints_path(directory).unlink(missing_ok=True)
        pid_path(directory).write_text(str(os.getpid()), encoding="ascii")
        ended = end_leftovers(directory / "processes", directory)
        if ended:
            _log.warning("leftover servers ended", pids=ended, data_directory=str(directory))

    def _leave_folder(self) -> None:
        if self._lock is None:
            return
        directory = self._settings.data_directory
        endpoints_path(directory).unlink(missing_ok=True)
        pid_path(directory).unlink(missing_ok=True)
        self._lock.release()
        self._lock = None

    def _make_servers(self) -> dict[ServerName, EmbeddedServer]:
        settings = self._settings
        directory = settings.data_directory
        own = [server_class for server_class in _SERVER_CLASSES if not self._is_external(server_class.name)]
        programs = {server_class.name: server_class.programs(settings) for server_class in own}
        folders = [directory / server_class.name for server_class in own]
        reached = (path for paths in programs.values() for path in paths)
        identity = choose_identity([*folders, *reached]) if own else None
        ports = choose_ports(
            directory / "ports.json", {server_class.name: server_class.port_purposes for server_class in own}
        )
        names = [name for server_class in own for name in server_class.credential_names]
        credentials = load_credentials(directory / "credentials.json", names)
        logs = directory / "logs"
        logs.mkdir(exist_ok=True)
        servers: dict[ServerName, EmbeddedServer] = {}
        for server_class in own:
            name = server_class.name
            context = ServerContext(settings, directory / name, ports[name], credentials, identity)
            server = server_class(context)
            servers[name] = server
            self._supervised[name] = SupervisedServer(
                server,
                context,
                log_path=logs / f"{name}.log",
                notes_directory=directory / "processes",
                program=programs[name][0],
                on_event=self._tell,
            )
        return servers

    async def _start_all(self) -> None:
        """Start or check each server; the first failure cancels the others."""
        try:
            async with asyncio.TaskGroup() as group:
                for server in self._supervised.values():
                    group.create_task(server.start(), name=f"start-{server.name}")
                for name in ServerName:
                    if self._is_external(name):
                        group.create_task(self._await_external(name), name=f"check-{name}")
        except BaseExceptionGroup as problems:
            for problem in problems.exceptions:
                if isinstance(problem, CorpusMeshError):
                    raise problem from problems
            raise

    async def _await_external(self, name: ServerName) -> None:
        problem = "no answer"
        try:
            async with asyncio.timeout(self._settings.start_timeout_seconds):
                while True:
                    try:
                        await self._check_external(name)
                    except UnavailableError as error:
                        problem = error.message
                    else:
                        return
                    await asyncio.sleep(_EXTERNAL_POLL_SECONDS)
        except TimeoutError as error:
            raise UnavailableError(
                "EXTERNAL_SERVER_NOT_READY", f"the configured {name} is not ready: {problem}", server=name
            ) from error

    async def _check_external(self, name: ServerName) -> None:
        settings = self._settings
        match name:
            case ServerName.OPENSEARCH:
                await probe_opensearch(settings.opensearch_url or "")
            case ServerName.POSTGRES:
                await probe_postgres(_reveal(settings.postgres_dsn), psql_program())
            case ServerName.NATS:
                await probe_nats(_reveal(settings.nats_url))
            case ServerName.S3:
                await probe_s3(
                    settings.s3_url or "",
                    access_key=settings.s3_access_key or "",
                    secret_key=_reveal(settings.s3_secret_key),
                    region=settings.s3_region,
                    bucket=settings.s3_bucket,
                    write=False,
                )

    def _make_endpoints(self, servers: Mapping[ServerName, EmbeddedServer]) -> StackEndpoints:
        settings = self._settings
        opensearch = servers.get(ServerName.OPENSEARCH)
        postgres = servers.get(ServerName.POSTGRES)
        nats = servers.get(ServerName.NATS)
        s3 = servers.get(ServerName.S3)
        own_s3 = s3 if isinstance(s3, SeaweedServer) else None
        return StackEndpoints(
            opensearch_url=opensearch.url
            if isinstance(opensearch, OpenSearchServer)
            else settings.opensearch_url or "",
            postgres_dsn=postgres.dsn if isinstance(postgres, PostgresServer) else _reveal(settings.postgres_dsn),
            nats_url=nats.url if isinstance(nats, NatsServer) else _reveal(settings.nats_url),
            s3_url=own_s3.url if own_s3 else settings.s3_url or "",
            s3_access_key=own_s3.access_key if own_s3 else settings.s3_access_key or "",
            s3_secret_key=own_s3.secret_key if own_s3 else _reveal(settings.s3_secret_key),
            s3_bucket=settings.s3_bucket,
            s3_region=settings.s3_region,
        )

    def _tell(self, event: StackEvent) -> None:
        if self._on_event is not None:
            self._on_event(event)

    async def _bound_logs(self) -> None:
        limit_bytes = self._settings.log_limit_mib << 20
        while True:
            for server in list(self._supervised.values()):
                await asyncio.to_thread(trim_log, server.log_path, limit_bytes)
            await asyncio.sleep(_LOG_CHECK_SECONDS)


def _reveal(secret: SecretStr | None) -> str:
    return secret.get_secret_value() if secret is not None else ""
