r"""The typed metadata schema of a knowledge base: which values its documents have, and where they come from.

    {"fields": [{"name": "effective_date", "type": "date", "description": "Day on which the rules take effect",
                 "source": "rule", "pattern": "effective (?:from|on) (.+?)\\."},
                {"name": "author", "type": "text", "source": "parser", "key": "author"},
                {"name": "kind", "type": "enum", "values": ["law", "notice"], "source": "llm"},
                {"name": "department", "type": "text", "required": true}]}

A field without a source is given by whoever uploads the document. Every value is checked and brought into one form: a
bad one becomes a warning and is never stored.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

import re2  # type: ignore[import-untyped]  # ships no stubs

from corpusmesh_core.enrichment.dates import parse_date
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.tenancy.values import MetadataValue

MAX_FIELDS: Final = 64
"""Most fields of a schema."""
MAX_VALUE_CHARACTERS: Final = 1024
"""Longest text value."""
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_MAX_PATTERN_CHARACTERS: Final = 1000
_MAX_ENUM_VALUES: Final = 256
_MAX_DESCRIPTION_CHARACTERS: Final = 1000
_PATTERN_MEMORY_BYTES: Final = 8 << 20
_TRUE: Final = frozenset({"true", "yes", "y", "1", "on", "是", "有", "对", "真"})
_FALSE: Final = frozenset({"false", "no", "n", "0", "off", "否", "无", "没有", "不是", "假"})
_SCALES: Final = {"": 1.0, "%": 1.0, "万": 1e4, "亿": 1e8, "thousand": 1e3, "million": 1e6, "billion": 1e9}
_NUMBER: Final = re.compile(
    r"(?:[$€£¥￥]|RMB|USD|EUR|CNY)?\s*([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d{1,3})?)\s*"
    r"(%|万|亿|thousand|million|billion)?\s*(?:元|[$€£]|USD|EUR|CNY)?",
    re.IGNORECASE,
)
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069]+")


class FieldType(StrEnum):
    """Type of a value."""

    TEXT = "text"
    NUMBER = "number"
    DATE = "date"
    BOOLEAN = "boolean"
    ENUM = "enum"


class FieldSource(StrEnum):
    """Where a value comes from."""

    GIVEN = "given"
    """The upload says it."""
    RULE = "rule"
    """A pattern finds it in the text."""
    PARSER = "parser"
    """The file says it of itself (author, created, sender, …)."""
    LLM = "llm"
    """A language model reads it."""


@dataclass(frozen=True, slots=True)
class MetadataField:
    """One field.

    Attributes:
        name: `[a-z][a-z0-9_]{0,62}`.
        type: Type of its values.
        description: What it means; a language model reads it.
        required: Whether a document without it is worth a warning.
        source: Where it comes from.
        pattern: For source RULE: an RE2 pattern; the first of its groups that matches, or all that it matches, is the
            value.
        key: For source PARSER: the parser's key.
        values: For type ENUM: what is allowed.
    """

    name: str
    type: FieldType
    description: str = ""
    required: bool = False
    source: FieldSource = FieldSource.GIVEN
    pattern: str = ""
    key: str = ""
    values: tuple[str, ...] = ()

    def normalize(self, value: object) -> MetadataValue | None:
        """Check a value and bring it into the one form of its type.

        Args:
            value: What was given, found or answered.

        Returns:
            TEXT and ENUM: text without control characters, an enum as the schema spells it; NUMBER: a finite number,
            signs of currencies and per cent left out; DATE: a moment in UTC, midnight where there is no time; BOOLEAN:
            "true" or "false". None if it is no such value.
        """
        match self.type:
            case FieldType.TEXT:
                return _text(value)
            case FieldType.NUMBER:
                return _number(value)
            case FieldType.DATE:
                return _date(value)
            case FieldType.BOOLEAN:
                return _boolean(value)
            case FieldType.ENUM:
                return self._enum(value)

    def _enum(self, value: object) -> str | None:
        text = _text(value)
        if text is None:
            return None
        return next((allowed for allowed in self.values if allowed.casefold() == text.casefold()), None)


@dataclass(frozen=True, slots=True)
class MetadataSchema:
    """The fields of a knowledge base.

    Attributes:
        fields: In the order of the configuration, names distinct.
    """

    fields: tuple[MetadataField, ...] = ()

    @classmethod
    def from_config(cls, config: Mapping[str, object] | None) -> "MetadataSchema":
        """Read and check the section `metadata_schema` of a configuration.

        Args:
            config: The section; None or empty for a schema without fields.

        Returns:
            The schema.

        Raises:
            InvalidArgumentError: METADATA_SCHEMA_INVALID, with the field and what it allows.
        """
        if not config:
            return cls()
        if not isinstance(config, Mapping) or set(config) - {"fields"}:
            raise _invalid("metadata_schema", 'an object with nothing but a list "fields"')
        listed = config.get("fields", [])
        if not isinstance(listed, list | tuple) or len(listed) > MAX_FIELDS:
            raise _invalid("metadata_schema.fields", f"a list of at most {MAX_FIELDS} fields")
        made = tuple(_read_field(entry, f"metadata_schema.fields.{place}") for place, entry in enumerate(listed))
        if len({entry.name for entry in made}) < len(made):
            raise _invalid("metadata_schema.fields", "a list of fields with distinct names")
        return cls(made)

    def of_source(self, source: FieldSource) -> tuple[MetadataField, ...]:
        """Name the fields of one source.

        Args:
            source: The source.

        Returns:
            Its fields.
        """
        return tuple(entry for entry in self.fields if entry.source is source)

    def check(self, values: Mapping[str, object]) -> tuple[dict[str, MetadataValue], tuple[str, ...]]:
        """Check values that somebody gives; a name that the schema does not know passes as it is if it is a text.

        Args:
            values: By name; a list holds its first fitting value.

        Returns:
            Values in their one form, and a warning for each that was left out; without the values themselves.
        """
        by_name = {entry.name: entry for entry in self.fields}
        kept: dict[str, MetadataValue] = {}
        warnings: list[str] = []
        for name, value in values.items():
            known = by_name.get(name)
            checked = known.normalize(value) if known is not None else _unknown(value)
            if checked is not None:
                kept[name] = checked
            elif known is not None:
                warnings.append(describe_bad_value(known))
        return kept, tuple(warnings)


def describe_bad_value(entry: MetadataField) -> str:
    """Say that a value was left out.

    Args:
        entry: Its field.

    Returns:
        One sentence without the value.
    """
    allowed = f"one of its {len(entry.values)} values" if entry.type is FieldType.ENUM else f"a {entry.type}"
    return f"The value found for the metadata field {entry.name} is not {allowed} and was left out."


def compile_rule(entry: MetadataField) -> Any:
    """Compile the pattern of a field of source RULE.

    Args:
        entry: The field.

    Returns:
        A compiled RE2 pattern: matching takes time linear in the text, whatever the pattern.

    Raises:
        InvalidArgumentError: METADATA_SCHEMA_INVALID if it is no RE2 pattern.
    """
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY_BYTES
    try:
        return re2.compile(entry.pattern, options)
    except re2.error as error:
        raise _invalid(
            f"metadata_schema.fields.{entry.name}.pattern", "an RE2 pattern (no look-around, no back-references)"
        ) from error


def _read_field(entry: object, path: str) -> MetadataField:
    if not isinstance(entry, Mapping):
        raise _invalid(path, "an object")
    known = ("name", "type", "description", "required", "source", "pattern", "key", "values")
    if unknown := sorted(str(key) for key in entry if key not in known):
        raise _invalid(f"{path}.{unknown[0]}", f"one of {', '.join(known)}")
    name, required = entry.get("name"), entry.get("required", False)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _invalid(f"{path}.name", "lower-case letters, digits and _, at most 63")
    if not isinstance(required, bool):
        raise _invalid(f"{path}.required", "true or false")
    made = MetadataField(
        name=name,
        type=_choice(FieldType, entry.get("type"), f"{path}.type"),
        description=_short(entry.get("description", ""), f"{path}.description", _MAX_DESCRIPTION_CHARACTERS),
        required=required,
        source=_choice(FieldSource, entry.get("source", FieldSource.GIVEN), f"{path}.source"),
        pattern=_short(entry.get("pattern", ""), f"{path}.pattern", _MAX_PATTERN_CHARACTERS),
        key=_short(entry.get("key", ""), f"{path}.key", 128),
        values=_enum_values(entry.get("values", ()), f"{path}.values"),
    )
    _check_fit(made, path)
    return made


def _check_fit(made: MetadataField, path: str) -> None:
    """Refuse settings that are missing, or that mean nothing for the field's type or source."""
    if (made.type is FieldType.ENUM) != bool(made.values):
        raise _invalid(f"{path}.values", "the allowed values of a field of type enum, and of no other")
    if (made.source is FieldSource.RULE) != bool(made.pattern):
        raise _invalid(f"{path}.pattern", "the pattern of a field of source rule, and of no other")
    if (made.source is FieldSource.PARSER) != bool(made.key):
        raise _invalid(f"{path}.key", "the parser's key for a field of source parser, and for no other")
    if made.pattern:
        compile_rule(made)


