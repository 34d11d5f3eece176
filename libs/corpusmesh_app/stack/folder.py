"""What other processes can read in a stack's data folder: who runs it, and where its servers answer."""

import json
from pathlib import Path

import psutil

from corpusmesh_app.stack.settings import StackEndpoints


def read_endpoints(data_directory: Path) -> StackEndpoints | None:
    """Read where the servers of a running stack answer.

    Args:
        data_directory: The stack's data folder.

    Returns:
        The endpoints, or None if no stack is ready there.
    """
    text = read_text(endpoints_path(data_directory))
    if not text or running_pid(data_directory) is None:
        return None
    try:
        return StackEndpoints(**json.loads(text))
    except (ValueError, TypeError):
        return None


def running_pid(data_directory: Path) -> int | None:
    """Say which process runs a stack on a data folder, so that it can be asked to end (SIGTERM).

    Args:
        data_directory: The stack's data folder.

    Returns:
        Its pid, or None if none runs.
    """
    text = read_text(pid_path(data_directory))
    return int(text) if text.isdigit() and psutil.pid_exists(int(text)) else None


def pid_path(data_directory: Path) -> Path:
    """Where the pid of who runs a stack is kept."""
    return data_directory / "stack.pid"


def endpoints_path(data_directory: Path) -> Path:
    """Where the endpoints of a running stack are kept; readable by its owner alone."""
    return data_directory / "endpoints.json"


def read_text(path: Path) -> str:
    """Read a small file; empty where it is not there."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
