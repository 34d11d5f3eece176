"""The engine in front of a model: batches across callers, two lanes, bounded queues, cancellation.

Everything but the model and the tokenizer runs on the event loop, so the state needs no lock. The model runs in a
thread of its own, one batch after another: a batch is bounded in tokens, so a person's question waits for at most one
batch of an ingest run. There is no waiting for a batch to fill: while the model computes, the next one gathers.
"""

import asyncio
import itertools
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import (
    CorpusMeshError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    OverloadedError,
    UnavailableError,
)
from corpusmesh_core.ports.embedding import (
    EmbeddingBackend,
    EmbeddingSpace,
    EmbedLane,
    EmbedResult,
    EmbedRole,
)
from corpusmesh_embed.config import EmbedSettings
from corpusmesh_embed.metrics import (
    BATCH_TEXTS,
    BATCH_TOKENS,
    COMPUTE_DURATION_SECONDS,
    IN_FLIGHT_CALLS,
    PADDING_TOKENS_TOTAL,
    QUEUE_DURATION_SECONDS,
    QUEUED_TEXTS,
    TEXTS_TOTAL,
    TOKENS_TOTAL,
)
from corpusmesh_embed.queueing import LaneQueue, QueuedText
from corpusmesh_embed.texts import checked_byte_count, split_for_tokenizer
from corpusmesh_runtime.logging import get_logger

_log = get_logger(__name__)

_LEAST_RETRY_DELAY_SECONDS: Final = 0.1
_LONGEST_RETRY_DELAY_SECONDS: Final = 30.0
_FIRST_TOKENS_PER_SECOND: Final = 2_000.0
_SPEED_MEMORY: Final = 0.9
_COSTS_ONE_TEXT: Final = (InternalError, InvalidArgumentError)


