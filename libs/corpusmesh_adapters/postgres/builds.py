"""Rows of builds: read, begun, published and withdrawn, in the caller's transaction.

Locks in the order of `effects`: run, task, knowledge base, then the build.
"""

import json
from collections.abc import Mapping, Sequence

import asyncpg
from pyroaring import BitMap

from corpusmesh_adapters.postgres.build_kinds import KINDS
from corpusmesh_adapters.postgres.database import Connection
from corpusmesh_adapters.postgres.effects import RunTransaction, apply_decision, lock_run, send_messages
from corpusmesh_adapters.postgres.publishing import BUILD_REASON, CurrentSnapshot, change_snapshot, lock_current
from corpusmesh_adapters.postgres.run_creation import RunOrder, create_run
from corpusmesh_core.orchestration import machine
from corpusmesh_core.ports.builds import BuildRow, BuildState
from corpusmesh_core.ports.work import BuildChange, Claim
from corpusmesh_core.tenancy.publishing import dump_bitmap, load_bitmap, plan_change

LIVING_RUN = ("pending", "running", "cancelling")
"""States of a run that goes on."""
BUILD = "build"
"""Key of a run's result: the build that it works on."""
_COLUMNS = """
    b.tenant_id, b.build_id, b.knowledge_base_id, b.kind, b.state, b.run_id, b.ordinals, b.nodes, b.sources,
    b.snapshot_id, b.artefacts, b.figures, b.plan, b.progress, b.publish_time, r.state AS run_state,
    CASE WHEN r.state = 'failed' THEN r.error_reason ELSE '' END AS error_reason,
    CASE WHEN r.state = 'failed' THEN r.error_message ELSE '' END AS error_message
"""
_FROM = "corpusmesh.builds b LEFT JOIN corpusmesh.runs r ON r.tenant_id = b.tenant_id AND r.run_id = b.run_id"


async def read_build(
    connection: Connection, tenant_id: str, *, knowledge_base_id: str = "", kind: str = "", build_id: str = ""
) -> asyncpg.Record | None:
    """Read a build by its id, or that of a knowledge base: the living one, else the one that is being removed."""
    found: asyncpg.Record | None = await connection.fetchrow(
        f"SELECT {_COLUMNS} FROM {_FROM} WHERE b.tenant_id = $1"  # noqa: S608 - constants
        " AND ($2 <> '' AND b.build_id = $2 OR $2 = '' AND b.knowledge_base_id = $3 AND b.kind = $4)"
        " ORDER BY b.state = 'deleting', b.build_id DESC LIMIT 1",
        tenant_id,
        build_id,
        knowledge_base_id,
        kind,
    )
    return found


def to_build(row: asyncpg.Record, current: bytes) -> BuildRow:
    """Make the value of a row of `read_build`.

    Args:
        row: The row.
        current: Bitmap of the knowledge base's current snapshot.

    Returns:
        The build.
    """
    return BuildRow(
        tenant_id=row["tenant_id"],
        build_id=row["build_id"],
        knowledge_base_id=row["knowledge_base_id"],
        state=BuildState(row["state"]),
        run_id=row["run_id"],
        is_building=row["run_state"] in LIVING_RUN and row["state"] != BuildState.DELETING,
        ordinals=row["ordinals"],
        published=dump_bitmap(load_bitmap(row["ordinals"]) & load_bitmap(current)),
        sources=row["sources"],
        snapshot_id=row["snapshot_id"],
        artefacts=row["artefacts"],
        figures=row["figures"],
        plan=row["plan"],
        progress=row["progress"],
        error_reason=row["error_reason"],
        error_message=row["error_message"],
        publish_time=row["publish_time"],
    )


async def current_bitmap(connection: Connection, tenant_id: str, knowledge_base_id: str) -> bytes:
    """Read what a knowledge base shows; empty before the first snapshot."""
    ordinals: bytes | None = await connection.fetchval(
        "SELECT s.ordinals FROM corpusmesh.knowledge_bases k JOIN corpusmesh.snapshots s"
        "   ON s.tenant_id = k.tenant_id AND s.knowledge_base_id = k.knowledge_base_id"
        "   AND s.snapshot_id = k.current_snapshot_id"
        " WHERE k.tenant_id = $1 AND k.knowledge_base_id = $2",
        tenant_id,
        knowledge_base_id,
    )
    return ordinals or b""


