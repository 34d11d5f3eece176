"""Uploads on their way: counted, hashed and kept on disk, never whole in memory."""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO

from corpusmesh_adapters.s3.threads import BoundedThreads
from corpusmesh_core.errors import DeadlineExceededError, InvalidArgumentError

_MEMORY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Spooled:
    """Content that has arrived whole.

    Attributes:
        file: Positioned at the start; owned by `spool`.
        byte_count: Its length.
        sha256: Its hex digest.
    """

    file: IO[bytes]
    byte_count: int
    sha256: str


@asynccontextmanager
async def spool(
    data: bytes | AsyncIterable[bytes], threads: BoundedThreads, *, max_byte_count: int | None, deadline: float
) -> AsyncIterator[Spooled]:
    """Collect content in a temporary file (in memory up to 1 MiB) and take its digest.

    Args:
        data: The content, whole or in pieces.
        threads: Where hashing and disk writes run.
        max_byte_count: Longest content taken; None for no bound of its own.
        deadline: Loop time by which all must have arrived.

    Yields:
        The content; its file is gone afterwards.

    Raises:
        InvalidArgumentError: OBJECT_TOO_LARGE as soon as more has arrived.
        DeadlineExceededError: OBJECT_STORE_DEADLINE where the pieces come too slowly.
    """
    digest = hashlib.sha256()
    byte_count = 0
    with tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES) as file:

        def take(block: bytes) -> None:
            digest.update(block)
            file.write(block)

        async for block in _blocks(data, deadline):
            byte_count += len(block)
            if max_byte_count is not None and byte_count > max_byte_count:
                raise InvalidArgumentError(
                    "OBJECT_TOO_LARGE",
                    f"the content is longer than {max_byte_count} bytes; send less or raise the limit",
                    limit_bytes=max_byte_count,
                )
            await threads.run(lambda block=block: take(block), deadline=deadline)  # type: ignore[misc]
        file.seek(0)
        yield Spooled(file, byte_count, digest.hexdigest())


async def _blocks(data: bytes | AsyncIterable[bytes], deadline: float) -> AsyncIterator[bytes]:
    """Gather small pieces into blocks of about 1 MiB, so that a thread is asked once a block."""
    if isinstance(data, bytes):
        yield data
        return
    pending = bytearray()
    pieces = aiter(data)
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                piece = await anext(pieces)
        except StopAsyncIteration:
            break
        except TimeoutError as error:
            raise DeadlineExceededError(
                "OBJECT_STORE_DEADLINE", "the content did not arrive within the time given"
            ) from error
        pending += piece
        if len(pending) >= _MEMORY_BYTES:
            yield bytes(pending)
            pending.clear()
    if pending:
        yield bytes(pending)
