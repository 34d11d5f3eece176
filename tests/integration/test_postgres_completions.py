"""Answers of language models in Postgres: kept for one tenant, under their sources, and gone with them."""

import hashlib
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from corpusmesh_adapters.postgres import PostgresCompletionCache
from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.ports.completions import Completion, CompletionCache
from tests.support.metadata import POSTGRES_DSN, Metadata, fresh_metadata, upload

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
def cache(metadata: Metadata) -> CompletionCache:
    return PostgresCompletionCache(metadata.database)


def key(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def completion(text: str, *sources: int, response: str = '{"n": 1}') -> Completion:
    return Completion(key(text), "stub", response, sources)


async def test_answers_are_found_again_and_only_those_that_are_kept(metadata: Metadata, cache: CompletionCache) -> None:
    tenant = (await metadata.tenant()).tenant_id
    await cache.put(tenant, [completion("a", 1, response='{"词": "聚簇"}'), completion("b", 2)])
    assert await cache.get(tenant, [key("a"), key("b"), key("c")]) == {key("a"): '{"词": "聚簇"}', key("b"): '{"n": 1}'}
    assert await cache.get(tenant, []) == {}


async def test_an_answer_of_another_tenant_is_neither_read_nor_erased(
    metadata: Metadata, cache: CompletionCache
) -> None:
    one, other = (await metadata.tenant()).tenant_id, (await metadata.tenant()).tenant_id
    await cache.put(one, [completion("a", 1)])
    assert await cache.get(other, [key("a")]) == {}
    assert await cache.forget(other, [1]) == 0
    assert key("a") in await cache.get(one, [key("a")])


async def test_an_answer_made_again_is_replaced_and_goes_with_any_of_its_sources(
    metadata: Metadata, cache: CompletionCache
) -> None:
    tenant = (await metadata.tenant()).tenant_id
    await cache.put(tenant, [completion("a", 7)])
    await cache.put(tenant, [completion("a", 3, 3, response="[]"), completion("a", 3, response="{}")])
    assert await cache.get(tenant, [key("a")]) == {key("a"): "{}"}
    async with metadata.database.tenant(tenant) as connection:
        assert await connection.fetchval("SELECT sources FROM corpusmesh.llm_cache") == [3, 7]
    assert await cache.forget(tenant, [7, 99]) == 1
    assert await cache.get(tenant, [key("a")]) == {}


async def test_a_late_writer_keeps_nothing_of_a_purged_version(metadata: Metadata, cache: CompletionCache) -> None:
    owner = await metadata.tenant()
    knowledge_base = await metadata.knowledge_base(owner, "purged")
    result = await metadata.ingest(owner, knowledge_base, [upload("a.txt")])
    ordinal = result.versions[0].ordinal
    await cache.put(owner.tenant_id, [completion("before", ordinal)])
    assert key("before") in await cache.get(owner.tenant_id, [key("before")])
    async with metadata.database.tenant(owner.tenant_id) as connection:
        await connection.execute("UPDATE corpusmesh.versions SET state = 'purged' WHERE ordinal = $1", ordinal)
    await cache.put(owner.tenant_id, [completion("late", ordinal), completion("other", ordinal + 1000)])
    assert set(await cache.get(owner.tenant_id, [key("late"), key("other")])) == {key("other")}


async def test_answers_go_with_the_knowledge_base_of_their_source(metadata: Metadata, cache: CompletionCache) -> None:
    owner = await metadata.tenant()
    knowledge_base = await metadata.knowledge_base(owner, "leaving")
    result = await metadata.ingest(owner, knowledge_base, [upload("a.txt")])
    ordinal = result.versions[0].ordinal
    await cache.put(owner.tenant_id, [completion("gone", ordinal), completion("other", ordinal + 1000)])
    await metadata.knowledge_bases.delete(owner, "leaving", "", {})
    assert set(await cache.get(owner.tenant_id, [key("gone"), key("other")])) == {key("other")}


async def test_what_nobody_asked_for_in_a_long_time_is_cleared_away_by_writers(
    metadata: Metadata, cache: CompletionCache
) -> None:
    tenant = (await metadata.tenant()).tenant_id
    await cache.put(tenant, [completion(f"old-{number}", number) for number in range(20)])
    async with metadata.database.tenant(tenant) as connection:
        await connection.execute("UPDATE corpusmesh.llm_cache SET last_use_time = now() - $1::interval", timedelta(31))
    await cache.get(tenant, [key("old-3")])
    await cache.put(tenant, [completion("new", 1)])
    async with metadata.database.tenant(tenant) as connection:
        kept = await connection.fetch("SELECT cache_key FROM corpusmesh.llm_cache")
    assert {row["cache_key"] for row in kept} == {key("old-3"), key("new")}
