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
from corpusmesh_adapters.parsers.failures import corrupt, over_limit
from corpusmesh_adapters.parsers.frames import (
    HEADER,
    MAX_FRAME_BYTES,
    Message,
    options_from_plain,
    pack,
    read_frame,
    result_to_plain,
    write_all,
)
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_adapters.parsers.sandbox import allow_cpu, confine, die_with_parent, drop_network
from corpusmesh_core.documents import ParsedDocument
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseLimits

Parse = Callable[[Source], ParsedDocument]
_RECURSION_LIMIT = 3_000
_OUT_OF_MEMORY_SIGNALS = (signal.SIGKILL, signal.SIGABRT, signal.SIGBUS)


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
    finished = 0
    limits = [ParseLimits(**document["options"]["limits"]) for document in documents]
    overstayed = abandoned = False
    buffer = bytearray()
    deadline = time.monotonic() + limits[0].wall_seconds
    while True:
        # The pool sends nothing while it waits for an answer: readable means that it is gone.
        watched = [reading] if finished == len(documents) else [reading, requests]
        ready, _, _ = select.select(watched, [], [], max(deadline - time.monotonic(), 0.0))
        abandoned = requests in ready
        overstayed = not ready
        part = os.read(reading, 1 << 20) if reading in ready and not abandoned else b""
        if not part:
            break
        buffer += part
        for frame in _frames(buffer):
            write_all(answers, frame)
            finished += 1
            deadline = time.monotonic() + limits[min(finished, len(limits) - 1)].wall_seconds
    if overstayed or abandoned:
        os.kill(child, signal.SIGKILL)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    if abandoned:
        return None, corrupt("abandoned")
    index = min(finished, len(limits) - 1)
    return finished, _why(status, limits[index], overstayed=overstayed)


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


def _why(status: int, limits: ParseLimits, *, overstayed: bool) -> DocumentError:
    if overstayed:
        return over_limit("wall_seconds", limits.wall_seconds, "reading it takes longer")
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if number == signal.SIGXCPU:
        return over_limit("cpu_seconds", limits.cpu_seconds, "reading it takes more processor time")
    if number in _OUT_OF_MEMORY_SIGNALS or number == 0:
        return over_limit("memory_bytes", limits.memory_bytes, "its reader was killed, as when memory runs out")
    return corrupt(f"its reader crashed on it with {signal.Signals(number).name}")


def _child_main(documents: Sequence[Message], writing: int, parent: int, parse: Parse) -> None:
    status = 1
    try:
        die_with_parent(parent)
        confine(ParseLimits(**documents[0]["options"]["limits"]))
        for document in documents:
            write_all(writing, pack({"result": result_to_plain(_parse(document, parse))}))
        status = 0
    finally:
        # Nothing of the warm process may run twice: no cleanup handlers, no flushing.
        os._exit(status)


def _parse(document: Message, parse: Parse) -> ParsedDocument | DocumentError:
    options = options_from_plain(document["options"])
    allow_cpu(options.limits.cpu_seconds)
    try:
        content = document["content"]
        if content is None:
            content = _read_file(Path(document["path"]), options.limits)
        return parse(Source(content, document["display_name"], options))
    except DocumentError as error:
        return error
    except MemoryError:
        return over_limit("memory_bytes", options.limits.memory_bytes, "reading it takes more memory")
    except BaseException as error:  # noqa: BLE001 - the process's main; Rust parsers panic with a BaseException
        return corrupt(f"its content cannot be read ({type(error).__name__})")


def _read_file(path: Path, limits: ParseLimits) -> bytes:
    byte_count = path.stat().st_size
    if byte_count > limits.max_bytes:
        raise over_limit("max_bytes", limits.max_bytes, f"it has {byte_count} bytes")
    return path.read_bytes()


if __name__ == "__main__":
    serve()
