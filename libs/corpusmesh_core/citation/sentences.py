"""Sentences of English and Chinese running text, by place."""

import re
from dataclasses import dataclass

_END = re.compile(r"[。！？；…]+[”’」』）》\"')\]]*|[.!?]+[\"'”’)\]]*(?=\s|$|[\u3400-\u9fff])|\n+")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'“‘])(?:[A-Z]|e\.g|i\.e|etc|vs|cf|al|approx|ca|No|Nos|Fig|Figs|Eq|Sec|Ch|Vol|pp?|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|"
    r"Inc|Ltd|Co|Corp|U\.S|U\.K|a\.m|p\.m|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.$"
)
_NEW_ITEM = re.compile(r"\s*(?:[-*+•·#>|]|\d{1,3}[.)、]|[(（][\d一二三四五六七八九十]{1,3}[)）]|```)")
_MIN_WRAPPED_CHARACTERS = 50
"""A line shorter than this that ends without a full stop is a title or an item, not a line broken by a page's width."""


@dataclass(frozen=True, slots=True)
class SentenceSpan:
    """Where a sentence stands.

    Attributes:
        start: First character.
        end: Position after its last character, white space at both ends left out.
    """

    start: int
    end: int


def split_sentences(text: str) -> tuple[SentenceSpan, ...]:
    """Find the sentences of a text.

    Abbreviations, decimal numbers and initials do not end a sentence; list items, table rows and headings are sentences
    of their own; a line broken by the width of a page is joined with its next.

    Args:
        text: Running text in English, Chinese or both; Markdown and table rows may occur.

    Returns:
        Spans in order, not empty and not overlapping; all that lies between them is white space.
    """
    spans: list[SentenceSpan] = []
    begin = 0
    for match in _END.finditer(text):
        if not _ends_sentence(text, begin, match):
            continue
        _append(spans, text, begin, match.end())
        begin = match.end()
    _append(spans, text, begin, len(text))
    return tuple(spans)


def _ends_sentence(text: str, begin: int, match: re.Match[str]) -> bool:
    found = match.group()
    if found.startswith("\n"):
        return len(found) > 1 or not _is_wrapped(text, match.start(), match.end())
    if found == ".":
        before = text[max(begin, match.start() - 12) : match.end()]
        if _ABBREVIATION.search(before):
            return False
        # "1. First step": the number of an item is not a sentence.
        return not text[begin : match.start()].strip().isdecimal()
    return True


def _is_wrapped(text: str, line_end: int, next_start: int) -> bool:
    line = text[text.rfind("\n", 0, line_end) + 1 : line_end].rstrip()
    following = text[next_start : next_start + 40]
    if len(line) < _MIN_WRAPPED_CHARACTERS or line.endswith((":", "：", "|")) or line.lstrip().startswith(("|", "#")):
        return False
    return " | " not in line and not _NEW_ITEM.match(following)


def _append(spans: list[SentenceSpan], text: str, begin: int, end: int) -> None:
    piece = text[begin:end]
    stripped = piece.strip()
    if stripped:
        start = begin + len(piece) - len(piece.lstrip())
        spans.append(SentenceSpan(start, start + len(stripped)))
