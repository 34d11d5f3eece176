"""Field reports about documents and their chunks: FR-A03, FR-A04."""

import asyncio

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_core.ports.index import RecordSelection
from corpusmesh_core.records import Ordinal
from tests.support.mesh import MeshHarness, knowledge_base

CLIENTS = 5


async def counts(client: CorpusMeshClient, base: str) -> tuple[int, int, int]:
    """The knowledge base's own count, the listing's count, and the rows that are listed."""
    page = await client.documents.list_page(base)
    listed = [document async for document in client.documents.list(base, page_size=7)]
    return (await client.knowledge_bases.get(base)).document_count, page.total_size, len(listed)


async def test_fr_a03_counts_are_right_after_concurrent_uploads_and_deletions(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(240):
        base = (await knowledge_base(client)).name

        async def upload_four(first: int) -> list[str]:
            async with mesh.client(tenant.owner_key) as own:
                return [
                    (await own.upload(base, [UploadItem(f"note{i}.txt", f"Note {i} names word{i}.".encode())])).run
                    for i in range(first, first + 4)
                ]

        runs = await asyncio.gather(*(upload_four(4 * i) for i in range(CLIENTS)))
        assert await counts(client, base) == (20, 20, 20)
        for run in [name for names in runs for name in names]:
            assert (await client.runs.wait(run)).succeeded_count == 1
        entry = await client.knowledge_bases.get(base)
        assert (entry.document_count, entry.chunk_count) == (20, 20)

        names = [document.name async for document in client.documents.list(base)]
        doomed = asyncio.Queue[str]()
        for name in names[:7]:
            doomed.put_nowait(name)

        async def delete() -> None:
            async with mesh.client(tenant.owner_key) as own:
                while not doomed.empty():
                    await own.documents.delete(doomed.get_nowait())

        await asyncio.gather(*(delete() for _ in range(CLIENTS)))
        assert await counts(client, base) == (13, 13, 13)
        await mesh.restart("ingest")
        assert await counts(client, base) == (13, 13, 13)
        assert (await client.knowledge_bases.get(base)).chunk_count == 13


def prose(paragraphs: int, word: str) -> bytes:
    """Paragraphs of about 50 tokens, each with a word of its own."""
    return "\n\n".join(
        f"Paragraph {i} holds {word}{i}. It was written slowly, on a grey morning, by somebody who had little to say"
        f" and much time to say it in, as the reader of this line has noticed by now, and it ends here at last."
        for i in range(1, paragraphs + 1)
    ).encode()


async def test_fr_a04_nothing_of_a_superseded_version_is_found(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(240):
        base = await knowledge_base(client, max_chunk_tokens=64)
        old = await version_of(client, base.name, prose(12, "oldword"))
        assert old.chunk_count == 12
        assert "oldword9" in (await client.search([base.name], "oldword9")).hits[0].text

        new = await version_of(client, base.name, prose(5, "newword"))
        assert new.chunk_count == 5
        await only(mesh, client, base.name, tenant.tenant_id, 5)

        base.chunk_settings.max_chunk_tokens = 128
        await client.knowledge_bases.update(base, paths=("chunk_settings",))
        again = await version_of(client, base.name, prose(5, "newword"))
        assert again.chunk_count == 3, "the same bytes under another configuration are another version"
        await only(mesh, client, base.name, tenant.tenant_id, 3)

        document = again.name.rsplit("/versions/", 1)[0]
        run = await client.runs.wait(await client.documents.delete(document))
        assert run.failed_count == 0
        assert await mesh.count_records(tenant.tenant_id) == 0, "the purge removes superseded versions too"
        assert (await client.documents.verify_purge(document)).purged


async def version_of(client: CorpusMeshClient, base: str, content: bytes) -> document_pb.Version:
    upload = await client.upload(base, [UploadItem("essay.md", content)])
    run = await client.runs.wait(upload.run)
    assert run.succeeded_count == 1, run
    document = await client.documents.get(upload.documents[0].version.rsplit("/versions/", 1)[0])
    assert document.published_version == upload.documents[0].version
    return document.latest_version


async def only(mesh: MeshHarness, client: CorpusMeshClient, base: str, tenant_id: str, chunk_count: int) -> None:
    """Exactly the published version is found, whatever is asked."""
    for query in ("oldword9", "paragraph that was written slowly", "newword3"):
        found = await client.search([base], query, page_size=100)
        assert not any("oldword" in hit.text for hit in found.hits), query
        assert len({hit.place.version for hit in found.hits}) == 1
    found = await client.search([base], "paragraph that was written slowly", page_size=100)
    assert sorted(hit.position for hit in found.hits) == list(range(chunk_count))
    ordinal = Ordinal(int(found.hits[0].record_id.split("-")[0]))
    assert await mesh.count_records(tenant_id, RecordSelection(publishers=[ordinal])) == chunk_count
