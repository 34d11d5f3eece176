"""The one row that readers see: lock it, plan with the pure rules, replace it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from corpusmesh_adapters.postgres.database import Connection
from corpusmesh_adapters.postgres.extracted_metadata import set_extracted_metadata
from corpusmesh_core.tenancy.publishing import VersionRef, load_bitmap, plan_publish

KEPT_SNAPSHOT_COUNT = 200
"""Snapshots of a knowledge base that can be returned to; of the steps of one run the last one counts alone."""
BUILD_REASON = "build"
"""Reason of a snapshot that differs from the one before in ordinals of builds alone."""
KEPT_STEP_SECONDS = 900
"""How long every step of a run is kept, for readers who turn its pages."""

# A long run makes hundreds of snapshots: they must not push out what was before it.
_PRUNE = """
    marked AS (
        SELECT s.snapshot_id, s.create_time,
            lead(s.snapshot_id) OVER (PARTITION BY s.created_by, s.reason ORDER BY s.snapshot_id) IS NOT NULL
                AND EXISTS (SELECT FROM corpusmesh.runs r WHERE r.tenant_id = $1 AND r.run_id = s.created_by) AS is_step
        FROM corpusmesh.snapshots s WHERE s.tenant_id = $1 AND s.knowledge_base_id = $2
    ), pruned AS (
        DELETE FROM corpusmesh.snapshots s USING marked m
        WHERE s.tenant_id = $1 AND s.knowledge_base_id = $2 AND s.snapshot_id = m.snapshot_id
          AND m.create_time < now() - make_interval(secs => $9)
          AND (m.is_step OR m.snapshot_id <= (
            SELECT o.snapshot_id FROM marked o WHERE NOT o.is_step
            ORDER BY o.snapshot_id DESC OFFSET $8::int - 1 LIMIT 1))
    )
