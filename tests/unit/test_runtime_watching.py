"""Watches: first as it is, then every change, to the end; whatever the feed does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import pytest

from corpusmesh_core.errors import NotFoundError
from corpusmesh_runtime.watching import watch_changes


class Feed:
    """Tells of every move, or says nothing at all."""

    def __init__(self, *, moves: int = 0) -> None:
        self.moves = moves
        self.closed = False

    async def subscribe(self, subject: str) -> AsyncIterator[bytes]:
        try:
            for _ in range(self.moves):
                yield b""
            await asyncio.Event().wait()
        finally:
            self.closed = True


class Source:
    def __init__(self, *states: int) -> None:
        self.states = list(states)
        self.reads = 0

    async def read(self) -> int:
        self.reads += 1
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


def watch(feed: Feed, source: Source) -> Any:
    return watch_changes(
        cast(Any, feed), "subject", source.read, mark_of=lambda state: state, has_ended=lambda state: state >= 9
    )


async def test_every_change_is_told_once_and_the_last_one_ends_the_watch() -> None:
    feed = Feed(moves=5)
    assert [state async for state in watch(feed, Source(1, 1, 2, 2, 9))] == [1, 2, 9]
    assert feed.closed


async def test_what_has_ended_is_told_once() -> None:
    assert [state async for state in watch(Feed(), Source(9))] == [9]


async def test_a_feed_that_says_nothing_does_not_hide_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corpusmesh_runtime.watching._POLL_SECONDS", 0.01)
    assert [state async for state in watch(Feed(), Source(1, 2, 9))] == [1, 2, 9]


async def test_a_watcher_that_leaves_closes_the_feed() -> None:
    feed = Feed(moves=1)
    async with aclosing(watch(feed, Source(1, 2))) as states:
        assert await anext(states) == 1
        assert await anext(states) == 2
    assert feed.closed


async def test_what_cannot_be_read_any_more_ends_the_watch_with_its_error() -> None:
    async def read() -> int:
        raise NotFoundError("RUN_NOT_FOUND", "gone")

    states = watch_changes(cast(Any, Feed()), "subject", read, mark_of=lambda state: state, has_ended=lambda _: False)
    with pytest.raises(NotFoundError):
        await anext(states)
