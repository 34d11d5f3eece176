"""Names in scripts with capitals: runs of capitalised words, cleaned of what only stands at the head of a sentence.

On 2wiki the spans contain the name of the next page in 99.8 % of the places where a passage names it; what makes them
exact is where they begin and end, which the rules below are about.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from corpusmesh_core.graphs.extraction.wordlists import (
    CALENDAR,
    FORMS_OF_ADDRESS,
    NAME_PARTICLES,
    NOBLE_TITLES,
    NUMERALS,
    OPENERS,
    TITLE_PARTICLES,
)
from corpusmesh_core.graphs.keys import MAX_NAME_CHARACTERS
from corpusmesh_core.text import is_stop_word

_LETTER: Final = r"[^\W_]"
WORD: Final = re.compile(rf"{_LETTER}+(?:['’.\-–]{_LETTER}+)*")
"""A word of a spaced script, with what may stand inside it."""
_POSSESSIVE: Final = re.compile(r"(?<=[^\W_])['’]s?$")
_LEFT_OFF: Final = NOBLE_TITLES - {"saint", "st"}
_MAX_BETWEEN: Final = 2
_MAX_OPENING: Final = 8
_MAX_BETWEEN_NAMES: Final = 12
_MAX_SPAN_WORDS: Final = 8
_APPOSITION: Final = re.compile(r",\s+(?:the\s+)?(?:\d{1,2}(?:st|nd|rd|th)\s+)?")


@dataclass(frozen=True, slots=True)
class Found:
    """A name at a place.

    Attributes:
        name: The name, white space folded.
        start: First character.
        end: Position behind its last.
        is_part: Whether it stands inside a longer name, and is only maybe meant.
    """

    name: str
    start: int
    end: int
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class _Word:
    start: int
    end: int
    text: str
    follows_small: str = ""


def spelled_names(text: str, start: int, end: int, known: Collection[str]) -> Iterator[Found]:
    """Find the names of a sentence.

    Args:
        text: The text.
        start: Where the sentence begins.
        end: Where it ends.
        known: Words in lower case that stand capitalised inside a sentence or a title somewhere: such a word is a name
            also at the head of a sentence.

    Yields:
        Names in order; parts of a name behind it.
    """
    if _is_shouted(text, start, end):
        return
    before: Found | None = None
    for span in _spans(text, start, end):
        is_first = (
            not text[start : min(span[0].start, start + _MAX_OPENING)].strip("\"'“‘([*_# ")
            and span[0].start < start + _MAX_OPENING
        )
        for found in _of_span(text, span, is_first=is_first, known=known):
            yield found
            if not found.is_part:
                joined = _joined(text, before, found)
                before = found
                if joined is not None:
                    yield joined


def capitalised_inside(text: str, spans: Collection[tuple[int, int]]) -> frozenset[str]:
    """List the words that are written with a capital though they do not begin a sentence.

    Args:
        text: The text.
        spans: Its sentences.

    Returns:
        The words in lower case.
    """
    found: set[str] = set()
    for start, end in spans:
        if _is_shouted(text, start, end):
            continue
        words = WORD.finditer(text, start, end)
        next(words, None)
        found.update(word.lower() for match in words if (word := match.group())[0].isupper())
    return frozenset(found)


def _joined(text: str, before: Found | None, found: Found) -> Found | None:
    """Join a name with what is set behind it: "Lambert, Margrave of Tuscany", "Claire's Knee"."""
    if before is None or found.start - before.end > _MAX_BETWEEN_NAMES:
        return None
    gap = text[before.end : found.start]
    is_title = _APPOSITION.fullmatch(gap) is not None and found.name.split(" ", 1)[0].lower() in NOBLE_TITLES
    if not is_title and not (gap == " " and _POSSESSIVE.search(text, before.start, before.end) is not None):
        return None
    return Found(
        " ".join(text[before.start : found.end].split())[:MAX_NAME_CHARACTERS], before.start, found.end, is_part=True
    )


def _is_shouted(text: str, start: int, end: int) -> bool:
    """Tell a sentence that is written in capitals, where they tell nothing."""
    sentence = text[start:end]
    upper = sum(map(str.isupper, sentence))
    return upper > 12 and upper > 0.6 * sum(map(str.isalpha, sentence))


def _spans(text: str, start: int, end: int) -> Iterator[list[_Word]]:
    span: list[_Word] = []
    small: list[str] = []
    last_end = start
    for match in WORD.finditer(text, start, end):
        word = match.group()
        gap = text[last_end : match.start()]
        if span and not _joins(gap, span[-1].text, has_small=bool(small)):
            yield span
            span, small = [], []
        last_end = match.end()
        if (
            word[0].isupper()
            or word[:3] in ("al-", "el-")
            or (word[0].isdigit() and span and not small and len(word) <= 4)
        ):
            between = " ".join(small)
            if span and small and not _is_joint(small):
                yield span
                span, between = [], ""
            span.append(_Word(match.start(), match.end(), word, between))
            small = []
            if _POSSESSIVE.search(word) is not None or len(span) >= _MAX_SPAN_WORDS:
                yield span
                span = []
        elif span and len(small) < _MAX_BETWEEN and (word in NAME_PARTICLES or word in TITLE_PARTICLES):
            small.append(word)
        elif span:
            yield span
            span, small = [], []
    if span:
        yield span


def _joins(gap: str, before: str, *, has_small: bool) -> bool:
    """Tell whether what stands between two words lets them be one name."""
    stripped = gap.strip()
    if not stripped:
        return "\n" not in gap
    if stripped == ".":
        return len(before) <= 3 and not has_small
    return stripped in ("&", "'", "’") and not has_small


def _is_joint(small: list[str]) -> bool:
    return (
        small[0] in NAME_PARTICLES or small == ["and"] or (small[0] in TITLE_PARTICLES and len(small) <= _MAX_BETWEEN)
    )


def _of_span(text: str, span: list[_Word], *, is_first: bool, known: Collection[str]) -> Iterator[Found]:
    if is_first:
        span = _without_opener(span, known)
    span = _without_edges(span)
    if not span:
        return
    pieces = _pieces(span)
    if len(pieces) > 1:
        # "Gone with the Wind" or "Guy and Lambert": both readings are kept, the whole as the one that may be wrong.
        whole = _found(text, span, is_part=True)
        if whole is not None:
            yield whole
    for piece in pieces:
        piece = _without_edges(piece)
        if not piece:
            continue
        found = _found(text, piece)
        if found is not None:
            yield found
            yield from _parts(text, piece)


def _pieces(span: list[_Word]) -> list[list[_Word]]:
    pieces: list[list[_Word]] = [[]]
    for word in span:
        if pieces[-1] and word.follows_small.split(" ")[0] in TITLE_PARTICLES:
            pieces.append([])
        pieces[-1].append(word)
    return pieces


def _parts(text: str, piece: list[_Word]) -> Iterator[Found]:
    """Give what a name names besides: "Hesse" in "Landgrave of Hesse", "Barack Obama" in "President Barack Obama"."""
    first = _noble_words(piece)
    if first:
        found = _found(text, piece[first:], is_part=True)
        if found is not None:
            yield found
    for place in range(first + 1, len(piece)):
        if piece[place].follows_small in ("of", "of the"):
            for part in (piece[:place], piece[place:]):
                found = _found(text, part, is_part=True) if len(part) > 1 or part is not piece[:place] else None
                if found is not None and found.name.lower() not in NOBLE_TITLES:
                    yield found
            break


def _noble_words(piece: list[_Word]) -> int:
    """Say how many words at the head of a name are a title of a person that more words follow."""
    first = 0
    while first < len(piece) - 1 and piece[first].text.lower() in _LEFT_OFF:
        first += 1
    return first if not piece[first].follows_small else 0


def without_noble_title(name: str) -> str:
    """Take a title off a name of which at least two words are left, so that all documents name the person alike.

    Args:
        name: Name, such as "King Eric XIV of Sweden".

    Returns:
        The name without it, "Eric XIV of Sweden"; the name itself where it has none, as "Queen Victoria".
    """
    words = name.split(" ")
    first = 0
    while first < len(words) and words[first].lower() in _LEFT_OFF:
        first += 1
    rest = words[first:]
    return " ".join(rest) if first and len(rest) > 1 and rest[0].lower() not in NAME_PARTICLES else name


def _without_opener(span: list[_Word], known: Collection[str]) -> list[_Word]:
    first = span[0].text.lower()
    if first in OPENERS or is_stop_word(first):
        return span[1:]
    if len(span) == 1 and first not in known and not any(map(str.isupper, span[0].text[1:])) and _looks_common(first):
        return []
    return span


@lru_cache(maxsize=50_000)
def _looks_common(word: str) -> bool:
    """Tell words that are hardly names by their endings: adverbs, participles, abstract nouns."""
    return word.endswith(("ly", "ing", "tion", "ness", "ment", "ed", "ism", "ity", "ous", "ive", "able", "s'"))


def _without_edges(span: list[_Word]) -> list[_Word]:
    """Drop dates, figures and forms of address at the ends."""
    first, last = 0, len(span)
    while first < last and (_is_date(span[first].text) or (last - first > 1 and _is_address(span[first].text))):
        first += 1
    while last > first and _is_calendar(span[last - 1].text):
        last -= 1
    return span[first:last]


def _is_date(word: str) -> bool:
    return word[0].isdigit() or _is_calendar(word)


def _is_calendar(word: str) -> bool:
    return word.lower() in CALENDAR and word.lower() != "may"


def _is_address(word: str) -> bool:
    return word.lower().rstrip(".") in FORMS_OF_ADDRESS


def _found(text: str, words: list[_Word], *, is_part: bool = False) -> Found | None:
    start, end = words[0].start, words[-1].end
    name = _POSSESSIVE.sub("", " ".join(text[start:end].split()))[:MAX_NAME_CHARACTERS]
    lowered = name.lower()
    if len(words) == 1 and (
        len(name) < 2 or lowered in NUMERALS or lowered in OPENERS or lowered in CALENDAR or is_stop_word(lowered)
    ):
        return None
    return Found(name, start, end, is_part)
