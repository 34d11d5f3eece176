"""Vectors of evidence and of an answer's sentences: a bounded number of texts, and never a reason to fail."""

import asyncio
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.answering import CandidateSentence
from corpusmesh_core.citation import EvidenceVectors
from corpusmesh_core.ports.embedding import Embedder, EmbedRole
from corpusmesh_retrieve.embedding import vectors_or_none
from corpusmesh_runtime.context import CallContext

_SHARE_OF_DEADLINE = 0.3
_MAX_SECONDS = 5.0
_MAX_SENTENCE_SECONDS = 1.0
_MAX_ANSWER_SENTENCES = 64


class AnswerVectors:
    """The vectors of one answer; an asynchronous context manager that ends what it started."""

    def __init__(self, embedder: Embedder, call: CallContext, sentences: Sequence[CandidateSentence]) -> None:
        """Begin to embed the evidence, while other things are done.

        Args:
            embedder: Makes vectors.
            call: The call; a part of its time is used.
            sentences: Sentences of the evidence; none where nothing is to be embedded.
        """
        self._embedder = embedder
        self._call = call
        self._sentences = tuple(sentences)
        self._left = _MAX_ANSWER_SENTENCES if self._sentences else 0
        self._evidence = asyncio.create_task(self._embed([item.text for item in self._sentences], _MAX_SECONDS))

    async def __aenter__(self) -> "AnswerVectors":
        """Give itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop embedding."""
        self._evidence.cancel()
        await asyncio.gather(self._evidence, return_exceptions=True)

    async def of_evidence(self) -> NDArray[np.float32] | None:
        """Wait for the vectors of the evidence's sentences.

        Returns:
            Shape (number of sentences, dimension); None where there are none.
        """
        return await asyncio.shield(self._evidence)

    async def as_parts(self) -> EvidenceVectors | None:
        """Wait for them as the check of citations takes them.

        Returns:
            The vectors with their places; None where there are none.
        """
        vectors = await self.of_evidence()
        if vectors is None:
            return None
        return EvidenceVectors(tuple(item.evidence_position for item in self._sentences), vectors)

    async def of_answer(self, sentences: Sequence[str]) -> list[NDArray[np.float32] | None]:
        """Embed sentences of the answer in one call.

        Args:
            sentences: The next sentences.

        Returns:
            A vector for each; None for all where the embedder does not answer soon, and for those beyond 64 an answer.
        """
        taken = sentences[: self._left]
        self._left -= len(taken)
        vectors = await self._embed(taken, _MAX_SENTENCE_SECONDS)
        if vectors is None:
            # Not tried again: every sentence would wait for it.
            self._left = 0
            return [None] * len(sentences)
        return [*vectors, *([None] * (len(sentences) - len(taken)))]

    async def _embed(self, texts: Sequence[str], max_seconds: float) -> NDArray[np.float32] | None:
        if not texts:
            return None
        return await vectors_or_none(
            self._embedder,
            self._call,
            texts,
            role=EmbedRole.PASSAGE,
            share_of_deadline=_SHARE_OF_DEADLINE,
            without="an answer is compared with its evidence by words alone",
            max_seconds=max_seconds,
        )
