"""Field reports about models that are not what they seem: FR-A06, FR-A07."""

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import grpc.aio
import httpx
from grpc_health.v1 import health_pb2, health_pb2_grpc

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_client.knowledge_base_settings import settings_from_plain
from tests.support.item_chat import answer
from tests.support.mesh import MeshHarness, ingest_texts, knowledge_base
from tests.support.mesh_probes import PATIENCE_SECONDS, until
from tests.support.stub_chat import AnswerFromEvidence, StubChat
from tests.support.stub_embeddings import DIMENSION, StubEmbeddings

LOAD_CALLS = 100
CALLS_A_SECOND = 20


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Replica:
    """A further embed process beside the mesh's own, on ports of its own."""

    def __init__(self, mesh: MeshHarness, stub: StubEmbeddings, log: Path) -> None:
        self.port, self.operations_port = free_port(), free_port()
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "corpusmesh_app", "serve", "embed", "--config", str(mesh.config)],
                env={
                    **os.environ,
                    "CORPUSMESH_EMBED__BACKEND": "openai",
                    "CORPUSMESH_EMBED__OPENAI__BASE_URL": stub.base_url,
                    "CORPUSMESH_EMBED__OPENAI__MODEL": "stub",
                    "CORPUSMESH_EMBED__OPENAI__DIMENSION": str(DIMENSION),
                    "CORPUSMESH_EMBED__SERVER__LISTEN_PORT": str(self.port),
                    "CORPUSMESH_OPERATIONS__LISTEN_PORT": str(self.operations_port),
                },
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    async def is_ready(self) -> bool:
        """What a roll-out looks at before it sends traffic: the probe, and the health of the gRPC port."""
        try:
            async with httpx.AsyncClient(timeout=5) as client:
                probe = (await client.get(f"http://127.0.0.1:{self.operations_port}/readyz")).status_code == 200
        except httpx.HTTPError:
            probe = False
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{self.port}") as channel:
                answered = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
            serving = answered.status == health_pb2.HealthCheckResponse.SERVING
        except grpc.aio.AioRpcError:
            serving = False
        assert probe == serving or not serving, "nothing serves before it is ready"
        return probe

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(60)


@contextmanager
def replica(mesh: MeshHarness, stub: StubEmbeddings, log: Path) -> Iterator[Replica]:
    with stub:
        running = Replica(mesh, stub, log)
        try:
            yield running
        finally:
            running.stop()


async def under_load(client: CorpusMeshClient, base: str, new: Replica) -> list[bool]:
    """Search at a steady rate and look at the new replica all the while; no search may fail."""
    seen: list[bool] = []

    async def search(number: int) -> None:
        await asyncio.sleep(number / CALLS_A_SECOND)
        found = await client.search([base], f"When does ferry number {number} leave?")
        assert found.hits[0].scores.vector_similarity != 0.0
        assert list(found.unreachable) == []
        if number % 10 == 0:
            seen.append(await new.is_ready())

    await asyncio.gather(*(search(number) for number in range(LOAD_CALLS)))
    return seen


async def test_fr_a06_a_replica_whose_model_fails_is_never_ready(mesh: MeshHarness, tmp_path: Path) -> None:
    tenant = await mesh.tenant()
    stub = StubEmbeddings(lambda _inputs, _count: (500, ""))
    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(240):
        base = (await knowledge_base(client)).name
        await ingest_texts(client, base, {"ferry.md": "The ferry leaves from pier nine at dawn."})
        with replica(mesh, stub, tmp_path / "log") as new:
            assert not any(await under_load(client, base, new))

            async def has_ended() -> bool:
                return new.process.poll() is not None

            await until(has_ended, "the replica gives up")
            assert new.process.returncode != 0
            said = new.log.read_text()
            assert stub.requests, "readiness asks the model itself"
            assert "the embedding endpoint fails" in said
            assert "Traceback" not in said


