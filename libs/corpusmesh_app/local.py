"""The whole mesh on one machine: embedded servers, then the services in a process of their own, both supervised.

Two processes, so that a service that dies takes no server with it, and the servers' supervisor stays small. The
services speak gRPC over loopback and real NATS: there is no shortcut, so a laptop tests the wire.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx
import yaml
from pydantic import SecretStr

from corpusmesh_app.mesh import SERVICES, prepare_database
from corpusmesh_app.settings import MeshSettings, load_settings
from corpusmesh_app.stack import Stack, StackEndpoints, StackSettings, install_opensearch
from corpusmesh_app.stack.credentials import write_private
from corpusmesh_app.stack.ports import choose_ports
from corpusmesh_app.stack.process import read_tail, trim_log
from corpusmesh_app.wiring import url_with_password
from corpusmesh_core.errors import UnavailableError
from corpusmesh_runtime.config import read_secret

CONFIG_FILE: Final = "config.yaml"
ADMIN_KEY_FILE: Final = "admin.key"
_SECRETS_FOLDER = "secrets"
_PORTS_FILE = "service-ports.json"
_LOG_FILE = "services.log"
_READY_TIMEOUT_SECONDS = 180.0
_POLL_SECONDS = 0.1
_STOP_SECONDS = 30.0
_MAX_RESTARTS = 5
_RESTART_WINDOW_SECONDS = 300.0
_LOG_LIMIT_BYTES = 16 * 1024 * 1024

Ready = Callable[[str, str], None]
"""Told the gateway's gRPC address (`host:port`) and its HTTP URL."""


async def run_mesh(data_directory: Path, *, config: Path | None, ready: Ready, stop: asyncio.Event) -> None:
    """Run a mesh until it is told to stop.

    Args:
        data_directory: Everything that it keeps.
        config: The user's configuration; None for the defaults. A server that it names is used, not started.
        ready: Called once, when questions can be asked.
        stop: Ends the mesh.

    Raises:
        CorpusMeshError: If it does not come up, or its services die again and again.
    """
    await asyncio.to_thread(data_directory.mkdir, parents=True, exist_ok=True)
    user_settings = load_settings(config)
    await asyncio.to_thread(_install, user_settings)
    stack = Stack(_stack_settings(data_directory, user_settings))
    async with stack as endpoints:
        settings, path = write_local_config(data_directory, user_settings, endpoints)
        first_key = await prepare_database(settings)
        if first_key is not None:
            write_private(data_directory / ADMIN_KEY_FILE, first_key + "\n")
        services = _Services(data_directory, settings, path)
        try:
            await services.start()
            server, http = settings.gateway.server, settings.gateway.http
            ready(f"127.0.0.1:{server.listen_port}", f"http://127.0.0.1:{http.listen_port}")
            await services.supervise(stop)
        finally:
            await services.stop()


def _install(settings: MeshSettings) -> None:
    """Install what a first start needs; nothing where it is there."""
    # Imported here: neither is needed by a mesh whose servers and models are elsewhere.
    from corpusmesh_adapters.models.install import install_model

    if not settings.opensearch.url:
        install_opensearch()
    if settings.embed.backend.value == "onnx":
        install_model(settings.embed.model)


def _stack_settings(data_directory: Path, settings: MeshSettings) -> StackSettings:
    def secret(path: Path | None, setting: str) -> str:
        return read_secret(path, setting=setting) if path is not None else ""

    def hidden(value: str) -> SecretStr | None:
        return SecretStr(value) if value else None

    store = settings.object_store
    return StackSettings(
        data_directory=data_directory,
        opensearch_url=settings.opensearch.url or None,
        postgres_dsn=hidden(
            url_with_password(settings.postgres.dsn, secret(settings.postgres.password_file, "postgres.password_file"))
        ),
        nats_url=hidden(
            url_with_password(settings.nats.url, secret(settings.nats.password_file, "nats.password_file"))
        ),
        s3_url=store.url or None,
        s3_access_key=secret(store.access_key_file, "object_store.access_key_file") or None,
        s3_secret_key=hidden(secret(store.secret_key_file, "object_store.secret_key_file")),
        s3_bucket=store.bucket,
        s3_region=store.region,
    )


