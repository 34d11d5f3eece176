"""Two steps of a research, by the language model or by rule: is it enough, and what is to be asked next."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from corpusmesh_core.answering.fences import visible_text
from corpusmesh_core.answering.step_messages import DataBlock
from corpusmesh_core.ports.index import Candidate
from corpusmesh_core.prompts.research_questions_v1 import RESEARCH_QUESTIONS_V1
from corpusmesh_core.prompts.research_sufficiency_v1 import RESEARCH_SUFFICIENCY_V1
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.research.decomposition import next_questions
from corpusmesh_core.research.sufficiency import FoundPassage, Sufficiency, check_sufficiency
from corpusmesh_core.research.tree import MAX_QUESTION_CHARACTERS
from corpusmesh_core.text import analyze
from corpusmesh_retrieve.asking import Made, ModelSession, question_block
from corpusmesh_runtime.context import CallContext

_MAX_PASSAGES = 6
_MAX_PASSAGE_CHARACTERS = 1_200
_MAX_MISSING = 5
_MAX_MISSING_CHARACTERS = 200
_MAX_ASKED = 16
_MAX_QUESTION_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is thought of the evidence of one question.

    Attributes:
        is_sufficient: Whether it is enough.
        missing: What is missing.
        best: Which piece of evidence bears the question out best, from 0.
    """

    is_sufficient: bool
    missing: tuple[str, ...] = ()
    best: int = 0


async def judge(
    call: CallContext, session: ModelSession, question: str, found: Sequence[RankedCandidate]
) -> Made[Judgement]:
    """Judge whether evidence is enough for a question.

    Args:
        call: The call.
        session: The language model.
        question: The question.
        found: Its evidence, best first.

    Returns:
        The judgement; nothing found is never enough, and no model is asked about it.
    """
    by_rule = await asyncio.to_thread(_by_rule, question, found)

    def otherwise() -> Judgement:
        return Judgement(by_rule.is_sufficient, by_rule.missing, max(by_rule.best, 0))

    def read(value: object) -> Judgement | None:
        if not isinstance(value, dict) or not isinstance(value.get("sufficient"), bool):
            return None
        missing = _texts(value.get("missing", []), _MAX_MISSING_CHARACTERS)
        if missing is None:
            return None
        is_sufficient = value["sufficient"]
        return Judgement(is_sufficient, () if is_sufficient else missing[:_MAX_MISSING], max(by_rule.best, 0))

    if not found:
        return Made(otherwise(), by_model=False)
    return await session.make(
        call,
        RESEARCH_SUFFICIENCY_V1,
        [question_block(question), *_passage_blocks(found)],
        read=read,
        otherwise=otherwise,
        parameters={"max_missing": str(_MAX_MISSING)},
    )


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question whose evidence is not enough.

    Attributes:
        asked: The question that the research was asked.
        question: The question.
        judgement: What is missing.
        found: Its evidence, best first.
        others: Questions that were asked already.
    """

    asked: str
    question: str
    judgement: Judgement
    found: Sequence[RankedCandidate]
    others: Sequence[str]


async def ask_next(
    call: CallContext, session: ModelSession, wanted: OpenQuestion, *, max_count: int
) -> Made[tuple[str, ...]]:
    """Make the questions that an open question is taken apart into.

    Args:
        call: The call.
        session: The language model.
        wanted: The open question.
        max_count: Most questions.

    Returns:
        The questions, which may have been asked before.
    """

    async def otherwise() -> tuple[str, ...]:
        best = wanted.judgement.best
        ordered = [*wanted.found[best : best + 1], *wanted.found[:best], *wanted.found[best + 1 :]]
        texts = [item.candidate.record.text for item in ordered]
        # Tens of milliseconds of computing for long passages: not on the event loop.
        return await asyncio.to_thread(
            next_questions, wanted.question, wanted.judgement.missing, texts, max_count=max_count
        )

    def read(value: object) -> tuple[str, ...] | None:
        questions = _texts(value.get("questions"), MAX_QUESTION_CHARACTERS) if isinstance(value, dict) else None
        return questions[:max_count] if questions is not None else None

    blocks = [DataBlock("original question", wanted.asked[:_MAX_QUESTION_CHARACTERS])]
    if wanted.question != wanted.asked:
        blocks.append(question_block(wanted.question))
    if wanted.judgement.missing:
        blocks.append(DataBlock("missing", "\n".join(wanted.judgement.missing)))
    blocks.append(
        DataBlock("asked already", "\n".join(other[:MAX_QUESTION_CHARACTERS] for other in wanted.others[-_MAX_ASKED:]))
    )
    return await session.make(
        call,
        RESEARCH_QUESTIONS_V1,
        [*blocks, *_passage_blocks(wanted.found)],
        read=read,
        otherwise=otherwise,
        parameters={"max_questions": str(max_count)},
    )


def _by_rule(question: str, found: Sequence[RankedCandidate]) -> Sufficiency:
    return check_sufficiency(question, [_passage_of(item.candidate) for item in found])


def _passage_of(candidate: Candidate) -> FoundPassage:
    record = candidate.record
    return FoundPassage(_terms_of(candidate), candidate.cosine, record.title, record.text)


def _terms_of(candidate: Candidate) -> frozenset[str]:
    # A record that took the place of others was fetched, not recalled, and comes without its terms.
    return frozenset(
        candidate.content_terms.split() or analyze(f"{candidate.record.title}\n{candidate.record.text}").fine
    )


def _passage_blocks(found: Sequence[RankedCandidate]) -> list[DataBlock]:
    return [
        DataBlock(f"passage {number}", item.candidate.record.text[:_MAX_PASSAGE_CHARACTERS])
        for number, item in enumerate(found[:_MAX_PASSAGES], start=1)
    ]


def _texts(value: object, max_characters: int) -> tuple[str, ...] | None:
    """Read a list of short texts; None for anything else."""
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        return None
    flat = (" ".join(visible_text(entry).split()) for entry in value)
    return tuple(dict.fromkeys(text for text in flat if text and len(text) <= max_characters))
