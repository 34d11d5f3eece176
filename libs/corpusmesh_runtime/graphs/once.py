"""Does one thing once, however many ask for it at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from corpusmesh_core.errors import OverloadedError

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class Once(Generic[_Key, _Value]):
    """Work under way, by what it is for."""

    def __init__(self, max_waiting: int) -> None:
        """Create it.

        Args:
            max_waiting: Works under way at once; one more is refused.
        """
        self._max_waiting = max_waiting
        self._under_way: dict[_Key, asyncio.Task[_Value]] = {}

    async def do(self, key: _Key, work: Callable[[], Awaitable[_Value]]) -> _Value:
        """Do a work, or wait for whoever does it already; whoever stops waiting does not stop it.

        Args:
            key: What it is for.
            work: Does it.

        Returns:
            What the work gives.

        Raises:
            OverloadedError: GRAPH_BUSY if too much is under way.
        """
        task = self._under_way.get(key)
        if task is None:
            if len(self._under_way) >= self._max_waiting:
                raise OverloadedError("GRAPH_BUSY", "too many graphs are being read at once", limit=self._max_waiting)
            task = asyncio.ensure_future(work())
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._ended(key, done))
        return await asyncio.shield(task)

    async def close(self) -> None:
        """End what is under way."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: _Key, task: asyncio.Task[_Value]) -> None:
        self._under_way.pop(key, None)
        if not task.cancelled():
            # Taken, so that nobody is told of a failure that nobody waits for any more.
            task.exception()
