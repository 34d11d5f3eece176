"""Measures searches beside what they stand on, in one run on one machine: `make bench`.

    python bench/search_latency.py [--documents 10000] [--queries 200] [--data FOLDER] [--sets 2wiki,zh,xling]

Presets `fast` and `balanced` through the gateway, one client, against one raw OpenSearch `_msearch` of both legs plus
the embedding of the question, measured in turns so that the machine's noise meets all alike; the product's own time
outside of index and models; then 64 clients at once. By default in a knowledge base of made-up short documents; with
`--sets` in those that `make eval` has left in FOLDER, with their own questions.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import httpx
import numpy as np
from mesh import WORDS, own_mesh

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh_adapters.models.onnx_backend import OnnxEmbeddingBackend
from corpusmesh_adapters.models.registry import DEFAULT_MODEL_NAME, model_directory
from corpusmesh_adapters.opensearch import names
from corpusmesh_adapters.opensearch.recall import multi_search_body, recall_legs
from corpusmesh_app.local import ADMIN_KEY_FILE
from corpusmesh_app.settings import load_settings
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_core.errors import CorpusMeshError
from corpusmesh_core.ports.embedding import EmbedRole
from corpusmesh_core.ports.index import RecallRequest
from corpusmesh_core.records import RecordKind
from corpusmesh_core.text import analyze_query
from corpusmesh_core.visibility import Visibility, build_filter

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("CORPUSMESH_SHARED", ROOT.parent / "shared"))
PRESETS = {"fast": pb.PRESET_FAST, "balanced": pb.PRESET_BALANCED}
GOALS = {"fast": 1.5, "balanced": 2.5}
INDEX_AND_MODEL_STAGES = frozenset({"embed", "recall", "hops"})


def percentile(values: list[float], share: float) -> float:
    return float(np.percentile(values, share * 100))


async def milliseconds_of(act: Callable[[int], Awaitable[object]], place: int) -> float:
    started = time.perf_counter()
    await act(place)
    return (time.perf_counter() - started) * 1000


async def fill(client: CorpusMeshClient, document_count: int) -> str:
    """Make a knowledge base of short documents, once a data folder."""
    identifier = f"latency-{document_count}"
    name = f"knowledgeBases/{identifier}"
    try:
        base = await client.knowledge_bases.get(name)
    except CorpusMeshError:
        base = await client.knowledge_bases.create(
            knowledge_base_pb.KnowledgeBase(display_name=identifier), knowledge_base_id=identifier
        )
    if base.chunk_count < document_count:
        dice = random.Random(1)
        items = [
            UploadItem(f"{place}.txt", (" ".join(dice.choices(WORDS, k=24)) + ".").encode(), title=f"note {place}")
            for place in range(document_count)
        ]
        upload = await client.upload(name, items, interactive=False)
        await client.runs.wait(upload.run)
    return name


def questions_of(sets: list[str], count: int) -> list[str]:
    dice = random.Random(7)
    if not sets:
        return [" ".join(dice.sample(WORDS, 5)) for _ in range(count)]
    questions: list[str] = []
    for name in sets:
        with (SHARED / "eval" / name / "queries.jsonl").open(encoding="utf-8") as lines:
            entries = [json.loads(line) for line in lines]
        questions += [entry.get("question") or entry["question_en"] for entry in entries]
    dice.shuffle(questions)
    return questions[:count]


async def measure(client: CorpusMeshClient, parents: list[str], questions: list[str], data: Path) -> None:
    settings = load_settings(data / "config.yaml")
    backend = await asyncio.to_thread(OnnxEmbeddingBackend, model_directory(DEFAULT_MODEL_NAME))
    base = await client.knowledge_bases.get(parents[0])
    alias = names.space_alias("default", base.space)
    visibility = Visibility.of("bench", range(1, 200_000), 200_000)
    vectors = [backend.encode([question], role=EmbedRole.QUERY).vectors[0] for question in questions]
    plans = {name: pb.RetrievalPlan(preset=preset) for name, preset in PRESETS.items()}

    async with httpx.AsyncClient(base_url=settings.opensearch.url, timeout=30) as http:

        async def raw(place: int) -> None:
            request = RecallRequest(
                terms=analyze_query(questions[place]),
                query_vector=vectors[place],
                visibility=build_filter(visibility, (RecordKind.CHUNK,)),
                knowledge_base_ids=tuple(parent.removeprefix("knowledgeBases/") for parent in parents),
                other_script_window=0,
            )
            body = multi_search_body([body for _, body in recall_legs(request, timeout_milliseconds=10_000)])
            answer = await http.post(
                f"/{alias}/_msearch", content=body, headers={"content-type": "application/x-ndjson"}
            )
            answer.raise_for_status()

        async def embed(place: int) -> None:
            await asyncio.to_thread(backend.encode, [questions[place]], role=EmbedRole.QUERY)

        def search(name: str) -> Callable[[int], Awaitable[pb.SearchChunksResponse]]:
            return lambda place: client.search(parents, questions[place], plan=plans[name], page_size=10)

        acts: dict[str, Callable[[int], Awaitable[object]]] = {
            "raw": raw, "embed": embed, **{name: search(name) for name in PRESETS}
        }  # fmt: skip
        for place in range(min(60, len(questions))):  # warm the JVM and every cache
            for act in acts.values():
                await act(place)
        times: dict[str, list[float]] = {name: [] for name in acts}
        for place in range(len(questions)):
            for name, act in acts.items():
                times[name].append(await milliseconds_of(act, place))
    bare = [first + second for first, second in zip(times["raw"], times["embed"], strict=True)]
    print(
        f"raw _msearch p50 {statistics.median(times['raw']):.1f} ms, p95 {percentile(times['raw'], 0.95):.1f} ms;"
        f" embedding p50 {statistics.median(times['embed']):.1f} ms, p95 {percentile(times['embed'], 0.95):.1f} ms"
    )
    for name in PRESETS:
        ratio = percentile(times[name], 0.95) / percentile(bare, 0.95)
        print(
            f"{name}: p50 {statistics.median(times[name]):.1f} ms, p95 {percentile(times[name], 0.95):.1f} ms;"
            f" ratio to raw p50 {statistics.median(times[name]) / statistics.median(bare):.2f},"
            f" p95 {ratio:.2f} (goal {GOALS[name]})"
        )
        await measure_own_time(client, parents, questions, name)
    for name in PRESETS:
        await measure_crowd(client, parents, questions, name)


async def measure_own_time(client: CorpusMeshClient, parents: list[str], questions: list[str], name: str) -> None:
    """Time of the stages that neither ask the index nor a model; stages that do are told apart by name."""
    own: list[float] = []
    by_stage: dict[str, list[float]] = {}
    for question in questions:
        found = await client.search(
            parents, question, plan=pb.RetrievalPlan(preset=PRESETS[name]), page_size=10, explain=True
        )
        for stage in found.explanation.stages:
            by_stage.setdefault(stage.stage, []).append(stage.duration_milliseconds)
        own.append(
            sum(
                stage.duration_milliseconds
                for stage in found.explanation.stages
                if stage.stage not in INDEX_AND_MODEL_STAGES
            )
        )
    medians = {stage: round(statistics.median(values), 2) for stage, values in by_stage.items()}
    print(f"{name}: stages besides embed and recall p95 {percentile(own, 0.95):.1f} ms; medians {json.dumps(medians)}")


async def measure_crowd(client: CorpusMeshClient, parents: list[str], questions: list[str], name: str) -> None:
    """64 clients at once: no error, and nobody waits out of proportion."""
    durations: list[float] = []
    errors: list[str] = []
    places = iter(range(4 * len(questions)))

    async def work() -> None:
        for place in places:
            started = time.perf_counter()
            try:
                await client.search(
                    parents, questions[place % len(questions)], plan=pb.RetrievalPlan(preset=PRESETS[name])
                )
            except (CorpusMeshError, grpc.aio.AioRpcError) as error:
                errors.append(str(error))
            durations.append((time.perf_counter() - started) * 1000)

    await asyncio.gather(*(work() for _ in range(64)))
    median, highest = statistics.median(durations), percentile(durations, 0.99)
    print(
        f"{name}, 64 clients: {len(errors)} errors of {len(durations)}, p50 {median:.0f} ms, p99 {highest:.0f} ms,"
        f" p99/p50 {highest / median:.2f} (goal 4)"
    )
    for error in sorted(set(errors))[:3]:
        print(f"  {error}")


async def bench(data: Path, document_count: int, query_count: int, sets: list[str]) -> None:
    async with own_mesh(data):
        settings = load_settings(data / "config.yaml")
        address = f"127.0.0.1:{settings.gateway.server.listen_port}"
        async with CorpusMeshClient(address, api_key=(data / ADMIN_KEY_FILE).read_text().strip()) as client:
            parents = [f"knowledgeBases/{name.replace('_', '-')}" for name in sets] or [
                await fill(client, document_count)
            ]
            chunks = [(await client.knowledge_bases.get(parent)).chunk_count for parent in parents]
            print(f"{sum(chunks)} chunks in {len(parents)} knowledge bases")
            await measure(client, parents, questions_of(sets, query_count), data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", default="", help="names of evaluation sets in FOLDER, joined by commas")
    arguments = parser.parse_args()
    print(f"load average before: {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="corpusmesh-bench-") as folder:
        sets = list(filter(None, arguments.sets.split(",")))
        asyncio.run(bench(arguments.data or Path(folder), arguments.documents, arguments.queries, sets))
    print(f"load average after: {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
