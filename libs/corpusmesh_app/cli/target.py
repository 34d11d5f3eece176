"""Which mesh a command talks to, and with which key.

In this order: `--endpoint`; `--data DIR`; `CORPUSMESH_ENDPOINT`; `./.corpusmesh` here or in the nearest folder above;
the mesh that `corpusmesh up` started last for this user. What was typed weighs more than the environment.
"""

import ipaddress
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError, UnavailableError

ENDPOINT_VARIABLE = "CORPUSMESH_ENDPOINT"
KEY_VARIABLE = "CORPUSMESH_API_KEY"
KEY_FILE_VARIABLE = "CORPUSMESH_API_KEY_FILE"
DATA_FOLDER = ".corpusmesh"
MESH_FILE = "mesh.json"
KEY_FILE = "admin.key"


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """What the command line says of the mesh.

    Attributes:
        endpoint: `--endpoint`.
        api_key_file: `--api-key-file`.
        data: `--data`.
        ca_file: `--ca-file`.
    """

    endpoint: str | None = None
    api_key_file: Path | None = None
    data: Path | None = None
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A mesh and the key for it.

    Attributes:
        endpoint: Address of its gateway.
        api_key: Key; "" where there is none.
        source: What named it, for messages.
        gateway_http: Address of its HTTP side, where known.
    """

    endpoint: str
    api_key: str = field(repr=False)
    source: str
    gateway_http: str = ""


def state_pointer(environment: Mapping[str, str]) -> Path:
    """Tell where the pointer to the user's last started mesh lies.

    Args:
        environment: The environment.

    Returns:
        `$XDG_STATE_HOME/corpusmesh/current.json`, by default below `~/.local/state`.
    """
    home = Path(environment.get("HOME") or Path.home())
    return Path(environment.get("XDG_STATE_HOME") or home / ".local" / "state") / "corpusmesh" / "current.json"


def find_target(options: TargetOptions, environment: Mapping[str, str], folder: Path) -> Target:
    """Find the mesh to talk to.

    Args:
        options: What the command line says.
        environment: The environment.
        folder: Folder to search from, upwards.

    Returns:
        The mesh.

    Raises:
        UnavailableError: If none is named and none was started.
        FailedPreconditionError: If a file of it cannot be read.
    """
    key = _given_key(options, environment)
    if options.endpoint:
        return Target(options.endpoint, key, "--endpoint")
    if options.data is not None:
        return _of_folder(options.data, key)
    if environment.get(ENDPOINT_VARIABLE):
        return Target(environment[ENDPOINT_VARIABLE], key, ENDPOINT_VARIABLE)
    data = find_folder(environment, folder)
    if data is not None:
        return _of_folder(data, key)
    raise UnavailableError(
        "MESH_NOT_FOUND",
        "no mesh is known here: start one with `corpusmesh up`, or name one with --endpoint or CORPUSMESH_ENDPOINT",
    )


def find_folder(environment: Mapping[str, str], folder: Path) -> Path | None:
    """Find the data folder of a mesh that was started on this machine.

    Args:
        environment: The environment.
        folder: Folder to search from, upwards.

    Returns:
        The nearest `.corpusmesh` with a `mesh.json`, else the one that the user started last; None if there is none.
    """
    for candidate in (folder, *folder.parents):
        if (candidate / DATA_FOLDER / MESH_FILE).is_file():
            return candidate / DATA_FOLDER
    pointer = state_pointer(environment)
    if pointer.is_file():
        named = _read_json(pointer).get("data")
        if isinstance(named, str) and (Path(named) / MESH_FILE).is_file():
            return Path(named)
    return None


def _of_folder(data: Path, key: str) -> Target:
    path = data / MESH_FILE
    if not path.is_file():
        raise UnavailableError(
            "MESH_NOT_RUNNING",
            f"no mesh runs on {data}: start it with `corpusmesh up --data {data}`",
            data=data,
        )
    if path.stat().st_uid != os.getuid():
        raise FailedPreconditionError(
            "MESH_FILE_FOREIGN", f"{path} belongs to another user; name the mesh with --endpoint", path=path
        )
    mesh = _read_json(path)
    endpoint = mesh.get("gateway_grpc")
    if not isinstance(endpoint, str) or not _is_loopback(endpoint):
        # A folder that somebody hands on must not send this user's key elsewhere.
        raise FailedPreconditionError(
            "MESH_FILE_INVALID",
            f"{path} does not name a gateway on this machine; name it with --endpoint if you trust it",
            path=path,
        )
    key_path = data / KEY_FILE
    if not key and key_path.is_file():
        key = _read_key(key_path)
    return Target(endpoint, key, str(path), str(mesh.get("gateway_http", "")))


def _given_key(options: TargetOptions, environment: Mapping[str, str]) -> str:
    if options.api_key_file is not None:
        return _read_key(options.api_key_file)
    if environment.get(KEY_VARIABLE):
        return environment[KEY_VARIABLE].strip()
    if environment.get(KEY_FILE_VARIABLE):
        return _read_key(Path(environment[KEY_FILE_VARIABLE]))
    return ""


def _read_key(path: Path) -> str:
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(
            "KEY_FILE_UNREADABLE", f"the key file {path} cannot be read; check its path and mode", path=path
        ) from error
    if not key or any(character.isspace() for character in key):
        raise InvalidArgumentError("KEY_FILE_INVALID", f"the key file {path} must hold one key and nothing else")
    return key


def _read_json(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FailedPreconditionError(
            "MESH_FILE_UNREADABLE", f"{path} cannot be read; start the mesh again with `corpusmesh up`", path=path
        ) from error
    return value if isinstance(value, dict) else {}


def _is_loopback(endpoint: str) -> bool:
    host = endpoint.split("://", 1)[-1].rsplit(":", 1)[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
