"""The engine in front of a model."""

import asyncio
import gc
import hashlib
import threading
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from corpusmesh_core.errors import (
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    OverloadedError,
    UnavailableError,
)
from corpusmesh_core.ports.embedding import EmbeddingSpace, EmbedLane, EmbedResult, EmbedRole
from corpusmesh_embed.batching import BatchingEmbedder
from corpusmesh_embed.config import EmbedSettings
from corpusmesh_embed.metrics import IN_FLIGHT_CALLS, QUEUED_TEXTS

DIMENSION = 8
QUERY, PASSAGE = EmbedRole.QUERY, EmbedRole.PASSAGE
INTERACTIVE, BULK = EmbedLane.INTERACTIVE, EmbedLane.BULK


def vector_of(text: str, role: EmbedRole) -> NDArray[np.float32]:
    digest = hashlib.sha256(f"{role}{text}".encode()).digest()
    vector = np.frombuffer(digest, np.uint8)[:DIMENSION].astype(np.float32) + 1
    return vector / np.linalg.norm(vector)


class FakeBackend:
    """A model that counts words, remembers its batches, and computes only while its gate is open."""

    space = EmbeddingSpace("fake", DIMENSION, True, "0")
    max_input_tokens = 32
    prefix_tokens = 3

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()
        self.poison = "\0never"

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        raise NotImplementedError

    def encode(self, texts: Sequence[str], *, role: EmbedRole) -> EmbedResult:
        self.batches.append(list(texts))
        self.begun.set()
        assert self.gate.wait(30)
        if any(self.poison in text for text in texts):
            raise InternalError("EMBED_NOT_FINITE", "not finite")
        return EmbedResult(np.stack([vector_of(text, role) for text in texts]), sum(self.count_tokens(texts)))


async def wait_until_begun(backend: FakeBackend) -> None:
    assert await asyncio.to_thread(backend.begun.wait, 30)
    backend.begun.clear()


async def run_dry(turns: int = 50) -> None:
    """Let everything that can go on go on."""
    for _ in range(turns):
        await asyncio.sleep(0.001)


@settings(max_examples=40, deadline=None)
@given(
    calls=st.lists(
        st.tuples(
            st.lists(st.integers(0, 60), min_size=0, max_size=12),
            st.sampled_from(list(EmbedRole)),
            st.sampled_from(list(EmbedLane)),
        ),
        max_size=12,
    ),
    max_batch_texts=st.integers(1, 16),
    concurrent=st.integers(1, 3),
)
async def test_embed_gives_each_caller_its_vectors_in_its_order(
    calls: list[tuple[list[int], EmbedRole, EmbedLane]], max_batch_texts: int, concurrent: int
) -> None:
    configuration = EmbedSettings(max_batch_texts=max_batch_texts, max_batch_tokens=64)
    async with BatchingEmbedder(FakeBackend(), configuration, concurrent_batch_count=concurrent) as engine:
        texts = [
            [f"{number} " + "word " * length for length in lengths] for number, (lengths, _, _) in enumerate(calls)
        ]
        results = await asyncio.gather(
            *(
                engine.embed(own, role=role, lane=lane, deadline_seconds=30)
                for own, (_, role, lane) in zip(texts, calls, strict=True)
            )
        )
    for own, (_, role, _), result in zip(texts, calls, results, strict=True):
        assert result.vectors.shape == (len(own), DIMENSION)
        for text, vector in zip(own, result.vectors, strict=True):
            assert np.array_equal(vector, vector_of(text, role))


async def test_embed_batches_across_callers() -> None:
    backend = FakeBackend()
    backend.gate.clear()
    async with BatchingEmbedder(backend, EmbedSettings()) as engine:
        first = asyncio.create_task(engine.embed(["a"], role=QUERY, lane=BULK, deadline_seconds=30))
        await wait_until_begun(backend)
        others = [
            asyncio.create_task(engine.embed([f"text {n}"], role=QUERY, lane=BULK, deadline_seconds=30))
            for n in range(20)
        ]
        await run_dry()
        backend.gate.set()
        await asyncio.gather(first, *others)
    assert [len(batch) for batch in backend.batches] == [1, 20]


async def test_interactive_texts_pass_bulk_texts() -> None:
    backend = FakeBackend()
    backend.gate.clear()
    async with BatchingEmbedder(backend, EmbedSettings(max_batch_texts=1)) as engine:
        bulk = asyncio.create_task(engine.embed(["b0", "b1", "b2"], role=PASSAGE, lane=BULK, deadline_seconds=30))
        await wait_until_begun(backend)
        question = asyncio.create_task(engine.embed(["q"], role=QUERY, lane=INTERACTIVE, deadline_seconds=30))
        await run_dry()
        backend.gate.set()
        await asyncio.gather(bulk, question)
    assert backend.batches == [["b0"], ["q"], ["b1"], ["b2"]]


