"""What sources and their syncs have in common: what is alive of them, and how a sync begins."""

from collections.abc import Sequence

import asyncpg

from corpusmesh_adapters.postgres.database import Connection
from corpusmesh_adapters.postgres.effects import apply_decision, lock_run
from corpusmesh_adapters.postgres.run_creation import RunOrder, create_run
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.orchestration import machine

_LIVING_RUN = ("pending", "running", "cancelling")


async def latest_versions(
    connection: Connection, tenant_id: str, knowledge_base_id: str, document_ids: Sequence[str]
) -> dict[str, str]:
    """Give the state of the newest version of each living document.

    Two statements with lists of ids: a join of tables that have just been filled, and that nobody has counted yet, is
    planned as a loop in a loop (5,000 items took more than ten seconds).
    """
    documents = await connection.fetch(
        "SELECT document_id, latest_version FROM corpusmesh.documents"
        " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = ANY ($3) AND state = 'active'",
        tenant_id,
        knowledge_base_id,
        list(document_ids),
    )
    numbers = {row["document_id"]: row["latest_version"] for row in documents}
    versions = await connection.fetch(
        "SELECT document_id, version, state FROM corpusmesh.versions"
        " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = ANY ($3)",
        tenant_id,
        knowledge_base_id,
        list(numbers),
    )
    states = {row["document_id"]: row["state"] for row in versions if row["version"] == numbers[row["document_id"]]}
    return {document_id: states.get(document_id, "") for document_id in numbers}


async def living_sync(connection: Connection, source: asyncpg.Record) -> str:
    """Give the run of a source's sync that goes on; "" if none does."""
    found = await connection.fetchval(
        "SELECT run_id FROM corpusmesh.runs WHERE tenant_id = $1 AND run_id = $2 AND state = ANY ($3)",
        source["tenant_id"],
        source["last_run_id"],
        list(_LIVING_RUN),
    )
    return found or ""


async def start_sync_run(
    connection: Connection, source: asyncpg.Record, order: RunOrder, *, allow_mass_delete: bool
) -> str:
    """Begin the run that syncs a locked source, and set when it is due next.

    Returns:
        Its id.
    """
    tenant_id, knowledge_base_id = source["tenant_id"], source["knowledge_base_id"]
    run_id = await create_run(connection, tenant_id, knowledge_base_id, order)
    context = await lock_run(connection, tenant_id, run_id)
    assert context is not None, "it was just made"
    payload = {"source": source["source_id"], "allow_mass_delete": "1" if allow_mass_delete else ""}
    await apply_decision(context, machine.extend(context.run, [()], payload=payload))
    await connection.execute(
        "UPDATE corpusmesh.sources SET last_run_id = $4, next_sync_time = CASE WHEN schedule_seconds > 0"
        "   THEN now() + make_interval(secs => schedule_seconds) END"
        " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND source_id = $3",
        tenant_id,
        knowledge_base_id,
        source["source_id"],
        run_id,
    )
    await connection.execute(
        "UPDATE corpusmesh.runs SET result = $3 WHERE tenant_id = $1 AND run_id = $2",
        tenant_id,
        run_id,
        {"source": source["source_id"]},
    )
    return run_id


def source_not_found(source_id: str) -> NotFoundError:
    """Make the one error for unknown and forbidden sources."""
    return NotFoundError(
        "SOURCE_NOT_FOUND",
        f"source {source_id!r} does not exist or you may not use it; list the ones you may use",
        source=source_id,
    )
