"""Where the objects of a build lie: under its id, by the run that wrote them.

What was found in versions lies beside the runs, so that one that fails leaves it to the next. Its names say of which
versions it may be: a purge removes what may be of a purged one, and whoever misses it finds it again.
"""

import re
from collections.abc import Iterable
from typing import Final

from pyroaring import AbstractBitMap

from corpusmesh_core.ports.builds import BuildRow
from corpusmesh_core.ports.objects import artefact_key, artefacts_prefix

_FOUND: Final = "found"
_NAME: Final = re.compile(r"(\d+)-(\d+)-[0-9a-f]+")


def build_key(build: BuildRow, run_id: str, name: str) -> str:
    """Name something that a run wrote of a build, so that a sweep finds it whatever became of the run.

    Args:
        build: The build.
        run_id: The run.
        name: What it is.

    Returns:
        The object's key.
    """
    return artefact_key(build.tenant_id, build.build_id, f"{run_id}/{name}")


def build_prefix(build: BuildRow) -> str:
    """Name the folder of everything that was written of a build.

    Args:
        build: The build.

    Returns:
        The prefix, which ends in "/"; ids of runs follow.
    """
    return artefacts_prefix(build.tenant_id, build.build_id)


def found_key(build: BuildRow, first: int, last: int, digest: str) -> str:
    """Name what was found in some versions.

    Args:
        build: The build.
        first: Smallest ordinal of the versions.
        last: Largest.
        digest: Hexadecimal digest of all that it depends on.

    Returns:
        The object's key.
    """
    return artefact_key(build.tenant_id, build.build_id, f"{_FOUND}/{first}-{last}-{digest}")


def found_prefix(tenant_id: str, build_id: str) -> str:
    """Name the folder of all that was found for a build.

    Args:
        tenant_id: Its tenant.
        build_id: The build.

    Returns:
        The prefix, which ends in "/".
    """
    return f"{artefacts_prefix(tenant_id, build_id)}{_FOUND}/"


def may_be_of(keys: Iterable[str], versions: AbstractBitMap) -> list[str]:
    """Tell what may have been found in some versions.

    Args:
        keys: Keys under `found_prefix`.
        versions: Ordinals of the versions.

    Returns:
        Those of the keys whose first and last version have one of them between them, or that have no such name.
    """
    found = []
    for key in keys:
        match = _NAME.fullmatch(key.rpartition("/")[2])
        if match is None or versions.range_cardinality(int(match.group(1)), int(match.group(2)) + 1):
            found.append(key)
    return found
