"""Documents and versions."""

import re
from collections.abc import Mapping, Sequence

import asyncpg

from corpusmesh_adapters.postgres.database import Connection, Database
from corpusmesh_adapters.postgres.effects import send_messages
from corpusmesh_adapters.postgres.erasure import erase_made_of
from corpusmesh_adapters.postgres.guards import (
    require_document,
    require_knowledge_base,
    visibility_arguments,
    visible_document,
)
from corpusmesh_adapters.postgres.publishing import change_snapshot, lock_current
from corpusmesh_adapters.postgres.rows import VERSION_COLUMNS, to_document, to_version
from corpusmesh_adapters.postgres.run_creation import RunOrder, find_run, start_purge
from corpusmesh_adapters.postgres.uploads import replace_acl, replace_metadata
from corpusmesh_core.orchestration.values import RunKind
from corpusmesh_core.tenancy.access import Access, document_not_found
from corpusmesh_core.tenancy.identity import Identity
from corpusmesh_core.tenancy.publishing import load_bitmap, plan_change
from corpusmesh_core.tenancy.values import AclEntry, DocumentRow, KnowledgeBase, MetadataValue, VersionRow


class PostgresDocumentStore:
    """`DocumentStore` on Postgres."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, identity: Identity, knowledge_base_id: str, document_id: str) -> DocumentRow:
        """See `DocumentStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Its knowledge base.
            document_id: Its id.

        Returns:
            The document with its newest version and metadata.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            found = await require_knowledge_base(connection, identity, knowledge_base_id, Access.READ)
            return await _read_one(connection, identity, found, document_id)

    async def list(
        self, identity: Identity, knowledge_base_id: str, after_key: str, limit: int, *, name_prefix: str = ""
    ) -> Sequence[DocumentRow]:
        """See `DocumentStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            after_key: Id of the last document of the page before.
            limit: Most documents.
            name_prefix: Beginning of their display names.

        Returns:
            Documents by id.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            found = await require_knowledge_base(connection, identity, knowledge_base_id, Access.READ)
            rows = await connection.fetch(
                "SELECT d.* FROM corpusmesh.documents d WHERE d.tenant_id = $1 AND d.knowledge_base_id = $2"  # noqa: S608
                f" AND d.document_id > $3 AND d.display_name LIKE $5 AND {visible_document(6)}"
                " ORDER BY d.document_id LIMIT $4",
                identity.tenant_id,
                knowledge_base_id,
                after_key,
                limit,
                _like_prefix(name_prefix),
                *visibility_arguments(identity, found.owner_user_id),
            )
            return await _complete(connection, found, rows)

    async def count(self, identity: Identity, knowledge_base_id: str, name_prefix: str) -> int:
        """See `DocumentStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            name_prefix: Beginning of their display names.

        Returns:
            How many documents `list` gives over all pages.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            found = await require_knowledge_base(connection, identity, knowledge_base_id, Access.READ)
            count: int = await connection.fetchval(
                "SELECT count(*) FROM corpusmesh.documents d WHERE d.tenant_id = $1"  # noqa: S608 - constants
                f" AND d.knowledge_base_id = $2 AND d.display_name LIKE $3 AND {visible_document(4)}",
                identity.tenant_id,
                knowledge_base_id,
                _like_prefix(name_prefix),
                *visibility_arguments(identity, found.owner_user_id),
            )
        return count

    async def list_versions(
        self, identity: Identity, knowledge_base_id: str, document_id: str, before_version: int, limit: int
    ) -> Sequence[VersionRow]:
        """See `DocumentStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            document_id: Document.
            before_version: Only versions below; 0 for all.
            limit: Most versions.

        Returns:
            Versions, newest first.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            found = await require_knowledge_base(connection, identity, knowledge_base_id, Access.READ)
            await require_document(connection, identity, found, document_id)
            rows = await connection.fetch(
                f"SELECT {VERSION_COLUMNS} FROM corpusmesh.versions v WHERE v.tenant_id = $1"  # noqa: S608 - constants
                " AND v.knowledge_base_id = $2 AND v.document_id = $3 AND ($4 = 0 OR v.version < $4)"
                " AND v.state <> 'purged' ORDER BY v.version DESC LIMIT $5",
                identity.tenant_id,
                knowledge_base_id,
                document_id,
                before_version,
                limit,
            )
        return [to_version(row) for row in rows]

    async def update(
        self,
        identity: Identity,
        knowledge_base_id: str,
        document_id: str,
        *,
        title: str | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        acl: Sequence[AclEntry] | None = None,
    ) -> DocumentRow:
        """See `DocumentStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            document_id: Document.
            title: New title.
            metadata: New metadata.
            acl: New access list.

        Returns:
            The document as it is now.
        """
        tenant_id = identity.tenant_id
        async with self._database.tenant(tenant_id) as connection:
            lock = "" if acl is None else "FOR UPDATE"
            found = await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE, lock=lock)
            await require_document(connection, identity, found, document_id)
            if title is not None:
                await connection.execute(
                    "UPDATE corpusmesh.documents SET title = $4, update_time = now()"
                    " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = $3",
                    tenant_id,
                    knowledge_base_id,
                    document_id,
                    title,
                )
            if metadata is not None:
                await replace_metadata(connection, tenant_id, knowledge_base_id, document_id, metadata)
            if acl is not None:
                await replace_acl(connection, tenant_id, knowledge_base_id, document_id, acl)
            return await _read_one(connection, identity, found, document_id)

    async def delete(
        self,
        identity: Identity,
        knowledge_base_id: str,
        document_ids: Sequence[str],
        request_id: str,
        headers: Mapping[str, str],
    ) -> str:
        """See `DocumentStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            document_ids: Documents.
            request_id: The same id of the same user gives the same run.
            headers: Trace and request id.

        Returns:
            Id of the purge run.

        Raises:
            NotFoundError: If one is unknown or forbidden; then nothing is deleted.
        """
        tenant_id = identity.tenant_id
        async with self._database.tenant(tenant_id) as connection:
            earlier = await find_run(connection, tenant_id, identity.user_id, request_id)
            if earlier is not None:
                return earlier
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            current = await lock_current(connection, tenant_id, knowledge_base_id)
            # Only now: of two deletions of one document the second one shall not find it.
            found = await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            for document_id in document_ids:
                await require_document(connection, identity, found, document_id)
            ordinals = await _hide(connection, tenant_id, knowledge_base_id, document_ids)
            remaining, changed = plan_change(current.ordinals, remove=ordinals)
            if changed:
                event = await change_snapshot(
                    connection, tenant_id, current, remaining, reason="delete", created_by=identity.user_id
                )
                await send_messages(connection, tenant_id, headers, [event])
            order = RunOrder(RunKind.PURGE, identity.user_id, request_id, headers=headers)
            return await start_purge(connection, tenant_id, knowledge_base_id, ordinals, order)

    async def list_acl(self, identity: Identity, knowledge_base_id: str, document_id: str) -> Sequence[AclEntry]:
        """See `DocumentStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            document_id: Document.

        Returns:
            The access list, sorted.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            found = await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            await require_document(connection, identity, found, document_id)
            rows = await connection.fetch(
                "SELECT principal_kind, principal_id, effect FROM corpusmesh.document_acl"
                " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = $3 ORDER BY 1, 2, 3",
                identity.tenant_id,
                knowledge_base_id,
                document_id,
            )
        return [AclEntry(row["principal_kind"], row["principal_id"], row["effect"]) for row in rows]

    async def versions_by_ordinal(self, tenant_id: str, ordinals: Sequence[int]) -> Sequence[VersionRow]:
        """See `DocumentStore`.

        Args:
            tenant_id: Tenant.
            ordinals: Versions.

        Returns:
            Versions by ordinal; unknown ones are missing.
        """
        async with self._database.tenant(tenant_id) as connection:
            rows = await connection.fetch(
                f"SELECT {VERSION_COLUMNS} FROM corpusmesh.versions v"  # noqa: S608 - constants
                " WHERE v.tenant_id = $1 AND v.ordinal = ANY ($2) ORDER BY v.ordinal",
                tenant_id,
                list(ordinals),
            )
        return [to_version(row) for row in rows]


