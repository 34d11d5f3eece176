"""People's edits to chunks."""

from collections.abc import Collection, Sequence

import asyncpg

from corpusmesh_adapters.postgres.database import Connection, Database
from corpusmesh_adapters.postgres.guards import require_document, require_knowledge_base
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.edits import ChunkEditRow, EditState, NewEdit, edit_id_of
from corpusmesh_core.tenancy.access import Access
from corpusmesh_core.tenancy.identity import Identity

_COLUMNS = (
    "tenant_id, knowledge_base_id, document_id, edit_id, version, anchor, change, state, created_by, create_time,"
    " update_time"
)


class PostgresChunkEditStore:
    """`ChunkEditStore` on Postgres."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def edits_of(
        self, tenant_id: str, knowledge_base_id: str, document_id: str, *, ordinal: int
    ) -> Sequence[ChunkEditRow]:
        """See `ChunkEditStore`.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.
            document_id: Document.
            ordinal: The version.

        Returns:
            Edits in the order in which they apply.
        """
        async with self._database.tenant(tenant_id) as connection:
            rows = await connection.fetch(
                f"SELECT {_COLUMNS} FROM corpusmesh.chunk_edits WHERE tenant_id = $1"  # noqa: S608 - constants
                " AND knowledge_base_id = $2 AND document_id = $3 AND made_ordinal <= $4"
                " AND (withdrawn_ordinal IS NULL OR withdrawn_ordinal > $4) ORDER BY edit_id",
                tenant_id,
                knowledge_base_id,
                document_id,
                ordinal,
            )
        return [_to_row(row) for row in rows]

    async def note_placement(
        self, tenant_id: str, ordinal: int, placed: Collection[str], unplaced: Collection[str]
    ) -> None:
        """See `ChunkEditStore`.

        Args:
            tenant_id: Tenant.
            ordinal: The version.
            placed: Ids of edits that found their chunk.
            unplaced: Ids of edits that did not.
        """
        if not placed and not unplaced:
            return
        async with self._database.tenant(tenant_id) as connection:
            await connection.execute(
                "UPDATE corpusmesh.chunk_edits SET state = CASE WHEN edit_id = ANY ($3) THEN 'placed' ELSE 'unplaced'"
                "   END, placement_ordinal = $2, update_time = now()"
                " WHERE tenant_id = $1 AND (edit_id = ANY ($3) OR edit_id = ANY ($4)) AND state <> 'withdrawn'"
                "   AND placement_ordinal <= $2",
                tenant_id,
                ordinal,
                list(placed),
                list(unplaced),
            )

    async def list(
        self,
        identity: Identity,
        knowledge_base_id: str,
        document_id: str,
        states: Collection[EditState],
        after_key: str,
        limit: int,
    ) -> Sequence[ChunkEditRow]:
        """See `ChunkEditStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            document_id: Document.
            states: States to list; empty for all but WITHDRAWN.
            after_key: Id of the last edit of the page before.
            limit: Most edits.

        Returns:
            Edits by id.
        """
        wanted = states or (EditState.PENDING, EditState.PLACED, EditState.UNPLACED)
        async with self._database.tenant(identity.tenant_id) as connection:
            found = await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            await require_document(connection, identity, found, document_id)
            rows = await connection.fetch(
                f"SELECT {_COLUMNS} FROM corpusmesh.chunk_edits WHERE tenant_id = $1"  # noqa: S608 - constants
                " AND knowledge_base_id = $2 AND document_id = $3 AND state = ANY ($4) AND edit_id > $5"
                " ORDER BY edit_id LIMIT $6",
                identity.tenant_id,
                knowledge_base_id,
                document_id,
                [str(state) for state in wanted],
                after_key,
                limit,
            )
        return [_to_row(row) for row in rows]


async def add_edits(
    connection: Connection,
    identity: Identity,
    knowledge_base_id: str,
    document_id: str,
    *,
    seen_version: int,
    ordinal: int,
    edits: Sequence[NewEdit],
) -> None:
    """Add edits that hold from a version on.

    Args:
        connection: Transaction of the caller's tenant.
        identity: Caller, who may write.
        knowledge_base_id: Knowledge base.
        document_id: Document.
        seen_version: Version whose chunks the author saw.
        ordinal: Version that is made because of them.
        edits: The edits, in the order in which they apply.
    """
    await connection.executemany(
        "INSERT INTO corpusmesh.chunk_edits (tenant_id, edit_id, knowledge_base_id, document_id, version, anchor,"
        " change, state, created_by, made_ordinal) VALUES ($1, $2, $3, $4, $5, $6, $7, 'pending', $8, $9)",
        [
            (
                identity.tenant_id,
                edit_id_of(ordinal, place),
                knowledge_base_id,
                document_id,
                seen_version,
                dict(edit.anchor),
                dict(edit.change),
                identity.user_id,
                ordinal,
            )
            for place, edit in enumerate(edits)
        ],
    )


async def withdraw_edits(
    connection: Connection,
    tenant_id: str,
    knowledge_base_id: str,
    document_id: str,
    *,
    ordinal: int,
    edit_ids: Sequence[str],
) -> None:
    """Let edits hold no more from a version on.

    Args:
        connection: Transaction of the caller's tenant.
        tenant_id: Tenant.
        knowledge_base_id: Knowledge base.
        document_id: Document.
        ordinal: Version that is made because of it.
        edit_ids: The edits.

    Raises:
        NotFoundError: CHUNK_EDIT_NOT_FOUND if one is not an edit of the document, or withdrawn already.
    """
    if not edit_ids:
        return
    rows = await connection.fetch(
        "UPDATE corpusmesh.chunk_edits SET state = 'withdrawn', withdrawn_ordinal = $5, update_time = now()"
        " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = $3 AND edit_id = ANY ($4)"
        " AND state <> 'withdrawn' RETURNING edit_id",
        tenant_id,
        knowledge_base_id,
        document_id,
        list(edit_ids),
        ordinal,
    )
    if missing := sorted(set(edit_ids) - {row["edit_id"] for row in rows}):
        raise NotFoundError(
            "CHUNK_EDIT_NOT_FOUND", "there is no such edit of the document, or it was withdrawn", edit=missing[0]
        )


def _to_row(row: asyncpg.Record) -> ChunkEditRow:
    return ChunkEditRow(
        tenant_id=row["tenant_id"],
        knowledge_base_id=row["knowledge_base_id"],
        document_id=row["document_id"],
        edit_id=row["edit_id"],
        version=row["version"],
        anchor=row["anchor"],
        change=row["change"],
        state=EditState(row["state"]),
        created_by=row["created_by"],
        create_time=row["create_time"],
        update_time=row["update_time"],
    )
