"""What the logs of a whole mesh tell: which request went where, and nothing that a reader of logs must not see."""

import asyncio
import json
import secrets

import grpc
import grpc.aio
import httpx
import pytest

from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh.retrieve.v1.retrieval_service_pb2_grpc import RetrievalServiceStub
from corpusmesh_client import UploadItem
from corpusmesh_core.errors import CorpusMeshError
from tests.support.mesh import MeshHarness, knowledge_base
from tests.support.mesh_probes import until

SERVICES = ("gateway", "retrieve", "embed")


def events(mesh: MeshHarness, process: str, request_id: str) -> list[dict[str, object]]:
    """The lines of a process's log that name a request."""
    lines = mesh.log(process).splitlines()
    return [json.loads(line) for line in lines if request_id in line and line.startswith("{")]


async def test_one_request_is_found_in_the_log_of_every_service_it_went_through(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    by_grpc, by_http, failing = (f"trace-{secrets.token_hex(8)}" for _ in range(3))
    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(120):
        base = (await knowledge_base(client)).name
        upload = await client.upload(base, [UploadItem("owl.txt", b"The owl sleeps by day.")])
        assert (await client.runs.wait(upload.run)).state == run_pb.Run.STATE_SUCCEEDED
    request = retrieval_pb.SearchChunksRequest(knowledge_bases=[base], query="owl")
    key = ("authorization", f"Bearer {tenant.owner_key}")
    async with grpc.aio.insecure_channel(mesh.grpc_address) as channel:
        stub = RetrievalServiceStub(channel)
        await stub.SearchChunks(request, timeout=60, metadata=(key, ("corpusmesh-request-id", by_grpc)))
        request.page_size = -1
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.SearchChunks(request, timeout=60, metadata=(key, ("corpusmesh-request-id", failing)))
    async with httpx.AsyncClient(base_url=mesh.http_url, timeout=60) as http:
        headers = {"authorization": f"Bearer {tenant.owner_key}", "x-request-id": by_http}
        answer = await http.post("/v1/chunks:search", json={"knowledgeBases": [base], "query": "owl"}, headers=headers)
        assert answer.status_code == 200

    for request_id in (by_grpc, by_http):

        async def is_everywhere(wanted: str = request_id) -> bool:
            return all(events(mesh, process, wanted) for process in SERVICES)

        await until(is_everywhere, f"{request_id} is in the logs of {SERVICES}", 30)
        for process in SERVICES:
            # More than one where a service first has to ask what its peer serves.
            all_ended = [event for event in events(mesh, process, request_id) if event["event"] == "call ended"]
            assert {(event["code"], event["request_id"]) for event in all_ended} == {("OK", request_id)}
        [ended] = [event for event in events(mesh, "retrieve", request_id) if event["event"] == "call ended"]
        assert ended["tenant_id"] == tenant.tenant_id
        assert str(ended["method"]).endswith("/SearchChunks")

    async def is_refused() -> bool:
        return any(event.get("reason") == "PAGE_SIZE_INVALID" for event in events(mesh, "retrieve", failing))

    await until(is_refused, "the refusal is in the log with its reason", 30)


async def test_no_log_holds_text_of_documents_or_questions_or_a_secret(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    canary = f"canary{secrets.token_hex(6)}"
    text = f"The {canary} sings at noon. " * 30
    zipped = b"PK\x03\x04" + text.encode() * 20
    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(180):
        base = (await knowledge_base(client)).name
        items = [
            UploadItem("good.md", f"# About {canary}\n\n{text}".encode()),
            UploadItem("table.csv", f"a,b\n{canary},1\n".encode()),
            UploadItem("broken.docx", zipped),
            UploadItem("broken.pdf", b"%PDF-1.7\n" + text.encode()),
            UploadItem("broken.xlsx", zipped),
            UploadItem("broken.json", b'{"x": "' + text.encode()),
            UploadItem(
                "bad.eml", f"From: {canary}\nSubject: {canary}\nContent-Type: multipart/mixed\n\n{text}".encode()
            ),
        ]
        upload = await client.upload(base, items)
        run = await client.runs.wait(upload.run)
        assert run.failed_count >= 2, run
        assert run.succeeded_count >= 2, run
        assert canary not in str(run.failed_parts), "an error names the fault, not the text"
        found = await client.search([base], canary, explain=True)
        assert canary in found.hits[0].text
        _ = [piece async for piece in client.answer([base], f"When does the {canary} sing?")]
        for call in (
            client.search([base], f"{canary} " * 5000),
            client.search([base], canary, page_token=canary),
            client.search([f"knowledgeBases/{canary}"], canary),
            client.documents.get(f"{base}/documents/{canary}"),
        ):
            with pytest.raises(CorpusMeshError):
                await call
    async with mesh.client(f"cm_{'k' * 12}_{canary}{'s' * 30}") as stranger:
        with pytest.raises(CorpusMeshError):
            await stranger.knowledge_bases.get(base)

    assert_hidden(mesh, {"text": canary, "platform key": mesh.platform_key, "key": tenant.owner_key})


def assert_hidden(mesh: MeshHarness, values: dict[str, str]) -> None:
    """None of the values, and no secret of the mesh's own, is in any log file."""
    hidden = dict(values)
    for path in sorted((mesh.data / "secrets").iterdir()):
        secret = path.read_text().strip()
        if len(secret) >= 16:
            hidden[path.name] = secret
    assert len(hidden) >= 6, "the mesh's own secrets are where this test looks for them"
    logs = [path for path in (mesh.data / "logs").rglob("*") if path.is_file()]
    assert {"gateway.log", "worker.log", "retrieve.log", "postgres.log", "opensearch.log"} <= {
        path.name for path in logs
    }
    for path in logs:
        content = path.read_text(errors="replace")
        for what, value in hidden.items():
            assert value not in content, f"{what} in {path.name}"
            # Of a key `cm_<id>_<secret>` the last part is the secret, which may itself hold a "_".
            assert value.split("_", 2)[-1] not in content, f"part of {what} in {path.name}"
