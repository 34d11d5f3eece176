"""Server streams over HTTP: event streams, JSON lines, and originals as attachments."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
from google.protobuf.message import Message
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from corpusmesh_gateway.http.bodies import unless_gone
from corpusmesh_gateway.http.responses import attachment_headers, status_json, status_of_rpc
from corpusmesh_gateway.http.transcoding import to_json

EVENT_STREAM = "text/event-stream"
JSON_LINES = "application/x-ndjson"
HEARTBEAT = b": still here\n\n"
SHOWN_MEDIA_TYPES = frozenset({"image/png", "image/jpeg"})
"""What a browser draws and never runs."""


async def stream_response(
    call: Any, request: Request, *, heartbeat_seconds: float, headers: dict[str, str]
) -> Response:
    """Answer with a server stream; an error before its first message is an ordinary error response.

    Args:
        call: The running call.
        request: Its `Accept` header chooses the form.
        heartbeat_seconds: Silence after which an event stream gets a comment.
        headers: Further headers.

    Returns:
        `text/event-stream` (an event a message, its number as id; `error` events for errors) where asked for, else JSON
        lines (a message a line; a line with the key `error` ends a stream that failed).
    """
    messages = aiter(call)
    first = await first_message(messages, call, request)
    as_events = EVENT_STREAM in request.headers.get("accept", "")
    lines = _events(first, messages, heartbeat_seconds) if as_events else _json_lines(first, messages)
    return StreamingResponse(
        ending_call(lines, call),
        media_type=EVENT_STREAM if as_events else JSON_LINES,
        headers={**headers, "X-Accel-Buffering": "no"},
    )


async def original_response(call: Any, request: Request, headers: dict[str, str]) -> Response:
    """Answer with an original as it was uploaded, to be saved and never shown.

    Args:
        call: The running `ReadOriginal`.
        request: Whose caller may leave.
        headers: Further headers.

    Returns:
        The bytes; a stream that breaks ends short of its `Content-Length`.
    """
    messages = aiter(call)
    first = await first_message(messages, call, request)
    if first is None:
        return Response(b"", headers={**headers, **attachment_headers("", "")})

    return StreamingResponse(
        ending_call(_pieces(first, messages), call),
        headers={
            **headers,
            **attachment_headers(first.display_name, first.media_type),
            "Content-Length": str(first.size_bytes),
        },
    )


async def picture_response(call: Any, request: Request, headers: dict[str, str]) -> Response:
    """Answer with a picture, to be shown.

    Args:
        call: The running `ReadPicture`.
        request: Whose caller may leave.
        headers: Further headers.

    Returns:
        The bytes under their media type; what is no image that browsers merely draw is to be saved.
    """
    messages = aiter(call)
    first = await first_message(messages, call, request)
    if first is None or first.media_type not in SHOWN_MEDIA_TYPES:
        return Response(b"", status_code=502, headers=headers)

    return StreamingResponse(
        ending_call(_pieces(first, messages), call),
        media_type=first.media_type,
        headers={**headers, "Content-Length": str(first.size_bytes), "Content-Disposition": "inline"},
    )


async def _pieces(first: Any, messages: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    yield first.data
    async for message in messages:
        yield message.data


async def first_message(messages: AsyncIterator[Any], call: Any, request: Request) -> Any:
    """Wait for the first message of a call, as long as the caller does.

    Args:
        messages: Those of the call.
        call: The call; it is cancelled where no message comes.
        request: The caller's request.

    Returns:
        The message; None where the call ended well without one.
    """
    try:
        return await unless_gone(request, _next(messages))
    except BaseException:
        call.cancel()
        raise


async def ending_call(lines: AsyncIterator[bytes], call: Any) -> AsyncIterator[bytes]:
    """End a call with the response, however that ends.

    Args:
        lines: What is sent.
        call: The call that it comes from.

    Yields:
        The lines.
    """
    try:
        async for line in lines:
            yield line
    finally:
        call.cancel()


async def _json_lines(first: Message | None, messages: AsyncIterator[Message]) -> AsyncIterator[bytes]:
    try:
        if first is not None:
            yield to_json(first) + b"\n"
        async for message in messages:
            yield to_json(message) + b"\n"
    except grpc.aio.AioRpcError as error:
        yield b'{"error":%s}\n' % status_json(status_of_rpc(error)).encode()


async def _events(
    first: Message | None, messages: AsyncIterator[Message], heartbeat_seconds: float
) -> AsyncIterator[bytes]:
    try:
        number = 0
        if first is not None:
            number += 1
            yield event_of(first, number)
        async for message in with_heartbeats(messages, heartbeat_seconds):
            if message is None:
                yield HEARTBEAT
                continue
            number += 1
            yield event_of(message, number)
    except grpc.aio.AioRpcError as error:
        yield b"event: error\ndata: %s\n\n" % status_json(status_of_rpc(error)).encode()


def event_of(message: Message, number: int) -> bytes:
    """Write a message as an event.

    Args:
        message: The message.
        number: Its place in the stream from 1; the identifier of the event, so that a reader can tell what it has seen.

    Returns:
        The event; of a message that is one of several kinds (a oneof over its whole) it bears the kind's name, such as
        `textDelta`, and otherwise none.
    """
    oneofs = message.DESCRIPTOR.oneofs
    name = b""
    if len(oneofs) == 1 and len(oneofs[0].fields) == len(message.DESCRIPTOR.fields):
        kind = message.WhichOneof(oneofs[0].name)
        if kind is not None:
            name = b"event: %s\n" % message.DESCRIPTOR.fields_by_name[kind].json_name.encode()
    return b"id: %d\n%sdata: %s\n\n" % (number, name, to_json(message))


async def with_heartbeats(messages: AsyncIterator[Message], heartbeat_seconds: float) -> AsyncIterator[Message | None]:
    """Follow a stream, and say so where it is silent.

    Args:
        messages: The stream.
        heartbeat_seconds: Silence after which None comes.

    Yields:
        The messages, and None for each silence.
    """
    following: asyncio.Task[Message | None] | None = None
    try:
        while True:
            following = following or asyncio.ensure_future(_next(messages))
            # Not `wait_for`: a time-out must not take the read with it.
            done, _ = await asyncio.wait((following,), timeout=heartbeat_seconds)
            if not done:
                yield None
                continue
            message, following = following.result(), None
            if message is None:
                return
            yield message
    finally:
        if following is not None:
            following.cancel()


async def _next(messages: AsyncIterator[Message]) -> Message | None:
    return await anext(messages, None)
