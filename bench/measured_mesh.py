"""A mesh whose cost can be told apart: every service a process of its own, servers beside them.

Processor seconds of each service and server, requests to OpenSearch by kind (it counts them itself), bytes on disk, and
texts that the embedder was given, as differences over a phase. Judge counts first, they repeat; then processor time.
"""

import asyncio
import importlib.util
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Final

import httpx
import psutil

ROOT: Final = Path(__file__).resolve().parent.parent
SHARED: Final = Path(os.environ.get("CORPUSMESH_SHARED", ROOT.parent / "shared"))
sys.path.insert(0, str(ROOT))

from corpusmesh_adapters.opensearch import names  # noqa: E402 - found beside this folder
from tests.support.mesh import DISTRIBUTED, MeshHarness  # noqa: E402

# Tests are impatient, which costs: these are the defaults.
PATIENT: Final = {
    "CORPUSMESH_INGEST__LEASE_SECONDS": "60",
    "CORPUSMESH_INGEST__HOUSEKEEPER__SWEEP_SECONDS": "5",
    "CORPUSMESH_INGEST__WORKER__HEARTBEAT_SECONDS": "10",
    "CORPUSMESH_INGEST__WORKER__POLL_SECONDS": "5",
    "CORPUSMESH_RAPTOR__WORKER__POLL_SECONDS": "5",
    "CORPUSMESH_LOG__LEVEL": "warning",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
SERVERS: Final = {"opensearch": "java", "nats": "nats-server", "s3": "weed", "postgres": "postgres"}
_TEXTS = re.compile(r"^corpusmesh_embed_texts_total\{[^}]*outcome=\"embedded\"[^}]*\} ([0-9.e+]+)$", re.MULTILINE)


@dataclass(slots=True)
class Reading:
    """What the mesh has cost, in all or over a phase.

    Attributes:
        seconds: Wall seconds.
        services: Processor seconds by service.
        servers: Processor seconds by server.
        requests: Requests to OpenSearch by kind.
        texts: Texts that the embedder was given.
        stored_bytes: Bytes of objects in S3.
    """

    seconds: float = 0.0
    services: Counter[str] = field(default_factory=Counter)
    servers: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    texts: int = 0
    stored_bytes: int = 0

    @property
    def service_seconds(self) -> float:
        """Processor seconds of all services."""
        return float(sum(self.services.values()))

    @property
    def server_seconds(self) -> float:
        """Processor seconds of all servers."""
        return float(sum(self.servers.values()))

    def since(self, before: "Reading") -> "Reading":
        """Give what came since another reading."""

        def less(now: Mapping[str, float], then: Mapping[str, float]) -> Counter[str]:
            return Counter({name: value - then.get(name, 0) for name, value in now.items()})

        return Reading(
            self.seconds - before.seconds,
            less(self.services, before.services),
            less(self.servers, before.servers),
            less(self.requests, before.requests),
            self.texts - before.texts,
            self.stored_bytes - before.stored_bytes,
        )

    def told(self) -> str:
        """Tell it in one line; what cost nothing is left out."""

        def rounded(values: Mapping[str, float]) -> str:
            return ", ".join(f"{name} {value:.2f}" for name, value in sorted(values.items()) if value >= 0.05)

        asked = ", ".join(f"{name} {count}" for name, count in sorted(self.requests.items()) if count)
        return (
            f"wall {self.seconds:.1f} s; services {self.service_seconds:.2f} s ({rounded(self.services)});"
            f" servers {self.server_seconds:.2f} s ({rounded(self.servers)}); OpenSearch: {asked or 'nothing'};"
            f" {self.texts} texts embedded; {self.stored_bytes / 1024:.0f} KB stored"
        )


def _used(process: psutil.Process) -> float:
    """Processor seconds of a process and all that it has started, ended children that it waited for included."""
    seconds = 0.0
    with suppress(psutil.NoSuchProcess):
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                seconds += sum(one.cpu_times()[:4])
    return seconds


class MeasuredMesh:
    """A running mesh and its meters."""

    def __init__(self, harness: MeshHarness) -> None:
        self.harness = harness
        self._servers: dict[str, psutil.Process] = {}

    def _find_servers(self) -> None:
        folder = str(self.harness.data)
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied, IndexError):
                line = process.cmdline()
                program = Path(line[0]).name
                for name, wanted in SERVERS.items():
                    # A server that serves this folder, and no backend of it: these are its children.
                    if program == wanted and any(folder in part for part in (*line, process.cwd())):
                        parent = process.parent()
                        if parent is None or parent.name() != process.name():
                            self._servers[name] = process

    async def read(self) -> Reading:
        """Read all meters."""
        if len(self._servers) < len(SERVERS):
            self._find_servers()
        url = self.harness.endpoints.opensearch_url
        async with httpx.AsyncClient(timeout=30) as http:
            usage = (await http.get(f"{url}/_nodes/usage/rest_actions")).json()
            metrics = (await http.get(self.harness.operations_url("embed") + "/metrics")).text
        requests: Counter[str] = Counter()
        for node in usage["nodes"].values():
            requests.update(node["rest_actions"])
        for name in [name for name in requests if "usage" in name or "stats" in name]:
            del requests[name]
        processes = {name: psutil.Process(one.pid) for name, one in self.harness.processes.items()}
        return Reading(
            time.monotonic(),
            Counter({name: _used(process) for name, process in processes.items()}),
            Counter({name: _used(process) for name, process in self._servers.items()}),
            requests,
            int(sum(float(value) for value in _TEXTS.findall(metrics))),
            sum(path.stat().st_size for path in (self.harness.data / "s3").rglob("*.dat") if path.is_file()),
        )

    async def settled(self, before: Reading, *, quiet_seconds: float = 2.0) -> Reading:
        """Wait until what a phase has left to do is done, and give its cost without that wait's wall time."""
        ended = time.monotonic()
        last = await self.read()
        for _ in range(30):
            await asyncio.sleep(quiet_seconds)
            now = await self.read()
            step = now.since(last)
            if step.service_seconds + step.server_seconds < 0.15 * quiet_seconds:
                break
            last = now
        cost = now.since(before)
        cost.seconds = ended - before.seconds
        return cost

    async def index_bytes(self, tenant_id: str, space: str) -> int:
        """Bytes that a space takes in OpenSearch once its segments are merged."""
        url = f"{self.harness.endpoints.opensearch_url}/{names.space_alias(tenant_id, space)}"
        async with httpx.AsyncClient(timeout=300) as http:
            await http.post(f"{url}/_flush")
            await http.post(f"{url}/_forcemerge", params={"max_num_segments": 1, "flush": "true"})
            # Not `_stats`: that figure is up to ten seconds old.
            told = (await http.get(f"{url}/_segments")).json()
        return sum(
            int(segment["size_in_bytes"])
            for index in told["indices"].values()
            for copies in index["shards"].values()
            for copy in copies
            for segment in copy["segments"].values()
            if segment["search"]
        )


@asynccontextmanager
async def measured_mesh(folder: Path, environment: Mapping[str, str] | None = None) -> AsyncIterator[MeasuredMesh]:
    """Run a mesh of one process a service, as patient as by default."""
    harness = MeshHarness(folder, DISTRIBUTED, {**PATIENT, **(environment or {})})
    try:
        await harness.start()
        yield MeasuredMesh(harness)
    finally:
        await harness.stop()


def shared_module(name: str) -> ModuleType | None:
    """Load a module of the comparison; None where it is not there."""
    path = SHARED / "bench" / f"{name}.py"
    if not path.is_file():
        return None
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def passages_of(name: str, count: int) -> list[tuple[str, list[str]]] | None:
    """Give documents of ten passages: `synthetic` of the comparison, or a set of `../shared/eval`; None if absent."""
    if name == "synthetic":
        corpus = shared_module("corpus")
        return [(d["title"], d["passages"]) for d in corpus.synthetic(count).docs] if corpus is not None else None
    path = SHARED / "eval" / name / "corpus.jsonl"
    if not path.is_file():
        return None
    with path.open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines][:count]
    return [(f"shelf {start // 10}", texts[start : start + 10]) for start in range(0, len(texts), 10)]
