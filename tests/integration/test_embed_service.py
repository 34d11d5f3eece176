"""The embed service over gRPC: engine, handlers, guard and the adapter that other services use."""

import asyncio
import gc
import random
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import numpy as np
import psutil
import pytest

from corpusmesh.embed.v1 import embed_service_pb2 as pb
from corpusmesh.embed.v1.embed_service_pb2_grpc import EmbedServiceStub
from corpusmesh_adapters.models.install import install_model
from corpusmesh_adapters.models.onnx_backend import OnnxEmbeddingBackend
from corpusmesh_adapters.models.registry import DEFAULT_MODEL_NAME, model_directory
from corpusmesh_adapters.peers import GrpcEmbedder
from corpusmesh_core.errors import InvalidArgumentError, OverloadedError
from corpusmesh_core.ports.embedding import EmbeddingBackend, EmbeddingSpace, EmbedLane, EmbedResult, EmbedRole
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_embed.config import EmbedSettings
from corpusmesh_embed.metrics import IN_FLIGHT_CALLS, QUEUED_TEXTS
from corpusmesh_embed.module import EMBED_SERVICE_NAMES, EmbedService
from corpusmesh_runtime.channel import open_channel
from corpusmesh_runtime.config import ServerSettings
from corpusmesh_runtime.identity import IdentitySigner, service_identity
from corpusmesh_runtime.policy import rules_of

QUERY, PASSAGE = EmbedRole.QUERY, EmbedRole.PASSAGE
INTERACTIVE, BULK = EmbedLane.INTERACTIVE, EmbedLane.BULK
SERVER = ServerSettings(drain_grace_seconds=2.0, max_receive_message_bytes=20 * 1024 * 1024)


class CountingBackend:
    """A model of one number per text whose gate a test can close."""

    space = EmbeddingSpace("counting", 4, True, "0")
    max_input_tokens = 64
    prefix_tokens = 2

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text) // 4 for text in texts]

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        raise NotImplementedError

    def encode(self, texts: Sequence[str], *, role: EmbedRole) -> EmbedResult:
        self.begun.set()
        assert self.gate.wait(60)
        return EmbedResult(np.full((len(texts), 4), 0.5, np.float32), len(texts))


@asynccontextmanager
async def running(
    backend: EmbeddingBackend, settings: EmbedSettings, *, identity: Identity | None = None
) -> AsyncIterator[tuple[EmbedService, grpc.aio.Channel]]:
    signer = IdentitySigner(["ab" * 32])
    caller = identity or service_identity("test")
    async with EmbedService(settings, backend, signer) as service:
        channel = open_channel(
            f"127.0.0.1:{service.port}",
            rules=rules_of(EMBED_SERVICE_NAMES).values(),
            signer=signer,
            identity=lambda: caller,
        )
        async with channel:
            yield service, channel


@pytest.fixture(scope="module")
def model() -> OnnxEmbeddingBackend:
    install_model(DEFAULT_MODEL_NAME)
    return OnnxEmbeddingBackend(model_directory(DEFAULT_MODEL_NAME), thread_count=1)


async def test_vectors_over_the_wire_are_those_of_the_model(model: OnnxEmbeddingBackend) -> None:
    texts = ["Paris is the capital of France.", "长江是亚洲最长的河流。", ""]
    async with running(model, EmbedSettings(server=SERVER)) as (service, channel):
        embedder = GrpcEmbedder(channel)
        await embedder.connect(deadline_seconds=30)
        assert embedder.space == model.space
        assert embedder.max_input_tokens == 512
        assert service.readiness() == {"embed-model": True}
        result = await embedder.embed(texts, role=PASSAGE, lane=INTERACTIVE, deadline_seconds=60)
        assert ((result.vectors * model.encode(texts, role=PASSAGE).vectors).sum(axis=1) > 0.995).all()
        assert await embedder.count_tokens(texts, deadline_seconds=30) == model.count_tokens(texts)
    assert service.readiness() == {"embed-model": False}


async def test_callers_at_the_same_time_get_their_own_vectors(model: OnnxEmbeddingBackend) -> None:
    dice = random.Random(7)
    topics = ["river", "contract", "protein", "music", "地震", "税收", "engine", "harbour"]
    calls = [
        [f"{dice.choice(topics)} {n} {k} " * dice.randint(1, 12) for k in range(dice.randint(1, 5))] for n in range(16)
    ]
    async with running(model, EmbedSettings(server=SERVER)) as (_, channel):
        embedder = GrpcEmbedder(channel)
        await embedder.connect(deadline_seconds=30)
        results = await asyncio.gather(
            *(
                embedder.embed(texts, role=PASSAGE, lane=BULK if n % 2 else INTERACTIVE, deadline_seconds=120)
                for n, texts in enumerate(calls)
            )
        )
    for texts, result in zip(calls, results, strict=True):
        assert ((result.vectors * model.encode(texts, role=PASSAGE).vectors).sum(axis=1) > 0.99).all()


