"""Uploads become documents and versions, a whole group with a few statements."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from corpusmesh_adapters.postgres.database import Connection
from corpusmesh_adapters.postgres.duplicates import resolve_uploads
from corpusmesh_adapters.postgres.originals import allocate_ordinals, lock_originals, purgeable_originals
from corpusmesh_adapters.postgres.rows import VERSION_COLUMNS, metadata_columns, to_version
from corpusmesh_core.ports.runs import IngestOptions
from corpusmesh_core.tenancy.identity import Identity
from corpusmesh_core.tenancy.values import AclEntry, KnowledgeBase, MetadataValue, Upload, VersionRow


async def write_uploads(
    connection: Connection,
    identity: Identity,
    knowledge_base: KnowledgeBase,
    uploads: Sequence[Upload],
    options: IngestOptions,
    run_id: str,
    restore: Callable[[Sequence[str]], Awaitable[None]],
) -> tuple[list[VersionRow], list[bool]]:
    """Make a version of each upload, or find that its bytes are there already.

    Args:
        connection: Transaction of the caller's tenant.
        identity: Caller, who may write.
        knowledge_base: Where to.
        uploads: Originals.
        options: What to do with bytes and names that are there, and with what configuration versions are made.
        run_id: Run that makes the versions searchable.
        restore: Puts originals back that a purge may have removed since they were stored.

    Returns:
        A version for each upload in its order, and whether it was there already.
    """
    if not uploads:
        return [], []
    resolved = await resolve_uploads(connection, identity, knowledge_base, uploads, options, run_id)
    fresh = [entry.upload for entry in resolved if entry.existing is None and entry.same_as < 0]
    made: dict[str, VersionRow] = {}
    if fresh:
        hashes = [upload.original_sha256 for upload in fresh]
        await lock_originals(connection, identity.tenant_id, hashes)
        if purgeable := await purgeable_originals(connection, identity.tenant_id, hashes):
            await restore(purgeable)
        made = await _insert(connection, identity, knowledge_base.knowledge_base_id, fresh, options, run_id)
        await _describe(connection, identity.tenant_id, knowledge_base.knowledge_base_id, fresh)
    versions: list[VersionRow] = []
    for entry in resolved:
        own = versions[entry.same_as] if entry.same_as >= 0 else entry.existing
        versions.append(own or made[entry.upload.document_id])
    return versions, [entry.existing is not None or entry.same_as >= 0 for entry in resolved]


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
        # What a person set for this document alone holds for its next version too.
        "INSERT INTO corpusmesh.versions AS v (tenant_id, ordinal, knowledge_base_id, document_id, version,"  # noqa: S608
        " display_name, original_sha256, size_bytes, media_type, title, config_hash, run_id, state, config,"
        " sealed_password)"
        " SELECT $1, $2 + u.place - 1, $3, u.document_id, u.version, u.display_name, u.sha256, u.size_bytes,"
        "   u.media_type, u.title, $4, $5, 'pending', coalesce(p.config, '{}'), u.sealed_password"
        " FROM unnest($6::text[], $7::int[], $8::text[], $9::text[], $10::bigint[], $11::text[], $12::text[],"
        "   $13::bytea[]) WITH ORDINALITY AS u(document_id, version, display_name, sha256, size_bytes, media_type,"
        "   title, sealed_password, place)"
        " LEFT JOIN corpusmesh.versions p ON p.tenant_id = $1 AND p.knowledge_base_id = $3"
        "   AND p.document_id = u.document_id AND p.version = u.version - 1 AND p.state <> 'purged'"
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
        [upload.sealed_password for upload in uploads],
    )
    return {row["document_id"]: to_version(row) for row in rows}


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
    """Set all metadata that people gave a document; what was found in it stays unless they give another value."""
    values = [(key, *metadata_columns(value)) for key, value in metadata.items()]
    await connection.execute(
        "DELETE FROM corpusmesh.document_metadata"
        " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = $3 AND NOT key = ANY ($4)"
        " AND NOT is_extracted",
        tenant_id,
        knowledge_base_id,
        document_id,
        [value[0] for value in values],
    )
    await connection.execute(
        "INSERT INTO corpusmesh.document_metadata AS d"
        " (tenant_id, knowledge_base_id, document_id, key, value_text, value_number, value_time)"
        " SELECT $1, $2, $3, m.* FROM unnest($4::text[], $5::text[], $6::float8[], $7::timestamptz[]) AS m"
        " ON CONFLICT (tenant_id, knowledge_base_id, document_id, key) DO UPDATE SET value_text = excluded.value_text,"
        "   value_number = excluded.value_number, value_time = excluded.value_time,"
        "   is_extracted = d.is_extracted AND d.value_text = excluded.value_text",
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
