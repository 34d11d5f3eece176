"""The local stack survives kills of anything, loses nothing, and leaves nothing behind."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import asyncpg
import boto3
import httpx
import nats
import psutil
import pytest

from corpusmesh_app.stack import (
    ServerName,
    ServerState,
    Stack,
    StackEndpoints,
    StackSettings,
    install_opensearch,
    opensearch_home,
    read_endpoints,
)
from corpusmesh_app.stack.leftovers import DATA_VARIABLE
from corpusmesh_app.stack.ports import is_free
from corpusmesh_app.stack.process import session_members
from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError, UnavailableError

pytestmark = pytest.mark.servers

_SUPERVISOR = """
import asyncio, sys
from pathlib import Path
from corpusmesh_app.stack import Stack, StackSettings

async def main():
    async with Stack(StackSettings(data_directory=Path(sys.argv[1]))):
        await asyncio.sleep(3600)

asyncio.run(main())
"""
_NO_ORPHAN_SECONDS = 10.0
_READY_SECONDS = 120.0
_SERVERS = [ServerName.OPENSEARCH, ServerName.POSTGRES, ServerName.NATS, ServerName.S3]


def _server_processes(directory: Path) -> list[psutil.Process]:
    """Find living processes that work on a data folder, by their environment or their command line."""
    found = []
    for process in psutil.process_iter():
        try:
            marked = process.environ().get(DATA_VARIABLE) == str(directory)
            named = any(str(directory) in word for word in process.cmdline()[1:])
            if (marked or named) and process.status() != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
                found.append(process)
        except psutil.Error:
            continue
    return found


def _wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


async def _await_endpoints(directory: Path, supervisor: asyncio.subprocess.Process) -> StackEndpoints:
    await asyncio.to_thread(
        _wait_until,
        lambda: read_endpoints(directory) is not None or supervisor.returncode is not None,
        _READY_SECONDS,
    )
    endpoints = read_endpoints(directory)
    assert endpoints is not None
    return endpoints


def _s3(endpoints: StackEndpoints) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoints.s3_url,
        aws_access_key_id=endpoints.s3_access_key,
        aws_secret_access_key=endpoints.s3_secret_key,
        region_name=endpoints.s3_region,
    )


async def _write_all(endpoints: StackEndpoints) -> None:
    connection = await asyncpg.connect(endpoints.postgres_dsn)
    await connection.execute("create table kept (word text)")
    await connection.execute("insert into kept values ('row')")
    await connection.close()
    async with await nats.connect(endpoints.nats_url) as client:
        jetstream = client.jetstream()
        await jetstream.add_stream(name="KEPT", subjects=["kept"])
        await jetstream.publish("kept", b"message")
    await asyncio.to_thread(_s3(endpoints).put_object, Bucket=endpoints.s3_bucket, Key="kept", Body=b"object" * 100_000)
    async with httpx.AsyncClient(base_url=endpoints.opensearch_url, timeout=30) as client:
        (await client.put("/kept", json={"settings": {"number_of_replicas": 0}})).raise_for_status()
        (await client.put("/kept/_doc/1", json={"word": "document"})).raise_for_status()


async def _read(server: ServerName, endpoints: StackEndpoints) -> object:
    match server:
        case ServerName.POSTGRES:
            connection = await asyncpg.connect(endpoints.postgres_dsn)
            try:
                return await connection.fetchval("select word from kept")
            finally:
                await connection.close()
        case ServerName.NATS:
            async with await nats.connect(endpoints.nats_url) as client:
                return (await client.jetstream().get_msg("KEPT", 1)).data
        case ServerName.S3:
            answer = await asyncio.to_thread(_s3(endpoints).get_object, Bucket=endpoints.s3_bucket, Key="kept")
            return answer["Body"].read()
        case ServerName.OPENSEARCH:
            async with httpx.AsyncClient(base_url=endpoints.opensearch_url, timeout=30) as client:
                return (await client.get("/kept/_doc/1")).raise_for_status().json()["_source"]["word"]


_EXPECTED = {
    ServerName.POSTGRES: "row",
    ServerName.NATS: b"message",
    ServerName.S3: b"object" * 100_000,
    ServerName.OPENSEARCH: "document",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lifecycle")


@pytest.fixture(scope="module")
async def processes_after_kill(folder: Path) -> list[psutil.Process]:
    """Run a supervisor, write to each of its servers, kill it with SIGKILL; what is left of its servers afterwards."""
    await asyncio.to_thread(install_opensearch)
    supervisor = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _SUPERVISOR, str(folder), stdout=asyncio.subprocess.DEVNULL
    )
    try:
        endpoints = await _await_endpoints(folder, supervisor)
        await _write_all(endpoints)
        assert len(_server_processes(folder)) >= len(_SERVERS)
    finally:
        supervisor.kill()
        await supervisor.wait()
    await asyncio.to_thread(_wait_until, lambda: not _server_processes(folder), _NO_ORPHAN_SECONDS)
    return _server_processes(folder)


@pytest.fixture(scope="module")
async def revived(folder: Path, processes_after_kill: list[psutil.Process]) -> AsyncIterator[Stack]:
    """A stack on the folder of the killed one."""
    stack = Stack(StackSettings(data_directory=folder))
    await stack.start()
    yield stack
    await stack.stop()


def test_kill_of_the_supervisor_leaves_no_process(processes_after_kill: list[psutil.Process]) -> None:
    assert processes_after_kill == []


@pytest.mark.parametrize("server", _SERVERS)
async def test_data_survives_the_kill_of_the_supervisor(revived: Stack, server: ServerName) -> None:
    assert await _read(server, revived.endpoints) == _EXPECTED[server]


@pytest.mark.parametrize("server", _SERVERS)
async def test_killed_server_is_started_again_with_its_data(revived: Stack, server: ServerName) -> None:
    before = dict(revived.pids())

    await revived.kill(server)
    await revived.wait_ready(server, timeout_seconds=_READY_SECONDS)

    after = dict(revived.pids())
    assert after.pop(server) != before.pop(server)
    assert after == before
    assert await _read(server, revived.endpoints) == _EXPECTED[server]
    assert [status.restart_count for status in revived.status() if status.name == server] == [1]


async def test_restart_keeps_the_address(revived: Stack) -> None:
    before = revived.pids()[ServerName.NATS]

    await revived.restart("nats")

    assert revived.pids()[ServerName.NATS] != before
    assert await _read(ServerName.NATS, revived.endpoints) == b"message"


async def test_second_stack_on_the_folder_is_refused_with_the_pid(revived: Stack, folder: Path) -> None:
    with pytest.raises(FailedPreconditionError) as caught:
        await Stack(StackSettings(data_directory=folder)).start()

    assert caught.value.reason == "STACK_ALREADY_RUNNING"
    assert caught.value.metadata["pid"] == str(os.getpid())
    assert read_endpoints(folder) == revived.endpoints


async def test_unknown_server_is_refused(revived: Stack) -> None:
    with pytest.raises(InvalidArgumentError, match="redis"):
        await revived.kill("redis")


async def test_secrets_are_readable_by_their_owner_alone_and_not_shown(revived: Stack, folder: Path) -> None:
    for name in ("credentials.json", "endpoints.json", "nats/nats.conf", "s3/s3.json", "s3/security.toml"):
        assert (folder / name).stat().st_mode & 0o077 == 0, name
    secrets = json.loads((folder / "credentials.json").read_text())
    assert not any(secret in repr(revived.endpoints) for secret in secrets.values())
    command_lines = [" ".join(process.cmdline()) for process in _server_processes(folder)]
    assert not any(secret in line for secret in secrets.values() for line in command_lines)


async def test_servers_listen_on_loopback_alone(revived: Stack) -> None:
    addresses = {
        (connection.laddr.ip)
        for pid in revived.pids().values()
        for connection in psutil.Process(pid).net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert addresses <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert addresses


async def test_wrong_password_is_refused(revived: Stack, tmp_path: Path) -> None:
    endpoints = revived.endpoints
    user, _, host = endpoints.postgres_dsn.rpartition("@")
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(f"{user.rpartition(':')[0]}:wrong@{host}")
    with pytest.raises(UnavailableError, match="NATS"):
        await Stack(
            StackSettings(
                data_directory=tmp_path,
                opensearch_url=endpoints.opensearch_url,
                postgres_dsn=endpoints.postgres_dsn,
                nats_url=endpoints.nats_url.replace("corpusmesh:", "corpusmesh:x"),
                s3_url=endpoints.s3_url,
                s3_access_key=endpoints.s3_access_key,
                s3_secret_key=endpoints.s3_secret_key,
                start_timeout_seconds=2,
            )
        ).start()
    filer = f"http://127.0.0.1:{_ports(revived, ServerName.S3)['filer']}/buckets/{endpoints.s3_bucket}/kept"
    async with httpx.AsyncClient() as client:
        assert (await client.get(filer)).status_code == httpx.codes.UNAUTHORIZED


async def test_role_is_bound_by_row_level_security(revived: Stack) -> None:
    connection = await asyncpg.connect(revived.endpoints.postgres_dsn)
    row = await connection.fetchrow("select rolsuper, rolbypassrls from pg_roles where rolname = current_user")
    await connection.close()
    assert row is not None
    assert not row["rolsuper"]
    assert not row["rolbypassrls"]


async def test_external_servers_are_checked_and_not_started(revived: Stack, tmp_path: Path) -> None:
    endpoints = revived.endpoints
    stack = Stack(_external(tmp_path, endpoints))

    async with stack as seen:
        assert seen == endpoints
        assert stack.pids() == {}
        assert {status.state for status in stack.status()} == {ServerState.EXTERNAL}


async def test_external_server_that_is_not_there_is_named(revived: Stack, tmp_path: Path) -> None:
    settings = _external(tmp_path, revived.endpoints).model_copy(
        update={"opensearch_url": "http://127.0.0.1:9", "start_timeout_seconds": 1.0}
    )
    with pytest.raises(UnavailableError, match="opensearch") as caught:
        await Stack(settings).start()
    assert caught.value.reason == "EXTERNAL_SERVER_NOT_READY"


async def test_stop_leaves_no_process_and_frees_the_ports(revived: Stack, tmp_path: Path) -> None:
    stack = Stack(StackSettings(data_directory=tmp_path, opensearch_url=revived.endpoints.opensearch_url))
    await stack.start()
    sessions = list(stack.pids().values())
    ports = [port for status in stack.status() for port in status.ports.values()]
    assert len(sessions) == 3

    await stack.stop()

    assert [member for session in sessions for member in session_members(session)] == []
    assert _server_processes(tmp_path) == []
    assert all(is_free(port) for port in ports)
    assert read_endpoints(tmp_path) is None


async def test_ports_are_the_same_at_the_next_start(revived: Stack, tmp_path: Path) -> None:
    settings = _only(ServerName.NATS, revived.endpoints, tmp_path)
    async with Stack(settings) as first:
        pass
    async with Stack(settings) as second:
        assert second == first


async def test_postmaster_file_with_the_number_of_a_stranger_does_no_harm(revived: Stack, tmp_path: Path) -> None:
    settings = _only(ServerName.POSTGRES, revived.endpoints, tmp_path)
    async with Stack(settings):
        pass
    (tmp_path / "postgres" / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n{tmp_path}/postgres/data\n")

    async with Stack(settings) as endpoints:
        connection = await asyncpg.connect(endpoints.postgres_dsn)
        assert await connection.fetchval("select 1") == 1
        await connection.close()


async def test_process_of_a_dead_predecessor_is_ended_at_start(revived: Stack, tmp_path: Path) -> None:
    leftover = await _sleeper(str(tmp_path))
    stranger = await _sleeper("/elsewhere")
    try:
        async with Stack(_only(ServerName.NATS, revived.endpoints, tmp_path)):
            assert await asyncio.wait_for(leftover.wait(), 10) == -signal.SIGKILL
            assert stranger.returncode is None
    finally:
        stranger.kill()
        await stranger.wait()


async def _sleeper(data_directory: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        "/bin/sleep", "3600", env={DATA_VARIABLE: data_directory}, start_new_session=True
    )


async def test_server_that_cannot_start_shows_the_end_of_its_log(revived: Stack, tmp_path: Path) -> None:
    settings = _only(ServerName.POSTGRES, revived.endpoints, tmp_path)
    async with Stack(settings):
        pass
    (tmp_path / "postgres" / "data" / "PG_VERSION").write_text("9\n")

    with pytest.raises(UnavailableError, match="initialized by PostgreSQL version 9") as caught:
        await Stack(settings).start()

    assert caught.value.reason == "SERVER_START_FAILED"
    assert caught.value.metadata["server"] == "postgres"
    assert _server_processes(tmp_path) == []


async def test_server_that_keeps_dying_is_given_up(revived: Stack, tmp_path: Path) -> None:
    failed = asyncio.Event()
    settings = _only(ServerName.NATS, revived.endpoints, tmp_path).model_copy(update={"max_restart_count": 1})
    stack = Stack(settings, on_event=lambda event: failed.set() if event.state is ServerState.FAILED else None)
    async with stack:
        await stack.kill("nats")
        await stack.wait_ready("nats", timeout_seconds=_READY_SECONDS)
        await stack.kill("nats")
        await asyncio.wait_for(failed.wait(), 30)
        assert stack.pids() == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: servers then run as another user")
async def test_root_starts_servers_as_another_user_below_a_closed_folder(revived: Stack, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    home = await asyncio.to_thread(install_opensearch, closed / "tools")
    assert home == opensearch_home(closed / "tools")
    stack = Stack(
        _external(closed / "data", revived.endpoints).model_copy(
            # the two that refuse to run as root
            update={"tools_directory": closed / "tools", "opensearch_url": None, "postgres_dsn": None}
        )
    )

    async with stack:
        assert set(stack.pids()) == {ServerName.OPENSEARCH, ServerName.POSTGRES}
        for name, pid in stack.pids().items():
            users = {member.uids().effective for member in session_members(pid)}
            assert 0 not in users, name
        assert closed.stat().st_uid == 0
        assert closed.stat().st_mode & 0o777 == 0o700
        assert (closed / "data").stat().st_uid == 0
    assert _server_processes(closed) == []


def _ports(stack: Stack, name: ServerName) -> dict[str, int]:
    return next(dict(status.ports) for status in stack.status() if status.name == name)


def _external(directory: Path, endpoints: StackEndpoints) -> StackSettings:
    return StackSettings(
        data_directory=directory,
        opensearch_url=endpoints.opensearch_url,
        postgres_dsn=endpoints.postgres_dsn,
        nats_url=endpoints.nats_url,
        s3_url=endpoints.s3_url,
        s3_access_key=endpoints.s3_access_key,
        s3_secret_key=endpoints.s3_secret_key,
        s3_bucket=endpoints.s3_bucket,
    )


def _only(server: ServerName, endpoints: StackEndpoints, directory: Path) -> StackSettings:
    """Settings in which one server is our own, and the rest is elsewhere."""
    field = {ServerName.POSTGRES: "postgres_dsn", ServerName.NATS: "nats_url"}[server]
    return _external(directory, endpoints).model_copy(update={field: None})
