"""The answer of a research.

A language model answers the whole question from all evidence. Without one no single sentence answers a question of
several parts, so that each part that was found to be answered is answered by quotations of its own.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.answering import Evidence
from corpusmesh_core.citation import filter_answer
from corpusmesh_core.query.understanding.parts import parts_of
from corpusmesh_core.research.tree import QuestionState
from corpusmesh_retrieve.answering import Answerer, AnswerOptions, AnswerResult
from corpusmesh_retrieve.outcome import SearchOutcome
from corpusmesh_retrieve.researching.running import Research
from corpusmesh_runtime.context import CallContext


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the question, with its evidence and, where there is one, its vector."""

    question: str
    evidence: tuple[Evidence, ...]
    vector: NDArray[np.float32] | None


class ResearchReport:
    """Writes the answer of one research."""

    def __init__(self, answerer: Answerer, research: Research, outcome: SearchOutcome, options: AnswerOptions) -> None:
        """Begin the answer.

        Args:
            answerer: Writes answers.
            research: The research, at its end.
            outcome: All evidence.
            options: How to answer.
        """
        self._answerer = answerer
        self._research = research
        self._outcome = outcome
        self._options = options
        self._question = research.tree.root.text

    def gather(self) -> AnswerResult:
        """Select and label the evidence.

        Returns:
            A result that holds the evidence alone.
        """
        return self._answerer.gather(self._question, self._outcome, self._options)

    async def write(self, call: CallContext, result: AnswerResult) -> AsyncGenerator[str]:
        """Write the answer into the result, and hand over its text as it comes.

        Args:
            call: The call; its deadline bounds the model.
            result: From `gather`; filled in.

        Yields:
            Pieces of the text.
        """
        parts = self._parts(result)
        lost = self._research.session.why_lost
        if parts and (self._options.model_free or lost):
            if lost:
                result.notes.append(f"{lost}, so this answer is made of quotations")
            async with aclosing(self._by_parts(call, parts, result)) as pieces:
                async for piece in pieces:
                    yield piece
            if not result.abstained:
                return
            result.abstained = False
        texts = self._answerer.write(call, self._question, self._outcome, self._options, result)
        async with aclosing(texts) as pieces:
            async for piece in pieces:
                yield piece

    def _parts(self, result: AnswerResult) -> Sequence[_Part]:
        """Name the parts that were found to be answered, with what of the selected evidence answers them."""
        tree = self._research.tree
        if tree.root.state is QuestionState.SUFFICIENT:
            # Its parts need no searches of their own, and still no sentence that holds them all.
            return [_Part(text, result.evidence, None) for text in parts_of(self._question)]
        answered = [node for node in tree.nodes if node.state is QuestionState.SUFFICIENT]
        parts = [
            _Part(node.text, self._evidence_of(node.node_id, result), self._research.vector_of(node.node_id))
            for node in answered
        ]
        return [part for part in parts if part.evidence]

    def _evidence_of(self, node_id: str, result: AnswerResult) -> tuple[Evidence, ...]:
        own = set(self._research.record_ids_of(node_id))
        return tuple(piece for piece in result.evidence if piece.record_id in own)

    async def _by_parts(self, call: CallContext, parts: Sequence[_Part], result: AnswerResult) -> AsyncGenerator[str]:
        """Answer each part by quotations; a part whose evidence does not carry an answer is left out."""
        options = replace(self._options, model_free=True)
        written: list[AnswerResult] = []
        texts: list[str] = []
        for part in parts:
            own = AnswerResult(evidence=part.evidence)
            outcome = replace(self._outcome, query_vector=part.vector, notes=[], stages=[])
            said = "".join([piece async for piece in self._answerer.write(call, part.question, outcome, options, own)])
            if own.abstained or not said.strip():
                continue
            # A sub-question may have been made of what documents say: no marker and no address of it is let through.
            title, _ = filter_answer(part.question.replace("*", " "), ())
            text = f"**{title.strip()}**\n\n{said}"
            yield f"\n\n{text}" if texts else text
            written.append(own)
            texts.append(text)
        result.abstained = not written
        if not written:
            return
        result.text = "\n\n".join(texts)
        result.cited = tuple(dict.fromkeys(label for own in written for label in own.cited))
        result.statements = tuple(statement for own in written for statement in own.statements)
        result.confidence = min(own.confidence for own in written)
