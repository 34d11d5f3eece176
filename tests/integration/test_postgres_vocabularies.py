"""The words of tenants in Postgres: one row each, seen by their tenant alone, changed by one writer at a time."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from corpusmesh_adapters.postgres import PostgresVocabularyStore
from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.errors import ConflictError
from corpusmesh_core.tenancy import Identity
from corpusmesh_core.text.vocabulary import Vocabulary
from tests.support.metadata import POSTGRES_DSN, Metadata, fresh_metadata

pytestmark = pytest.mark.servers

WORDS = Vocabulary(("氪金", "clustered index"), (("laptop", "notebook computer", "笔记本电脑"),))

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
    return await metadata.tenant()


@pytest.fixture
def store(metadata: Metadata) -> PostgresVocabularyStore:
    return PostgresVocabularyStore(metadata.database)


async def test_a_tenant_without_words_has_empty_ones(store: PostgresVocabularyStore, owner: Identity) -> None:
    row = await store.read(owner)
    assert row is not None
    assert row.vocabulary.is_empty
    assert row.revision == 0
    assert await store.read(owner, newer_than=0) is None


async def test_words_come_back_as_they_were_and_only_where_they_are_news(
    store: PostgresVocabularyStore, owner: Identity
) -> None:
    written = await store.write(owner, WORDS, expected_revision=0)
    assert written.vocabulary == WORDS
    assert written.update_user_id == "owner"
    assert await store.read(owner) == written
    assert await store.read(owner, newer_than=written.revision) is None
    assert (await store.write(owner, Vocabulary())).vocabulary.is_empty
    assert (await store.read(owner, newer_than=written.revision)) is not None


async def test_another_tenant_sees_nothing_of_it(
    metadata: Metadata, store: PostgresVocabularyStore, owner: Identity
) -> None:
    await store.write(owner, WORDS)
    other = await store.read(await metadata.tenant())
    assert other is not None
    assert other.vocabulary.is_empty


async def test_of_writers_at_once_that_expect_the_same_one_wins(
    store: PostgresVocabularyStore, owner: Identity
) -> None:
    made = await asyncio.gather(
        *(store.write(owner, Vocabulary((f"word {number}",)), expected_revision=0) for number in range(6)),
        return_exceptions=True,
    )
    assert sum(isinstance(one, ConflictError) for one in made) == 5
    row = await store.read(owner)
    assert row is not None
    assert row.revision == 1


async def test_the_same_words_again_change_nothing(store: PostgresVocabularyStore, owner: Identity) -> None:
    first = await store.write(owner, WORDS, expected_revision=0)
    again = await store.write(owner, WORDS, expected_revision=0)
    assert again == first
