"""Failures for people and scripts: one line that says what was wrong and what to do, and a stable exit status."""

from enum import IntEnum

from corpusmesh_core.errors import (
    CorpusMeshError,
    DeadlineExceededError,
    DocumentError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
)


class ExitStatus(IntEnum):
    """Exit statuses; documented in `docs/guide/cli.md` and stable."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    AUTHORIZATION = 4
    UNAVAILABLE = 5
    PARTIAL = 6
    INTERRUPTED = 130


class CommandFailedError(Exception):
    """Ends a command whose result has been printed with a status that is not OK."""

    def __init__(self, status: ExitStatus) -> None:
        """Create the failure.

        Args:
            status: Exit status.
        """
        super().__init__(status.name)
        self.status = status


_STATUS_BY_CLASS: tuple[tuple[type[CorpusMeshError], ExitStatus], ...] = (
    (DocumentError, ExitStatus.FAILURE),
    (InvalidArgumentError, ExitStatus.USAGE),
    (NotFoundError, ExitStatus.NOT_FOUND),
    (UnauthenticatedError, ExitStatus.AUTHORIZATION),
    (PermissionDeniedError, ExitStatus.AUTHORIZATION),
    (UnavailableError, ExitStatus.UNAVAILABLE),
    (OverloadedError, ExitStatus.UNAVAILABLE),
    (DeadlineExceededError, ExitStatus.UNAVAILABLE),
)

_HINT_BY_REASON = {
    "GATEWAY_UNREACHABLE": "start a mesh with `corpusmesh up`, or name one with --endpoint",
}
_HINT_BY_CLASS: tuple[tuple[type[CorpusMeshError], str], ...] = (
    (UnauthenticatedError, "give a valid key with --api-key-file or CORPUSMESH_API_KEY"),
    (PermissionDeniedError, "use a key with the role and scope that this needs; `corpusmesh status` shows yours"),
    (OverloadedError, "wait a moment and run it again"),
    (DeadlineExceededError, "run it again; if it stays slow, `corpusmesh doctor` checks the mesh"),
)


def exit_status(error: CorpusMeshError) -> ExitStatus:
    """Give the exit status of a failure.

    Args:
        error: The failure.

    Returns:
        The status of its class; FAILURE for every class that has none of its own.
    """
    return next((status for cls, status in _STATUS_BY_CLASS if isinstance(error, cls)), ExitStatus.FAILURE)


def hint(error: CorpusMeshError) -> str:
    """Say what to do about a failure, where its own message does not.

    Args:
        error: The failure.

    Returns:
        Half a sentence; "" where there is nothing to add.
    """
    by_reason = _HINT_BY_REASON.get(error.reason)
    if by_reason is not None:
        return by_reason
    return next((text for cls, text in _HINT_BY_CLASS if isinstance(error, cls)), "")


def error_shape(error: CorpusMeshError) -> dict[str, object]:
    """Describe a failure in JSON.

    Args:
        error: The failure.

    Returns:
        Reason, kind, message, field, metadata and hint.
    """
    return {
        "reason": error.reason,
        "kind": type(error).__name__.removesuffix("Error"),
        "message": error.message,
        "field": error.field,
        "metadata": dict(error.metadata),
        "hint": hint(error) or None,
    }
