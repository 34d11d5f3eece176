"""Ask each server a real question: one that it can answer only when it can do its work."""

import asyncio
import contextlib
import functools
import json
import os
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx

from corpusmesh_app.stack.s3_signing import sign_request
from corpusmesh_core.errors import UnavailableError

_REQUEST_TIMEOUT_SECONDS: Final = 5.0
# A SeaweedFS asked to write before its volumes are there holds the request for 5 s; asked again it answers at once.
_S3_TIMEOUT_SECONDS: Final = 1.5
_OK: Final = range(200, 300)
_MAX_LINE_BYTES: Final = 1 << 20
_DEFAULT_NATS_PORT: Final = 4222
_READINESS_KEY: Final = ".corpusmesh-ready"


def _not_ready(server: str, problem: object) -> UnavailableError:
    return UnavailableError(
        "SERVER_NOT_READY", f"{server} does not do its work yet: {problem}", server=server, problem=problem
    )


@functools.cache
def _tls_context() -> ssl.SSLContext:
    """Read the certificate authorities once: it takes 20 ms, and servers are asked ten times a second."""
    return ssl.create_default_context()


async def probe_opensearch(url: str) -> None:
    """Check that the cluster is usable and has the k-NN plugin.

    Args:
        url: Base URL, with user and password where it needs them.

    Raises:
        UnavailableError: SERVER_NOT_READY if it is not.
    """
    async with httpx.AsyncClient(base_url=url, timeout=_REQUEST_TIMEOUT_SECONDS, verify=_tls_context()) as client:
        try:
            health = (await client.get("/_cluster/health", params={"filter_path": "status"})).raise_for_status().json()
            plugins = (
                (await client.get("/_cat/plugins", params={"format": "json", "h": "component"}))
                .raise_for_status()
                .json()
            )
        except (httpx.HTTPError, ValueError) as error:
            raise _not_ready("OpenSearch", type(error).__name__) from error
    if health.get("status") not in {"yellow", "green"}:
        raise _not_ready("OpenSearch", f"cluster is {health.get('status')}")
    if not any(plugin.get("component") == "opensearch-knn" for plugin in plugins):
        raise _not_ready("OpenSearch", "the k-NN plugin is not installed")


async def probe_nats(url: str) -> None:
    """Log in and ask for the JetStream account.

    Args:
        url: `nats://` or `tls://`, with user and password or token where it needs them.

    Raises:
        UnavailableError: SERVER_NOT_READY if there is no answer, or JetStream is not enabled.
    """
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(_REQUEST_TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection(
                parts.hostname, parts.port or _DEFAULT_NATS_PORT, limit=_MAX_LINE_BYTES
            )
            try:
                answer = await _ask_jetstream(url, reader, writer)
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError) as error:
        raise _not_ready("NATS", type(error).__name__) from error
    if "error" in answer:
        raise _not_ready("NATS", answer["error"].get("description", "JetStream refused"))


async def _ask_jetstream(url: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, Any]:
    """Speak the few words of the NATS protocol that one request takes.

    Returns:
        The answer to `$JS.API.INFO`.

    Raises:
        ValueError: If the server answers otherwise.
    """
    parts = urlsplit(url)
    info = json.loads((await reader.readuntil(b"\r\n")).removeprefix(b"INFO "))
    if parts.scheme == "tls" or info.get("tls_required"):
        await writer.start_tls(_tls_context(), server_hostname=parts.hostname)
    login: dict[str, object] = {"verbose": False, "pedantic": False, "lang": "python", "version": "1"}
    if parts.password is not None:
        login |= {"user": unquote(parts.username or ""), "pass": unquote(parts.password)}
    elif parts.username:
        login["auth_token"] = unquote(parts.username)
    inbox = f"_INBOX.{os.urandom(12).hex()}"
    writer.write(f"CONNECT {json.dumps(login)}\r\nSUB {inbox} 1\r\nPUB $JS.API.INFO {inbox} 0\r\n\r\n".encode())
    await writer.drain()
    while True:
        line = await reader.readuntil(b"\r\n")
        if line.startswith(b"PING"):
            writer.write(b"PONG\r\n")
        elif line.startswith(b"MSG"):
            answer: dict[str, Any] = json.loads(await reader.readexactly(int(line.split()[-1])))
            return answer
        elif line.startswith(b"HMSG"):
            raise ValueError("no responders: JetStream is not enabled")
        elif line.startswith(b"-ERR"):
            raise ValueError(line.decode(errors="replace").strip())


