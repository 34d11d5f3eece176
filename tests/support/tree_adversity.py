"""Adversity for trees: processes that die at chosen points, people who look meanwhile, models that are asked."""

import asyncio
import contextlib
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_client import CorpusMeshClient
from corpusmesh_client.knowledge_base_settings import settings_from_plain
from corpusmesh_core.errors import CorpusMeshError, UnavailableError
from corpusmesh_core.records import Record
from tests.support.mesh import MeshHarness
from tests.support.mesh_probes import PATIENCE_SECONDS
from tests.support.tree_stub import TreeStub

# Small slices, so that a death leaves some nodes written and some not.
IMPATIENT = {
    "CORPUSMESH_RAPTOR__WORKER__HEARTBEAT_SECONDS": "0.5",
    "CORPUSMESH_RAPTOR__SLICE_NODES": "4",
    "CORPUSMESH_RAPTOR__MODEL_CALL_TIMEOUT_SECONDS": "3",
}
QUESTION = "Who decides for the whole company, and to which office does one write within working days?"
SMALL_CHUNKS: dict[str, Any] = {"chunking": {"settings": {"max_tokens": 80, "heading_break_tokens": 8}}}
Answer = TypeVar("Answer")
Content = Counter[tuple[int, str, str]]


def content(nodes: Mapping[str, Record]) -> Content:
    """What nodes are, whatever ordinals they were given: layer, content key and text."""
    return Counter((node.layer, key.rpartition("-")[2], node.text) for key, node in nodes.items())


async def found_nodes(client: CorpusMeshClient, base: str) -> frozenset[str]:
    plan = retrieval_pb.RetrievalPlan(kinds=["tree_node"])
    return frozenset(hit.record_id for hit in (await client.search([base], QUESTION, plan=plan, page_size=50)).hits)


@dataclass
class Watch:
    """Looks at what is published again and again, while something else goes on."""

    client: CorpusMeshClient
    base: str
    found: set[frozenset[str]] = field(default_factory=set)
    counts: set[tuple[int, ...]] = field(default_factory=set)

    async def look(self) -> None:
        self.found.add(await found_nodes(self.client, self.base))
        # The process that answers this is the one that dies.
        with contextlib.suppress(CorpusMeshError):
            async with asyncio.timeout(2):
                tree = await self.client.trees.get(f"{self.base}/trees/dataset")
                self.counts.add(tuple(tree.layer_node_counts))

    async def run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await self.look()
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def watched(client: CorpusMeshClient, base: str) -> AsyncIterator[Watch]:
    watch = Watch(client, base)
    await watch.look()
    task = asyncio.create_task(watch.run())
    try:
        yield watch
        await watch.look()
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def dies(mesh: MeshHarness) -> None:
    await asyncio.wait_for(asyncio.to_thread(mesh.processes["raptor"].wait), 90)
    assert mesh.processes["raptor"].returncode == -9, "the failpoint was reached"


async def survives_deaths(mesh: MeshHarness, points: Sequence[str], environment: Mapping[str, str]) -> None:
    """Let the process die at one point after the other, each time at work that the one before has left."""
    for point in points:
        if mesh.processes["raptor"].poll() is not None:
            mesh.spawn("raptor", {**environment, "CORPUSMESH_FAILPOINT": point})
        await dies(mesh)
    mesh.spawn("raptor", environment)
    await mesh.ready("raptor")


async def answered(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask again while there is no process, or the gateway has not found the new one yet; calls name their request."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                return await call()
            except UnavailableError:
                await asyncio.sleep(0.2)


async def build_over_deaths(
    mesh: MeshHarness,
    client: CorpusMeshClient,
    base: str,
    points: Sequence[str],
    environment: Mapping[str, str] = IMPATIENT,
) -> None:
    await mesh.restart("raptor", {**environment, "CORPUSMESH_FAILPOINT": points[0]})
    request_id = str(uuid.uuid4())
    asking = asyncio.create_task(answered(lambda: client.trees.build(base, request_id=request_id)))
    await survives_deaths(mesh, points, environment)
    started = await asking
    run = await asyncio.wait_for(client.runs.wait(started.run), 90)
    assert not run.HasField("error"), run


def talks_to(stub: TreeStub) -> dict[str, str]:
    return {"CORPUSMESH_CHAT__URL": stub.base_url, "CORPUSMESH_CHAT__MODEL": "stub"}


async def file_base(client: CorpusMeshClient, **tree: object) -> str:
    """Create a knowledge base whose documents have trees that a language model writes."""
    wanted = settings_from_plain({**SMALL_CHUNKS, "tree": {"scope": "file", "summaries": "llm", **tree}})
    wanted.display_name = f"trees {uuid.uuid4().hex[:8]}"
    return (await client.knowledge_bases.create(wanted)).name


def is_more(stub: TreeStub, count: int) -> Any:
    async def holds() -> bool:
        return len(stub.requests) > count

    return holds
