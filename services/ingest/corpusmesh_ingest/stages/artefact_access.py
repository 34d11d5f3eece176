"""Reads the artefacts that a batch's versions name, each object once, and names all that may have been written."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from corpusmesh_core.errors import FailedPreconditionError, NotFoundError
from corpusmesh_core.ports.metadata import PurgeStore
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_ingest.artefacts import ARTEFACT_BY_STAGE, stage_artefact_key

_Item = TypeVar("_Item")
_MAX_ARTEFACT_BYTES = 2 * 1024 * 1024 * 1024


async def read_artefacts(
    objects: ObjectStore,
    versions: Sequence[VersionRow],
    name: str,
    unpack: Callable[[bytes], Mapping[int, _Item]],
    *,
    timeout_seconds: float,
) -> dict[int, _Item]:
    """Read one kind of artefact for all versions of a batch.

    Args:
        objects: The store.
        versions: The batch.
        name: Kind of artefact, as in `VersionRow.artefacts`.
        unpack: Reads an object into items by ordinal.
        timeout_seconds: Bound of each read.

    Returns:
        Items by ordinal, one for each version.

    Raises:
        FailedPreconditionError: ARTEFACT_GONE if a version has none, or it was purged with a neighbour of its batch.
    """
    wanted = {version.ordinal for version in versions}
    items: dict[int, _Item] = {}
    for key in _distinct(version.artefacts.get(name, "") for version in versions):
        try:
            content = await objects.get(key, max_byte_count=_MAX_ARTEFACT_BYTES, timeout_seconds=timeout_seconds)
        except NotFoundError:
            continue
        items.update({ordinal: item for ordinal, item in unpack(content).items() if ordinal in wanted})
    if missing := wanted - items.keys():
        raise FailedPreconditionError(
            "ARTEFACT_GONE",
            "what an earlier stage made of the document is gone; upload the document again",
            artefact=name,
            version_count=len(missing),
        )
    return items


async def written_keys(purges: PurgeStore, tenant_id: str, versions: Sequence[VersionRow]) -> list[str]:
    """Name every artefact of versions, those of attempts that ended before anybody noted them included.

    Args:
        purges: Knows the attempts.
        tenant_id: Tenant.
        versions: The versions.

    Returns:
        Keys, sorted; not all of them need exist.
    """
    keys = {key for version in versions for key in version.artefacts.values()}
    for run_id, task_id, stage in await purges.attempts(tenant_id, [version.ordinal for version in versions]):
        if stage in ARTEFACT_BY_STAGE:
            keys.add(stage_artefact_key(tenant_id, run_id, task_id, stage))
    return sorted(keys)


def _distinct(keys: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(key for key in keys if key))
