"""What plans of builds share, whatever is built: which documents they read, and how long they may take."""

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from typing import Final, TypeVar

from corpusmesh_core.errors import CorpusMeshError
from corpusmesh_core.ports.usage import UsageLedger
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.logging import get_logger

_READ_VERSIONS: Final = 64
_READ_SECONDS: Final = 30.0
_PLAN_SECONDS: Final = 20.0
_log = get_logger(__name__)

_Plan = TypeVar("_Plan")


def sample_of(versions: Sequence[VersionRow], max_chunks: int) -> Sequence[VersionRow]:
    """Take whole documents, evenly over all, whose chunks stay within a bound.

    Args:
        versions: Versions in any order.
        max_chunks: Most chunks.

    Returns:
        Some of them in their order, at least one where there is one.
    """
    total = sum(version.chunk_count for version in versions)
    if total <= max_chunks or len(versions) <= 1:
        return versions
    taken: list[VersionRow] = []
    passed = count = 0
    for version in versions:
        # One is taken whenever the share taken lags behind the share passed; so the bound holds at every place.
        if (count + version.chunk_count) * total <= (passed + version.chunk_count) * max_chunks:
            taken.append(version)
            count += version.chunk_count
        passed += version.chunk_count
    return taken or [min(versions, key=lambda version: version.chunk_count)]


def projection_factor(sample: Sequence[VersionRow], versions: Sequence[VersionRow]) -> float:
    """Tell by what the cost of a sample is multiplied.

    Args:
        sample: What was taken of them.
        versions: All versions.

    Returns:
        Chunks of all against those of the sample; 1 for a sample without chunks.
    """
    taken = sum(version.chunk_count for version in sample)
    return sum(version.chunk_count for version in versions) / taken if taken else 1.0


def read_groups(versions: Sequence[VersionRow]) -> Iterator[Sequence[VersionRow]]:
    """Cut versions into what is read at once.

    Args:
        versions: Versions by ordinal: those of one run, which share their artefacts, stand together.

    Yields:
        Groups of at most 64.
    """
    for start in range(0, len(versions), _READ_VERSIONS):
        yield versions[start : start + _READ_VERSIONS]


def read_seconds() -> float:
    """Give the deadline of one read: 30 seconds, or what the caller has left."""
    return min(_READ_SECONDS, require_call().remaining_seconds())


async def plan_in_time(plan: Awaitable[_Plan]) -> _Plan | None:
    """Plan a build that begins anyway: a plan that cannot be made, or takes long, does not hold it up.

    Args:
        plan: Makes the plan.

    Returns:
        The plan; None where it failed or took more than 20 seconds.
    """
    try:
        async with asyncio.timeout(_PLAN_SECONDS):
            return await plan
    except (CorpusMeshError, TimeoutError) as error:
        _log.warning("build without a plan", reason=getattr(error, "reason", "PLAN_TIMEOUT"))
        return None


async def tokens_left_today(usage: UsageLedger, max_tokens: int) -> int:
    """Tell what language models may still read and write today for the caller's tenant.

    Args:
        usage: What tenants have spent today.
        max_tokens: Tokens of a tenant's day; 0 for no bound.

    Returns:
        Tokens; -1 where there is no bound.
    """
    if not max_tokens:
        return -1
    return max(0, max_tokens - await usage.spent_today(require_call().identity.tenant_id))