def _like_prefix(prefix: str) -> str:
    """Give the pattern of texts that begin with a prefix; unlike a function of the prefix it can use an index."""
    return re.sub(r"([\\%_])", r"\\\1", prefix) + "%"


async def _hide(
    connection: Connection, tenant_id: str, knowledge_base_id: str, document_ids: Sequence[str]
) -> list[int]:
    """Mark documents as leaving, forget what was said about them, and give the ordinals of their versions."""
    arguments = (tenant_id, knowledge_base_id, list(document_ids))
    await connection.execute(
        "UPDATE corpusmesh.documents SET state = 'deleting', update_time = now()"
        " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = ANY ($3)",
        *arguments,
    )
    for table in ("document_acl", "document_metadata", "chunk_edits", "graph_triples"):
        await connection.execute(
            f"DELETE FROM corpusmesh.{table}"  # noqa: S608 - constants
            " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = ANY ($3)",
            *arguments,
        )
    # Marked at once: a document that is uploaded again must not bring its deleted versions back.
    rows = await connection.fetch(
        "UPDATE corpusmesh.versions SET state = 'purged', sealed_password = ''"
        " WHERE tenant_id = $1 AND knowledge_base_id = $2"
        " AND document_id = ANY ($3) AND state <> 'purged' RETURNING ordinal",
        *arguments,
    )
    ordinals = [row["ordinal"] for row in rows]
    await erase_made_of(connection, tenant_id, ordinals)
    return ordinals


