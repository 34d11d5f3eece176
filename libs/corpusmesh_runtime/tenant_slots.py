"""Places for what takes long: few at once, and some of them are always left for another tenant."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from corpusmesh_core.errors import OverloadedError

BUSY_RETRY_SECONDS = 5.0
_SHARE_FOR_OTHERS = 4


class TenantSlots:
    """Bounds what is under way at once, over all tenants and for each."""

    def __init__(self, limit: int, *, busy: Callable[[], OverloadedError]) -> None:
        """Begin with all places free.

        Args:
            limit: Places, at least 1; where there are several, a tenant leaves a quarter of them, at least one, to
                others.
            busy: Makes the error where there is no place.
        """
        self._limit = limit
        self._limit_of_one = max(1, limit - max(1, limit // _SHARE_FOR_OTHERS))
        self._busy = busy
        self._open: Counter[str] = Counter()

    @contextmanager
    def taken(self, tenant_id: str) -> Iterator[None]:
        """Take a place as long as something is under way.

        Args:
            tenant_id: For whom.

        Yields:
            Nothing.

        Raises:
            OverloadedError: If there is no place left, or none for this tenant.
        """
        if self._open.total() >= self._limit or self._open[tenant_id] >= self._limit_of_one:
            raise self._busy()
        self._open[tenant_id] += 1
        try:
            yield
        finally:
            self._open[tenant_id] -= 1
            # Nothing grows with the tenants that were here once.
            self._open += Counter()
