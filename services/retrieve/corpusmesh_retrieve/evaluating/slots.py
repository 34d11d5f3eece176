"""Places for what takes minutes: few at once, and one of them is always left for another tenant."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from corpusmesh_core.errors import OverloadedError

_RETRY_SECONDS = 5.0


class EvaluationSlots:
    """Bounds what is under way at once, over all tenants and for each."""

    def __init__(self, limit: int) -> None:
        """Begin with all places free.

        Args:
            limit: Places; where there are several, no tenant has all of them.
        """
        self._limit = limit
        self._open: Counter[str] = Counter()

    @contextmanager
    def taken(self, tenant_id: str) -> Iterator[None]:
        """Take a place as long as something is under way.

        Args:
            tenant_id: For whom.

        Yields:
            Nothing.

        Raises:
            OverloadedError: EVALUATIONS_BUSY if there is no place left, or none for this tenant.
        """
        if self._open.total() >= self._limit or self._open[tenant_id] >= max(1, self._limit - 1):
            raise OverloadedError(
                "EVALUATIONS_BUSY",
                "too many evaluations are under way; try again shortly",
                retry_delay_seconds=_RETRY_SECONDS,
                limit=self._limit,
            )
        self._open[tenant_id] += 1
        try:
            yield
        finally:
            self._open[tenant_id] -= 1
            # Nothing grows with the tenants that were here once.
            self._open += Counter()
