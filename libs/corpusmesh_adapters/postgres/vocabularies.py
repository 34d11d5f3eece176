"""Tenants' own words."""

import asyncpg

from corpusmesh_adapters.postgres.database import Database
from corpusmesh_core.errors import ConflictError
from corpusmesh_core.ports.vocabulary import VocabularyRow
from corpusmesh_core.tenancy.identity import Identity
from corpusmesh_core.text.vocabulary import Vocabulary

_COLUMNS = "terms, synonyms, revision, update_user_id, update_time"


class PostgresVocabularyStore:
    """`VocabularyStore` on Postgres."""

    def __init__(self, database: Database) -> None:
        """Create the store.

        Args:
            database: The metadata store.
        """
        self._database = database

    async def read(self, identity: Identity, *, newer_than: int = -1) -> VocabularyRow | None:
        """See `VocabularyStore`.

        Args:
            identity: Caller.
            newer_than: A revision that is known already.

        Returns:
            The words; None if the revision is `newer_than`.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            # The words are read only where they are news; what is always read is one number.
            row = await connection.fetchrow(
                "SELECT revision, CASE WHEN revision <> $2 THEN terms END AS terms,"
                "   CASE WHEN revision <> $2 THEN synonyms END AS synonyms, update_user_id, update_time"
                " FROM corpusmesh.vocabularies WHERE tenant_id = $1",
                identity.tenant_id,
                newer_than,
            )
        if row is None:
            return None if newer_than == 0 else VocabularyRow(Vocabulary(), 0)
        return None if row["revision"] == newer_than else _to_row(row)

    async def write(
        self, identity: Identity, vocabulary: Vocabulary, *, expected_revision: int | None = None
    ) -> VocabularyRow:
        """See `VocabularyStore`.

        Args:
            identity: Caller.
            vocabulary: The words.
            expected_revision: Revision that they replace; None to write over any.

        Returns:
            What is stored now; writing what is there already changes nothing, whatever revision was expected.

        Raises:
            ConflictError: If the revision is another one by now.
        """
        terms, synonyms = list(vocabulary.terms), [list(group) for group in vocabulary.synonyms]
        async with self._database.tenant(identity.tenant_id) as connection:
            # The row is there before it is locked, so that two first writers do not pass each other.
            await connection.execute(
                "INSERT INTO corpusmesh.vocabularies (tenant_id, revision) VALUES ($1, 0) ON CONFLICT DO NOTHING",
                identity.tenant_id,
            )
            current = await connection.fetchrow(
                f"SELECT {_COLUMNS} FROM corpusmesh.vocabularies WHERE tenant_id = $1 FOR UPDATE",  # noqa: S608
                identity.tenant_id,
            )
            assert current is not None
            known = _to_row(current)
            if known.vocabulary == vocabulary:
                return known
            if expected_revision is not None and expected_revision != known.revision:
                raise ConflictError(
                    "ETAG_MISMATCH", "the vocabulary was changed meanwhile; read it again", field="vocabulary.etag"
                )
            row = await connection.fetchrow(
                "UPDATE corpusmesh.vocabularies SET terms = $2, synonyms = $3, revision = revision + 1,"  # noqa: S608
                f"  update_user_id = $4, update_time = now() WHERE tenant_id = $1 RETURNING {_COLUMNS}",
                identity.tenant_id,
                terms,
                synonyms,
                identity.user_id,
            )
        assert row is not None
        return _to_row(row)


def _to_row(row: asyncpg.Record) -> VocabularyRow:
    return VocabularyRow(
        vocabulary=Vocabulary(tuple(row["terms"]), tuple(tuple(group) for group in row["synonyms"])),
        revision=row["revision"],
        update_user_id=row["update_user_id"],
        update_time=row["update_time"] if row["revision"] else None,
    )
