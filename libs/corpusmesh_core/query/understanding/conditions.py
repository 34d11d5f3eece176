"""Conditions on metadata that a question names, by rule, and the check that every condition has to pass.

A condition hides documents, so that a wrong one is worse than none: a value counts where the question says that it is a
value (its field is named beside it, or it is written as only this value is), a time where the question speaks of
documents or of what its field means. Only fields that all searched knowledge bases have are used.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from corpusmesh_core.enrichment.schema import FieldType, MetadataField, MetadataSchema
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.query.understanding.condition_times import TimeRange, period_of, time_ranges
from corpusmesh_core.query.understanding.words import MAX_READ_CHARACTERS, Word, words_of
from corpusmesh_core.tenancy.visibility import FilterCondition, FilterOperator
from corpusmesh_core.text import analyze, normalize

SECTION: Final = "metadata_schema"
"""Section of a knowledge base's configuration."""
MAX_CONDITIONS: Final = 8
"""Most conditions that are read out of one question."""
_MAX_VALUES: Final = 16
_MAX_VALUE_WORDS: Final = 4
_MAX_ALIAS_WORDS: Final = 4
_MAX_ALIAS_CHARACTERS: Final = 16
_NEAR_WORDS: Final = 2
_MIN_IDEOGRAPHS: Final = 3
_GENERIC: Final = frozenset(
    (
        "date",
        "number",
        "count",
        "total",
        "time",
        "name",
        "id",
        "value",
        "level",
        "the",
        "of",
        "and",
        "day",
        "on",
        "which",
        "in",
        "is",
        "type",
    )
)
_DOCUMENT_NOUNS: Final = re.compile(
    r"\b(?:documents?|files?|reports?|papers?|articles?|notices?|contracts?|pages?|records?|news|announcements?|memos?|"
    r"invoices?|minutes|releases?|publications?|policies|regulations?|laws?|rules?|guidelines?)\b"
    r"|文件|文档|报告|公告|通知|合同|文章|论文|资料|新闻|发票|纪要|法规|规定|政策|条例",
    re.IGNORECASE,
)
_DATING_VERBS: Final = re.compile(
    r"\b(?:published|issued|written|dated|released|signed|updated|created|adopted|effective|enacted|filed|posted)\b"
    r"|发布|颁布|出版|发表|签署|签订|更新|生效|施行|实施|印发|公布|制定|起草|成文",
    re.IGNORECASE,
)
_NEGATIONS: Final = frozenset(
    ("not", "except", "excluding", "without", "non", "非", "除", "除了", "不是", "不含", "排除", "不包括")
)
_LINKS: Final = frozenset(("is", "are", "of", "=", ":", "为", "是", "：", "equals", "was", "were", "in", "属于"))
_NUMBER: Final = r"[-+]?\d[\d,]*(?:\.\d+)?\s*(?:%|万|亿|thousand|million|billion)?"
_COMPARED: Final = re.compile(
    rf"(?P<how>no more than|not more than|no less than|not less than|at least|at most|more than|less than|fewer than|"
    rf"greater than|larger than|higher than|lower than|over|above|below|under|exceeding|>=|<=|≥|≤|>|<|=|"
    rf"不超过|不少于|不低于|不高于|不大于|不小于|超过|大于|多于|高于|小于|少于|低于|至少|至多|最多|等于)\s*(?P<number>{_NUMBER})"
    rf"|(?P<after>{_NUMBER})\s*(?:个|页|元|岁|分)?(?P<how_zh>以上|以下|及以上|及以下)",
    re.IGNORECASE,
)
_AT_LEAST: Final = frozenset(
    ("no less than", "not less than", "at least", ">=", "≥", "不少于", "不低于", "不小于", "至少", "以上", "及以上")
)
_AT_MOST: Final = frozenset(
    (
        "no more than",
        "not more than",
        "at most",
        "<=",
        "≤",
        "不超过",
        "不高于",
        "不大于",
        "至多",
        "最多",
        "以下",
        "及以下",
    )
)
_MORE: Final = frozenset(
    (
        "more than",
        "greater than",
        "larger than",
        "higher than",
        "over",
        "above",
        "exceeding",
        ">",
        "超过",
        "大于",
        "多于",
        "高于",
    )
)
_LESS: Final = frozenset(("less than", "fewer than", "lower than", "below", "under", "<", "小于", "少于", "低于"))
_OPERATORS: Final[Mapping[str, FilterOperator]] = {
    **dict.fromkeys(_AT_LEAST, FilterOperator.GREATER_OR_EQUAL),
    **dict.fromkeys(_AT_MOST, FilterOperator.LESS_OR_EQUAL),
    **dict.fromkeys(_MORE, FilterOperator.GREATER),
    **dict.fromkeys(_LESS, FilterOperator.LESS),
    "=": FilterOperator.EQUALS,
    "等于": FilterOperator.EQUALS,
}