async def probe_postgres(dsn: str, psql: Path) -> None:
    """Log in and select 1.

    Args:
        dsn: `postgresql://user:password@host:port/database`.
        psql: The client program.

    Raises:
        UnavailableError: SERVER_NOT_READY if there is no answer.
    """
    answer = await run_sql(dsn, psql, "select 1")
    if answer != "1":
        raise _not_ready("Postgres", f"select 1 gave {answer!r}")


async def run_sql(dsn: str, psql: Path, statement: str) -> str:
    """Run SQL through `psql`.

    Args:
        dsn: Where; its password goes through the environment, which other users cannot see.
        psql: The client program.
        statement: One or more statements or meta-commands; read from standard input.

    Returns:
        The rows, unaligned.

    Raises:
        UnavailableError: SERVER_NOT_READY if it fails.
    """
    parts = urlsplit(dsn)
    host = parts.netloc.rpartition("@")[2]
    bare = urlunsplit(parts._replace(netloc=f"{parts.username}@{host}" if parts.username else host))
    environment = {"PATH": os.environ.get("PATH", ""), "PGCONNECT_TIMEOUT": "5", "HOME": "/nonexistent"}
    if parts.password is not None:
        environment["PGPASSWORD"] = unquote(parts.password)
    command: Sequence[str] = (
        str(psql), "--no-psqlrc", "--tuples-only", "--no-align", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname", bare,
    )  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        async with asyncio.timeout(_REQUEST_TIMEOUT_SECONDS * 2):
            output, errors = await process.communicate(statement.encode())
    except TimeoutError as error:
        raise _not_ready("Postgres", "no answer in time") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        raise _not_ready("Postgres", errors.decode(errors="replace").strip())
    return output.decode().strip()


async def probe_s3(url: str, *, access_key: str, secret_key: str, region: str, bucket: str, write: bool) -> None:
    """Check that the bucket is there, making it if it is not, and that it can be used.

    Args:
        url: Endpoint.
        access_key: Key id.
        secret_key: Its secret.
        region: Region that requests are signed for.
        bucket: The bucket.
        write: Whether to write, read and delete a small object too. A SeaweedFS answers list requests some moments
            before its volumes take data.

    Raises:
        UnavailableError: SERVER_NOT_READY if it is not.
    """
    base = url.rstrip("/")
    body = b"ready"
    async with httpx.AsyncClient(timeout=_S3_TIMEOUT_SECONDS, verify=_tls_context()) as client:

        async def ask(method: str, path: str, content: bytes = b"") -> httpx.Response:
            headers = sign_request(
                method,
                f"{base}/{path}",
                access_key=access_key,
                secret_key=secret_key,
                region=region,
                now=datetime.now(UTC),
                body=content,
            )
            return await client.request(method, f"{base}/{path}", headers=headers, content=content)

        try:
            found = await ask("HEAD", bucket)
            if found.status_code == httpx.codes.NOT_FOUND:
                found = await ask("PUT", bucket)
            if found.status_code not in _OK:
                raise _not_ready("S3", f"bucket {bucket}: HTTP {found.status_code}")
            if write:
                key = f"{bucket}/{_READINESS_KEY}"
                answers = (await ask("PUT", key, body), await ask("GET", key), await ask("DELETE", key))
                if any(answer.status_code not in _OK for answer in answers) or answers[1].content != body:
                    raise _not_ready("S3", f"write and read: HTTP {[answer.status_code for answer in answers]}")
        except httpx.HTTPError as error:
            raise _not_ready("S3", type(error).__name__) from error
