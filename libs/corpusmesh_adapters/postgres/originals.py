"""Originals that several versions may need, and the numbers that name versions."""

from collections.abc import Sequence

from corpusmesh_adapters.postgres.database import Connection
from corpusmesh_core.errors import OverloadedError

MAX_ORDINAL = 2**31 - 1


async def lock_originals(connection: Connection, tenant_id: str, hashes: Sequence[str]) -> None:
    """Let nobody else remove, or begin to need, originals until the transaction ends."""
    # Sorted, so that two groups with the same originals lock them in the same order.
    await connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended($1 || '/' || sha256, 0)) FROM unnest($2::text[]) AS sha256",
        tenant_id,
        sorted(set(hashes)),
    )


async def purgeable_originals(connection: Connection, tenant_id: str, hashes: Sequence[str]) -> list[str]:
    """Tell which of locked originals a purge or a clean-up may have removed already."""
    rows = await connection.fetch(
        "SELECT DISTINCT original_sha256 AS sha256 FROM corpusmesh.versions"
        " WHERE tenant_id = $1 AND original_sha256 = ANY ($2) AND state IN ('purged', 'cancelled', 'failed')",
        tenant_id,
        list(hashes),
    )
    return [row["sha256"] for row in rows]


async def allocate_ordinals(connection: Connection, tenant_id: str, count: int) -> int:
    """Take ordinals that nobody has had or will have.

    Returns:
        The first of `count` consecutive ones.

    Raises:
        OverloadedError: If the tenant has used up all of them.
    """
    following: int = await connection.fetchval(
        "UPDATE corpusmesh.tenants SET next_ordinal = next_ordinal + $2::int"
        " WHERE tenant_id = $1 AND next_ordinal <= $3::int - $2::int RETURNING next_ordinal",
        tenant_id,
        count,
        MAX_ORDINAL,
    )
    if following is None:
        raise OverloadedError("ORDINALS_USED_UP", "the tenant has made as many versions as an index can name")
    return following - count