def write_local_config(
    data_directory: Path, settings: MeshSettings, endpoints: StackEndpoints
) -> tuple[MeshSettings, Path]:
    """Write the configuration that the services run with; secrets stand in files beside it.

    Args:
        data_directory: Where it goes.
        settings: The user's settings, which are kept but for addresses.
        endpoints: Where the servers answer.

    Returns:
        The settings as written, and the file.
    """
    folder = data_directory.absolute() / _SECRETS_FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    ports = choose_ports(
        data_directory / _PORTS_FILE,
        {"services": (*SERVICES, "http", "operations")},
    )["services"]
    values: dict[str, Any] = settings.model_dump(mode="json", exclude_unset=False)
    if not settings.identity.key_files:
        key = folder / "identity.key"
        if not key.exists():
            write_private(key, secrets.token_hex(32) + "\n")
        values["identity"]["key_files"] = [str(key)]
    for section, url in (("postgres", endpoints.postgres_dsn), ("nats", endpoints.nats_url)):
        field = "dsn" if section == "postgres" else "url"
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        netloc = f"{parts.username}@{host}" if parts.username else host
        values[section][field] = urlunsplit(parts._replace(netloc=netloc))
        if parts.password:
            values[section]["password_file"] = _secret(folder, f"{section}.password", unquote(parts.password))
    values["opensearch"]["url"] = endpoints.opensearch_url
    values["object_store"] |= {
        "url": endpoints.s3_url,
        "bucket": endpoints.s3_bucket,
        "region": endpoints.s3_region,
        "access_key_file": _secret(folder, "s3.access-key", endpoints.s3_access_key),
        "secret_key_file": _secret(folder, "s3.secret-key", endpoints.s3_secret_key),
    }
    for service in SERVICES:
        values[service]["server"]["listen_port"] = ports[service]
        if service in values["peers"]:
            values["peers"][service] = f"127.0.0.1:{ports[service]}"
    values["gateway"]["http"]["listen_port"] = ports["http"]
    values["operations"]["listen_port"] = ports["operations"]
    path = data_directory / CONFIG_FILE
    write_private(path, yaml.safe_dump(values, sort_keys=False, allow_unicode=True))
    return load_settings(path), path


def _secret(folder: Path, name: str, value: str) -> str:
    path = folder / name
    write_private(path, value + "\n")
    return str(path)


class _Services:
    """The process of all services, started again when it dies."""

    def __init__(self, data_directory: Path, settings: MeshSettings, config: Path) -> None:
        self._settings = settings
        self._config = config
        self._log = data_directory / "logs" / _LOG_FILE
        self._process: asyncio.subprocess.Process | None = None
        self._deaths: list[float] = []

    async def start(self) -> None:
        """Start the process and wait until it is ready.

        Raises:
            UnavailableError: If it ends or is not ready in time; the end of its log is in the message.
        """
        self._log.parent.mkdir(parents=True, exist_ok=True)
        trim_log(self._log, _LOG_LIMIT_BYTES)
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "corpusmesh_app.child",
                str(self._config),
                str(os.getpid()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        await self._await_ready(self._process)

    async def _await_ready(self, process: asyncio.subprocess.Process) -> None:
        operations = self._settings.operations
        url = f"http://{operations.listen_host}:{operations.listen_port}/readyz"
        deadline = time.monotonic() + _READY_TIMEOUT_SECONDS
        async with httpx.AsyncClient(timeout=2.0) as client:
            while time.monotonic() < deadline:
                if process.returncode is not None:
                    raise self._failure(f"the services ended with status {process.returncode}")
                with contextlib.suppress(httpx.HTTPError):
                    if (await client.get(url)).status_code == 200:
                        return
                await asyncio.sleep(_POLL_SECONDS)
        raise self._failure(f"the services were not ready after {_READY_TIMEOUT_SECONDS:.0f} seconds")

    async def supervise(self, stop: asyncio.Event) -> None:
        """Keep the process running until `stop`.

        Args:
            stop: Ends the supervision.

        Raises:
            UnavailableError: If the process dies again and again.
        """
        stopped = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                assert self._process is not None
                died = asyncio.ensure_future(self._process.wait())
                await asyncio.wait({stopped, died}, return_when=asyncio.FIRST_COMPLETED)
                if stop.is_set():
                    died.cancel()
                    return
                now = time.monotonic()
                self._deaths = [at for at in self._deaths if now - at < _RESTART_WINDOW_SECONDS] + [now]
                if len(self._deaths) > _MAX_RESTARTS:
                    raise self._failure("the services die again and again")
                await self.start()
        finally:
            stopped.cancel()

    async def stop(self) -> None:
        """End the process: first kindly, then for certain."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    def _failure(self, what: str) -> UnavailableError:
        return UnavailableError(
            "SERVICES_FAILED", f"{what}; the end of {self._log}:\n{read_tail(self._log)}", log=self._log
        )
