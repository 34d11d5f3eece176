"""What a sweep of graphs leaves: what was found and is not in a graph yet stays for the next build."""

import re
from collections.abc import Collection, Sequence
from typing import Final

from pyroaring import BitMap

from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.builds import BuildRow, BuildStore
from corpusmesh_core.ports.work import Claim
from corpusmesh_core.tenancy.publishing import load_bitmap
from corpusmesh_graph.building.extracting import EXTRACTED
from corpusmesh_runtime.build_keys import build_key

_RANGE: Final = re.compile(r"(\d+)-(\d+)-[0-9a-f]+")


class FoundKeeper:
    """Keeps what was found in versions that are published, and that the graph has not taken in."""

    def __init__(self, builds: BuildStore) -> None:
        """Create it.

        Args:
            builds: Builds of graphs.
        """
        self._builds = builds

    async def __call__(self, claim: Claim, build: BuildRow, keys: Sequence[str]) -> Collection[str]:
        """Tell what stays.

        Args:
            claim: The sweep's claim.
            build: The build as it is now.
            keys: Its objects.

        Returns:
            Those of them that stay.
        """
        prefix = build_key(build, EXTRACTED, "0")[:-1]
        found = [key for key in keys if key.startswith(prefix)]
        if not found:
            return ()
        try:
            published = await self._builds.published(claim.tenant_id, claim.knowledge_base_id)
        except NotFoundError:
            return ()
        waiting = BitMap(published.versions) - load_bitmap(build.sources)
        return [key for key in found if _is_within(key.removeprefix(prefix), waiting)]


def _is_within(name: str, waiting: BitMap) -> bool:
    """Tell whether what is kept under a name may be of one of some versions."""
    match = _RANGE.fullmatch(name)
    if match is None:
        return False
    return waiting.range_cardinality(int(match.group(1)), int(match.group(2)) + 1) > 0
