"""`S3ObjectStore` against the real local S3 service."""

import asyncio
import hashlib
import os
import socket
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import boto3
import pytest

from corpusmesh_adapters.s3 import S3ObjectStore, S3Settings
from corpusmesh_core.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
    UnavailableError,
)
from corpusmesh_core.ports.objects import artefact_key, artefacts_prefix, original_key, originals_prefix

pytestmark = pytest.mark.servers
MIB = 1 << 20


@pytest.fixture(scope="module")
def settings(stack_endpoints: Any) -> S3Settings:
    return S3Settings(
        bucket=stack_endpoints.s3_bucket,
        endpoint_url=stack_endpoints.s3_url,
        access_key=stack_endpoints.s3_access_key,
        secret_key=stack_endpoints.s3_secret_key,
    )


@pytest.fixture(scope="module")
async def store(settings: S3Settings) -> AsyncIterator[S3ObjectStore]:
    store = S3ObjectStore(settings)
    await store.ensure_bucket()
    yield store
    store.close()


@pytest.fixture
def raw(settings: S3Settings) -> Iterator[Any]:
    client = boto3.client(
        "s3",
        endpoint_url=settings.endpoint_url,
        region_name=settings.region,
        aws_access_key_id=settings.access_key,
        aws_secret_access_key=settings.secret_key,
    )
    yield client
    client.close()


@pytest.fixture
def tenant() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def read_all(stream: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in stream])


async def test_put_content_stores_an_original_under_its_digest_and_reads_it_back(
    store: S3ObjectStore, tenant: str
) -> None:
    info = await store.put_content(originals_prefix(tenant), pieces(b"hello ", b"", b"mesh"), max_byte_count=100)
    assert info.key == original_key(tenant, hashlib.sha256(b"hello mesh").hexdigest())
    assert info.byte_count == 10
    assert await store.get(info.key) == b"hello mesh"
    head = await store.head(info.key)
    assert head is not None
    assert (head.byte_count, head.sha256) == (10, info.sha256)


async def test_put_content_of_the_same_bytes_keeps_one_object(store: S3ObjectStore, tenant: str) -> None:
    first = await store.put_content(originals_prefix(tenant), b"same", max_byte_count=100)
    written = await store.head(first.key)
    second = await store.put_content(originals_prefix(tenant), pieces(b"sa", b"me"), max_byte_count=100)
    assert second.key == first.key
    assert await store.head(first.key) == written
    assert [info.key async for info in store.list_prefix(originals_prefix(tenant))] == [first.key]


@pytest.mark.parametrize("byte_count", [0, 1, 16 * MIB, 16 * MIB + 1, 33 * MIB + 7])
async def test_content_of_every_size_survives_the_way_there_and_back(
    store: S3ObjectStore, tenant: str, byte_count: int
) -> None:
    content = os.urandom(byte_count)

    async def in_pieces() -> AsyncIterator[bytes]:
        for start in range(0, byte_count, 700_001):
            yield content[start : start + 700_001]

    info = await store.put_content(originals_prefix(tenant), in_pieces(), max_byte_count=64 * MIB)
    assert await read_all(store.open_stream(info.key)) == content
    assert info.sha256 == hashlib.sha256(content).hexdigest()
    assert await store.delete_prefix(f"{tenant}/") == 1


async def test_put_content_beyond_the_limit_is_refused_and_leaves_nothing(store: S3ObjectStore, tenant: str) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * MIB

    with pytest.raises(InvalidArgumentError) as caught:
        await store.put_content(originals_prefix(tenant), endless(), max_byte_count=3 * MIB)
    assert caught.value.reason == "OBJECT_TOO_LARGE"
    assert [info async for info in store.list_prefix(f"{tenant}/")] == []


async def test_put_with_another_digest_than_announced_is_refused_and_leaves_nothing(
    store: S3ObjectStore, tenant: str
) -> None:
    key = artefact_key(tenant, "r1", "layout.json")
    with pytest.raises(InvalidArgumentError) as caught:
        await store.put(key, b"data", sha256=hashlib.sha256(b"other").hexdigest())
    assert caught.value.reason == "OBJECT_DIGEST_MISMATCH"
    assert await store.head(key) is None


@pytest.mark.parametrize("how", ["get", "open_stream"])
async def test_bytes_changed_in_the_store_are_noticed_on_read(
    store: S3ObjectStore, raw: Any, settings: S3Settings, tenant: str, how: str
) -> None:
    info = await store.put(artefact_key(tenant, "r1", "a.bin"), b"genuine")
    raw.put_object(Bucket=settings.bucket, Key=info.key, Body=b"forged!", Metadata={"sha256": info.sha256})
    with pytest.raises(InternalError) as caught:
        await (store.get(info.key) if how == "get" else read_all(store.open_stream(info.key)))
    assert caught.value.reason == "OBJECT_CORRUPT"


async def test_an_expected_digest_wins_over_the_one_stored_beside_the_bytes(store: S3ObjectStore, tenant: str) -> None:
    info = await store.put(artefact_key(tenant, "r1", "a.bin"), b"replaced by somebody, digest and all")
    with pytest.raises(InternalError):
        await store.get(info.key, sha256=hashlib.sha256(b"what the row says").hexdigest())


