"""A bounded way from the event loop to a blocking client."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from corpusmesh_core.errors import DeadlineExceededError, OverloadedError

T = TypeVar("T")


class BoundedThreads:
    """A thread pool whose queue has an end.

    A caller that gives up frees its place only when its thread comes back, so a store that hangs never costs more than
    `thread_count` threads.
    """

    def __init__(self, name: str, thread_count: int, max_waiting_count: int) -> None:
        """Create the pool; threads start when they are needed.

        Args:
            name: Prefix of the threads' names.
            thread_count: Calls under way at once.
            max_waiting_count: Calls that may wait for a place; one more is refused.
        """
        self._executor = ThreadPoolExecutor(thread_count, thread_name_prefix=name)
        self._slots = asyncio.Semaphore(thread_count)
        self._max_waiting_count = max_waiting_count
        self._waiting_count = 0

    async def run(self, call: Callable[[], T], *, deadline: float) -> T:
        """Run a blocking call in a thread.

        Args:
            call: What to run; it must end by itself (socket timeouts).
            deadline: Loop time after which the caller no longer waits.

        Returns:
            What the call returned.

        Raises:
            OverloadedError: OBJECT_STORE_BUSY where too many calls wait.
            DeadlineExceededError: OBJECT_STORE_DEADLINE where the time is over.
        """
        if self._waiting_count >= self._max_waiting_count:
            raise OverloadedError(
                "OBJECT_STORE_BUSY",
                f"more than {self._max_waiting_count} calls wait for the object store; try again",
                limit=self._max_waiting_count,
            )
        self._waiting_count += 1
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
        except TimeoutError as error:
            raise _deadline() from error
        finally:
            self._waiting_count -= 1
        future = self._submit(call)
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            raise _deadline() from error

    def _submit(self, call: Callable[[], T]) -> Future[T]:
        loop = asyncio.get_running_loop()

        def free_place(_: Future[T]) -> None:
            # A loop that is closed has nobody left who waits for the place.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._slots.release)

        try:
            future = self._executor.submit(call)
        except RuntimeError:
            self._slots.release()
            raise
        future.add_done_callback(free_place)
        return future

    def close(self) -> None:
        """Refuse further calls; threads under way end by their own timeouts."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _deadline() -> DeadlineExceededError:
    return DeadlineExceededError("OBJECT_STORE_DEADLINE", "the object store did not finish within the time given")
