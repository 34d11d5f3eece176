"""One stream out of a worker's pieces and what is told beside them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from corpusmesh_core.errors import UnavailableError
from corpusmesh_retrieve.answering.feed import Feed


async def test_what_is_told_during_work_comes_before_its_value() -> None:
    feed, found = Feed(), list[int]()

    async def work() -> int:
        feed.tell("check", "checking")
        await asyncio.sleep(0)
        feed.tell("web", "")
        feed.tell("correct", "searching")
        return 7

    assert [stage async for stage, _ in feed.during(work(), found)] == ["check", "correct"]
    assert found == [7]


async def test_an_error_of_the_work_reaches_the_reader() -> None:
    feed = Feed()

    async def work() -> int:
        feed.tell("check", "checking")
        raise UnavailableError("INDEX_UNAVAILABLE", "away")

    messages = feed.during(work(), [])
    assert await anext(messages) == ("check", "checking")
    with pytest.raises(UnavailableError):
        await anext(messages)


async def test_texts_and_messages_keep_their_order() -> None:
    feed = Feed()

    async def texts() -> AsyncGenerator[str]:
        feed.tell("write", "writing")
        yield "one"
        feed.tell("verify", "checking")
        yield "two"

    pieces = [piece async for piece in feed.along(texts())]
    assert pieces == [("write", "writing"), "one", ("verify", "checking"), "two"]


async def test_a_reader_that_leaves_ends_the_work() -> None:
    feed, is_ended = Feed(), asyncio.Event()

    async def texts() -> AsyncGenerator[str]:
        try:
            yield "one"
            await asyncio.Event().wait()
        finally:
            is_ended.set()

    source = texts()
    async with aclosing(source), aclosing(feed.along(source)) as pieces:
        async for _ in pieces:
            break
    assert is_ended.is_set()


async def test_a_slow_reader_holds_the_writer_back() -> None:
    feed, written = Feed(), 0

    async def texts() -> AsyncGenerator[str]:
        nonlocal written
        for number in range(10_000):
            written += 1
            yield str(number)

    source = texts()
    async with aclosing(source), aclosing(feed.along(source)) as pieces:
        async for _ in pieces:
            for _ in range(1_000):
                await asyncio.sleep(0)
            break
    assert written < 100
