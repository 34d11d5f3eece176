"""Commands about this machine: `version`, `config print`, `doctor`, `down`."""

from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.failures import CommandFailedError, ExitStatus
from corpusmesh_app.cli.session import Session
from corpusmesh_core.errors import CorpusMeshError, UnavailableError

if TYPE_CHECKING:
    from rich.console import Console

    from corpusmesh_app.cli.mesh_files import RunningMesh
    from corpusmesh_app.stack import StackEndpoints

_STOP_SECONDS = 90.0
_REACH_SECONDS = 5.0

DataOption = Annotated[Path | None, typer.Option("--data", help="Data folder; by default that of the nearest mesh.")]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", envvar="CORPUSMESH_CONFIG", help="Configuration file (YAML).")
]


def register(app: typer.Typer) -> None:
    """Add the commands.

    Args:
        app: The application.
    """
    command(app, "down", remote=False)(down)
    command(app, "doctor", remote=False)(doctor)
    command(app, "version", remote=False)(version)
    group = typer.Typer(help="The configuration.", no_args_is_help=True)
    app.add_typer(group, name="config")
    command(group, "print", remote=False)(print_config)


async def version(session: Session) -> None:
    """Print the version."""
    import importlib.metadata

    try:
        number = importlib.metadata.version("corpusmesh")
    except importlib.metadata.PackageNotFoundError:
        number = "unknown (run from a folder, not installed)"
    session.output.result({"version": number}, lambda console: console.print(f"corpusmesh {number}"))


async def print_config(session: Session, config: ConfigOption = None) -> None:
    """Print the configuration in force: defaults, file and environment together. Secrets are files, and stay there."""
    import yaml

    from corpusmesh_app.settings import load_settings

    values = load_settings(config).model_dump(mode="json")
    session.output.result(
        values, lambda console: console.print(yaml.safe_dump(values, sort_keys=False, allow_unicode=True), end="")
    )


async def down(session: Session, data: DataOption = None) -> None:
    """End the mesh that runs on this machine, with its servers; data stays."""
    import os

    from corpusmesh_app.cli.mesh_files import choose_folder, read_mesh, withdraw

    folder = choose_folder(data, os.environ, Path.cwd())
    mesh = read_mesh(folder)
    pid = _process_of(folder, mesh)
    if pid is None:
        withdraw(folder)
        session.output.result(
            {"data": str(folder), "stopped": False},
            lambda console: console.print(f"No mesh runs on {folder}."),
        )
        return
    await _end(pid)
    withdraw(folder)
    session.output.result(
        {"data": str(folder), "stopped": True}, lambda console: console.print(f"The mesh on {folder} has ended.")
    )


async def doctor(session: Session, data: DataOption = None, config: ConfigOption = None) -> None:
    """Check this machine and the mesh on it, and say what to fix."""
    import asyncio
    import os

    from corpusmesh_app.cli.diagnosis import Verdict, check_machine, check_servers, describe_mesh
    from corpusmesh_app.cli.mesh_files import choose_folder, read_mesh

    folder = choose_folder(data, os.environ, Path.cwd())
    checks = await asyncio.to_thread(lambda: list(check_machine(folder, config)))
    checks.extend(await check_servers(folder, _questions))
    mesh = read_mesh(folder)
    checks.append(describe_mesh(mesh, await _reach(mesh) if mesh is not None else None))

    def render(console: "Console") -> None:
        rows = [(check.verdict.value, check.name, check.detail, check.advice) for check in checks]
        session.output.table(("", "CHECK", "FOUND", "DO"), rows, empty="")(console)

    healthy = all(check.verdict is not Verdict.FAILURE for check in checks)
    session.output.result({"healthy": healthy, "checks": [check.shape() for check in checks]}, render)
    if not healthy:
        raise CommandFailedError(ExitStatus.FAILURE)


def _questions(endpoints: "StackEndpoints") -> Iterator[tuple[str, Awaitable[None]]]:
    from corpusmesh_app.stack.probes import probe_nats, probe_opensearch, probe_postgres, probe_s3
    from corpusmesh_app.stack.servers.postgres import psql_program

    yield "server opensearch", probe_opensearch(endpoints.opensearch_url)
    yield "server postgres", probe_postgres(endpoints.postgres_dsn, psql_program())
    yield "server nats", probe_nats(endpoints.nats_url)
    yield (
        "server s3",
        probe_s3(
            endpoints.s3_url,
            access_key=endpoints.s3_access_key,
            secret_key=endpoints.s3_secret_key,
            region=endpoints.s3_region,
            bucket=endpoints.s3_bucket,
            write=False,
        ),
    )


async def _reach(mesh: "RunningMesh") -> CorpusMeshError | None:
    from corpusmesh_client import CorpusMeshClient, Deadlines
    from corpusmesh_core.errors import UnauthenticatedError

    deadlines = Deadlines(read_seconds=_REACH_SECONDS)
    async with CorpusMeshClient(mesh.gateway_grpc, deadlines=deadlines, max_attempts=1) as client:
        try:
            await client.admin.get_caller()
        except UnauthenticatedError:
            return None  # it answers; no key was sent
        except CorpusMeshError as error:
            return error
    return None


def _process_of(folder: Path, mesh: "RunningMesh | None") -> int | None:
    import psutil

    from corpusmesh_app.stack import running_pid

    for pid in (mesh.pid if mesh is not None else None, running_pid(folder)):
        if pid is None:
            continue
        try:
            # A number may have passed to another process since.
            if any("corpusmesh" in part for part in psutil.Process(pid).cmdline()):
                return pid
        except psutil.Error:
            continue
    return None


async def _end(pid: int) -> None:
    import asyncio

    import psutil

    try:
        process = psutil.Process(pid)
        process.terminate()
        await asyncio.to_thread(process.wait, _STOP_SECONDS)
    except psutil.NoSuchProcess:
        return
    except psutil.TimeoutExpired as error:
        raise UnavailableError(
            "MESH_STILL_RUNNING",
            f"process {pid} has not ended after {_STOP_SECONDS:.0f} seconds; look into its log",
            pid=pid,
        ) from error
    except psutil.AccessDenied as error:
        raise UnavailableError(
            "MESH_OF_ANOTHER_USER", f"process {pid} belongs to another user, who must end it", pid=pid
        ) from error
