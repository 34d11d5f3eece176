"""Reads the artefacts that a batch's versions name, each object once."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from corpusmesh_core.artefacts import CHUNKS, ENRICHED, unpack_chunks, unpack_enriched
from corpusmesh_core.documents import Chunk
from corpusmesh_core.enrichment.values import Derived
from corpusmesh_core.errors import FailedPreconditionError, NotFoundError
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.tenancy import VersionRow

MAX_ARTEFACT_BYTES: Final = 2 * 1024 * 1024 * 1024
"""Longest artefact that is read."""

_Item = TypeVar("_Item")


async def find_artefacts(
    objects: ObjectStore,
    versions: Sequence[VersionRow],
    name: str,
    unpack: Callable[[bytes], Mapping[int, _Item]],
    *,
    timeout_seconds: float,
) -> dict[int, _Item]:
    """Read one kind of artefact for those versions that have it.

    Args:
        objects: The store.
        versions: The versions.
        name: Kind of artefact, as in `VersionRow.artefacts`.
        unpack: Reads an object into items by ordinal.
        timeout_seconds: Bound of each read.

    Returns:
        Items by ordinal; what a version never had, or what was purged with a neighbour of its batch, is missing.
    """
    wanted = {version.ordinal for version in versions}
    items: dict[int, _Item] = {}
    for key in _distinct(version.artefacts.get(name, "") for version in versions):
        try:
            content = await objects.get(key, max_byte_count=MAX_ARTEFACT_BYTES, timeout_seconds=timeout_seconds)
        except NotFoundError:
            continue
        items.update(
            {ordinal: item for ordinal, item in (await asyncio.to_thread(unpack, content)).items() if ordinal in wanted}
        )
    return items


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
    items = await find_artefacts(objects, versions, name, unpack, timeout_seconds=timeout_seconds)
    if missing := {version.ordinal for version in versions} - items.keys():
        raise FailedPreconditionError(
            "ARTEFACT_GONE",
            "what an earlier stage made of the document is gone; upload the document again",
            artefact=name,
            version_count=len(missing),
        )
    return items


async def read_pieces(
    objects: ObjectStore, versions: Sequence[VersionRow], *, timeout_seconds: float
) -> dict[int, tuple[list[Chunk], list[Derived]]]:
    """Read the chunks of a batch and what was made of them.

    Args:
        objects: The store.
        versions: The batch.
        timeout_seconds: Bound of each read.

    Returns:
        By ordinal: chunks of every role, enriched where that was asked for, and derived records.
    """
    enriched = [version for version in versions if ENRICHED in version.artefacts]
    plain = [version for version in versions if ENRICHED not in version.artefacts]
    pieces = await read_artefacts(objects, enriched, ENRICHED, unpack_enriched, timeout_seconds=timeout_seconds)
    chunks = await read_artefacts(objects, plain, CHUNKS, unpack_chunks, timeout_seconds=timeout_seconds)
    return {**pieces, **{ordinal: (items, []) for ordinal, items in chunks.items()}}


def _distinct(keys: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(key for key in keys if key))
