"""What a build may cost, as plans of trees and of graphs tell it alike."""

from typing import Any, Protocol


class PlannedBudget(Protocol):
    """A plan's answer, of either contract."""

    max_model_calls: int
    max_model_tokens: int
    tenant_tokens_left: int


def budget_shape(found: PlannedBudget) -> dict[str, Any]:
    """Describe a budget.

    Args:
        found: The answer.

    Returns:
        Its shape; what has no bound is null.
    """
    return {
        "max_model_calls": found.max_model_calls or None,
        "max_model_tokens": found.max_model_tokens or None,
        "tenant_tokens_left": found.tenant_tokens_left if found.tenant_tokens_left >= 0 else None,
    }


def budget_rows(found: PlannedBudget) -> list[tuple[str, str]]:
    """Write a budget as rows of a table.

    Args:
        found: The answer.

    Returns:
        Rows; none for what has no bound.
    """
    rows: list[tuple[str, str]] = []
    if found.max_model_calls or found.max_model_tokens:
        rows.append(("Budget", f"{found.max_model_calls:,} calls, {found.max_model_tokens:,} tokens (0: no bound)"))
    if found.tenant_tokens_left >= 0:
        rows.append(("Tokens left today", f"{found.tenant_tokens_left:,}"))
    return rows
