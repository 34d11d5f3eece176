"""Forwards every method that members may call to the service that owns it, byte for byte.

Nothing is deserialised. The signed identity, the request id, the trace and the rest of the deadline go with each
call; no other metadata of the caller does. Errors with their details and trailing metadata come back untouched. Each
side waits for the other (flow control of HTTP/2), and the end of one side ends the other.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import grpc
import grpc.aio
from google.protobuf import descriptor_pool

from corpusmesh_core.errors import CorpusMeshError, DeadlineExceededError, InternalError
from corpusmesh_gateway.errors import TooLargeError, has_details, trailing_pairs, transport_error
from corpusmesh_runtime.channel import call_metadata
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.identity import IdentitySigner
from corpusmesh_runtime.interceptor import Context, Handler
from corpusmesh_runtime.policy import MethodRule
from corpusmesh_runtime.writing import end_messages, write_message

if TYPE_CHECKING:
    GenericHandler: TypeAlias = grpc.GenericRpcHandler[Any, Any]
else:  # The class is generic in its stub alone.
    GenericHandler = grpc.GenericRpcHandler


@dataclass(frozen=True, slots=True)
class Upstream:
    """A service of the mesh behind the gateway.

    Attributes:
        name: Its name, for messages, such as "retrieve".
        channel: Leads to it; made by `open_bare_channel`.
        service_names: Full names of the gRPC services that it owns.
    """

    name: str
    channel: grpc.aio.Channel
    service_names: Sequence[str]


@dataclass(frozen=True, slots=True)
class StreamBounds:
    """Bounds of what a caller streams.

    Attributes:
        max_bytes: Bytes of all messages together.
        idle_timeout_seconds: Longest silence between two messages.
    """

    max_bytes: int
    idle_timeout_seconds: float


class MemberProxy(GenericHandler):
    """Offers the members' methods of the services behind the gateway; all other names are unknown."""

    def __init__(
        self,
        upstreams: Iterable[Upstream],
        rules: Mapping[str, MethodRule],
        signer: IdentitySigner,
        bounds: StreamBounds,
    ) -> None:
        """Create the proxy.

        Args:
            upstreams: The services.
            rules: Rules of their methods; one that is for services is not forwarded.
            signer: Signs the caller's identity.
            bounds: Bounds of what callers stream.
        """
        pool = descriptor_pool.Default()
        self._handlers: dict[str, Handler] = {}
        for upstream in upstreams:
            for service_name in upstream.service_names:
                for method in pool.FindServiceByName(service_name).methods:
                    full_method = f"/{service_name}/{method.name}"
                    if rules[full_method].for_services:
                        continue
                    forwarder = _Forwarder(upstream, full_method, signer, bounds)
                    kind = (method.client_streaming, method.server_streaming)
                    self._handlers[full_method] = forwarder.handler(*kind)

    @property
    def full_methods(self) -> frozenset[str]:
        """The methods that are forwarded, as `/package.Service/Method`."""
        return frozenset(self._handlers)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        """Give the handler of a method.

        Args:
            handler_call_details: Names the method.

        Returns:
            The handler, or None where the method is not forwarded.
        """
        return self._handlers.get(handler_call_details.method)


