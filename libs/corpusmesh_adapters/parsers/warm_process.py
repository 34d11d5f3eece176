"""One warm parser process, seen from the pool."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Self

from corpusmesh_adapters.parsers.frames import (
    HEADER,
    MAX_FRAME_BYTES,
    Message,
    options_to_plain,
    pack,
    result_from_plain,
    unpack,
)
from corpusmesh_core.documents import ParsedDocument
from corpusmesh_core.errors import DocumentError, UnavailableError
from corpusmesh_core.ports.parsing import ParseRequest

# Above this a message is packed or unpacked in a thread: the event loop must not stand still for a large document.
_THREAD_BYTES = 128 * 1024


class ProcessGoneError(Exception):
    """The process ended in the middle of a trip."""


class WarmProcess:
    """A process that has imported every parser and waits for documents."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Wrap a started process.

        Args:
            process: With pipes on its standard input and output.
        """
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout

    @classmethod
    async def start(cls, command: Sequence[str], *, timeout_seconds: float) -> Self:
        """Start a process and wait until it is ready.

        Args:
            command: What to start; the id of this process is added.
            timeout_seconds: How long its imports may take.

        Returns:
            A process that waits for documents.

        Raises:
            UnavailableError: PARSER_UNAVAILABLE if it ends or stays silent.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                str(os.getpid()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=_clean_environment(),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise _unavailable(f"it cannot be started ({type(error).__name__})") from error
        warm = cls(process)
        try:
            async with asyncio.timeout(timeout_seconds):
                await warm._frame()
        except (ProcessGoneError, TimeoutError) as error:
            await warm.kill()
            raise _unavailable("it ended or stayed silent while it started; its standard error says why") from error
        except BaseException:
            warm.signal_kill()
            raise
        return warm

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended as far as is known."""
        return self._process.returncode is None

    async def read(
        self, requests: Sequence[ParseRequest], extend: Callable[[float], None]
    ) -> AsyncIterator[ParsedDocument | DocumentError]:
        """Have it read documents.

        Args:
            requests: The documents.
            extend: Told of so many seconds more, each time a page is recognised.

        Yields:
            One result per document, in their order.

        Raises:
            ProcessGoneError: If it ends before the last result.
        """
        byte_count = sum(len(each.content) for each in requests if isinstance(each.content, bytes))
        if byte_count > _THREAD_BYTES:
            frame = await asyncio.to_thread(_request_frame, requests)
        else:
            frame = _request_frame(requests)
        try:
            self._stdin.write(frame)
            del frame
            await self._stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ProcessGoneError from error
        read_count = 0
        while read_count < len(requests):
            body = await self._frame()
            if len(body) > _THREAD_BYTES:
                message = await asyncio.to_thread(unpack, body)
            else:
                message = unpack(body)
            if "page_seconds" in message:
                extend(message["page_seconds"])
                continue
            read_count += 1
            if len(body) > _THREAD_BYTES:
                yield await asyncio.to_thread(result_from_plain, message["result"])
            else:
                yield result_from_plain(message["result"])

    def signal_kill(self) -> None:
        """Kill it and its forked child, without waiting."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def kill(self) -> None:
        """Kill it and its forked child, and wait until it is gone."""
        self.signal_kill()
        self._stdin.close()
        await self._process.wait()

    async def _frame(self) -> bytes:
        try:
            head = await self._stdout.readexactly(HEADER.size)
            (length,) = HEADER.unpack(head)
            if length > MAX_FRAME_BYTES:
                raise ProcessGoneError
            return await self._stdout.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionResetError) as error:
            raise ProcessGoneError from error


def _clean_environment() -> dict[str, str]:
    # Nothing of this process's environment, where keys and passwords live; only where its code is found.
    return {
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _request_frame(requests: Sequence[ParseRequest]) -> bytes:
    return pack({"documents": [_plain(request) for request in requests]})


def _plain(request: ParseRequest) -> Message:
    is_bytes = isinstance(request.content, bytes)
    return {
        "content": request.content if is_bytes else None,
        "path": "" if is_bytes else str(request.content),
        "display_name": request.display_name,
        "options": options_to_plain(request.options),
    }


def _unavailable(detail: str) -> UnavailableError:
    return UnavailableError("PARSER_UNAVAILABLE", f"A parser process is not available: {detail}.", detail=detail)
