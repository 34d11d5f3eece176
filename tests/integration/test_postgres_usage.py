"""What language models have cost, in a real Postgres: bounds that hold whoever asks at once, and tenants apart."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from corpusmesh_adapters.postgres import PostgresUsageLedger
from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.ports.usage import UsageEntry
from tests.support.metadata import POSTGRES_DSN, Metadata, fresh_metadata

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
def ledger(metadata: Metadata) -> PostgresUsageLedger:
    return PostgresUsageLedger(metadata.database)


def entry(tokens: int, *, run: str = "r", model: str = "stub", purpose: str = "tree") -> UsageEntry:
    return UsageEntry(model, purpose, run, 1, tokens - tokens // 4, tokens // 4)


async def test_the_bound_of_a_day_holds_with_twenty_at_once(metadata: Metadata, ledger: PostgresUsageLedger) -> None:
    tenant = (await metadata.tenant()).tenant_id
    granted = await asyncio.gather(
        *(ledger.reserve(tenant, entry(100, run=f"r{place % 3}"), max_tokens_per_day=750) for place in range(20))
    )
    assert sum(granted) == 7
    assert await ledger.spent_today(tenant) == 700


async def test_without_a_bound_everything_is_counted(metadata: Metadata, ledger: PostgresUsageLedger) -> None:
    tenant = (await metadata.tenant()).tenant_id
    granted = await asyncio.gather(*(ledger.reserve(tenant, entry(100), max_tokens_per_day=0) for _ in range(20)))
    assert all(granted)
    assert await ledger.spent_today(tenant) == 2000


async def test_what_was_reserved_gives_way_to_what_was_spent(metadata: Metadata, ledger: PostgresUsageLedger) -> None:
    tenant = (await metadata.tenant()).tenant_id
    reserved = entry(1000)
    assert await ledger.reserve(tenant, reserved, max_tokens_per_day=1500)
    assert not await ledger.reserve(tenant, reserved, max_tokens_per_day=1500)
    await ledger.settle(tenant, reserved, replace(reserved, input_token_count=300, output_token_count=40))
    assert await ledger.spent_today(tenant) == 340
    assert await ledger.reserve(tenant, reserved, max_tokens_per_day=1500)
    assert await ledger.spent_today(tenant) == 1340


async def test_a_call_that_was_not_made_costs_nothing(metadata: Metadata, ledger: PostgresUsageLedger) -> None:
    tenant = (await metadata.tenant()).tenant_id
    reserved = entry(1000)
    await ledger.reserve(tenant, reserved, max_tokens_per_day=0)
    await ledger.settle(tenant, reserved, UsageEntry("stub", "tree", "r", 0, 0, 0))
    assert await ledger.spent_today(tenant) == 0


async def test_a_bound_is_over_all_models_purposes_and_runs(metadata: Metadata, ledger: PostgresUsageLedger) -> None:
    tenant = (await metadata.tenant()).tenant_id
    assert await ledger.reserve(tenant, entry(400), max_tokens_per_day=1000)
    assert await ledger.reserve(tenant, entry(400, run="other", model="big"), max_tokens_per_day=1000)
    assert not await ledger.reserve(tenant, entry(400, purpose="graph"), max_tokens_per_day=1000)


async def test_the_day_before_does_not_count_against_today(metadata: Metadata, ledger: PostgresUsageLedger) -> None:
    tenant = (await metadata.tenant()).tenant_id
    await ledger.reserve(tenant, entry(900), max_tokens_per_day=1000)
    async with metadata.database.tenant(tenant) as connection:
        await connection.execute("UPDATE corpusmesh.llm_usage SET day = day - 1 WHERE tenant_id = $1", tenant)
    assert await ledger.spent_today(tenant) == 0
    assert await ledger.reserve(tenant, entry(900), max_tokens_per_day=1000)


async def test_what_is_settled_after_midnight_gives_the_new_day_no_credit(
    metadata: Metadata, ledger: PostgresUsageLedger
) -> None:
    tenant = (await metadata.tenant()).tenant_id
    reserved = entry(900)
    await ledger.reserve(tenant, reserved, max_tokens_per_day=1000)
    async with metadata.database.tenant(tenant) as connection:
        await connection.execute("UPDATE corpusmesh.llm_usage SET day = day - 1 WHERE tenant_id = $1", tenant)
    await ledger.settle(tenant, reserved, replace(reserved, input_token_count=10, output_token_count=5))
    assert await ledger.spent_today(tenant) == 0
    assert not await ledger.reserve(tenant, entry(1001), max_tokens_per_day=1000)


async def test_tenants_neither_see_nor_spend_what_is_of_others(metadata: Metadata, ledger: PostgresUsageLedger) -> None:
    one, other = (await metadata.tenant()).tenant_id, (await metadata.tenant()).tenant_id
    await ledger.reserve(one, entry(900), max_tokens_per_day=1000)
    assert await ledger.spent_today(other) == 0
    assert await ledger.reserve(other, entry(900), max_tokens_per_day=1000)
    async with metadata.database.tenant(other) as connection:
        assert await connection.fetchval("SELECT count(DISTINCT tenant_id) FROM corpusmesh.llm_usage") == 1
        assert await connection.execute("UPDATE corpusmesh.llm_usage SET call_count = 0 WHERE tenant_id = $1", one) == (
            "UPDATE 0"
        )
    assert await ledger.spent_today(one) == 900


async def test_what_was_spent_long_ago_is_forgotten(metadata: Metadata, ledger: PostgresUsageLedger) -> None:
    tenant = (await metadata.tenant()).tenant_id
    await ledger.reserve(tenant, entry(100), max_tokens_per_day=0)
    async with metadata.database.tenant(tenant) as connection:
        for days in (300, 500):
            await connection.execute(
                "INSERT INTO corpusmesh.llm_usage (tenant_id, day, model, purpose) VALUES ($1, now()::date - $2::int,"
                " 'stub', 'tree')",
                tenant,
                days,
            )
    await metadata.sweeper.prune()
    async with metadata.database.tenant(tenant) as connection:
        rows = await connection.fetch("SELECT now()::date - day AS age FROM corpusmesh.llm_usage ORDER BY 1")
    assert [row["age"] for row in rows] == [0, 300]


async def test_what_a_run_was_charged_is_told_for_all_its_models_and_no_other_run(
    metadata: Metadata, ledger: PostgresUsageLedger
) -> None:
    tenant, other = (await metadata.tenant()).tenant_id, (await metadata.tenant()).tenant_id
    assert await ledger.spent_by_run(tenant, "tree", "r") == (0, 0, 0)
    for made in (entry(100), entry(200, model="another"), entry(400, run="q"), entry(800, purpose="enrich")):
        await ledger.reserve(tenant, made, max_tokens_per_day=0)
    await ledger.reserve(other, entry(100), max_tokens_per_day=0)
    assert await ledger.spent_by_run(tenant, "tree", "r") == (2, 225, 75)
