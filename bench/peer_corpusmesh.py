"""CorpusMesh in the comparison of `../shared/bench`: same stub, same corpus, same phases, same fields.

    python bench/peer_corpusmesh.py [--n 200] [--method light|ner] [--stub-python PYTHON] [--out results.jsonl]

Starts a mesh of one process a service with the stub as its language model and embedder. `cpu_s` is that of all services
together; `servers_cpu_s` that of OpenSearch, NATS, Postgres and S3, which LightRAG with its default stores does in its
own process. Phases: `index` (documents and graph), `query:<mode>[:context]`, `insert1` (with the
update of the graph), `delete1` (nothing of the document is found any more), `follow1` (what stood on it is written
again), three times each. `--stub-python` has aiohttp and, to count tokens as the peers do, tiktoken.
"""

import asyncio
import ctypes
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measured_mesh import ROOT, SHARED, MeasuredMesh, Reading, measured_mesh, shared_module

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_client.knowledge_base_settings import settings_from_plain

WATCHDOG_SECONDS = 3000
MODES = {
    "page_rank": pb.GraphPlan.MODE_PAGE_RANK,
    "local": pb.GraphPlan.MODE_LOCAL,
    "global": pb.GraphPlan.MODE_GLOBAL,
    "hybrid": pb.GraphPlan.MODE_HYBRID,
    "mix": pb.GraphPlan.MODE_MIX,
    "naive": pb.GraphPlan.MODE_NAIVE,
    "off": pb.GraphPlan.MODE_OFF,
}


def stub_of(common: Any, python: str, port: int, latency_milliseconds: float) -> Any:
    """Start the stub that understands us too; it has what the stub of the comparison has."""

    def die_with_parent() -> None:
        ctypes.CDLL("libc.so.6").prctl(1, 15)

    stub = object.__new__(common.Stub)
    stub.base = f"http://127.0.0.1:{port}"
    program = [python, str(ROOT / "bench" / "graph_stub.py"), str(SHARED / "bench")]
    arguments = ["--port", str(port), "--latency-ms", str(latency_milliseconds)]
    stub.p = subprocess.Popen([*program, *arguments], preexec_fn=die_with_parent)
    for _ in range(200):
        try:
            stub.get("/stats")
        except OSError:
            if stub.p.poll() is not None:
                raise SystemExit("the stub did not start") from None
            time.sleep(0.1)
        else:
            return stub
    raise SystemExit("the stub does not answer")


def embedding_of(address: str) -> dict[str, str]:
    """Settings of a mesh whose embedder is the stub."""
    return {
        "CORPUSMESH_EMBED__BACKEND": "openai",
        "CORPUSMESH_EMBED__OPENAI__BASE_URL": address,
        "CORPUSMESH_EMBED__OPENAI__MODEL": "stub",
        "CORPUSMESH_EMBED__OPENAI__DIMENSION": "384",
    }


