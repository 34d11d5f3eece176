"""Knowledge bases."""

from collections.abc import Mapping, Sequence

from corpusmesh_adapters.postgres.builds import remove_builds
from corpusmesh_adapters.postgres.database import Connection, Database
from corpusmesh_adapters.postgres.erasure import erase_made_of
from corpusmesh_adapters.postgres.guards import VISIBLE_DOCUMENT, require_knowledge_base
from corpusmesh_adapters.postgres.rows import to_knowledge_base
from corpusmesh_adapters.postgres.run_creation import RunOrder, find_run, start_purge
from corpusmesh_adapters.postgres.runs import cancel_run
from corpusmesh_core.errors import AlreadyExistsError, ConflictError
from corpusmesh_core.orchestration.values import RunKind
from corpusmesh_core.ports.metadata import KnowledgeBaseChange
from corpusmesh_core.tenancy.access import Access, require_access, sees_every_document
from corpusmesh_core.tenancy.identity import Identity, Role
from corpusmesh_core.tenancy.publishing import load_bitmap
from corpusmesh_core.tenancy.values import KnowledgeBase, Permission


class PostgresKnowledgeBaseStore:
    """`KnowledgeBaseStore` on Postgres."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self,
        identity: Identity,
        knowledge_base_id: str,
        *,
        display_name: str,
        description: str,
        permission: Permission,
        config: Mapping[str, object],
        space_id: str,
    ) -> KnowledgeBase:
        """See `KnowledgeBaseStore`.

        Args:
            identity: Caller, who will own it.
            knowledge_base_id: Id, `[a-z0-9-]{1,63}`.
            display_name: Name for people.
            description: What it is for.
            permission: Who may read it.
            config: Its configuration.
            space_id: Embedding space of its records.

        Returns:
            The knowledge base.

        Raises:
            AlreadyExistsError: If the id was ever used in the tenant.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            row = await connection.fetchrow(
                "INSERT INTO corpusmesh.knowledge_bases (tenant_id, knowledge_base_id, display_name, description,"
                " owner_user_id, permission, config, space_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
                " ON CONFLICT DO NOTHING RETURNING *",
                identity.tenant_id,
                knowledge_base_id,
                display_name,
                description,
                identity.user_id,
                str(permission),
                dict(config),
                space_id,
            )
        if row is None:
            raise AlreadyExistsError(
                "KNOWLEDGE_BASE_EXISTS",
                f"the id {knowledge_base_id!r} is in use or was; choose another",
                field="knowledge_base_id",
                knowledge_base=knowledge_base_id,
            )
        return to_knowledge_base(row)

    async def get(self, identity: Identity, knowledge_base_id: str, access: Access = Access.READ) -> KnowledgeBase:
        """See `KnowledgeBaseStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Its id.
            access: What is wanted.

        Returns:
            The knowledge base.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            return await require_knowledge_base(connection, identity, knowledge_base_id, access)

    async def check(self, identity: Identity, knowledge_base_ids: Sequence[str], access: Access) -> None:
        """See `KnowledgeBaseStore`.

        Args:
            identity: Caller.
            knowledge_base_ids: Their ids.
            access: What is wanted.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await _require_all(connection, identity, knowledge_base_ids, access)

    async def count(self, identity: Identity, knowledge_base_ids: Sequence[str]) -> Mapping[str, tuple[int, int]]:
        """See `KnowledgeBaseStore`; both are counted from the rows, so that no counter can be wrong.

        Args:
            identity: Caller.
            knowledge_base_ids: Their ids.

        Returns:
            By id: living documents and published chunks that the caller may see.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            found = await _require_all(connection, identity, knowledge_base_ids, Access.READ)
            published = await connection.fetch(
                "SELECT s.ordinals FROM corpusmesh.snapshots s JOIN corpusmesh.knowledge_bases k"
                " ON k.tenant_id = s.tenant_id AND k.knowledge_base_id = s.knowledge_base_id"
                "   AND k.current_snapshot_id = s.snapshot_id"
                " WHERE s.tenant_id = $1 AND s.knowledge_base_id = ANY ($2)",
                identity.tenant_id,
                list(knowledge_base_ids),
            )
            builds = await connection.fetch(
                "SELECT ordinals FROM corpusmesh.builds WHERE tenant_id = $1 AND knowledge_base_id = ANY ($2)",
                identity.tenant_id,
                list(knowledge_base_ids),
            )
            nodes = load_bitmap(b"").union(*(load_bitmap(row["ordinals"]) for row in builds))
            unbound = [base.knowledge_base_id for base in found if sees_every_document(identity, base.owner_user_id)]
            condition = VISIBLE_DOCUMENT.format(
                all="d.knowledge_base_id = ANY ($4::text[])", user="$5::text", groups="$6::text[]"
            )
            rows = await connection.fetch(
                "SELECT d.knowledge_base_id, count(*) AS document_count,"  # noqa: S608 - constants
                " coalesce(sum(v.chunk_count), 0) AS chunk_count FROM corpusmesh.documents d"
                # Of a document's versions one at most is published, and ordinals are unique in the tenant.
                " LEFT JOIN corpusmesh.versions v ON v.tenant_id = d.tenant_id AND v.ordinal = ANY ($3::int[])"
                "   AND v.knowledge_base_id = d.knowledge_base_id AND v.document_id = d.document_id"
                f" WHERE d.tenant_id = $1 AND d.knowledge_base_id = ANY ($2) AND {condition} GROUP BY 1",
                identity.tenant_id,
                list(knowledge_base_ids),
                [ordinal for row in published for ordinal in load_bitmap(row["ordinals"]) - nodes],
                unbound,
                identity.user_id,
                list(identity.groups),
            )
        counts = {row["knowledge_base_id"]: (int(row["document_count"]), int(row["chunk_count"])) for row in rows}
        return {identifier: counts.get(identifier, (0, 0)) for identifier in knowledge_base_ids}

    async def list(self, identity: Identity, after_key: str, limit: int) -> Sequence[KnowledgeBase]:
        """See `KnowledgeBaseStore`.

        Args:
            identity: Caller.
            after_key: Id of the last one of the page before.
            limit: Most knowledge bases.

        Returns:
            What the caller may read, by id.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            rows = await connection.fetch(
                "SELECT * FROM corpusmesh.knowledge_bases WHERE tenant_id = $1 AND knowledge_base_id > $2"
                " AND state = 'active' AND (permission = 'team' OR owner_user_id = $3 OR $4)"
                " ORDER BY knowledge_base_id LIMIT $5",
                identity.tenant_id,
                after_key,
                identity.user_id,
                identity.role is Role.OWNER,
                limit,
            )
        return [to_knowledge_base(row) for row in rows]

    async def update(self, identity: Identity, knowledge_base_id: str, change: KnowledgeBaseChange) -> KnowledgeBase:
        """See `KnowledgeBaseStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Its id.
            change: What to set.

        Returns:
            The knowledge base as it is now.

        Raises:
            ConflictError: If the etag is not the current one.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            found = await require_knowledge_base(
                connection, identity, knowledge_base_id, Access.MANAGE, lock="FOR UPDATE"
            )
            if change.etag is not None and change.etag != found.etag:
                raise ConflictError(
                    "ETAG_MISMATCH", "somebody changed the knowledge base meanwhile; read it again", field="etag"
                )
            row = await connection.fetchrow(
                "UPDATE corpusmesh.knowledge_bases SET display_name = coalesce($3, display_name),"
                " description = coalesce($4, description), permission = coalesce($5, permission),"
                " config = coalesce($6, config), revision = revision + 1, update_time = now(),"
                " policy_epoch = policy_epoch + CASE WHEN $5 IS DISTINCT FROM permission AND $5 IS NOT NULL"
                "   THEN 1 ELSE 0 END"
                " WHERE tenant_id = $1 AND knowledge_base_id = $2 RETURNING *",
                identity.tenant_id,
                knowledge_base_id,
                change.display_name,
                change.description,
                str(change.permission) if change.permission is not None else None,
                dict(change.config) if change.config is not None else None,
            )
        assert row is not None, "the row is locked"
        return to_knowledge_base(row)

    async def delete(
        self, identity: Identity, knowledge_base_id: str, request_id: str, headers: Mapping[str, str]
    ) -> str:
        """See `KnowledgeBaseStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Its id.
            request_id: The same id of the same user gives the same run.
            headers: Trace and request id.

        Returns:
            Id of the purge run.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            earlier = await find_run(connection, identity.tenant_id, identity.user_id, request_id)
            if earlier is not None:
                return earlier
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.MANAGE)
            await _cancel_runs(connection, identity.tenant_id, knowledge_base_id)
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.MANAGE, lock="FOR UPDATE")
            await connection.execute(
                "UPDATE corpusmesh.knowledge_bases SET state = 'deleting', current_snapshot_id = 0,"
                " policy_epoch = policy_epoch + 1, revision = revision + 1, update_time = now()"
                " WHERE tenant_id = $1 AND knowledge_base_id = $2",
                identity.tenant_id,
                knowledge_base_id,
            )
            await connection.execute(
                "UPDATE corpusmesh.documents SET state = 'deleting', update_time = now()"
                " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND state = 'active'",
                identity.tenant_id,
                knowledge_base_id,
            )
            for table in (
                "snapshots",
                "document_acl",
                "document_metadata",
                "chunk_edits",
                "tag_sets",
                "sources",
                "golden_sets",
                "graph_corrections",
                "graph_triples",
                "graph_inputs",
            ):
                await connection.execute(
                    f"DELETE FROM corpusmesh.{table} WHERE tenant_id = $1 AND knowledge_base_id = $2",  # noqa: S608
                    identity.tenant_id,
                    knowledge_base_id,
                )
            rows = await connection.fetch(
                "WITH gone AS (UPDATE corpusmesh.versions SET state = 'purged', sealed_password = ''"
                "   WHERE tenant_id = $1 AND knowledge_base_id = $2 AND state <> 'purged' RETURNING ordinal)"
                " SELECT ordinal FROM gone",
                identity.tenant_id,
                knowledge_base_id,
            )
            ordinals = [row["ordinal"] for row in rows]
            await erase_made_of(connection, identity.tenant_id, ordinals)
            await remove_builds(connection, identity.tenant_id, knowledge_base_id, identity.user_id)
            # Those that found nothing name no source.
            await connection.execute(
                "DELETE FROM corpusmesh.retrievals WHERE tenant_id = $1 AND knowledge_base_ids @> ARRAY[$2::text]",
                identity.tenant_id,
                knowledge_base_id,
            )
            order = RunOrder(RunKind.PURGE, identity.user_id, request_id, headers=headers)
            return await start_purge(connection, identity.tenant_id, knowledge_base_id, ordinals, order)


async def _require_all(
    connection: Connection, identity: Identity, knowledge_base_ids: Sequence[str], access: Access
) -> list[KnowledgeBase]:
    rows = await connection.fetch(
        "SELECT * FROM corpusmesh.knowledge_bases WHERE tenant_id = $1 AND knowledge_base_id = ANY ($2)",
        identity.tenant_id,
        list(knowledge_base_ids),
    )
    by_id = {row["knowledge_base_id"]: to_knowledge_base(row) for row in rows}
    return [require_access(identity, by_id.get(name), name, access) for name in knowledge_base_ids]


async def _cancel_runs(connection: Connection, tenant_id: str, knowledge_base_id: str) -> None:
    rows = await connection.fetch(
        "SELECT run_id FROM corpusmesh.runs WHERE tenant_id = $1 AND knowledge_base_id = $2 AND kind <> 'purge'"
        " AND state IN ('pending', 'running') ORDER BY run_id FOR UPDATE",
        tenant_id,
        knowledge_base_id,
    )
    for row in rows:
        await cancel_run(connection, tenant_id, row["run_id"])
