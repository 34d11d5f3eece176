"""Row-level security: no table shows or takes a row of another tenant, whatever the code above it does."""

import uuid
from collections.abc import AsyncIterator

import asyncpg
import pytest

from corpusmesh_app.stack import StackEndpoints
from tests.support.metadata import POSTGRES_DSN, Metadata, fresh_metadata, member, upload

pytestmark = pytest.mark.servers

if POSTGRES_DSN:

    @pytest.fixture(scope="module")
    def server_dsn() -> str:
        return POSTGRES_DSN
else:

    @pytest.fixture(scope="module")
    def server_dsn(stack_endpoints: StackEndpoints) -> str:
        return stack_endpoints.postgres_dsn


@pytest.fixture(scope="module")
async def metadata(server_dsn: str) -> AsyncIterator[Metadata]:
    async with fresh_metadata(server_dsn) as made:
        yield made


async def _tables(metadata: Metadata) -> list[str]:
    async with metadata.database.system() as connection:
        rows = await connection.fetch(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_schema = 'corpusmesh' AND table_type = 'BASE TABLE' ORDER BY 1"
        )
    return [row["table_name"] for row in rows]


async def _fill_every_table(metadata: Metadata, tenant_id: str) -> None:
    """Put one row of the tenant into every table, made from the types of its columns."""
    owner = member(tenant_id)
    kb = await metadata.knowledge_base(owner, f"kb-{uuid.uuid4().hex[:6]}")
    result = await metadata.ingest(owner, kb, [upload("a.txt")])
    version = result.versions[0]
    keys = (tenant_id, kb)
    async with metadata.database.system() as connection:
        await connection.execute(
            "INSERT INTO corpusmesh.api_keys (tenant_id, key_id, user_id, secret_sha256, scope)"
            " VALUES ($1, $2, 'owner', $3, 'read')",
            tenant_id,
            uuid.uuid4().hex[:16],
            bytes(32),
        )
        statements = (
            "INSERT INTO corpusmesh.snapshots VALUES ($1, $2, 77, 0, '', 'publish', 'x')",
            "INSERT INTO corpusmesh.builds (tenant_id, build_id, knowledge_base_id, kind, state)"
            " VALUES ($1, 'b', $2, 'tree', 'ready')",
            "INSERT INTO corpusmesh.build_drafts (tenant_id, build_id, run_id, slot, first_ordinal, ordinal_count)"
            " SELECT tenant_id, build_id, $2, '1', 9999, 1 FROM corpusmesh.builds WHERE tenant_id = $1",
            "INSERT INTO corpusmesh.sources (tenant_id, knowledge_base_id, source_id, kind, display_name, place,"
            " owner_user_id) VALUES ($1, $2, 's', 'web', 's', '{}', 'u')",
            "INSERT INTO corpusmesh.source_items (tenant_id, knowledge_base_id, source_id, key, display_name, state)"
            " VALUES ($1, $2, 's', 'k', 'k', 'active')",
            "INSERT INTO corpusmesh.graph_corrections (tenant_id, knowledge_base_id, correction_id, content, user_id)"
            " VALUES ($1, $2, 'c', '{}', 'u')",
            "INSERT INTO corpusmesh.graph_triples (tenant_id, knowledge_base_id, document_id, triples)"
            " VALUES ($1, $2, 'd', '[]')",
            "INSERT INTO corpusmesh.tag_sets (tenant_id, tag_set_id, display_name, knowledge_base_id)"
            " VALUES ($1, 't', 't', $2)",
            "INSERT INTO corpusmesh.retrievals (tenant_id, retrieval_id, user_id, knowledge_base_ids, snapshots,"
            " request, hits, expire_time) VALUES ($1, 'r', 'u', ARRAY[$2], '{}', '', '[]', now())",
            "INSERT INTO corpusmesh.golden_sets (tenant_id, knowledge_base_id, golden_set_id, create_user_id)"
            " VALUES ($1, $2, 'g', 'u')",
            "INSERT INTO corpusmesh.golden_questions (tenant_id, knowledge_base_id, golden_set_id, position, question)"
            " VALUES ($1, $2, 'g', 0, 'q')",
            "INSERT INTO corpusmesh.evaluations (tenant_id, knowledge_base_id, golden_set_id, evaluation_id,"
            " snapshot_id, results, create_user_id) VALUES ($1, $2, 'g', 'e', 0, '{}', 'u')",
        )
        for statement in statements:
            await connection.execute(statement, *keys)
        document = (*keys, version.document_id)
        for statement in (
            "INSERT INTO corpusmesh.document_acl VALUES ($1, $2, $3, 'user', 'u', 'allow')",
            "INSERT INTO corpusmesh.document_metadata VALUES ($1, $2, $3, 'k', 'v')",
            "INSERT INTO corpusmesh.chunk_edits (tenant_id, edit_id, knowledge_base_id, document_id, version, anchor,"
            " change, state, created_by) VALUES ($1, 'e', $2, $3, 1, '{}', '{}', 'placed', 'u')",
        ):
            await connection.execute(statement, *document)
        for statement in (
            "INSERT INTO corpusmesh.vocabularies (tenant_id) VALUES ($1)",
            "INSERT INTO corpusmesh.conversations (tenant_id, conversation_id, user_id) VALUES ($1, 'c', 'u')",
            "INSERT INTO corpusmesh.messages (tenant_id, conversation_id, position, speaker, text)"
            " VALUES ($1, 'c', 0, 'user', 't')",
            "INSERT INTO corpusmesh.idempotency VALUES ($1, 'u', 'm', 'r', '', NULL, now())",
            "INSERT INTO corpusmesh.llm_cache (tenant_id, cache_key, model, response) VALUES ($1, 'k', 'm', 'r')",
            "INSERT INTO corpusmesh.llm_usage (tenant_id, day, model, purpose) VALUES ($1, now()::date, 'm', 'p')",
            "INSERT INTO corpusmesh.audit_log (tenant_id, actor, action, resource, outcome)"
            " VALUES ($1, 'u', 'a', 'r', 'OK')",
        ):
            await connection.execute(statement, tenant_id)


