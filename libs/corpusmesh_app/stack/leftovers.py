"""Find and end server processes that a killed supervisor left behind on a data folder.

The death signal ends them within moments; this is for what it cannot reach: a server started in the instant in which
the supervisor died, or one that hangs in the kernel.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil

from corpusmesh_app.stack.process import kill_session, session_members
from corpusmesh_core.errors import FailedPreconditionError

DATA_VARIABLE: Final = "CORPUSMESH_STACK_DATA"
"""Environment variable by which a server process is known as one of a data folder."""

_END_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05


def record_process(directory: Path, name: str, pid: int, program: Path) -> None:
    """Note a server's process, so that a successor can find it.

    Args:
        directory: Where notes are kept.
        name: Which server.
        pid: Leader of its session.
        program: Its program.
    """
    directory.mkdir(exist_ok=True)
    note = {"pid": pid, "started": _start_ticks(pid), "program": str(program.resolve())}
    temporary = directory / f".{name}.tmp"
    temporary.write_text(json.dumps(note), encoding="utf-8")
    temporary.replace(directory / f"{name}.json")


def forget_process(directory: Path, name: str) -> None:
    """Remove the note about a server that has ended."""
    (directory / f"{name}.json").unlink(missing_ok=True)


def end_leftovers(directory: Path, data_directory: Path) -> list[int]:
    """End every process of a dead supervisor on this data folder. The caller holds the folder's lock.

    Args:
        directory: Where notes are kept.
        data_directory: The data folder.

    Returns:
        The sessions that were ended, by the pid of their leader.

    Raises:
        FailedPreconditionError: STACK_LEFTOVER_PROCESS if one cannot be ended.
    """
    sessions = {*_noted_sessions(directory), *_marked_sessions(data_directory)} - {os.getsid(0)}
    for session in sessions:
        kill_session(session)
    deadline = time.monotonic() + _END_SECONDS
    for session in sessions:
        while session_members(session):
            if time.monotonic() > deadline:
                raise FailedPreconditionError(
                    "STACK_LEFTOVER_PROCESS",
                    f"process {session} of an earlier run on {data_directory} does not end; end it by hand",
                    pid=session,
                    data_directory=data_directory,
                )
            kill_session(session)
            time.sleep(_POLL_SECONDS)
    for note in directory.glob("*.json"):
        note.unlink(missing_ok=True)
    return sorted(sessions)


def _noted_sessions(directory: Path) -> Iterator[int]:
    for path in directory.glob("*.json"):
        try:
            note = json.loads(path.read_text(encoding="utf-8"))
            pid, started, program = int(note["pid"]), int(note["started"]), str(note["program"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        leader_started = _start_ticks(pid)
        if leader_started == started:
            yield pid
        elif leader_started == 0 and any(_program(member) == program for member in session_members(pid)):
            # The leader is dead. A session keeps its number from being used again; the program guards against a
            # number that a new process space (a restarted container) has given to somebody else.
            yield pid


def _marked_sessions(data_directory: Path) -> Iterator[int]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(DATA_VARIABLE) == str(data_directory):
                yield os.getsid(process.pid)


def _program(process: psutil.Process) -> str:
    try:
        return process.exe()
    except psutil.Error:
        return ""


def _start_ticks(pid: int) -> int:
    """Read when a process started, in clock ticks since boot; 0 if it is not there or already dead."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in {"Z", "X"} else int(fields[19])


def remove_stale_postmaster(data_directory: Path) -> None:
    """Remove the lock file of a Postgres that was killed.

    Postgres itself refuses to start while *any* process has the number in that file, which in a container is soon the
    case. Here the folder's lock is held and leftovers are ended, so that nobody can be using the data.

    Args:
        data_directory: Postgres's data folder.
    """
    path = data_directory / "postmaster.pid"
    try:
        pid = int(path.read_text(encoding="utf-8").splitlines()[0])
    except FileNotFoundError:
        return
    except (OSError, ValueError, IndexError):
        pid = 0
    with contextlib.suppress(psutil.Error, OSError):
        if pid and str(data_directory) in psutil.Process(pid).cmdline():
            os.kill(pid, signal.SIGQUIT)
            psutil.Process(pid).wait(_END_SECONDS)
    path.unlink(missing_ok=True)
