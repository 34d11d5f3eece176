"""Reads the JSON of a language model's answer, as models write it: tolerant of form, never of content.

Models wrap JSON into sentences and code fences, copy doubled braces, use single quotes, leave commas behind and run out
of tokens (field report FR-A09). What was cut off is left out and never guessed; what is made of the rest is checked by
whoever asked.
"""

import json
import re
from typing import Final

from corpusmesh_core.citation.thought import LeadingThought

MAX_ANSWER_CHARACTERS: Final = 1_000_000
_MAX_DEPTH: Final = 32
_FENCE: Final = re.compile(r"```[a-zA-Z0-9]*\s*\n?(.*?)(?:```|\Z)", re.DOTALL)
_BLANKS: Final = " \t\r\n\ufeff\u00a0"
_CLOSING: Final = {'"': '"', "'": "'", "“": "”", "‘": "’", "`": "`"}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'"}
_BARE: Final = re.compile(r"[^\s,，:：{}\[\]\"'“”]+")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?")
_LITERALS: Final = {"true": True, "false": False, "null": None, "none": None}


def read_json_answer(answer: str) -> object | None:
    """Find and read the JSON value in an answer.

    Args:
        answer: All that a model said, its thoughts included.

    Returns:
        The value, of dicts, lists, texts, numbers, True, False and None; None if there is no object and no list. Of a
        cut-off answer, all that is whole: entries of lists that are cut off are left out.
    """
    said = LeadingThought().feed(answer[:MAX_ANSWER_CHARACTERS], is_final=True)
    for text in (*(match.group(1) for match in _FENCE.finditer(said)), said):
        start = _start(text)
        if start < 0:
            continue
        try:
            value, _ = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            value = _Reader(text, start).value()
        if isinstance(value, dict | list) and value:
            return value
    return None


def _start(text: str) -> int:
    places = [place for place in (text.find("{"), text.find("[")) if place >= 0]
    return min(places, default=-1)


class _CutOffError(Exception):
    """The text ends, or makes no sense, before a value is whole."""


class _Reader:
    """Recursive descent over one text; every step moves on, so that it ends."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._at = start
        self.is_cut = False

    def value(self) -> object | None:
        """Read the value at the place; None if not even a part of it is whole."""
        try:
            return self._value(0)
        except _CutOffError:
            return None

    def _value(self, depth: int) -> object:
        self._skip()
        char = self._peek()
        if depth > _MAX_DEPTH or not char:
            raise _CutOffError
        if char == "{":
            return self._object(depth)
        if char == "[":
            return self._list(depth)
        if char in _CLOSING:
            return self._string(char)
        return self._bare()

    def _object(self, depth: int) -> dict[str, object]:
        self._at += 1
        is_doubled = self._peek() == "{"
        self._at += is_doubled
        found: dict[str, object] = {}
        while not self._ends_with("}", is_doubled):
            try:
                key = self._key()
                found.setdefault(key, self._value(depth + 1))
            except _CutOffError:
                self.is_cut = True
            if self.is_cut:
                break
        return found

    def _list(self, depth: int) -> list[object]:
        self._at += 1
        found: list[object] = []
        while not self._ends_with("]", is_doubled=False):
            try:
                entry = self._value(depth + 1)
            except _CutOffError:
                self.is_cut = True
                break
            # An object that is cut off lacks what would be said of it; a list that is, has whole entries.
            if not (self.is_cut and isinstance(entry, dict)):
                found.append(entry)
            if self.is_cut:
                break
        return found

    def _ends_with(self, closing: str, is_doubled: bool) -> bool:
        """Skip to the next entry; True at the closing bracket, behind which it stops, and at a foreign one."""
        self._skip(",，;")
        char = self._peek()
        if not char:
            self.is_cut = True
            return True
        if char == closing:
            self._at += 1 + (is_doubled and self._text.startswith(closing, self._at + 1))
            return True
        # "]" where "}" should be: the object ends, and the bracket is left for the list around it.
        return char in "]}"

    def _key(self) -> str:
        char = self._peek()
        key = self._string(char) if char in _CLOSING else self._bare_text()
        self._skip()
        if self._peek() not in (":", "："):
            raise _CutOffError
        self._at += 1
        return key

    def _string(self, opening: str) -> str:
        closing = _CLOSING[opening]
        self._at += 1
        parts: list[str] = []
        while (char := self._peek()) != "":
            self._at += 1
            if char == "\\":
                parts.append(self._escape())
            elif char == closing and self._is_end(opening):
                return "".join(parts)
            else:
                parts.append(char)
        raise _CutOffError

    def _is_end(self, opening: str) -> bool:
        """Tell a closing quote from an apostrophe: behind it comes what ends a string in JSON."""
        if opening == '"':
            return True
        rest = self._text[self._at : self._at + 40].lstrip(_BLANKS)
        return not rest or rest[0] in ",，:：}]"

    def _escape(self) -> str:
        char = self._peek()
        self._at += 1
        if char != "u":
            return _ESCAPES.get(char, char)
        digits = self._text[self._at : self._at + 4]
        if re.fullmatch(r"[0-9a-fA-F]{4}", digits) is None:
            return ""
        self._at += 4
        code = int(digits, 16)
        # Half of a pair is no character, and cannot be stored.
        return "" if 0xD800 <= code < 0xE000 else chr(code)

    def _bare(self) -> object:
        text = self._bare_text()
        if text.lower() in _LITERALS:
            return _LITERALS[text.lower()]
        if _NUMBER.fullmatch(text):
            return float(text) if any(char in text for char in ".eE") else int(text[:18])
        return text

    def _bare_text(self) -> str:
        found = _BARE.match(self._text, self._at)
        if found is None or found.end() == len(self._text):
            raise _CutOffError
        self._at = found.end()
        return found.group()

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip(self, also: str = "") -> None:
        while self._at < len(self._text) and self._text[self._at] in _BLANKS + also:
            self._at += 1
