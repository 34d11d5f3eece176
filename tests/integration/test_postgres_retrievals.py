"""The ledger on a real server, and the erasure of all that was made from a document."""

from collections.abc import AsyncIterator

import pytest

from corpusmesh_adapters.postgres import PostgresRetrievalStore
from corpusmesh_adapters.postgres.erasure import SOURCED_TABLES
from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.retrievals import NewRetrieval, RecordedHit
from corpusmesh_core.tenancy import Identity, Role
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


@pytest.fixture
async def owner(metadata: Metadata) -> Identity:
    identity = await metadata.tenant()
    await metadata.knowledge_base(identity)
    return identity


@pytest.fixture
def ledger(metadata: Metadata) -> PostgresRetrievalStore:
    return PostgresRetrievalStore(metadata.database)


def retrieval(*sources: int, request: bytes = b"asked", days: int = 30) -> NewRetrieval:
    hits = tuple(
        RecordedHit(f"{ordinal}-0", "chunk", "kb", "d", 1, (ordinal,), {"similarity": 0.5}) for ordinal in sources
    )
    return NewRetrieval({"kb": 7}, request, hits, days)


async def expire(metadata: Metadata, *retrieval_ids: str) -> None:
    async with metadata.database.system() as connection:
        await connection.execute(
            "UPDATE corpusmesh.retrievals SET expire_time = now() - interval '1 day' WHERE retrieval_id = ANY ($1)",
            list(retrieval_ids),
        )


async def test_a_retrieval_comes_back_whole_and_in_lists_without_its_hits(
    owner: Identity, ledger: PostgresRetrievalStore
) -> None:
    first = await ledger.add(owner, retrieval(1, 2))
    found = await ledger.get(owner, first)
    assert (found.snapshots, found.request, found.hits) == ({"kb": 7}, b"asked", retrieval(1, 2).hits)
    assert (found.expire_time - found.create_time).days == 30
    second = await ledger.add(owner, retrieval(1))
    ids = sorted((first, second), reverse=True)
    listed = await ledger.list(owner, "", 10)
    assert [row.retrieval_id for row in listed] == ids
    assert all(row.hits == () for row in listed)
    assert [row.retrieval_id for row in await ledger.list(owner, ids[0], 10)] == [ids[1]]


async def test_nobody_reads_or_deletes_what_somebody_else_asked(
    metadata: Metadata, owner: Identity, ledger: PostgresRetrievalStore
) -> None:
    viewer = member(owner.tenant_id, "viewer", Role.VIEWER)
    asked = await ledger.add(viewer, retrieval(1))
    for other in (owner, member(owner.tenant_id, "admin", Role.ADMIN), await metadata.tenant()):
        with pytest.raises(NotFoundError):
            await ledger.get(other, asked)
        assert await ledger.list(other, "", 10) == []
        await ledger.delete(other, asked)
    assert (await ledger.get(viewer, asked)).user_id == "viewer"
    await ledger.delete(viewer, asked)
    with pytest.raises(NotFoundError):
        await ledger.get(viewer, asked)


async def test_what_has_expired_is_not_read_and_goes_with_the_next_record_or_sweep(
    metadata: Metadata, owner: Identity, ledger: PostgresRetrievalStore
) -> None:
    old = [await ledger.add(owner, retrieval(1)) for _ in range(2)]
    await expire(metadata, *old)
    with pytest.raises(NotFoundError):
        await ledger.get(owner, old[0])
    assert await ledger.list(owner, "", 10) == []
    kept = await ledger.add(owner, retrieval(1))
    async with metadata.database.tenant(owner.tenant_id) as connection:
        assert await connection.fetch("SELECT retrieval_id FROM corpusmesh.retrievals") == [(kept,)]
    await expire(metadata, kept)
    assert await metadata.sweeper.prune() >= 1
    async with metadata.database.tenant(owner.tenant_id) as connection:
        assert await connection.fetchval("SELECT count(*) FROM corpusmesh.retrievals") == 0


async def fill(metadata: Metadata, tenant_id: str, ordinal: int) -> None:
    """Put a row made from a version into every table that may hold such rows."""
    async with metadata.database.tenant(tenant_id) as connection:
        for statement in (
            "INSERT INTO corpusmesh.llm_cache (tenant_id, cache_key, model, response, sources)"
            " VALUES ($1, sha256($2::int::text::bytea), 'm', 'r', ARRAY[$2::int])",
            "INSERT INTO corpusmesh.conversations (tenant_id, conversation_id, user_id)"
            " VALUES ($1, 'c' || $2::int, 'owner')",
            "INSERT INTO corpusmesh.messages (tenant_id, conversation_id, position, speaker, text, citations, sources)"
            " VALUES ($1, 'c' || $2::int, 0, 'assistant', 'a secret', '[1]', ARRAY[$2::int, 999999])",
            "INSERT INTO corpusmesh.retrievals (tenant_id, retrieval_id, user_id, knowledge_base_ids, snapshots,"
            " request, hits, sources, expire_time)"
            " VALUES ($1, 'r' || $2::int, 'owner', '{kb}', '{}', '', '[]', ARRAY[$2::int], now() + interval '1 day')",
            "INSERT INTO corpusmesh.golden_sets (tenant_id, knowledge_base_id, golden_set_id, question_count,"
            " create_user_id) VALUES ($1, 'kb', 'g' || $2::int, 1, 'owner')",
            "INSERT INTO corpusmesh.golden_questions (tenant_id, knowledge_base_id, golden_set_id, position, question,"
            " sources) VALUES ($1, 'kb', 'g' || $2::int, 0, 'a secret?', ARRAY[$2::int])",
        ):
            await connection.execute(statement, tenant_id, ordinal)


