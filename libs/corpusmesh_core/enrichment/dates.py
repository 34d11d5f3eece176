"""Dates as documents write them, in English and Chinese."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            "jan january",
            "feb february",
            "mar march",
            "apr april",
            "may",
            "jun june",
            "jul july",
            "aug august",
            "sep sept september",
            "oct october",
            "nov november",
            "dec december",
        ),
        start=1,
    )
    for name in names.split()
}
_DIGITS: Final = {char: str(value) for value, char in enumerate("〇一二三四五六七八九")} | {"零": "0", "○": "0"}
_TIME: Final = r"(?:[T ,]*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.\d+)?)?)?"
_ZONE: Final = r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}:?'?\d{2}'?)?"
_FORMS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?P<year>\d{4})-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2}))?" + _TIME + _ZONE,
        r"(?P<year>\d{4})[/.](?P<month>\d{1,2})[/.](?P<day>\d{1,2})" + _TIME + _ZONE,
        r"(?P<year>\d{4})\s*年\s*(?P<month>\d{1,2})\s*月(?:\s*(?P<day>\d{1,2})\s*[日号])?" + _TIME,
        r"(?:[a-z]{3,9},?\s+)?(?P<day>\d{1,2})(?:st|nd|rd|th)?[\s-]+(?P<name>[a-z]{3,9})\.?,?[\s-]+(?P<year>\d{4})"
        + _TIME
        + _ZONE,
        r"(?:[a-z]{3,9},\s+)?(?P<name>[a-z]{3,9})\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+(?P<year>\d{4})"
        + _TIME
        + _ZONE,
        r"(?P<name>[a-z]{3,9})\.?,?\s+(?P<year>\d{4})",
        # PDF: D:20200105123000+08'00'
        r"(?:D:)?(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})(?:(?P<hour>\d{2})(?P<minute>\d{2})(?P<second>\d{2})?)?"
        + _ZONE,
        # 31/12/2020 and 12/31/2020: only where one of the two numbers cannot be a month.
        r"(?P<one>\d{1,2})[/.-](?P<two>\d{1,2})[/.-](?P<year>\d{4})",
    )
)
_CHINESE_NUMBER: Final = re.compile(r"[〇○零一二三四五六七八九十]+")


def parse_date(text: str) -> datetime | None:
    """Read a date.

    Args:
        text: One date and nothing else, with or without a time of day: ISO 8601, `2020年1月5日`, `二〇二〇年一月五日`,
            "5 January 2020", "Jan 5, 2020", mail headers, dates of PDF files. A month without a day is its first day.

    Returns:
        The moment in UTC, which is assumed where no zone is given; None for anything else, for days that do not exist
        and for dates whose day and month cannot be told apart.
    """
    plain = _CHINESE_NUMBER.sub(_arabic, text.strip()) if "年" in text else text.strip()
    for form in _FORMS:
        found = form.fullmatch(plain)
        if found is not None:
            moment = _moment(found.groupdict())
            if moment is not None:
                return moment
    return None


def _moment(parts: Mapping[str, str | None]) -> datetime | None:
    try:
        year, month, day = _day(parts)
        local = datetime(
            year,
            month,
            day,
            int(parts.get("hour") or 0),
            int(parts.get("minute") or 0),
            int(parts.get("second") or 0),
            tzinfo=_zone(parts.get("zone")),
        )
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _day(parts: Mapping[str, str | None]) -> tuple[int, int, int]:
    year = int(parts["year"] or "")
    if parts.get("one"):
        one, two = int(parts["one"] or ""), int(parts["two"] or "")
        if one > 12 >= two:
            return year, two, one
        if two > 12 >= one or one == two:
            return year, one, two
        raise ValueError("day and month cannot be told apart")
    if parts.get("name"):
        name = (parts["name"] or "").lower()
        if name not in _MONTHS:
            raise ValueError("no month")
        return year, _MONTHS[name], int(parts.get("day") or 1)
    return year, int(parts["month"] or ""), int(parts.get("day") or 1)


def _zone(text: str | None) -> timezone:
    if not text or text.upper() in {"Z", "UTC", "GMT"}:
        return UTC
    digits = text[1:].replace(":", "").replace("'", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


def _arabic(match: "re.Match[str]") -> str:
    """Write a Chinese number of a date in digits: 二〇二〇 digit by digit, 三十一 by value."""
    number = match.group()
    if "十" not in number:
        return "".join(_DIGITS[char] for char in number)
    tens, _, ones = number.partition("十")
    return str(int(_DIGITS.get(tens, "1")) * 10 + int(_DIGITS.get(ones, "0")))
