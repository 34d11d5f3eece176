"""The warm parser process: has every parser imported, and forks one child per trip.

A fork costs a few milliseconds and gives each document fresh limits, fresh memory and nothing of the document before
it; a child that dies takes nothing with it but the document it was reading. The warm process itself never touches
document bytes but to pass them on, so it lives as long as the pool. Started as `python -m`, single-threaded.
"""

import gc
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.failures import corrupt, is_out_of_memory, over_limit
from corpusmesh_adapters.parsers.frames import (
    HEADER,
    MAX_FRAME_BYTES,
    Message,
    options_from_plain,
    pack,
    read_frame,
    result_to_plain,
    unpack,
    write_all,
)
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_adapters.parsers.sandbox import (
    begin_document,
    confine,
    die_with_parent,
    drop_network,
    page_wall_seconds,
)
from corpusmesh_core.documents import ParsedDocument
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseLimits

Parse = Callable[[Source], ParsedDocument]
_RECURSION_LIMIT = 3_000
_PAGE_SECONDS = "page_seconds"
_MAX_NOTICE_BYTES = 64
_OUT_OF_MEMORY_SIGNALS = (signal.SIGKILL, signal.SIGABRT, signal.SIGBUS)
# A page is pixels already when it is recognised: no bytes of its file can crash that, while native code that does not
# check what an allocator gave it ends with these.
_RECOGNITION_SIGNALS = (*_OUT_OF_MEMORY_SIGNALS, signal.SIGSEGV, signal.SIGTRAP)


def serve(parse: Parse = parse_source) -> None:
    """Answer requests on standard input until it closes.

    Args:
        parse: Reads one document; another one only in tests of this process.
    """
    die_with_parent(int(sys.argv[1]))
    network = drop_network()
    requests, answers = os.dup(0), os.dup(1)
    silence = os.open(os.devnull, os.O_RDWR)
    write_all(answers, pack({"ready": network}))
    # From here on nothing that a parser prints can reach a log: it might be document text.
    for descriptor in (0, 1, 2):
        os.dup2(silence, descriptor)
    sys.setrecursionlimit(_RECURSION_LIMIT)
    gc.collect()
    gc.freeze()
    while (request := read_frame(requests)) is not None:
        results = _answer(request["documents"], requests, answers, parse)
        if results is None:
            return
        del request


def _answer(documents: Sequence[Message], requests: int, answers: int, parse: Parse) -> bool | None:
    """Read documents, one forked child after the other until none is left; None if the pool went away."""
    done = 0
    while done < len(documents):
        finished, failure = _run_child(documents[done:], requests, answers, parse)
        if finished is None:
            return None
        done += finished
        if done < len(documents):
            write_all(answers, pack({"result": result_to_plain(failure)}))
            done += 1
    return True


def _run_child(
    documents: Sequence[Message], requests: int, answers: int, parse: Parse
) -> tuple[int | None, DocumentError]:
    """Fork a child for documents; pass its results on until it ends or overstays."""
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.close(requests)
        os.close(answers)
        _child_main(documents, writing, parent, parse)
    os.close(writing)
    watch = _Watch([ParseLimits(**document["options"]["limits"]) for document in documents])
    overstayed = abandoned = False
    buffer = bytearray()
    while True:
        # The pool sends nothing while it waits for an answer: readable means that it is gone.
        watched = [reading] if watch.is_done else [reading, requests]
        ready, _, _ = select.select(watched, [], [], watch.seconds_left())
        abandoned = requests in ready
        overstayed = not ready
        part = os.read(reading, 1 << 20) if reading in ready and not abandoned else b""
        if not part:
            break
        buffer += part
        for frame in _frames(buffer):
            if watch.lets_pass(frame):
                write_all(answers, frame)
    if overstayed or abandoned:
        os.kill(child, signal.SIGKILL)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    if abandoned:
        return None, corrupt("abandoned")
    return watch.finished, watch.why(status, overstayed=overstayed)