def common_fields(configs: Sequence[Mapping[str, object]]) -> tuple[MetadataField, ...]:
    """Name the fields that a question may set conditions on.

    Args:
        configs: Configurations of all knowledge bases that are searched.

    Returns:
        The fields that every one of them has with the same type; of an enumeration the values that all allow. None
        where a schema cannot be read.
    """
    try:
        schemas = [MetadataSchema.from_config(_section(config)) for config in configs]
    except InvalidArgumentError:
        return ()
    if not schemas:
        return ()
    kept: list[MetadataField] = []
    for entry in schemas[0].fields:
        twins = [next((other for other in schema.fields if other.name == entry.name), None) for schema in schemas[1:]]
        if any(twin is None or twin.type is not entry.type for twin in twins):
            continue
        values = tuple(value for value in entry.values if all(twin is None or value in twin.values for twin in twins))
        if values or entry.type is not FieldType.ENUM:
            kept.append(MetadataField(entry.name, entry.type, entry.description, values=values))
    return tuple(kept)


def conditions_in(question: str, fields: Sequence[MetadataField], *, today: datetime) -> tuple[FilterCondition, ...]:
    """Read conditions out of a question by rule.

    Args:
        question: The question.
        fields: Fields that may be used.
        today: What "last year" is reckoned from, UTC.

    Returns:
        Conditions that must all hold, at most 8.
    """
    text = question[:MAX_READ_CHARACTERS]
    reader = _Reader(text, words_of(text))
    found: list[FilterCondition] = []
    for entry in fields:
        if entry.type is FieldType.ENUM:
            found.extend(reader.choices(entry))
        elif entry.type is FieldType.NUMBER:
            found.extend(reader.numbers(entry))
        elif entry.type is not FieldType.DATE:
            found.extend(reader.named_value(entry))
    dates = [entry for entry in fields if entry.type is FieldType.DATE]
    found.extend(reader.times(dates, today))
    return tuple(dict.fromkeys(found))[:MAX_CONDITIONS]


def checked_condition(
    entry: MetadataField, operator: FilterOperator, values: Sequence[object], *, negated: bool = False
) -> tuple[FilterCondition, ...]:
    """Make conditions of a value that somebody, or a model, read out of a question.

    Args:
        entry: The field.
        operator: How to compare; anything but EQUALS needs one number or date.
        values: The values as they were read; a year or a month is a whole period.
        negated: Whether the condition must not hold.

    Returns:
        One condition, or two for a period; none if a value is no value of the field, or cannot be compared so.
    """
    if not 1 <= len(values) <= _MAX_VALUES:
        return ()
    is_order = operator is not FilterOperator.EQUALS
    if is_order and (len(values) != 1 or negated or entry.type not in (FieldType.NUMBER, FieldType.DATE)):
        return ()
    if entry.type is FieldType.DATE:
        return _dated(entry, operator, values, negated=negated)
    made = [entry.normalize(value) for value in values]
    if entry.type is FieldType.NUMBER:
        numbers = tuple(value for value in made if isinstance(value, float))
        return (
            (FilterCondition(entry.name, operator, numbers=numbers, negated=negated),)
            if len(numbers) == len(made)
            else ()
        )
    texts = tuple(value for value in made if isinstance(value, str))
    return (FilterCondition(entry.name, operator, texts=texts, negated=negated),) if len(texts) == len(made) else ()


