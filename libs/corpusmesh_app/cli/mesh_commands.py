"""`corpusmesh up`, `corpusmesh serve` and `corpusmesh demo`."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.local_commands import ConfigOption
from corpusmesh_app.cli.session import Session
from corpusmesh_core.errors import UnavailableError

if TYPE_CHECKING:
    import subprocess

    from rich.console import Console

    from corpusmesh_app.cli.mesh_files import RunningMesh

_START_SECONDS = 900.0  # the first start may have to fetch OpenSearch
_POLL_SECONDS = 0.2
_LOG_FILE = "mesh.log"
_SHOWN_LOG_BYTES = 4000

DataOption = Annotated[Path, typer.Option("--data", help="Folder that holds all data of the mesh.")]


class ServiceName(StrEnum):
    """Services that run on their own, or all in one process."""

    EMBED = "embed"
    GRAPH = "graph"
    INGEST = "ingest"
    RAPTOR = "raptor"
    RETRIEVE = "retrieve"
    GATEWAY = "gateway"
    ALL = "all"


class RoleName(StrEnum):
    """What of a service runs."""

    SERVER = "server"
    WORKER = "worker"
    BOTH = "both"


def register(app: typer.Typer) -> None:
    """Add the commands.

    Args:
        app: The application.
    """
    command(app, "up", remote=False)(up)
    command(app, "serve", remote=False)(serve)
    command(app, "migrate", remote=False)(migrate)
    command(app, "demo", remote=False)(demo)


async def up(
    session: Session,
    data: DataOption = Path(".corpusmesh"),
    config: ConfigOption = None,
    detach: Annotated[bool, typer.Option("--detach", help="Run in the background.")] = False,
) -> None:
    """Run the whole mesh on this machine, with servers of its own where the configuration names none."""
    if detach:
        await _up_detached(session, data, config)
        return
    import asyncio

    from corpusmesh_app.cli.local_mesh import local_mesh
    from corpusmesh_app.serving import stop_on_signals

    with stop_on_signals() as stop:
        async with local_mesh(data, config, session.output, stop) as (mesh, running):
            _print_mesh(session, mesh)
            stopped = asyncio.create_task(stop.wait())
            await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            session.output.message("Ending the mesh")


async def serve(
    session: Session,
    service: Annotated[ServiceName, typer.Argument(help="Service to run.")],
    config: ConfigOption = None,
    role: Annotated[RoleName, typer.Option(help="Server, worker (of ingest), or both.")] = RoleName.BOTH,
) -> None:
    """Run one service against the servers and peers that the configuration names."""
    from corpusmesh_app.serving import serve as serve_service
    from corpusmesh_app.settings import load_settings

    session.output.message(f"Serving {service.value} ({role.value})")
    await serve_service(service.value, load_settings(config), role.value)


async def migrate(
    session: Session,
    config: ConfigOption = None,
    key_file: Annotated[
        Path | None, typer.Option(help="New file (mode 0600) for the first admin's key; by default it is shown.")
    ] = None,
) -> None:
    """Bring the database's schema up to date, and make the first admin where there is none. `up` does it by itself."""
    from corpusmesh_app.cli.secrets import check_secret_file, print_secret
    from corpusmesh_app.mesh import prepare_database
    from corpusmesh_app.settings import load_settings

    check_secret_file(key_file)
    key = await prepare_database(load_settings(config))
    if key is None:
        session.output.result(
            {"first_admin": False, "secret": None, "secret_file": None},
            lambda console: console.print("The schema is up to date."),
        )
        return
    sentence = "The schema is up to date; the first admin was made."
    print_secret(session.output, {"first_admin": True}, key, key_file, sentence)


async def demo(
    session: Session,
    data: DataOption = Path(".corpusmesh"),
    config: ConfigOption = None,
    once: Annotated[bool, typer.Option("--once", help="End after the answers instead of serving on.")] = False,
    examples: Annotated[
        Path | None, typer.Option(help="Folder with documents/ and questions.json; by default the project's examples.")
    ] = None,
) -> None:
    """Run the mesh, ingest the examples, ask three questions, show the answers with citations, then serve on."""
    import asyncio

    from corpusmesh_app.cli.demonstration import demonstrate, examples_folder
    from corpusmesh_app.cli.local_mesh import local_mesh
    from corpusmesh_app.serving import stop_on_signals

    folder = examples_folder(examples)
    with stop_on_signals() as stop:
        async with local_mesh(data, config, session.output, stop) as (mesh, running):
            showing = asyncio.create_task(demonstrate(session, mesh, folder))
            stopped = asyncio.create_task(stop.wait())
            await asyncio.wait({showing, running, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if showing.done():
                shape = showing.result()
                _print_mesh(session, mesh, extra=shape)
                if not once and not running.done():
                    session.output.message("Serving until interrupted (Ctrl-C)")
                    await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
            showing.cancel()
            stopped.cancel()
            await asyncio.gather(showing, stopped, return_exceptions=True)
            session.output.message("Ending the mesh")


async def _up_detached(session: Session, data: Path, config: Path | None) -> None:
    import asyncio

    from corpusmesh_app.cli.mesh_files import read_mesh

    process, log = await asyncio.to_thread(_launch, data, config)
    session.output.message(f"Starting the mesh on {data}; it logs to {log}")
    try:
        async with asyncio.timeout(_START_SECONDS):
            while (mesh := read_mesh(log.parent)) is None or mesh.pid != process.pid:
                if process.poll() is not None:
                    raise _not_started(process, log)
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError as error:
        process.terminate()
        raise UnavailableError(
            "MESH_START_SLOW", f"the mesh was not ready after {_START_SECONDS:.0f} seconds; see {log}", log=log
        ) from error
    _print_mesh(session, mesh)


def _launch(data: Path, config: Path | None) -> "tuple[subprocess.Popen[bytes], Path]":
    import subprocess
    import sys

    folder = data.absolute()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = folder / _LOG_FILE
    arguments = [sys.executable, "-m", "corpusmesh_app", "up", "--data", str(folder)]
    if config is not None:
        arguments += ["--config", str(config.absolute())]
    with log.open("ab") as file:
        process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    return process, log


def _not_started(process: "subprocess.Popen[bytes]", log: Path) -> UnavailableError:
    text = log.read_bytes()[-_SHOWN_LOG_BYTES:].decode(errors="replace").strip()
    last = next((line for line in reversed(text.splitlines()) if line.startswith("corpusmesh:")), "")
    return UnavailableError(
        "MESH_NOT_STARTED",
        f"the mesh did not start (status {process.returncode}): {last or f'see {log}'}",
        log=log,
    )


def _print_mesh(session: Session, mesh: "RunningMesh", extra: dict[str, object] | None = None) -> None:
    from corpusmesh_app.cli.target import KEY_FILE

    key_file = mesh.data / KEY_FILE
    shape: dict[str, object] = {
        **(extra or {}),
        "data": str(mesh.data),
        "gateway_grpc": mesh.gateway_grpc,
        "gateway_http": mesh.gateway_http,
        "api_key_file": str(key_file) if key_file.exists() else None,
        "pid": mesh.pid,
    }

    def render(console: "Console") -> None:
        console.print(f"Gateway, gRPC:  {mesh.gateway_grpc}")
        console.print(f"Gateway, HTTP:  {mesh.gateway_http}  (API at {mesh.gateway_http}/docs)")
        console.print(f"Data:           {mesh.data}")
        if key_file.exists():
            console.print(f"Admin's key:    {key_file}")

    session.output.result(shape, render)
