"""What a research may cost, what of it is kept for the answer, and what has been spent."""

from dataclasses import dataclass, fields
from typing import Final

from corpusmesh_core.errors import InvalidArgumentError

_RANGES: Final = {
    "max_depth": (1, 5),
    "max_questions": (1, 64),
    "max_children": (1, 8),
    "max_concurrency": (1, 8),
    "max_calls": (1, 200),
    "max_tokens": (1_000, 1_000_000),
    "max_seconds": (2, 1_800),
}
_PROMPT_OVERHEAD_TOKENS: Final = 600
_MIN_EVIDENCE_TOKENS: Final = 100
_ANSWER_SHARE_OF_SECONDS: Final = 0.35
_QUOTATION_SHARE_OF_SECONDS: Final = 0.2
_MAX_QUOTATION_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class ResearchBudget:
    """What a research may cost; a budget that exists is valid.

    Attributes:
        max_depth: Levels of questions, the first included, 1 to 5.
        max_questions: Questions that are searched, the first included, 1 to 64.
        max_children: Questions that one question is taken apart into, 1 to 8.
        max_concurrency: Questions worked on at once, 1 to 8.
        max_calls: Calls to the language model, that of the answer included, 1 to 200.
        max_tokens: Tokens of the language model, those of the answer included, 1,000 to 1,000,000.
        max_seconds: Seconds from the first search to the end of the answer, 2 to 1,800.
    """

    max_depth: int = 3
    max_questions: int = 16
    max_children: int = 4
    max_concurrency: int = 4
    max_calls: int = 32
    max_tokens: int = 60_000
    max_seconds: int = 120

    def __post_init__(self) -> None:
        """Refuse a budget out of range.

        Raises:
            InvalidArgumentError: RESEARCH_BUDGET_INVALID with the field.
        """
        for field in fields(self):
            low, high = _RANGES[field.name]
            if not low <= getattr(self, field.name) <= high:
                raise InvalidArgumentError(
                    "RESEARCH_BUDGET_INVALID",
                    f"{field.name} must be within {low:,}..{high:,}",
                    field=f"budget.{field.name}",
                    low=low,
                    high=high,
                )


@dataclass(frozen=True, slots=True)
class BudgetShares:
    """A budget, parted between the search for evidence and the answer.

    Attributes:
        step_calls: Calls of steps.
        step_tokens: Tokens of steps.
        search_seconds: Seconds until the answer must begin.
        evidence_tokens: Tokens of evidence of the answer.
        answer_by_model: Whether the budget has room for an answer of the language model.
    """

    step_calls: int
    step_tokens: int
    search_seconds: float
    evidence_tokens: int
    answer_by_model: bool


def share_budget(
    budget: ResearchBudget, *, evidence_tokens: int, answer_tokens: int, answer_seconds: float, with_model: bool
) -> BudgetShares:
    """Keep for the answer what it needs, so that every research ends with one.

    Args:
        budget: The whole.
        evidence_tokens: Tokens of evidence that are wanted.
        answer_tokens: Longest answer of the language model.
        answer_seconds: Longest time of such an answer.
        with_model: Whether a language model is there and wanted.

    Returns:
        The shares; where the tokens do not hold both, the evidence is cut first, then the model's answer is given up.
    """
    seconds = float(budget.max_seconds)
    quotation = min(_QUOTATION_SHARE_OF_SECONDS * seconds, _MAX_QUOTATION_SECONDS)
    if not with_model:
        return BudgetShares(0, 0, seconds - quotation, evidence_tokens, answer_by_model=False)
    room = budget.max_tokens - answer_tokens - _PROMPT_OVERHEAD_TOKENS
    if room < _MIN_EVIDENCE_TOKENS:
        return BudgetShares(
            budget.max_calls, budget.max_tokens, seconds - quotation, evidence_tokens, answer_by_model=False
        )
    # At least half of the room stays for the steps, unless less evidence than that was wanted.
    evidence = max(_MIN_EVIDENCE_TOKENS, min(evidence_tokens, room // 2))
    kept_seconds = min(_ANSWER_SHARE_OF_SECONDS * seconds, answer_seconds + quotation)
    return BudgetShares(
        step_calls=budget.max_calls - 1,
        step_tokens=room - evidence,
        search_seconds=seconds - kept_seconds,
        evidence_tokens=evidence,
        answer_by_model=True,
    )


@dataclass(frozen=True, slots=True)
class ResearchCost:
    """What a research has cost.

    Attributes:
        call_count: Calls to the language model.
        token_count: Tokens of the language model.
        seconds: Seconds.
        search_count: Searches of knowledge bases.
        web_search_count: Searches of the web.
    """

    call_count: int = 0
    token_count: int = 0
    seconds: float = 0.0
    search_count: int = 0
    web_search_count: int = 0
