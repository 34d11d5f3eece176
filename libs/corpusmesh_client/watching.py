"""Watches that survive broken connections and restarts of the mesh."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TypeVar

from corpusmesh_core.errors import ConflictError, DeadlineExceededError, OverloadedError, UnavailableError

StateT = TypeVar("StateT")

_PASSING_FAILURES = (UnavailableError, OverloadedError, DeadlineExceededError, ConflictError)
_FIRST_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 5.0


async def watch_to_the_end(
    what: str,
    open_stream: Callable[[], AsyncGenerator[StateT, None]],
    has_ended: Callable[[StateT], bool],
    *,
    silence_seconds: float,
    give_up_after_seconds: float,
) -> AsyncIterator[StateT]:
    """Follow something until it has ended.

    Every stream of the mesh begins with the state as it is, so a new stream resumes without a gap. A stream that is
    silent is opened again: nothing waits for ever.

    Args:
        what: What is watched, for messages.
        open_stream: Begins a stream of states.
        has_ended: Whether a state is the last.
        silence_seconds: Silence after which the stream is opened again.
        give_up_after_seconds: How long the mesh may fail to answer before the failure is raised.

    Yields:
        The state at every change; the last one has ended.

    Raises:
        CorpusMeshError: If the state cannot be read, or the mesh did not answer for too long.
    """
    last: StateT | None = None
    answered_at = time.monotonic()
    pause_seconds = _FIRST_PAUSE_SECONDS
    while last is None or not has_ended(last):
        try:
            async for state in _until_silent(open_stream(), silence_seconds):
                answered_at, pause_seconds = time.monotonic(), _FIRST_PAUSE_SECONDS
                if state != last:
                    last = state
                    yield state
                if has_ended(state):
                    return
        except _PASSING_FAILURES:
            if time.monotonic() - answered_at + pause_seconds > give_up_after_seconds:
                raise
        if time.monotonic() - answered_at > give_up_after_seconds + silence_seconds:
            raise DeadlineExceededError("WATCH_SILENT", f"the mesh told nothing of {what}", name=what)
        await asyncio.sleep(pause_seconds)
        pause_seconds = min(pause_seconds * 2, _LONGEST_PAUSE_SECONDS)


async def _until_silent(stream: AsyncGenerator[StateT, None], silence_seconds: float) -> AsyncIterator[StateT]:
    try:
        while True:
            try:
                async with asyncio.timeout(silence_seconds):
                    state = await anext(stream)
            except StopAsyncIteration:
                return
            yield state
    except TimeoutError:
        return
    finally:
        await stream.aclose()
