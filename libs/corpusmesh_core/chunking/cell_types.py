"""Types of table columns: whole numbers, numbers, truth values, dates, text."""

import re
from collections.abc import Iterable
from enum import StrEnum
from itertools import islice

_SAMPLE_SIZE = 1_000
_INT = re.compile(r"[-+]?(?:0|[1-9]\d{0,17}|[1-9]\d{0,2}(?:,\d{3}){1,5})")
_FLOAT = re.compile(r"[-+]?(?:\d{1,18}|\d{1,3}(?:,\d{3}){1,5})?\.?\d{1,18}(?:[eE][-+]?\d{1,3})?")
_DATE = re.compile(r"(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})日?(?:[T ](\d{1,2}:\d{2}(?::\d{2})?)(?:\.\d+)?(?:Z)?)?")
_TRUTHS = {
    "true": "true",
    "yes": "true",
    "y": "true",
    "是": "true",
    "false": "false",
    "no": "false",
    "n": "false",
    "否": "false",
}


class CellType(StrEnum):
    """What the cells of a column are."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    DATE = "date"
    TEXT = "text"


def infer_type(cells: Iterable[str]) -> CellType:
    """Infer a column's type from its cells.

    Args:
        cells: Texts; empty ones say nothing. The first thousand others are looked at.

    Returns:
        The narrowest type that all of them have; TEXT if there are none. A number with leading zeros is text: it names
        something.
    """
    sample = list(islice((text.strip() for text in cells if text.strip()), _SAMPLE_SIZE))
    for cell_type, matches in _TESTS:
        if sample and all(map(matches, sample)):
            return cell_type
    return CellType.TEXT


def typed_text(text: str, cell_type: CellType) -> str:
    """Write a cell's value in the one form of its type.

    Args:
        text: The cell's text.
        cell_type: Its column's type.

    Returns:
        Numbers without thousands separators, "true" or "false", dates in ISO 8601; the text as it is where it does not
        fit the type.
    """
    text = text.strip()
    if cell_type is CellType.BOOL:
        return _TRUTHS.get(text.casefold(), text)
    if cell_type is CellType.DATE:
        match = _DATE.fullmatch(text)
        if match is None:
            return text
        year, month, day, time = match.groups()
        return f"{year}-{int(month):02d}-{int(day):02d}" + (f"T{time}" if time else "")
    if cell_type in (CellType.INT, CellType.FLOAT):
        return text.replace(",", "").removeprefix("+")
    return text


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    return match is not None and 1 <= int(match.group(2)) <= 12 and 1 <= int(match.group(3)) <= 31


def _is_float(text: str) -> bool:
    bare = text.lstrip("+-")
    return _FLOAT.fullmatch(text) is not None and not (len(bare) > 1 and bare[0] == "0" and bare[1].isdigit())


_TESTS = (
    (CellType.INT, lambda text: _INT.fullmatch(text) is not None),
    (CellType.FLOAT, _is_float),
    (CellType.BOOL, lambda text: text.casefold() in _TRUTHS),
    (CellType.DATE, _is_date),
)
