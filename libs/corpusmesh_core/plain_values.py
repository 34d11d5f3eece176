"""Values of plain fields read back from JSON, whatever an earlier release has written there."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

_Value = TypeVar("_Value")


def read_plain(kind: type[_Value], values: object) -> _Value:
    """Read what `dataclasses.asdict` wrote.

    Args:
        kind: A dataclass all fields of which have defaults: flags, numbers, texts, lists of whole numbers, or such
            dataclasses themselves.
        values: Plain values by name; anything but a mapping counts as none.

    Returns:
        The value; what is missing, or of another type, is false, zero or empty.
    """
    given = values if isinstance(values, Mapping) else {}
    empty = kind()
    return kind(
        **{
            entry.name: _read(getattr(empty, entry.name), given.get(entry.name))
            for entry in fields(kind)  # type: ignore[arg-type] # the bound of a dataclass cannot be named
        }
    )


def _read(default: object, value: object) -> Any:
    if isinstance(default, bool):
        return value is True
    if isinstance(default, int):
        return int(_number(value))
    if isinstance(default, float):
        return _number(value)
    if isinstance(default, list):
        return [int(_number(item)) for item in value] if isinstance(value, list) else []
    if is_dataclass(default):
        return read_plain(type(default), value)
    return value if isinstance(value, str) else ""


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
