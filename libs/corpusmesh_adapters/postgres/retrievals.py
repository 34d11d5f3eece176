"""The ledger of retrievals."""

from collections.abc import Sequence

import asyncpg

from corpusmesh_adapters.postgres.database import Database
from corpusmesh_adapters.postgres.rows import new_id
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.retrievals import NewRetrieval, RecordedHit, RetrievalRow
from corpusmesh_core.tenancy.identity import Identity

_EXPIRED_PER_ADD = 20
"""Expired records that go with each new one: more than come in, so that they cannot pile up."""


class PostgresRetrievalStore:
    """`RetrievalStore` on Postgres."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, identity: Identity, retrieval: NewRetrieval) -> str:
        """See `RetrievalStore`; one round trip besides the transaction's own, and a crash may forget it.

        Args:
            identity: Caller.
            retrieval: The retrieval.

        Returns:
            Its id; "" if it was not recorded.
        """
        sources = sorted({*retrieval.history_sources, *(ordinal for hit in retrieval.hits for ordinal in hit.sources)})
        async with self._database.tenant(identity.tenant_id, durable=False) as connection:
            row = await connection.fetchrow(
                "WITH expired AS (DELETE FROM corpusmesh.retrievals WHERE tenant_id = $1 AND retrieval_id IN ("
                "   SELECT retrieval_id FROM corpusmesh.retrievals WHERE tenant_id = $1 AND expire_time < now()"
                "   ORDER BY expire_time LIMIT $10 FOR UPDATE SKIP LOCKED))"
                " INSERT INTO corpusmesh.retrievals (tenant_id, retrieval_id, user_id, knowledge_base_ids, snapshots,"
                "   request, hits, sources, expire_time)"
                " SELECT $1, $2, $3, $4, $5, $6, $7, $8, now() + make_interval(days => $9)"
                " WHERE NOT EXISTS (SELECT FROM corpusmesh.versions v WHERE v.tenant_id = $1 AND v.ordinal = ANY ($8)"
                "   AND v.state = 'purged') RETURNING retrieval_id",
                identity.tenant_id,
                new_id(),
                identity.user_id,
                list(retrieval.snapshots),
                dict(retrieval.snapshots),
                retrieval.request,
                [_hit_to_json(hit) for hit in retrieval.hits],
                sources,
                retrieval.retention_days,
                _EXPIRED_PER_ADD,
            )
        return "" if row is None else str(row["retrieval_id"])

    async def get(self, identity: Identity, retrieval_id: str) -> RetrievalRow:
        """See `RetrievalStore`.

        Args:
            identity: Caller.
            retrieval_id: The retrieval.

        Returns:
            The retrieval.

        Raises:
            NotFoundError: If it is unknown, expired, or somebody else's.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            row = await connection.fetchrow(
                "SELECT * FROM corpusmesh.retrievals WHERE tenant_id = $1 AND retrieval_id = $2 AND user_id = $3"
                " AND expire_time > now()",
                identity.tenant_id,
                retrieval_id,
                identity.user_id,
            )
        if row is None:
            raise NotFoundError(
                "RETRIEVAL_NOT_FOUND",
                "there is no such retrieval of yours; it may have expired, or gone with a document",
            )
        return _to_row(row, [_hit_of_json(hit) for hit in row["hits"]])

    async def list(self, identity: Identity, before_key: str, limit: int) -> Sequence[RetrievalRow]:
        """See `RetrievalStore`.

        Args:
            identity: Caller.
            before_key: Id of the last one of the page before; "" for the first page.
            limit: Most retrievals.

        Returns:
            Retrievals, newest first, without their hits.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            rows = await connection.fetch(
                "SELECT retrieval_id, user_id, snapshots, request, sources, create_time, expire_time"
                " FROM corpusmesh.retrievals WHERE tenant_id = $1 AND user_id = $2 AND ($3 = '' OR retrieval_id < $3)"
                " AND expire_time > now() ORDER BY retrieval_id DESC LIMIT $4",
                identity.tenant_id,
                identity.user_id,
                before_key,
                limit,
            )
        return [_to_row(row, []) for row in rows]

    async def delete(self, identity: Identity, retrieval_id: str) -> None:
        """See `RetrievalStore`.

        Args:
            identity: Caller.
            retrieval_id: The retrieval.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await connection.execute(
                "DELETE FROM corpusmesh.retrievals WHERE tenant_id = $1 AND retrieval_id = $2 AND user_id = $3",
                identity.tenant_id,
                retrieval_id,
                identity.user_id,
            )


def _hit_to_json(hit: RecordedHit) -> dict[str, object]:
    return {
        "record": hit.record_id,
        "kind": hit.kind,
        "knowledge_base": hit.knowledge_base_id,
        "document": hit.document_id,
        "version": hit.version,
        "sources": list(hit.sources),
        "scores": dict(hit.scores),
    }


def _hit_of_json(value: dict[str, object]) -> RecordedHit:
    sources, scores = value["sources"], value["scores"]
    assert isinstance(sources, list)
    assert isinstance(scores, dict)
    return RecordedHit(
        record_id=str(value["record"]),
        kind=str(value["kind"]),
        knowledge_base_id=str(value["knowledge_base"]),
        document_id=str(value["document"]),
        version=int(str(value["version"])),
        sources=tuple(sources),
        scores=scores,
    )


def _to_row(row: asyncpg.Record, hits: Sequence[RecordedHit]) -> RetrievalRow:
    return RetrievalRow(
        retrieval_id=row["retrieval_id"],
        user_id=row["user_id"],
        snapshots=row["snapshots"],
        request=row["request"],
        hits=tuple(hits),
        create_time=row["create_time"],
        expire_time=row["expire_time"],
        sources=tuple(row["sources"]),
    )
