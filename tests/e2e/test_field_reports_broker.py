"""FR-A17: idle workers go on after the broker was killed or frozen, and say meanwhile that they cannot fetch."""

import asyncio
import os
import signal

import httpx
import pytest

from corpusmesh_app.stack import ServerName
from corpusmesh_client import UploadItem
from tests.support.mesh import MeshHarness, knowledge_base
from tests.support.mesh_probes import until

DOCUMENTS = 50


async def is_ready(mesh: MeshHarness, process: str) -> bool:
    async with httpx.AsyncClient(timeout=30) as client:
        return (await client.get(mesh.operations_url(process) + "/readyz")).status_code == 200


@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_fr_a17_idle_workers_go_on_after_the_broker_comes_back(mesh: MeshHarness, how: str) -> None:
    tenant = await mesh.tenant()
    worker = mesh.processes["worker"]
    broker = mesh.stack.pids()[ServerName.NATS]

    async def is_idle_and_well() -> bool:
        return await is_ready(mesh, "worker")

    async def is_unwell() -> bool:
        return not await is_ready(mesh, "worker")

    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(240):
        base = (await knowledge_base(client)).name
        items = [UploadItem(f"{i}.txt", f"Signal {i} was heard.".encode()) for i in range(DOCUMENTS)]
        await until(is_idle_and_well, "the worker fetches")
        os.kill(broker, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        try:
            if how == "frozen":
                await until(is_unwell, "the worker notices that the broker is frozen")
            # The work is accepted without the broker: its message waits in the outbox.
            upload = await client.upload(base, items)
        finally:
            if how == "frozen":
                os.kill(broker, signal.SIGCONT)
        run = await client.runs.wait(upload.run)
        assert (run.succeeded_count, run.failed_count) == (DOCUMENTS, 0)
        await until(is_idle_and_well, "the worker is well again")
        if how == "killed":
            assert mesh.stack.pids()[ServerName.NATS] != broker
    assert mesh.processes["worker"] is worker
    assert worker.poll() is None
    assert await mesh.count_records(tenant.tenant_id) == DOCUMENTS
