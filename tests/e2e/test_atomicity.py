"""A request sees exactly one snapshot, whatever is published meanwhile (invariant 2)."""

import asyncio

from corpusmesh_client import CorpusMeshClient, UploadItem
from tests.support.mesh import MeshHarness, knowledge_base

READERS = 8
PUBLISHES = 60
READS = 200
CHUNKS = 6


def edition(number: int) -> bytes:
    """A document of several chunks that all name their edition."""
    sections = (
        f"## Section {i}\n\nThis handbook, edition{number}, explains rule {i}. "
        + "It is long enough to stand alone. " * 12
        for i in range(CHUNKS)
    )
    return ("# Handbook\n\n" + "\n\n".join(sections)).encode()


async def test_readers_never_see_two_editions_at_once(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client, max_chunk_tokens=128)
        for number in (1, 2):
            upload = await client.upload(base.name, [UploadItem("handbook.md", edition(number))])
            run = await client.runs.wait(upload.run)
            assert run.succeeded_count == 1
        versions = [version.name async for version in client.documents.list_versions(_document(upload))]
        assert len(versions) == 2
        done = asyncio.Event()
        reads: list[int] = []
        readers = [asyncio.create_task(_read(mesh, tenant.owner_key, base.name, done, reads)) for _ in range(READERS)]
        published = 0
        async with asyncio.timeout(240):
            while published < PUBLISHES or len(reads) < READS:
                await client.documents.publish(versions[published % 2])
                published += 1
        done.set()
        await asyncio.gather(*readers)


def _document(upload: object) -> str:
    version: str = upload.documents[0].version  # type: ignore[attr-defined]
    return version.rsplit("/versions/", 1)[0]


async def _read(mesh: MeshHarness, key: str, base: str, done: asyncio.Event, reads: list[int]) -> None:
    async with mesh.client(key) as client:
        while not done.is_set():
            reads.append(await _read_once(client, base))


async def _read_once(client: CorpusMeshClient, base: str) -> int:
    found = await client.search([base], "what does the handbook explain", page_size=50)
    editions = {word for hit in found.hits for word in ("edition1", "edition2") if word in hit.text}
    assert len(editions) == 1, editions
    assert len(found.hits) >= CHUNKS, "no half of an edition"
    assert len({hit.place.version for hit in found.hits}) == 1
    return len(found.hits)
