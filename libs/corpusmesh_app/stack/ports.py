"""Free TCP ports on the loopback interface, chosen once and then remembered."""

import contextlib
import json
import secrets
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from corpusmesh_core.errors import FailedPreconditionError

# Below the range that Linux gives to outgoing connections (32768 and up): a port chosen here is not taken by a
# connection of somebody else between the choice and the server's bind.
_FIRST_PORT: Final = 15_000
_LAST_PORT: Final = 32_000
_ATTEMPTS: Final = 1000


def is_free(port: int) -> bool:
    """Say whether a server could listen on a loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: connections of an earlier server that linger in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def choose_ports(path: Path, wanted: Mapping[str, Iterable[str]]) -> dict[str, dict[str, int]]:
    """Choose a free port for every purpose, the same as last time where it is free.

    Args:
        path: The JSON file that remembers the choice.
        wanted: Purposes by server.

    Returns:
        Ports by server and purpose, all different.

    Raises:
        FailedPreconditionError: NO_FREE_PORT if the machine has none left.
    """
    remembered = _read(path)
    taken: set[int] = set()
    chosen: dict[str, dict[str, int]] = {}
    for server, purposes in wanted.items():
        chosen[server] = {}
        for purpose in purposes:
            port = remembered.get(server, {}).get(purpose)
            if not isinstance(port, int) or port in taken or not is_free(port):
                port = _free_port(taken)
            taken.add(port)
            chosen[server][purpose] = port
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({**remembered, **chosen}, indent=1), encoding="utf-8")
    temporary.replace(path)
    return chosen


def _read(path: Path) -> dict[str, dict[str, int]]:
    with contextlib.suppress(OSError, ValueError):
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict):
            return {key: value for key, value in content.items() if isinstance(value, dict)}
    return {}


def _free_port(taken: set[int]) -> int:
    for _ in range(_ATTEMPTS):
        port = _FIRST_PORT + secrets.randbelow(_LAST_PORT - _FIRST_PORT)
        if port not in taken and is_free(port):
            return port
    raise FailedPreconditionError("NO_FREE_PORT", "no loopback port is free; end other programs and try again")