@dataclass(eq=False, slots=True)
class _Call:
    """One call that waits for its vectors."""

    lane: EmbedLane
    vectors: NDArray[np.float32]
    done: asyncio.Future[None]
    missing_count: int
    byte_count: int
    reserved_count: int
    token_count: int = 0
    truncated: list[int] = field(default_factory=list)
    waiting: set[QueuedText] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What the model made of a batch: vectors, and errors by place of the text they belong to."""

    result: EmbedResult
    errors: dict[int, CorpusMeshError]


class BatchingEmbedder:
    """Embeds for many callers at once; see `corpusmesh_core.ports.embedding.Embedder`.

    Use it as an asynchronous context manager.
    """

    def __init__(self, backend: EmbeddingBackend, settings: EmbedSettings, *, concurrent_batch_count: int = 1) -> None:
        """Create the engine.

        Args:
            backend: The model.
            settings: Bounds.
            concurrent_batch_count: Batches in flight at once: 1 for a model in this process, whose run takes all
                threads of the budget, more for a remote one.
        """
        self._backend = backend
        self._settings = settings
        self._batch_count = concurrent_batch_count
        self._queues = {lane: LaneQueue() for lane in EmbedLane}
        self._limits = {
            EmbedLane.INTERACTIVE: settings.max_queued_interactive_texts,
            EmbedLane.BULK: settings.max_queued_bulk_texts,
        }
        self._admitted = dict.fromkeys(EmbedLane, 0)
        self._admitted_bytes = 0
        self._calls: set[_Call] = set()
        self._sequence = itertools.count()
        self._interactive_run = 0
        self._tokens_per_second = _FIRST_TOKENS_PER_SECOND
        self._filled = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []
        self._is_running = False
        self._model_threads = ThreadPoolExecutor(concurrent_batch_count, thread_name_prefix="embed-model")
        # Two threads, of which bulk work holds at most one: a question is never tokenised behind a bulk call.
        self._token_threads = ThreadPoolExecutor(2, thread_name_prefix="embed-tokenizer")
        self._bulk_tokenizing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        self._is_running = True
        self._workers = [asyncio.create_task(self._work()) for _ in range(self._batch_count)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Refuse new calls, fail those that wait, and let the batch that runs end."""
        self._is_running = False
        for call in list(self._calls):
            self._fail(call, UnavailableError("EMBED_STOPPING", "the embed service is stopping; try another instance"))
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        for threads in (self._token_threads, self._model_threads):
            await asyncio.to_thread(threads.shutdown)

    @property
    def space(self) -> EmbeddingSpace:
        """The space of its vectors."""
        return self._backend.space

    @property
    def max_input_tokens(self) -> int:
        """Tokens that the model reads of one text at once."""
        return self._backend.max_input_tokens

    async def embed(
        self, texts: Sequence[str], *, role: EmbedRole, lane: EmbedLane, deadline_seconds: float
    ) -> EmbedResult:
        """Embed texts; see `Embedder.embed`.

        Args:
            texts: The texts.
            role: What they are.
            lane: Who waits.
            deadline_seconds: How long.

        Returns:
            The vectors in the order of the texts.

        Raises:
            DeadlineExceededError: If the time is over.
            CorpusMeshError: As the port says.
        """
        call = self._admit(texts, lane)
        try:
            async with asyncio.timeout(deadline_seconds):
                await self._enqueue(call, texts, role)
                await call.done
        except TimeoutError as error:
            raise DeadlineExceededError(
                "EMBED_DEADLINE_EXCEEDED",
                f"{call.missing_count} of {len(texts)} texts were not embedded within {deadline_seconds:.3g} s",
                missing_text_count=call.missing_count,
                text_count=len(texts),
                deadline_seconds=deadline_seconds,
            ) from error
        finally:
            self._release(call)
        return EmbedResult(call.vectors, call.token_count, tuple(sorted(call.truncated)))

    async def count_tokens(self, texts: Sequence[str], *, deadline_seconds: float) -> list[int]:
        """Count tokens; see `Embedder.count_tokens`.

        Args:
            texts: The texts.
            deadline_seconds: How long the caller waits.

        Returns:
            One count a text.

        Raises:
            DeadlineExceededError: If the time is over.
        """
        self._require_running()
        try:
            async with asyncio.timeout(deadline_seconds):
                return await self._count(texts, EmbedLane.BULK)
        except TimeoutError as error:
            raise DeadlineExceededError(
                "EMBED_DEADLINE_EXCEEDED",
                f"the tokens were not counted within {deadline_seconds:.3g} s",
                deadline_seconds=deadline_seconds,
            ) from error

    def _require_running(self) -> None:
        if not self._is_running:
            raise UnavailableError("EMBED_STOPPING", "the embed service is not running; try another instance")

    def _admit(self, texts: Sequence[str], lane: EmbedLane) -> _Call:
        """Check a call and reserve its room before anything is done for it."""
        self._require_running()
        byte_count = checked_byte_count(texts)
        waiting = self._admitted[lane]
        is_full = waiting + len(texts) > self._limits[lane]
        if is_full or self._admitted_bytes + byte_count > self._settings.max_queued_bytes:
            TEXTS_TOTAL.labels(lane.value, "refused").inc(len(texts))
            raise OverloadedError(
                "EMBED_QUEUE_FULL",
                f"{waiting} texts wait for the model in the {lane.value} lane; try again later",
                retry_delay_seconds=self._retry_delay_seconds(),
                lane=lane.value,
                waiting_text_count=waiting,
                max_waiting_text_count=self._limits[lane],
            )
        call = _Call(
            lane,
            np.empty((len(texts), self.space.dimension), np.float32),
            asyncio.get_running_loop().create_future(),
            missing_count=len(texts),
            byte_count=byte_count,
            reserved_count=len(texts),
        )
        self._admitted[lane] += len(texts)
        self._admitted_bytes += byte_count
        self._calls.add(call)
        QUEUED_TEXTS.labels(lane.value).set(self._admitted[lane])
        IN_FLIGHT_CALLS.set(len(self._calls))
        return call

    def _retry_delay_seconds(self) -> float:
        """Estimate when half of what waits will be done."""
        tokens = sum(queue.token_count for queue in self._queues.values())
        delay = tokens / 2 / self._tokens_per_second
        return min(max(delay, _LEAST_RETRY_DELAY_SECONDS), _LONGEST_RETRY_DELAY_SECONDS)

    async def _enqueue(self, call: _Call, texts: Sequence[str], role: EmbedRole) -> None:
        if not texts:
            call.done.set_result(None)
            return
        counts = await self._count(texts, call.lane)
        if call.done.done():
            return
        now = time.monotonic()
        for position, (text, count) in enumerate(zip(texts, counts, strict=True)):
            length = count + self._backend.prefix_tokens
            item = QueuedText(next(self._sequence), call, position, text, role, length, now)
            call.waiting.add(item)
            self._queues[call.lane].add(item)
        self._filled.set()

    async def _count(self, texts: Sequence[str], lane: EmbedLane) -> list[int]:
        if lane is EmbedLane.INTERACTIVE:
            return await self._tokenize(texts)
        counts: list[int] = []
        async with self._bulk_tokenizing:
            for part in split_for_tokenizer(texts):
                counts += await self._tokenize(part)
        return counts

    async def _tokenize(self, texts: Sequence[str]) -> list[int]:
        self._require_running()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._token_threads, self._backend.count_tokens, texts)

    async def _work(self) -> None:
        while True:
            await self._filled.wait()
            batch = self._next_batch()
            if not batch:
                self._filled.clear()
                continue
            await self._run(batch)

    def _next_batch(self) -> list[QueuedText]:
        interactive, bulk = self._queues[EmbedLane.INTERACTIVE], self._queues[EmbedLane.BULK]
        is_bulk_due = self._interactive_run >= self._settings.max_consecutive_interactive_batches
        if len(interactive) and not (is_bulk_due and len(bulk)):
            queue = interactive
            self._interactive_run += 1
        else:
            queue = bulk
            self._interactive_run = 0
        return queue.take(max_tokens=self._settings.max_batch_tokens, max_texts=self._settings.max_batch_texts)

    async def _run(self, batch: list[QueuedText]) -> None:
        started = time.monotonic()
        for item in batch:
            call = _owner(item)
            call.waiting.discard(item)
            self._unreserve(call, 1)
            QUEUE_DURATION_SECONDS.labels(call.lane.value).observe(started - item.enqueued_seconds)
        texts = [item.text for item in batch]
        loop = asyncio.get_running_loop()
        try:
            outcome = await loop.run_in_executor(self._model_threads, self._encode, texts, batch[0].role)
        except Exception as error:  # noqa: BLE001 - the worker loop: a fault costs its calls, not the service
            known = isinstance(error, CorpusMeshError)
            if not known:
                _log.error("batch failed", text_count=len(batch), exc_info=error)
            fault = error if known else InternalError("EMBED_MODEL_FAILED", "the embedding model failed")
            for item in batch:
                self._fail(_owner(item), fault)
            return
        self._measure(batch, outcome, time.monotonic() - started)
        for place, item in enumerate(batch):
            self._deliver(item, outcome, place)

    def _encode(self, texts: list[str], role: EmbedRole) -> _Outcome:
        """Call the model, in its thread; where it gives a bad vector, find out for which text."""
        try:
            return _Outcome(self._backend.encode(texts, role=role), {})
        except _COSTS_ONE_TEXT as error:
            if len(texts) == 1:
                raise
            _log.warning("batch repeated text by text", text_count=len(texts), reason=error.reason)
        vectors = np.zeros((len(texts), self.space.dimension), np.float32)
        errors: dict[int, CorpusMeshError] = {}
        token_count = 0
        truncated = []
        for place, text in enumerate(texts):
            try:
                single = self._backend.encode([text], role=role)
            except _COSTS_ONE_TEXT as error:
                errors[place] = error
                continue
            vectors[place] = single.vectors[0]
            token_count += single.token_count
            if single.truncated_positions:
                truncated.append(place)
        return _Outcome(EmbedResult(vectors, token_count, tuple(truncated)), errors)

    def _measure(self, batch: list[QueuedText], outcome: _Outcome, seconds: float) -> None:
        padded = len(batch) * batch[-1].token_count
        COMPUTE_DURATION_SECONDS.observe(seconds)
        BATCH_TEXTS.observe(len(batch))
        BATCH_TOKENS.observe(padded)
        TOKENS_TOTAL.inc(outcome.result.token_count)
        PADDING_TOKENS_TOTAL.inc(padded - sum(item.token_count for item in batch))
        speed = outcome.result.token_count / max(seconds, 1e-6)
        self._tokens_per_second = _SPEED_MEMORY * self._tokens_per_second + (1 - _SPEED_MEMORY) * speed

    def _deliver(self, item: QueuedText, outcome: _Outcome, place: int) -> None:
        call = _owner(item)
        if call.done.done():
            TEXTS_TOTAL.labels(call.lane.value, "dropped").inc()
            return
        if place in outcome.errors:
            self._fail(call, outcome.errors[place])
            return
        call.vectors[item.position] = outcome.result.vectors[place]
        call.token_count += item.token_count
        if place in outcome.result.truncated_positions:
            call.truncated.append(item.position)
        call.missing_count -= 1
        TEXTS_TOTAL.labels(call.lane.value, "embedded").inc()
        if call.missing_count == 0:
            call.done.set_result(None)

    def _fail(self, call: _Call, error: BaseException) -> None:
        if not call.done.done():
            TEXTS_TOTAL.labels(call.lane.value, "failed").inc(call.missing_count)
            call.done.set_exception(error)

    def _unreserve(self, call: _Call, text_count: int) -> None:
        call.reserved_count -= text_count
        self._admitted[call.lane] -= text_count
        QUEUED_TEXTS.labels(call.lane.value).set(self._admitted[call.lane])

    def _release(self, call: _Call) -> None:
        """Forget a call; what the model has not begun of it is dropped."""
        queue = self._queues[call.lane]
        for item in call.waiting:
            queue.remove(item)
        call.waiting.clear()
        TEXTS_TOTAL.labels(call.lane.value, "dropped").inc(call.reserved_count)
        self._unreserve(call, call.reserved_count)
        self._admitted_bytes -= call.byte_count
        self._calls.discard(call)
        if not call.done.done():
            call.done.cancel()
        elif not call.done.cancelled():
            call.done.exception()  # Seen, so that an error nobody waits for is not reported by the event loop.
        IN_FLIGHT_CALLS.set(len(self._calls))


def _owner(item: QueuedText) -> _Call:
    assert isinstance(item.owner, _Call)
    return item.owner