async def test_bulk_texts_are_never_starved_by_interactive_ones() -> None:
    backend = FakeBackend()
    backend.gate.clear()
    configuration = EmbedSettings(max_batch_texts=1, max_consecutive_interactive_batches=2)
    async with BatchingEmbedder(backend, configuration) as engine:
        first = asyncio.create_task(engine.embed(["b0"], role=PASSAGE, lane=BULK, deadline_seconds=30))
        await wait_until_begun(backend)
        bulk = asyncio.create_task(engine.embed(["b1"], role=PASSAGE, lane=BULK, deadline_seconds=30))
        questions = asyncio.create_task(
            engine.embed(["q0", "q1", "q2", "q3"], role=QUERY, lane=INTERACTIVE, deadline_seconds=30)
        )
        await run_dry()
        backend.gate.set()
        await asyncio.gather(first, bulk, questions)
    assert backend.batches == [["b0"], ["q0"], ["q1"], ["b1"], ["q2"], ["q3"]]


async def test_full_queue_is_refused_at_once_with_a_delay_and_takes_calls_again_when_it_drains() -> None:
    backend = FakeBackend()
    backend.gate.clear()
    configuration = EmbedSettings(max_queued_bulk_texts=4, max_batch_texts=2)
    async with BatchingEmbedder(backend, configuration) as engine:
        running = asyncio.create_task(engine.embed(["r"], role=PASSAGE, lane=BULK, deadline_seconds=30))
        await wait_until_begun(backend)
        waiting = asyncio.create_task(engine.embed(["a", "b", "c"], role=PASSAGE, lane=BULK, deadline_seconds=30))
        await run_dry()
        with pytest.raises(OverloadedError) as refused:
            await engine.embed(["d", "e"], role=PASSAGE, lane=BULK, deadline_seconds=30)
        assert refused.value.reason == "EMBED_QUEUE_FULL"
        assert refused.value.retry_delay_seconds is not None
        assert refused.value.retry_delay_seconds > 0
        # The other lane has room of its own.
        question = asyncio.create_task(engine.embed(["q"], role=QUERY, lane=INTERACTIVE, deadline_seconds=30))
        await run_dry()
        backend.gate.set()
        await asyncio.gather(running, waiting, question)
        assert (await engine.embed(["d", "e"], role=PASSAGE, lane=BULK, deadline_seconds=30)).vectors.shape == (2, 8)
    assert not any("d" in batch for batch in backend.batches[:-1])


async def test_queued_bytes_are_bounded_over_both_lanes() -> None:
    backend = FakeBackend()
    backend.gate.clear()
    async with BatchingEmbedder(backend, EmbedSettings(max_queued_bytes=1024 * 1024)) as engine:
        large = ["x" * 60_000] * 16
        held = asyncio.create_task(engine.embed(large, role=PASSAGE, lane=BULK, deadline_seconds=30))
        await run_dry()
        with pytest.raises(OverloadedError):
            await engine.embed(large[:2], role=QUERY, lane=INTERACTIVE, deadline_seconds=30)
        backend.gate.set()
        await held
        await engine.embed(large[:2], role=QUERY, lane=INTERACTIVE, deadline_seconds=30)


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (["x"] * 257, "EMBED_TOO_MANY_TEXTS"),
        (["ok", "x" * 65_537], "EMBED_TEXT_TOO_LONG"),
        (["ok", "\ud800"], "EMBED_TEXT_NOT_UNICODE"),
    ],
)
async def test_unfit_texts_are_refused_with_their_field(texts: list[str], reason: str) -> None:
    async with BatchingEmbedder(FakeBackend(), EmbedSettings()) as engine:
        with pytest.raises(InvalidArgumentError) as refused:
            await engine.embed(texts, role=QUERY, lane=BULK, deadline_seconds=30)
    assert refused.value.reason == reason
    assert refused.value.field in ("texts", "texts[1]")


async def test_texts_of_cancelled_callers_never_reach_the_model() -> None:
    backend = FakeBackend()
    backend.gate.clear()
    async with BatchingEmbedder(backend, EmbedSettings()) as engine:
        running = asyncio.create_task(engine.embed(["r"], role=PASSAGE, lane=BULK, deadline_seconds=30))
        await wait_until_begun(backend)
        gone = asyncio.create_task(engine.embed(["gone"], role=PASSAGE, lane=BULK, deadline_seconds=30))
        kept = asyncio.create_task(engine.embed(["kept"], role=PASSAGE, lane=BULK, deadline_seconds=30))
        await run_dry()
        gone.cancel()
        await run_dry()
        backend.gate.set()
        await asyncio.gather(running, kept)
    assert backend.batches == [["r"], ["kept"]]


