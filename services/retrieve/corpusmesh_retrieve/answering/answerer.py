"""Answers from evidence: by a language model where one is configured, else by the evidence's own sentences."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

import numpy as np

from corpusmesh_core.answering import (
    CandidateSentence,
    Support,
    SupportCalibration,
    candidate_sentences,
    closest_quotation,
    compose_answer,
    label_evidence,
    measure_support,
    render_answer_messages,
    select_evidence,
)
from corpusmesh_core.answering.extractive import ExtractiveAnswer, ExtractiveSettings
from corpusmesh_core.answering.small_talk import invitation, is_small_talk
from corpusmesh_core.citation import Statement, cited_labels, filter_answer
from corpusmesh_core.ports.chat import ChatModel
from corpusmesh_core.ports.embedding import Embedder
from corpusmesh_core.prompts import REVISE_V1
from corpusmesh_retrieve.answering.drafting import Draft, Writing, write_draft
from corpusmesh_retrieve.answering.evidence import evidence_of
from corpusmesh_retrieve.answering.reflecting import Reflection, needs_documents, reflect, with_verdict
from corpusmesh_retrieve.answering.reporting import StepClock
from corpusmesh_retrieve.answering.values import AnswerOptions, AnswerResult
from corpusmesh_retrieve.answering.vectors import AnswerVectors
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_runtime.context import CallContext

WRITE_STAGE = "write"
"""Report of the first draft of a language model, whatever became of it."""
_MAX_EMBEDDED_SENTENCES = 48
_DEADLINE_RESERVE_SECONDS = 2.0
_SHARE_OF_DEADLINE = 0.6
"""Of the time that is left; the rest is for the answer without the model, and for one re-write."""
_MIN_REWRITE_SECONDS = 3.0
_RELEVANT = 0.5
_MIN_CARRIED = 0.2
"""Least confidence of a model's answer: below it, next to nothing of it is borne out."""


@dataclass(frozen=True, slots=True)
class _Work:
    """One answer under way."""

    call: CallContext
    question: str
    outcome: SearchOutcome
    options: AnswerOptions
    result: AnswerResult
    vectors: AnswerVectors
    sentences: tuple[CandidateSentence, ...]
    support: Support