def in_period(entry: MetadataField, period: TimeRange) -> tuple[FilterCondition, ...]:
    """Make conditions of a range of time.

    Args:
        entry: A field of type DATE.
        period: The range.

    Returns:
        A condition for each bound.
    """
    bounds = ((FilterOperator.GREATER_OR_EQUAL, period.start), (FilterOperator.LESS, period.end))
    return tuple(
        FilterCondition(entry.name, operator, moments=(moment,)) for operator, moment in bounds if moment is not None
    )


class _Reader:
    """One question, read for one field after the other."""

    def __init__(self, text: str, words: tuple[Word, ...]) -> None:
        self._text = text
        self._words = words
        self._folded = [word.folded for word in words]
        self._stems = [frozenset(analyze(word.text).fine) for word in words]

    def choices(self, entry: MetadataField) -> tuple[FilterCondition, ...]:
        named = self._places_of_alias(entry)
        wanted: list[str] = []
        unwanted: list[str] = []
        for value in entry.values:
            place = self._place_of(value)
            if place is None or not (self._is_near(named, place) or self._is_distinct(value, place)):
                continue
            (unwanted if self._is_negated(place[0]) else wanted).append(value)
        found: list[FilterCondition] = []
        for values, negated in ((wanted, False), (unwanted, True)):
            found.extend(checked_condition(entry, FilterOperator.EQUALS, values, negated=negated) if values else ())
        return tuple(found)

    def numbers(self, entry: MetadataField) -> tuple[FilterCondition, ...]:
        named = self._places_of_alias(entry)
        for match in _COMPARED.finditer(self._text) if named else ():
            how = (match["how"] or match["how_zh"]).lower()
            if self._is_near(named, self._span(match.start(), match.end())):
                return checked_condition(entry, _OPERATORS[how], [match["number"] or match["after"]])
        # "version 3", "3 stars": the number stands beside the name of its field.
        for start, end in named:
            for place in (end, end + 1, start - 1):
                if 0 <= place < len(self._words) and (place != end + 1 or self._folded[end] in _LINKS):
                    made = checked_condition(entry, FilterOperator.EQUALS, [self._words[place].text])
                    if made and self._words[place].text[0].isdigit():
                        return made
        return ()

    def named_value(self, entry: MetadataField) -> tuple[FilterCondition, ...]:
        """Read "author Jane Doe", "by author: Jane Doe", "作者是张三"."""
        for _, end in self._places_of_alias(entry):
            start = end
            while start < len(self._words) and self._folded[start] in _LINKS:
                start += 1
            negated = start < len(self._words) and self._folded[start] in _NEGATIONS
            value = self._value_from(start + negated, is_linked=start > end or self._has_colon(end))
            made = checked_condition(entry, FilterOperator.EQUALS, [value], negated=negated) if value else ()
            if made:
                return made
        return ()

    def times(self, fields: Sequence[MetadataField], today: datetime) -> tuple[FilterCondition, ...]:
        ranges = time_ranges(self._text, today=today)
        if not ranges or not fields:
            return ()
        named = [entry for entry in fields if self._places_of_alias(entry)]
        if len(named) == 1:
            return in_period(named[0], ranges[0])
        if len(fields) > 1:
            return ()
        speaks_of_documents = _DOCUMENT_NOUNS.search(self._text) or _DATING_VERBS.search(self._text)
        # What a document says of a time after March was written after March; "in 2018" may be anything's time.
        is_later = ranges[0].start is not None and ranges[0].end is None
        return in_period(fields[0], ranges[0]) if speaks_of_documents or is_later else ()

    def _places_of_alias(self, entry: MetadataField) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for alias in _aliases(entry):
            width = len(alias)
            found.extend(
                (place, place + width)
                for place in range(len(self._words) - width + 1)
                if all(stems & self._stems[place + step] for step, stems in enumerate(alias))
            )
        return found

    def _place_of(self, value: str) -> tuple[int, int] | None:
        wanted = [word.folded for word in words_of(value)]
        if not wanted:
            return None
        for place in range(len(self._words) - len(wanted) + 1):
            if self._folded[place : place + len(wanted)] == wanted:
                return place, place + len(wanted)
        return None

    def _is_near(self, named: Iterable[tuple[int, int]], place: tuple[int, int]) -> bool:
        return any(
            start - _NEAR_WORDS <= place[1] <= start or end <= place[0] <= end + _NEAR_WORDS for start, end in named
        )

    def _is_distinct(self, value: str, place: tuple[int, int]) -> bool:
        """Tell a value that is written as only this value is from a word that happens to be one."""
        written = self._text[self._words[place[0]].start : self._words[place[1] - 1].end]
        is_long = " " in value or (len(value) >= _MIN_IDEOGRAPHS and self._words[place[0]].is_ideographic)
        is_marked = any(char.isdigit() for char in value) or value[1:] != value[1:].lower()
        if is_long or (is_marked and written == value):
            return True
        behind = self._words[place[1]].text if place[1] < len(self._words) else ""
        return bool(_DOCUMENT_NOUNS.fullmatch(behind)) and not _DOCUMENT_NOUNS.fullmatch(written)

    def _is_negated(self, place: int) -> bool:
        return bool(_NEGATIONS & set(self._folded[max(0, place - 2) : place]))

    def _has_colon(self, place: int) -> bool:
        return place > 0 and self._text[self._words[place - 1].end :].lstrip()[:1] in ("：", ":", "=")

    def _value_from(self, place: int, *, is_linked: bool) -> str:
        if place >= len(self._words):
            return ""
        start = self._words[place].start
        quoted = re.match(r"[\"“「『《]([^\"”」』》\n]{1,100})[\"”」』》]", self._text[max(0, start - 1) :])
        if quoted is not None and start > 0:
            return quoted[1]
        taken: list[Word] = []
        for word in self._words[place : place + _MAX_VALUE_WORDS]:
            if taken and not word.is_joined:
                break
            is_name = word.text[:1].isupper() or (word.is_ideographic and is_linked and word.text not in "的写了呢吗")
            if not is_name:
                break
            taken.append(word)
        return self._text[taken[0].start : taken[-1].end] if taken else ""

    def _span(self, start: int, end: int) -> tuple[int, int]:
        inside = [place for place, word in enumerate(self._words) if start <= word.start < end]
        return (inside[0], inside[-1] + 1) if inside else (len(self._words) + 9, len(self._words) + 9)


