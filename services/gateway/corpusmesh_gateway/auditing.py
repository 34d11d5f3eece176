"""Notes refused calls in the audit log, at a bounded rate: refusals are free to make, rows are not."""

from collections.abc import Callable
from time import monotonic

from prometheus_client import Counter

from corpusmesh_core.errors import OverloadedError
from corpusmesh_core.ports.metadata import AuditLog
from corpusmesh_core.tenancy import Identity
from corpusmesh_gateway.limits import RequestRate
from corpusmesh_runtime.interceptor import DenialObserver

_ROWS_PER_SECOND = 1.0
_ROW_BURST = 60

DENIALS_UNRECORDED_TOTAL = Counter(
    "corpusmesh_gateway_denials_unrecorded_total", "Refused calls that left no audit row, since the caller made many."
)


class AuditDenials(DenialObserver):
    """Writes a row for a refused call of a known caller; unknown callers belong to no tenant and are only counted."""

    def __init__(self, log: AuditLog, *, clock: Callable[[], float] = monotonic) -> None:
        """Create the observer.

        Args:
            log: Takes the rows.
            clock: Seconds that only grow.
        """
        self._log = log
        self._rate = RequestRate(_ROWS_PER_SECOND, _ROW_BURST, clock=clock)

    async def denied(self, identity: Identity | None, method: str, reason: str) -> None:
        """Note a refused call.

        Args:
            identity: Who called, if that was found out.
            method: `/package.Service/Method`.
            reason: The error's reason.
        """
        if identity is None:
            return
        try:
            with self._rate.hold(identity, streaming=False):
                pass
        except OverloadedError:
            DENIALS_UNRECORDED_TOTAL.inc()
            return
        await self._log.append(identity, "call", method, "denied", "", {"reason": reason})
