"""Errors that only the gateway makes, and how a fault of the transport between services reaches the caller."""

from collections.abc import Iterable
from typing import cast

import grpc
import grpc.aio

from corpusmesh_core.errors import (
    CorpusMeshError,
    DeadlineExceededError,
    InternalError,
    OverloadedError,
    UnavailableError,
)

STATUS_DETAILS_KEY = "grpc-status-details-bin"


class TooLargeError(OverloadedError):
    """A request is beyond a bound of its size; sending it again cannot help, so it carries no delay."""

    def __init__(self, reason: str, message: str, **metadata: object) -> None:
        """Create the error.

        Args:
            reason: UPPER_SNAKE name.
            message: One sentence: what was wrong and what to do.
            metadata: Every variable part of the message.
        """
        super().__init__(reason, message, **metadata)  # type: ignore[arg-type]
        self.retry_delay_seconds = None


def trailing_pairs(error: grpc.aio.AioRpcError) -> tuple[tuple[str, str | bytes], ...]:
    """Give the trailing metadata of an error.

    Args:
        error: What a call raised.

    Returns:
        Keys and values.
    """
    return tuple(cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ()))


def has_details(error: grpc.aio.AioRpcError) -> bool:
    """Tell whether a handler of the mesh made an error, rather than the transport.

    Args:
        error: What a call raised.

    Returns:
        Whether it carries `google.rpc.Status`.
    """
    return any(key == STATUS_DETAILS_KEY for key, _ in trailing_pairs(error))


def transport_error(error: grpc.aio.AioRpcError, service: str) -> CorpusMeshError:
    """Name a fault of the transport without its text, which holds inner addresses.

    Args:
        error: What a call raised; `has_details` is false for it.
        service: The service that was called, such as "retrieve".

    Returns:
        The error for the caller.
    """
    match error.code():
        case grpc.StatusCode.UNAVAILABLE:
            return UnavailableError(
                "SERVICE_UNAVAILABLE", f"the {service} service does not answer now; try again", service=service
            )
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return DeadlineExceededError("DEADLINE_EXCEEDED", "the time that the caller gave is over")
        case grpc.StatusCode.RESOURCE_EXHAUSTED if "larger than max" in (error.details() or ""):
            return TooLargeError("MESSAGE_TOO_LARGE", "a message of this call is larger than the limit")
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return OverloadedError(
                "SERVICE_OVERLOADED", f"the {service} service is at its limit; try again", service=service
            )
        case _:
            return InternalError("UPSTREAM_FAULT", f"{service} answered {error.code().name}: {error.details()}")
