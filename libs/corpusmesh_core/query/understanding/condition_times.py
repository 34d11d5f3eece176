"""Times that a question names, as half-open periods in UTC: "after March 2024", "in 2023", "2019年到2021年"."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from corpusmesh_core.enrichment.dates import parse_date

_MONTHS: Final = "january|february|march|april|may|june|july|august|september|october|november|december"
_SHORT: Final = "jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
_MONTH: Final = rf"(?:{_MONTHS}|(?:{_SHORT})\.?)"
_POINT: Final = (
    rf"(?:\d{{4}}-\d{{1,2}}-\d{{1,2}}|\d{{4}}/\d{{1,2}}/\d{{1,2}}|\d{{1,2}}(?:st|nd|rd|th)?\s+{_MONTH},?\s+\d{{4}}"
    rf"|{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?,?\s+\d{{4}}|{_MONTH},?\s+\d{{4}}|\d{{4}}-\d{{1,2}}(?![\d-])|(?:q[1-4]\s+(?:of\s+)?)?\d{{4}}(?![\d/-]))"
)
_POINT_ZH: Final = (
    r"(?:\d{4}年(?:第?[一二三四1-4]季度|\d{1,2}月(?:\d{1,2}[日号])?)?(?:底|末|初)?|\d{4}-\d{1,2}-\d{1,2}|\d{4}(?!\d))"
)
_AGO: Final = r"(?:last|this|the previous|the current)\s+(?:year|month)|去年|今年|前年|上个月|上月|本月|这个月"
_BETWEEN: Final = re.compile(
    rf"\b(?:between|from)\s+(?P<first>{_POINT})\s+(?:and|to|until|till|through|-|–)\s+(?P<last>{_POINT})"
    rf"|(?P<first_zh>{_POINT_ZH})(?:到|至|—|-|~|～)(?P<last_zh>{_POINT_ZH})(?:之间|期间)?",
    re.IGNORECASE,
)
_BOUND: Final = re.compile(
    rf"\b(?P<how>no later than|not later than|up to|after|later than|since|starting(?: in| from)?|from|before|prior to|"
    rf"earlier than|until|till|by|in|during|of|on|dated)\s+(?:the\s+)?(?:year\s+|end\s+of\s+)?(?P<point>{_POINT})"
    rf"(?P<onwards>\s+(?:onwards?|on|or later|and later))?"
    rf"|(?:自|从|(?P<until_zh>截至|截止到?|直到))?(?P<point_zh>{_POINT_ZH})(?P<how_zh>及?(?:之后|以后|后)|(?:以来|起|开始)|(?:之前|以前|前)|(?:为止|止)|(?:的|间|内|中)?)",
    re.IGNORECASE,
)
_RELATIVE: Final = re.compile(rf"\b(?:{_AGO})\b|去年|今年|前年|上个?月|本月|这个月", re.IGNORECASE)
_AFTER: Final = frozenset(("after", "later than", "之后", "以后", "后"))
_SINCE: Final = frozenset(
    ("since", "starting", "starting in", "starting from", "from", "以来", "起", "开始", "及之后", "及以后")
)
_BEFORE: Final = frozenset(("before", "prior to", "earlier than", "之前", "以前", "前"))
_UNTIL: Final = frozenset(
    ("until", "till", "by", "up to", "no later than", "not later than", "为止", "止", "及之前", "及以前")
)
_QUARTERS: Final = {"一": 1, "二": 2, "三": 3, "四": 4, "1": 1, "2": 2, "3": 3, "4": 4}


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A range of time that a question names.

    Attributes:
        start: First moment, UTC; None for no bound.
        end: First moment behind it, UTC; None for no bound.
        place: Where it is named in the text.
    """

    start: datetime | None
    end: datetime | None
    place: int

    @property
    def is_open(self) -> bool:
        """Whether one side has no bound."""
        return self.start is None or self.end is None


