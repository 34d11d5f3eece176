"""Whether a text is written with spaces between words or without."""

from collections.abc import Sequence
from enum import StrEnum

_FIRST_UNSPACED = "\u0e00"
_SAMPLE_TERMS = 64


class Script(StrEnum):
    """The two ways of writing that analysis tells apart; across them words cannot match."""

    SPACED = "spaced"
    UNSPACED = "unspaced"


def script_of(fine_terms: Sequence[str]) -> Script:
    """Say how most of a text is written.

    Args:
        fine_terms: Fine terms of the text; the first 64 decide.

    Returns:
        UNSPACED if more than half of the terms are of a script without spaces, else SPACED.
    """
    sample = fine_terms[:_SAMPLE_TERMS]
    unspaced_count = sum(term[0] >= _FIRST_UNSPACED for term in sample)
    return Script.UNSPACED if 2 * unspaced_count > len(sample) else Script.SPACED
