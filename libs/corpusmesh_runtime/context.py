"""What is known of the call that is being handled, carried by a context variable through every await."""

import time
from contextvars import ContextVar
from dataclasses import dataclass

from corpusmesh_core.errors import DeadlineExceededError, InternalError
from corpusmesh_core.tenancy import Identity


@dataclass(frozen=True, slots=True)
class CallContext:
    """The call that is being handled.

    Attributes:
        identity: Who calls.
        request_id: Names the call in logs, traces and error details.
        deadline_monotonic_seconds: When the caller stops waiting, by `time.monotonic`.
    """

    identity: Identity
    request_id: str
    deadline_monotonic_seconds: float

    def remaining_seconds(self) -> float:
        """Tell how long the caller still waits.

        Returns:
            Seconds, more than zero.

        Raises:
            DeadlineExceededError: If the time is over.
        """
        remaining = self.deadline_monotonic_seconds - time.monotonic()
        if remaining <= 0:
            raise DeadlineExceededError("DEADLINE_EXCEEDED", "the time that the caller gave is over")
        return remaining


current_call: ContextVar[CallContext | None] = ContextVar("corpusmesh_current_call", default=None)


def require_call() -> CallContext:
    """Give the call that is being handled.

    Returns:
        The call.

    Raises:
        InternalError: If none is: the interceptor did not run.
    """
    call = current_call.get()
    if call is None:
        raise InternalError("NO_CALL_CONTEXT", "a handler ran outside of a call")
    return call
