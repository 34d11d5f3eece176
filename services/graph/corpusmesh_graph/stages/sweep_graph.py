"""What a sweep of graphs leaves: what was found and is not in a graph yet stays for the next build."""

from collections.abc import Collection, Sequence

from pyroaring import BitMap

from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.builds import BuildRow, BuildStore
from corpusmesh_core.ports.work import Claim
from corpusmesh_core.tenancy.publishing import load_bitmap
from corpusmesh_runtime.build_keys import found_prefix, may_be_of


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
        prefix = found_prefix(build.tenant_id, build.build_id)
        found = [key for key in keys if key.startswith(prefix)]
        if not found:
            return ()
        try:
            published = await self._builds.published(claim.tenant_id, claim.knowledge_base_id)
        except NotFoundError:
            return ()
        waiting = BitMap(published.versions) - load_bitmap(build.sources)
        return may_be_of(found, waiting)
