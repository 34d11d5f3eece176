"""Starts the syncs that are due; any number of processes may run it."""

import asyncio

from corpusmesh_core.errors import CorpusMeshError
from corpusmesh_core.ports.sources import SyncStore
from corpusmesh_runtime.logging import get_logger

_MAX_STARTED = 100
_log = get_logger(__name__)


class SyncScheduler:
    """Looks for due sources until it is cancelled."""

    def __init__(self, syncs: SyncStore, *, poll_seconds: float) -> None:
        """Create the scheduler.

        Args:
            syncs: The store.
            poll_seconds: Time between two looks.
        """
        self._syncs = syncs
        self._poll_seconds = poll_seconds

    async def run(self) -> None:
        """Look for ever; errors of the store are waited out. Ends by cancellation."""
        while True:
            try:
                if count := await self._syncs.start_due(_MAX_STARTED):
                    _log.info("syncs started by schedule", sync_count=count)
            except CorpusMeshError as error:
                _log.warning("schedule waits", reason=error.reason)
            await asyncio.sleep(self._poll_seconds)
