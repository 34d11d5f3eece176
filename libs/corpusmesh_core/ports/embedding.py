"""Ports of embedding: the model that turns texts into vectors, and the door that services use to reach it.

Vectors of two spaces can never be compared, so a space names everything that decides a vector: model, dimension,
normalisation and the fingerprint of the files. An index holds the records of one space.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

MAX_TEXTS_PER_CALL = 256
"""Most texts that one call of an `Embedder` may carry."""
MAX_TEXT_BYTES = 64 * 1024
"""Longest text of a call, in bytes of UTF-8."""
_MAX_SLUG_LENGTH = 40


class EmbedRole(StrEnum):
    """What a text is to the model: many models read questions and passages under different prefixes."""

    QUERY = "query"
    PASSAGE = "passage"


class EmbedLane(StrEnum):
    """Who waits for the vectors."""

    INTERACTIVE = "interactive"
    BULK = "bulk"


@dataclass(frozen=True, slots=True)
class EmbeddingSpace:
    """Where vectors can be compared.

    Attributes:
        model: Name of the model, as in the registry.
        dimension: Numbers per vector.
        normalized: Whether every vector has unit norm, so that the dot product is the cosine.
        fingerprint: Hexadecimal digest of everything else that decides a vector (weights, tokenizer, prefixes).
    """

    model: str
    dimension: int
    normalized: bool
    fingerprint: str

    @property
    def space_id(self) -> str:
        """A short name, `[a-z0-9-]{1,63}`, equal for equal spaces; part of index names (`cm-<tenant>-<space>`).

        It reads `<model>-<dimension>-<8 hexadecimal digits>`; the digits digest all four attributes.
        """
        identity = f"{self.model}\n{self.dimension}\n{self.normalized}\n{self.fingerprint}"
        digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
        slug = re.sub(r"[^a-z0-9]+", "-", self.model.lower())[:_MAX_SLUG_LENGTH].strip("-") or "model"
        return f"{slug}-{self.dimension}-{digest}"


@dataclass(frozen=True, slots=True)
class EmbedResult:
    """Vectors in the order of the texts.

    Attributes:
        vectors: Shape (n, dimension), float32; of unit norm where the space is normalised.
        token_count: Tokens that the model read, over all texts, special tokens included.
        truncated_positions: Positions of the texts that were longer than the model reads at once, ascending. What
            happened to their ends is the backend's to say (see `EmbeddingBackend.encode`).
    """

    vectors: NDArray[np.float32]
    token_count: int
    truncated_positions: tuple[int, ...] = ()


class TextTokenizer(Protocol):
    """The embedding model's own tokenizer, so that chunk budgets are true to the model. Thread-safe and pure."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of texts without the model's special tokens and prefixes.

        Args:
            texts: Any number of texts.

        Returns:
            One count a text, in their order.
        """
        ...

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Tell where the tokens of a text stand in it.

        Args:
            text: The text.

        Returns:
            (start, end) in characters of `text`, ascending by start; as many as `count_tokens` counts. A token that
            stands for nothing in the text (a marker before the first word) has start equal to end.
        """
        ...


class EmbeddingBackend(TextTokenizer, Protocol):
    """A model that can be called. Synchronous and thread-safe; an engine in front of it batches and bounds."""

    @property
    def space(self) -> EmbeddingSpace:
        """The space of its vectors."""
        ...

    @property
    def max_input_tokens(self) -> int:
        """Tokens that the model reads of one text at once, special tokens and prefix included."""
        ...

    @property
    def prefix_tokens(self) -> int:
        """Most tokens that a role's prefix and the special tokens add to a text."""
        ...

    def encode(self, texts: Sequence[str], *, role: EmbedRole) -> EmbedResult:
        """Embed texts as one batch.

        A text longer than `max_input_tokens` never fails the batch: it is cut, or read in windows whose vectors are
        averaged, and its position is reported.

        Args:
            texts: At least one; the caller bounds their number and sum of tokens.
            role: What the texts are; decides the prefix.

        Returns:
            The vectors, checked: the space's dimension, finite, not of zero norm.

        Raises:
            UnavailableError: If a remote model does not answer within its deadline or asks to wait.
            InternalError: If the model gave vectors that fail the check.
        """
        ...


class Embedder(Protocol):
    """What services use: embeds across callers in good batches, or refuses early."""

    @property
    def space(self) -> EmbeddingSpace:
        """The space of its vectors, as far as this process knows: see `refresh`."""
        ...

    @property
    def max_input_tokens(self) -> int:
        """Tokens that the model reads of one text at once, special tokens and prefix included; as of `refresh`."""
        ...

    async def refresh(self, *, deadline_seconds: float) -> None:
        """Learn which space the service embeds into now; its model may have been changed since.

        Args:
            deadline_seconds: How long the caller waits, from now.

        Raises:
            UnavailableError: If the service does not answer; `space` stays as it was.
        """
        ...

    async def embed(
        self, texts: Sequence[str], *, role: EmbedRole, lane: EmbedLane, deadline_seconds: float
    ) -> EmbedResult:
        """Embed texts.

        Args:
            texts: 0 to MAX_TEXTS_PER_CALL texts of at most MAX_TEXT_BYTES each; an empty text is embedded as such.
            role: What the texts are.
            lane: Who waits.
            deadline_seconds: How long the caller waits, from now.

        Returns:
            The vectors in the order of the texts.

        Raises:
            InvalidArgumentError: If there are too many texts or one is too long.
            OverloadedError: If the queue is full (EMBED_QUEUE_FULL), with the delay after which to try again.
            DeadlineExceededError: If the time is over; texts that the model has not begun are dropped.
            UnavailableError: If a remote model or the service does not answer, or EMBED_MODEL_CHANGED if it embeds
                into another space by now: `space` is the new one then.
        """
        ...

    async def count_tokens(self, texts: Sequence[str], *, deadline_seconds: float) -> list[int]:
        """Count tokens by the model's own tokenizer, without special tokens and prefixes.

        Args:
            texts: Any number of texts.
            deadline_seconds: How long the caller waits, from now.

        Returns:
            One count a text, in their order.

        Raises:
            DeadlineExceededError: If the time is over.
            UnavailableError: If the service does not answer.
        """
        ...
