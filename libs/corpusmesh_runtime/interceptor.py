"""The one interceptor in front of every handler: identity, policy, deadline, errors, metrics and traces.

Default deny: a method that is in no rule is refused, and a server whose services have methods without a policy does
not start. `except Exception` stands here so that no internal text ever reaches a caller.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import Message
from opentelemetry.trace import SpanKind

from corpusmesh_core.errors import (
    CorpusMeshError,
    DeadlineExceededError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
    first_cause,
)
from corpusmesh_core.tenancy import Identity
from corpusmesh_runtime.config import ServerSettings
from corpusmesh_runtime.context import CallContext, current_call
from corpusmesh_runtime.logging import get_logger
from corpusmesh_runtime.metrics import RPC_DENIED_TOTAL, RPC_DURATION_SECONDS, RPC_IN_FLIGHT
from corpusmesh_runtime.policy import MethodRule
from corpusmesh_runtime.status import code_of, to_status
from corpusmesh_runtime.tracing import incoming_context, tracer

if TYPE_CHECKING:
    Handler: TypeAlias = grpc.RpcMethodHandler[Any, Any]
    Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
    Interceptor: TypeAlias = grpc.aio.ServerInterceptor[Any, Any]
else:  # The classes are generic in their stubs alone.
    Handler = grpc.RpcMethodHandler
    Context = grpc.aio.ServicerContext
    Interceptor = grpc.aio.ServerInterceptor

REQUEST_ID_METADATA_KEY = "corpusmesh-request-id"
_OPEN_PREFIXES = (
    "/grpc.health.v1.Health/",
    "/grpc.reflection.v1alpha.ServerReflection/",
    "/grpc.reflection.v1.ServerReflection/",
)
_DETAILS_METADATA_KEY = "grpc-status-details-bin"
_OBSERVER_TIMEOUT_SECONDS = 2.0
_END_DOUBT_SECONDS = 0.05
_log = get_logger(__name__)


class Authenticator(Protocol):
    """Finds out who calls."""

    async def authenticate(self, metadata: Mapping[str, str]) -> Identity:
        """Identify the caller.

        Args:
            metadata: The call's metadata with lower-case keys.

        Returns:
            The caller.

        Raises:
            UnauthenticatedError: If it is not known.
        """
        ...


class KnowledgeBaseGuard(Protocol):
    """Decides who sees a knowledge base."""

    async def check(self, identity: Identity, knowledge_base_ids: Sequence[str], *, for_write: bool) -> None:
        """Check that a caller may use knowledge bases.

        Args:
            identity: Who calls.
            knowledge_base_ids: What the request names.
            for_write: Whether the method changes something.

        Raises:
            NotFoundError: If one does not exist or is hidden from the caller: the same error for both.
        """
        ...


class DenialObserver(Protocol):
    """Hears of calls that were refused, for the audit log."""

    async def denied(self, identity: Identity | None, method: str, reason: str) -> None:
        """Note a refused call.

        Args:
            identity: Who called, if that was found out.
            method: `/package.Service/Method`.
            reason: The error's reason.
        """
        ...


class GuardInterceptor(Interceptor):
    """Stands in front of every handler of a server."""

    def __init__(
        self,
        rules: Mapping[str, MethodRule],
        authenticator: Authenticator,
        guard: KnowledgeBaseGuard | None,
        settings: ServerSettings,
        observer: DenialObserver | None = None,
    ) -> None:
        """Create the interceptor.

        Args:
            rules: Rules by `/package.Service/Method`; a method that is not among them is refused.
            authenticator: Finds out who calls.
            guard: Checks the knowledge bases that a request names; None where the owning service does.
            settings: Bounds for deadlines.
            observer: Hears of refused calls.
        """
        self._rules = rules
        self._authenticator = authenticator
        self._guard = guard
        self._settings = settings
        self._observer = observer

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
            The wrapped handler.
        """
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or method.startswith(_OPEN_PREFIXES):
            return handler
        rule = self._rules.get(method)
        metadata = {
            key.lower(): value
            for key, value in handler_call_details.invocation_metadata or ()
            if isinstance(value, str)
        }
        call = _GuardedCall(self, method, rule, metadata)
        return call.wrap(handler)