class _Forwarder:
    """Forwards the calls of one method."""

    def __init__(self, upstream: Upstream, full_method: str, signer: IdentitySigner, bounds: StreamBounds) -> None:
        self._service = upstream.name
        self._channel = upstream.channel
        self._method = full_method
        self._signer = signer
        self._bounds = bounds
        self._stub: Any = None

    def handler(self, client_streaming: bool, server_streaming: bool) -> Handler:
        # Without coders gRPC hands over the bytes of the messages as they are.
        if client_streaming and server_streaming:
            self._stub = self._channel.stream_stream(self._method, None, None)
            return grpc.stream_stream_rpc_method_handler(self._stream_stream)
        if client_streaming:
            self._stub = self._channel.stream_unary(self._method, None, None)
            return grpc.stream_unary_rpc_method_handler(self._stream_unary)
        if server_streaming:
            self._stub = self._channel.unary_stream(self._method, None, None)
            return grpc.unary_stream_rpc_method_handler(self._unary_stream)
        self._stub = self._channel.unary_unary(self._method, None, None)
        return grpc.unary_unary_rpc_method_handler(self._unary_unary)

    def _options(self) -> dict[str, Any]:
        call = require_call()
        metadata = tuple(call_metadata(self._signer, call.identity).items())
        return {"timeout": call.remaining_seconds(), "metadata": metadata}

    async def _unary_unary(self, request: bytes, context: Context) -> bytes:
        call = self._stub(request, **self._options())
        try:
            return await self._single_response(call, context)
        except grpc.aio.AioRpcError as error:
            await self._fail(error, context)

    async def _stream_unary(self, requests: AsyncIterator[bytes], context: Context) -> bytes:
        call = self._stub(None, **self._options())
        try:
            async with _pumped(requests, call, self._bounds):
                return await self._single_response(call, context)
        except grpc.aio.AioRpcError as error:
            await self._fail(error, context)

    async def _unary_stream(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        call = self._stub(request, **self._options())
        try:
            async for response in self._responses(call, context):
                yield response
        except grpc.aio.AioRpcError as error:
            await self._fail(error, context)
        finally:
            call.cancel()

    async def _stream_stream(self, requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        call = self._stub(None, **self._options())
        try:
            async with _pumped(requests, call, self._bounds):
                async for response in self._responses(call, context):
                    yield response
        except grpc.aio.AioRpcError as error:
            await self._fail(error, context)

    async def _single_response(self, call: Any, context: Context) -> bytes:
        response: bytes = await call
        trailing = await call.trailing_metadata()
        if trailing:
            context.set_trailing_metadata(tuple(trailing))
        return response

    async def _responses(self, call: Any, context: Context) -> AsyncIterator[bytes]:
        initial = await call.initial_metadata()
        if initial:
            await context.send_initial_metadata(tuple(initial))
        async for response in call:
            yield response
        trailing = await call.trailing_metadata()
        if trailing:
            context.set_trailing_metadata(tuple(trailing))

    async def _fail(self, error: grpc.aio.AioRpcError, context: Context) -> NoReturn:
        if not has_details(error):
            raise transport_error(error, self._service) from error
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            # It refused the gateway, not the caller, whose key is good.
            raise InternalError("IDENTITY_REFUSED", f"{self._service} refused the identity: {error.details()}")
        await context.abort(error.code(), error.details() or "", trailing_pairs(error))
        raise AssertionError("abort always raises")


@asynccontextmanager
async def _pumped(requests: AsyncIterator[bytes], call: Any, bounds: StreamBounds) -> AsyncIterator[None]:
    """Send a caller's messages on while the responses are awaited inside.

    A bound that the caller breaks ends the call and is raised from here; any other end of the pump has its cause in
    the call itself, whose error is the better one.
    """
    pump = asyncio.create_task(_pump(requests, call, bounds))
    pump.add_done_callback(lambda task: None if task.cancelled() or task.exception() is None else call.cancel())
    try:
        yield
    except (asyncio.CancelledError, grpc.aio.AioRpcError):
        broken_bound = pump.exception() if pump.done() and not pump.cancelled() else None
        if isinstance(broken_bound, CorpusMeshError):
            raise broken_bound from None
        raise
    finally:
        pump.cancel()
        await asyncio.wait((pump,))
        call.cancel()


async def _pump(requests: AsyncIterator[bytes], call: Any, bounds: StreamBounds) -> None:
    taken_bytes = 0
    iterator = aiter(requests)
    while True:
        try:
            async with asyncio.timeout(bounds.idle_timeout_seconds):
                message = await anext(iterator)
        except StopAsyncIteration:
            break
        except TimeoutError:
            raise DeadlineExceededError(
                "STREAM_IDLE",
                f"nothing was sent for {bounds.idle_timeout_seconds:g} seconds; send the stream again",
                idle_timeout_seconds=f"{bounds.idle_timeout_seconds:g}",
            ) from None
        taken_bytes += len(message)
        if taken_bytes > bounds.max_bytes:
            raise TooLargeError(
                "UPLOAD_TOO_LARGE",
                f"one stream may carry {bounds.max_bytes} bytes; send the documents in several",
                max_bytes=bounds.max_bytes,
            )
        if not await write_message(call, message):
            return
    await end_messages(call)
