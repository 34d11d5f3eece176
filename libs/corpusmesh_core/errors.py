"""The error tree: every failure a caller can see, named once for both transports.

A class says which gRPC status the caller gets and what a worker does with the message (see
`corpusmesh_runtime.status`); `reason` says which failure it is; `metadata` holds every variable part of the text.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar


class CorpusMeshError(Exception):
    """A failure with a stable reason that a caller can act on.

    Attributes:
        reason: UPPER_SNAKE name, stable across releases.
        message: One sentence for a person: what was wrong and what to do.
        field: Dotted path of the request field at fault, if one is.
        retry_delay_seconds: How long to wait before trying again; None where trying again cannot help.
        metadata: Every variable part of the message, as text.
    """

    default_retry_delay_seconds: ClassVar[float | None] = None

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        field: str | None = None,
        retry_delay_seconds: float | None = None,
        **metadata: object,
    ) -> None:
        """Create the error.

        Args:
            reason: UPPER_SNAKE name, stable across releases.
            message: One sentence: what was wrong and what to do.
            field: Dotted path of the request field at fault.
            retry_delay_seconds: Overrides the class's default delay.
            metadata: Every variable part of the message.
        """
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.field = field
        self.retry_delay_seconds = (
            retry_delay_seconds if retry_delay_seconds is not None else self.default_retry_delay_seconds
        )
        self.metadata: Mapping[str, str] = MappingProxyType({key: str(value) for key, value in metadata.items()})

    def __reduce__(self) -> tuple[object, ...]:
        """Support pickling, so that a process pool can hand an error to its parent."""
        return _rebuild, (
            type(self),
            self.reason,
            self.message,
            self.field,
            self.retry_delay_seconds,
            dict(self.metadata),
        )


def _rebuild(
    cls: type[CorpusMeshError],
    reason: str,
    message: str,
    field: str | None,
    retry_delay_seconds: float | None,
    metadata: Mapping[str, str],
) -> CorpusMeshError:
    return cls(reason, message, field=field, retry_delay_seconds=retry_delay_seconds, **metadata)


class InvalidArgumentError(CorpusMeshError):
    """The request can never succeed as it is."""


class DocumentError(InvalidArgumentError):
    """A document cannot be read; reasons: DOCUMENT_{ENCRYPTED,CORRUPT,EMPTY,UNSUPPORTED,RESOURCE_LIMIT}."""


class UnauthenticatedError(CorpusMeshError):
    """The caller is not known."""


class PermissionDeniedError(CorpusMeshError):
    """The caller is known and may not do this."""


class NotFoundError(CorpusMeshError):
    """The thing does not exist, or the caller may not know that it does."""


class FailedPreconditionError(CorpusMeshError):
    """The state of the system forbids it until somebody changes that state."""


class AlreadyExistsError(CorpusMeshError):
    """The thing exists already."""


class ConflictError(CorpusMeshError):
    """Somebody else changed the same thing at the same time."""

    default_retry_delay_seconds = 0.1


class OverloadedError(CorpusMeshError):
    """A bound was reached; refused early instead of absorbed."""

    default_retry_delay_seconds = 1.0


class UnavailableError(CorpusMeshError):
    """Something this depends on does not answer now."""

    default_retry_delay_seconds = 1.0


class DeadlineExceededError(CorpusMeshError):
    """The time that the caller gave is over."""


class InternalError(CorpusMeshError):
    """A fault of ours; its text stays in the log."""


def first_cause(error: Exception) -> Exception:
    """Find what a caller should hear of: task groups wrap what their tasks raise.

    Args:
        error: Any exception.

    Returns:
        The first error of this tree inside a group, else the group's first exception, else the error itself.
    """
    if not isinstance(error, ExceptionGroup):
        return error
    leaves = [first_cause(inner) for inner in error.exceptions]
    return next((leaf for leaf in leaves if isinstance(leaf, CorpusMeshError)), leaves[0])
