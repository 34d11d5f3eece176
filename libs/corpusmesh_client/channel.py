"""How a client connects: address, key, TLS, retries by service config, keepalive."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import grpc.aio
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions

from corpusmesh.gateway.v1 import admin_service_pb2
from corpusmesh.ingest.v1 import (
    document_service_pb2,
    knowledge_base_service_pb2,
    run_service_pb2,
    source_service_pb2,
)
from corpusmesh.retrieve.v1 import (
    answer_service_pb2,
    conversation_service_pb2,
    evaluation_service_pb2,
    ledger_service_pb2,
    research_service_pb2,
    retrieval_service_pb2,
    vocabulary_service_pb2,
)
from corpusmesh_core.errors import InvalidArgumentError

_FILES: tuple[FileDescriptor, ...] = (
    admin_service_pb2.DESCRIPTOR,
    document_service_pb2.DESCRIPTOR,
    knowledge_base_service_pb2.DESCRIPTOR,
    run_service_pb2.DESCRIPTOR,
    source_service_pb2.DESCRIPTOR,
    answer_service_pb2.DESCRIPTOR,
    conversation_service_pb2.DESCRIPTOR,
    evaluation_service_pb2.DESCRIPTOR,
    ledger_service_pb2.DESCRIPTOR,
    research_service_pb2.DESCRIPTOR,
    retrieval_service_pb2.DESCRIPTOR,
    vocabulary_service_pb2.DESCRIPTOR,
)
_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
_TLS_SCHEMES = ("https://", "grpcs://")
_PLAIN_SCHEMES = ("http://", "grpc://")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How the gateway's certificate is checked.

    Attributes:
        root_certificates_path: PEM file of the authorities to trust; None for those that gRPC brings.
        client_certificate_path: PEM file of the client's own certificate, for mutual TLS.
        client_key_path: PEM file of its private key.
    """

    root_certificates_path: Path | None = None
    client_certificate_path: Path | None = None
    client_key_path: Path | None = None


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long calls may take, in seconds.

    Attributes:
        read_seconds: Get and list.
        write_seconds: Create, update, delete, publish, cancel.
        search_seconds: One search.
        answer_seconds: One answer, from the question to its last word.
        transfer_seconds: One upload stream or one original.
        watch_seconds: One stream of a watch; it is opened again until the run has ended.
    """

    read_seconds: float = 30.0
    write_seconds: float = 60.0
    search_seconds: float = 30.0
    answer_seconds: float = 300.0
    transfer_seconds: float = 3600.0
    watch_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How to reach a gateway.

    Attributes:
        address: `host:port`, or a URL whose scheme says whether TLS is used: `grpc://`, `http://` (plain text),
            `grpcs://`, `https://` (TLS). `dns:///name:port` is taken as gRPC understands it.
        api_key: Key `cm_…`; "" to call without identity.
        tls: TLS settings; given, they switch TLS on for an address without scheme.
        deadlines: How long calls may take.
        max_attempts: How often a call that changes nothing twice is tried, 1 to 5.
        keepalive_seconds: Silence during a call after which the connection is probed.
    """

    address: str
    api_key: str = field(default="", repr=False)
    tls: TlsSettings | None = None
    deadlines: Deadlines = field(default_factory=Deadlines)
    max_attempts: int = 4
    keepalive_seconds: float = 60.0


def idempotent_methods() -> frozenset[str]:
    """Name the methods of the contract that may be called again without harm.

    Returns:
        Full names, `package.Service/Method`, of all whose `idempotency_level` is set in the contract.
    """
    return frozenset(
        f"{service.full_name}/{method.name}"
        for file in _FILES
        for service in file.services_by_name.values()
        for method in service.methods
        if method.GetOptions().idempotency_level != MethodOptions.IDEMPOTENCY_UNKNOWN
    )


def service_config(max_attempts: int) -> str:
    """Write the gRPC service config: which calls gRPC itself tries again when the gateway cannot be reached.

    Args:
        max_attempts: Attempts of one call, from 1; gRPC caps it at 5.

    Returns:
        The service config as JSON.
    """
    if max_attempts < 2:
        return json.dumps({"methodConfig": []})
    names = [
        {"service": service, "method": method}
        for service, method in sorted(name.split("/") for name in idempotent_methods())
    ]
    policy = {
        "maxAttempts": max_attempts,
        "initialBackoff": "0.2s",
        "maxBackoff": "2s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    return json.dumps({"methodConfig": [{"name": names, "retryPolicy": policy}]})


def split_address(address: str) -> tuple[str, bool | None]:
    """Tell the target of an address and whether its scheme asks for TLS.

    Args:
        address: `host:port` or a URL.

    Returns:
        The target `host:port`, and True for TLS, False for plain text, None where no scheme says.

    Raises:
        InvalidArgumentError: If it is empty or carries a path.
    """
    tls: bool | None = None
    target = address.strip()
    for schemes, value in ((_TLS_SCHEMES, True), (_PLAIN_SCHEMES, False)):
        for scheme in schemes:
            if target.lower().startswith(scheme):
                target, tls = target[len(scheme) :], value
    target = target.rstrip("/")
    host = target.removeprefix("dns:///")  # gRPC's own spelling, for round robin over all addresses of a name
    if not host or "/" in host or "@" in host:
        raise InvalidArgumentError(
            "ADDRESS_INVALID",
            f"{address!r} is not an address of a gateway; give host:port, grpc://host:port or grpcs://host:port",
            field="address",
            address=address,
        )
    return target, tls


def open_channel(settings: ConnectionSettings) -> grpc.aio.Channel:
    """Open a channel to a gateway; the connection itself is made by the first call.

    Args:
        settings: How to reach it.

    Returns:
        The channel.

    Raises:
        InvalidArgumentError: If the address cannot be understood or a certificate cannot be read.
    """
    target, tls_wanted = split_address(settings.address)
    keepalive_milliseconds = int(settings.keepalive_seconds * 1000)
    options: Sequence[tuple[str, int | str]] = (
        ("grpc.enable_retries", 1),
        ("grpc.service_config", service_config(settings.max_attempts)),
        ("grpc.keepalive_time_ms", keepalive_milliseconds),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 0),
        ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.primary_user_agent", "corpusmesh-client"),
        # Proxies of the environment are for the web; a mesh is named by its own address.
        ("grpc.enable_http_proxy", 0),
    )
    if tls_wanted or (tls_wanted is None and settings.tls is not None):
        return grpc.aio.secure_channel(target, _credentials(settings.tls or TlsSettings()), options=options)
    return grpc.aio.insecure_channel(target, options=options)


def _credentials(tls: TlsSettings) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        root_certificates=_read(tls.root_certificates_path),
        private_key=_read(tls.client_key_path),
        certificate_chain=_read(tls.client_certificate_path),
    )


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidArgumentError(
            "CERTIFICATE_UNREADABLE", f"the file {path} cannot be read ({error.strerror})", field="tls", path=path
        ) from error
