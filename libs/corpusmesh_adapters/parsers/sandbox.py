"""Takes away from a parser process what a parser does not need: network, files, time, memory, life after its parent.

Each measure is best effort where the platform lacks it; the limits on processor time and wall time hold everywhere.
"""

import ctypes
import os
import resource
import signal
import socket
import sys
from typing import NoReturn

from corpusmesh_core.ports.parsing import ParseLimits

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWNET = 0x40000000
_CLONE_NEWUSER = 0x10000000
_MAX_OPEN_FILES = 64


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies.

    Args:
        parent: Process id of the parent that is meant; if it is gone already, this process ends at once.
    """
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def drop_network() -> str:
    """Leave the network: a network namespace with nothing in it, else sockets that cannot be made.

    Returns:
        "namespace" or "sockets", whichever holds.
    """
    if sys.platform == "linux":
        libc = _libc()
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if libc.unshare(_CLONE_NEWNET) == 0 or libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0:
            return "namespace"
    socket.socket = _NoSocket  # type: ignore[misc, assignment]
    return "sockets"


def confine(limits: ParseLimits) -> None:
    """Set the limits that hold for a whole process: memory beyond what it has now, no files written, no core dump.

    Args:
        limits: What a document may cost.
    """
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_NOFILE, _MAX_OPEN_FILES)
    _lower(resource.RLIMIT_AS, _address_space_bytes() + limits.memory_bytes)


def allow_cpu(seconds: int) -> None:
    """Give this process so much processor time from now on; then the kernel ends it with SIGXCPU.

    Args:
        seconds: Processor seconds.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    allowed = int(usage.ru_utime + usage.ru_stime) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (allowed if hard == resource.RLIM_INFINITY else min(allowed, hard), hard))


def _lower(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    try:
        resource.setrlimit(which, (value, value))
    except (ValueError, OSError):
        # macOS refuses limits on address space; the pool's wall limit still holds there.
        return


def _address_space_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


class _NoSocket:
    """Stands in for `socket.socket`."""

    def __init__(self, *_: object, **__: object) -> NoReturn:
        raise PermissionError("a parser process has no network")
