"""Failures of calls, rebuilt as the error tree of `corpusmesh_core.errors`.

The class follows the gRPC status code; reason, metadata, field and delay come from the `google.rpc` details that the
mesh sends with every failure.
"""

from collections.abc import Iterable
from types import MappingProxyType
from typing import cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

from corpusmesh_core.errors import (
    AlreadyExistsError,
    ConflictError,
    CorpusMeshError,
    DeadlineExceededError,
    DocumentError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
)

ERROR_DOMAIN = "corpusmesh"
_DETAILS_KEY = "grpc-status-details-bin"
_DOCUMENT_REASON_PREFIX = "DOCUMENT_"

_CLASS_BY_CODE: MappingProxyType[grpc.StatusCode, type[CorpusMeshError]] = MappingProxyType(
    {
        grpc.StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
        grpc.StatusCode.OUT_OF_RANGE: InvalidArgumentError,
        grpc.StatusCode.UNAUTHENTICATED: UnauthenticatedError,
        grpc.StatusCode.PERMISSION_DENIED: PermissionDeniedError,
        grpc.StatusCode.NOT_FOUND: NotFoundError,
        grpc.StatusCode.FAILED_PRECONDITION: FailedPreconditionError,
        grpc.StatusCode.ALREADY_EXISTS: AlreadyExistsError,
        grpc.StatusCode.ABORTED: ConflictError,
        grpc.StatusCode.RESOURCE_EXHAUSTED: OverloadedError,
        grpc.StatusCode.UNAVAILABLE: UnavailableError,
        grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
        # Our own cancellation is no status: this is a server that ended while it worked on the call.
        grpc.StatusCode.CANCELLED: UnavailableError,
    }
)
_CODE_BY_NUMBER = MappingProxyType({code.value[0]: code for code in grpc.StatusCode})


def error_from_rpc(error: grpc.aio.AioRpcError) -> CorpusMeshError:
    """Rebuild the failure of a call.

    Args:
        error: What gRPC raised.

    Returns:
        An error of the class that the status code names. Without details of the mesh (a proxy or gRPC itself
        refused the call) its reason is the name of the code.
    """
    status = _details_of(error)
    if status is not None and status.code == error.code().value[0]:
        return error_from_status(status)
    return _build(error.code(), error.code().name, error.details() or "")


def error_from_status(status: Status) -> CorpusMeshError:
    """Rebuild a failure that a message carries, such as that of one document of an upload.

    Args:
        status: The failure; its code is not OK.

    Returns:
        An error of the class that the status code names.
    """
    code = _CODE_BY_NUMBER.get(status.code, grpc.StatusCode.UNKNOWN)
    info = error_details_pb2.ErrorInfo()
    request = error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    origin = error_details_pb2.RequestInfo()
    has_info = _unpack(status, info) and info.domain == ERROR_DOMAIN
    field = request.field_violations[0].field if _unpack(status, request) and request.field_violations else None
    delay_seconds = retry.retry_delay.ToMicroseconds() / 1_000_000 if _unpack(status, retry) else None
    metadata = dict(info.metadata) if has_info else {}
    if code is grpc.StatusCode.INTERNAL and _unpack(status, origin):
        metadata.setdefault("request_id", origin.request_id)
    return _build(
        code,
        info.reason if has_info else code.name,
        status.message,
        field=field,
        delay_seconds=delay_seconds,
        metadata=metadata,
    )


def retry_delay_seconds(error: grpc.aio.AioRpcError) -> float | None:
    """Tell how long the mesh asks to wait before the call is tried again.

    Args:
        error: What gRPC raised.

    Returns:
        Seconds, or None where it does not invite another try.
    """
    status = _details_of(error)
    retry = error_details_pb2.RetryInfo()
    if status is None or not _unpack(status, retry):
        return None
    return max(0.0, retry.retry_delay.ToMicroseconds() / 1_000_000)


def _build(
    code: grpc.StatusCode,
    reason: str,
    message: str,
    *,
    field: str | None = None,
    delay_seconds: float | None = None,
    metadata: dict[str, str] | None = None,
) -> CorpusMeshError:
    cls = _CLASS_BY_CODE.get(code, InternalError)
    if cls is InvalidArgumentError and reason.startswith(_DOCUMENT_REASON_PREFIX):
        cls = DocumentError
    error = cls(reason, message or code.name, field=field, retry_delay_seconds=delay_seconds)
    # Not through the constructor: a key of the mesh may be spelt like one of its parameters.
    error.metadata = MappingProxyType(metadata or {})
    return error


def _details_of(error: grpc.aio.AioRpcError) -> Status | None:
    # An iterable of pairs, whatever its stubs say.
    pairs = cast(Iterable[tuple[str, str | bytes]], error.trailing_metadata() or ())
    for key, value in pairs:
        if key == _DETAILS_KEY and isinstance(value, bytes):
            status = Status()
            try:
                status.ParseFromString(value)
            except DecodeError:
                return None
            return status
    return None


def _unpack(status: Status, target: Message) -> bool:
    for detail in status.details:
        if detail.TypeName() == target.DESCRIPTOR.full_name:
            try:
                return detail.Unpack(target)
            except DecodeError:
                return False
    return False