async def rows_made_of(metadata: Metadata, tenant_id: str, ordinal: int) -> dict[str, int]:
    async with metadata.database.tenant(tenant_id) as connection:
        return {
            table: await connection.fetchval(
                f"SELECT count(*) FROM corpusmesh.{table} WHERE sources && ARRAY[$1::int]", ordinal
            )
            for table in SOURCED_TABLES
        }


async def test_everything_made_from_a_document_goes_with_it_and_the_verify_counts_what_does_not(
    metadata: Metadata, owner: Identity
) -> None:
    result = await metadata.ingest(owner, "kb", [upload("a.txt"), upload("b.txt")])
    await metadata.work_off(owner.tenant_id)
    gone, kept = result.versions
    for version in (gone, kept):
        await fill(metadata, owner.tenant_id, version.ordinal)
    await metadata.documents.delete(owner, "kb", [gone.document_id], "", {})
    assert set((await rows_made_of(metadata, owner.tenant_id, gone.ordinal)).values()) == {0}
    assert set((await rows_made_of(metadata, owner.tenant_id, kept.ordinal)).values()) == {1}
    async with metadata.database.tenant(owner.tenant_id) as connection:
        message = await connection.fetchrow(
            "SELECT * FROM corpusmesh.messages WHERE conversation_id = 'c' || $1::int", gone.ordinal
        )
        assert message is not None
        assert (message["text"], message["citations"], message["is_erased"]) == ("", [], True)
    # A late writer: the verify sees each of its rows, and the end of the purge takes them.
    await metadata.due_messages(owner.tenant_id, every=False)
    before = await metadata.purges.count_rows(owner.tenant_id, "kb", gone.document_id)
    async with metadata.database.tenant(owner.tenant_id) as connection:
        await connection.execute(
            "DELETE FROM corpusmesh.conversations WHERE conversation_id = 'c' || $1::int", gone.ordinal
        )
        await connection.execute(
            "DELETE FROM corpusmesh.golden_sets WHERE golden_set_id = 'g' || $1::int", gone.ordinal
        )
    await fill(metadata, owner.tenant_id, gone.ordinal)
    assert await metadata.purges.count_rows(owner.tenant_id, "kb", gone.document_id) == before + len(SOURCED_TABLES)


async def test_the_end_of_a_purge_takes_what_was_written_late(metadata: Metadata, owner: Identity) -> None:
    result = await metadata.ingest(owner, "kb", [upload("a.txt")])
    await metadata.work_off(owner.tenant_id)
    (gone,) = result.versions
    await metadata.documents.delete(owner, "kb", [gone.document_id], "", {})
    await fill(metadata, owner.tenant_id, gone.ordinal)
    for _ in range(2):
        for message in await metadata.due_messages(owner.tenant_id, every=True):
            async with metadata.database.tenant(owner.tenant_id) as connection:
                await connection.execute("UPDATE corpusmesh.tasks SET not_before = now()")
            await metadata.finish(await metadata.claim(message))
    assert await metadata.purges.count_rows(owner.tenant_id, "kb", gone.document_id) == 0


async def test_nothing_is_recorded_of_a_document_that_was_deleted_meanwhile(
    metadata: Metadata, owner: Identity, ledger: PostgresRetrievalStore
) -> None:
    result = await metadata.ingest(owner, "kb", [upload("a.txt")])
    await metadata.work_off(owner.tenant_id)
    (version,) = result.versions
    assert await ledger.add(owner, retrieval(version.ordinal))
    await metadata.documents.delete(owner, "kb", [version.document_id], "", {})
    assert await ledger.add(owner, retrieval(version.ordinal)) == ""
    assert await ledger.list(owner, "", 10) == []


async def test_retrievals_go_with_any_knowledge_base_that_they_searched(
    metadata: Metadata, owner: Identity, ledger: PostgresRetrievalStore
) -> None:
    await metadata.knowledge_base(owner, "other")
    await ledger.add(owner, NewRetrieval({"kb": 0, "other": 0}, b"", (), 30))
    only = await ledger.add(owner, NewRetrieval({"kb": 0}, b"", (), 30))
    await metadata.knowledge_bases.delete(owner, "other", "", {})
    assert [row.retrieval_id for row in await ledger.list(owner, "", 10)] == [only]
