"""Uploads become documents and versions, a whole group with a few statements."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from corpusmesh_adapters.postgres.database import Connection
from corpusmesh_adapters.postgres.rows import VERSION_COLUMNS, metadata_columns, to_version
from corpusmesh_core.errors import OverloadedError
from corpusmesh_core.ports.runs import IngestOptions
from corpusmesh_core.tenancy.identity import Identity
from corpusmesh_core.tenancy.values import AclEntry, DuplicatePolicy, MetadataValue, Upload, VersionRow

MAX_ORDINAL = 2**31 - 1


async def write_uploads(
    connection: Connection,
    identity: Identity,
    knowledge_base_id: str,
    uploads: Sequence[Upload],
    options: IngestOptions,
    run_id: str,
    restore: Callable[[Sequence[str]], Awaitable[None]],
) -> tuple[list[VersionRow], list[bool]]:
    """Make a version of each upload, or find that its bytes are there already.

    Args:
        connection: Transaction of the caller's tenant.
        identity: Caller, who may write.
        knowledge_base_id: Where to.
        uploads: Originals; each document once.
        options: What to do with bytes that are there, and with what configuration versions are made.
        run_id: Run that makes the versions searchable.
        restore: Puts originals back that a purge may have removed since they were stored.

    Returns:
        A version for each upload in its order, and whether it was there already.
    """
    if not uploads:
        return [], []
    existing = {}
    if options.on_duplicate is DuplicatePolicy.SKIP:
        existing = await _find_same(connection, identity.tenant_id, knowledge_base_id, uploads, options)
    fresh = [upload for upload in uploads if upload.document_id not in existing]
    made: dict[str, VersionRow] = {}
    if fresh:
        hashes = [upload.original_sha256 for upload in fresh]
        await lock_originals(connection, identity.tenant_id, hashes)
        if purgeable := await purgeable_originals(connection, identity.tenant_id, hashes):
            await restore(purgeable)
        made = await _insert(connection, identity, knowledge_base_id, fresh, options, run_id)
        await _describe(connection, identity.tenant_id, knowledge_base_id, fresh)
    versions = [existing.get(upload.document_id) or made[upload.document_id] for upload in uploads]
    return versions, [upload.document_id in existing for upload in uploads]


async def _find_same(
    connection: Connection,
    tenant_id: str,
    knowledge_base_id: str,
    uploads: Sequence[Upload],
    options: IngestOptions,
) -> dict[str, VersionRow]:
    """Find uploads whose bytes and configuration are those of their document's newest version, done or under way."""
    rows = await connection.fetch(
        f"SELECT {VERSION_COLUMNS} FROM unnest($3::text[], $4::text[]) AS u(document_id, sha256)"  # noqa: S608
        " JOIN corpusmesh.documents d ON d.tenant_id = $1 AND d.knowledge_base_id = $2"
        "   AND d.document_id = u.document_id AND d.state = 'active'"
        " JOIN corpusmesh.versions v ON v.tenant_id = $1 AND v.knowledge_base_id = $2"
        "   AND v.document_id = u.document_id AND v.version = d.latest_version"
        " WHERE v.original_sha256 = u.sha256 AND v.config_hash = $5"
        "   AND v.state NOT IN ('failed', 'cancelled', 'purged')",
        tenant_id,
        knowledge_base_id,
        [upload.document_id for upload in uploads],
        [upload.original_sha256 for upload in uploads],
        options.config_hash,
    )
    return {row["document_id"]: to_version(row) for row in rows}


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


