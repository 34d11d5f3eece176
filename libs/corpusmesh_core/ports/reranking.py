"""Ports of reranking: the cross-encoder that reads a question and a passage together, and the door to reach it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

MAX_PASSAGES_PER_CALL = 200
"""Most passages that one call of a `PassageReranker` may carry."""
MAX_PASSAGE_BYTES = 32 * 1024
"""Longest passage or question of a call, in bytes of UTF-8."""


@dataclass(frozen=True, slots=True)
class RerankModel:
    """A cross-encoder.

    Attributes:
        name: Its name, as its description or its endpoint says.
        max_input_tokens: Tokens that it reads of question and passage together; 0 where its endpoint cuts for itself.
        fingerprint: Digest of its files, or of what its endpoint is asked.
    """

    name: str
    max_input_tokens: int
    fingerprint: str


class RerankBackend(Protocol):
    """A cross-encoder that can be called. Synchronous and thread-safe; an engine in front of it bounds what waits."""

    @property
    def model(self) -> RerankModel:
        """The model."""
        ...

    @property
    def max_batch_passages(self) -> int:
        """Passages of one `score`; the engine looks at the caller's deadline between two of them."""
        ...

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """Score passages for a question.

        Args:
            question: The question; one that is too long is cut.
            passages: At least one, at most `max_batch_passages`; those that are too long are cut.

        Returns:
            One score a passage, shape (n,), checked: finite, 0 to 1.

        Raises:
            UnavailableError: If a remote model does not answer.
            OverloadedError: If it asks to wait.
            FailedPreconditionError: If it refuses the configured key, model or address.
            InternalError: If the model fails or gives scores that cannot be used.
        """
        ...


class PassageReranker(Protocol):
    """What services use of the cross-encoder; there may be none."""

    @property
    def rerank_model(self) -> RerankModel | None:
        """The cross-encoder, as far as this process knows; None where none is configured: see `refresh`."""
        ...

    async def refresh(self, *, deadline_seconds: float) -> None:
        """Learn which models the service has now.

        Args:
            deadline_seconds: How long the caller waits, from now.

        Raises:
            UnavailableError: If the service does not answer; `rerank_model` stays as it was.
        """
        ...

    async def rerank(self, question: str, passages: Sequence[str], *, deadline_seconds: float) -> NDArray[np.float32]:
        """Score passages for a question.

        Args:
            question: The question.
            passages: 1 to MAX_PASSAGES_PER_CALL, each at most MAX_PASSAGE_BYTES.
            deadline_seconds: How long the caller waits, from now.

        Returns:
            One score a passage, shape (n,), 0 to 1.

        Raises:
            FailedPreconditionError: RERANK_MODEL_MISSING where no cross-encoder is configured.
            InvalidArgumentError: RERANK_PASSAGES_INVALID if there are too many, or one is too long.
            OverloadedError: RERANK_QUEUE_FULL if too much waits.
            DeadlineExceededError: If the time is over; what the model has not begun is dropped.
            UnavailableError: If the service or a remote model does not answer.
        """
        ...