async def test_fr_a06_a_replica_is_ready_once_its_model_infers(mesh: MeshHarness, tmp_path: Path) -> None:
    tenant = await mesh.tenant()
    gate = threading.Event()

    def wait(_inputs: list[str], _count: int) -> None:
        gate.wait(PATIENCE_SECONDS)

    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(240):
        base = (await knowledge_base(client)).name
        await ingest_texts(client, base, {"ferry.md": "The ferry leaves from pier nine at dawn."})
        stub = StubEmbeddings(wait)
        try:
            with replica(mesh, stub, tmp_path / "log") as new:

                async def is_asked() -> bool:
                    return bool(stub.requests)

                await until(is_asked, "the replica tries its model")
                assert new.process.poll() is None
                assert not any(await under_load(client, base, new))
                gate.set()
                await until(new.is_ready, "the replica is ready")
        finally:
            gate.set()


ITEM = re.compile(r"<<<(DATA-[0-9a-f]+) item: (\d+)[^\n]*\n(.*?)\n\1>>>", re.DOTALL)
CHUNKS = 40
BAD = 17


@dataclass(frozen=True)
class Keywords(AnswerFromEvidence):
    """Answers with keywords; of the item with the bad marker, while it is broken, with JSON that is cut off."""

    broken: threading.Event = field(default_factory=threading.Event)

    def text(self, prompt: str) -> str:
        items = {int(number): text for _, number, text in ITEM.findall(prompt)}
        bad = [number for number, text in items.items() if f"ledger{BAD}." in text and self.broken.is_set()]
        good = {number: [f"kw{number}"] for number in items if number not in bad}
        said = answer(good, "keywords")
        return said[:-2] + f', {{"n": {bad[0]}, "keywords": ["cut o' if bad else said


async def test_fr_a07_one_bad_answer_costs_its_chunk_and_the_retry_one_call(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    broken = threading.Event()
    broken.set()
    text = "\n\n".join(
        f"## Part {n}\n\nEntry {n} tells of the evening when the clerk wrote ledger{n}." for n in range(CHUNKS)
    )
    with StubChat([Keywords(broken=broken)]) as stub:
        await mesh.restart("worker", {"CORPUSMESH_CHAT__URL": stub.base_url, "CORPUSMESH_CHAT__MODEL": "stub"})
        try:
            async with mesh.client(tenant.owner_key) as client, asyncio.timeout(240):
                wanted = settings_from_plain(
                    {
                        "chunking": {"settings": {"max_tokens": 32, "heading_break_tokens": 8}},
                        "enrichment": {"keywords": {"method": "llm"}},
                    }
                )
                wanted.display_name = "ledgers"
                base = (await client.knowledge_bases.create(wanted)).name
                upload = await client.upload(base, [UploadItem("ledger.md", text.encode())])
                run = await client.runs.wait(upload.run)
                assert (run.state, run.failed_count) == (run_pb.Run.STATE_SUCCEEDED, 0)
                document = await the_document(client, base)
                version = document.latest_version
                assert document.published_version == version.name
                assert version.chunk_count == CHUNKS
                assert [warning for warning in version.warnings if f"({BAD})" in warning]
                assert len(version.warnings) == 1
                found = await client.search([base], f"ledger{BAD}")
                assert found.hits[0].position == BAD

                broken.clear()
                before = len(stub.requests)
                await client.runs.wait((await client.documents.reprocess(document.name)).run)
                again = (await the_document(client, base)).latest_version
                assert again.name != version.name
                assert list(again.warnings) == []
                assert len(stub.requests) == before + 1, "39 answers come from what was kept"
                assert len(ITEM.findall(stub.requests[-1].prompt)) == 1
        finally:
            await mesh.restart("worker")


async def the_document(client: CorpusMeshClient, base: str) -> document_pb.Document:
    [document] = [entry async for entry in client.documents.list(base)]
    return await client.documents.get(document.name)
