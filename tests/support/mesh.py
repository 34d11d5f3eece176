"""A whole mesh for end-to-end tests: real servers, and every service a process of its own that can be killed."""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_adapters.opensearch import OpenSearchRecordIndex, OpenSearchSettings
from corpusmesh_app.local import write_local_config
from corpusmesh_app.mesh import SERVICES, prepare_database
from corpusmesh_app.settings import MeshSettings
from corpusmesh_app.stack import Stack, StackEndpoints, StackSettings, install_opensearch
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_core.ports.index import RecordSelection
from tests.support.warm_start import WarmProcess, WarmStart

_READY_SECONDS = 120.0
SINGLE = {"mesh": ("all", "both")}
DISTRIBUTED = {
    "embed": ("embed", "server"),
    "ingest": ("ingest", "server"),
    "worker": ("ingest", "worker"),
    "raptor": ("raptor", "both"),
    "graph": ("graph", "both"),
    "retrieve": ("retrieve", "server"),
    "gateway": ("gateway", "server"),
}
# Short patience, so that a test of deaths does not wait for minutes.
IMPATIENT = {
    "CORPUSMESH_INGEST__LEASE_SECONDS": "4",
    "CORPUSMESH_INGEST__PURGE_VERIFY_DELAY_SECONDS": "2",
    "CORPUSMESH_INGEST__HOUSEKEEPER__SWEEP_SECONDS": "1",
    "CORPUSMESH_INGEST__WORKER__HEARTBEAT_SECONDS": "0.5",
    # A worker that is told to end waits for its last question to the broker.
    "CORPUSMESH_INGEST__WORKER__POLL_SECONDS": "0.5",
    "CORPUSMESH_RAPTOR__WORKER__POLL_SECONDS": "0.5",
    "CORPUSMESH_LOG__LEVEL": "info",
}


@dataclass(frozen=True)
class TestTenant:
    """A tenant of one test, with its owner."""

    __test__ = False
    tenant_id: str
    owner_key: str


