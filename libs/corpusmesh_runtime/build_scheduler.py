"""Starts the builds that follow by themselves; any number of processes may run it."""

import asyncio

from corpusmesh_core.errors import CorpusMeshError
from corpusmesh_core.ports.builds import BuildStore
from corpusmesh_runtime.logging import get_logger

_MAX_STARTED = 100
_log = get_logger(__name__)


class BuildScheduler:
    """Looks for outdated builds of one kind until it is cancelled."""

    def __init__(self, builds: BuildStore, *, kind: str, poll_seconds: float, quiet_seconds: float) -> None:
        """Create the scheduler.

        Args:
            builds: The store of that kind.
            kind: Its name, for logs.
            poll_seconds: Time between two looks.
            quiet_seconds: How long nothing must have been published to a knowledge base.
        """
        self._builds = builds
        self._kind = kind
        self._poll_seconds = poll_seconds
        self._quiet_seconds = quiet_seconds

    async def run(self) -> None:
        """Look for ever; errors of the store are waited out. Ends by cancellation."""
        while True:
            try:
                if count := await self._builds.start_due(_MAX_STARTED, quiet_seconds=self._quiet_seconds):
                    _log.info("builds follow what was published", build_kind=self._kind, run_count=count)
            except CorpusMeshError as error:
                _log.warning("builds wait", build_kind=self._kind, reason=error.reason)
            await asyncio.sleep(self._poll_seconds)
