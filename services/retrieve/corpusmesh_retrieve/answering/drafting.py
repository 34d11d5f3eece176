"""A model's answer while it arrives: filtered, cut into sentences, and each sentence checked before it is shown."""

import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from corpusmesh_core.answering import Evidence
from corpusmesh_core.answering.refusals import LeadingRefusal, reads_as_refusal
from corpusmesh_core.citation import (
    AnswerFilter,
    CheckedSentence,
    CitableText,
    EvidenceChecker,
    SentenceGate,
    Statement,
    cited_labels,
    is_statement,
    plain_statement,
)
from corpusmesh_core.errors import CorpusMeshError
from corpusmesh_core.ports.chat import ChatMessage, ChatModel
from corpusmesh_retrieve.answering.vectors import AnswerVectors
from corpusmesh_runtime.logging import get_logger

_CHARACTERS_PER_TOKEN = 8
_log = get_logger(__name__)


@dataclass(slots=True)
class Draft:
    """What a model has written so far.

    Attributes:
        sentences: Its sentences as they may be shown.
        dropped_marker_count: Markers that referred to nothing.
        is_refused: Whether the model says that the evidence does not hold the answer.
        is_broken_off: Whether its text ended before its end.
        failure: Why there is no text; "" where there is one.
    """

    sentences: list[CheckedSentence] = field(default_factory=list)
    dropped_marker_count: int = 0
    is_refused: bool = False
    is_broken_off: bool = False
    failure: str = ""

    @property
    def text(self) -> str:
        """The text as it may be shown."""
        return "".join(sentence.text for sentence in self.sentences)

    @property
    def cited(self) -> tuple[int, ...]:
        """Labels in order of first use."""
        return cited_labels(self.text)

    @property
    def statements(self) -> tuple[Statement, ...]:
        """What it states."""
        return tuple(sentence.statement for sentence in self.sentences if sentence.statement is not None)

    @property
    def removed_count(self) -> int:
        """Citations that were taken out because their evidence does not bear the sentence out."""
        return sum(len(sentence.removed) for sentence in self.sentences)

    @property
    def placed_count(self) -> int:
        """Citations that were put in."""
        return sum(len(sentence.placed) for sentence in self.sentences)

    @property
    def confidence(self) -> float:
        """How well the evidence bears the whole out: the mean support of its statements, 0 for one without citation."""
        statements = self.statements
        if not statements:
            return 0.0
        return sum(one.support for one in statements if one.labels) / len(statements)

    def end(self) -> None:
        """Note what the whole text says of itself."""
        if self.is_broken_off or self.is_refused:
            return
        self.is_refused = not self.cited and reads_as_refusal(self.text)


@dataclass(frozen=True, slots=True)
class Writing:
    """What a draft is written from.

    Attributes:
        chat: The model.
        messages: What it is asked.
        evidence: Labelled evidence.
        question: What was asked.
        max_token_count: Longest answer.
        timeout_seconds: Longest time.
    """

    chat: ChatModel
    messages: Sequence[ChatMessage]
    evidence: Sequence[Evidence]
    question: str
    max_token_count: int
    timeout_seconds: float


def citable(evidence: Sequence[Evidence]) -> list[CitableText]:
    """Read evidence as the check of citations sees it.

    Args:
        evidence: Labelled evidence.

    Returns:
        Its texts, with document and headings as context.
    """
    return [CitableText(piece.label, piece.text, " ".join((piece.document, *piece.heading_path))) for piece in evidence]


async def write_draft(writing: Writing, vectors: AnswerVectors, draft: Draft) -> AsyncGenerator[str]:
    """Have a model write, and hand over each sentence once its citations are settled.

    Args:
        writing: What it is written from.
        vectors: Vectors of the evidence; used as soon as they are there.
        draft: Filled in; all that is yielded, put together, is its text.

    Yields:
        Text, a sentence or more at a time.
    """
    filtered = AnswerFilter([piece.label for piece in writing.evidence])
    refusal, gate = LeadingRefusal(), SentenceGate()
    checker = EvidenceChecker(citable(writing.evidence), question=writing.question)
    sentences = _Sentences(checker, vectors)
    room = writing.max_token_count * _CHARACTERS_PER_TOKEN
    stream = writing.chat.stream(
        writing.messages, max_token_count=writing.max_token_count, timeout_seconds=writing.timeout_seconds
    )
    async with contextlib.AsyncExitStack() as stack:
        if (close := getattr(stream, "aclose", None)) is not None:
            stack.push_async_callback(close)
        try:
            async for delta in stream:
                room -= len(delta.text)
                for checked in await sentences.check(gate.feed(refusal.feed(filtered.feed(delta.text)))):
                    draft.sentences.append(checked)
                    yield checked.text
                if room < 0:
                    # A model that does not know its own bound.
                    draft.is_broken_off = True
                    break
        except CorpusMeshError as error:
            _log.warning("language model gave up", reason=error.reason)
            draft.is_broken_off = True
            draft.failure = "the language model did not answer"
    rest = refusal.feed(filtered.finish(), is_final=True)
    for checked in await sentences.check([*gate.feed(rest), *gate.finish()]):
        draft.sentences.append(checked)
        yield checked.text
    draft.dropped_marker_count = filtered.outcome.dropped_marker_count
    draft.is_refused = refusal.is_refused
    if draft.text.strip():
        draft.failure = ""
    elif not draft.failure:
        draft.failure = "the language model gave an empty answer"
    draft.end()


class _Sentences:
    """Checks sentences, with vectors where they are to be had."""

    def __init__(self, checker: EvidenceChecker, vectors: AnswerVectors) -> None:
        self._checker = checker
        self._vectors = vectors
        self._is_prepared = False

    async def check(self, segments: Sequence[str]) -> list[CheckedSentence]:
        if not segments:
            return []
        if not self._is_prepared:
            self._is_prepared = True
            if (parts := await self._vectors.as_parts()) is not None:
                self._checker.add_vectors(parts)
        plain = [plain_statement(segment) for segment in segments]
        wanted = [text for text in plain if is_statement(text)] if self._checker.compares_vectors else []
        found = await self._vectors.of_answer(wanted) if wanted else []
        by_text = dict(zip(wanted, found, strict=True))
        return [self._checker.check(segment, by_text.get(text)) for segment, text in zip(segments, plain, strict=True)]
