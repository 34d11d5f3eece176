"""Golden sets, their questions, and what was measured with them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import asyncpg

from corpusmesh_adapters.postgres.database import Connection, Database
from corpusmesh_adapters.postgres.guards import require_knowledge_base
from corpusmesh_adapters.postgres.rows import new_id
from corpusmesh_core.errors import AlreadyExistsError, FailedPreconditionError, NotFoundError
from corpusmesh_core.evaluation.judging import GoldItem
from corpusmesh_core.ports.golden_sets import (
    KEPT_EVALUATIONS,
    MAX_QUESTIONS,
    MAX_SETS,
    EvaluationRow,
    GoldenQuestion,
    GoldenSet,
)
from corpusmesh_core.tenancy.access import Access
from corpusmesh_core.tenancy.identity import Identity

_KEY = "tenant_id = $1 AND knowledge_base_id = $2 AND golden_set_id = $3"


class PostgresGoldenSetStore:
    """`GoldenSetStore` on Postgres."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self,
        identity: Identity,
        knowledge_base_id: str,
        golden_set_id: str,
        *,
        display_name: str,
        questions: Sequence[GoldenQuestion],
    ) -> GoldenSet:
        """See `GoldenSetStore`; set and questions are one transaction.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            golden_set_id: Id, `[a-z0-9-]{1,63}`.
            display_name: Name for people.
            questions: First questions.

        Returns:
            The set.

        Raises:
            AlreadyExistsError: If the set exists.
            FailedPreconditionError: If the knowledge base has as many sets as it may.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            # Held against the deletion of the knowledge base, and so that two calls do not pass the bound together.
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE, lock="FOR UPDATE")
            count = await connection.fetchval(
                "SELECT count(*) FROM corpusmesh.golden_sets WHERE tenant_id = $1 AND knowledge_base_id = $2",
                identity.tenant_id,
                knowledge_base_id,
            )
            if count >= MAX_SETS:
                raise FailedPreconditionError(
                    "GOLDEN_SETS_FULL",
                    f"a knowledge base holds at most {MAX_SETS} golden sets; delete one",
                    limit=MAX_SETS,
                )
            row = await connection.fetchrow(
                "INSERT INTO corpusmesh.golden_sets (tenant_id, knowledge_base_id, golden_set_id, display_name,"
                " create_user_id) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING golden_set_id",
                identity.tenant_id,
                knowledge_base_id,
                golden_set_id,
                display_name,
                identity.user_id,
            )
            if row is None:
                raise AlreadyExistsError(
                    "GOLDEN_SET_EXISTS",
                    f"the knowledge base has a golden set {golden_set_id!r} already; choose another id",
                    field="golden_set_id",
                    golden_set=golden_set_id,
                )
            return await _append(connection, identity, knowledge_base_id, golden_set_id, questions)

    async def append(
        self, identity: Identity, knowledge_base_id: str, golden_set_id: str, questions: Sequence[GoldenQuestion]
    ) -> GoldenSet:
        """See `GoldenSetStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            golden_set_id: The set.
            questions: Questions to add.

        Returns:
            The set.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            return await _append(connection, identity, knowledge_base_id, golden_set_id, questions)

    async def get(self, identity: Identity, knowledge_base_id: str, golden_set_id: str) -> GoldenSet:
        """See `GoldenSetStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            golden_set_id: The set.

        Returns:
            The set.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            return await _require(connection, identity, knowledge_base_id, golden_set_id)

    async def list(self, identity: Identity, knowledge_base_id: str, after_key: str, limit: int) -> Sequence[GoldenSet]:
        """See `GoldenSetStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            after_key: Id of the last one of the page before.
            limit: Most sets.

        Returns:
            Sets by id.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            rows = await connection.fetch(
                "SELECT * FROM corpusmesh.golden_sets WHERE tenant_id = $1 AND knowledge_base_id = $2"
                " AND golden_set_id > $3 ORDER BY golden_set_id LIMIT $4",
                identity.tenant_id,
                knowledge_base_id,
                after_key,
                limit,
            )
        return [_to_set(row) for row in rows]

    async def questions(
        self, identity: Identity, knowledge_base_id: str, golden_set_id: str, *, after_position: int, limit: int
    ) -> Sequence[GoldenQuestion]:
        """See `GoldenSetStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            golden_set_id: The set.
            after_position: Position of the last one of the page before; -1 for the first page.
            limit: Most questions.

        Returns:
            Questions by position.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await _require(connection, identity, knowledge_base_id, golden_set_id)
            rows = await connection.fetch(
                f"SELECT * FROM corpusmesh.golden_questions WHERE {_KEY} AND position > $4"  # noqa: S608 - constants
                " ORDER BY position LIMIT $5",
                identity.tenant_id,
                knowledge_base_id,
                golden_set_id,
                after_position,
                limit,
            )
        return [_to_question(row) for row in rows]

    async def delete(self, identity: Identity, knowledge_base_id: str, golden_set_id: str) -> None:
        """See `GoldenSetStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            golden_set_id: The set.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            await connection.execute(
                f"DELETE FROM corpusmesh.golden_sets WHERE {_KEY}",  # noqa: S608 - a constant
                identity.tenant_id,
                knowledge_base_id,
                golden_set_id,
            )

    async def ordinals_of(
        self, tenant_id: str, knowledge_base_id: str, document_ids: Collection[str]
    ) -> Mapping[str, tuple[int, ...]]:
        """See `GoldenSetStore`.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.
            document_ids: Documents.

        Returns:
            Ordinals by document; documents that are unknown or deleted are missing.
        """
        async with self._database.tenant(tenant_id) as connection:
            rows = await connection.fetch(
                "SELECT v.document_id, array_agg(v.ordinal ORDER BY v.ordinal) AS ordinals FROM corpusmesh.versions v"
                " JOIN corpusmesh.documents d USING (tenant_id, knowledge_base_id, document_id)"
                " WHERE v.tenant_id = $1 AND v.knowledge_base_id = $2 AND v.document_id = ANY ($3)"
                " AND d.state = 'active' AND v.state <> 'purged' GROUP BY 1",
                tenant_id,
                knowledge_base_id,
                list(document_ids),
            )
        return {row["document_id"]: tuple(row["ordinals"]) for row in rows}


