"""The files by which commands find a mesh that runs on this machine."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from corpusmesh_app.cli.target import DATA_FOLDER, MESH_FILE, find_folder, state_pointer


@dataclass(frozen=True, slots=True)
class RunningMesh:
    """A mesh on this machine, as `mesh.json` tells.

    Attributes:
        data: Its data folder.
        gateway_grpc: `host:port` of the gateway's gRPC side.
        gateway_http: URL of its HTTP side.
        pid: Process of `corpusmesh up`.
    """

    data: Path
    gateway_grpc: str
    gateway_http: str
    pid: int


def announce(
    data: Path, gateway_grpc: str, gateway_http: str, config: Path | None, environment: Mapping[str, str]
) -> RunningMesh:
    """Write `mesh.json`, and point the user's commands at it.

    Args:
        data: Data folder of the mesh.
        gateway_grpc: `host:port` of the gateway's gRPC side.
        gateway_http: URL of its HTTP side.
        config: Configuration file; None for the defaults.
        environment: The environment.

    Returns:
        The mesh.
    """
    absolute = data.absolute()
    shape = {
        "gateway_grpc": gateway_grpc,
        "gateway_http": gateway_http,
        "pid": os.getpid(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "config": str(config.absolute()) if config is not None else None,
    }
    _write(absolute / MESH_FILE, shape)
    pointer = state_pointer(environment)
    pointer.parent.mkdir(parents=True, exist_ok=True)
    _write(pointer, {"data": str(absolute)})
    return RunningMesh(absolute, gateway_grpc, gateway_http, os.getpid())


def withdraw(data: Path) -> None:
    """Take `mesh.json` away: the mesh ends.

    Args:
        data: Data folder of the mesh.
    """
    (data / MESH_FILE).unlink(missing_ok=True)


def read_mesh(data: Path) -> RunningMesh | None:
    """Read what `mesh.json` tells.

    Args:
        data: Data folder of the mesh.

    Returns:
        The mesh; None if there is no file or it cannot be read.
    """
    try:
        value = json.loads((data / MESH_FILE).read_text(encoding="utf-8"))
        return RunningMesh(data.absolute(), value["gateway_grpc"], value["gateway_http"], int(value["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def choose_folder(data: Path | None, environment: Mapping[str, str], folder: Path) -> Path:
    """Choose the data folder that a command means.

    Args:
        data: `--data`; None if it was not given.
        environment: The environment.
        folder: The current folder.

    Returns:
        The folder given; else that of the nearest mesh; else `.corpusmesh` here.
    """
    if data is not None:
        return data
    return find_folder(environment, folder) or folder / DATA_FOLDER


def _write(path: Path, shape: Mapping[str, object]) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(shape, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)
