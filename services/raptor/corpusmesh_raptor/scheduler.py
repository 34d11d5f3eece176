"""Starts the builds of trees that follow by themselves; any number of processes may run it."""

import asyncio

from corpusmesh_core.errors import CorpusMeshError
from corpusmesh_core.ports.builds import BuildStore
from corpusmesh_runtime.logging import get_logger

_MAX_STARTED = 100
_log = get_logger(__name__)


class TreeScheduler:
    """Looks for outdated trees until it is cancelled."""

    def __init__(self, trees: BuildStore, *, poll_seconds: float, quiet_seconds: float) -> None:
        """Create the scheduler.

        Args:
            trees: The store.
            poll_seconds: Time between two looks.
            quiet_seconds: How long nothing must have been published to a knowledge base.
        """
        self._trees = trees
        self._poll_seconds = poll_seconds
        self._quiet_seconds = quiet_seconds

    async def run(self) -> None:
        """Look for ever; errors of the store are waited out. Ends by cancellation."""
        while True:
            try:
                if count := await self._trees.start_due(_MAX_STARTED, quiet_seconds=self._quiet_seconds):
                    _log.info("trees follow what was published", run_count=count)
            except CorpusMeshError as error:
                _log.warning("trees wait", reason=error.reason)
            await asyncio.sleep(self._poll_seconds)
