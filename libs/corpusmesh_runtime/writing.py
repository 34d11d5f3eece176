"""Writes the messages of a client stream without losing the status of a call that ends meanwhile.

A server may end a call while its client still writes: an upload that is refused early. The write that is on its way
then fails, and `grpc.aio`'s own `write` makes INTERNAL of it, in place of the status that the server has sent
(https://github.com/grpc/grpc/issues/36066, open in grpcio 1.85). Here a failed write waits for that status instead. It
reaches one step below the public API for that; `test_runtime_writing.py` fails when grpcio moves that step.
"""

import asyncio
from typing import Any

from grpc._cython import cygrpc  # type: ignore[attr-defined]

from corpusmesh_core.errors import UnavailableError

_STATUS_WAIT_SECONDS = 5.0


async def write_message(call: Any, message: bytes) -> bool:
    """Write one message to a call whose channel serialises nothing.

    Args:
        call: A running call with a client stream, made without a request iterator.
        message: The serialised message.

    Returns:
        Whether the call still goes on. False: it has ended, and awaiting it gives its response or its error.

    Raises:
        UnavailableError: If the stream broke without a status; the call is cancelled then.
    """
    if call.done():
        return False
    await call.wait_for_connection()
    try:
        await call._cython_call.send_serialized_message(message)
    except cygrpc.InternalError:
        await _wait_for_status(call)
        return False
    return True


async def end_messages(call: Any) -> None:
    """Say that no more messages follow.

    Args:
        call: A running call with a client stream.

    Raises:
        UnavailableError: If the stream broke without a status; the call is cancelled then.
    """
    try:
        await call.done_writing()
    except cygrpc.InternalError:
        await _wait_for_status(call)


async def _wait_for_status(call: Any) -> None:
    try:
        async with asyncio.timeout(_STATUS_WAIT_SECONDS):
            await call.code()
    except TimeoutError:
        call.cancel()
        raise UnavailableError("STREAM_BROKEN", "the stream broke; send it again") from None
