"""Calls the gateway's own gRPC port, so that HTTP passes the same guard, limits and proxy as gRPC does."""

import uuid
from typing import Any

import grpc.aio
from google.protobuf import message_factory
from google.protobuf.message import Message
from starlette.requests import Request

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_gateway.config import HttpSettings
from corpusmesh_gateway.http.routes import Binding
from corpusmesh_runtime.interceptor import REQUEST_ID_METADATA_KEY

_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
_PASSED_HEADERS = ("authorization", "traceparent", "tracestate")
REQUEST_ID_HEADER = "x-request-id"
TIMEOUT_HEADER = "x-timeout-seconds"


class Loopback:
    """The way from HTTP to the gateway's gRPC port."""

    def __init__(self, settings: HttpSettings) -> None:
        """Create the loopback without a connection.

        Args:
            settings: Deadlines.
        """
        self._settings = settings
        self._channel: grpc.aio.Channel | None = None

    def connect(self, port: int) -> None:
        """Point it at the gRPC port.

        Args:
            port: The port.
        """
        self._channel = grpc.aio.insecure_channel(
            f"127.0.0.1:{port}",
            options=[
                ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
                ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.enable_http_proxy", 0),
            ],
        )

    async def close(self) -> None:
        """End the connection."""
        if self._channel is not None:
            await self._channel.close(grace=None)
            self._channel = None

    def call(self, binding: Binding, request: Message | None, http_request: Request) -> Any:
        """Begin a call with the caller's own credentials.

        Args:
            binding: Names the method.
            request: The request; None where the caller streams it by `write_message`.
            http_request: Gives credentials, request id, trace and deadline.

        Returns:
            The call, of the method's kind.
        """
        if self._channel is None:
            raise RuntimeError("the loopback is not connected")
        method = binding.method
        open_stub = {
            (False, False): self._channel.unary_unary,
            (False, True): self._channel.unary_stream,
            (True, False): self._channel.stream_unary,
            (True, True): self._channel.stream_stream,
        }[method.client_streaming, method.server_streaming]
        response_type = message_factory.GetMessageClass(method.output_type)
        stub: Any = open_stub(
            binding.full_method,
            request_serializer=None if method.client_streaming else _serialize,
            response_deserializer=response_type.FromString,
        )
        metadata = [(key, http_request.headers[key]) for key in _PASSED_HEADERS if key in http_request.headers]
        metadata.append((REQUEST_ID_METADATA_KEY, request_id_of(http_request)))
        streaming = method.client_streaming or method.server_streaming
        timeout = timeout_of(http_request, None if streaming else self._settings.default_deadline_seconds)
        return stub(request, metadata=tuple(metadata), timeout=timeout)


def request_id_of(request: Request) -> str:
    """Give the identifier of a request: the caller's if it is usable, else a new one, the same every time.

    Args:
        request: The request.

    Returns:
        The identifier.
    """
    known = getattr(request.state, "request_id", None)
    if isinstance(known, str):
        return known
    given = request.headers.get(REQUEST_ID_HEADER, "")
    usable = 8 <= len(given) <= 64 and given.isascii() and given.isprintable()
    request.state.request_id = given if usable else uuid.uuid4().hex
    return str(request.state.request_id)


def timeout_of(request: Request, default_seconds: float | None) -> float | None:
    """Read how long the caller waits.

    Args:
        request: The request.
        default_seconds: What holds where it does not say.

    Returns:
        Seconds, or None for what the gRPC port grants.

    Raises:
        InvalidArgumentError: If the header is no positive number.
    """
    given = request.headers.get(TIMEOUT_HEADER)
    if given is None:
        return default_seconds
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    # Also refuses "nan", for which every comparison is false.
    if not 0 < seconds <= 86_400:
        raise InvalidArgumentError("TIMEOUT_INVALID", f"{TIMEOUT_HEADER} must be a number of seconds above 0")
    return seconds


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()
