"""Channels to other services: round robin, keepalive, retries of idempotent calls, and who and why in the metadata."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import grpc
import grpc.aio

from corpusmesh_core.tenancy import Identity
from corpusmesh_runtime.context import current_call
from corpusmesh_runtime.identity import IDENTITY_METADATA_KEY, IdentitySigner
from corpusmesh_runtime.interceptor import REQUEST_ID_METADATA_KEY
from corpusmesh_runtime.policy import MethodRule
from corpusmesh_runtime.tracing import outgoing_headers

if TYPE_CHECKING:
    UnaryUnary: TypeAlias = grpc.aio.UnaryUnaryClientInterceptor[Any, Any]
    UnaryStream: TypeAlias = grpc.aio.UnaryStreamClientInterceptor[Any, Any]
    StreamUnary: TypeAlias = grpc.aio.StreamUnaryClientInterceptor[Any, Any]
    StreamStream: TypeAlias = grpc.aio.StreamStreamClientInterceptor[Any, Any]
else:  # The classes are generic in their stubs alone.
    UnaryUnary = grpc.aio.UnaryUnaryClientInterceptor
    UnaryStream = grpc.aio.UnaryStreamClientInterceptor
    StreamUnary = grpc.aio.StreamUnaryClientInterceptor
    StreamStream = grpc.aio.StreamStreamClientInterceptor

_MAX_MESSAGE_BYTES = 64 * 1024 * 1024


def service_config(rules: Iterable[MethodRule]) -> str:
    """Write the gRPC service config: round robin, and retries for idempotent methods alone.

    Args:
        rules: The methods.

    Returns:
        JSON for the channel option `grpc.service_config`.
    """
    names = []
    for rule in rules:
        if rule.idempotent:
            _, service, method = rule.full_method.split("/")
            names.append({"service": service, "method": method})
    retry_policy = {
        "maxAttempts": 4,
        "initialBackoff": "0.1s",
        "maxBackoff": "2s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    config = {
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [{"name": names, "retryPolicy": retry_policy}] if names else [],
    }
    return json.dumps(config)


def open_channel(
    address: str, *, rules: Iterable[MethodRule], signer: IdentitySigner, identity: Callable[[], Identity]
) -> grpc.aio.Channel:
    """Open a channel to a service of the mesh.

    Args:
        address: `host:port`, or `dns:///name:port`.
        rules: Methods that it offers, for the retries.
        signer: Signs the identity of every call.
        identity: Tells for whom a call is made.

    Returns:
        The channel; it connects when it is used.
    """
    outgoing = _Outgoing(signer, identity)
    return open_bare_channel(
        address,
        rules=rules,
        interceptors=[_UnaryUnary(outgoing), _UnaryStream(outgoing), _StreamUnary(outgoing), _StreamStream(outgoing)],
    )


def open_bare_channel(
    address: str, *, rules: Iterable[MethodRule], interceptors: Sequence[object] = ()
) -> grpc.aio.Channel:
    """Open a channel whose user gives `call_metadata` and the timeout with every call.

    Args:
        address: `host:port`, or `dns:///name:port`.
        rules: Methods that it offers, for the retries.
        interceptors: In order of the call.

    Returns:
        The channel; it connects when it is used.
    """
    return grpc.aio.insecure_channel(
        address,
        options=[
            ("grpc.service_config", service_config(rules)),
            ("grpc.enable_retries", 1),
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 3_000),
            # A pod that leaves must be noticed within seconds, not after gRPC's default of 30.
            ("grpc.dns_min_time_between_resolutions_ms", 5_000),
        ],
        interceptors=cast(Any, list(interceptors)),
    )


def call_metadata(signer: IdentitySigner, identity: Identity) -> dict[str, str]:
    """Give the metadata of a call to another service: for whom, which request, which trace.

    Args:
        signer: Signs the identity.
        identity: For whom the call is made.

    Returns:
        Keys and values.
    """
    metadata = {IDENTITY_METADATA_KEY: signer.sign(identity), **outgoing_headers()}
    call = current_call.get()
    if call is not None:
        metadata[REQUEST_ID_METADATA_KEY] = call.request_id
    return metadata


def caller_identity() -> Identity:
    """Give the identity of the call that is being handled, to pass it on."""
    call = current_call.get()
    if call is None:
        raise RuntimeError("no call is being handled")
    return call.identity


class _Outgoing:
    def __init__(self, signer: IdentitySigner, identity: Callable[[], Identity]) -> None:
        self._signer = signer
        self._identity = identity

    def details(self, details: grpc.aio.ClientCallDetails) -> grpc.aio.ClientCallDetails:
        metadata = grpc.aio.Metadata(*(details.metadata or ()))
        for key, value in call_metadata(self._signer, self._identity()).items():
            metadata[key] = value
        call = current_call.get()
        timeout = details.timeout
        if call is not None:
            remaining = call.remaining_seconds()
            timeout = remaining if timeout is None else min(timeout, remaining)
        return grpc.aio.ClientCallDetails(
            method=details.method,
            timeout=timeout,
            metadata=metadata,
            credentials=details.credentials,
            wait_for_ready=details.wait_for_ready,
        )


class _UnaryUnary(UnaryUnary):
    def __init__(self, outgoing: _Outgoing) -> None:
        self._outgoing = outgoing

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await continuation(self._outgoing.details(client_call_details), request)


class _UnaryStream(UnaryStream):
    def __init__(self, outgoing: _Outgoing) -> None:
        self._outgoing = outgoing

    async def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await continuation(self._outgoing.details(client_call_details), request)


class _StreamUnary(StreamUnary):
    def __init__(self, outgoing: _Outgoing) -> None:
        self._outgoing = outgoing

    async def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return await continuation(self._outgoing.details(client_call_details), request_iterator)


class _StreamStream(StreamStream):
    def __init__(self, outgoing: _Outgoing) -> None:
        self._outgoing = outgoing

    async def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return await continuation(self._outgoing.details(client_call_details), request_iterator)
