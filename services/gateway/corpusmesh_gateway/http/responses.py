"""Errors as `google.rpc.Status` JSON with the HTTP code that fits, and the headers of every response."""

import asyncio
import contextlib
import re
from collections.abc import Mapping
from urllib.parse import quote

import grpc
import grpc.aio
from google.protobuf import json_format
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corpusmesh_core.errors import CorpusMeshError
from corpusmesh_gateway.errors import STATUS_DETAILS_KEY, TooLargeError, trailing_pairs, transport_error
from corpusmesh_runtime.status import to_status

_HTTP_CODES: Mapping[int, int] = {
    code.value[0]: http_code
    for code, http_code in (
        (grpc.StatusCode.OK, 200),
        (grpc.StatusCode.CANCELLED, 499),
        (grpc.StatusCode.UNKNOWN, 500),
        (grpc.StatusCode.INVALID_ARGUMENT, 400),
        (grpc.StatusCode.DEADLINE_EXCEEDED, 504),
        (grpc.StatusCode.NOT_FOUND, 404),
        (grpc.StatusCode.ALREADY_EXISTS, 409),
        (grpc.StatusCode.PERMISSION_DENIED, 403),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, 429),
        (grpc.StatusCode.FAILED_PRECONDITION, 400),
        (grpc.StatusCode.ABORTED, 409),
        (grpc.StatusCode.OUT_OF_RANGE, 400),
        (grpc.StatusCode.UNIMPLEMENTED, 501),
        (grpc.StatusCode.INTERNAL, 500),
        (grpc.StatusCode.UNAVAILABLE, 503),
        (grpc.StatusCode.DATA_LOSS, 500),
        (grpc.StatusCode.UNAUTHENTICATED, 401),
    )
}
_TOO_LARGE_REASONS = frozenset({"UPLOAD_TOO_LARGE", "MESSAGE_TOO_LARGE", "BODY_TOO_LARGE"})
_SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
    (b"cache-control", b"no-store"),
)
_LINGER_SECONDS = 2.0
_MAX_LINGER_BYTES = 64 * 1024 * 1024
_MEDIA_TYPE = re.compile(r"[a-zA-Z0-9!#$&^_.+-]{1,64}/[a-zA-Z0-9!#$&^_.+-]{1,64}")


def status_of_rpc(error: grpc.aio.AioRpcError) -> Status:
    """Read the status of a failed call.

    Args:
        error: What the call raised.

    Returns:
        The status with its details; one made here where the transport failed.
    """
    for key, value in trailing_pairs(error):
        if key == STATUS_DETAILS_KEY and isinstance(value, bytes):
            return Status.FromString(value)
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return Status(code=error.code().value[0], message="this method is not open")
    return to_status(transport_error(error, "gateway"))


def status_response(status: Status, *, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with an error.

    Args:
        status: The status.
        headers: Further headers.

    Returns:
        JSON of the status; with `Retry-After` where trying again later can help.
    """
    code = _HTTP_CODES.get(status.code, 500)
    extra = dict(headers or {})
    for detail in status.details:
        retry, info = error_details_pb2.RetryInfo(), error_details_pb2.ErrorInfo()
        if detail.Unpack(retry):
            milliseconds = retry.retry_delay.ToMilliseconds()
            extra["Retry-After"] = str(max(1, -(-milliseconds // 1000)))
        elif detail.Unpack(info) and info.reason in _TOO_LARGE_REASONS:
            code = 413
    if code == 401:
        extra["WWW-Authenticate"] = 'Bearer realm="corpusmesh"'
    if code in (401, 413):
        # The rest of a refused body is not read.
        extra["Connection"] = "close"
    return Response(status_json(status), status_code=code, headers=extra, media_type="application/json")


def status_json(status: Status) -> str:
    """Render a status.

    Args:
        status: The status.

    Returns:
        JSON on one line.
    """
    try:
        return json_format.MessageToJson(status, indent=None, ensure_ascii=False)
    except TypeError:
        # A detail of a kind that this process does not know cannot be rendered.
        bare = Status(code=status.code, message=status.message)
        return json_format.MessageToJson(bare, indent=None, ensure_ascii=False)


def error_response(
    error: CorpusMeshError, *, request_id: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    """Answer with one of our errors.

    Args:
        error: The error.
        request_id: Names the request in the details.
        headers: Further headers.

    Returns:
        The response.
    """
    response = status_response(to_status(error, request_id=request_id), headers=headers)
    if isinstance(error, TooLargeError):
        response.status_code = 413
    return response


def attachment_headers(display_name: str, media_type: str) -> dict[str, str]:
    """Give the headers that make a browser save an original and never show or run it.

    Args:
        display_name: File name as its uploader gave it; data only.
        media_type: As stored.

    Returns:
        Headers (RFC 6266, RFC 8187); a media type that is none becomes `application/octet-stream`.
    """
    plain = re.sub(r"[^A-Za-z0-9._ -]", "_", display_name)[:150] or "original"
    encoded = quote(display_name[:300], safe="")
    return {
        "Content-Type": media_type if _MEDIA_TYPE.fullmatch(media_type) else "application/octet-stream",
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}",
    }


class SecurityHeaders:
    """Adds headers that take away what an answer to a program does not need from a browser."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application.

        Args:
            app: The application.
        """
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request.

        Args:
            scope: What is asked.
            receive: Gives the body.
            send: Takes the answer.
        """

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.setdefault("headers", [])
                present = {name.lower() for name, _ in headers}
                headers.extend(item for item in _SECURITY_HEADERS if item[0] not in present)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class LingeringClose:
    """Takes the rest of a refused body for a while before the connection closes.

    A connection that closes on unread bytes is reset, and the reset can overtake the answer: the caller would see a
    broken connection instead of the reason.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application.

        Args:
            app: The application.
        """
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request.

        Args:
            scope: What is asked.
            receive: Gives the body.
            send: Takes the answer.
        """
        closing = False
        body_taken = False

        async def receive_and_note() -> Message:
            nonlocal body_taken
            message = await receive()
            body_taken = body_taken or not message.get("more_body")
            return message

        async def send_and_linger(message: Message) -> None:
            nonlocal closing
            if message["type"] == "http.response.start":
                closing = (b"connection", b"close") in message.get("headers", ())
            if message["type"] != "http.response.body" or not closing or body_taken or message.get("more_body"):
                await send(message)
                return
            await send({**message, "more_body": True})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LINGER_SECONDS):
                    await _drain(receive)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self._app(scope, receive_and_note, send_and_linger)


async def _drain(receive: Receive) -> None:
    drained_bytes = 0
    while drained_bytes < _MAX_LINGER_BYTES:
        message = await receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            return
        drained_bytes += len(message.get("body", b""))