def _aliases(entry: MetadataField) -> list[list[frozenset[str]]]:
    """Give the ways to name a field: its name, its last words, and a short description, each word as its stems."""
    names: list[list[str]] = []
    words = entry.name.split("_")
    telling = [word for word in words if word not in _GENERIC]
    names.append(words)
    names.extend([word] for word in telling if len(word) > 2)
    if 0 < len(entry.description) <= _MAX_ALIAS_CHARACTERS or len(entry.description.split()) <= _MAX_ALIAS_WORDS:
        described = [word.text for word in words_of(entry.description)]
        names.append([word for word in described if word.lower() not in _GENERIC])
        names.append(described)
    aliases = [[frozenset(analyze(word).fine) for word in name] for name in names if name]
    return [alias for alias in aliases if all(alias)]


def _dated(
    entry: MetadataField, operator: FilterOperator, values: Sequence[object], *, negated: bool
) -> tuple[FilterCondition, ...]:
    if negated or len(values) != 1 or not isinstance(values[0], str):
        return ()
    period = period_of(values[0])
    if period is None:
        return ()
    start, end = period
    ranges = {
        FilterOperator.EQUALS: TimeRange(start, end, 0),
        FilterOperator.GREATER: TimeRange(end, None, 0),
        FilterOperator.GREATER_OR_EQUAL: TimeRange(start, None, 0),
        FilterOperator.LESS: TimeRange(None, start, 0),
        FilterOperator.LESS_OR_EQUAL: TimeRange(None, end, 0),
    }
    return in_period(entry, ranges[operator]) if operator in ranges else ()


def is_said(question: str, value: str) -> bool:
    """Say whether a question names a text, so that a model has not made it up.

    Args:
        question: The question.
        value: The text.

    Returns:
        Whether its folded form stands in the folded question.
    """
    return normalize(" ".join(value.split())) in normalize(" ".join(question.split()))


def _section(config: Mapping[str, object]) -> Mapping[str, object] | None:
    section = config.get(SECTION)
    return section if isinstance(section, Mapping) else None
