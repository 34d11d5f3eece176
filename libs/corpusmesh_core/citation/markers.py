"""Citation markers in the spellings that language models use: `[ID:n]` and what they make of it."""

from dataclasses import dataclass
from enum import Enum, auto

from corpusmesh_core.citation.cursor import Cursor

_SQUARE = {"[": "]", "【": "】", "［": "］", "〔": "〕"}
_ROUND = {"(": ")", "（": "）"}
MARKER_OPENERS = frozenset(_SQUARE) | frozenset(_ROUND)
_COLONS = frozenset(":：﹕︰")
_SEPARATORS = frozenset(",;，；、/&|")
_DASHES = frozenset("-–—−~～‑")
_MAX_DIGITS = 18
_MAX_REFERENCES = 64


class MarkerStyle(Enum):
    """How sure it is that a marker was meant."""

    SQUARE = auto()
    """`[ID:n]`: nothing else is written so."""
    ROUND = auto()
    """`(ID:n)`: also an ordinary way to name a person's or a ticket's id."""
    BARE = auto()
    """`ID:n` without brackets."""
    NUMBER = auto()
    """`[n]` and `[ID n]`: also a footnote, an index, or a marker that was defused in a document."""


@dataclass(frozen=True, slots=True)
class MarkerGroup:
    """One marker as it was written; it may name several pieces of evidence.

    Attributes:
        references: Pairs (first, last) of numbers; equal where no range was written.
        style: How it was written.
        end: Position after it.
    """

    references: tuple[tuple[int, int], ...]
    style: MarkerStyle
    end: int


def parse_marker(cursor: Cursor, start: int) -> MarkerGroup | None:
    """Read a marker in any of its spellings.

    Args:
        cursor: The text.
        start: Position of the bracket, of a backslash before it, or of the I of a bare `ID:n`.

    Returns:
        The marker, or None where there is none at this position.
    """
    position = start + 1 if cursor.at(start) == "\\" else start
    opener = cursor.at(position)
    if opener in MARKER_OPENERS:
        return _parse_bracketed(cursor, position, opener)
    if position != start:
        return None
    prefix = _after_prefix(cursor, position)
    if prefix is None:
        return None
    reference = _parse_reference(cursor, prefix[0])
    if reference is None:
        return None
    first, last, end = reference
    return MarkerGroup(((first, last),), MarkerStyle.BARE, end)


def _parse_bracketed(cursor: Cursor, opener_at: int, opener: str) -> MarkerGroup | None:
    is_square = opener in _SQUARE
    position = cursor.skip_blanks(opener_at + 1)
    references: list[tuple[int, int]] = []
    is_named = False
    while len(references) < _MAX_REFERENCES:
        prefix = _after_prefix(cursor, position)
        if prefix is not None:
            is_named = is_named or prefix[1]
        elif not references and not is_square:
            return None
        reference = _parse_reference(cursor, position if prefix is None else prefix[0])
        if reference is None:
            return None
        first, last, end = reference
        references.append((first, last))
        position = cursor.skip_blanks(end)
        if cursor.at(position) not in _SEPARATORS:
            break
        position = cursor.skip_blanks(position + 1)
    close = _after_closer(cursor, position, is_square=is_square)
    if close is None:
        # `[ID:3` without its bracket is a cut marker; `(ID:3, see …` and `[3, see …` are prose.
        if not (is_square and is_named):
            return None
        close = end
    style = MarkerStyle.ROUND if not is_square else MarkerStyle.SQUARE if is_named else MarkerStyle.NUMBER
    return MarkerGroup(tuple(references), style, close)


def _after_prefix(cursor: Cursor, position: int) -> tuple[int, bool] | None:
    """Step over `ID:`, `IDs：`, `id :`, and over `ID ` and `ID=` before a digit.

    Returns:
        Position after it, and whether it has its colon; None where it is not there.
    """
    if cursor.at(position) not in {"I", "i", "Ｉ"} or cursor.at(position + 1) not in {"D", "d", "Ｄ"}:
        return None
    position += 2
    if cursor.at(position) in {"s", "S"}:
        position += 1
    begin = position
    position = cursor.skip_blanks(position)
    has_colon = cursor.at(position) in _COLONS
    if has_colon or cursor.at(position) == "=":
        position = cursor.skip_blanks(position + 1)
    if cursor.at(position) == "#":
        position += 1
    if not has_colon and (position == begin or not cursor.at(position).isdecimal()):
        return None
    return position, has_colon


def _parse_reference(cursor: Cursor, position: int) -> tuple[int, int, int] | None:
    """Read `n` or `n-m`, also `n-ID:m`; returns (first, last, end)."""
    number = _parse_number(cursor, position)
    if number is None:
        return None
    first, end = number
    dash_at = cursor.skip_blanks(end)
    if cursor.at(dash_at) in _DASHES:
        second_at = cursor.skip_blanks(dash_at + 1)
        prefix = _after_prefix(cursor, second_at)
        second = _parse_number(cursor, second_at if prefix is None else prefix[0])
        if second is not None:
            return first, second[0], second[1]
        if dash_at == end and _is_word(cursor.at(dash_at + 1)):
            return None  # an identifier such as ID:4471-AB
    return first, first, end


def _parse_number(cursor: Cursor, position: int) -> tuple[int, int] | None:
    end = position
    while end - position <= _MAX_DIGITS and cursor.at(end).isdecimal():
        end += 1
    if end == position or end - position > _MAX_DIGITS or _is_word(cursor.at(end)):
        return None
    return int(cursor.text[position:end]), end


def _after_closer(cursor: Cursor, position: int, *, is_square: bool) -> int | None:
    if is_square and cursor.at(position) == "\\":
        position += 1
    closers = _SQUARE.values() if is_square else _ROUND.values()
    return position + 1 if cursor.at(position) in closers else None


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")