async def test_get_refuses_an_object_longer_than_the_bound(store: S3ObjectStore, tenant: str) -> None:
    info = await store.put(artefact_key(tenant, "r1", "big.bin"), b"x" * 1000)
    with pytest.raises(InvalidArgumentError) as caught:
        await store.get(info.key, max_byte_count=999)
    assert caught.value.reason == "OBJECT_TOO_LARGE"
    assert len(await store.get(info.key, max_byte_count=1000)) == 1000


async def test_a_missing_object_is_not_found_and_its_deletion_no_error(store: S3ObjectStore, tenant: str) -> None:
    key = artefact_key(tenant, "r1", "none")
    assert await store.head(key) is None
    with pytest.raises(NotFoundError):
        await store.get(key)
    with pytest.raises(NotFoundError):
        await read_all(store.open_stream(key))
    await store.delete(key)


async def test_delete_prefix_takes_one_run_and_not_its_namesake(store: S3ObjectStore, tenant: str) -> None:
    for run in ("1", "10"):
        for name in ("a", "deep/b"):
            await store.put(artefact_key(tenant, run, name), b"x")
    assert await store.delete_prefix(artefacts_prefix(tenant, "1")) == 2
    left = [info.key async for info in store.list_prefix(f"{tenant}/")]
    assert left == [artefact_key(tenant, "10", "a"), artefact_key(tenant, "10", "deep/b")]
    with pytest.raises(InvalidArgumentError):
        await store.delete_prefix(f"{tenant}/artefacts/1")


async def test_listing_goes_over_pages_and_stops_at_its_bound(store: S3ObjectStore, tenant: str) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(1003):
            group.create_task(store_one(store, artefact_key(tenant, "r", f"n{number:04d}")))
    prefix = artefacts_prefix(tenant, "r")
    keys = [info.key async for info in store.list_prefix(prefix)]
    assert keys == sorted(keys)
    assert len(keys) == 1003
    assert len([info async for info in store.list_prefix(prefix, max_object_count=1001)]) == 1001
    assert await store.delete_prefix(prefix) == 1003


_writing = asyncio.Semaphore(32)


async def store_one(store: S3ObjectStore, key: str) -> None:
    async with _writing:
        await store.put(key, b"x")


async def test_a_failed_multipart_upload_leaves_no_object_and_no_parts(
    settings: S3Settings, store: S3ObjectStore, raw: Any, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = S3ObjectStore(settings)
    upload = failing._client.upload_part

    def third_part_fails(**arguments: Any) -> Any:
        # The wrong digest makes the real service refuse the part.
        if arguments["PartNumber"] == 3:
            arguments["ContentMD5"] = "AAAAAAAAAAAAAAAAAAAAAA=="
        return upload(**arguments)

    monkeypatch.setattr(failing._client, "upload_part", third_part_fails)
    key = artefact_key(tenant, "r1", "large.bin")
    with pytest.raises(InvalidArgumentError) as caught:
        await failing.put(key, os.urandom(25 * MIB))
    failing.close()
    assert caught.value.reason == "OBJECT_DIGEST_MISMATCH"
    assert await store.head(key) is None
    assert [up["Key"] for up in raw.list_multipart_uploads(Bucket=settings.bucket).get("Uploads", [])] == []


async def test_a_slow_producer_ends_at_the_deadline(store: S3ObjectStore, tenant: str) -> None:
    async def never() -> AsyncIterator[bytes]:
        yield b"begin"
        await asyncio.Event().wait()

    with pytest.raises(DeadlineExceededError):
        await store.put_content(originals_prefix(tenant), never(), max_byte_count=100, timeout_seconds=0.2)


async def test_a_store_that_is_not_there_is_unavailable(settings: S3Settings) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        absent = S3ObjectStore(
            S3Settings("b", f"http://127.0.0.1:{unused.getsockname()[1]}", access_key="a", secret_key="top-secret")
        )
        with pytest.raises(UnavailableError) as caught:
            await absent.head("k", timeout_seconds=20)
    assert "top-secret" not in f"{caught.value!r} {caught.value.metadata}"
    absent.close()


async def test_a_store_that_never_answers_ends_at_the_deadline_and_refuses_a_full_queue() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        store = S3ObjectStore(
            S3Settings(
                "b",
                f"http://127.0.0.1:{silent.getsockname()[1]}",
                access_key="a",
                secret_key="s",
                thread_count=2,
                max_waiting_count=3,
                read_timeout_seconds=1.0,
                max_attempt_count=1,
            )
        )
        results = await asyncio.gather(
            *(store.head(f"k{n}", timeout_seconds=0.5) for n in range(8)), return_exceptions=True
        )
        assert {type(result) for result in results} == {DeadlineExceededError, OverloadedError}
        assert sum(isinstance(result, OverloadedError) for result in results) == 3
        store.close()


async def test_wrong_credentials_say_so_without_naming_them(settings: S3Settings) -> None:
    stranger = S3ObjectStore(
        S3Settings(settings.bucket, settings.endpoint_url, access_key=settings.access_key, secret_key="wrong-secret")
    )
    with pytest.raises(FailedPreconditionError) as caught:
        await stranger.get("k")
    assert caught.value.reason == "OBJECT_STORE_ACCESS_DENIED"
    assert "wrong-secret" not in f"{caught.value!r} {caught.value.metadata}"
    stranger.close()