class _GuardedCall:
    """One call on its way through the guard."""

    def __init__(
        self, owner: GuardInterceptor, method: str, rule: MethodRule | None, metadata: Mapping[str, str]
    ) -> None:
        self._owner = owner
        self._method = method
        self._rule = rule
        self._metadata = metadata
        given = metadata.get(REQUEST_ID_METADATA_KEY, "")
        usable = 8 <= len(given) <= 64 and given.isascii() and given.isprintable()
        self._request_id = given if usable else uuid.uuid4().hex
        self._identity: Identity | None = None

    def wrap(self, handler: Handler) -> Handler:
        coders = (handler.request_deserializer, handler.response_serializer)
        inner: Any
        if handler.response_streaming:
            inner = handler.stream_stream if handler.request_streaming else handler.unary_stream

            async def respond_stream(request: Any, context: Context) -> AsyncIterator[Any]:
                async for response in self._run_stream(inner, request, context, handler.request_streaming):
                    yield response

            if handler.request_streaming:
                return grpc.stream_stream_rpc_method_handler(respond_stream, *coders)
            return grpc.unary_stream_rpc_method_handler(respond_stream, *coders)
        inner = handler.stream_unary if handler.request_streaming else handler.unary_unary

        async def respond(request: Any, context: Context) -> Any:
            return await self._run_unary(inner, request, context, handler.request_streaming)

        if handler.request_streaming:
            return grpc.stream_unary_rpc_method_handler(respond, *coders)
        return grpc.unary_unary_rpc_method_handler(respond, *coders)

    async def _run_unary(self, inner: Any, request: Any, context: Context, request_streaming: bool) -> Any:
        started = time.perf_counter()
        code = "OK"
        RPC_IN_FLIGHT.labels(self._method).inc()
        try:
            with tracer().start_as_current_span(
                self._method, context=incoming_context(self._metadata), kind=SpanKind.SERVER
            ):
                call, request = await self._admit(request, context, request_streaming, streaming=request_streaming)
                async with asyncio.timeout(call.remaining_seconds()):
                    return await inner(request, context)
        except grpc.aio.AbortError:
            # The handler has answered by itself, with a status that came from another service.
            code = _code_name(context)
            raise
        except Exception as error:  # noqa: BLE001 - the one place that turns any fault into a status
            known = _known(error)
            code = code_of(known).name
            await self._fail(known, context)
        except asyncio.CancelledError:
            code = "CANCELLED"
            raise
        finally:
            self._end(code, time.perf_counter() - started)

    async def _run_stream(
        self, inner: Any, request: Any, context: Context, request_streaming: bool
    ) -> AsyncIterator[Any]:
        started = time.perf_counter()
        code = "OK"
        RPC_IN_FLIGHT.labels(self._method).inc()
        try:
            with tracer().start_as_current_span(
                self._method, context=incoming_context(self._metadata), kind=SpanKind.SERVER
            ):
                call, request = await self._admit(request, context, request_streaming, streaming=True)
                responses = inner(request, context)
                try:
                    while True:
                        async with asyncio.timeout(call.remaining_seconds()):
                            response = await anext(responses)
                        yield response
                except StopAsyncIteration:
                    pass
                finally:
                    await responses.aclose()
        except grpc.aio.AbortError:
            code = _code_name(context)
            raise
        except Exception as error:  # noqa: BLE001 - the one place that turns any fault into a status
            known = _known(error)
            code = code_of(known).name
            await self._fail(known, context)
        except (asyncio.CancelledError, GeneratorExit):
            code = "CANCELLED"
            raise
        finally:
            self._end(code, time.perf_counter() - started)

    def _end(self, code: str, duration_seconds: float) -> None:
        """Count a call and leave its trace in the log: its request id is the same in every service it went through."""
        RPC_IN_FLIGHT.labels(self._method).dec()
        RPC_DURATION_SECONDS.labels(self._method, code).observe(duration_seconds)
        _log.info(
            "call ended",
            method=self._method,
            code=code,
            duration_seconds=round(duration_seconds, 4),
            request_id=self._request_id,
            tenant_id=self._identity.tenant_id if self._identity is not None else "",
        )

    async def _admit(
        self, request: Any, context: Context, request_streaming: bool, *, streaming: bool
    ) -> tuple[CallContext, Any]:
        if self._rule is None:
            raise PermissionDeniedError("METHOD_NOT_OPEN", "this method is not open")
        if request_streaming:
            request = _with_sure_end(request)
        self._identity = await self._owner._authenticator.authenticate(self._metadata)
        self._rule.authorize(self._identity)
        call = CallContext(self._identity, self._request_id, self._deadline(context, streaming=streaming))
        current_call.set(call)
        guard = self._owner._guard
        if guard is not None and self._rule.knowledge_base_path:
            first = request
            if request_streaming:
                first, request = await _peek(request)
            if isinstance(first, Message):
                identifiers = self._rule.knowledge_base_ids(first)
                await guard.check(self._identity, identifiers, for_write=self._rule.mutating)
        return call, request

    def _deadline(self, context: Context, *, streaming: bool) -> float:
        settings = self._owner._settings
        given = context.time_remaining()
        default = settings.max_deadline_seconds if streaming else settings.default_deadline_seconds
        # gRPC reports a missing deadline as an enormous one.
        seconds = default if given is None or given > settings.max_deadline_seconds else max(given, 0.0)
        return time.monotonic() + seconds

    async def _fail(self, error: Exception, context: Context) -> None:
        code = code_of(error)
        if code is grpc.StatusCode.INTERNAL:
            _log.error("call failed", method=self._method, request_id=self._request_id, exc_info=error)
        elif isinstance(error, (PermissionDeniedError, UnauthenticatedError, NotFoundError)):
            RPC_DENIED_TOTAL.labels(error.reason).inc()
            await self._tell_observer(error.reason)
        elif isinstance(error, CorpusMeshError):
            _log.info("call refused", method=self._method, request_id=self._request_id, reason=error.reason)
        status = to_status(error, request_id=self._request_id)
        details = ((_DETAILS_METADATA_KEY, status.SerializeToString()),)
        await context.abort(code, status.message, trailing_metadata=details)

    async def _tell_observer(self, reason: str) -> None:
        if self._owner._observer is None:
            return
        try:
            async with asyncio.timeout(_OBSERVER_TIMEOUT_SECONDS):
                await self._owner._observer.denied(self._identity, self._method, reason)
        except Exception as error:  # noqa: BLE001 - the refusal must reach the caller as what it is
            _log.error("refused call not noted", method=self._method, request_id=self._request_id, exc_info=error)


def _known(error: Exception) -> Exception:
    error = first_cause(error)
    if isinstance(error, TimeoutError):
        return DeadlineExceededError("DEADLINE_EXCEEDED", "the time that the caller gave is over")
    return error


def _code_name(context: Context) -> str:
    """Name the code that a handler has set; gRPC keeps it as a number."""
    given = context.code()
    return next((code.name for code in grpc.StatusCode if given in (code, code.value[0])), "UNKNOWN")


async def _with_sure_end(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Pass messages on, and the end of the stream only when it is one.

    gRPC ends the messages of a call that broke off just as those of one whose caller has sent all; the cancellation
    comes a moment later (measured: 5 of 100 cancelled uploads were taken as whole). So the end waits for it.
    """
    async for message in requests:
        yield message
    await asyncio.sleep(_END_DOUBT_SECONDS)


async def _peek(requests: AsyncIterator[Any]) -> tuple[Any, AsyncIterator[Any]]:
    """Take the first message of a stream without losing it."""
    iterator = aiter(requests)
    try:
        first = await anext(iterator)
    except StopAsyncIteration:
        return None, iterator

    async def chained() -> AsyncIterator[Any]:
        yield first
        async for message in iterator:
            yield message

    return first, chained()
