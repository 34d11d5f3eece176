"""Vectors of texts that builds make, through the embed service."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import FailedPreconditionError, UnavailableError
from corpusmesh_core.ports.embedding import Embedder, EmbedLane, EmbedRole

_BATCH_TEXTS: Final = 64
_CALLS_IN_FLIGHT: Final = 2
_REFRESH_SECONDS: Final = 10.0
Vectors = NDArray[np.float32]
"""Shape (n, dimension)."""


class EmbeddingBill(Protocol):
    """What embedding is put on, such as the cost of a tree or of a graph."""

    embedded_text_count: int
    embedded_token_count: int


class TextVectors:
    """Embeds texts into the space of one knowledge base, and into no other."""

    def __init__(self, embedder: Embedder, space_id: str) -> None:
        """Create it.

        Args:
            embedder: The embed service.
            space_id: Space of the knowledge base.
        """
        self._embedder = embedder
        self._space_id = space_id

    async def embed(self, texts: Sequence[str], cost: EmbeddingBill, *, timeout_seconds: float) -> Vectors:
        """Embed texts in the bulk lane.

        Args:
            texts: What is embedded; none asks nobody.
            cost: Bill that is added to.
            timeout_seconds: Bound of each call.

        Returns:
            Vectors in order, shape (n, dimension).

        Raises:
            FailedPreconditionError: SPACE_WITHOUT_MODEL if the embed service runs another model than that of the
                knowledge base: vectors of two spaces are never mixed (FR-A11).
            UnavailableError: EMBED_MODEL_CHANGED if its model was changed meanwhile.
        """
        if not texts:
            return np.zeros((0, self._embedder.space.dimension), dtype=np.float32)
        if self._embedder.space.space_id != self._space_id:
            await self._embedder.refresh(deadline_seconds=min(timeout_seconds, _REFRESH_SECONDS))
        if self._embedder.space.space_id != self._space_id:
            raise FailedPreconditionError(
                "SPACE_WITHOUT_MODEL",
                f"the knowledge base holds vectors of {self._space_id}, and the embed service now runs the"
                f" model of {self._embedder.space.space_id}; run the old model again and retry, or make a new"
                " knowledge base",
                space=self._space_id,
                ready_space=self._embedder.space.space_id,
            )
        gate = asyncio.Semaphore(_CALLS_IN_FLIGHT)

        async def call(start: int) -> Vectors:
            async with gate:
                result = await self._embedder.embed(
                    texts[start : start + _BATCH_TEXTS],
                    role=EmbedRole.PASSAGE,
                    lane=EmbedLane.BULK,
                    deadline_seconds=timeout_seconds,
                )
            cost.embedded_text_count += len(result.vectors)
            cost.embedded_token_count += result.token_count
            return result.vectors

        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(call(start)) for start in range(0, len(texts), _BATCH_TEXTS)]
        if self._embedder.space.space_id != self._space_id:
            raise UnavailableError("EMBED_MODEL_CHANGED", "the embed service was given another model meanwhile")
        return np.concatenate([made.result() for made in calls])