async def test_full_queue_reaches_the_caller_as_overload_with_a_delay() -> None:
    backend = CountingBackend()
    backend.gate.clear()
    settings = EmbedSettings(server=SERVER, max_queued_bulk_texts=2, max_batch_texts=1)
    async with running(backend, settings) as (_, channel):
        embedder = GrpcEmbedder(channel)
        await embedder.connect(deadline_seconds=30)
        first = asyncio.create_task(embedder.embed(["a"], role=PASSAGE, lane=BULK, deadline_seconds=60))
        assert await asyncio.to_thread(backend.begun.wait, 30)
        second = asyncio.create_task(embedder.embed(["b", "c"], role=PASSAGE, lane=BULK, deadline_seconds=60))
        while QUEUED_TEXTS.labels("bulk")._value.get() < 2:  # noqa: ASYNC110 - a gauge has no event
            await asyncio.sleep(0.01)
        with pytest.raises(OverloadedError) as refused:
            await embedder.embed(["d"], role=PASSAGE, lane=BULK, deadline_seconds=60)
        assert refused.value.reason == "EMBED_QUEUE_FULL"
        assert (refused.value.retry_delay_seconds or 0) > 0
        backend.gate.set()
        await asyncio.gather(first, second)


async def test_wrong_requests_name_their_field() -> None:
    async with running(CountingBackend(), EmbedSettings(server=SERVER)) as (_, channel):
        stub = EmbedServiceStub(channel)
        wrong = {
            "role": pb.EmbedTextsRequest(texts=["a"]),
            "texts": pb.EmbedTextsRequest(role=pb.EMBED_ROLE_QUERY),
            "lane": pb.EmbedTextsRequest(texts=["a"], role=pb.EMBED_ROLE_QUERY, lane=7),  # type: ignore[arg-type]
        }
        for request in wrong.values():
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.EmbedTexts(request, timeout=30)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        embedder = GrpcEmbedder(channel)
        await embedder.connect(deadline_seconds=30)
        with pytest.raises(InvalidArgumentError) as too_many:
            await embedder.embed(["a"] * 257, role=QUERY, lane=BULK, deadline_seconds=30)
        assert too_many.value.reason == "EMBED_TOO_MANY_TEXTS"
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await stub.EmbedTexts(
                pb.EmbedTextsRequest(space="other", texts=["a"], role=pb.EMBED_ROLE_QUERY), timeout=30
            )
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND


async def test_members_and_strangers_do_not_reach_the_service() -> None:
    member = Identity(tenant_id="t", user_id="u", role=Role.OWNER, scope=Scope.WRITE)
    async with running(CountingBackend(), EmbedSettings(server=SERVER), identity=member) as (service, channel):
        with pytest.raises(grpc.aio.AioRpcError) as denied:
            await EmbedServiceStub(channel).ListModels(pb.ListModelsRequest(), timeout=30)
        assert denied.value.code() is grpc.StatusCode.PERMISSION_DENIED
        async with grpc.aio.insecure_channel(f"127.0.0.1:{service.port}") as bare:
            with pytest.raises(grpc.aio.AioRpcError) as unknown:
                await EmbedServiceStub(bare).ListModels(pb.ListModelsRequest(), timeout=30)
        assert unknown.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_fr_a20_five_thousand_calls_cancelled_within_milliseconds_leave_memory_flat() -> None:
    backend = CountingBackend()
    dice = random.Random(20)
    text = "x" * 20_000
    async with running(backend, EmbedSettings(server=SERVER)) as (_, channel):
        stub = EmbedServiceStub(channel)
        request = pb.EmbedTextsRequest(texts=[text], role=pb.EMBED_ROLE_PASSAGE)

        async def call_and_cancel() -> None:
            call = stub.EmbedTexts(request, timeout=60)
            await asyncio.sleep(dice.uniform(0.001, 0.02))
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

        async def storm(count: int) -> int:
            for _ in range(0, count, 20):
                await asyncio.gather(*(call_and_cancel() for _ in range(20)))
                # gRPC's client ends cancelled calls later than it says; a whole call waits for those before it.
                await stub.EmbedTexts(request, timeout=60)
            while IN_FLIGHT_CALLS._value.get() or QUEUED_TEXTS.labels("bulk")._value.get():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            gc.collect()
            return int(psutil.Process().memory_info().rss)

        before = await storm(1_000)
        after = await storm(5_000)
        assert after < before * 1.1
        for _ in range(100):
            response = await stub.EmbedTexts(request, timeout=60)
            assert response.dense.dimension == 4
    assert IN_FLIGHT_CALLS._value.get() == 0
