"""Numbers that stand for evidence in one request, and nowhere else.

A document can contain "[ID:3]", by accident or to make an answer cite what it does not stand on. So the numbers are
drawn per request, never one that occurs in the text itself, and what looks like a marker inside a document is defused
(threat "citation spoofing").
"""

import re
import unicodedata
from collections.abc import Iterable

import numpy as np

from corpusmesh_core.errors import InvalidArgumentError

MAX_LABEL_COUNT = 1000
_FIRST_LABEL, _LABEL_COUNT = 1000, 9000
_WIDE_FIRST_LABEL, _WIDE_LABEL_COUNT = 100_000, 900_000
_DIGITS = re.compile(r"\d{4,6}")
_LONG_DIGITS = re.compile(r"\d{7,}")
_MARKER_LIKE = re.compile(r"(?P<word>\bIDs?)\s{0,8}[:：﹕︰]\s{0,8}(?=#?\d)", re.IGNORECASE)


def draw_labels(count: int, *, rng: np.random.Generator, texts: Iterable[str] = ()) -> tuple[int, ...]:
    """Draw the numbers that this request's evidence is called by.

    Args:
        count: How many, at most MAX_LABEL_COUNT.
        rng: The dice; seeded from the system's randomness in production.
        texts: Everything that the model will read: a number in it is never drawn, so repeating it cites nothing.

    Returns:
        Distinct numbers of four digits, or of six where the texts leave too few of four.

    Raises:
        InvalidArgumentError: If more labels are wanted than can be told apart.
    """
    if not 0 <= count <= MAX_LABEL_COUNT:
        raise InvalidArgumentError(
            "TOO_MUCH_EVIDENCE", f"an answer takes at most {MAX_LABEL_COUNT} pieces of evidence", limit=MAX_LABEL_COUNT
        )
    taken: set[int] = set()
    for text in texts:
        plain = _without_format_characters(text)
        taken.update(int(digits) for digits in _DIGITS.findall(plain))
        for run in _LONG_DIGITS.findall(plain):
            taken.update(int(run[start : start + 4]) for start in range(len(run) - 3))
    for first, size in ((_FIRST_LABEL, _LABEL_COUNT), (_WIDE_FIRST_LABEL, _WIDE_LABEL_COUNT)):
        free = np.setdiff1d(np.arange(first, first + size), np.fromiter(taken, dtype=np.int64, count=len(taken)))
        if len(free) >= max(count, size // 10):
            return tuple(int(label) for label in rng.choice(free, size=count, replace=False))
    raise InvalidArgumentError("TOO_MUCH_EVIDENCE", "the evidence holds too many numbers to tell its markers apart")


def defuse_markers(text: str) -> str:
    """Break what looks like a citation marker inside document text; everything else stays as it is.

    Args:
        text: Document text, a file name or a heading.

    Returns:
        The text with "ID:3" as "ID no. 3" in every spelling that a citation filter would accept.
    """
    return _MARKER_LIKE.sub(lambda match: f"{match['word']} no. ", text)


def _without_format_characters(text: str) -> str:
    if text.isascii():
        return text
    folded = unicodedata.normalize("NFKC", text)
    return "".join(character for character in folded if unicodedata.category(character) != "Cf")
