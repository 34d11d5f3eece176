"""How much a term tells apart the pieces of one request's evidence."""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from corpusmesh_core.text import AnalyzedText, analyze, is_stop_word

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def telling_terms(text: str) -> frozenset[str]:
    """Name the terms of a text that say something.

    Args:
        text: Any text.

    Returns:
        Stems and character pairs without function words.
    """
    return telling_terms_of(analyze(text))


def telling_terms_of(analyzed: AnalyzedText) -> frozenset[str]:
    """Name the terms of an analysed text that say something.

    Args:
        analyzed: The text.

    Returns:
        As `telling_terms`.
    """
    function_stems = {stem for word in set(analyzed.coarse) if is_stop_word(word) for stem in _stems(word)}
    return frozenset(term for term in analyzed.fine if not is_stop_word(term) and term not in function_stems)


@lru_cache(maxsize=1024)
def _stems(word: str) -> tuple[str, ...]:
    """Stem a function word, whose stem can differ from its form ("because" → "becaus")."""
    return analyze(word).fine


def term_weights(passages: Sequence[Collection[str]]) -> Mapping[str, float]:
    """Weigh terms by how few of the passages have them.

    Args:
        passages: Distinct terms of each passage.

    Returns:
        Inverse document frequency by term, above 0 (BM25's form); a term of no passage is not in it.
    """
    counts = Counter(term for passage in passages for term in set(passage))
    total = len(passages)
    return {term: math.log(1 + (total - count + 0.5) / (count + 0.5)) for term, count in counts.items()}


def coverage(wanted: Iterable[str], present: Collection[str], weights: Mapping[str, float], absent: float) -> float:
    """Say how much of what is wanted is present.

    Args:
        wanted: Distinct terms looked for.
        present: Terms of the passage.
        weights: Weight by term.
        absent: Weight of a term that `weights` does not know.

    Returns:
        Weighted share, 0 to 1; 0 where nothing is wanted.
    """
    whole = found = 0.0
    for term in wanted:
        weight = weights.get(term, absent)
        whole += weight
        if term in present:
            found += weight
    return found / whole if whole else 0.0


def numbers_of(text: str) -> frozenset[str]:
    """Name the numbers in a text, thousands separators left out.

    Args:
        text: Any text.

    Returns:
        Their digits.
    """
    return frozenset(number.replace(",", "") for number in _NUMBER.findall(text))
