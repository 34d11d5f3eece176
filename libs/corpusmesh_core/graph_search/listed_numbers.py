"""Numbers that a model names of what it was shown, in whatever form it writes them."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

_NUMBER: Final = re.compile(r"\s*[\[(#]*\s*(?:reports?\s*)?[\[(#]*\s*(\d{1,4})\b", re.IGNORECASE)
_NAMES: Final = ("number", "id", "index", "report")
_MAX_LISTED: Final = 200


def number_of(item: object) -> int | None:
    """Read a number.

    Args:
        item: A number, such a text as "3", "[3] title" or "report 3", a list that begins with one, or an object that
            names one.

    Returns:
        The number; None where there is none.
    """
    if isinstance(item, Mapping):
        item = next((item[name] for name in _NAMES if name in item), None)
    if isinstance(item, list):
        item = item[0] if item else None
    if type(item) is int:
        return item
    if type(item) is float and item.is_integer():
        return int(item)
    match = _NUMBER.match(item) if isinstance(item, str) else None
    return int(match.group(1)) if match else None


def read_listed(answer: object, names: Sequence[str], *, count: int, most: int) -> tuple[int, ...] | None:
    """Read `{name: [number]}`.

    Args:
        answer: JSON value of a model's answer.
        names: Names that the list may have.
        count: What was shown, numbered from 1.
        most: Most of it.

    Returns:
        Places from 0 of what is named, in order, each once; None if nothing that was shown is named.
    """
    listed: object = answer
    if isinstance(answer, Mapping):
        listed = next((answer[name] for name in names if isinstance(answer.get(name), list)), None)
    if not isinstance(listed, list):
        return None
    numbers = (number_of(item) for item in listed[:_MAX_LISTED])
    chosen = dict.fromkeys(number - 1 for number in numbers if number is not None and 1 <= number <= count)
    return tuple(chosen)[:most] or None
