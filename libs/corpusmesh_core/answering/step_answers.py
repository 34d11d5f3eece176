"""What the model's answers to the steps of checking must look like; whatever does not is no answer (invariant 9)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

_MAX_MISSING = 3
_MAX_TEXT_CHARACTERS = 300
_MAX_STATEMENTS = 64


@dataclass(frozen=True, slots=True)
class Sufficiency:
    """Whether evidence is enough.

    Attributes:
        is_sufficient: Whether it is.
        confidence: How sure that is, 0 to 1; without a model, how well the evidence carries an answer.
        missing: What is missing, each as a search query; at most three.
    """

    is_sufficient: bool
    confidence: float
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check says of an answer.

    Attributes:
        supports: How well the evidence bears each statement out, 0 to 1, in the order of the statements.
        useful: How well the answer answers the question, 0 to 1.
    """

    supports: tuple[float, ...]
    useful: float


def read_sufficiency(value: object) -> Sufficiency | None:
    """Read the answer to `SUFFICIENCY_V1`.

    Args:
        value: Its JSON value.

    Returns:
        The check; None for another form.
    """
    if not isinstance(value, dict) or not isinstance(value.get("is_sufficient"), bool):
        return None
    confidence = _share(value.get("confidence"))
    missing = _texts(value.get("missing"), _MAX_MISSING)
    if confidence is None or missing is None:
        return None
    is_sufficient = bool(value["is_sufficient"])
    return Sufficiency(is_sufficient, confidence, () if is_sufficient else missing)


def read_grades(value: object, count: int) -> tuple[float, ...] | None:
    """Read the answer to `GRADE_V1`.

    Args:
        value: Its JSON value.
        count: Passages that were graded.

    Returns:
        Grades in the order of the passages, 0 to 1; None where one is missing, or the form is another.
    """
    if not isinstance(value, dict):
        return None
    return _numbered(value.get("grades"), "grade", count)


def read_queries(value: object, count: int) -> tuple[str, ...] | None:
    """Read the answer to `REWRITE_V1`.

    Args:
        value: Its JSON value.
        count: Most queries.

    Returns:
        One query or more; None for another form.
    """
    if not isinstance(value, dict):
        return None
    return _texts(value.get("queries"), count) or None


def read_need(value: object) -> bool | None:
    """Read the answer to `REFLECT_V1`.

    Args:
        value: Its JSON value.

    Returns:
        Whether documents are needed; None for another form.
    """
    needed = value.get("needs_documents") if isinstance(value, dict) else None
    return needed if isinstance(needed, bool) else None


def read_verdict(value: object, count: int) -> Verdict | None:
    """Read the answer to `VERIFY_V1`.

    Args:
        value: Its JSON value.
        count: Statements that were checked.

    Returns:
        The verdict; None where a statement is missing, or the form is another.
    """
    if not isinstance(value, dict):
        return None
    useful = _share(value.get("useful"))
    supports = _numbered(value.get("statements"), "support", count)
    return None if useful is None or supports is None else Verdict(supports, useful)


def _numbered(entries: object, key: str, count: int) -> tuple[float, ...] | None:
    if not isinstance(entries, list) or len(entries) > _MAX_STATEMENTS + count:
        return None
    found: dict[int, float] = {}
    for entry in entries:
        if not isinstance(entry, Mapping):
            return None
        number, share = entry.get("n"), _share(entry.get(key))
        if not isinstance(number, int) or isinstance(number, bool) or share is None:
            return None
        found.setdefault(number, share)
    if any(number not in found for number in range(1, count + 1)):
        return None
    return tuple(found[number] for number in range(1, count + 1))


def _share(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value) if 0.0 <= value <= 1.0 else None


def _texts(value: object, count: int) -> tuple[str, ...] | None:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        return None
    texts = (" ".join(entry.split())[:_MAX_TEXT_CHARACTERS].strip() for entry in value)
    return tuple(dict.fromkeys(text for text in texts if text))[:count]
