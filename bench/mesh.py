"""Measures the mesh beside its own limits, in one run on one machine: `make bench`.

    python bench/mesh.py [--documents 1500] [--data FOLDER] [--queries 200]

Ingest: chunks per second through the whole mesh, against the bare model on the very texts that the mesh embedded
(the raw throughput of the embedder), and the share of the time that the model was computing. Queries: p50 and p95 of a
hybrid search through the gateway at 1, 8 and 32 concurrent clients, against the two raw OpenSearch queries it stands on
plus the embedding of the question, each measured alone. Judge the ratios: the machine is noisy.
"""

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import numpy as np

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh_adapters.models.onnx_backend import OnnxEmbeddingBackend
from corpusmesh_adapters.models.registry import DEFAULT_MODEL_NAME, model_directory
from corpusmesh_adapters.opensearch import names
from corpusmesh_adapters.opensearch.recall import recall_legs
from corpusmesh_app.local import ADMIN_KEY_FILE, run_mesh
from corpusmesh_app.settings import load_settings
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_core.ports.embedding import EmbedRole
from corpusmesh_core.ports.index import RecallRequest
from corpusmesh_core.records import RecordKind
from corpusmesh_core.text import analyze_query
from corpusmesh_core.visibility import Visibility, build_filter

WORDS = re.findall(
    r"\w+",
    "river harbour treaty engine protein archive committee minister valley copper violin parliament glacier printing "
    "contract insurance turbine orchard satellite museum bridge election mineral poet railway vaccine castle harvest "
    "tribunal lantern estuary compass granite ledger mosaic quarry sonata tariff viaduct walnut zenith",
)
TITLE = "{title}\n{text}"


def make_documents(count: int, dice: random.Random) -> list[tuple[str, str]]:
    """Documents of one to four paragraphs, as the passages of real collections are."""
    documents = []
    for number in range(count):
        paragraphs = [
            " ".join(dice.choice(WORDS) for _ in range(int(dice.triangular(30, 160, 80)))) + "."
            for _ in range(dice.choice((1, 1, 1, 2, 4)))
        ]
        documents.append((f"report {number}", "\n\n".join(paragraphs)))
    return documents


def percentile(values: list[float], share: float) -> float:
    return float(np.percentile(values, share * 100))


async def metric(operations_url: str, name: str) -> float:
    async with httpx.AsyncClient() as client:
        text = (await client.get(f"{operations_url}/metrics")).text
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? ([0-9.e+-]+)$", text, re.MULTILINE))


async def measure_ingest(
    client: CorpusMeshClient, parent: str, documents: list[tuple[str, str]], operations_url: str
) -> dict[str, float]:
    compute = await metric(operations_url, "corpusmesh_embed_compute_duration_seconds_sum")
    started = time.perf_counter()
    items = [UploadItem(f"{title}.txt", text.encode(), title=title) for title, text in documents]
    upload = await client.upload(parent, items, interactive=False)
    run = await client.runs.wait(upload.run)
    seconds = time.perf_counter() - started
    assert run.failed_count == 0, run
    computed = await metric(operations_url, "corpusmesh_embed_compute_duration_seconds_sum") - compute
    chunks = (await client.knowledge_bases.get(parent)).chunk_count
    return {
        "seconds": seconds,
        "chunks": chunks,
        "chunks_per_second": chunks / seconds,
        "model_share": computed / seconds,
    }


def measure_model(backend: OnnxEmbeddingBackend, documents: list[tuple[str, str]]) -> float:
    """Chunks per second of the bare model: sorted by length, in batches of the mesh's own token budget."""
    texts = sorted((TITLE.format(title=title, text=text) for title, text in documents), key=len)
    started = time.perf_counter()
    counts = backend.count_tokens(texts)
    batch: list[str] = []
    longest = 0
    for text, tokens in zip(texts, counts, strict=True):
        longest = max(longest, tokens)
        if batch and longest * (len(batch) + 1) > 1024:
            backend.encode(batch, role=EmbedRole.PASSAGE)
            batch, longest = [], tokens
        batch.append(text)
    backend.encode(batch, role=EmbedRole.PASSAGE)
    return len(texts) / (time.perf_counter() - started)


async def timed(count: int, clients: int, act: Callable[[int], Awaitable[object]]) -> list[float]:
    """Milliseconds of each of `count` calls, `clients` of them at a time."""
    durations: list[float] = []
    places = iter(range(count))

    async def work() -> None:
        for place in places:
            started = time.perf_counter()
            await act(place)
            durations.append((time.perf_counter() - started) * 1000)

    await asyncio.gather(*(work() for _ in range(clients)))
    return durations


