"""The engine in front of the cross-encoder: few runs at a time, a bounded line of calls, batches, early refusal."""

import asyncio
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    OverloadedError,
    first_cause,
)
from corpusmesh_core.ports.reranking import MAX_PASSAGE_BYTES, MAX_PASSAGES_PER_CALL, RerankBackend, RerankModel
from corpusmesh_embed.metrics import RERANK_DURATION_SECONDS, RERANKED_PASSAGES_TOTAL

_RETRY_SECONDS = 1.0


class RerankEngine:
    """Scores passages, or says that no cross-encoder is configured."""

    def __init__(
        self, backend: RerankBackend | None, *, max_waiting_calls: int, concurrent_batch_count: int = 1
    ) -> None:
        """Create the engine.

        Args:
            backend: The cross-encoder; None for none.
            max_waiting_calls: Calls that may be under way; one more is refused.
            concurrent_batch_count: Batches in flight at once: 1 for a model in this process, more for a remote one.
        """
        self._backend = backend
        self._gate = asyncio.Semaphore(concurrent_batch_count)
        self._max_waiting = max_waiting_calls
        self._waiting = 0

    @property
    def model(self) -> RerankModel | None:
        """The cross-encoder; None where none is configured."""
        return None if self._backend is None else self._backend.model

    async def rerank(self, question: str, passages: Sequence[str], *, deadline_seconds: float) -> NDArray[np.float32]:
        """Score passages; see `PassageReranker.rerank`.

        Args:
            question: The question.
            passages: The passages.
            deadline_seconds: How long the caller waits.

        Returns:
            One score a passage, shape (n,), 0 to 1.

        Raises:
            FailedPreconditionError: RERANK_MODEL_MISSING where no cross-encoder is configured.
            InvalidArgumentError: RERANK_PASSAGES_INVALID if there are too many, or one is empty or too long.
            OverloadedError: RERANK_QUEUE_FULL if too many calls wait.
            DeadlineExceededError: If the time is over.
            CorpusMeshError: What the backend raises.
        """
        if self._backend is None:
            raise FailedPreconditionError(
                "RERANK_MODEL_MISSING",
                "no cross-encoder is configured; set embed.rerank_model_directory or embed.rerank.base_url",
                setting="embed.rerank_model_directory",
            )
        _check(question, passages)
        if self._waiting >= self._max_waiting:
            raise OverloadedError(
                "RERANK_QUEUE_FULL",
                "too many calls wait for the cross-encoder; try again shortly",
                retry_delay_seconds=_RETRY_SECONDS,
                limit=self._max_waiting,
            )
        self._waiting += 1
        size = self._backend.max_batch_passages
        parts = [passages[start : start + size] for start in range(0, len(passages), size)]
        try:
            with RERANK_DURATION_SECONDS.time():
                async with asyncio.timeout(deadline_seconds), asyncio.TaskGroup() as group:
                    backend = self._backend
                    tasks = [group.create_task(self._run(backend, question, part)) for part in parts]
        except ExceptionGroup as errors:
            raise first_cause(errors) from errors
        except TimeoutError as error:
            raise DeadlineExceededError(
                "RERANK_DEADLINE_EXCEEDED", f"the cross-encoder did not answer within {deadline_seconds:.3g} s"
            ) from error
        finally:
            self._waiting -= 1
        RERANKED_PASSAGES_TOTAL.inc(len(passages))
        return np.concatenate([task.result() for task in tasks])

    async def _run(self, backend: RerankBackend, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        await self._gate.acquire()
        run = asyncio.create_task(self._hold(backend, question, passages))
        # A run that nobody waits for any more goes on in its thread; its error has been given up with it.
        run.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return await asyncio.shield(run)

    async def _hold(self, backend: RerankBackend, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        try:
            return await asyncio.to_thread(backend.score, question, passages)
        finally:
            self._gate.release()


def _check(question: str, passages: Sequence[str]) -> None:
    sizes = [len(text.encode()) for text in (question, *passages)]
    if not 1 <= len(passages) <= MAX_PASSAGES_PER_CALL or not question.strip() or max(sizes) > MAX_PASSAGE_BYTES:
        raise InvalidArgumentError(
            "RERANK_PASSAGES_INVALID",
            f"send a question and 1 to {MAX_PASSAGES_PER_CALL} passages of at most {MAX_PASSAGE_BYTES:,} bytes each",
            field="passages",
        )
