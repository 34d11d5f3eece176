"""How a command is declared: an async function that is handed a `Session`; the common options come by themselves."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from corpusmesh_app.cli.failures import CommandFailedError, ExitStatus, exit_status
from corpusmesh_app.cli.output import Output
from corpusmesh_app.cli.session import Session
from corpusmesh_app.cli.target import TargetOptions
from corpusmesh_core.errors import CorpusMeshError

P = ParamSpec("P")
Body = Callable[Concatenate[Session, P], Awaitable[None]]

_OUTPUT_PANEL = "Output"
_MESH_PANEL = "Which mesh"

_OUTPUT_OPTIONS: tuple[tuple[str, Any, object], ...] = (
    (
        "json_output",
        Annotated[
            bool,
            typer.Option("--json", help="Print one JSON object on standard output.", rich_help_panel=_OUTPUT_PANEL),
        ],
        False,
    ),
    (
        "debug",
        Annotated[bool, typer.Option("--debug", help="Show tracebacks.", rich_help_panel=_OUTPUT_PANEL)],
        False,
    ),
)
_MESH_OPTIONS: tuple[tuple[str, Any, object], ...] = (
    (
        "endpoint",
        Annotated[
            str | None,
            typer.Option(
                help="Gateway, host:port or grpcs://host:port (env: CORPUSMESH_ENDPOINT).", rich_help_panel=_MESH_PANEL
            ),
        ],
        None,
    ),
    (
        "api_key_file",
        Annotated[
            Path | None,
            typer.Option(
                help="File with the API key (env: CORPUSMESH_API_KEY, CORPUSMESH_API_KEY_FILE).",
                rich_help_panel=_MESH_PANEL,
            ),
        ],
        None,
    ),
    (
        "data",
        Annotated[
            Path | None,
            typer.Option(help="Data folder of a mesh on this machine.", rich_help_panel=_MESH_PANEL),
        ],
        None,
    ),
    (
        "ca_file",
        Annotated[
            Path | None,
            typer.Option(help="PEM file of the authorities to trust; switches TLS on.", rich_help_panel=_MESH_PANEL),
        ],
        None,
    ),
)


def command(app: typer.Typer, name: str, *, remote: bool = True) -> Callable[[Body[P]], Body[P]]:
    """Declare a command.

    Args:
        app: Group that it belongs to.
        name: Name of the command.
        remote: Whether it talks to a mesh, and so takes the options that say which.

    Returns:
        A decorator for an async function whose first parameter is the session; the rest is declared as typer reads it.
    """
    common = (*_OUTPUT_OPTIONS, *(_MESH_OPTIONS if remote else ()))

    def declare(body: Body[P]) -> Body[P]:
        @functools.wraps(body)
        def run(**values: Any) -> None:
            given = {key: values.pop(key) for key, _, _ in common}
            _run(body, given, values)

        own = list(inspect.signature(body).parameters.values())[1:]
        extra = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for key, annotation, default in common
        ]
        keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        run.__signature__ = inspect.Signature([*keyword_only, *extra])  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*keyword_only, *extra)}
        del run.__wrapped__
        app.command(name)(run)
        return body

    return declare


def _run(body: Callable[..., Awaitable[None]], given: dict[str, Any], values: dict[str, Any]) -> None:
    import asyncio

    session = Session(
        output=Output(as_json=given["json_output"]),
        options=TargetOptions(
            endpoint=given.get("endpoint"),
            api_key_file=given.get("api_key_file"),
            data=given.get("data"),
            ca_file=given.get("ca_file"),
        ),
        debug=given["debug"],
    )

    async def call() -> None:
        await body(session, **values)

    try:
        asyncio.run(call())
    except CommandFailedError as error:
        raise typer.Exit(error.status) from error
    except CorpusMeshError as error:
        if session.debug:
            _show_traceback()
        session.output.failure(error)
        raise typer.Exit(exit_status(error)) from error
    except KeyboardInterrupt as error:
        session.output.message("corpusmesh: interrupted")
        raise typer.Exit(ExitStatus.INTERRUPTED) from error


def _show_traceback() -> None:
    import traceback

    traceback.print_exc()
