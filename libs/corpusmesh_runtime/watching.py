"""Watching what moves: first as it is, then at every change, until it has ended."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from corpusmesh_core.ports.work import EventFeed

State = TypeVar("State")

_POLL_SECONDS = 1.0
_MIN_INTERVAL_SECONDS = 0.05


async def watch_changes(
    events: EventFeed,
    subject: str,
    read: Callable[[], Awaitable[State]],
    *,
    mark_of: Callable[[State], object],
    has_ended: Callable[[State], bool],
) -> AsyncGenerator[State, None]:
    """Give a state now and whenever it has changed; the feed tells when to look, the store what there is.

    The feed is a view and may have gaps, so the state is also read now and then. How long a watch lasts is the
    caller's deadline, which ends the call from outside.

    Args:
        events: The feed.
        subject: Tells that the state has moved.
        read: Reads it.
        mark_of: What differs between two states that are to be told apart.
        has_ended: Whether a state will not change any more; it is the last.

    Yields:
        States, no two in succession with the same mark.
    """
    moved = asyncio.Event()
    listener = asyncio.create_task(_listen(events, subject, moved), name="watch")
    last: object = None
    try:
        while True:
            moved.clear()
            state = await read()
            mark = mark_of(state)
            if last is None or mark != last:
                last = mark
                yield state
            if has_ended(state):
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await moved.wait()
            await asyncio.sleep(_MIN_INTERVAL_SECONDS)
    finally:
        listener.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listener


async def _listen(events: EventFeed, subject: str, moved: asyncio.Event) -> None:
    async for _ in events.subscribe(subject):
        moved.set()
