"""What reports say about a question: points with scores, each of one report, by a model or by key sentences.

The map and the reduce of Microsoft GraphRAG's global search, but that a point names the report that bears it, so that
what is said can be followed to the documents behind the report.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.graph_search.listed_numbers import number_of
from corpusmesh_core.graphs.extraction import sentences
from corpusmesh_core.query.understanding.words import telling_terms
from corpusmesh_core.text import analyze
from corpusmesh_core.token_estimate import estimate_tokens

MAX_POINTS: Final = 32
"""Points that are read of an answer, or made without a model."""
POINTS_OF_ONE: Final = 4
"""Key sentences of one report."""
_MAX_CHARACTERS: Final = 600
_MAX_LISTED: Final = 200
_TEXT_NAMES: Final = ("text", "point", "description", "claim")
_REPORT_NAMES: Final = ("report", "reports", "source", "id")
_MARKS: Final = re.compile(r"^(?:[#>*+\-\u2022]+|\d+[.)])\s+")
_DATA: Final = re.compile(r"\s*\[(?:data|reports?|source)[^\]]{0,80}\]", re.IGNORECASE)
_HEADING: Final = re.compile(r"^\s*#{1,6}\s")
_LIST: Final = re.compile(r"[:：]\s*$")
_NAMES: Final = re.compile(r"^\s*(?:\*\*[^*]+\*\*(?: \([^)]*\))?(?: \u00b7 )?)+\s*$")
"""A line that names entities and says nothing of them."""


@dataclass(frozen=True, slots=True)
class Point:
    """One thing that a report says about the question.

    Attributes:
        report: Place of the report among those that were read.
        text: What it says, one line.
        score: How much it helps, 0 to 1.
    """

    report: int
    text: str
    score: float


def read_points(answer: object, count: int) -> tuple[Point, ...] | None:
    """Read `{"points": [{"text": text, "score": 0-100, "report": number}]}`, tolerant of form.

    Args:
        answer: JSON value of a model's answer.
        count: Reports that were shown, numbered from 1.

    Returns:
        Points that help and name a report that was shown, at most MAX_POINTS; none at all where the model says that
        nothing helps; None if it is no such answer.
    """
    listed: object = answer
    if isinstance(answer, Mapping):
        listed = next((answer[name] for name in ("points", "key_points") if isinstance(answer.get(name), list)), None)
    if not isinstance(listed, list):
        return None
    points: dict[tuple[int, str], Point] = {}
    is_any_usable = not listed
    for item in listed[:_MAX_LISTED]:
        point = _point(item, count)
        if point is None:
            continue
        is_any_usable = True
        if point.score > 0.0:
            points.setdefault((point.report, point.text.casefold()), point)
    return tuple(points.values())[:MAX_POINTS] if is_any_usable else None


def _point(item: object, count: int) -> Point | None:
    if not isinstance(item, Mapping):
        return None
    text = next((value for name in _TEXT_NAMES if isinstance(value := item.get(name), str)), "")
    text = _DATA.sub("", " ".join(text.split()))[:_MAX_CHARACTERS].strip()
    number = next((number for name in _REPORT_NAMES if (number := number_of(item.get(name))) is not None), None)
    if not text or number is None or not 1 <= number <= count:
        return None
    return Point(number - 1, text, _score(item.get("score")))


def _score(value: object) -> float:
    if isinstance(value, str):
        try:
            value = float(value.strip().removesuffix("%"))
        except ValueError:
            return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return 0.0
    # A hundred is asked for; some models write shares. A number may be larger than any float.
    return float(value) if isinstance(value, float) and value <= 1.0 else float(min(value, 100)) / 100.0


def key_points(question: str, reports: Sequence[tuple[str, float]]) -> tuple[Point, ...]:
    """Take the sentences of reports that bear on a question, without a model.

    Args:
        question: The question.
        reports: Texts of reports and their scores, 0 to 1, best first.

    Returns:
        Of each report the sentences that hold most of the question's telling terms, in their own order; its first one
        where none holds any; at most MAX_POINTS.
    """
    terms = telling_terms(question)
    points: list[Point] = []
    for place, (text, score) in enumerate(reports):
        lines = _sentences(text)
        held = [len(terms & set(analyze(line).fine)) / max(1, len(terms)) for line in lines]
        best = sorted((number for number in range(len(lines)) if held[number] > 0.0), key=lambda n: (-held[n], n))
        chosen = sorted(best[:POINTS_OF_ONE]) or range(min(1, len(lines)))
        points += [Point(place, lines[number], score * (0.5 + 0.5 * held[number])) for number in chosen]
    return tuple(points)[:MAX_POINTS]


def _sentences(text: str) -> list[str]:
    lines = [line for line in text.split("\n") if not any(mark.search(line) for mark in (_HEADING, _LIST, _NAMES))]
    found = (
        _MARKS.sub("", sentence)[:_MAX_CHARACTERS].strip() for line in lines for sentence in sentences(line.strip())
    )
    return list(dict.fromkeys(sentence for sentence in found if sentence))


def by_report(points: Sequence[Point], *, max_tokens: int, most: int) -> tuple[tuple[int, str, float], ...]:
    """Reduce points to what each report says, the most helpful first.

    Args:
        points: Points.
        max_tokens: Most tokens of all.
        most: Most reports.

    Returns:
        Place of a report, its points as lines, and the score of its best one: reports by that score, points in the
        order of their scores, the least helpful ones left out where there are too many.
    """
    kept: dict[int, list[Point]] = {}
    left = max_tokens
    for point in sorted(points, key=lambda point: -point.score):
        cost = estimate_tokens(point.text) + 1
        if cost > left or (point.report not in kept and len(kept) >= most):
            continue
        kept.setdefault(point.report, []).append(point)
        left -= cost
    return tuple((place, "\n".join(point.text for point in own), own[0].score) for place, own in kept.items())
