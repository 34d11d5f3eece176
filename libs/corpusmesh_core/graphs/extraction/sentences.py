"""Sentences of any text, in time that grows with its length alone: what has no full stop is cut where it must be."""

import re
from collections.abc import Iterator
from typing import Final

MAX_SENTENCE_CHARACTERS: Final = 600
"""A longer sentence is cut at white space, or anywhere where there is none."""

_END: Final = re.compile(
    r"[。！？；]+[”’」』）》]{0,3}|(?:…|\.\.\.)+"
    r"|[.!?](?=[\"'”’)\]]{0,3}(?:\s|$|[\u3400-\u9fff]))[\"'”’)\]]{0,3}|\n+"
)
_ABBREVIATION: Final = re.compile(
    r"(?:^|[\s(\"'“‘.])(?:[A-Z]|e\.g|i\.e|etc|vs|cf|al|approx|ca|No|Nos|Figs?|Eq|Sec|Ch|Vol|pp?|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|"
    r"Inc|Ltd|Co|Corp|Gen|Col|Capt|Lt|Sgt|Rev|Hon|Gov|Sen|Rep|U\.S|U\.K|a\.m|p\.m|b|d|r|fl|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?"
    r"|Oct|Nov|Dec)\.$"
)
_NEW_ITEM: Final = re.compile(r"\s{0,8}(?:[-*+•·#>|]|\d{1,3}[.)、]|[(（][\d一二三四五六七八九十]{1,3}[)）])")
_MIN_WRAPPED_CHARACTERS: Final = 50
_LOOK_BACK: Final = 12


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Find the sentences of a text.

    Args:
        text: Running text; Markdown may occur.

    Yields:
        Start and end of each, in order, at most MAX_SENTENCE_CHARACTERS apart and without white space at either end. A
        line is a sentence of its own unless it was broken by the width of a page.
    """
    begin = line = 0
    for match in _END.finditer(text):
        found = match.group()
        ends = _ends(text, begin, match) if found[0] != "\n" else _is_line(text, line, match)
        if found[0] == "\n":
            line = match.end()
        if ends:
            yield from _cut(text, begin, match.end())
            begin = match.end()
    yield from _cut(text, begin, len(text))


def sentences(text: str) -> tuple[str, ...]:
    """Split a text into sentences.

    Args:
        text: Running text; Markdown may occur.

    Returns:
        Its sentences in order, white space folded, each of at most MAX_SENTENCE_CHARACTERS.
    """
    return tuple(" ".join(text[start:end].split()) for start, end in sentence_spans(text))


def _ends(text: str, begin: int, match: re.Match[str]) -> bool:
    if match.group() != ".":
        return True
    before = text[max(begin, match.start() - _LOOK_BACK) : match.end()]
    # "1. First step": the number of an item is no sentence.
    return _ABBREVIATION.search(before) is None and not before.strip(" \n.").isdecimal()


def _is_line(text: str, line: int, match: re.Match[str]) -> bool:
    """Tell whether a line's end ends a sentence, other than one that the width of a page has broken."""
    if match.end() - match.start() > 1 or match.start() - line < _MIN_WRAPPED_CHARACTERS:
        return True
    if text[match.start() - 1] in ":：|" or text[line] in "|#":
        return True
    return _NEW_ITEM.match(text, match.end()) is not None


def _cut(text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    while begin < end:
        stop = min(end, begin + MAX_SENTENCE_CHARACTERS)
        if stop < end:
            space = text.rfind(" ", begin + MAX_SENTENCE_CHARACTERS // 2, stop)
            stop = space + 1 if space >= 0 else stop
        piece = text[begin:stop]
        stripped = piece.strip()
        if stripped:
            start = begin + len(piece) - len(piece.lstrip())
            yield start, start + len(stripped)
        begin = stop