class PostgresEvaluationStore:
    """`EvaluationStore` on Postgres."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self,
        identity: Identity,
        knowledge_base_id: str,
        golden_set_id: str,
        *,
        snapshot_id: int,
        results: Mapping[str, Any],
    ) -> EvaluationRow:
        """See `EvaluationStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            golden_set_id: The set.
            snapshot_id: Snapshot that was searched.
            results: JSON values.

        Returns:
            The evaluation.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await _require(connection, identity, knowledge_base_id, golden_set_id, lock="FOR SHARE")
            row = await connection.fetchrow(
                f"WITH old AS (DELETE FROM corpusmesh.evaluations WHERE {_KEY} AND evaluation_id IN ("  # noqa: S608
                f"   SELECT evaluation_id FROM corpusmesh.evaluations WHERE {_KEY}"
                "   ORDER BY evaluation_id DESC OFFSET $8 - 1))"
                " INSERT INTO corpusmesh.evaluations (tenant_id, knowledge_base_id, golden_set_id, evaluation_id,"
                " snapshot_id, results, create_user_id) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING *",
                identity.tenant_id,
                knowledge_base_id,
                golden_set_id,
                new_id(),
                snapshot_id,
                dict(results),
                identity.user_id,
                KEPT_EVALUATIONS,
            )
        assert row is not None, "an insert returns its row"
        return _to_evaluation(row)

    async def get(
        self, identity: Identity, knowledge_base_id: str, golden_set_id: str, evaluation_id: str
    ) -> EvaluationRow:
        """See `EvaluationStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            golden_set_id: The set.
            evaluation_id: The evaluation.

        Returns:
            The evaluation.

        Raises:
            NotFoundError: If it is unknown or forbidden.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await _require(connection, identity, knowledge_base_id, golden_set_id)
            row = await connection.fetchrow(
                f"SELECT * FROM corpusmesh.evaluations WHERE {_KEY} AND evaluation_id = $4",  # noqa: S608 - a constant
                identity.tenant_id,
                knowledge_base_id,
                golden_set_id,
                evaluation_id,
            )
        if row is None:
            raise NotFoundError("EVALUATION_NOT_FOUND", "there is no such evaluation, or it is not kept any more")
        return _to_evaluation(row)

    async def list(
        self, identity: Identity, knowledge_base_id: str, golden_set_id: str, before_key: str, limit: int
    ) -> Sequence[EvaluationRow]:
        """See `EvaluationStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            golden_set_id: The set.
            before_key: Id of the last one of the page before; "" for the first page.
            limit: Most evaluations.

        Returns:
            Evaluations, newest first.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await _require(connection, identity, knowledge_base_id, golden_set_id)
            rows = await connection.fetch(
                f"SELECT * FROM corpusmesh.evaluations WHERE {_KEY} AND ($4 = '' OR evaluation_id < $4)"  # noqa: S608
                " ORDER BY evaluation_id DESC LIMIT $5",
                identity.tenant_id,
                knowledge_base_id,
                golden_set_id,
                before_key,
                limit,
            )
        return [_to_evaluation(row) for row in rows]


async def _append(
    connection: Connection,
    identity: Identity,
    knowledge_base_id: str,
    golden_set_id: str,
    questions: Sequence[GoldenQuestion],
) -> GoldenSet:
    found = await _require(connection, identity, knowledge_base_id, golden_set_id, lock="FOR UPDATE")
    if found.question_count + len(questions) > MAX_QUESTIONS:
        raise FailedPreconditionError(
            "GOLDEN_SET_FULL",
            f"a golden set holds at most {MAX_QUESTIONS:,} questions; {golden_set_id!r} has {found.question_count:,}",
            limit=MAX_QUESTIONS,
            question_count=found.question_count,
        )
    row = await connection.fetchrow(
        "WITH given AS (SELECT * FROM jsonb_to_recordset($4) AS q(place int, question text, answers jsonb, gold jsonb,"  # noqa: S608
        "   sources int[])),"
        f" last AS (SELECT coalesce(max(position), -1) AS position FROM corpusmesh.golden_questions WHERE {_KEY}),"
        " added AS (INSERT INTO corpusmesh.golden_questions (tenant_id, knowledge_base_id, golden_set_id, position,"
        "   question, answers, gold, sources)"
        "   SELECT $1, $2, $3, last.position + 1 + g.place, g.question, g.answers, g.gold, g.sources FROM given g, last"
        # What it was made from may have been deleted since it was read.
        "   WHERE NOT EXISTS (SELECT FROM corpusmesh.versions v WHERE v.tenant_id = $1 AND v.ordinal = ANY (g.sources)"
        "     AND v.state = 'purged') RETURNING 1)"
        " UPDATE corpusmesh.golden_sets SET question_count = question_count + (SELECT count(*) FROM added),"
        f" update_time = now() WHERE {_KEY} RETURNING *",
        identity.tenant_id,
        knowledge_base_id,
        golden_set_id,
        [
            {
                "place": place,
                "question": entry.question,
                "answers": list(entry.answers),
                "gold": [{"document": item.document_id, "quote": item.quote, "page": item.page} for item in entry.gold],
                "sources": list(entry.sources),
            }
            for place, entry in enumerate(questions)
        ],
    )
    assert row is not None, "the row is locked"
    return _to_set(row)


async def _require(
    connection: Connection, identity: Identity, knowledge_base_id: str, golden_set_id: str, *, lock: str = ""
) -> GoldenSet:
    await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
    row = await connection.fetchrow(
        f"SELECT * FROM corpusmesh.golden_sets WHERE {_KEY} {lock}",  # noqa: S608 - constants
        identity.tenant_id,
        knowledge_base_id,
        golden_set_id,
    )
    if row is None:
        raise NotFoundError(
            "GOLDEN_SET_NOT_FOUND",
            f"the knowledge base has no golden set {golden_set_id!r}; list the ones it has",
            golden_set=golden_set_id,
        )
    return _to_set(row)


def _to_set(row: asyncpg.Record) -> GoldenSet:
    return GoldenSet(
        knowledge_base_id=row["knowledge_base_id"],
        golden_set_id=row["golden_set_id"],
        display_name=row["display_name"],
        question_count=row["question_count"],
        create_user_id=row["create_user_id"],
        create_time=row["create_time"],
        update_time=row["update_time"],
    )


def _to_question(row: asyncpg.Record) -> GoldenQuestion:
    return GoldenQuestion(
        question=row["question"],
        answers=tuple(row["answers"]),
        gold=tuple(GoldItem(item["document"], item["quote"], item["page"]) for item in row["gold"]),
        sources=tuple(row["sources"]),
        position=row["position"],
    )


def _to_evaluation(row: asyncpg.Record) -> EvaluationRow:
    return EvaluationRow(
        knowledge_base_id=row["knowledge_base_id"],
        golden_set_id=row["golden_set_id"],
        evaluation_id=row["evaluation_id"],
        snapshot_id=row["snapshot_id"],
        results=row["results"],
        create_user_id=row["create_user_id"],
        create_time=row["create_time"],
    )
