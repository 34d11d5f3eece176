"""Values found in documents become their metadata with the version that they were found in, and go with it."""

from collections.abc import Sequence

from corpusmesh_adapters.postgres.database import Connection
from corpusmesh_adapters.postgres.rows import metadata_columns, metadata_from_json


async def set_extracted_metadata(connection: Connection, tenant_id: str, ordinals: Sequence[int]) -> None:
    """Let documents have the values that were found in versions which become visible.

    Values that people gave stay; values that were found in the version shown before go.

    Args:
        connection: Transaction that holds the lock of the knowledge base.
        tenant_id: Tenant.
        ordinals: Versions, and builds, which have none.
    """
    rows = await connection.fetch(
        "SELECT v.knowledge_base_id, v.document_id, v.extracted_metadata FROM corpusmesh.versions v"
        " WHERE v.tenant_id = $1 AND v.ordinal = ANY ($2) AND (v.extracted_metadata <> '{}'"
        "   OR EXISTS (SELECT FROM corpusmesh.document_metadata m WHERE m.tenant_id = v.tenant_id"
        "     AND m.knowledge_base_id = v.knowledge_base_id AND m.document_id = v.document_id AND m.is_extracted))"
        " ORDER BY v.document_id",
        tenant_id,
        list(ordinals),
    )
    if not rows:
        return
    values = [
        (row["knowledge_base_id"], row["document_id"], key, *metadata_columns(value))
        for row in rows
        for key, value in sorted(metadata_from_json(row["extracted_metadata"]).items())
    ]
    await connection.execute(
        "DELETE FROM corpusmesh.document_metadata m"
        " USING unnest($2::text[], $3::text[]) AS d(knowledge_base_id, document_id)"
        " WHERE m.tenant_id = $1 AND m.knowledge_base_id = d.knowledge_base_id AND m.document_id = d.document_id"
        " AND m.is_extracted AND NOT EXISTS (SELECT FROM unnest($4::text[], $5::text[]) AS k(document_id, key)"
        "   WHERE k.document_id = m.document_id AND k.key = m.key)",
        tenant_id,
        [row["knowledge_base_id"] for row in rows],
        [row["document_id"] for row in rows],
        [value[1] for value in values],
        [value[2] for value in values],
    )
    await connection.execute(
        "INSERT INTO corpusmesh.document_metadata AS m"
        " (tenant_id, knowledge_base_id, document_id, key, value_text, value_number, value_time, is_extracted)"
        " SELECT $1, v.*, true FROM"
        "   unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::float8[], $7::timestamptz[]) AS v"
        " ON CONFLICT (tenant_id, knowledge_base_id, document_id, key) DO UPDATE SET value_text = excluded.value_text,"
        "   value_number = excluded.value_number, value_time = excluded.value_time WHERE m.is_extracted",
        tenant_id,
        *([value[column] for value in values] for column in range(6)),
    )