async def test_deadline_ends_the_wait_and_drops_the_texts() -> None:
    backend = FakeBackend()
    backend.gate.clear()
    async with BatchingEmbedder(backend, EmbedSettings()) as engine:
        running = asyncio.create_task(engine.embed(["r"], role=PASSAGE, lane=BULK, deadline_seconds=30))
        await wait_until_begun(backend)
        with pytest.raises(DeadlineExceededError) as over:
            await engine.embed(["late"], role=QUERY, lane=INTERACTIVE, deadline_seconds=0.05)
        assert over.value.metadata["missing_text_count"] == "1"
        backend.gate.set()
        await running
    assert backend.batches == [["r"]]


async def test_text_that_the_model_cannot_embed_costs_its_own_call_alone() -> None:
    backend = FakeBackend()
    backend.poison = "poison"
    backend.gate.clear()
    async with BatchingEmbedder(backend, EmbedSettings()) as engine:
        running = asyncio.create_task(engine.embed(["r"], role=PASSAGE, lane=BULK, deadline_seconds=30))
        await wait_until_begun(backend)
        bad = asyncio.create_task(engine.embed(["fine", "poison"], role=PASSAGE, lane=BULK, deadline_seconds=30))
        good = asyncio.create_task(engine.embed(["good"], role=PASSAGE, lane=BULK, deadline_seconds=30))
        await run_dry()
        backend.gate.set()
        await running
        with pytest.raises(InternalError):
            await bad
        assert np.array_equal((await good).vectors[0], vector_of("good", PASSAGE))


async def test_fault_of_the_model_fails_the_batch_and_not_the_engine() -> None:
    class BrokenOnce(FakeBackend):
        def encode(self, texts: Sequence[str], *, role: EmbedRole) -> EmbedResult:
            if not self.batches:
                self.batches.append([])
                raise ZeroDivisionError
            return super().encode(texts, role=role)

    async with BatchingEmbedder(BrokenOnce(), EmbedSettings()) as engine:
        with pytest.raises(InternalError):
            await engine.embed(["a"], role=QUERY, lane=BULK, deadline_seconds=30)
        assert (await engine.embed(["a"], role=QUERY, lane=BULK, deadline_seconds=30)).vectors.shape == (1, 8)


@pytest.mark.parametrize("turns", [0, 1, 2, 5, 50])
async def test_stopping_fails_those_who_wait_and_refuses_those_who_come(turns: int) -> None:
    backend = FakeBackend()
    backend.gate.clear()
    engine = BatchingEmbedder(backend, EmbedSettings(max_batch_texts=1))
    async with engine:
        running = asyncio.create_task(engine.embed(["r"], role=QUERY, lane=BULK, deadline_seconds=30))
        await wait_until_begun(backend)
        waiting = [
            asyncio.create_task(engine.embed([f"w{n}"], role=QUERY, lane=lane, deadline_seconds=30))
            for n, lane in enumerate([BULK, INTERACTIVE] * 8)
        ]
        for _ in range(turns):
            await asyncio.sleep(0)
        backend.gate.set()
    # Whatever they were doing, they learn that this instance is going; none is cancelled and none hangs.
    for result in await asyncio.gather(running, *waiting, return_exceptions=True):
        assert isinstance(result, (UnavailableError, EmbedResult))
    with pytest.raises(UnavailableError):
        await engine.embed(["late"], role=QUERY, lane=BULK, deadline_seconds=30)
    assert IN_FLIGHT_CALLS._value.get() == 0


async def test_fr_a20_five_thousand_cancelled_calls_leave_nothing_behind() -> None:
    backend = FakeBackend()
    async with BatchingEmbedder(backend, EmbedSettings(max_queued_bulk_texts=100_000)) as engine:

        async def cancel_many(count: int) -> None:
            backend.gate.clear()
            backend.begun.clear()
            running = asyncio.create_task(engine.embed(["r"], role=PASSAGE, lane=BULK, deadline_seconds=60))
            await wait_until_begun(backend)
            for start in range(0, count, 250):
                calls = [
                    asyncio.create_task(engine.embed([f"text {n} " * 20], role=PASSAGE, lane=BULK, deadline_seconds=60))
                    for n in range(start, start + 250)
                ]
                await run_dry(5)
                for call in calls:
                    call.cancel()
                await asyncio.gather(*calls, return_exceptions=True)
            backend.gate.set()
            await running
            backend.batches.clear()

        await cancel_many(500)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        await cancel_many(5_000)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert IN_FLIGHT_CALLS._value.get() == 0
        assert QUEUED_TEXTS.labels("bulk")._value.get() == 0
        assert grown < 256 * 1024
        assert len((await engine.embed(["alive"], role=QUERY, lane=BULK, deadline_seconds=30)).vectors) == 1
