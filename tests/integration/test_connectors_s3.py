"""The S3 connector against a real server: pages of keys, etags, and what is refused."""

import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from corpusmesh_adapters.connectors import ConnectorSettings, S3Connection, SettingsConnectorRegistry
from corpusmesh_adapters.s3 import S3ObjectStore, S3Settings
from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.errors import FailedPreconditionError, NotFoundError, UnavailableError
from corpusmesh_core.sources import ListingEnd, ListingEvent, S3Place, SourceItem

pytestmark = pytest.mark.servers
BUCKET = "connector-tests"


@pytest.fixture(scope="module")
async def store(stack_endpoints: StackEndpoints) -> AsyncIterator[S3ObjectStore]:
    made = S3ObjectStore(
        S3Settings(
            bucket=BUCKET,
            endpoint_url=stack_endpoints.s3_url,
            region=stack_endpoints.s3_region,
            access_key=stack_endpoints.s3_access_key,
            secret_key=stack_endpoints.s3_secret_key,
        )
    )
    await made.ensure_bucket()
    yield made
    made.close()


@pytest.fixture
def connection(stack_endpoints: StackEndpoints) -> S3Connection:
    return S3Connection(
        buckets=(BUCKET, "no-such-bucket"),
        tenants=("tenant",),
        endpoint_url=stack_endpoints.s3_url,
        region=stack_endpoints.s3_region,
        access_key=stack_endpoints.s3_access_key,
        secret_key=stack_endpoints.s3_secret_key,
    )


@pytest.fixture
def prefix() -> str:
    return f"{uuid.uuid4().hex}/"


def registry(connection: S3Connection) -> SettingsConnectorRegistry:
    return SettingsConnectorRegistry(ConnectorSettings(s3_connections={"main": connection}))


async def listing(connection: S3Connection, place: S3Place) -> list[ListingEvent]:
    async with registry(connection).connect("tenant", place) as connector:
        return [event async for event in connector.list("", {}, timeout_seconds=60)]


def items(events: list[ListingEvent]) -> dict[str, SourceItem]:
    return {event.key: event for event in events if isinstance(event, SourceItem)}


async def test_every_page_of_a_listing_is_read(store: S3ObjectStore, connection: S3Connection, prefix: str) -> None:
    for place in range(1005):
        await store.put(f"{prefix}{place:04}.txt", b"x")
    events = await listing(connection, S3Place("main", BUCKET, prefix))
    assert list(items(events)) == [f"{prefix}{place:04}.txt" for place in range(1005)]
    assert events[-1] == ListingEnd(is_complete=True)


async def test_etag_changes_with_the_content_and_content_is_read(
    store: S3ObjectStore, connection: S3Connection, prefix: str
) -> None:
    place = S3Place("main", BUCKET, prefix, exclude=("*.tmp",))
    await store.put(f"{prefix}a.txt", b"one")
    await store.put(f"{prefix}b/c.txt", b"x" * 3_000_000)
    await store.put(f"{prefix}draft.tmp", b"x")
    before = items(await listing(connection, place))
    await store.put(f"{prefix}a.txt", b"two")
    after = items(await listing(connection, place))
    assert list(before) == list(after) == [f"{prefix}a.txt", f"{prefix}b/c.txt"]
    assert before[f"{prefix}a.txt"].etag != after[f"{prefix}a.txt"].etag
    assert before[f"{prefix}b/c.txt"] == after[f"{prefix}b/c.txt"]
    assert (before[f"{prefix}b/c.txt"].metadata, before[f"{prefix}b/c.txt"].size_bytes) == ({"folder": "b"}, 3_000_000)
    async with registry(connection).connect("tenant", place) as connector:
        for key, expected in ((f"{prefix}a.txt", b"two"), (f"{prefix}b/c.txt", b"x" * 3_000_000)):
            pieces = [piece async for piece in connector.open(after[key], timeout_seconds=60)]
            assert b"".join(pieces) == expected
            assert all(len(piece) <= 1 << 20 for piece in pieces)
        await store.delete(f"{prefix}a.txt")
        with pytest.raises(NotFoundError):
            async for _ in connector.open(after[f"{prefix}a.txt"], timeout_seconds=60):
                pass


async def test_missing_bucket_and_wrong_credentials_raise_instead_of_an_empty_listing(
    store: S3ObjectStore, connection: S3Connection, prefix: str
) -> None:
    with pytest.raises(FailedPreconditionError) as missing:
        await listing(connection, S3Place("main", "no-such-bucket"))
    assert missing.value.reason == "OBJECT_BUCKET_MISSING"
    with pytest.raises(FailedPreconditionError) as denied:
        await listing(replace(connection, secret_key="wrong"), S3Place("main", BUCKET, prefix))
    assert denied.value.reason == "OBJECT_STORE_ACCESS_DENIED"
    with pytest.raises(UnavailableError):
        await listing(replace(connection, endpoint_url="http://127.0.0.1:9"), S3Place("main", BUCKET, prefix))


async def test_connection_opens_named_buckets_to_named_tenants_alone(connection: S3Connection) -> None:
    opened = registry(connection)
    opened.check("tenant", S3Place("main", BUCKET))
    for tenant, place, reason in (
        ("tenant", S3Place("main", "corpusmesh"), "SOURCE_BUCKET_FORBIDDEN"),
        ("tenant", S3Place("other", BUCKET), "SOURCE_CONNECTION_UNKNOWN"),
        ("stranger", S3Place("main", BUCKET), "SOURCE_CONNECTION_UNKNOWN"),
    ):
        with pytest.raises(FailedPreconditionError) as caught:
            opened.check(tenant, place)
        assert caught.value.reason == reason
        with pytest.raises(FailedPreconditionError):
            async with opened.connect(tenant, place):
                pass
