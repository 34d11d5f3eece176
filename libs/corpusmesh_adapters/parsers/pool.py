"""The pool of parser processes behind the port `DocumentParser`."""

import asyncio
import collections
import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from corpusmesh_adapters.parsers.failures import over_limit
from corpusmesh_adapters.parsers.warm_process import ProcessGoneError, WarmProcess
from corpusmesh_core.documents import ParsedDocument
from corpusmesh_core.errors import DeadlineExceededError, DocumentError, OverloadedError, UnavailableError
from corpusmesh_core.ports.parsing import ParseOptions, ParseRequest

_SMALL_BYTES = 64 * 1024
_GRACE_SECONDS = 10.0
"""How much later than the process's own wall limit the pool stops believing in it."""

Result = ParsedDocument | DocumentError


class ParserPool:
    """A few warm processes, each reading one document at a time in a forked child of its own.

    A document that loops, eats memory or kills its reader costs itself alone; its process is replaced where it was
    lost. Cancelling a call, or its deadline, kills the reader. Use as `async with ParserPool() as pool`.
    """

    def __init__(
        self,
        *,
        process_count: int = 2,
        max_waiting: int = 256,
        max_batch_documents: int = 64,
        max_batch_bytes: int = 4 * 1024 * 1024,
        start_timeout_seconds: float = 60.0,
        command: Sequence[str] | None = None,
    ) -> None:
        """Create a pool; its processes start with `start` or with the first call.

        Args:
            process_count: Processes, and so documents read at the same time.
            max_waiting: Calls that may wait for a process; one more is refused.
            max_batch_documents: Small documents that share one trip to a process.
            max_batch_bytes: Their bytes together.
            start_timeout_seconds: How long a process may take to import its parsers.
            command: Starts a process that speaks `frames`; None starts `corpusmesh_adapters.parsers.child`.
        """
        self._command = tuple(command or (sys.executable, "-m", "corpusmesh_adapters.parsers.child"))
        self._start_timeout = start_timeout_seconds
        self._max_waiting = max_waiting
        self._max_batch_documents = max_batch_documents
        self._max_batch_bytes = max_batch_bytes
        self._process_count = process_count
        # Tokens: a warm process, or None for one that is still to be started. Last in, first out keeps one warm in the
        # caches while the rest sleep.
        self._free: asyncio.LifoQueue[WarmProcess | None] = asyncio.LifoQueue()
        for _ in range(process_count):
            self._free.put_nowait(None)
        self._processes: set[WarmProcess] = set()
        self._replacing: set[asyncio.Task[None]] = set()
        self._waiting = 0
        self._closed = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Start every process now, so that the first document does not wait for imports.

        Raises:
            UnavailableError: PARSER_UNAVAILABLE if one does not start.
        """
        tokens = [self._free.get_nowait() for _ in range(self._free.qsize())]
        started = await asyncio.gather(
            *(self._start_process() for token in tokens if token is None), return_exceptions=True
        )
        for token in (*tokens, *started):
            if isinstance(token, WarmProcess):
                self._free.put_nowait(token)
        for failure in started:
            if isinstance(failure, BaseException):
                self._free.put_nowait(None)
        for failure in started:
            if isinstance(failure, BaseException):
                raise failure

    @property
    def process_ids(self) -> tuple[int, ...]:
        """Ids of the warm processes that live now, for metrics of their memory."""
        return tuple(process.pid for process in self._processes)

    async def parse(
        self, content: Path | bytes, *, display_name: str, options: ParseOptions, deadline_seconds: float
    ) -> ParsedDocument:
        """Read one document; see `DocumentParser.parse`.

        Args:
            content: The file, or where it lies on this machine.
            display_name: Its file name, data only.
            options: Password and limits.
            deadline_seconds: Time the caller has left, waiting for a free process included.

        Returns:
            Blocks in reading order with their places.

        Raises:
            DocumentError: What is wrong with the document, or what limit it broke.
            OverloadedError: PARSER_QUEUE_FULL.
            DeadlineExceededError: PARSE_DEADLINE_EXCEEDED.
            UnavailableError: PARSER_UNAVAILABLE.
        """
        request = ParseRequest(content, display_name, options)
        async with _deadline(deadline_seconds):
            (result,) = await self._read([request])
        if isinstance(result, DocumentError):
            raise result
        return result

    async def parse_many(self, requests: Sequence[ParseRequest], *, deadline_seconds: float) -> list[Result]:
        """Read many documents, small ones in shared trips; see `DocumentParser.parse_many`.

        Args:
            requests: The documents.
            deadline_seconds: Time for all of them.

        Returns:
            One result per request, in their order.

        Raises:
            OverloadedError: PARSER_QUEUE_FULL.
            DeadlineExceededError: PARSE_DEADLINE_EXCEEDED.
            UnavailableError: PARSER_UNAVAILABLE.
        """
        results: dict[int, Result] = {}
        trips = collections.deque(self._trips(requests))

        async def run() -> None:
            while trips:
                trip = trips.popleft()
                found = await self._read([requests[index] for index in trip])
                results.update(zip(trip, found, strict=True))

        async with _deadline(deadline_seconds):
            runners = [asyncio.ensure_future(run()) for _ in range(min(self._process_count, len(trips)))]
            try:
                await asyncio.gather(*runners)
            finally:
                for runner in runners:
                    runner.cancel()
                await asyncio.gather(*runners, return_exceptions=True)
        return [results[index] for index in range(len(requests))]

    async def close(self) -> None:
        """Stop every process and wait until it is gone; calls in flight fail with UnavailableError."""
        self._closed = True
        for task in self._replacing:
            task.cancel()
        await asyncio.gather(*self._replacing, return_exceptions=True)
        await asyncio.gather(*(process.kill() for process in tuple(self._processes)))
        self._processes.clear()
        # Calls that still wait for a process find the pool closed.
        for _ in range(self._waiting):
            self._free.put_nowait(None)

    def _trips(self, requests: Sequence[ParseRequest]) -> list[list[int]]:
        trips: list[list[int]] = []
        shared: list[int] = []
        shared_bytes = 0
        # Shared trips are kept small enough that every process gets some.
        most = min(self._max_batch_documents, -(-len(requests) // self._process_count))
        for index, request in enumerate(requests):
            size = _byte_count(request)
            if size > _SMALL_BYTES:
                trips.append([index])
                continue
            if shared and (len(shared) >= most or shared_bytes + size > self._max_batch_bytes):
                trips.append(shared)
                shared, shared_bytes = [], 0
            shared.append(index)
            shared_bytes += size
        return [*trips, shared] if shared else trips

    async def _read(self, requests: Sequence[ParseRequest]) -> list[Result]:
        """Read documents in one trip; where the process is lost, its document fails and the rest go on in another."""
        results: list[Result] = []
        while len(results) < len(requests):
            waiting = requests[len(results) :]
            process = await self._take()
            intact = False
            try:
                seconds = sum(each.options.limits.wall_seconds for each in waiting) + _GRACE_SECONDS
                async with asyncio.timeout(seconds) as timeout:
                    async for result in process.read(waiting, functools.partial(_extend, timeout)):
                        results.append(result)  # noqa: PERF401 - what came before a failure is kept
                intact = True
            except (ProcessGoneError, TimeoutError):
                if self._closed:
                    raise _closed() from None
                limits = requests[len(results)].options.limits
                results.append(over_limit("memory_bytes", limits.memory_bytes, "its reader was killed"))
            finally:
                # Cancelled in the middle, the process still reads for nobody: it is killed and replaced.
                self._give_back(process, intact=intact)
        return results

    async def _take(self) -> WarmProcess:
        if self._closed:
            raise _closed()
        if self._free.empty() and self._waiting >= self._max_waiting:
            raise OverloadedError(
                "PARSER_QUEUE_FULL",
                f"{self._waiting} documents wait for a parser already. Try again later.",
                waiting=self._waiting,
            )
        self._waiting += 1
        try:
            token = await self._free.get()
        finally:
            self._waiting -= 1
        if self._closed:
            raise _closed()
        if token is not None and token.is_alive:
            return token
        if token is not None:
            self._processes.discard(token)
        try:
            return await self._start_process()
        except BaseException:
            self._free.put_nowait(None)
            raise

    def _give_back(self, process: WarmProcess, *, intact: bool) -> None:
        if intact and process.is_alive:
            self._free.put_nowait(process)
            return
        process.signal_kill()
        if self._closed:
            return
        task = asyncio.ensure_future(self._replace(process))
        self._replacing.add(task)
        task.add_done_callback(self._replacing.discard)

    async def _replace(self, lost: WarmProcess) -> None:
        token: WarmProcess | None = None
        try:
            await lost.kill()
            self._processes.discard(lost)
            token = await self._start_process()
        except UnavailableError:
            # The next call tries again and reports it.
            token = None
        finally:
            self._free.put_nowait(token)

    async def _start_process(self) -> WarmProcess:
        process = await WarmProcess.start(self._command, timeout_seconds=self._start_timeout)
        if self._closed:
            await process.kill()
            raise _closed()
        self._processes.add(process)
        return process


class _deadline:  # noqa: N801 - used as a function
    """Turns a time-out of the caller's own time into the typed error."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise DeadlineExceededError(
                "PARSE_DEADLINE_EXCEEDED",
                f"The documents could not be read within {self._seconds:g} seconds.",
                deadline_seconds=self._seconds,
            ) from None


def _extend(timeout: asyncio.Timeout, seconds: float) -> None:
    """Wait longer: each page that is recognised has time of its own."""
    when = timeout.when()
    if when is not None and not timeout.expired():
        timeout.reschedule(when + seconds)


def _byte_count(request: ParseRequest) -> int:
    if isinstance(request.content, bytes):
        return len(request.content)
    try:
        return os.stat(request.content).st_size
    except OSError:
        return 0


def _closed() -> UnavailableError:
    return UnavailableError("PARSER_UNAVAILABLE", "The parser pool is closed: this process is shutting down.")