class Answerer:
    """Answers questions from what a search found."""

    def __init__(
        self,
        embedder: Embedder,
        chat: ChatModel | None,
        make_rng: Callable[[], np.random.Generator],
        calibration: SupportCalibration | None = None,
    ) -> None:
        """Create the answerer.

        Args:
            embedder: Embeds sentences of the evidence and of the answer.
            chat: Writes answers; None for model-free answers alone.
            make_rng: Dice for the markers of one request, seeded from the system's randomness.
            calibration: How well evidence must carry an answer; None for that of the bundled embedding model.
        """
        self._embedder = embedder
        self._chat = chat
        self._make_rng = make_rng
        self._calibration = calibration or SupportCalibration()

    def gather(self, question: str, outcome: SearchOutcome, options: AnswerOptions) -> AnswerResult:
        """Select and label the evidence.

        Args:
            question: What was asked.
            outcome: What the search found.
            options: Budget.

        Returns:
            A result that holds the evidence alone; none for small talk.
        """
        if is_small_talk(outcome.request.query):
            return AnswerResult()
        most_tokens = options.max_evidence_tokens
        ranked = evidence_of(outcome, max_count=options.evidence_count, max_token_count=most_tokens)
        most = options.max_per_source or outcome.plan.assembly.max_per_document or None
        selected = select_evidence(ranked, max_token_count=most_tokens, max_per_source=most) if ranked else ()
        return AnswerResult(evidence=label_evidence(selected, rng=self._make_rng(), question=question))

    async def write(
        self, call: CallContext, question: str, outcome: SearchOutcome, options: AnswerOptions, result: AnswerResult
    ) -> AsyncGenerator[str]:
        """Write the answer into the result, and hand over its text as it comes.

        Args:
            call: The call; its deadline bounds the model.
            question: What was asked: the stand-alone question where there is one.
            outcome: What the search found; gets reports of the steps.
            options: How.
            result: From `gather`; filled in.

        Yields:
            Pieces of the text; put together, they are `result.text`.
        """
        asked = outcome.request.query
        if is_small_talk(asked) or (
            outcome.plan.correction.reflect and not await needs_documents(call, asked, outcome)
        ):
            result.abstained = True
            result.notes.append("the message asks for nothing that documents could hold")
            result.text = invitation(asked)
            yield result.text
            return
        sentences, support = await asyncio.to_thread(self._read, question, outcome, result)
        embedded = sentences if outcome.query_vector is not None else ()
        async with AnswerVectors(self._embedder, call, embedded) as vectors:
            work = _Work(call, question, outcome, options, result, vectors, sentences, support)
            if (chat := self._writer(work)) is not None:
                write = self._reflected if outcome.plan.correction.reflect else self._streamed
                async with contextlib.aclosing(write(chat, work)) as pieces:
                    async for piece in pieces:
                        yield piece
                if result.by_model:
                    return
            yield await self._quoted(work)

    def _read(
        self, question: str, outcome: SearchOutcome, result: AnswerResult
    ) -> tuple[tuple[CandidateSentence, ...], Support]:
        """Read the evidence; some milliseconds of computing, so not on the event loop."""
        sentences = candidate_sentences(result.evidence, max_count=_MAX_EMBEDDED_SENTENCES)
        return sentences, measure_support(
            question, result.evidence, alternatives=outcome.terms.alternatives, calibration=self._calibration
        )

    def _writer(self, work: _Work) -> ChatModel | None:
        """Tell by which model to write; None where the answer is made of quotations, and the notes say why."""
        if self._chat is None or work.options.model_free or not work.result.evidence:
            return None
        if why_lost := work.outcome.request.session.why_lost:
            work.result.notes.append(f"{why_lost}, so this answer is made of quotations")
            return None
        check = work.outcome.sufficiency
        if check is not None and not check.is_sufficient and work.support.confidence < self._calibration.min_confidence:
            work.result.notes.append("what was found is not enough for an answer, so none was written")
            if check.missing:
                missing, _ = filter_answer("; ".join(check.missing), ())
                work.result.notes.append(f"what seems to be missing: {missing}")
            return None
        return self._chat

    async def _streamed(self, chat: ChatModel, work: _Work) -> AsyncGenerator[str]:
        clock = StepClock(work.outcome, WRITE_STAGE, "")
        draft = Draft()
        async with contextlib.aclosing(write_draft(self._writing(chat, work), work.vectors, draft)) as pieces:
            async for piece in pieces:
                yield piece
        self._end_writing(clock, draft)
        async for piece in self._settle(draft, work):
            yield piece

    async def _reflected(self, chat: ChatModel, work: _Work) -> AsyncGenerator[str]:
        """Write, check, and write once more where that is due; shown is what stands at the end."""
        grades = work.support.grades
        relevant_count = sum(grade >= _RELEVANT for grade in grades)
        StepClock(work.outcome, "reflect", "").end(
            detail=f"{relevant_count} of {len(grades)} pieces of evidence are relevant"
        )
        draft = await self._whole_draft(self._writing(chat, work), WRITE_STAGE, work)
        if not draft.failure and not draft.is_refused:
            evidence = work.result.evidence
            first = await reflect(work.call, work.question, work.outcome, evidence, draft)
            with_verdict(draft, first)
            if first.wants_rewrite and not draft.is_broken_off and work.outcome.request.session.is_open:
                draft = await self._better(chat, work, draft, first)
        if draft.text.strip():
            yield draft.text
        async for piece in self._settle(draft, work):
            yield piece

    async def _better(self, chat: ChatModel, work: _Work, draft: Draft, first: Reflection) -> Draft:
        if work.call.remaining_seconds() < _MIN_REWRITE_SECONDS:
            StepClock(work.outcome, "rewrite", "").end(state=StageState.SKIPPED, detail="no time was left")
            return draft
        unsupported = [one.text for one in first.unsupported]
        writing = self._writing(chat, work, unsupported)
        again = await self._whole_draft(writing, "rewrite", work)
        asked = sum(len(message.content) for message in writing.messages)
        work.outcome.request.session.charge(asked + len(again.text))
        if again.failure or again.is_broken_off:
            return draft
        if again.is_refused:
            return again
        second = await reflect(work.call, work.question, work.outcome, work.result.evidence, again)
        with_verdict(again, second)
        return again if second.quality >= first.quality else draft

    async def _whole_draft(self, writing: Writing, name: str, work: _Work) -> Draft:
        again = "" if name == WRITE_STAGE else " again"
        clock = StepClock(work.outcome, name, f"writing the answer{again}")
        draft = Draft()
        async with contextlib.aclosing(write_draft(writing, work.vectors, draft)) as pieces:
            async for _ in pieces:
                pass
        self._end_writing(clock, draft)
        return draft

    def _writing(self, chat: ChatModel, work: _Work, unsupported: list[str] | None = None) -> Writing:
        left = work.call.remaining_seconds()
        share = _SHARE_OF_DEADLINE if work.outcome.plan.correction.reflect else 1.0
        seconds = min(work.options.model_deadline_seconds, max(0.1, left * share - _DEADLINE_RESERVE_SECONDS))
        evidence, rng = work.result.evidence, self._make_rng()
        messages = (
            render_answer_messages(work.question, evidence, rng=rng, prompt=REVISE_V1, unsupported=unsupported)
            if unsupported is not None
            else render_answer_messages(work.question, evidence, rng=rng, prompt=work.options.prompt)
        )
        return Writing(chat, messages, evidence, work.question, work.options.max_answer_tokens, seconds)

    def _end_writing(self, clock: StepClock, draft: Draft) -> None:
        counts = f"{draft.placed_count} citations placed, {draft.removed_count} removed"
        clock.end(
            state=StageState.FAILED if draft.failure or draft.is_broken_off else StageState.RAN,
            by_model=not draft.failure,
            detail=draft.failure or f"{len(draft.statements)} statements, {counts}",
        )

    async def _settle(self, draft: Draft, work: _Work) -> AsyncGenerator[str]:
        """Take a draft into the result; yields what has to be said behind it."""
        result = work.result
        if draft.failure:
            result.notes.append(f"{draft.failure}, so this answer is made of quotations")
            return
        result.by_model = True
        result.text = draft.text
        result.dropped_marker_count = draft.dropped_marker_count
        result.unsupported_citation_count = draft.removed_count
        result.statements = draft.statements
        result.confidence = min(1.0, draft.confidence)
        if draft.is_broken_off:
            result.notes.append("the language model broke off; the answer is not complete")
        if draft.placed_count:
            result.notes.append(f"{draft.placed_count} citations were placed by similarity")
        if draft.removed_count:
            result.notes.append(f"{draft.removed_count} citations did not bear out their sentence and were removed")
        result.abstained = draft.is_refused or not draft.cited or result.confidence < _MIN_CARRIED
        if draft.is_refused:
            result.confidence = min(result.confidence, work.support.confidence)
        if result.abstained and not draft.cited:
            # Show what was found: the reader of a plain no wants to know what there is.
            addition = f"\n\n{closest_quotation(work.question, await self._compose(work))}"
            result.text += addition
            yield addition
        result.cited = cited_labels(result.text)

    async def _quoted(self, work: _Work) -> str:
        clock = StepClock(work.outcome, "quote", "")
        answer = await self._compose(work)
        result = work.result
        result.text, result.cited, result.abstained = answer.text, answer.cited, answer.is_abstained
        result.confidence = answer.confidence
        if not answer.is_abstained:
            result.statements = tuple(
                Statement(item.text, (result.evidence[item.evidence_position].label,), 1.0, 1.0, None)
                for item in answer.quotations
            )
        clock.end(detail="abstained" if answer.is_abstained else f"{len(answer.quotations)} quotations")
        return result.text

    async def _compose(self, work: _Work) -> ExtractiveAnswer:
        vectors = await work.vectors.of_evidence()
        return await asyncio.to_thread(
            compose_answer,
            work.question,
            work.result.evidence,
            work.sentences,
            question_vector=work.outcome.query_vector if vectors is not None else None,
            sentence_vectors=vectors,
            support=work.support if work.result.evidence else None,
            alternatives=work.outcome.terms.alternatives,
            settings=ExtractiveSettings(calibration=self._calibration),
        )
