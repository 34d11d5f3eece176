"""Answers from evidence: by a language model where one is configured, else by the evidence's own sentences."""

import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.answering import (
    Evidence,
    candidate_sentences,
    compose_answer,
    label_evidence,
    render_answer_messages,
    select_evidence,
)
from corpusmesh_core.citation import AnswerFilter, CitableText, place_citations
from corpusmesh_core.errors import CorpusMeshError, DeadlineExceededError, OverloadedError, UnavailableError
from corpusmesh_core.ports.chat import ChatModel
from corpusmesh_core.ports.embedding import Embedder, EmbedLane, EmbedRole
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_retrieve.outcome import SearchOutcome
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.logging import get_logger

_MAX_EMBEDDED_SENTENCES = 48
_DEADLINE_RESERVE_SECONDS = 2.0
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """How an answer is made.

    Attributes:
        max_evidence_tokens: Tokens of evidence.
        evidence_count: Most pieces of evidence.
        model_free: Whether to leave the language model alone.
        max_answer_tokens: Longest answer of a model.
        model_deadline_seconds: Time after which a model-free answer is given instead.
    """

    max_evidence_tokens: int
    evidence_count: int
    model_free: bool
    max_answer_tokens: int
    model_deadline_seconds: float


@dataclass(slots=True)
class AnswerResult:
    """What became of a question.

    Attributes:
        evidence: Labelled evidence, best first.
        text: The whole answer.
        cited: Labels in order of first use.
        by_model: Whether a language model wrote it.
        abstained: Whether the evidence does not carry an answer.
        dropped_marker_count: Markers that referred to nothing.
        notes: What the caller should know.
    """

    evidence: tuple[Evidence, ...] = ()
    text: str = ""
    cited: tuple[int, ...] = ()
    by_model: bool = False
    abstained: bool = False
    dropped_marker_count: int = 0
    notes: list[str] = field(default_factory=list)


class Answerer:
    """Answers questions from what a search found."""

    def __init__(self, embedder: Embedder, chat: ChatModel | None, make_rng: Callable[[], np.random.Generator]) -> None:
        """Create the answerer.

        Args:
            embedder: Embeds sentences for the model-free answer.
            chat: Writes answers; None for model-free answers alone.
            make_rng: Dice for the markers of one request, seeded from the system's randomness.
        """
        self._embedder = embedder
        self._chat = chat
        self._make_rng = make_rng

    def gather(self, question: str, outcome: SearchOutcome, options: AnswerOptions) -> AnswerResult:
        """Select and label the evidence.

        Args:
            question: What was asked.
            outcome: What the search found.
            options: Budget.

        Returns:
            A result that holds the evidence alone.
        """
        ranked = [_evidence(item) for item in outcome.kept[: options.evidence_count]]
        selected = select_evidence(ranked, max_token_count=options.max_evidence_tokens) if ranked else ()
        return AnswerResult(evidence=label_evidence(selected, rng=self._make_rng(), question=question))

    async def write(
        self, call: CallContext, question: str, outcome: SearchOutcome, options: AnswerOptions, result: AnswerResult
    ) -> AsyncGenerator[str]:
        """Write the answer into the result, and hand over its text as it comes.

        Args:
            call: The call; its deadline bounds the model.
            question: What was asked.
            outcome: What the search found.
            options: How.
            result: From `gather`; filled in.

        Yields:
            Pieces of the text.
        """
        if self._chat is not None and not options.model_free and result.evidence:
            async with contextlib.aclosing(self._by_model(self._chat, call, question, options, result)) as pieces:
                async for piece in pieces:
                    yield piece
            if result.by_model:
                return
        await self._by_quotation(call, question, outcome, result)
        yield result.text

    async def _by_model(
        self, chat: ChatModel, call: CallContext, question: str, options: AnswerOptions, result: AnswerResult
    ) -> AsyncGenerator[str]:
        filtered = AnswerFilter([piece.label for piece in result.evidence])
        messages = render_answer_messages(question, result.evidence, rng=self._make_rng())
        seconds = min(options.model_deadline_seconds, max(0.1, call.remaining_seconds() - _DEADLINE_RESERVE_SECONDS))
        texts: list[str] = []
        try:
            stream = chat.stream(messages, max_token_count=options.max_answer_tokens, timeout_seconds=seconds)
            async for delta in stream:
                if piece := filtered.feed(delta.text):
                    texts.append(piece)
                    yield piece
        except CorpusMeshError as error:
            _log.warning("language model gave up", reason=error.reason)
            if not texts:
                result.notes.append("the language model did not answer, so this answer is made of quotations")
                return
            result.notes.append("the language model broke off; the answer is not complete")
        if piece := filtered.finish():
            texts.append(piece)
            yield piece
        result.text = "".join(texts)
        if not result.text.strip():
            result.notes.append("the language model gave an empty answer, so this answer is made of quotations")
            return
        result.by_model = True
        result.cited = filtered.outcome.cited
        result.dropped_marker_count = filtered.outcome.dropped_marker_count
        if not result.cited:
            evidence = [CitableText(piece.label, piece.text) for piece in result.evidence]
            result.text, result.cited = place_citations(result.text, evidence)
            if result.cited:
                result.notes.append("the language model cited nothing; citations were placed by similarity")

    async def _by_quotation(
        self, call: CallContext, question: str, outcome: SearchOutcome, result: AnswerResult
    ) -> None:
        sentences = candidate_sentences(result.evidence, max_count=_MAX_EMBEDDED_SENTENCES)
        vectors = await self._sentence_vectors(call, [sentence.text for sentence in sentences], outcome)
        answer = compose_answer(
            question,
            result.evidence,
            sentences,
            question_vector=outcome.query_vector if vectors is not None else None,
            sentence_vectors=vectors,
        )
        result.text = answer.text
        result.cited = answer.cited
        result.abstained = answer.is_abstained

    async def _sentence_vectors(
        self, call: CallContext, texts: Sequence[str], outcome: SearchOutcome
    ) -> NDArray[np.float32] | None:
        if outcome.query_vector is None or not texts:
            return None
        try:
            result = await self._embedder.embed(
                texts, role=EmbedRole.PASSAGE, lane=EmbedLane.INTERACTIVE, deadline_seconds=call.remaining_seconds()
            )
        except (UnavailableError, OverloadedError, DeadlineExceededError) as error:
            _log.warning("sentences are chosen by words alone", reason=error.reason)
            return None
        return result.vectors


def _evidence(item: RankedCandidate) -> Evidence:
    record = item.candidate.record
    return Evidence(
        record_id=record.record_id,
        text=record.text,
        document=record.display_name,
        token_count=record.token_count,
        page=record.page,
        boxes=record.boxes,
        heading_path=record.heading_path,
        source=f"knowledgeBases/{record.knowledge_base_id}/documents/{record.document_id}",
        score=item.similarity,
    )
