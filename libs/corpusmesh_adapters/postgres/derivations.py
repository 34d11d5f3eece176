"""New versions from originals that documents have already: other settings, people's edits (ADR-0008)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap

from corpusmesh_adapters.postgres.chunk_edits import add_edits, withdraw_edits
from corpusmesh_adapters.postgres.database import Connection
from corpusmesh_adapters.postgres.guards import visibility_arguments, visible_document
from corpusmesh_adapters.postgres.originals import allocate_ordinals
from corpusmesh_adapters.postgres.rows import VERSION_COLUMNS, to_version
from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from corpusmesh_core.ports.runs import Derivation, IngestOptions
from corpusmesh_core.tenancy.access import document_not_found
from corpusmesh_core.tenancy.identity import Identity
from corpusmesh_core.tenancy.publishing import load_bitmap
from corpusmesh_core.tenancy.values import KnowledgeBase, VersionRow


@dataclass(frozen=True, slots=True)
class _Document:
    display_name: str
    title: str
    next_version: int


async def write_derivations(
    connection: Connection,
    identity: Identity,
    knowledge_base: KnowledgeBase,
    derivations: Sequence[Derivation],
    options: IngestOptions,
    run_id: str,
) -> tuple[list[VersionRow], list[bool]]:
    """Make a new version for each derivation.

    Args:
        connection: Transaction of the caller's tenant.
        identity: Caller, who may write.
        knowledge_base: Knowledge base.
        derivations: What to make.
        options: With what configuration.
        run_id: Run that makes the versions searchable; a document of which it has made one already is left alone.

    Returns:
        A version for each derivation in its order, and whether the run had made it already.

    Raises:
        InvalidArgumentError: DOCUMENT_TWICE if a document occurs twice.
    """
    document_ids = [derivation.document_id for derivation in derivations]
    if len(set(document_ids)) != len(document_ids):
        raise InvalidArgumentError("DOCUMENT_TWICE", "a call names a document twice; name it once")
    documents = await _lock_documents(connection, identity, knowledge_base, document_ids)
    for document_id in document_ids:
        if document_id not in documents:
            raise document_not_found(document_id)
    versions = await _versions(connection, knowledge_base, document_ids)
    published = await _published(connection, knowledge_base)
    made = {
        document_id: version
        for document_id, rows in versions.items()
        for version in rows.values()
        if version.run_id == run_id
    }
    wanted = [derivation for derivation in derivations if derivation.document_id not in made]
    pairs = [(derivation, _base(derivation, versions, published)) for derivation in wanted]
    fresh = await _insert(connection, knowledge_base, pairs, documents, options, run_id)
    for derivation in wanted:
        version = fresh[derivation.document_id]
        await withdraw_edits(
            connection,
            identity.tenant_id,
            knowledge_base.knowledge_base_id,
            derivation.document_id,
            ordinal=version.ordinal,
            edit_ids=derivation.withdrawn,
        )
        await add_edits(
            connection,
            identity,
            knowledge_base.knowledge_base_id,
            derivation.document_id,
            seen_version=derivation.seen_version,
            ordinal=version.ordinal,
            edits=derivation.edits,
        )
    rows = [made.get(document_id) or fresh[document_id] for document_id in document_ids]
    return rows, [document_id in made for document_id in document_ids]


async def _lock_documents(
    connection: Connection, identity: Identity, knowledge_base: KnowledgeBase, document_ids: Sequence[str]
) -> dict[str, _Document]:
    # In order of id, so that two groups with the same documents lock them in the same order.
    rows = await connection.fetch(
        "SELECT d.document_id, d.display_name, d.title, d.latest_version"  # noqa: S608 - constants
        " FROM corpusmesh.documents d WHERE d.tenant_id = $1 AND d.knowledge_base_id = $2 AND d.document_id = ANY ($3)"
        f" AND {visible_document(4)} ORDER BY d.document_id FOR UPDATE OF d",
        identity.tenant_id,
        knowledge_base.knowledge_base_id,
        list(document_ids),
        *visibility_arguments(identity, knowledge_base.owner_user_id),
    )
    return {row["document_id"]: _Document(row["display_name"], row["title"], row["latest_version"] + 1) for row in rows}


async def _versions(
    connection: Connection, knowledge_base: KnowledgeBase, document_ids: Sequence[str]
) -> dict[str, dict[int, VersionRow]]:
    rows = await connection.fetch(
        f"SELECT {VERSION_COLUMNS} FROM corpusmesh.versions v WHERE v.tenant_id = $1"  # noqa: S608 - constants
        " AND v.knowledge_base_id = $2 AND v.document_id = ANY ($3) AND v.state <> 'purged' ORDER BY v.version",
        knowledge_base.tenant_id,
        knowledge_base.knowledge_base_id,
        list(document_ids),
    )
    versions: dict[str, dict[int, VersionRow]] = {}
    for version in map(to_version, rows):
        versions.setdefault(version.document_id, {})[version.version] = version
    return versions


async def _published(connection: Connection, knowledge_base: KnowledgeBase) -> BitMap:
    ordinals = await connection.fetchval(
        "SELECT s.ordinals FROM corpusmesh.snapshots s JOIN corpusmesh.knowledge_bases k"
        "   ON k.tenant_id = s.tenant_id AND k.knowledge_base_id = s.knowledge_base_id"
        "   AND k.current_snapshot_id = s.snapshot_id"
        " WHERE s.tenant_id = $1 AND s.knowledge_base_id = $2",
        knowledge_base.tenant_id,
        knowledge_base.knowledge_base_id,
    )
    return load_bitmap(ordinals or b"")


def _base(derivation: Derivation, versions: Mapping[str, Mapping[int, VersionRow]], published: BitMap) -> VersionRow:
    rows = versions.get(derivation.document_id, {})
    if derivation.version:
        base = rows.get(derivation.version)
    else:
        base = next((row for row in rows.values() if row.ordinal in published), None)
        base = base or (rows[max(rows)] if rows else None)
    if base is None or (derivation.seen_version and derivation.seen_version not in rows):
        raise NotFoundError("VERSION_NOT_FOUND", "there is no such version, or you may not see it")
    if derivation.seen_version and rows[derivation.seen_version].original_sha256 != base.original_sha256:
        raise FailedPreconditionError(
            "CHUNK_VERSION_OUTDATED",
            f"the document has another original by now: look at the chunks of version {base.version}",
            version=base.version,
        )
    return base


async def _insert(
    connection: Connection,
    knowledge_base: KnowledgeBase,
    pairs: Sequence[tuple[Derivation, VersionRow]],
    documents: Mapping[str, _Document],
    options: IngestOptions,
    run_id: str,
) -> dict[str, VersionRow]:
    if not pairs:
        return {}
    await connection.execute(
        "UPDATE corpusmesh.documents SET latest_version = latest_version + 1, update_time = now()"
        " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = ANY ($3)",
        knowledge_base.tenant_id,
        knowledge_base.knowledge_base_id,
        [base.document_id for _, base in pairs],
    )
    first_ordinal = await allocate_ordinals(connection, knowledge_base.tenant_id, len(pairs))
    values = [
        {
            "ordinal": first_ordinal + place,
            "document_id": base.document_id,
            "version": documents[base.document_id].next_version,
            "display_name": documents[base.document_id].display_name,
            "title": documents[base.document_id].title,
            "sha256": base.original_sha256,
            "size_bytes": base.size_bytes,
            "media_type": base.media_type,
            "base_ordinal": base.ordinal,
            "config": {**({} if derivation.forgets_config else base.config), **derivation.config},
        }
        for place, (derivation, base) in enumerate(pairs)
    ]
    rows = await connection.fetch(
        "INSERT INTO corpusmesh.versions AS v (tenant_id, ordinal, knowledge_base_id, document_id, version,"  # noqa: S608
        " display_name, original_sha256, size_bytes, media_type, title, config_hash, run_id, state, base_ordinal,"
        " config, sealed_password)"
        " SELECT $1, u.ordinal, $2, u.document_id, u.version, u.display_name, u.sha256, u.size_bytes, u.media_type,"
        "   u.title, $3, $4, 'pending', u.base_ordinal, u.config, p.sealed_password"
        " FROM jsonb_to_recordset($5) AS u(ordinal int, document_id text, version int, display_name text, title text,"
        "   sha256 text, size_bytes bigint, media_type text, base_ordinal int, config jsonb)"
        " JOIN unnest($6::int[], $7::bytea[]) AS p(ordinal, sealed_password) USING (ordinal)"
        f" RETURNING {VERSION_COLUMNS}",
        knowledge_base.tenant_id,
        knowledge_base.knowledge_base_id,
        options.config_hash,
        run_id,
        values,
        [value["ordinal"] for value in values],
        [derivation.sealed_password for derivation, _ in pairs],
    )
    return {row["document_id"]: to_version(row) for row in rows}
