"""The command tree as a whole."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import typer.main

from corpusmesh_app.cli.app import build_app


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, entry in group.commands.items():
        if hasattr(entry, "commands"):
            yield from commands(entry, (*path, name))
        else:
            yield (*path, name), entry


def test_every_command_prints_json_and_has_help() -> None:
    found = dict(commands(typer.main.get_command(build_app())))
    assert len(found) > 30
    for path, entry in found.items():
        options = {option for parameter in entry.params for option in parameter.opts}
        assert {"--json", "--debug"} <= options, path
        assert entry.help, path


def test_help_loads_nothing_heavy() -> None:
    script = "import sys; from corpusmesh_app.cli.app import build_app; build_app(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"grpc", "google.protobuf", "asyncio", "pydantic", "numpy", "httpx", "corpusmesh_client"}
    assert not heavy & set(loaded)