async def _insert(
    connection: Connection,
    identity: Identity,
    knowledge_base_id: str,
    uploads: Sequence[Upload],
    options: IngestOptions,
    run_id: str,
) -> dict[str, VersionRow]:
    # Sorted, so that two groups with the same documents lock them in the same order.
    uploads = sorted(uploads, key=lambda upload: upload.document_id)
    documents = await connection.fetch(
        "INSERT INTO corpusmesh.documents AS d (tenant_id, knowledge_base_id, document_id, display_name, source_uri,"
        " title, latest_version, created_by)"
        " SELECT $1, $2, u.document_id, u.display_name, u.source_uri, u.title, 1, $3"
        " FROM unnest($4::text[], $5::text[], $6::text[], $7::text[])"
        "   AS u(document_id, display_name, source_uri, title)"
        " ON CONFLICT (tenant_id, knowledge_base_id, document_id) DO UPDATE SET"
        "   latest_version = d.latest_version + 1, display_name = excluded.display_name,"
        "   source_uri = excluded.source_uri,"
        "   title = CASE WHEN excluded.title = '' AND d.state = 'active' THEN d.title ELSE excluded.title END,"
        "   state = 'active', acl_restricted = d.acl_restricted AND d.state = 'active', update_time = now()"
        " RETURNING document_id, latest_version",
        identity.tenant_id,
        knowledge_base_id,
        identity.user_id,
        [upload.document_id for upload in uploads],
        [upload.display_name for upload in uploads],
        [upload.source_uri for upload in uploads],
        [upload.title for upload in uploads],
    )
    number = {row["document_id"]: row["latest_version"] for row in documents}
    first_ordinal = await allocate_ordinals(connection, identity.tenant_id, len(uploads))
    rows = await connection.fetch(
        "INSERT INTO corpusmesh.versions AS v (tenant_id, ordinal, knowledge_base_id, document_id, version,"  # noqa: S608
        " display_name, original_sha256, size_bytes, media_type, title, config_hash, run_id, state)"
        " SELECT $1, $2 + u.place - 1, $3, u.document_id, u.version, u.display_name, u.sha256, u.size_bytes,"
        "   u.media_type, u.title, $4, $5, 'pending'"
        " FROM unnest($6::text[], $7::int[], $8::text[], $9::text[], $10::bigint[], $11::text[], $12::text[])"
        "   WITH ORDINALITY AS u(document_id, version, display_name, sha256, size_bytes, media_type, title, place)"
        f" RETURNING {VERSION_COLUMNS}",
        identity.tenant_id,
        first_ordinal,
        knowledge_base_id,
        options.config_hash,
        run_id,
        [upload.document_id for upload in uploads],
        [number[upload.document_id] for upload in uploads],
        [upload.display_name for upload in uploads],
        [upload.original_sha256 for upload in uploads],
        [upload.size_bytes for upload in uploads],
        [upload.media_type for upload in uploads],
        [upload.title for upload in uploads],
    )
    return {row["document_id"]: to_version(row) for row in rows}


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


async def _describe(connection: Connection, tenant_id: str, knowledge_base_id: str, uploads: Sequence[Upload]) -> None:
    for upload in uploads:
        if upload.metadata is not None:
            await replace_metadata(connection, tenant_id, knowledge_base_id, upload.document_id, upload.metadata)
        if upload.acl is not None:
            await replace_acl(connection, tenant_id, knowledge_base_id, upload.document_id, upload.acl)


async def replace_metadata(
    connection: Connection,
    tenant_id: str,
    knowledge_base_id: str,
    document_id: str,
    metadata: Mapping[str, MetadataValue],
) -> None:
    """Set all metadata of a document."""
    values = [(key, *metadata_columns(value)) for key, value in metadata.items()]
    await connection.execute(
        "DELETE FROM corpusmesh.document_metadata"
        " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = $3 AND NOT key = ANY ($4)",
        tenant_id,
        knowledge_base_id,
        document_id,
        [value[0] for value in values],
    )
    await connection.execute(
        "INSERT INTO corpusmesh.document_metadata"
        " (tenant_id, knowledge_base_id, document_id, key, value_text, value_number, value_time)"
        " SELECT $1, $2, $3, m.* FROM unnest($4::text[], $5::text[], $6::float8[], $7::timestamptz[]) AS m"
        " ON CONFLICT (tenant_id, knowledge_base_id, document_id, key) DO UPDATE SET value_text = excluded.value_text,"
        "   value_number = excluded.value_number, value_time = excluded.value_time",
        tenant_id,
        knowledge_base_id,
        document_id,
        [value[0] for value in values],
        [value[1] for value in values],
        [value[2] for value in values],
        [value[3] for value in values],
    )


async def replace_acl(
    connection: Connection, tenant_id: str, knowledge_base_id: str, document_id: str, acl: Sequence[AclEntry]
) -> None:
    """Set a document's access list; it binds the next request, and every cache key with the policy epoch changes."""
    await connection.execute(
        "DELETE FROM corpusmesh.document_acl WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = $3",
        tenant_id,
        knowledge_base_id,
        document_id,
    )
    await connection.execute(
        "INSERT INTO corpusmesh.document_acl"
        " (tenant_id, knowledge_base_id, document_id, principal_kind, principal_id, effect)"
        " SELECT $1, $2, $3, a.* FROM unnest($4::text[], $5::text[], $6::text[]) AS a ON CONFLICT DO NOTHING",
        tenant_id,
        knowledge_base_id,
        document_id,
        [entry.principal_kind for entry in acl],
        [entry.principal_id for entry in acl],
        [entry.effect for entry in acl],
    )
    await connection.execute(
        "UPDATE corpusmesh.documents SET acl_restricted = $4, update_time = now()"
        " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = $3",
        tenant_id,
        knowledge_base_id,
        document_id,
        any(entry.effect == "allow" for entry in acl),
    )
    await connection.execute(
        "UPDATE corpusmesh.knowledge_bases SET policy_epoch = policy_epoch + 1"
        " WHERE tenant_id = $1 AND knowledge_base_id = $2",
        tenant_id,
        knowledge_base_id,
    )
