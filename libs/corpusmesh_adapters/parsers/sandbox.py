"""Takes away from a parser process what a parser does not need: network, files, time, memory, life after its parent.

Each measure is best effort where the platform lacks it; the limits on processor time and wall time hold everywhere.

Recognition of text in images costs more than parsing, and each page of it the same again. It is granted apart
(`recognizing`): memory once, processor time for each page, and wall time likewise, which the process that watches this
one is told of. While a page is recognised the document's own clock stands still; it goes on afterwards with what was
left. So a parser that loops is killed as soon as ever, a page that loops after its own share, and a document can take
no more shares than it may have recognised pages: whatever it holds, its end is bounded.
"""

import ctypes
import math
import mmap
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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


def confine(limits: Sequence[ParseLimits], announce: Callable[[float], None]) -> None:
    """Set the limits that hold for a whole process: memory beyond what it has now, no files written, no core dump.

    Args:
        limits: What each of its documents may cost.
        announce: Tells the watching process that a page is being recognised and may take so many wall seconds; 0.0
            when it is done.
    """
    global _confinement
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_NOFILE, _MAX_OPEN_FILES)
    own = _address_space_bytes() + max(each.memory_bytes for each in limits)
    _lower(resource.RLIMIT_AS, own, own + max(each.recognition_memory_bytes for each in limits))
    most = sum(each.cpu_seconds + each.max_recognized_pages * (each.recognition_cpu_seconds + 1) + 2 for each in limits)
    ceiling = math.ceil(_cpu_seconds()) + most
    _lower(resource.RLIMIT_CPU, ceiling)
    _confinement = _Confinement(announce)
    begin_document(limits[0])


def begin_document(limits: ParseLimits) -> None:
    """Give this process a document's processor time from now on; then the kernel ends it with SIGXCPU.

    Args:
        limits: What the document may cost.
    """
    if _confinement is None:
        return
    _confinement.cpu_end_seconds = _cpu_seconds() + limits.cpu_seconds
    _confinement.pages_left = limits.max_recognized_pages
    _end_cpu_at(_confinement.cpu_end_seconds)


@contextmanager
def recognizing(limits: ParseLimits) -> Iterator[None]:
    """Recognise one page: more memory, and processor and wall time of its own while the document's stand still.

    Outside a confined process, and beyond the pages that may be recognised, it grants nothing.

    Args:
        limits: What the document may cost.

    Yields:
        While the page is recognised.
    """
    if _confinement is None or _confinement.pages_left < 1:
        yield
        return
    _confinement.pages_left -= 1
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    _raise(resource.RLIMIT_AS, most)
    left = _confinement.cpu_end_seconds - _cpu_seconds()
    _end_cpu_at(_cpu_seconds() + limits.recognition_cpu_seconds)
    _confinement.announce(page_wall_seconds(limits))
    try:
        yield
    finally:
        _confinement.cpu_end_seconds = _cpu_seconds() + left
        _end_cpu_at(_confinement.cpu_end_seconds)
        _confinement.announce(0.0)


def page_wall_seconds(limits: ParseLimits) -> float:
    """Say how long a page may take to be recognised: as much longer than its processor time as a document may.

    Args:
        limits: What the document may cost.

    Returns:
        Wall seconds.
    """
    return limits.recognition_cpu_seconds * max(limits.wall_seconds / limits.cpu_seconds, 1.0)


def has_room(byte_count: int) -> bool:
    """Say whether this process could still take so much memory.

    Args:
        byte_count: How much, in one piece.

    Returns:
        True if that much address space can be mapped; nothing is kept.
    """
    try:
        mmap.mmap(-1, byte_count).close()
    except (OSError, MemoryError):
        return False
    return True


@dataclass(slots=True)
class _Confinement:
    """What a confined process was granted.

    Attributes:
        announce: See `confine`.
        cpu_end_seconds: Processor time of this process at which the document's own is used up.
        pages_left: Pages of the document that may still be recognised.
    """

    announce: Callable[[float], None]
    cpu_end_seconds: float = 0.0
    pages_left: int = 0


_confinement: _Confinement | None = None


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _end_cpu_at(seconds: float) -> None:
    _raise(resource.RLIMIT_CPU, math.ceil(seconds))


def _raise(which: int, value: int) -> None:
    """Set a soft limit, within the hard one."""
    _, hard = resource.getrlimit(which)
    try:
        resource.setrlimit(which, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
    except (ValueError, OSError):
        return


def _lower(which: int, value: int, most: int | None = None) -> None:
    """Set a soft limit, and a hard one that it may be raised to."""
    _, hard = resource.getrlimit(which)
    most = value if most is None else most
    if hard != resource.RLIM_INFINITY:
        value, most = min(value, hard), min(most, hard)
    try:
        resource.setrlimit(which, (value, most))
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