_Choice = TypeVar("_Choice", bound=StrEnum)


def _choice(kind: type[_Choice], value: object, path: str) -> _Choice:
    if isinstance(value, str) and value in frozenset(kind):
        return kind(value)
    raise _invalid(path, "one of " + ", ".join(f'"{choice}"' for choice in kind))


def _short(value: object, path: str, most: int) -> str:
    if isinstance(value, str) and len(value) <= most:
        return value
    raise _invalid(path, f"a text of at most {most} characters")


def _enum_values(value: object, path: str) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and len(value) <= _MAX_ENUM_VALUES:
        texts = tuple(dict.fromkeys(text for text in map(_text, value) if text is not None))
        if len(texts) == len(value):
            return texts
    raise _invalid(path, f"a list of at most {_MAX_ENUM_VALUES} distinct texts")


def _text(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    text = " ".join(_CONTROLS.sub(" ", value).split())
    return text if 0 < len(text) <= MAX_VALUE_CHARACTERS else None


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < 1e300 and math.isfinite(value) else None
    text = _text(value)
    found = _NUMBER.fullmatch(text.replace("，", ",")) if text is not None and len(text) <= 64 else None
    if found is None:
        return None
    number = float(found.group(1).replace(",", "")) * _SCALES[(found.group(2) or "").lower()]
    return number if math.isfinite(number) else None


def _date(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo is not None else value.replace(tzinfo=UTC)
    text = _text(value)
    return parse_date(text) if text is not None and len(text) <= 64 else None


def _boolean(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = (_text(value) or "").casefold()
    if text in _TRUE:
        return "true"
    return "false" if text in _FALSE else None


def _unknown(value: object) -> MetadataValue | None:
    return _text(value)


def first_value(entry: MetadataField, candidates: Sequence[object]) -> tuple[MetadataValue | None, bool]:
    """Take the first candidate that is a value of a field.

    Args:
        entry: The field.
        candidates: What was found, best first.

    Returns:
        The value in its one form, None if there is none; and whether a candidate had to be left out on the way to none.
    """
    for candidate in candidates:
        value = entry.normalize(candidate)
        if value is not None:
            return value, False
    return None, bool(candidates)


def _invalid(name: str, allowed: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "METADATA_SCHEMA_INVALID", f"The setting {name} must be {allowed}.", field=name, allowed=allowed
    )
