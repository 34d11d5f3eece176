"""What end-to-end tests look at beside the mesh's own answers: metrics, objects, logs, and stubs in place of models."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import httpx
from prometheus_client.parser import text_string_to_metric_families

from corpusmesh_adapters.s3 import S3ObjectStore, S3Settings
from tests.support.mesh import MeshHarness
from tests.support.stub_embeddings import DIMENSION, StubEmbeddings

PATIENCE_SECONDS = 120.0


async def until(condition: Callable[[], Awaitable[bool]], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until something holds; fails with `what` if it does not in time."""
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, f"it did not happen in time: {what}"
        await asyncio.sleep(0.1)


async def metric(mesh: MeshHarness, process: str, name: str, labels: Mapping[str, str]) -> float:
    """Read a sample from a process's own /metrics; 0 where it was never set."""
    async with httpx.AsyncClient(timeout=30) as client:
        text = (await client.get(mesh.operations_url(process) + "/metrics")).text
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and all(sample.labels.get(key) == value for key, value in labels.items())
    )


@contextlib.asynccontextmanager
async def objects(mesh: MeshHarness) -> AsyncIterator[S3ObjectStore]:
    """The object store itself."""
    ends = mesh.endpoints
    store = S3ObjectStore(
        S3Settings(
            bucket=ends.s3_bucket,
            endpoint_url=ends.s3_url,
            region=ends.s3_region,
            access_key=ends.s3_access_key,
            secret_key=ends.s3_secret_key,
        )
    )
    try:
        yield store
    finally:
        store.close()


async def count_objects(mesh: MeshHarness, prefix: str) -> int:
    """Count objects whose keys begin with a prefix."""
    async with objects(mesh) as store:
        return len([key async for key in store.list_prefix(prefix)])


@contextlib.asynccontextmanager
async def stub_embedder(mesh: MeshHarness, stub: StubEmbeddings) -> AsyncIterator[None]:
    """Give the embed service another model, in another space, and its own again at the end."""
    with stub:
        await mesh.restart(
            "embed",
            {
                "CORPUSMESH_EMBED__BACKEND": "openai",
                "CORPUSMESH_EMBED__OPENAI__BASE_URL": stub.base_url,
                "CORPUSMESH_EMBED__OPENAI__MODEL": "stub",
                "CORPUSMESH_EMBED__OPENAI__DIMENSION": str(DIMENSION),
                "CORPUSMESH_EMBED__OPENAI__CONCURRENT_REQUEST_COUNT": "1",
                "CORPUSMESH_EMBED__MAX_BATCH_TEXTS": "8",
            },
        )
        try:
            yield
        finally:
            await mesh.restart("embed")
