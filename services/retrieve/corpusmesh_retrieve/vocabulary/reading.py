"""Keeps the words of tenants analysed, and notices within seconds where somebody has changed them."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from corpusmesh_core.errors import OverloadedError, UnavailableError
from corpusmesh_core.ports.vocabulary import VocabularyStore
from corpusmesh_core.text.vocabulary import Vocabulary, VocabularyIndex
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.logging import get_logger

_TRUST_SECONDS: Final = 2.0
_MAX_TENANTS: Final = 256
_MAX_SECONDS: Final = 2.0
_SHARE_OF_DEADLINE: Final = 0.2
_log = get_logger(__name__)


@dataclass(slots=True)
class _Kept:
    """The words of one tenant as they were last read."""

    revision: int = -1
    index: VocabularyIndex = field(default_factory=lambda: VocabularyIndex(Vocabulary()))
    checked_at: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class VocabularyReader:
    """Gives the words of the caller's tenant, at most two seconds old, or older while the store does not answer."""

    def __init__(self, store: VocabularyStore, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Create the reader.

        Args:
            store: Has them.
            clock: Seconds that never go back.
        """
        self._store = store
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def read(self, call: CallContext) -> VocabularyIndex:
        """Give the words of the caller's tenant.

        Args:
            call: The call.

        Returns:
            Its words, analysed.

        Raises:
            UnavailableError: If the store does not answer and nothing was read before.
        """
        tenant_id = call.identity.tenant_id
        kept = self._kept.setdefault(tenant_id, _Kept())
        self._kept.move_to_end(tenant_id)
        while len(self._kept) > _MAX_TENANTS:
            self._kept.popitem(last=False)
        if self._clock() - kept.checked_at >= _TRUST_SECONDS:
            async with kept.lock:
                await self._refresh(call, kept)
        return kept.index

    def forget(self, tenant_id: str) -> None:
        """Read a tenant's words again with its next search.

        Args:
            tenant_id: The tenant.
        """
        kept = self._kept.get(tenant_id)
        if kept is not None:
            kept.checked_at = float("-inf")

    async def _refresh(self, call: CallContext, kept: _Kept) -> None:
        if self._clock() - kept.checked_at < _TRUST_SECONDS:
            # Somebody else has read them while this call waited.
            return
        asked_at = self._clock()
        try:
            async with asyncio.timeout(min(_MAX_SECONDS, call.remaining_seconds() * _SHARE_OF_DEADLINE)):
                row = await self._store.read(call.identity, newer_than=kept.revision)
        except (UnavailableError, OverloadedError, TimeoutError) as error:
            if kept.revision < 0:
                if isinstance(error, TimeoutError):
                    raise UnavailableError("VOCABULARY_UNAVAILABLE", "the vocabulary cannot be read now") from error
                raise
            _log.warning("vocabulary not read again", revision=kept.revision)
            kept.checked_at = asked_at
            return
        if row is not None:
            kept.index = await asyncio.to_thread(VocabularyIndex, row.vocabulary)
            kept.revision = row.revision
        kept.checked_at = asked_at
