"""Field reports that need an embedding model which does what a test says: FR-A01, FR-A02, FR-A10, FR-A11."""

import asyncio
import csv
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import AsyncIterator

import httpx
import nats
import pytest

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_app.backends import embedding_tokenizer
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_core.errors import UnavailableError
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.ports.objects import artefacts_prefix
from tests.support.mesh import MeshHarness, TestTenant, ingest_texts, knowledge_base
from tests.support.mesh_probes import PATIENCE_SECONDS, count_objects, metric, stub_embedder, until
from tests.support.stub_embeddings import DIMENSION, StubEmbeddings

CHUNKS = 200
LIMIT_TOKENS = 512
SLOW_SECONDS = 1.0
LEXICAL = retrieval_pb.RetrievalPlan(mode=retrieval_pb.SEARCH_MODE_LEXICAL)


class Model:
    """The stub's behaviour: quick, slow once it has seen some texts, and strict about too long ones."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._lock = threading.Lock()
        self._tokenizer = tokenizer
        self.texts: list[str] = []
        self.slow_after: int | None = None
        self.refused_count = 0

    def answer(self, inputs: list[str], _: int) -> tuple[int, str] | None:
        with self._lock:
            self.texts.extend(inputs)
            is_slow = self.slow_after is not None and len(self.texts) > self.slow_after
        if is_slow:
            time.sleep(SLOW_SECONDS)
        if max(self._tokenizer.count_tokens(inputs)) > LIMIT_TOKENS:
            self.refused_count += 1
            return 400, ""
        return None

    def seen(self, marker: str) -> int:
        with self._lock:
            return sum(marker in text for text in self.texts)


@pytest.fixture(scope="module")
async def old_base(distributed_mesh: MeshHarness) -> tuple[TestTenant, str]:
    """A knowledge base in the space of the default model, from before the model is changed."""
    tenant = await distributed_mesh.tenant()
    async with distributed_mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)
        await ingest_texts(client, base.name, {"ferry.md": "The ferry to Marmora leaves from pier nine at dawn."})
    return tenant, base.name


@pytest.fixture(scope="module")
async def model(distributed_mesh: MeshHarness, old_base: object) -> AsyncIterator[Model]:
    behaviour = Model(embedding_tokenizer(distributed_mesh.settings))
    async with stub_embedder(distributed_mesh, StubEmbeddings(behaviour.answer)):
        yield behaviour


def book(marker: str, chunk_count: int = CHUNKS) -> bytes:
    """A document of that many chunks of 32 tokens or less, each with the marker."""
    return "\n\n".join(
        f"## Part {i}\n\n{marker} entry {i} tells what the clerk wrote about ledger {i} that very evening."
        for i in range(chunk_count)
    ).encode()


async def small_chunks(client: CorpusMeshClient) -> str:
    return (await knowledge_base(client, max_chunk_tokens=32)).name


async def published(client: CorpusMeshClient, base: str) -> dict[str, document_pb.Document]:
    return {entry.display_name: entry async for entry in client.documents.list(base) if entry.published_version}


async def cancel_by_grpc(mesh: MeshHarness, key: str, run: str) -> str:
    async with mesh.client(key) as client:
        return run_pb.Run.State.Name((await client.runs.cancel(run)).state)


async def cancel_by_http(mesh: MeshHarness, key: str, run: str) -> str:
    async with httpx.AsyncClient(base_url=mesh.http_url, timeout=60) as http:
        answer = await http.post(f"/v1/{run}:cancel", json={}, headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["run"]["state"])


async def cancel_by_cli(mesh: MeshHarness, key: str, run: str) -> str:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "corpusmesh_app", "runs", "cancel", run, "--endpoint", mesh.grpc_address, "--json"],
        env={**os.environ, "CORPUSMESH_API_KEY": key},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return "STATE_" + str(json.loads(done.stdout)["run"]["state"]).upper()


DOORS = {"grpc": cancel_by_grpc, "http": cancel_by_http, "cli": cancel_by_cli}


@pytest.mark.parametrize("door", DOORS)
async def test_fr_a02_cancel_at_half_way_through_every_door(mesh: MeshHarness, model: Model, door: str) -> None:
    tenant = await mesh.tenant()
    marker = f"a02{door}"
    content = book(marker)
    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(240):
        base = await small_chunks(client)
        model.slow_after = len(model.texts) + CHUNKS // 2
        run = (await client.upload(base, [UploadItem("ledger.md", content)])).run
        states: list[run_pb.Run.State.ValueType] = []

        async def follow() -> run_pb.Run:
            last = run_pb.Run()
            async for last in client.watch_run(run):
                states.append(last.state)
            return last

        following = asyncio.create_task(follow())

        async def half_done() -> bool:
            return model.seen(marker) >= CHUNKS // 2

        await until(half_done, "half of the chunks are embedded")
        answered = await DOORS[door](mesh, tenant.owner_key, run)
        assert answered == "STATE_CANCELLING"
        ended = await following
        assert ended.state == run_pb.Run.STATE_CANCELLED
        rank = [run_pb.Run.STATE_PENDING, run_pb.Run.STATE_RUNNING, run_pb.Run.STATE_CANCELLING, ended.state]
        assert states == sorted(states, key=rank.index), "never back, never through another state"
        after_end = model.seen(marker)
        assert after_end < CHUNKS, "the model was not asked for the rest"

        found = await client.search([base], "what the clerk wrote", page_size=5)
        assert list(found.hits) == []
        assert await published(client, base) == {}
        prefix = artefacts_prefix(tenant.tenant_id, run.rsplit("/", 1)[1])

        async def nothing_left() -> bool:
            return not await mesh.count_records(tenant.tenant_id) and not await count_objects(mesh, prefix)

        await until(nothing_left, "records and artefacts of the run are gone")
        assert model.seen(marker) == after_end, "no model call after the end"

        model.slow_after = None
        again = await client.upload(base, [UploadItem("ledger.md", content)])
        assert (await client.runs.wait(again.run)).state == run_pb.Run.STATE_SUCCEEDED
        assert (await client.runs.get(run)).state == run_pb.Run.STATE_CANCELLED
        assert await mesh.count_records(tenant.tenant_id) == CHUNKS


async def test_fr_a01_cancelled_started_again_and_an_unknown_message(mesh: MeshHarness, model: Model) -> None:
    tenant = await mesh.tenant()
    worker = mesh.processes["worker"]
    labels = {"reason": "TASK_UNKNOWN"}
    name = "corpusmesh_work_messages_rejected_total"
    before = await metric(mesh, "worker", name, labels)
    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(240):
        base = await small_chunks(client)
        pages = book("a01", 30 * 8)
        model.slow_after = len(model.texts) + 40
        first = await client.upload(base, [UploadItem("A.md", pages)])
        run_id = f"gone-{uuid.uuid4().hex}"
        body = {"tenant": tenant.tenant_id, "run": run_id, "task": f"{run_id}.0.parse", "dispatch": 1}
        connection = await nats.connect(mesh.endpoints.nats_url)
        try:
            stream = connection.jetstream()
            await stream.publish(f"work.parse.interactive.{tenant.tenant_id}", json.dumps(body).encode())

            async def is_embedding() -> bool:
                return model.seen("a01") >= 40

            await until(is_embedding, "the document is at work")
            cancelled = await client.runs.cancel(first.run)
            second = await client.upload(base, [UploadItem("A.md", pages)])
            assert cancelled.state == run_pb.Run.STATE_CANCELLING
            model.slow_after = None
            others = await client.upload(base, [UploadItem("B.md", book("b01", 3)), UploadItem("C.md", book("c01", 3))])
            ends = [await client.runs.wait(run) for run in (first.run, second.run, others.run)]
            assert [run_pb.Run.State.Name(end.state) for end in ends] == [
                "STATE_CANCELLED",
                "STATE_SUCCEEDED",
                "STATE_SUCCEEDED",
            ]

            async def is_buried() -> bool:
                return await metric(mesh, "worker", name, labels) == before + 1

            await until(is_buried, "the unknown message is counted")
            dead = json.loads((await stream.get_last_msg("DEAD", "dead.parse.undeliverable")).data or b"")
            assert (dead["reason"], json.loads(dead["body"])) == ("TASK_UNKNOWN", body)
        finally:
            await connection.close()
        documents = await published(client, base)
        assert sorted(documents) == ["A.md", "B.md", "C.md"]
        versions = [entry async for entry in client.documents.list_versions(documents["A.md"].name)]
        assert [entry.published for entry in versions].count(True) == 1
        assert len(versions) == 2
    assert mesh.processes["worker"] is worker
    assert worker.poll() is None, "the worker was never restarted"


async def test_fr_a10_one_row_longer_than_the_model_reads(mesh: MeshHarness, model: Model) -> None:
    tenant = await mesh.tenant()
    model.slow_after = None
    words = " ".join(f"filler{i % 500}" for i in range(6_000))[:60_000]
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["id", "item", "remark"])
    for row in range(100):
        writer.writerow([row, f"item{row:03}", words if row == 57 else f"remark about thing{row:03}"])
    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(200):
        base = await small_chunks(client)
        upload = await client.upload(base, [UploadItem("table.csv", table.getvalue().encode())])
        run = await client.runs.wait(upload.run)
        assert (run.succeeded_count, run.failed_count) == (1, 0), run
        assert model.refused_count == 0, "rows are cut by the model's own tokenizer before it sees them"
        for row in range(0, 100, 3):
            found = await client.search([base], f"item{row:03}", plan=LEXICAL, page_size=3)
            assert f"item{row:03}" in found.hits[0].text
        tail = words.split()[-1]
        found = await client.search([base], tail, plan=LEXICAL, page_size=5)
        assert any(tail in hit.text for hit in found.hits), "the end of the long row is there too"
        document = (await published(client, base))["table.csv"]
        # 60,000 characters at 32 tokens a chunk: split, not cut.
        assert document.latest_version.chunk_count > 200
        [warning] = document.latest_version.warnings
        # Its place in the file: the header is row 1.
        assert re.match(r"Row 59 of a table .*was split into \d+ parts\.", warning), warning
        assert "filler" not in warning


async def test_fr_a11_changed_model_never_fails_or_mixes_searches(
    mesh: MeshHarness, old_base: tuple[TestTenant, str], model: Model
) -> None:
    tenant, old = old_base
    model.slow_after = None
    vector = retrieval_pb.RetrievalPlan(mode=retrieval_pb.SEARCH_MODE_VECTOR)
    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(200):
        found = await client.search([old], "When does the ferry leave?", explain=True)
        words = await client.search([old], "When does the ferry leave?", plan=LEXICAL)
        assert list(found.unreachable) == ["vector"]
        assert any("another embedding model" in note for note in found.explanation.notes)
        assert [hit.record_id for hit in found.hits] == [hit.record_id for hit in words.hits] != []
        assert found.hits[0].scores.vector_similarity == 0.0
        with pytest.raises(UnavailableError) as raised:
            await client.search([old], "ferry", plan=vector)
        assert raised.value.reason == "SPACE_WITHOUT_MODEL"

        new = await knowledge_base(client)
        assert f"-{DIMENSION}-" in new.space
        await ingest_texts(client, new.name, {"tram.md": "The tram to Marmora leaves from the market at noon."})
        found = await client.search([new.name], "When does the tram leave?")
        assert (list(found.unreachable), len(found.hits)) == ([], 1)
        assert found.hits[0].scores.vector_similarity != 0.0
        both = await client.search([old, new.name], "What leaves to Marmora?", explain=True)
        assert {hit.place.display_name for hit in both.hits} == {"ferry.md", "tram.md"}
        assert list(both.unreachable) == ["vector"]
        by_name = {hit.place.display_name: hit.scores.vector_similarity for hit in both.hits}
        assert by_name["ferry.md"] == 0.0 != by_name["tram.md"], "a vector is compared in its own space alone"

        upload = await client.upload(old, [UploadItem("late.md", b"Too late for the ferry to Marmora.")])
        run = await client.runs.wait(upload.run)
        [failure] = run.failed_parts
        assert (failure.display_name, failure.stage) == ("late.md", "embed")
        assert "run the old model again and retry" in failure.error.message

        # The old model again, and nothing else was restarted: what it had made is whole, and the retry goes through.
        done = asyncio.Event()
        searching = asyncio.create_task(keep_searching(client, old, done))
        await mesh.restart("embed")
        done.set()
        assert await searching >= 1
        await client.runs.retry(upload.run)
        assert (await client.runs.wait(upload.run)).failed_count == 0
        found = await client.search([old], "When does the ferry leave?")
        assert (list(found.unreachable), len(found.hits)) == ([], 2)
        assert all(hit.scores.vector_similarity != 0.0 for hit in found.hits)


async def keep_searching(client: CorpusMeshClient, base: str, done: asyncio.Event) -> int:
    """Search all the time, and a few times more; no search may fail or come back empty.

    Returns:
        How many were begun before all was done.
    """
    count = further = 0
    while not done.is_set() or further < 3:
        is_early = not done.is_set()
        found = await client.search([base], "When does the ferry leave?")
        assert found.hits[0].place.display_name == "ferry.md"
        assert list(found.unreachable) == ["vector"] or found.hits[0].scores.vector_similarity != 0.0
        count, further = (count + 1, further) if is_early else (count, further + 1)
        await asyncio.sleep(0.1)
    return count


async def test_fr_a11_a_lying_model_is_refused_with_both_numbers(mesh: MeshHarness) -> None:
    with StubEmbeddings() as stub:
        liar = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "corpusmesh_app", "serve", "embed", "--config", str(mesh.config)],
            env={
                **os.environ,
                "CORPUSMESH_EMBED__BACKEND": "openai",
                "CORPUSMESH_EMBED__OPENAI__BASE_URL": stub.base_url,
                "CORPUSMESH_EMBED__OPENAI__MODEL": "liar",
                "CORPUSMESH_EMBED__OPENAI__DIMENSION": "512",
                "CORPUSMESH_EMBED__SERVER__LISTEN_PORT": "0",
                "CORPUSMESH_OPERATIONS__LISTEN_PORT": "0",
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
    assert liar.returncode != 0
    assert "512" in liar.stderr
    assert f"gives {DIMENSION}" in liar.stderr
