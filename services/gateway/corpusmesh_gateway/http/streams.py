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
        `text/event-stream` (an event a message, `error` events for errors) where asked for, else JSON lines (a message
        a line; a line with the key `error` ends a stream that failed).
    """
    messages = aiter(call)
    first = await _first(messages, call, request)
    as_events = EVENT_STREAM in request.headers.get("accept", "")
    lines = _events(first, messages, heartbeat_seconds) if as_events else _json_lines(first, messages)
    return StreamingResponse(
        _ended(lines, call),
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
    first = await _first(messages, call, request)
    if first is None:
        return Response(b"", headers={**headers, **attachment_headers("", "")})

    return StreamingResponse(
        _ended(_pieces(first, messages), call),
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
    first = await _first(messages, call, request)
    if first is None or first.media_type not in SHOWN_MEDIA_TYPES:
        return Response(b"", status_code=502, headers=headers)

    return StreamingResponse(
        _ended(_pieces(first, messages), call),
        media_type=first.media_type,
        headers={**headers, "Content-Length": str(first.size_bytes), "Content-Disposition": "inline"},
    )


async def _pieces(first: Any, messages: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    yield first.data
    async for message in messages:
        yield message.data


async def _first(messages: AsyncIterator[Any], call: Any, request: Request) -> Any:
    try:
        return await unless_gone(request, _next(messages))
    except BaseException:
        call.cancel()
        raise


async def _ended(lines: AsyncIterator[bytes], call: Any) -> AsyncIterator[bytes]:
    """End the call with the response, however that ends."""
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
    following: asyncio.Task[Message | None] | None = None
    try:
        if first is not None:
            yield b"data: %s\n\n" % to_json(first)
        while True:
            following = following or asyncio.ensure_future(_next(messages))
            # Not `wait_for`: a time-out must not take the read with it.
            done, _ = await asyncio.wait((following,), timeout=heartbeat_seconds)
            if not done:
                yield b": still here\n\n"
                continue
            message, following = following.result(), None
            if message is None:
                return
            yield b"data: %s\n\n" % to_json(message)
    except grpc.aio.AioRpcError as error:
        yield b"event: error\ndata: %s\n\n" % status_json(status_of_rpc(error)).encode()
    finally:
        if following is not None:
            following.cancel()


async def _next(messages: AsyncIterator[Message]) -> Message | None:
    return await anext(messages, None)