async def shown_versions(connection: Connection, tenant_id: str, knowledge_base_id: str, current: bytes) -> BitMap:
    """Take the builds out of a snapshot."""
    rows = await connection.fetch(
        "SELECT ordinals FROM corpusmesh.builds WHERE tenant_id = $1 AND knowledge_base_id = $2",
        tenant_id,
        knowledge_base_id,
    )
    return load_bitmap(current) - BitMap().union(*(load_bitmap(row["ordinals"]) for row in rows))


async def start_run(
    connection: Connection,
    tenant_id: str,
    knowledge_base_id: str,
    build_id: str,
    order: RunOrder,
    payload: Mapping[str, str],
) -> str:
    """Begin a run of one task that works on a build.

    Returns:
        Its id.
    """
    run_id = await create_run(connection, tenant_id, knowledge_base_id, order)
    await connection.execute(
        "UPDATE corpusmesh.runs SET result = $3 WHERE tenant_id = $1 AND run_id = $2",
        tenant_id,
        run_id,
        {BUILD: build_id},
    )
    context = await lock_run(connection, tenant_id, run_id)
    assert context is not None, "it was just made"
    await apply_decision(context, machine.extend(context.run, [()], payload=dict(payload)))
    return run_id


async def build_of_run(connection: Connection, claim: Claim) -> asyncpg.Record | None:
    """Read the build that a claim's run works on; None if it is gone."""
    build_id = await connection.fetchval(
        "SELECT result ->> 'build' FROM corpusmesh.runs WHERE tenant_id = $1 AND run_id = $2",
        claim.tenant_id,
        claim.run_id,
    )
    return await read_build(connection, claim.tenant_id, build_id=build_id) if build_id else None


async def publish_build(context: RunTransaction, claim: Claim, change: BuildChange) -> None:
    """Show a build as it was made, in the transaction that ends its last task.

    A build of a knowledge base, or one, that was deleted meanwhile shows nothing. Ordinals that the run has reserved
    stay known, whether a part of it is published under them or not. What was made of a version that was deleted
    meanwhile is hidden by the rule `all`, and removed with the version (ADR-0012).

    Args:
        context: The locked run.
        claim: The claim, which is good.
        change: What was made.
    """
    connection, tenant_id = context.connection, claim.tenant_id
    current = await lock_current(connection, tenant_id, claim.knowledge_base_id)
    row = await connection.fetchrow(
        "SELECT * FROM corpusmesh.builds WHERE tenant_id = $1 AND build_id = $2 AND run_id = $3"
        " AND state <> 'deleting' FOR UPDATE",
        tenant_id,
        change.build_id,
        claim.run_id,
    )
    if row is None or current.state != "active":
        return
    drafted = await _take_drafts(connection, claim, change.build_id)
    nodes = load_bitmap(change.nodes)
    known = load_bitmap(row["ordinals"]) | drafted | nodes
    ordinals, changed = plan_change(current.ordinals, add=nodes, remove=known - nodes)
    versions = (load_bitmap(current.ordinals) - known) - await _others(connection, claim, change.build_id)
    seen_snapshot_id = row["seen_snapshot_id"]
    snapshot_id = current.snapshot_id
    if changed:
        context.messages.append(
            await change_snapshot(
                connection, tenant_id, current, ordinals, reason=BUILD_REASON, created_by=claim.run_id
            )
        )
        snapshot_id = current.last_snapshot_id + 1
    await connection.execute(
        "UPDATE corpusmesh.builds SET state = 'ready', ordinals = $3, nodes = $4, sources = $5, snapshot_id = $6,"
        " seen_snapshot_id = $7, artefacts = $8, figures = $9, publish_time = now(), update_time = now()"
        " WHERE tenant_id = $1 AND build_id = $2",
        tenant_id,
        change.build_id,
        dump_bitmap(known),
        dump_bitmap(nodes),
        change.sources,
        change.snapshot_id,
        # Documents that were published while it was made ask for the next one.
        snapshot_id if versions == load_bitmap(change.sources) else seen_snapshot_id,
        dict(change.artefacts),
        dict(change.figures),
    )