def time_ranges(text: str, *, today: datetime) -> tuple[TimeRange, ...]:
    """Read the times that a question names.

    Args:
        text: The question.
        today: What "last year" is reckoned from.

    Returns:
        The ranges in the order of the text; a number without a word before it that makes it a time is none.
    """
    found: list[TimeRange] = []
    taken: list[tuple[int, int]] = []
    for match in _BETWEEN.finditer(text):
        first = period_of(match["first"] or match["first_zh"])
        last = period_of(match["last"] or match["last_zh"])
        if first is not None and last is not None and first[0] < last[1]:
            found.append(TimeRange(first[0], last[1], match.start()))
            taken.append(match.span())
    for match in _BOUND.finditer(text):
        if any(start < match.end() and match.start() < end for start, end in taken):
            continue
        point = match["point"] or match["point_zh"]
        how = "until" if match["until_zh"] else (match["how"] or match["how_zh"] or "").lower()
        if how in _BEFORE and point.endswith("底"):
            how = "until"
        period = period_of(point)
        # A bare "2023" in a Chinese sentence is a number like any other.
        if period is None or (match["point_zh"] and re.fullmatch(r"\d{4}", point)):
            continue
        found.append(_range(period, "since" if match["onwards"] else how, match.start()))
    found.extend(
        TimeRange(*_relative(match.group().lower(), today), match.start()) for match in _RELATIVE.finditer(text)
    )
    return tuple(sorted(found, key=lambda entry: entry.place))


def period_of(text: str) -> tuple[datetime, datetime] | None:
    """Read a year, quarter, month or day as a half-open period.

    Args:
        text: Such as "2023", "March 2024", "2024年3月", "2023年第二季度", "5 Jan 2020".

    Returns:
        Start and end in UTC; None for anything else, and for years that no document has.
    """
    plain = re.sub(r"[底末初]$", "", " ".join(text.split()))
    plain = re.sub(r"(?<=[a-z])\.", "", plain, flags=re.IGNORECASE)
    quarter = re.fullmatch(r"(?:q([1-4])\s+(?:of\s+)?(\d{4})|(\d{4})年第?([一二三四1-4])季度)", plain, re.IGNORECASE)
    if quarter is not None:
        year, number = int(quarter[2] or quarter[3]), _QUARTERS[quarter[1] or quarter[4]]
        return _months(year, 3 * number - 2, 3)
    year_alone = re.fullmatch(r"(\d{4})年?", plain)
    if year_alone is not None:
        return _months(int(year_alone[1]), 1, 12)
    moment = parse_date(plain)
    if moment is None or not 1000 <= moment.year < 2200:
        return None
    has_day = re.search(
        rf"[日号]|\d{{4}}-\d{{1,2}}-|/|\d{{1,2}}(?:st|nd|rd|th)?,?\s+{_MONTH}|{_MONTH}\s+\d{{1,2}}(?!\d)",
        plain,
        re.IGNORECASE,
    )
    return (moment, moment + timedelta(days=1)) if has_day else _months(moment.year, moment.month, 1)


def _range(period: tuple[datetime, datetime], how: str, place: int) -> TimeRange:
    start, end = period
    if how in _AFTER:
        return TimeRange(end, None, place)
    if how in _SINCE:
        return TimeRange(start, None, place)
    if how in _BEFORE:
        return TimeRange(None, start, place)
    if how in _UNTIL:
        return TimeRange(None, end, place)
    return TimeRange(start, end, place)


def _months(year: int, month: int, count: int) -> tuple[datetime, datetime] | None:
    if not 1000 <= year < 2200:
        return None
    start = datetime(year, month, 1, tzinfo=UTC)
    last = month - 1 + count
    return start, datetime(year + last // 12, last % 12 + 1, 1, tzinfo=UTC)


def _relative(name: str, today: datetime) -> tuple[datetime, datetime]:
    is_past = any(part in name for part in ("last", "previous", "去年", "上"))
    if "month" in name or "月" in name:
        month = today.year * 12 + today.month - 1 - is_past
        period = _months(month // 12, month % 12 + 1, 1)
    else:
        period = _months(today.year - (2 if "前年" in name else is_past), 1, 12)
    assert period is not None
    return period