class MeshHarness:
    """Servers, services, and clients to them."""

    def __init__(self, data: Path, layout: Mapping[str, tuple[str, str]], environment: Mapping[str, str]) -> None:
        self.data = data
        self.layout = dict(layout)
        self.environment = {**IMPATIENT, **environment}
        self.stack = Stack(StackSettings(data_directory=data))
        self.processes: dict[str, WarmProcess] = {}
        self.settings: MeshSettings
        self.endpoints: StackEndpoints
        self.platform_key = ""
        self._ports: dict[str, int] = {}
        self._warm_start: WarmStart

    async def start(self) -> None:
        self._warm_start = WarmStart()
        await asyncio.to_thread(install_opensearch)
        self.endpoints = await self.stack.start()
        self.settings, self.config = write_local_config(self.data, MeshSettings(), self.endpoints)
        key = await prepare_database(self.settings)
        assert key is not None
        self.platform_key = key
        self._ports = self._free_ports((*self.layout, "worker2"))
        for name in self.layout:
            self.spawn(name)
        for name in self.layout:
            await self.ready(name)

    def _free_ports(self, names: tuple[str, ...]) -> dict[str, int]:
        """Choose ports for probes that no service of this mesh is about to take."""
        settings = self.settings
        taken = {settings.gateway.http.listen_port, settings.operations.listen_port}
        taken |= {getattr(settings, name).server.listen_port for name in SERVICES}
        chosen: dict[str, int] = {}
        with contextlib.ExitStack() as held:
            while len(chosen) < len(names):
                listener = held.enter_context(socket.socket())
                listener.bind(("127.0.0.1", 0))
                if (port := listener.getsockname()[1]) not in taken:
                    chosen[names[len(chosen)]] = port
        return chosen

    async def stop(self) -> None:
        for name in list(self.processes):
            self.terminate(name)
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, 30)
            process.kill()
        await asyncio.to_thread(self._warm_start.close)
        await self.stack.stop()

    def spawn(self, name: str, environment: Mapping[str, str] | None = None, *, like: str | None = None) -> None:
        """Start a process of the layout; `like` starts another one of the same kind."""
        service, role = self.layout[like or name]
        self.processes[name] = self._warm_start.spawn(
            ["serve", service, "--role", role, "--config", str(self.config)],
            {
                **os.environ,
                **self.environment,
                "CORPUSMESH_OPERATIONS__LISTEN_PORT": str(self._ports[name]),
                **(environment or {}),
            },
            self.data / "logs" / f"{name}.log",
        )

    async def ready(self, name: str) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        async with httpx.AsyncClient(timeout=2.0) as client:
            while time.monotonic() < deadline:
                assert self.processes[name].poll() is None, f"{name} has ended:\n{self.log(name)[-3000:]}"
                with contextlib.suppress(httpx.HTTPError):
                    if (await client.get(self.operations_url(name) + "/readyz")).status_code == 200:
                        return
                await asyncio.sleep(0.1)
        raise AssertionError(f"{name} is not ready:\n{self.log(name)[-3000:]}")

    def operations_url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._ports[name]}"

    def log(self, name: str) -> str:
        return (self.data / "logs" / f"{name}.log").read_text(errors="replace")

    def kill(self, name: str) -> None:
        process = self.processes[name]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)

    def terminate(self, name: str) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.processes[name].send_signal(signal.SIGTERM)

    async def restart(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        if self.processes[name].poll() is None:
            self.terminate(name)
            await asyncio.to_thread(self.processes[name].wait, 60)
        self.spawn(name, environment)
        await self.ready(name)

    @property
    def grpc_address(self) -> str:
        return f"127.0.0.1:{self.settings.gateway.server.listen_port}"

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.settings.gateway.http.listen_port}"

    def client(self, api_key: str) -> CorpusMeshClient:
        return CorpusMeshClient(self.grpc_address, api_key=api_key)

    async def tenant(self) -> TestTenant:
        """Create a tenant of one's own."""
        tenant_id = f"t-{uuid.uuid4().hex[:12]}"
        async with self.client(self.platform_key) as client:
            created = await client.admin.create_tenant(tenant_id)
        return TestTenant(tenant_id, created.secret)

    async def member(
        self, tenant: TestTenant, user_id: str, role: "policy_pb2.Role.ValueType", *, groups: tuple[str, ...] = ()
    ) -> str:
        """Create a member and give a key with the scope that fits the role."""
        async with self.client(tenant.owner_key) as client:
            await client.admin.create_user(user_id, role=role, groups=groups)
            scope = policy_pb2.SCOPE_READ if role == policy_pb2.ROLE_VIEWER else policy_pb2.SCOPE_WRITE
            return (await client.admin.create_api_key(f"users/{user_id}", scope=scope)).secret

    @contextlib.asynccontextmanager
    async def index(self) -> AsyncIterator[OpenSearchRecordIndex]:
        """The record index itself, to count what is really there."""
        index = OpenSearchRecordIndex(OpenSearchSettings(urls=(self.endpoints.opensearch_url,)))
        try:
            yield index
        finally:
            await index.close()

    async def count_records(self, tenant_id: str, selection: RecordSelection | None = None) -> int:
        """Count records of a tenant in the index itself, as of now."""
        async with self.index() as index, httpx.AsyncClient() as client:
            await client.post(f"{self.endpoints.opensearch_url}/_refresh", timeout=30)
            return await index.count(tenant_id, None, selection or RecordSelection(), timeout_seconds=30)


async def knowledge_base(
    client: CorpusMeshClient, *, team: bool = True, max_chunk_tokens: int = 0
) -> knowledge_base_pb.KnowledgeBase:
    """Create a knowledge base with a name of its own."""
    return await client.knowledge_bases.create(
        knowledge_base_pb.KnowledgeBase(
            display_name=f"kb {secrets.token_hex(4)}",
            permission=knowledge_base_pb.PERMISSION_TEAM if team else knowledge_base_pb.PERMISSION_PRIVATE,
            chunk_settings=knowledge_base_pb.ChunkSettings(max_chunk_tokens=max_chunk_tokens),
        )
    )


async def ingest_texts(client: CorpusMeshClient, parent: str, texts: Mapping[str, str]) -> str:
    """Upload texts by name, wait, and give the run's name; fails if a document fails."""
    result = await client.upload(
        parent, [UploadItem(display_name=name, content=text.encode()) for name, text in texts.items()]
    )
    if result.run:
        run = await client.runs.wait(result.run)
        assert not run.failed_count, run
    return result.run