async def withdraw_build(
    connection: Connection,
    row: asyncpg.Record,
    order: RunOrder,
    current: CurrentSnapshot | None,
) -> str:
    """Begin to remove a build whose knowledge base is locked and whose own run was cancelled.

    Args:
        connection: The transaction.
        row: The build, as `read_build` gives it.
        order: How the removal is asked for; its kind is that of removals.
        current: What its knowledge base shows; None where it shows nothing any more.

    Returns:
        The run that removes it.
    """
    tenant_id, knowledge_base_id = row["tenant_id"], row["knowledge_base_id"]
    run_id = await start_run(connection, tenant_id, knowledge_base_id, row["build_id"], order, {})
    await connection.execute(
        "UPDATE corpusmesh.builds SET state = 'deleting', run_id = $3, update_time = now()"
        " WHERE tenant_id = $1 AND build_id = $2",
        tenant_id,
        row["build_id"],
        run_id,
    )
    if current is not None:
        ordinals, changed = plan_change(current.ordinals, remove=load_bitmap(row["ordinals"]))
        if changed:
            event = await change_snapshot(
                connection, tenant_id, current, ordinals, reason=BUILD_REASON, created_by=run_id
            )
            await send_messages(connection, tenant_id, dict(order.headers or {}), [event])
    return run_id


async def remove_builds(connection: Connection, tenant_id: str, knowledge_base_id: str, user_id: str) -> None:
    """Begin to remove the builds of a knowledge base that is being deleted, is locked, and whose runs are cancelled."""
    rows = await connection.fetch(
        "SELECT * FROM corpusmesh.builds WHERE tenant_id = $1 AND knowledge_base_id = $2 AND state <> 'deleting'"
        " FOR UPDATE",
        tenant_id,
        knowledge_base_id,
    )
    for row in rows:
        await withdraw_build(connection, row, RunOrder(KINDS[row["kind"]].removal, user_id), None)


async def forget_ordinals(connection: Connection, row: asyncpg.Record, ordinals: Sequence[int]) -> None:
    """Take ordinals whose records are gone out of a locked build; one that is being deleted goes with its last one."""
    tenant_id, build_id = row["tenant_id"], row["build_id"]
    gone = BitMap(ordinals)
    left = load_bitmap(row["ordinals"]) - gone
    await connection.execute(
        "UPDATE corpusmesh.builds SET ordinals = $3, update_time = now() WHERE tenant_id = $1 AND build_id = $2",
        tenant_id,
        build_id,
        dump_bitmap(left.copy()),
    )
    drafts = await connection.fetch(
        "SELECT * FROM corpusmesh.build_drafts WHERE tenant_id = $1 AND build_id = $2", tenant_id, build_id
    )
    for draft in drafts:
        await _shorten(connection, draft, gone)
    if row["state"] != BuildState.DELETING:
        return
    await _forget_everywhere(connection, tenant_id, row["knowledge_base_id"], gone)
    if not left:
        await connection.execute(
            "DELETE FROM corpusmesh.builds b WHERE b.tenant_id = $1 AND b.build_id = $2 AND NOT EXISTS ("
            "   SELECT FROM corpusmesh.build_drafts d WHERE d.tenant_id = $1 AND d.build_id = $2)",
            tenant_id,
            build_id,
        )


async def drafts_of(connection: Connection, row: asyncpg.Record, run_id: str) -> BitMap:
    """Give what was reserved for a build by runs that are over; that of `run_id`, which sweeps, is."""
    rows = await connection.fetch(
        "SELECT d.first_ordinal, d.ordinal_count FROM corpusmesh.build_drafts d"
        " LEFT JOIN corpusmesh.runs r ON r.tenant_id = d.tenant_id AND r.run_id = d.run_id"
        " WHERE d.tenant_id = $1 AND d.build_id = $2 AND ($3 OR d.run_id = $4 OR r.state IS NULL"
        "   OR NOT r.state = ANY ($5))",
        row["tenant_id"],
        row["build_id"],
        row["state"] == BuildState.DELETING,
        run_id,
        list(LIVING_RUN),
    )
    return BitMap().union(*(_range(draft) for draft in rows))


