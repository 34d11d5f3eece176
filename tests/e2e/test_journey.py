"""From an upload to a cited answer, and back to nothing; in both deployments."""

import pytest

from corpusmesh_client import UploadItem
from corpusmesh_core.errors import NotFoundError
from tests.support.mesh import MeshHarness, ingest_texts, knowledge_base

OLD = "# Travel policy\n\nEmployees may book trains in first class for journeys over four hours."
NEW = "# Travel policy\n\nEmployees may book trains in second class only, whatever the journey."
OTHER = "# Kitchen rules\n\nThe dishwasher is emptied by whoever finds it clean."


async def test_journey_in_one_process(single_mesh: MeshHarness) -> None:
    await found_replaced_rolled_back_and_purged(single_mesh)


async def test_journey_in_separate_processes(distributed_mesh: MeshHarness) -> None:
    await found_replaced_rolled_back_and_purged(distributed_mesh)


async def found_replaced_rolled_back_and_purged(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)
        await ingest_texts(client, base.name, {"travel.md": OLD, "kitchen.md": OTHER})

        found = await client.search([base.name], "Which class may employees book on a train?", page_size=1)
        assert "first class" in found.hits[0].text
        assert found.hits[0].place.display_name == "travel.md"
        assert found.hits[0].place.heading_path == ["Travel policy"]

        pieces = [piece async for piece in client.answer([base.name], "Who empties the dishwasher?")]
        summary = pieces[-1].summary
        assert "whoever finds it clean" in summary.text
        assert summary.citations[0].hit.place.display_name == "kitchen.md"
        assert f"[ID:{summary.citations[0].marker}]" in summary.text

        first_snapshot = (await client.knowledge_bases.get(base.name)).current_snapshot
        await ingest_texts(client, base.name, {"travel.md": NEW})
        found = await client.search([base.name], "train class", page_size=5)
        assert any("second class" in hit.text for hit in found.hits)
        assert not any("first class" in hit.text for hit in found.hits)
        as_of = await client.search([base.name], "train class", page_size=5, as_of_snapshots=[first_snapshot])
        assert any("first class" in hit.text for hit in as_of.hits)

        await client.knowledge_bases.rollback(base.name, first_snapshot)
        found = await client.search([base.name], "train class", page_size=5)
        assert any("first class" in hit.text for hit in found.hits)

        document = found.hits[0].document if "travel" in found.hits[0].document else found.hits[1].document
        run = await client.documents.delete(document)
        found = await client.search([base.name], "train class", page_size=5)
        assert not any("train" in hit.text for hit in found.hits)
        ended = await client.runs.wait(run)
        assert ended.succeeded_count == 2, ended
        verified = await client.documents.verify_purge(document)
        assert verified.purged, verified
        with pytest.raises(NotFoundError):
            await client.documents.get(document)


async def test_the_same_upload_twice_changes_nothing(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)
        await ingest_texts(client, base.name, {"travel.md": OLD})
        before = await mesh.count_records(tenant.tenant_id)
        again = await client.upload(base.name, [UploadItem("travel.md", OLD.encode())])
        assert again.documents[0].unchanged
        assert await mesh.count_records(tenant.tenant_id) == before == 1


async def test_a_document_is_found_by_the_title_that_its_uploader_gave(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)
        items = [
            UploadItem("a1.txt", b"He was a queen's brother and a count.", title="Boso of Arles"),
            UploadItem("a2.txt", b"He was a king's brother and a duke.", title="Hugo of Tours"),
        ]
        upload = await client.upload(base.name, items)
        run = await client.runs.wait(upload.run)
        assert run.succeeded_count == 2
        found = await client.search([base.name], "Hugo of Tours", page_size=1)
        assert (found.hits[0].title, found.hits[0].place.display_name) == ("Hugo of Tours", "a2.txt")