"""


@dataclass(frozen=True, slots=True)
class CurrentSnapshot:
    """A locked knowledge base and its current snapshot.

    Attributes:
        knowledge_base_id: The knowledge base.
        state: Its life.
        snapshot_id: Its current snapshot; 0 for none.
        last_snapshot_id: Highest id given away.
        ordinals: Bitmap; empty for none.
    """

    knowledge_base_id: str
    state: str
    snapshot_id: int
    last_snapshot_id: int
    ordinals: bytes


async def lock_current(connection: Connection, tenant_id: str, knowledge_base_id: str) -> CurrentSnapshot:
    """Lock a knowledge base that exists, so that publishing goes one by one."""
    row = await connection.fetchrow(
        "SELECT state, current_snapshot_id, last_snapshot_id FROM corpusmesh.knowledge_bases"
        " WHERE tenant_id = $1 AND knowledge_base_id = $2 FOR UPDATE",
        tenant_id,
        knowledge_base_id,
    )
    assert row is not None, "knowledge bases are never removed"
    # A statement of its own: one that had waited for the lock would still read the snapshot of before.
    ordinals = await connection.fetchval(
        "SELECT ordinals FROM corpusmesh.snapshots"
        " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND snapshot_id = $3",
        tenant_id,
        knowledge_base_id,
        row["current_snapshot_id"],
    )
    return CurrentSnapshot(
        knowledge_base_id, row["state"], row["current_snapshot_id"], row["last_snapshot_id"], ordinals or b""
    )


async def change_snapshot(
    connection: Connection, tenant_id: str, current: CurrentSnapshot, ordinals: bytes, *, reason: str, created_by: str
) -> tuple[str, bytes, float]:
    """Replace the current snapshot of a locked knowledge base, and the metadata found in what it shows.

    Returns:
        The event to put into the outbox.
    """
    snapshot_id = current.last_snapshot_id + 1
    await connection.execute(
        "WITH kept AS (INSERT INTO corpusmesh.snapshots"  # noqa: S608 - a constant
        "   (tenant_id, knowledge_base_id, snapshot_id, parent_id, ordinals, reason, created_by)"
        f"   VALUES ($1, $2, $3, $4, $5, $6, $7)), {_PRUNE}"
        " UPDATE corpusmesh.knowledge_bases SET current_snapshot_id = $3, last_snapshot_id = $3"
        " WHERE tenant_id = $1 AND knowledge_base_id = $2",
        tenant_id,
        current.knowledge_base_id,
        snapshot_id,
        current.snapshot_id,
        ordinals,
        reason,
        created_by,
        KEPT_SNAPSHOT_COUNT,
        KEPT_STEP_SECONDS,
    )
    added = load_bitmap(ordinals) - load_bitmap(current.ordinals)
    # Of builds there may be hundreds of thousands, and nothing was found in them.
    if added and reason != BUILD_REASON:
        await set_extracted_metadata(connection, tenant_id, added.to_array().tolist())
    body = {
        "tenant_id": tenant_id,
        "snapshot": f"knowledgeBases/{current.knowledge_base_id}/snapshots/{snapshot_id}",
        "reason": reason,
    }
    return f"events.kb.published.{tenant_id}.{current.knowledge_base_id}", json.dumps(body).encode(), 0.0


async def load_refs(
    connection: Connection, tenant_id: str, ordinals: Sequence[int]
) -> tuple[list[VersionRef], frozenset[int]]:
    """Read all versions of the documents of some versions, and which of them may be shown (again)."""
    rows = await connection.fetch(
        "SELECT v.ordinal, v.document_id, v.version, v.superseded_ordinal,"
        " v.state = 'ready' AND v.publish_time IS NOT NULL AND d.state = 'active' AS restorable"
        " FROM corpusmesh.versions v JOIN corpusmesh.documents d USING (tenant_id, knowledge_base_id, document_id)"
        " WHERE v.tenant_id = $1 AND (v.knowledge_base_id, v.document_id) IN ("
        "   SELECT knowledge_base_id, document_id FROM corpusmesh.versions"
        "   WHERE tenant_id = $1 AND ordinal = ANY ($2))",
        tenant_id,
        list(ordinals),
    )
    refs = [VersionRef(row["ordinal"], row["document_id"], row["version"], row["superseded_ordinal"]) for row in rows]
    return refs, frozenset(row["ordinal"] for row in rows if row["restorable"])


async def publish_waiting(
    connection: Connection, tenant_id: str, knowledge_base_id: str, ordinals: Sequence[int], *, run_id: str
) -> list[tuple[str, bytes, float]]:
    """Publish those of the given versions that may be, of whatever run, in one snapshot.

    Args:
        connection: Transaction that holds the lock of the run.
        tenant_id: Tenant.
        knowledge_base_id: Knowledge base.
        ordinals: Versions whose records the index was seen to hold.
        run_id: Run in whose name it happens.

    Returns:
        Events to put into the outbox; none if nothing changed.
    """
    current = await lock_current(connection, tenant_id, knowledge_base_id)
    rows = await connection.fetch(
        "SELECT v.ordinal, v.document_id, v.version"
        " FROM corpusmesh.versions v"
        " JOIN corpusmesh.documents d USING (tenant_id, knowledge_base_id, document_id)"
        " JOIN corpusmesh.runs r ON r.tenant_id = v.tenant_id AND r.run_id = v.run_id"
        " WHERE v.tenant_id = $1 AND v.knowledge_base_id = $2 AND v.ordinal = ANY ($3) AND v.state = 'ready'"
        " AND v.publish_time IS NULL AND d.state = 'active' AND r.state NOT IN ('cancelling', 'cancelled')"
        " AND (NOT r.hold_publish OR r.run_id = $4)",
        tenant_id,
        knowledge_base_id,
        list(ordinals),
        run_id,
    )
    if not rows or current.state != "active":
        return []
    candidates = [VersionRef(row["ordinal"], row["document_id"], row["version"]) for row in rows]
    siblings, _ = await load_refs(connection, tenant_id, [ref.ordinal for ref in candidates])
    plan = plan_publish(current.ordinals, candidates, siblings)
    superseded = list(plan.superseded.items())
    await connection.execute(
        "WITH chain AS (UPDATE corpusmesh.versions v SET superseded_ordinal = s.lower,"
        "   publish_time = CASE WHEN v.ordinal = ANY ($2) THEN now() ELSE v.publish_time END"
        "   FROM unnest($3::int[], $4::int[]) AS s(upper, lower)"
        "   WHERE v.tenant_id = $1 AND v.ordinal = s.upper)"
        " UPDATE corpusmesh.versions SET publish_time = now()"
        " WHERE tenant_id = $1 AND ordinal = ANY ($2) AND NOT ordinal = ANY ($3)",
        tenant_id,
        [ref.ordinal for ref in candidates],
        [upper for upper, _ in superseded],
        [lower for _, lower in superseded],
    )
    if not plan.changed:
        return []
    event = await change_snapshot(connection, tenant_id, current, plan.ordinals, reason="publish", created_by=run_id)
    return [event]
