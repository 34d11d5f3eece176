"""Measures of answers: their citations, their abstentions, and what they say."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.evaluation.judging import FoundText, GoldItem, holds, plain_text


@dataclass(frozen=True, slots=True)
class AnswerOutcome:
    """What was answered to one question.

    Attributes:
        text: The answer.
        cited: What it cites.
        abstained: Whether it says that the evidence does not carry an answer.
        gold: What should be cited; none for a question without an answer.
        expected: Texts of which a good answer holds one; none where that is not asked.
    """

    text: str
    cited: tuple[FoundText, ...]
    abstained: bool
    gold: tuple[GoldItem, ...]
    expected: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerQuality:
    """Means, each 0 to 1.

    Attributes:
        citation_precision: Share of citations that are gold, over questions with gold that got an answer; an answer
            without a citation counts 0. 0 where no such question got one.
        citation_recall: Share of the gold that is cited, over questions with gold.
        abstention_accuracy: Share of questions where the answer abstained exactly if there is no gold.
        answer_accuracy: Share of answers that hold an expected text, over questions that name one; None without any.
        abstained_count: Answers that abstained.
    """

    citation_precision: float
    citation_recall: float
    abstention_accuracy: float
    answer_accuracy: float | None
    abstained_count: int


def summarise_answers(outcomes: Sequence[AnswerOutcome]) -> AnswerQuality:
    """Average the measures over questions.

    Args:
        outcomes: One entry per question, at least one.

    Returns:
        The means.

    Raises:
        InvalidArgumentError: EVALUATION_EMPTY if there is no question.
    """
    if not outcomes:
        raise InvalidArgumentError("EVALUATION_EMPTY", "there is no question to evaluate")
    answerable = [outcome for outcome in outcomes if outcome.gold]
    naming = [outcome for outcome in outcomes if outcome.expected]
    return AnswerQuality(
        citation_precision=_mean([_precision(outcome) for outcome in answerable if not outcome.abstained]),
        citation_recall=_mean([_recall(outcome) for outcome in answerable]),
        abstention_accuracy=_mean([float(outcome.abstained is not bool(outcome.gold)) for outcome in outcomes]),
        answer_accuracy=_mean([float(_is_right(outcome)) for outcome in naming]) if naming else None,
        abstained_count=sum(outcome.abstained for outcome in outcomes),
    )


def _precision(outcome: AnswerOutcome) -> float:
    return _mean([float(any(holds(cited, item) for item in outcome.gold)) for cited in outcome.cited])


def _recall(outcome: AnswerOutcome) -> float:
    return _mean([float(any(holds(cited, item) for cited in outcome.cited)) for item in outcome.gold])


def _is_right(outcome: AnswerOutcome) -> bool:
    text = plain_text(outcome.text)
    return not outcome.abstained and any(plain_text(expected) in text for expected in outcome.expected)


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
