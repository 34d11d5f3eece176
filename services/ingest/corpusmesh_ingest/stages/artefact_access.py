"""Finds what was written of versions, whatever became of the attempt, and takes out what is of purged ones."""

import asyncio
from collections.abc import Sequence

from corpusmesh_core.artefacts import ARTEFACT_BY_STAGE, ordinals_in, pictures_prefix, stage_artefact_key, without
from corpusmesh_core.errors import InternalError, NotFoundError
from corpusmesh_core.orchestration.values import Stage
from corpusmesh_core.ports.metadata import PurgeStore
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.ports.work import StageAttempt
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_runtime.artefact_access import MAX_ARTEFACT_BYTES


async def written_keys(purges: PurgeStore, tenant_id: str, versions: Sequence[VersionRow]) -> list[str]:
    """Name every artefact of versions, those of attempts that ended before anybody noted them included.

    Args:
        purges: Knows the attempts.
        tenant_id: Tenant.
        versions: The versions.

    Returns:
        Keys, sorted, and prefixes, which end in "/"; not all of them need exist.
    """
    keys = {key for version in versions for key in version.artefacts.values()}
    ordinals = {int(version.ordinal) for version in versions}
    for attempt in await purges.attempts(tenant_id, sorted(ordinals)):
        keys |= _keys_of(tenant_id, attempt, ordinals)
    return sorted(keys)


def _keys_of(tenant_id: str, attempt: StageAttempt, ordinals: set[int]) -> set[str]:
    keys: set[str] = set()
    if attempt.stage in ARTEFACT_BY_STAGE:
        keys.add(stage_artefact_key(tenant_id, attempt.run_id, attempt.task_id, attempt.stage))
    if attempt.stage is Stage.PARSE:
        keys |= {
            pictures_prefix(tenant_id, attempt.run_id, attempt.task_id, ordinal)
            for ordinal in ordinals.intersection(attempt.parts)
        }
    return keys


async def remove_written(
    objects: ObjectStore, purges: PurgeStore, tenant_id: str, versions: Sequence[VersionRow], *, timeout_seconds: float
) -> None:
    """Remove what was made of versions; an artefact of a whole batch keeps the parts of the others.

    Args:
        objects: The store.
        purges: Knows what was written, and lets one purge at a time rewrite an artefact.
        tenant_id: Tenant.
        versions: The versions.
        timeout_seconds: Bound of each call.
    """
    ordinals = frozenset(int(version.ordinal) for version in versions)
    for key in await written_keys(purges, tenant_id, versions):
        if key.endswith("/"):
            await objects.delete_prefix(key, timeout_seconds=timeout_seconds)
            continue
        async with purges.artefact_lock(tenant_id, key):
            await _remove_parts(objects, key, ordinals, timeout_seconds=timeout_seconds)


async def _remove_parts(objects: ObjectStore, key: str, ordinals: frozenset[int], *, timeout_seconds: float) -> None:
    try:
        artefact = await objects.get(key, max_byte_count=MAX_ARTEFACT_BYTES, timeout_seconds=timeout_seconds)
        rest = await asyncio.to_thread(without, key, artefact, ordinals)
        if rest is artefact:
            return
    except NotFoundError:
        return
    except InternalError:
        # Nobody can read it, so nobody can say what of it is whose.
        rest = None
    if rest is None:
        await objects.delete(key, timeout_seconds=timeout_seconds)
    else:
        await objects.put(key, rest, timeout_seconds=timeout_seconds)


async def count_written(
    objects: ObjectStore, purges: PurgeStore, tenant_id: str, versions: Sequence[VersionRow], *, timeout_seconds: float
) -> int:
    """Count the objects that hold something of versions.

    Args:
        objects: The store.
        purges: Knows what was written.
        tenant_id: Tenant.
        versions: The versions.
        timeout_seconds: Bound of each call.

    Returns:
        How many there are.
    """
    ordinals = frozenset(int(version.ordinal) for version in versions)
    count = 0
    for key in await written_keys(purges, tenant_id, versions):
        if key.endswith("/"):
            count += len([entry async for entry in objects.list_prefix(key, timeout_seconds=timeout_seconds)])
        else:
            count += await _holds_part(objects, key, ordinals, timeout_seconds=timeout_seconds)
    return count


async def _holds_part(objects: ObjectStore, key: str, ordinals: frozenset[int], *, timeout_seconds: float) -> bool:
    try:
        artefact = await objects.get(key, max_byte_count=MAX_ARTEFACT_BYTES, timeout_seconds=timeout_seconds)
        return not (await asyncio.to_thread(ordinals_in, key, artefact)).isdisjoint(ordinals)
    except NotFoundError:
        return False
    except InternalError:
        return True
