"""What one caller may take of the gateway: calls a second, and streams at once.

The limits stand behind authentication, so their tables hold at most one entry a key; they are bounded all the same.
A quota per tenant is another `CallLimit` in the list that the module builds.
"""

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import grpc

from corpusmesh_core.errors import OverloadedError
from corpusmesh_core.tenancy import Identity
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.interceptor import Context, Handler, Interceptor

_MAX_TRACKED_CALLERS = 100_000
_STREAM_RETRY_SECONDS = 2.0


class CallLimit(Protocol):
    """Bounds what a caller takes."""

    @contextmanager
    def hold(self, identity: Identity, *, streaming: bool) -> Iterator[None]:
        """Hold what one call takes for as long as it runs.

        Args:
            identity: Who calls.
            streaming: Whether either side streams.

        Yields:
            Nothing; the call runs inside.

        Raises:
            OverloadedError: If the caller has taken all that it may.
        """
        ...


def caller_key(identity: Identity) -> str:
    """Name the caller that a limit counts for.

    Args:
        identity: Who calls.

    Returns:
        The API key, or tenant and user for one that came without.
    """
    return identity.key_id or f"{identity.tenant_id}/{identity.user_id}"


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at_seconds: float


class RequestRate:
    """A token bucket for every caller."""

    def __init__(self, requests_per_second: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Create full buckets.

        Args:
            requests_per_second: Tokens that flow in a second.
            burst: Tokens that a bucket holds.
            clock: Seconds that only grow.
        """
        self._rate = requests_per_second
        self._burst = float(burst)
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    @contextmanager
    def hold(self, identity: Identity, *, streaming: bool) -> Iterator[None]:  # noqa: ARG002 - a stream is one call
        """Take one token.

        Args:
            identity: Who calls.
            streaming: Not looked at: a stream is one call.

        Yields:
            Nothing.

        Raises:
            OverloadedError: If the bucket is empty; it says when the next token comes.
        """
        now = self._clock()
        name = caller_key(identity)
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = _Bucket(self._burst, now)
            if len(self._buckets) > _MAX_TRACKED_CALLERS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(name)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.filled_at_seconds) * self._rate)
        bucket.filled_at_seconds = now
        if bucket.tokens < 1:
            raise OverloadedError(
                "REQUEST_RATE_EXCEEDED",
                f"this API key makes more than {self._rate:g} calls a second; slow down",
                retry_delay_seconds=(1 - bucket.tokens) / self._rate,
                requests_per_second=f"{self._rate:g}",
            )
        bucket.tokens -= 1
        yield


class StreamSlots:
    """Streams at the same time, for every caller."""

    def __init__(self, max_streams: int) -> None:
        """Create the slots.

        Args:
            max_streams: Streams of one caller at the same time.
        """
        self._max_streams = max_streams
        self._open: dict[str, int] = {}

    @contextmanager
    def hold(self, identity: Identity, *, streaming: bool) -> Iterator[None]:
        """Hold a slot while a stream is open.

        Args:
            identity: Who calls.
            streaming: Whether either side streams; other calls hold nothing.

        Yields:
            Nothing.

        Raises:
            OverloadedError: If all slots of the caller are taken.
        """
        if not streaming:
            yield
            return
        name = caller_key(identity)
        if self._open.get(name, 0) >= self._max_streams:
            raise OverloadedError(
                "TOO_MANY_STREAMS",
                f"this API key has {self._max_streams} streams open already; end one or wait",
                retry_delay_seconds=_STREAM_RETRY_SECONDS,
                max_streams=self._max_streams,
            )
        self._open[name] = self._open.get(name, 0) + 1
        try:
            yield
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]


class LimitInterceptor(Interceptor):
    """Holds every limit around a call; stands behind the guard, which has found out who calls."""

    def __init__(self, limits: Sequence[CallLimit]) -> None:
        """Create the interceptor.

        Args:
            limits: In order; the first that refuses ends the call.
        """
        self._limits = tuple(limits)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Wrap the method's handler.

        Args:
            continuation: Gives the handler.
            handler_call_details: Method and metadata.

        Returns:
            The wrapped handler; that of a method outside of the contract (health, reflection) as it is.
        """
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method.startswith("/grpc."):
            return handler
        return self._wrap(handler)

    def _wrap(self, handler: Handler) -> Handler:
        coders = (handler.request_deserializer, handler.response_serializer)
        inner: Any
        if handler.response_streaming:
            inner = handler.stream_stream if handler.request_streaming else handler.unary_stream

            async def respond_stream(request: Any, context: Context) -> AsyncIterator[Any]:
                with self._hold(streaming=True):
                    responses = inner(request, context)
                    try:
                        async for response in responses:
                            yield response
                    finally:
                        await responses.aclose()

            if handler.request_streaming:
                return grpc.stream_stream_rpc_method_handler(respond_stream, *coders)
            return grpc.unary_stream_rpc_method_handler(respond_stream, *coders)
        streaming = handler.request_streaming
        inner = handler.stream_unary if streaming else handler.unary_unary

        async def respond(request: Any, context: Context) -> Any:
            with self._hold(streaming=streaming):
                return await inner(request, context)

        if streaming:
            return grpc.stream_unary_rpc_method_handler(respond, *coders)
        return grpc.unary_unary_rpc_method_handler(respond, *coders)

    def _hold(self, *, streaming: bool) -> ExitStack:
        identity = require_call().identity
        with ExitStack() as stack:
            for limit in self._limits:
                stack.enter_context(limit.hold(identity, streaming=streaming))
            return stack.pop_all()