async def _read_one(
    connection: Connection, identity: Identity, knowledge_base: KnowledgeBase, document_id: str
) -> DocumentRow:
    row = await connection.fetchrow(
        "SELECT d.* FROM corpusmesh.documents d WHERE d.tenant_id = $1 AND d.knowledge_base_id = $2"  # noqa: S608
        f" AND d.document_id = $3 AND {visible_document(4)}",
        identity.tenant_id,
        knowledge_base.knowledge_base_id,
        document_id,
        *visibility_arguments(identity, knowledge_base.owner_user_id),
    )
    if row is None:
        raise document_not_found(document_id)
    return (await _complete(connection, knowledge_base, [row]))[0]


async def _complete(
    connection: Connection, knowledge_base: KnowledgeBase, rows: Sequence[asyncpg.Record]
) -> list[DocumentRow]:
    """Add the newest version, the published one's number and the metadata of each document."""
    if not rows:
        return []
    arguments = (
        knowledge_base.tenant_id,
        knowledge_base.knowledge_base_id,
        [row["document_id"] for row in rows],
    )
    versions = await connection.fetch(
        f"SELECT {VERSION_COLUMNS} FROM corpusmesh.versions v WHERE v.tenant_id = $1"  # noqa: S608 - constants
        " AND v.knowledge_base_id = $2 AND v.document_id = ANY ($3) AND v.state <> 'purged'",
        *arguments,
    )
    ordinals = await connection.fetchval(
        "SELECT ordinals FROM corpusmesh.snapshots"
        " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND snapshot_id = $3",
        knowledge_base.tenant_id,
        knowledge_base.knowledge_base_id,
        knowledge_base.current_snapshot_id,
    )
    metadata_rows = await connection.fetch(
        "SELECT document_id, key, value_text FROM corpusmesh.document_metadata"
        " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = ANY ($3)",
        *arguments,
    )
    bitmap = load_bitmap(ordinals or b"")
    newest: dict[str, VersionRow] = {}
    published: dict[str, int] = {}
    for version in map(to_version, versions):
        if version.document_id not in newest or newest[version.document_id].version < version.version:
            newest[version.document_id] = version
        if version.ordinal in bitmap:
            published[version.document_id] = version.version
    metadata: dict[str, dict[str, MetadataValue]] = {}
    for row in metadata_rows:
        metadata.setdefault(row["document_id"], {})[row["key"]] = row["value_text"]
    return [
        to_document(
            row,
            newest.get(row["document_id"]),
            published.get(row["document_id"], 0),
            metadata.get(row["document_id"], {}),
        )
        for row in rows
    ]
