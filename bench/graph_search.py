"""Measures what each way of searching a graph adds to a search: `make bench-graphs`.

    python bench/graph_search.py [--counts 200,6000] [--set 2wiki] [--queries 60] [--stub]

The same questions in every mode in turns, so that the machine's noise meets all alike: what a mode adds to `off` at the
median and the 95th percentile, processor time of the services, requests to OpenSearch (it counts them itself), and the
slowest stages. Knowledge bases of several sizes tell how that grows. `--stub` embeds by `stub_llm.py` of
`../shared/bench`, which makes large collections quickly and the embedding of a question cost next to nothing.

Bars: page-rank adds 60 ms at the 95th percentile; six requests at most; processor time grows by at most 1.3.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from graph_build import build, graph_base, put
from measured_mesh import SHARED, MeasuredMesh, Reading, measured_mesh, passages_of, shared_module
from peer_corpusmesh import embedding_of, stub_of

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh_client import CorpusMeshClient

MODES = {
    "off": pb.GraphPlan.MODE_OFF,
    "page-rank": pb.GraphPlan.MODE_PAGE_RANK,
    "naive": pb.GraphPlan.MODE_NAIVE,
    "local": pb.GraphPlan.MODE_LOCAL,
    "global": pb.GraphPlan.MODE_GLOBAL,
    "hybrid": pb.GraphPlan.MODE_HYBRID,
    "mix": pb.GraphPlan.MODE_MIX,
    "knowledge": pb.GraphPlan.MODE_KNOWLEDGE,
    "adjacency": pb.GraphPlan.MODE_ADJACENCY,
    "community-local": pb.GraphPlan.MODE_COMMUNITY_LOCAL,
    "community-global": pb.GraphPlan.MODE_COMMUNITY_GLOBAL,
    "drift": pb.GraphPlan.MODE_DRIFT,
}
MAX_ADDED_MILLISECONDS = 60.0
MAX_REQUESTS = 6
MAX_GROWTH = 1.3
_WARM = 8


def questions_of(name: str, count: int) -> list[str] | None:
    if name == "synthetic":
        corpus = shared_module("corpus")
        return [query["text"] for query in corpus.synthetic(1000).queries][:count] if corpus is not None else None
    path = SHARED / "eval" / name / "queries.jsonl"
    if not path.is_file():
        return None
    with path.open(encoding="utf-8") as lines:
        entries = [json.loads(line) for line in lines]
    return [entry.get("question") or entry["question_en"] for entry in entries][:count]


class Searches:
    """Searches of one knowledge base by mode."""

    def __init__(self, mesh: MeasuredMesh, client: CorpusMeshClient, base: str) -> None:
        self.mesh = mesh
        self.client = client
        self.base = base
        self.milliseconds: dict[str, list[float]] = defaultdict(list)
        self.cost: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.requests: dict[str, list[int]] = defaultdict(list)
        self.stages: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    async def ask(self, mode: str, question: str) -> None:
        before = await self.mesh.read()
        began = time.perf_counter()
        plan = pb.RetrievalPlan(graph=pb.GraphPlan(mode=MODES[mode]))
        found = await self.client.search([self.base], question, plan=plan, page_size=10, explain=True)
        self.milliseconds[mode].append((time.perf_counter() - began) * 1000)
        cost: Reading = (await self.mesh.read()).since(before)
        for name, seconds in (*cost.services.items(), ("servers", cost.server_seconds)):
            self.cost[mode][name] += 1000 * seconds
        self.requests[mode].append(int(sum(cost.requests.values())))
        for stage in found.explanation.stages:
            self.stages[mode][stage.stage].append(stage.duration_milliseconds)

    def services(self, mode: str) -> float:
        """Processor milliseconds of the services for each question."""
        return sum(value for name, value in self.cost[mode].items() if name != "servers") / len(self.milliseconds[mode])

    def tell(self, chunks: int) -> None:
        print(f"\n## {chunks} passages, {len(self.milliseconds['off'])} questions\n")
        print(
            "| mode | p50 ms | p95 ms | adds at p50 | adds at p95 | services CPU ms | retrieve | servers CPU ms |"
            " requests, mean and most | slowest stages, median ms |\n|" + "---|" * 10
        )
        for mode, times in self.milliseconds.items():
            added = np.array(times) - np.array(self.milliseconds["off"])
            count = len(times)
            medians = {stage: statistics.median(values) for stage, values in self.stages[mode].items()}
            slow = sorted(medians.items(), key=lambda item: -item[1])[:4]
            p50, p95 = np.percentile(times, [50, 95])
            off95 = np.percentile(self.milliseconds["off"], 95)
            print(
                f"| {mode} | {p50:.0f} | {p95:.0f} | {np.median(added):.0f} | {p95 - off95:.0f} |"
                f" {self.services(mode):.0f} | {self.cost[mode]['retrieve'] / count:.0f} |"
                f" {self.cost[mode]['servers'] / count:.0f} | {statistics.mean(self.requests[mode]):.1f},"
                f" {max(self.requests[mode])} | {', '.join(f'{name} {value:.0f}' for name, value in slow)} |",
                flush=True,
            )


async def measure(mesh: MeasuredMesh, arguments: argparse.Namespace, count: int) -> tuple[Searches, list[str]]:
    documents, questions = passages_of(arguments.set, count), questions_of(arguments.set, arguments.queries + _WARM)
    assert documents is not None
    assert questions is not None
    tenant = await mesh.harness.tenant()
    async with mesh.harness.client(tenant.owner_key) as client:
        base = await graph_base(client)
        await put(client, base, documents)
        await build(client, base)
        chunks = (await client.knowledge_bases.get(base)).chunk_count
        searches = Searches(mesh, client, base)
        modes = arguments.modes.split(",")
        warm = Searches(mesh, client, base)
        for question in questions[:_WARM]:
            for mode in modes:
                await warm.ask(mode, question)
        for question in questions[_WARM:]:
            for mode in modes:
                await searches.ask(mode, question)
    searches.tell(chunks)
    most = {mode: max(searches.requests[mode]) for mode in modes}
    missed = [f"{mode} at {chunks}: {count} requests" for mode, count in most.items() if count > MAX_REQUESTS]
    p95 = {mode: float(np.percentile(searches.milliseconds[mode], 95)) for mode in modes}
    if "page-rank" in p95 and (added := p95["page-rank"] - p95["off"]) > MAX_ADDED_MILLISECONDS:
        missed.append(f"page-rank at {chunks}: {added:.0f} ms more at p95")
    return searches, missed


async def bench(arguments: argparse.Namespace, folder: Path) -> list[str]:
    counts = sorted(int(part) for part in arguments.counts.split(","))
    if passages_of(arguments.set, 10) is None:
        print(f"no texts for {arguments.set} in {SHARED}: nothing was measured")
        return []
    environment: Mapping[str, str] = {}
    with ExitStack() as held:
        common = shared_module("common")
        if arguments.stub and common is not None:
            stub = stub_of(common, sys.executable, arguments.stub_port, 0.0)
            held.callback(stub.close)
            environment = embedding_of(f"{stub.base}/v1")
        missed: list[str] = []
        async with measured_mesh(folder, environment) as mesh:
            made = []
            for count in counts:
                searches, bad = await measure(mesh, arguments, count)
                made.append(searches)
                missed += bad
        if len(made) > 1:
            for mode in arguments.modes.split(","):
                growth = made[-1].services(mode) / max(made[0].services(mode), 1.0)
                print(f"{mode}: processor time of services grows {growth:.2f} times from {counts[0]} to {counts[-1]}")
                if growth > MAX_GROWTH:
                    missed.append(f"{mode}: processor time grows {growth:.2f} times")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", default="200,6000")
    parser.add_argument("--set", default="2wiki")
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--stub", action="store_true")
    parser.add_argument("--stub-port", type=int, default=24110)
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    print(f"load average before: {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="corpusmesh-bench-") as folder:
        missed = asyncio.run(bench(arguments, arguments.data or Path(folder)))
    print(f"load average after: {os.getloadavg()[0]:.1f}")
    print("Bars that are missed: " + ("; ".join(missed) if missed else "none") + ".")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
