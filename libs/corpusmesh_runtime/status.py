"""One table, two transports: how every error reaches a gRPC caller, and what a worker does with its message."""

from enum import StrEnum

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

from corpusmesh_core.errors import (
    AlreadyExistsError,
    ConflictError,
    CorpusMeshError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
)

ERROR_DOMAIN = "corpusmesh"
HIDDEN_MESSAGE = "an internal fault; its text is in the log under the request id"


class Disposition(StrEnum):
    """What a worker does with the message whose handling raised."""

    TERMINATE = "terminate"
    ACKNOWLEDGE = "acknowledge"
    RETRY = "retry"


_TABLE: tuple[tuple[type[CorpusMeshError], grpc.StatusCode, Disposition], ...] = (
    (InvalidArgumentError, grpc.StatusCode.INVALID_ARGUMENT, Disposition.TERMINATE),
    (UnauthenticatedError, grpc.StatusCode.UNAUTHENTICATED, Disposition.TERMINATE),
    (PermissionDeniedError, grpc.StatusCode.PERMISSION_DENIED, Disposition.TERMINATE),
    (NotFoundError, grpc.StatusCode.NOT_FOUND, Disposition.TERMINATE),
    (FailedPreconditionError, grpc.StatusCode.FAILED_PRECONDITION, Disposition.TERMINATE),
    (AlreadyExistsError, grpc.StatusCode.ALREADY_EXISTS, Disposition.ACKNOWLEDGE),
    (ConflictError, grpc.StatusCode.ABORTED, Disposition.RETRY),
    (OverloadedError, grpc.StatusCode.RESOURCE_EXHAUSTED, Disposition.RETRY),
    (UnavailableError, grpc.StatusCode.UNAVAILABLE, Disposition.RETRY),
    (DeadlineExceededError, grpc.StatusCode.DEADLINE_EXCEEDED, Disposition.RETRY),
)


def code_of(error: BaseException) -> grpc.StatusCode:
    """Tell the gRPC status code of an error.

    Args:
        error: Any exception.

    Returns:
        The code of its class; INTERNAL for every class that the table does not name.
    """
    for cls, code, _ in _TABLE:
        if isinstance(error, cls):
            return code
    return grpc.StatusCode.INTERNAL


def disposition_of(error: BaseException) -> Disposition:
    """Tell what a worker does with the message whose handling raised.

    Args:
        error: Any exception.

    Returns:
        The disposition of its class; RETRY for every class that the table does not name.
    """
    for cls, _, disposition in _TABLE:
        if isinstance(error, cls):
            return disposition
    return Disposition.RETRY


def to_status(error: BaseException, *, request_id: str = "") -> Status:
    """Render an error as `google.rpc.Status` with its details.

    Args:
        error: Any exception; the text of one that is not ours is hidden.
        request_id: Put into a `RequestInfo` detail, so that a caller can name the log lines.

    Returns:
        The status: always with `ErrorInfo`; with `BadRequest` where a field is at fault; with `RetryInfo` where
        trying again later can help.
    """
    code = code_of(error)
    known = isinstance(error, CorpusMeshError) and code is not grpc.StatusCode.INTERNAL
    reason = error.reason if isinstance(error, CorpusMeshError) and known else "INTERNAL"
    message = error.message if isinstance(error, CorpusMeshError) and known else HIDDEN_MESSAGE
    metadata = dict(error.metadata) if isinstance(error, CorpusMeshError) and known else {}
    details: list[Message] = [error_details_pb2.ErrorInfo(reason=reason, domain=ERROR_DOMAIN, metadata=metadata)]
    if isinstance(error, CorpusMeshError) and known:
        if error.field is not None:
            violation = error_details_pb2.BadRequest.FieldViolation(field=error.field, description=message)
            details.append(error_details_pb2.BadRequest(field_violations=[violation]))
        if error.retry_delay_seconds is not None:
            delay = duration_pb2.Duration()
            delay.FromMicroseconds(int(error.retry_delay_seconds * 1_000_000))
            details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    if request_id:
        details.append(error_details_pb2.RequestInfo(request_id=request_id))
    return Status(
        code=code.value[0],
        message=message,
        details=[_pack(detail) for detail in details],
    )


def _pack(message: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
