"""Whether a text is written with spaces between words or without."""

from collections.abc import Sequence
from enum import StrEnum

_FIRST_UNSPACED = "\u0e00"
_CLEAR_SHARE = 0.7


class Script(StrEnum):
    """The ways of writing that analysis tells apart; between SPACED and UNSPACED words cannot match."""

    SPACED = "spaced"
    UNSPACED = "unspaced"
    MIXED = "mixed"


def script_of(fine_terms: Sequence[str]) -> Script:
    """Say how a text is written.

    Args:
        fine_terms: Fine terms of the text.

    Returns:
        UNSPACED or SPACED if more than 70 % of the terms are so, else MIXED; SPACED for a text without terms.
    """
    if not fine_terms:
        return Script.SPACED
    share = sum(term[0] >= _FIRST_UNSPACED for term in fine_terms) / len(fine_terms)
    if share > _CLEAR_SHARE:
        return Script.UNSPACED
    return Script.SPACED if share < 1.0 - _CLEAR_SHARE else Script.MIXED