async def tell(context: RunTransaction, claim: Claim) -> None:
    """Let those who watch a run know that something of it moved."""
    sequence = await context.connection.fetchval(
        "UPDATE corpusmesh.runs SET sequence = sequence + 1 WHERE tenant_id = $1 AND run_id = $2 RETURNING sequence",
        claim.tenant_id,
        claim.run_id,
    )
    body = {
        "tenant_id": claim.tenant_id,
        "run": f"knowledgeBases/{claim.knowledge_base_id}/runs/{claim.run_id}",
        "stage": str(claim.stage),
        "state": str(context.run.state),
        "sequence": sequence,
    }
    subject = f"events.run.{claim.tenant_id}.{claim.run_id}"
    await send_messages(
        context.connection, claim.tenant_id, context.headers, [(subject, json.dumps(body).encode(), 0.0)]
    )


async def _take_drafts(connection: Connection, claim: Claim, build_id: str) -> BitMap:
    rows = await connection.fetch(
        "DELETE FROM corpusmesh.build_drafts WHERE tenant_id = $1 AND build_id = $2 AND run_id = $3"
        " RETURNING first_ordinal, ordinal_count",
        claim.tenant_id,
        build_id,
        claim.run_id,
    )
    return BitMap().union(*(_range(row) for row in rows))


async def _others(connection: Connection, claim: Claim, build_id: str) -> BitMap:
    rows = await connection.fetch(
        "SELECT ordinals FROM corpusmesh.builds WHERE tenant_id = $1 AND knowledge_base_id = $2 AND build_id <> $3",
        claim.tenant_id,
        claim.knowledge_base_id,
        build_id,
    )
    return BitMap().union(*(load_bitmap(row["ordinals"]) for row in rows))


async def _shorten(connection: Connection, draft: asyncpg.Record, gone: BitMap) -> None:
    """Keep of a reserved range what is not gone; sweeps go upwards, so that one range is left at most."""
    left = _range(draft) - gone
    key = (draft["tenant_id"], draft["build_id"], draft["run_id"], draft["slot"])
    if not left:
        await connection.execute(
            "DELETE FROM corpusmesh.build_drafts WHERE tenant_id = $1 AND build_id = $2 AND run_id = $3 AND slot = $4",
            *key,
        )
    elif len(left) < draft["ordinal_count"]:
        await connection.execute(
            "UPDATE corpusmesh.build_drafts SET first_ordinal = $5, ordinal_count = $6"
            " WHERE tenant_id = $1 AND build_id = $2 AND run_id = $3 AND slot = $4",
            *key,
            left.min(),
            left.max() - left.min() + 1,
        )


async def _forget_everywhere(connection: Connection, tenant_id: str, knowledge_base_id: str, gone: BitMap) -> None:
    """Take what is removed for good out of earlier snapshots, where nothing but its number was left."""
    rows = await connection.fetch(
        "SELECT snapshot_id, ordinals FROM corpusmesh.snapshots WHERE tenant_id = $1 AND knowledge_base_id = $2"
        " FOR UPDATE",
        tenant_id,
        knowledge_base_id,
    )
    for row in rows:
        before = load_bitmap(row["ordinals"])
        if before.isdisjoint(gone):
            continue
        await connection.execute(
            "UPDATE corpusmesh.snapshots SET ordinals = $4"
            " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND snapshot_id = $3",
            tenant_id,
            knowledge_base_id,
            row["snapshot_id"],
            dump_bitmap(before - gone),
        )


def _range(draft: asyncpg.Record) -> BitMap:
    return BitMap(range(draft["first_ordinal"], draft["first_ordinal"] + draft["ordinal_count"]))
