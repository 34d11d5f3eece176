"""What people give for graphs: corrections of a graph, and triples of a document."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple

import asyncpg

from corpusmesh_adapters.postgres.database import Connection, Database
from corpusmesh_adapters.postgres.guards import require_document, require_knowledge_base
from corpusmesh_adapters.postgres.rows import new_id
from corpusmesh_core.errors import FailedPreconditionError, NotFoundError
from corpusmesh_core.graphs.corrections import (
    MAX_CORRECTIONS,
    Correction,
    correction_from_plain,
    correction_to_plain,
)
from corpusmesh_core.graphs.values import Triple
from corpusmesh_core.ports.graph_inputs import CorrectionRow, TriplesRow
from corpusmesh_core.tenancy.access import Access
from corpusmesh_core.tenancy.identity import Identity

_COLUMNS = "correction_id, sequence, content, user_id, create_time"


class PostgresGraphInputStore:
    """`CorrectionStore` and `TripleStore` on Postgres."""

    def __init__(self, database: Database) -> None:
        """Create the store.

        Args:
            database: The metadata store.
        """
        self._database = database

    async def add_correction(
        self, identity: Identity, knowledge_base_id: str, correction: Correction
    ) -> CorrectionRow[Correction]:
        """See `CorrectionStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            correction: What is corrected.

        Returns:
            The correction as it is stored.

        Raises:
            FailedPreconditionError: GRAPH_CORRECTION_LIMIT if there are as many as there may be.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            # Held until the end: two corrections at once would pass each other below the bound.
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE, lock="FOR UPDATE")
            count = await connection.fetchval(
                "SELECT count(*) FROM corpusmesh.graph_corrections WHERE tenant_id = $1 AND knowledge_base_id = $2",
                identity.tenant_id,
                knowledge_base_id,
            )
            if count >= MAX_CORRECTIONS:
                raise FailedPreconditionError(
                    "GRAPH_CORRECTION_LIMIT",
                    f"a graph takes at most {MAX_CORRECTIONS:,} corrections; delete those that are not needed any more",
                    limit=MAX_CORRECTIONS,
                )
            row = await connection.fetchrow(
                "INSERT INTO corpusmesh.graph_corrections (tenant_id, knowledge_base_id, correction_id, content,"  # noqa: S608
                f" user_id) VALUES ($1, $2, $3, $4, $5) RETURNING {_COLUMNS}",
                identity.tenant_id,
                knowledge_base_id,
                new_id(),
                correction_to_plain(correction),
                identity.user_id,
            )
        assert row is not None
        return _to_correction(row)

    async def list_corrections(
        self, identity: Identity, knowledge_base_id: str, *, after_sequence: int, limit: int
    ) -> Sequence[CorrectionRow[Correction]]:
        """See `CorrectionStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            after_sequence: Place of the last one of the page before; 0 for the first page.
            limit: Most corrections.

        Returns:
            Corrections in order.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            rows = await connection.fetch(
                f"SELECT {_COLUMNS} FROM corpusmesh.graph_corrections WHERE tenant_id = $1"  # noqa: S608 - constants
                " AND knowledge_base_id = $2 AND sequence > $3 ORDER BY sequence LIMIT $4",
                identity.tenant_id,
                knowledge_base_id,
                after_sequence,
                limit,
            )
        return [_to_correction(row) for row in rows]

    async def get_correction(
        self, identity: Identity, knowledge_base_id: str, correction_id: str
    ) -> CorrectionRow[Correction]:
        """See `CorrectionStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            correction_id: The correction.

        Returns:
            The correction.

        Raises:
            NotFoundError: GRAPH_CORRECTION_NOT_FOUND if there is none.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            row = await connection.fetchrow(
                f"SELECT {_COLUMNS} FROM corpusmesh.graph_corrections WHERE tenant_id = $1"  # noqa: S608 - constants
                " AND knowledge_base_id = $2 AND correction_id = $3",
                identity.tenant_id,
                knowledge_base_id,
                correction_id,
            )
        if row is None:
            raise _correction_not_found()
        return _to_correction(row)

    async def delete_correction(self, identity: Identity, knowledge_base_id: str, correction_id: str) -> None:
        """See `CorrectionStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            correction_id: The correction.

        Raises:
            NotFoundError: GRAPH_CORRECTION_NOT_FOUND if there is none.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            gone = await connection.fetchval(
                "DELETE FROM corpusmesh.graph_corrections WHERE tenant_id = $1 AND knowledge_base_id = $2"
                " AND correction_id = $3 RETURNING true",
                identity.tenant_id,
                knowledge_base_id,
                correction_id,
            )
        if not gone:
            raise _correction_not_found()

    async def corrections_of(self, tenant_id: str, knowledge_base_id: str) -> Sequence[Correction]:
        """See `CorrectionStore`.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.

        Returns:
            Corrections in order.
        """
        async with self._database.tenant(tenant_id) as connection:
            rows = await connection.fetch(
                "SELECT content FROM corpusmesh.graph_corrections WHERE tenant_id = $1 AND knowledge_base_id = $2"
                " ORDER BY sequence LIMIT $3",
                tenant_id,
                knowledge_base_id,
                MAX_CORRECTIONS,
            )
        return [correction_from_plain(row["content"]) for row in rows]

    async def put_triples(
        self, identity: Identity, knowledge_base_id: str, document_id: str, triples: Sequence[Triple]
    ) -> TriplesRow[Triple]:
        """See `TripleStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            document_id: Document.
            triples: Its triples.

        Returns:
            The triples as they are stored.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await _require(connection, identity, knowledge_base_id, document_id, Access.WRITE)
            # What is there already changes nothing, and so begins no build.
            row = await connection.fetchrow(
                "INSERT INTO corpusmesh.graph_triples AS t (tenant_id, knowledge_base_id, document_id, triples)"
                " VALUES ($1, $2, $3, $4) ON CONFLICT (tenant_id, knowledge_base_id, document_id)"
                " DO UPDATE SET triples = excluded.triples, update_time = now()"
                " WHERE t.triples IS DISTINCT FROM excluded.triples RETURNING update_time",
                identity.tenant_id,
                knowledge_base_id,
                document_id,
                [list(astuple(triple)) for triple in triples],
            )
            if row is None:
                row = await connection.fetchrow(
                    "SELECT update_time FROM corpusmesh.graph_triples"
                    " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = $3",
                    identity.tenant_id,
                    knowledge_base_id,
                    document_id,
                )
        assert row is not None
        return TriplesRow(document_id, tuple(triples), row["update_time"])

    async def get_triples(
        self, identity: Identity, knowledge_base_id: str, document_id: str
    ) -> TriplesRow[Triple] | None:
        """See `TripleStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            document_id: Document.

        Returns:
            Its triples; None where it has none.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await _require(connection, identity, knowledge_base_id, document_id, Access.READ)
            row = await connection.fetchrow(
                "SELECT triples, update_time FROM corpusmesh.graph_triples"
                " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = $3",
                identity.tenant_id,
                knowledge_base_id,
                document_id,
            )
        return TriplesRow(document_id, _to_triples(row["triples"]), row["update_time"]) if row is not None else None

    async def delete_triples(self, identity: Identity, knowledge_base_id: str, document_id: str) -> bool:
        """See `TripleStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            document_id: Document.

        Returns:
            Whether it had any.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await _require(connection, identity, knowledge_base_id, document_id, Access.WRITE)
            gone = await connection.fetchval(
                "DELETE FROM corpusmesh.graph_triples"
                " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = $3 RETURNING true",
                identity.tenant_id,
                knowledge_base_id,
                document_id,
            )
        return bool(gone)

    async def triples_of(
        self, tenant_id: str, knowledge_base_id: str, document_ids: Collection[str]
    ) -> Mapping[str, tuple[Triple, ...]]:
        """See `TripleStore`.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.
            document_ids: Documents.

        Returns:
            Triples by document, for those that have some.
        """
        async with self._database.tenant(tenant_id) as connection:
            rows = await connection.fetch(
                "SELECT document_id, triples FROM corpusmesh.graph_triples"
                " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = ANY ($3)",
                tenant_id,
                knowledge_base_id,
                list(document_ids),
            )
        return {row["document_id"]: _to_triples(row["triples"]) for row in rows}

    async def triple_digests(self, tenant_id: str, knowledge_base_id: str) -> Mapping[str, str]:
        """See `TripleStore`.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.

        Returns:
            Digest by document, for those that have triples.
        """
        async with self._database.tenant(tenant_id) as connection:
            rows = await connection.fetch(
                "SELECT document_id, encode(sha256(convert_to(triples::text, 'UTF8')), 'hex') AS digest"
                " FROM corpusmesh.graph_triples WHERE tenant_id = $1 AND knowledge_base_id = $2",
                tenant_id,
                knowledge_base_id,
            )
        return {row["document_id"]: row["digest"] for row in rows}


async def _require(
    connection: Connection, identity: Identity, knowledge_base_id: str, document_id: str, access: Access
) -> None:
    found = await require_knowledge_base(connection, identity, knowledge_base_id, access)
    await require_document(connection, identity, found, document_id)


def _to_correction(row: asyncpg.Record) -> CorrectionRow[Correction]:
    return CorrectionRow(
        correction_id=row["correction_id"],
        sequence=row["sequence"],
        correction=correction_from_plain(row["content"]),
        user_id=row["user_id"],
        create_time=row["create_time"],
    )


def _to_triples(stored: Sequence[Sequence[str]]) -> tuple[Triple, ...]:
    return tuple(Triple(*fields) for fields in stored)


def _correction_not_found() -> NotFoundError:
    return NotFoundError("GRAPH_CORRECTION_NOT_FOUND", "there is no such correction, or you may not see it")
