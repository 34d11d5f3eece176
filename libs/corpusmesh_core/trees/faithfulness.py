"""What a summary says that its children do not: names and numbers that occur in none of them.

It reads facts where they can be read without a model: numbers with their units and dates, capitalised words of English,
words with capitals or figures inside in any language, and what stands in quotation marks. A claim in plain words is not
checked, nor a Chinese name without marks around it. Nothing is tolerated: an extract is at hand that is right.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import chain
from typing import Final

from corpusmesh_core.citation.facts import holds_name, stated_names
from corpusmesh_core.citation.sentences import split_sentences
from corpusmesh_core.text import is_stop_word
from corpusmesh_core.trees.numerals import chinese_value, english_value

_MONTHS: Final = ("january february march april may june july august september october november december").split()  # noqa: SIM905 - a list of words reads better than a list of quoted words
_MONTH: Final = "month"
_UNITS: Final[Mapping[str, str]] = {
    spelling: unit
    for unit, spellings in {
        "%": "% percent 个百分点",
        "kilometre": "km kilometre kilometres kilometer kilometers 公里 千米",
        "metre": "m metre metres meter meters 米",
        "mile": "mile miles 英里",
        "kilogram": "kg kilogram kilograms 公斤 千克",
        "gram": "g gram grams 克",
        "tonne": "t ton tons tonne tonnes 吨",
        "dollar": "dollar dollars usd 美元",
        "euro": "euro euros eur 欧元",
        "yuan": "yuan rmb cny 元 人民币",
        "hour": "hour hours h 小时",
        "minute": "minute minutes min 分钟",
        _MONTH: "月",
    }.items()
    for spelling in spellings.split()
}
_SCALES: Final[Mapping[str, int]] = {
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "k": 10**3,
    "bn": 10**9,
    "千": 10**3,
    "万": 10**4,
    "萬": 10**4,
    "百万": 10**6,
    "亿": 10**8,
    "億": 10**8,
    "万亿": 10**12,
}
_NUMERAL: Final = (
    r"(?P<digits>\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"|(?P<chinese>[零〇一二三四五六七八九十百千万萬亿億两兩]+)"
    r"|(?P<english>\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|"
    r"seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred)\b"
    r"(?:[- ](?:and )?(?:one|two|three|four|five|six|seven|eight|nine|hundred)\b)*)"
)
_NUMBER: Final = re.compile(
    rf"(?P<sign>[$€¥£]|百分之)?\s?(?:{_NUMERAL})"
    r"(?:[- ]?(?P<scale>thousand|million|billion|trillion|bn|k|万亿|百万|万|萬|亿|億|千)(?![a-z]))?"
    r"(?:[- ]?(?P<unit>%|per ?cent|[a-z]{1,10}(?![a-z])|"
    r"个百分点|公里|千米|英里|米|公斤|千克|克|吨|美元|欧元|人民币|元|小时|分钟|月))?",
    re.IGNORECASE,
)
_SIGNS: Final[Mapping[str, str]] = {"$": "dollar", "€": "euro", "¥": "yuan", "百分之": "%"}
_MONTH_NAME: Final = re.compile(
    r"(?P<before>\b\d{1,4}(?:st|nd|rd|th)?,? (?:of )?)?\b(?P<name>" + "|".join(_MONTHS) + r")\b(?P<after>,? \d)?",
    re.IGNORECASE,
)
_SHORT_MONTH: Final = re.compile(r"\b(jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.? \d", re.IGNORECASE)
_DATE: Final = re.compile(r"\b\d{4}[-/.](\d{1,2})[-/.]\d{1,2}\b")
_DECADE: Final = re.compile(r"\b(\d{3}0)['’]?s\b|(\d{3}0)年代")
_CENTURY: Final = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)[- ]century|(\d{1,2})世纪", re.IGNORECASE)
_CODE: Final = re.compile(
    r"(?<![A-Za-z\d])(?:[A-Z]{2,}s?(?:[-/]?\d+[A-Za-z]?)*|(?=[A-Za-z\d-]*\d)[A-Za-z]+[-/]?\d[A-Za-z\d-]*)(?![A-Za-z])"
)
_QUOTED: Final = re.compile(
    r"《([^《》\n]{1,60})》|「([^「」\n]{1,60})」|『([^『』\n]{1,60})』|“([^“”\n]{1,60})”|\"([^\"\n]{1,60})\""
)
_LATIN_NAME: Final = re.compile(r"(?<![A-Za-z])[A-Z][A-Za-z'’-]+")
_FIRST_NAME: Final = re.compile(r"\W*([A-Z][\w'’-]+) (?=[A-Z][\w'’-]+)")
_TITLE: Final = re.compile(r"\b(Dr|Mr|Mrs|Ms|Prof|St|Gen|Sen|Rev)\.")
_IDEOGRAPH: Final = re.compile(r"[\u3400-\u9fff]")
_WORD: Final = re.compile(r"[A-Za-z]+")
_MIN_FUNCTION_SHARE: Final = 0.12
_NOT_WORD: Final = re.compile(r"[\W_]+")
_OF_A_PLACE: Final = re.compile(r"(?:i?ans?|i?ns|ish|ese|ic|ist|ists|s)$")
_MIN_STEM: Final = 4
_SHORT_CODES: Final = tuple(
    re.compile(rf"(?<![A-Za-z])(?=([A-Za-z][A-Za-z\d/-]{{{more}}})s?(?![A-Za-z]))") for more in range(_MIN_STEM - 1)
)
_YEARS: Final = range(1000, 2200)


@dataclass(frozen=True, slots=True)
class _Number:
    """A number that a text states.

    Attributes:
        value: Its value, in one spelling.
        unit: Its unit in one spelling; "" for none that is known.
        text: As it stands there.
        is_counted: Whether it is only a word for a small number, which a summary may have counted itself.
    """

    value: str
    unit: str
    text: str
    is_counted: bool = False


def unsupported(summary: str, children: Sequence[str]) -> Iterator[str]:
    """Name what a summary states and none of its children does; looks no further than is asked.

    Args:
        summary: The summary.
        children: What it was made of, headings and titles included.

    Yields:
        Numbers and names as the summary spells them, distinct; none for a faithful summary.
    """
    source, said = _plain("\n".join(children)), _plain(summary)
    known: set[str] = set()
    for found in chain(_unheld_numbers(said, source), _unheld_names(said, source)):
        if found not in known:
            known.add(found)
            yield found


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("per cent", "percent")


def _unheld_numbers(summary: str, source: str) -> Iterator[str]:
    held: defaultdict[str, set[str]] = defaultdict(set)
    for number in _numbers(source):
        held[number.value].add(number.unit)
    years = {int(value) for value in held if value.isdigit() and len(value) == len("1999")} & set(_YEARS)
    implied = _implied(summary, years)
    for number in _numbers(summary):
        if number.is_counted or number.text in implied:
            continue
        units = held.get(number.value)
        if units is None or not (not number.unit or number.unit in units or "" in units):
            yield number.text


def _implied(summary: str, years: set[int]) -> set[str]:
    """Name numbers of decades and centuries that a year of the source lies in."""
    found: set[str] = set()
    for match in _DECADE.finditer(summary):
        decade = match.group(1) or match.group(2)
        if any(year // 10 == int(decade) // 10 for year in years):
            found.add(decade)
    for match in _CENTURY.finditer(summary):
        century = match.group(1) or match.group(2)
        if any((year - 1) // 100 + 1 == int(century) for year in years):
            found.add(century)
    return found


def _numbers(text: str) -> Iterator[_Number]:
    for match in _NUMBER.finditer(text):
        value, is_counted = _value_of(match)
        if value is None:
            continue
        scale = (match.group("scale") or "").casefold()
        unit = _UNITS.get((match.group("unit") or "").casefold(), "") or _SIGNS.get(match.group("sign") or "", "")
        spelt = match.group("digits") or match.group("chinese") or match.group("english")
        yield _Number(_canonical(value * _SCALES.get(scale, 1)), unit, spelt, is_counted and not scale and not unit)
    yield from _months(text)


def _value_of(match: re.Match[str]) -> tuple[Decimal | None, bool]:
    if digits := match.group("digits"):
        try:
            return Decimal(digits.replace(",", "")), False
        except InvalidOperation:
            return None, False
    if chinese := match.group("chinese"):
        value = chinese_value(chinese)
        return (None if value is None else Decimal(value)), len(chinese) == 1
    value = english_value(match.group("english"))
    return (None if value is None else Decimal(value)), True


def _canonical(value: Decimal) -> str:
    plain = format(value, "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _months(text: str) -> Iterator[_Number]:
    for match in _MONTH_NAME.finditer(text):
        name = match.group("name")
        # "may" and "march" are months beside a figure alone.
        if name.casefold() not in ("may", "march") or match.group("before") or match.group("after"):
            yield _Number(str(_MONTHS.index(name.casefold()) + 1), _MONTH, name)
    for match in _SHORT_MONTH.finditer(text):
        number = next(
            number for number, month in enumerate(_MONTHS, 1) if month.startswith(match.group(1).casefold()[:3])
        )
        yield _Number(str(number), _MONTH, match.group(1))
    for match in _DATE.finditer(text):
        yield _Number(str(int(match.group(1))), _MONTH, match.group(1))


def _unheld_names(summary: str, original: str) -> Iterator[str]:
    source = original.casefold()
    squeezed = _NOT_WORD.sub("", source)
    short_codes = _short_codes(original)
    is_english = _is_english(original)
    # A model that repeats itself names the same a thousand times, and each look is one at the whole source.
    names: set[str] = set()
    codes: set[str] = set()
    for span in split_sentences(summary):
        sentence = summary[span.start : span.end]
        for name in _names(sentence, is_english=is_english):
            if name not in names and not _holds(name.casefold(), source, squeezed):
                yield name
            names.add(name)
        for match in _CODE.finditer(sentence):
            code = match.group()
            if code not in codes and not _holds_code(code, short_codes, squeezed):
                yield code
            codes.add(code)


def _is_english(text: str) -> bool:
    words = _WORD.findall(text)
    return _MIN_FUNCTION_SHARE * len(words) <= sum(is_stop_word(word.casefold()) for word in words) > 1


def _names(sentence: str, *, is_english: bool) -> Iterator[str]:
    for match in _QUOTED.finditer(sentence):
        yield next(group for group in match.groups() if group)
    if _IDEOGRAPH.search(sentence):
        yield from (match.group() for match in _LATIN_NAME.finditer(sentence))
    elif is_english:
        yield from (
            name
            for name in sorted(stated_names(_TITLE.sub(r"\1", sentence), min_function_words=0))
            if name not in _MONTHS
        )
        first = _FIRST_NAME.match(sentence)
        if first is not None and not is_stop_word(first.group(1).casefold()):
            # The first word of a sentence is a name where another one follows it.
            yield first.group(1)


def _short_codes(original: str) -> frozenset[str]:
    """Name what stands as a word or begins one and ends at a sign that is no letter, as far as it is short."""
    return frozenset(code for pattern in _SHORT_CODES for code in pattern.findall(original))


def _holds_code(code: str, short_codes: Collection[str], squeezed: str) -> bool:
    """Look for an acronym or a code: a short one as a word in these letters, since "US" is not "us"."""
    singular = code[:-1] if code.endswith("s") else code
    if len(singular) >= _MIN_STEM:
        return _NOT_WORD.sub("", singular).casefold() in squeezed
    return singular in short_codes


def _holds(name: str, source: str, squeezed: str) -> bool:
    if holds_name(name, source):
        return True
    bare = _NOT_WORD.sub("", name)
    if not bare or bare in squeezed:
        return True
    stem = _OF_A_PLACE.sub("", bare)
    return len(stem) >= _MIN_STEM and stem in squeezed