@pytest.fixture(scope="module")
async def two_tenants(metadata: Metadata) -> tuple[str, str]:
    first, second = await metadata.tenant(), await metadata.tenant()
    for tenant in (first, second):
        await _fill_every_table(metadata, tenant.tenant_id)
    return first.tenant_id, second.tenant_id


async def test_every_table_carries_the_tenant_and_forces_row_security(metadata: Metadata) -> None:
    tables = await _tables(metadata)
    assert len(tables) >= 20
    async with metadata.database.system() as connection:
        for table in tables:
            flags = await connection.fetchrow(
                "SELECT relrowsecurity, relforcerowsecurity FROM pg_class WHERE oid = ('corpusmesh.' || $1)::regclass",
                table,
            )
            assert flags is not None
            assert flags["relrowsecurity"], table
            assert flags["relforcerowsecurity"], table
            column = await connection.fetchval(
                "SELECT is_nullable FROM information_schema.columns"
                " WHERE table_schema = 'corpusmesh' AND table_name = $1 AND column_name = 'tenant_id'",
                table,
            )
            assert column == "NO", table


async def test_a_tenant_sees_only_its_own_rows_in_any_table(metadata: Metadata, two_tenants: tuple[str, str]) -> None:
    first, second = two_tenants
    for table in await _tables(metadata):
        async with metadata.database.system() as connection:
            everything = await connection.fetch(f"SELECT DISTINCT tenant_id FROM corpusmesh.{table}")
            assert {first, second} <= {row["tenant_id"] for row in everything}, f"{table} was not filled"
        async with metadata.database.tenant(first) as connection:
            seen = await connection.fetch(f"SELECT DISTINCT tenant_id FROM corpusmesh.{table}")
            assert {row["tenant_id"] for row in seen} == {first}, table


@pytest.mark.parametrize("claimed_tenant", ["", "nobody"])
async def test_without_a_tenant_nothing_is_seen_in_any_table(
    metadata: Metadata, two_tenants: tuple[str, str], claimed_tenant: str
) -> None:
    for table in await _tables(metadata):
        async with metadata.database.tenant(claimed_tenant) as connection:
            assert await connection.fetchval(f"SELECT count(*) FROM corpusmesh.{table}") == 0, table


async def test_without_a_role_nothing_is_seen_in_any_table(metadata: Metadata, two_tenants: tuple[str, str]) -> None:
    connection = await asyncpg.connect(metadata.dsn)
    try:
        for table in await _tables(metadata):
            assert await connection.fetchval(f"SELECT count(*) FROM corpusmesh.{table}") == 0, table
    finally:
        await connection.close()


async def test_no_row_of_another_tenant_can_be_changed_or_removed(
    metadata: Metadata, two_tenants: tuple[str, str]
) -> None:
    first, second = two_tenants
    for table in await _tables(metadata):
        for statement in (
            f"UPDATE corpusmesh.{table} SET tenant_id = tenant_id WHERE tenant_id = $1",
            f"DELETE FROM corpusmesh.{table} WHERE tenant_id = $1",
        ):
            try:
                async with metadata.database.tenant(first) as connection:
                    assert (await connection.execute(statement, second)).endswith(" 0"), (table, statement)
            except asyncpg.InsufficientPrivilegeError:
                assert table in {"audit_log", "tenants"}, (table, statement)


_SAMPLES = {
    "text": "'x'", "int4": "1", "int8": "1", "bytea": "''", "jsonb": "'{}'", "_int4": "'{}'", "_text": "'{}'",
    "timestamptz": "now()", "date": "now()", "bool": "true",
}  # fmt: skip


async def _insert_for(metadata: Metadata, table: str, acting: str, written: str) -> None:
    async with metadata.database.tenant(acting) as connection:
        columns = await connection.fetch(
            "SELECT column_name, udt_name FROM information_schema.columns"
            " WHERE table_schema = 'corpusmesh' AND table_name = $1 AND is_identity = 'NO'"
            " AND is_nullable = 'NO' AND column_default IS NULL AND column_name <> 'tenant_id'",
            table,
        )
        names = ", ".join(["tenant_id", *(row["column_name"] for row in columns)])
        values = ", ".join(["$1", *(_SAMPLES[row["udt_name"]] for row in columns)])
        await connection.execute(f"INSERT INTO corpusmesh.{table} ({names}) VALUES ({values})", written)


async def test_no_row_can_be_written_for_another_tenant(metadata: Metadata, two_tenants: tuple[str, str]) -> None:
    first, second = two_tenants
    for table in await _tables(metadata):
        with pytest.raises(asyncpg.PostgresError) as caught:
            await _insert_for(metadata, table, first, second)
        # Checks of values come first in some tables; what must not happen is that it goes through.
        assert isinstance(caught.value, asyncpg.InsufficientPrivilegeError | asyncpg.CheckViolationError), (
            f"{table}: {caught.value}"
        )


async def test_the_audit_log_cannot_be_rewritten(metadata: Metadata, two_tenants: tuple[str, str]) -> None:
    for open_transaction in (metadata.database.tenant(two_tenants[0]), metadata.database.system()):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with open_transaction as connection:
                await connection.execute("DELETE FROM corpusmesh.audit_log")