class Peer:
    """One knowledge base in a mesh, and what the phases cost."""

    def __init__(self, common: Any, options: Any, stub: Any, mesh: MeasuredMesh) -> None:
        self.common = common
        self.options = options
        self.stub = stub
        self.mesh = mesh
        self.name = f"corpusmesh-{options.method}"
        self._before = Reading()

    async def begin(self) -> None:
        self.stub.reset()
        self._before = await self.mesh.read()

    async def end(self) -> dict[str, Any]:
        cost = await self.mesh.settled(self._before)
        stats = self.stub.stats()
        counted = ("calls", "by_kind", "prompt_tokens", "completion_tokens", "embed_calls", "embed_texts")
        return {
            "wall_s": round(cost.seconds, 3),
            "cpu_s": round(cost.service_seconds, 3),
            "servers_cpu_s": round(cost.server_seconds, 3),
            "cpu_by_service": {name: round(value, 2) for name, value in cost.services.items()},
            "requests": {name: count for name, count in cost.requests.items() if count},
            **{name: stats[name] for name in (*counted, "embed_tokens", "busy_s", "max_inflight")},
            "stub_cpu_s": stats["cpu_s"],
        }

    def emit(self, phase: str, **fields: Any) -> None:
        self.common.emit(self.options, self.name, phase, **fields)

    async def put(self, client: CorpusMeshClient, base: str, documents: Sequence[dict[str, Any]]) -> None:
        items = [
            UploadItem(f"{document['id']}.txt", "¶".join(document["passages"]).encode(), title=document["title"])
            for document in documents
        ]
        upload = await client.upload(base, items, interactive=False)
        run = await client.runs.wait(upload.run)
        assert not run.failed_count, run
        await self.build(client, base)

    async def build(self, client: CorpusMeshClient, base: str) -> None:
        run = await client.runs.wait((await client.graphs.build(f"{base}/graph")).run)
        assert not run.HasField("error"), run

    async def run(self, corpus: Any, module: Any) -> None:
        tenant = await self.mesh.harness.tenant()
        graph: dict[str, object] = {"methods": [self.options.method], "auto_update": False}
        if self.options.method != "ner":
            graph |= {"reports": self.options.reports}
        if self.options.vectors:
            graph |= {"vectors": self.options.vectors}
        settings = settings_from_plain(
            {
                "chunking": {"template": "general", "settings": {"exact_delimiters": ["¶"], "max_tokens": 510}},
                "graph": graph,
            }
        )
        settings.display_name = "peer"
        async with self.mesh.harness.client(tenant.owner_key) as client:
            made = await client.knowledge_bases.create(settings)
            await self.begin()
            await self.put(client, made.name, corpus.docs)
            fields = await self.end()
            held = await client.knowledge_bases.get(made.name)
            told = await client.graphs.get(f"{made.name}/graph")
            disk = await self.mesh.index_bytes(tenant.tenant_id, held.space)
            self.emit(
                "index",
                **fields,
                chunks=held.chunk_count,
                nodes=told.entity_count,
                edges=told.relation_count,
                reports=told.report_count,
                disk_mb=round(disk / 2**20, 1),
            )
            if "query" not in self.options.skip:
                await self.queries(client, made.name, corpus)
            if "insert" not in self.options.skip:
                await self.changes(client, made.name, corpus, module)

    async def queries(self, client: CorpusMeshClient, base: str, corpus: Any) -> None:
        for mode in self.options.modes.split(","):
            for only_context in (True, False) if mode == "mix" else (True,):
                plan = pb.RetrievalPlan(graph=pb.GraphPlan(mode=MODES[mode]))
                for query in corpus.queries[:10]:
                    await client.search([base], f"{query['text']} [warm]", plan=plan)
                await self.begin()
                before, times, empty = await self.mesh.read(), [], 0
                queries = corpus.queries[: self.options.queries]
                for query in queries:
                    text = f"{query['text']} [{mode} {int(only_context)}]"
                    began = time.perf_counter()
                    if only_context:
                        empty += not (await client.search([base], text, plan=plan)).hits
                    else:
                        empty += not [piece async for piece in client.answer([base], text, plan=plan)]
                    times.append(time.perf_counter() - began)
                cost, stats = (await self.mesh.read()).since(before), self.stub.stats()
                searches = {name: round(count / len(queries), 2) for name, count in cost.requests.items() if count}
                self.emit(
                    f"query:{mode}" + (":context" if only_context else ""),
                    **self.common.latency(
                        times,
                        cost.service_seconds,
                        empty=empty,
                        cpu_ms_by_service={
                            name: round(1000 * value / len(times), 1) for name, value in cost.services.items()
                        },
                        servers_cpu_ms=round(1000 * cost.server_seconds / len(times), 2),
                        requests=searches,
                        llm_calls=stats["calls"] / len(times),
                        prompt_tokens=stats["prompt_tokens"] / len(times),
                        embed_calls=stats["embed_calls"] / len(times),
                    ),
                )

    async def changes(self, client: CorpusMeshClient, base: str, corpus: Any, module: Any) -> None:
        inserted, deleted, followed = [], [], []
        for number in range(3):
            await self.begin()
            await self.put(client, base, [module.extra_doc(990 + number, corpus)])
            inserted.append(await self.end())
        self.emit("insert1", runs=inserted, **inserted[-1])
        if "delete" in self.options.skip:
            return
        listed = {item.display_name: item.name async for item in client.documents.list(base)}
        middle, third = corpus.docs[len(corpus.docs) // 2]["id"], corpus.docs[len(corpus.docs) // 3]["id"]
        for name in dict.fromkeys((middle, third, "doc-extra-990")):
            await self.begin()
            await client.runs.wait(await client.documents.delete(listed[f"{name}.txt"]))
            deleted.append(await self.end())
            await self.begin()
            await self.build(client, base)
            followed.append(await self.end())
        self.emit("delete1", runs=deleted, **deleted[0])
        self.emit("follow1", runs=followed, **followed[0])


async def main() -> None:
    common, module = shared_module("common"), shared_module("corpus")
    if common is None or module is None:
        print(f"no comparison at {SHARED / 'bench'}: nothing was measured")
        return
    options = common.args(
        method="light", reports="llm", vectors="", modes="page_rank,local,global,hybrid,mix,naive,off", stub_python=""
    )
    common.watchdog(WATCHDOG_SECONDS)
    stub = stub_of(common, options.stub_python or sys.executable, options.stub_port, options.latency_ms)
    address = f"{stub.base}/v1"
    environment = embedding_of(address) | {"CORPUSMESH_CHAT__URL": address, "CORPUSMESH_CHAT__MODEL": "stub"}
    try:
        with tempfile.TemporaryDirectory(prefix="corpusmesh-bench-") as folder:
            async with measured_mesh(Path(folder), environment) as mesh:
                await Peer(common, options, stub, mesh).run(common.corpus(options), module)
    finally:
        stub.close()


if __name__ == "__main__":
    asyncio.run(main())
