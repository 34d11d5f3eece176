"""Measures the ingest of the mesh beside its own limit, in one run on one machine: `make bench`.

    python bench/mesh.py [--documents 1500] [--data FOLDER]

Chunks per second through the whole mesh, against the bare model on the very texts that the mesh embedded (the raw
throughput of the embedder), and the share of the time that the model was computing. Judge the ratio: the machine is
noisy.
"""

import argparse
import asyncio
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh_adapters.models.onnx_backend import OnnxEmbeddingBackend
from corpusmesh_adapters.models.registry import DEFAULT_MODEL_NAME, model_directory
from corpusmesh_app.local import ADMIN_KEY_FILE, run_mesh
from corpusmesh_app.settings import load_settings
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_core.ports.embedding import EmbedRole

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


@asynccontextmanager
async def own_mesh(data: Path) -> AsyncIterator[None]:
    """Run a mesh in this process."""
    stop, ready = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(run_mesh(data, config=None, ready=lambda *_: ready.set(), stop=stop))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    try:
        yield
    finally:
        stop.set()
        await running


async def bench(data: Path, document_count: int) -> None:
    async with own_mesh(data):
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1500)
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    print(f"load average before: {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="corpusmesh-bench-") as folder:
        asyncio.run(bench(arguments.data or Path(folder), arguments.documents))
    print(f"load average after: {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
