"""One stream out of a worker's pieces and what is told beside them."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine
from typing import TypeVar

_Value = TypeVar("_Value")
_MAX_WAITING = 64


class Feed:
    """Pieces of text and messages in the order in which they come; bounded, so that a slow reader slows the writer."""

    def __init__(self) -> None:
        """Begin empty."""
        self._queue: asyncio.Queue[str | tuple[str, str]] = asyncio.Queue(_MAX_WAITING)

    def tell(self, stage: str, message: str) -> None:
        """Say what is being done; left out where the reader is far behind.

        Args:
            stage: The stage.
            message: The message, for people; "" for none.
        """
        if message:
            with contextlib.suppress(asyncio.QueueFull):
                self._queue.put_nowait((stage, message))

    async def during(self, work: Awaitable[_Value], into: list[_Value]) -> AsyncGenerator[tuple[str, str]]:
        """Hand over what is told while something is worked out.

        Args:
            work: What is worked out; ended where the reader leaves.
            into: Gets its value.

        Yields:
            Messages as (stage, message).
        """

        async def run() -> None:
            into.append(await work)

        async with contextlib.aclosing(self._pieces(run())) as pieces:
            async for piece in pieces:
                if isinstance(piece, tuple):
                    yield piece

    async def along(self, texts: AsyncIterator[str]) -> AsyncGenerator[str | tuple[str, str]]:
        """Hand over texts, and what is told between them.

        Args:
            texts: The texts; ended where the reader leaves.

        Yields:
            Texts, and messages as (stage, message).
        """

        async def run() -> None:
            async for text in texts:
                await self._queue.put(text)

        async with contextlib.aclosing(self._pieces(run())) as pieces:
            async for piece in pieces:
                yield piece

    async def _pieces(self, run: Coroutine[None, None, None]) -> AsyncGenerator[str | tuple[str, str]]:
        task = asyncio.create_task(run)
        waiting = asyncio.create_task(self._queue.get())
        try:
            while True:
                await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    break
                yield waiting.result()
                waiting = asyncio.create_task(self._queue.get())
            await task
        finally:
            task.cancel()
            waiting.cancel()
            await asyncio.gather(task, waiting, return_exceptions=True)
        while not self._queue.empty():
            yield self._queue.get_nowait()
