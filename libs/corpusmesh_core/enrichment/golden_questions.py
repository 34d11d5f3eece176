"""Draws questions with known answers from passages, spread over documents, without a model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from corpusmesh_core.documents import Chunk
from corpusmesh_core.enrichment.questions import rule_questions
from corpusmesh_core.enrichment.statements import statements_of
from corpusmesh_core.evaluation.judging import plain_text

_Item = TypeVar("_Item")
MIN_QUOTE_CHARACTERS: Final = 12
MAX_QUOTE_CHARACTERS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage that a question may be drawn from.

    Attributes:
        record_id: Its record.
        document_id: Its document.
        ordinal: Its version.
        text: Its text.
        heading_path: Headings above it, outermost first.
        page: First page from 1; 0 where the format has none.
    """

    record_id: str
    document_id: str
    ordinal: int
    text: str
    heading_path: tuple[str, ...] = ()
    page: int = 0


@dataclass(frozen=True, slots=True)
class DrawnQuestion:
    """A question and the place that answers it.

    Attributes:
        question: The question.
        quote: The words of the passage that answer it.
        passage: The passage.
    """

    question: str
    quote: str
    passage: Passage


def spread_passages(passages: Sequence[Passage], *, rng: np.random.Generator) -> list[Passage]:
    """Put passages into an order that takes one of each document before a second one of any.

    Args:
        passages: The passages, in any order.
        rng: The dice: which document comes first, and which passage of it.

    Returns:
        All passages.
    """
    by_document: dict[str, list[Passage]] = {}
    for passage in sorted(passages, key=lambda item: (item.document_id, item.record_id)):
        by_document.setdefault(passage.document_id, []).append(passage)
    groups = [_shuffled(group, rng) for group in _shuffled(list(by_document.values()), rng)]
    longest = max(map(len, groups), default=0)
    return [group[place] for place in range(longest) for group in groups if place < len(group)]


def question_by_rule(passage: Passage) -> DrawnQuestion | None:
    """Make a question of a sentence of a passage that says something in a plain form.

    Args:
        passage: The passage.

    Returns:
        The question of its first such sentence, which is the quote; None where it has none.
    """
    for sentence in statements_of(passage.text, passage.heading_path):
        if not MIN_QUOTE_CHARACTERS <= len(sentence) <= MAX_QUOTE_CHARACTERS:
            continue
        piece = Chunk(position=0, text=sentence, heading_path=(), page=0, boxes=(), token_count=0)
        (questions,) = rule_questions([piece], count=1)
        if questions and plain_text(sentence) in plain_text(passage.text):
            return DrawnQuestion(questions[0], sentence, passage)
    return None


def read_question(passage: Passage, answer: object) -> DrawnQuestion | None:
    """Read a model's question strictly.

    Args:
        passage: What the model was given.
        answer: The JSON value of its answer.

    Returns:
        The question; None if it is no question, or its quote does not stand in the passage.
    """
    if not isinstance(answer, dict):
        return None
    question, quote = answer.get("question"), answer.get("quote")
    if not isinstance(question, str) or not isinstance(quote, str):
        return None
    question, quote = " ".join(question.split()), quote.strip()
    if not 8 <= len(question) <= 300 or not MIN_QUOTE_CHARACTERS <= len(quote) <= MAX_QUOTE_CHARACTERS:
        return None
    if plain_text(quote) not in plain_text(passage.text) or plain_text(question) in plain_text(passage.text):
        return None
    return DrawnQuestion(question, quote, passage)


def distinct_questions(questions: Sequence[DrawnQuestion]) -> Iterator[DrawnQuestion]:
    """Leave out questions that two passages answer: nobody could say which of them should be found.

    Args:
        questions: The questions.

    Yields:
        Those that are asked once, in their order.
    """
    asked: dict[str, int] = {}
    for entry in questions:
        key = plain_text(entry.question)
        asked[key] = asked.get(key, 0) + 1
    for entry in questions:
        if asked[plain_text(entry.question)] == 1:
            yield entry


def _shuffled(items: list[_Item], rng: np.random.Generator) -> list[_Item]:
    return [items[place] for place in rng.permutation(len(items))]
