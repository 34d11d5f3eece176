"""Reads request bodies within bounds of size and time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request

from corpusmesh_core.errors import DeadlineExceededError, InvalidArgumentError
from corpusmesh_gateway.errors import TooLargeError

T = TypeVar("T")


async def read_body(request: Request, *, max_bytes: int, timeout_seconds: float) -> bytes:
    """Read a small body whole.

    Args:
        request: The request.
        max_bytes: Largest body.
        timeout_seconds: Time to send it whole.

    Returns:
        The body.

    Raises:
        TooLargeError: If it is larger.
        DeadlineExceededError: If it comes too slowly.
    """
    check_length(request, max_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_seconds):
            async for piece in request.stream():
                body += piece
                if len(body) > max_bytes:
                    raise _too_large(max_bytes)
    except TimeoutError:
        raise _too_slow(timeout_seconds) from None
    return bytes(body)


async def stream_body(request: Request, *, max_bytes: int, idle_timeout_seconds: float) -> AsyncIterator[bytes]:
    """Read a large body piece by piece.

    Args:
        request: The request.
        max_bytes: Largest body.
        idle_timeout_seconds: Longest silence.

    Yields:
        The pieces, none empty.

    Raises:
        TooLargeError: If it is larger.
        DeadlineExceededError: If nothing comes for too long.
    """
    check_length(request, max_bytes)
    taken_bytes = 0
    pieces = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(idle_timeout_seconds):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise _too_slow(idle_timeout_seconds) from None
        taken_bytes += len(piece)
        if taken_bytes > max_bytes:
            raise _too_large(max_bytes)
        if piece:
            yield piece


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Wait for work as long as the caller waits for it; the body has been read.

    Args:
        request: The caller's request.
        work: What it waits for; it is cancelled when the caller leaves.

    Returns:
        What the work gives.

    Raises:
        ClientDisconnect: If the caller leaves before.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.create_task(_leave(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


async def _leave(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def check_length(request: Request, max_bytes: int) -> None:
    """Refuse a body by its announced length, before a byte of it is read.

    Args:
        request: The request.
        max_bytes: Largest body.

    Raises:
        TooLargeError: If it is larger.
        InvalidArgumentError: If the length is no number.
    """
    length = request.headers.get("content-length", "0")
    if not length.isdecimal():
        raise InvalidArgumentError("CONTENT_LENGTH_INVALID", "content-length is no number")
    if int(length) > max_bytes:
        raise _too_large(max_bytes)


def _too_large(max_bytes: int) -> TooLargeError:
    return TooLargeError("BODY_TOO_LARGE", f"the body may hold {max_bytes} bytes", max_bytes=max_bytes)


def _too_slow(seconds: float) -> DeadlineExceededError:
    return DeadlineExceededError("BODY_TOO_SLOW", f"the body did not come within {seconds:g} seconds")
