"""What the stages of understanding have in common."""

from collections.abc import Iterable, Sequence
from typing import Final

from corpusmesh_core.query import QueryVariant, VariantOrigin
from corpusmesh_core.text import normalize
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult

MAX_ADDED_VARIANTS: Final = 12
"""Most texts that are searched besides the question."""
ORIGIN_ORDER: Final = (
    VariantOrigin.QUESTION,
    VariantOrigin.TRANSLATION,
    VariantOrigin.PART,
    VariantOrigin.MEMORY,
    VariantOrigin.HYPOTHETICAL,
    VariantOrigin.STEP_BACK,
)
"""Order of the variants, whichever stage was ready first: where there are too many, the last give way."""


def add_variants(
    outcome: SearchOutcome,
    texts: Iterable[str],
    origin: VariantOrigin,
    *,
    weight: float,
    is_passage: bool = False,
    by_words: bool = True,
) -> int:
    """Add texts to what is searched, unless they are searched already.

    Args:
        outcome: Gets the variants.
        texts: The texts, best first.
        origin: What made them.
        weight: Their weight against the question's.
        is_passage: Whether they look like documents.
        by_words: Whether they are searched by words.

    Returns:
        How many were added.
    """
    known = {normalize(variant.text) for variant in outcome.variants}
    added = 0
    for text in texts:
        folded = normalize(text)
        if folded in known or not text.strip() or len(outcome.variants) > MAX_ADDED_VARIANTS:
            continue
        known.add(folded)
        outcome.variants.append(QueryVariant(text, origin, weight=weight, is_passage=is_passage, by_words=by_words))
        added += 1
    return added


def sort_variants(outcome: SearchOutcome) -> None:
    """Bring the variants into one order, so that the same question is always searched in the same way.

    Args:
        outcome: The state.
    """
    outcome.variants.sort(key=lambda variant: ORIGIN_ORDER.index(variant.origin))


def told(count: int, what: str, *, by_model: bool, why_not: str = "") -> StageResult:
    """Say what a stage added.

    Args:
        count: How many texts it added.
        what: Their name in the singular.
        by_model: Whether a language model made them.
        why_not: Why no model did.

    Returns:
        RAN with the number, SKIPPED where there is none.
    """
    reasons: Sequence[str] = (why_not,) if why_not else ()
    if not count:
        return StageResult(StageState.SKIPPED, by_model, "; ".join((f"no {what} to search for", *reasons)))
    return StageResult(StageState.RAN, by_model, "; ".join((f"{count} {what}{'s' * (count > 1)}", *reasons)))