class _Watch:
    """How long a child may go on with the document that it reads now.

    A page that is recognised has time of its own, during which the document's stands still (see `sandbox`). The child
    announces such a page; it is believed no more often than its document may have recognised pages.
    """

    def __init__(self, limits: Sequence[ParseLimits]) -> None:
        self._limits = limits
        self._pages_left = 0
        self._seconds_saved: float | None = None
        self._deadline = 0.0
        self.finished = 0
        self._begin()

    @property
    def is_done(self) -> bool:
        return self.finished == len(self._limits)

    def seconds_left(self) -> float:
        return max(self._deadline - time.monotonic(), 0.0)

    def lets_pass(self, frame: bytes) -> bool:
        """Take note of a frame; the pool wants to see results and how much longer it has to wait."""
        if len(frame) > _MAX_NOTICE_BYTES or _PAGE_SECONDS not in (notice := unpack(frame[HEADER.size :])):
            self.finished += 1
            self._begin()
            return True
        if not notice[_PAGE_SECONDS]:
            if self._seconds_saved is not None:
                self._deadline = time.monotonic() + self._seconds_saved
                self._seconds_saved = None
            return False
        if self._pages_left < 1 or self._seconds_saved is not None:
            return False
        self._pages_left -= 1
        self._seconds_saved = self.seconds_left()
        self._deadline = time.monotonic() + page_wall_seconds(self._current)
        return True

    def why(self, status: int, *, overstayed: bool) -> DocumentError:
        """Say what ended the child before its document was read."""
        return _why(status, self._current, overstayed=overstayed, is_recognizing=self._seconds_saved is not None)

    @property
    def _current(self) -> ParseLimits:
        return self._limits[min(self.finished, len(self._limits) - 1)]

    def _begin(self) -> None:
        self._deadline = time.monotonic() + self._current.wall_seconds
        self._pages_left = self._current.max_recognized_pages
        self._seconds_saved = None


def _frames(buffer: bytearray) -> list[bytes]:
    frames = []
    while len(buffer) >= HEADER.size:
        (length,) = HEADER.unpack_from(buffer)
        end = HEADER.size + length
        if length > MAX_FRAME_BYTES or len(buffer) < end:
            break
        frames.append(bytes(buffer[:end]))
        del buffer[:end]
    return frames


def _why(status: int, limits: ParseLimits, *, overstayed: bool, is_recognizing: bool) -> DocumentError:
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if is_recognizing and (overstayed or number == signal.SIGXCPU):
        return over_limit("recognition_cpu_seconds", limits.recognition_cpu_seconds, "recognising a page takes longer")
    if overstayed:
        return over_limit("wall_seconds", limits.wall_seconds, "reading it takes longer")
    if number == signal.SIGXCPU:
        return over_limit("cpu_seconds", limits.cpu_seconds, "reading it takes more processor time")
    if number == 0 or number in (_RECOGNITION_SIGNALS if is_recognizing else _OUT_OF_MEMORY_SIGNALS):
        limit = "recognition_memory_bytes" if is_recognizing else "memory_bytes"
        return over_limit(limit, getattr(limits, limit), "its reader was killed, as when memory runs out")
    return corrupt(f"its reader crashed on it with {signal.Signals(number).name}")


def _child_main(documents: Sequence[Message], writing: int, parent: int, parse: Parse) -> None:
    status = 1
    try:
        die_with_parent(parent)
        limits = [ParseLimits(**document["options"]["limits"]) for document in documents]
        confine(limits, lambda seconds: write_all(writing, pack({_PAGE_SECONDS: seconds})))
        for document in documents:
            write_all(writing, _packed(_parse(document, parse)))
        status = 0
    finally:
        # Nothing of the warm process may run twice: no cleanup handlers, no flushing.
        os._exit(status)


def _packed(result: ParsedDocument | DocumentError) -> bytes:
    """Write a result; one that no frame holds, and one that is too large to be written, is an error."""
    try:
        frame = pack({"result": result_to_plain(result)})
    except (MemoryError, ValueError):
        frame = b""
    if 0 < len(frame) <= HEADER.size + MAX_FRAME_BYTES:
        return frame
    return pack(
        {"result": result_to_plain(over_limit("memory_bytes", MAX_FRAME_BYTES, "what was read of it is larger"))}
    )


def _parse(document: Message, parse: Parse) -> ParsedDocument | DocumentError:
    options = options_from_plain(document["options"])
    begin_document(options.limits)
    try:
        content = document["content"]
        if content is None:
            content = _read_file(Path(document["path"]), options.limits)
        return parse(Source(content, document["display_name"], options))
    except DocumentError as error:
        return error
    except BaseException as error:  # noqa: BLE001 - the process's main; Rust parsers panic with a BaseException
        if is_out_of_memory(error):
            return over_limit("memory_bytes", options.limits.memory_bytes, "reading it takes more memory")
        return corrupt(f"its content cannot be read ({type(error).__name__})")


def _read_file(path: Path, limits: ParseLimits) -> bytes:
    byte_count = path.stat().st_size
    if byte_count > limits.max_bytes:
        raise over_limit("max_bytes", limits.max_bytes, f"it has {byte_count} bytes")
    return path.read_bytes()


if __name__ == "__main__":
    serve()