async def measure_queries(
    client: CorpusMeshClient, parent: str, settings_path: Path, backend: OnnxEmbeddingBackend, count: int
) -> None:
    dice = random.Random(7)
    queries = [" ".join(dice.sample(WORDS, 5)) for _ in range(count)]
    settings = load_settings(settings_path)
    found = await client.search([parent], queries[0], page_size=10)
    assert found.hits
    base = await client.knowledge_bases.get(parent)
    vectors = [backend.encode([query], role=EmbedRole.QUERY).vectors[0] for query in queries]
    visibility = Visibility.of("bench", range(1, 200_000), 200_000)
    alias = names.space_alias("default", base.space)
    async with httpx.AsyncClient(base_url=settings.opensearch.url, timeout=30) as http:

        async def raw(place: int) -> None:
            request = RecallRequest(
                terms=analyze_query(queries[place]),
                query_vector=vectors[place],
                visibility=build_filter(visibility, (RecordKind.CHUNK, RecordKind.SUMMARY)),
                knowledge_base_ids=(parent.removeprefix("knowledgeBases/"),),
                other_script_window=0,
            )
            for _, body in recall_legs(request, timeout_milliseconds=10_000)[:2]:
                (await http.post(f"/{alias}/_search", json=body)).raise_for_status()

        async def embed(place: int) -> None:
            await asyncio.to_thread(backend.encode, [queries[place]], role=EmbedRole.QUERY)

        async def hybrid(place: int) -> None:
            await client.search([parent], queries[place], page_size=10)

        for act in (raw, hybrid):  # warm the JVM and every cache
            await timed(count, 4, act)
        raw_ms = await timed(count, 1, raw)
        embed_ms = await timed(count, 1, embed)
        baseline = statistics.median(raw_ms) + statistics.median(embed_ms)
        baseline95 = percentile(raw_ms, 0.95) + percentile(embed_ms, 0.95)
        print(f"raw OpenSearch, two queries one after the other: p50 {statistics.median(raw_ms):.1f} ms, "
              f"p95 {percentile(raw_ms, 0.95):.1f} ms")  # fmt: skip
        print(
            f"embedding a question: p50 {statistics.median(embed_ms):.1f} ms, p95 {percentile(embed_ms, 0.95):.1f} ms"
        )
        for clients in (1, 8, 32):
            values = await timed(count, clients, hybrid)
            median, high = statistics.median(values), percentile(values, 0.95)
            line = f"hybrid search, {clients:2} clients: p50 {median:.1f} ms, p95 {high:.1f} ms"
            if clients == 1:
                line += f"; ratio to raw p50 {median / baseline:.2f} (goal 2.0), p95 {high / baseline95:.2f}"
            print(line)
    explained = await client.search([parent], queries[1], page_size=10, explain=True)
    stages = {stage.stage: round(stage.duration_milliseconds, 1) for stage in explained.explanation.stages}
    print(f"stages of one query: {json.dumps(stages)}")


async def bench(data: Path, document_count: int, query_count: int) -> None:
    stop, ready = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(run_mesh(data, config=None, ready=lambda *_: ready.set(), stop=stop))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    try:
        settings = load_settings(data / "config.yaml")
        operations_url = f"http://127.0.0.1:{settings.operations.listen_port}"
        address = f"127.0.0.1:{settings.gateway.server.listen_port}"
        async with CorpusMeshClient(address, api_key=(data / ADMIN_KEY_FILE).read_text().strip()) as client:
            base = await client.knowledge_bases.create(
                knowledge_base_pb.KnowledgeBase(display_name=f"bench {time.time_ns()}")
            )
            documents = make_documents(document_count, random.Random(1))
            backend = await asyncio.to_thread(OnnxEmbeddingBackend, model_directory(DEFAULT_MODEL_NAME))
            share = len(documents) // 5
            before = measure_model(backend, documents[:share])
            result = await measure_ingest(client, base.name, documents, operations_url)
            after = measure_model(backend, documents[-share:])
            raw = (before + after) / 2
            print(
                f"ingest: {result['chunks']:.0f} chunks in {result['seconds']:.1f} s,"
                f" {result['chunks_per_second']:.1f} chunks/s;"
                f" bare model {raw:.1f} chunks/s; ratio {result['chunks_per_second'] / raw:.2f} (goal 0.80);"
                f" the model computed {result['model_share']:.0%} of the time"
            )
            await measure_queries(client, base.name, data / "config.yaml", backend, query_count)
    finally:
        stop.set()
        await running


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1500)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    print(f"load average before: {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="corpusmesh-bench-") as folder:
        asyncio.run(bench(arguments.data or Path(folder), arguments.documents, arguments.queries))
    print(f"load average after: {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
