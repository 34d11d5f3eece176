"""SIGKILL of a worker at every stage boundary: everything is published once, and nothing twice (invariant 1)."""

import asyncio
import os

import pytest

from corpusmesh_client import UploadItem
from corpusmesh_client.knowledge_base_settings import settings_from_plain
from corpusmesh_core.orchestration.values import Stage
from tests.support.mesh import MeshHarness, knowledge_base

POINTS = ("before_work", "after_artefact", "after_index", "after_commit", "before_ack")
STAGES = (Stage.PARSE, Stage.CHUNK, Stage.ENRICH, Stage.EMBED, Stage.INDEX, Stage.PUBLISH)
# One boundary of each stage by default, all of them where the machine has the time.
SAMPLE = (
    "parse:after_artefact",
    "chunk:before_ack",
    "enrich:after_artefact",
    "embed:before_work",
    "index:after_index",
    "publish:after_commit",
)
_UNREACHED = {f"{stage}:after_index" for stage in STAGES if stage is not Stage.INDEX} | {
    f"{stage}:after_artefact" for stage in (Stage.INDEX, Stage.PUBLISH)
}
ALL = tuple(f"{stage}:{point}" for stage in STAGES for point in POINTS if f"{stage}:{point}" not in _UNREACHED)
DOCUMENT_COUNT = 20


@pytest.mark.parametrize("failpoint", ALL if os.environ.get("CORPUSMESH_CRASH_ALL") else SAMPLE)
async def test_a_worker_killed_at_a_stage_boundary_costs_nothing(mesh: MeshHarness, failpoint: str) -> None:
    tenant = await mesh.tenant()
    await mesh.restart("worker", {"CORPUSMESH_FAILPOINT": failpoint})
    async with mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)
        # Without a wish nothing is written by stage enrich, and keywords add no record.
        wanted = settings_from_plain({"enrichment": {"keywords": {"method": "lite"}}})
        wanted.name = base.name
        await client.knowledge_bases.update(wanted)
        items = [
            UploadItem(f"note-{i:02}.md", f"# Note {i}\n\nThe code word of note {i} is zebra{i:02}.".encode())
            for i in range(DOCUMENT_COUNT)
        ]
        upload = await client.upload(base.name, items)
        await asyncio.wait_for(asyncio.to_thread(mesh.processes["worker"].wait), 90)
        assert mesh.processes["worker"].returncode == -9, "the failpoint was reached"

        mesh.spawn("worker")
        await mesh.ready("worker")
        run = await asyncio.wait_for(client.runs.wait(upload.run), 120)

        assert (run.succeeded_count, run.failed_count) == (DOCUMENT_COUNT, 0)
        documents = [document async for document in client.documents.list(base.name)]
        assert len(documents) == DOCUMENT_COUNT
        assert all(document.published_version for document in documents)
        expected = sum(document.latest_version.chunk_count for document in documents)
        assert expected == DOCUMENT_COUNT
        assert await mesh.count_records(tenant.tenant_id) == expected
        for word in ("zebra00", "zebra19"):
            hits = (await client.search([base.name], word, page_size=3)).hits
            assert word in hits[0].text


async def test_two_workers_share_one_run_without_doing_anything_twice(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    mesh.spawn("worker2", like="worker")
    await mesh.ready("worker2")
    try:
        async with mesh.client(tenant.owner_key) as client:
            base = await knowledge_base(client)
            items = [UploadItem(f"{i}.txt", f"Document number {i} speaks of topic {i}.".encode()) for i in range(200)]
            upload = await client.upload(base.name, items)
            run = await asyncio.wait_for(client.runs.wait(upload.run), 120)
            assert (run.succeeded_count, run.failed_count) == (200, 0)
            assert await mesh.count_records(tenant.tenant_id) == 200
    finally:
        mesh.terminate("worker2")
        await asyncio.to_thread(mesh.processes["worker2"].wait, 60)
