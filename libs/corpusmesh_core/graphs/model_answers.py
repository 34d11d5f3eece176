"""What of a language model's answers about pairs and communities is believed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.citation.answer_filter import filter_answer
from corpusmesh_core.enrichment.answers import read_json_answer
from corpusmesh_core.graphs.parsing import without_thoughts
from corpusmesh_core.graphs.read_values import clean_text
from corpusmesh_core.trees.faithfulness import unsupported

MAX_PAIRS: Final = 50
"""Pairs of one question (goal G5 of the performance study)."""
MAX_FINDINGS: Final = 8
_MAX_TITLE_CHARACTERS: Final = 160
_MAX_SUMMARY_CHARACTERS: Final = 2400
_MAX_FINDING_CHARACTERS: Final = 1200
_MAX_RATING: Final = 10.0
_ANSWER_CHARACTERS: Final = 100_000


@dataclass(frozen=True, slots=True)
class ReadReport:
    """A report as a model wrote it.

    Attributes:
        title: Title.
        text: Markdown without the title.
        rating: How much it weighs, 0 to 1.
    """

    title: str
    text: str
    rating: float


def read_confirmations(answer: str, count: int) -> list[bool | None] | None:
    """Read the answer to `GRAPH_CONFIRM_V1`.

    Args:
        answer: All that a model said.
        count: Pairs that it was asked about.

    Returns:
        For each pair whether it is one thing, None where the model leaves it open or says both; None for another form.
    """
    value = read_json_answer(without_thoughts(answer[:_ANSWER_CHARACTERS]))
    if not isinstance(value, Mapping) or not any(isinstance(value.get(key), list) for key in ("same", "different")):
        return None
    same, different = _numbers(value.get("same")), _numbers(value.get("different"))
    return [None if (number in same) == (number in different) else number in same for number in range(1, count + 1)]


def read_report(answer: str, known: Sequence[str]) -> tuple[ReadReport | None, str]:
    """Read the answer to `GRAPH_REPORT_V1`.

    Args:
        answer: All that a model said.
        known: What the report may say: all that stood in the question.

    Returns:
        The report without findings that state names or numbers which are not known, and ""; or None and why: "unusable"
        for another form, "unfaithful" where title or summary state what is not known.
    """
    value = read_json_answer(without_thoughts(answer[:_ANSWER_CHARACTERS]))
    if not isinstance(value, Mapping):
        return None, "unusable"
    title = _said(value.get("title"), _MAX_TITLE_CHARACTERS).strip("# ")
    summary = _said(value.get("summary"), _MAX_SUMMARY_CHARACTERS)
    if not title or not summary:
        return None, "unusable"
    if next(unsupported(f"{title}\n{summary}", known), None) is not None:
        return None, "unfaithful"
    parts = [summary]
    findings = value.get("findings")
    for finding in findings[:MAX_FINDINGS] if isinstance(findings, list) else ():
        heading, explanation = _finding(finding)
        if heading and next(unsupported(f"{heading}\n{explanation}", known), None) is None:
            parts.append(f"- **{heading}** {explanation}".rstrip())
    return ReadReport(title, "\n\n".join(parts), _rating(value.get("rating"))), ""


def _finding(value: object) -> tuple[str, str]:
    if isinstance(value, str):
        return _said(value, _MAX_FINDING_CHARACTERS), ""
    if not isinstance(value, Mapping):
        return "", ""
    heading = _said(value.get("summary"), _MAX_FINDING_CHARACTERS)
    return heading.replace("*", ""), _said(value.get("explanation"), _MAX_FINDING_CHARACTERS)


def _said(value: object, limit: int) -> str:
    """One line, without addresses that a document may have told the model to write (EchoLeak) and without markers."""
    if not isinstance(value, str):
        return ""
    return clean_text(filter_answer(clean_text(value, limit), ())[0], limit)


def _numbers(value: object) -> frozenset[int]:
    if not isinstance(value, list):
        return frozenset()
    found: set[int] = set()
    for item in value:
        if isinstance(item, str) and item.strip().isdecimal() and len(item) <= len("1000000"):
            found.add(int(item))
        elif isinstance(item, int) and not isinstance(item, bool):
            found.add(item)
    return frozenset(found)


def _rating(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0.5
    return min(max(float(value), 0.0), _MAX_RATING) / _MAX_RATING
