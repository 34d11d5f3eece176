"""Names that a text writes out: what a further search can follow.

A capitalised span is a name in alphabetic scripts, a quoted one in scripts without capitals. On 403 places where a page
of 2wiki names the page of the next hop, the capitalised spans contain 99.8 % of the names, and 75.9 % are one exactly;
parts of spans make up the difference, at no model's cost.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from corpusmesh_core.text import Script, analyze, is_stop_word, script_of

MAX_NAME_TERMS = 10
_MAX_CHARACTERS = 8_000
_MAX_SPAN_WORDS = 12
_MAX_NAMES = 400
_MAX_KNOWN_TITLES = 50_000
_MAX_KNOWN_WORDS = 50_000
_MIN_TELLING_LETTERS = 2

_LETTER = r"[^\W_]"
_INNER = rf"(?:['’.\-]{_LETTER}+)*"
_TOKEN = re.compile(rf"{_LETTER}+{_INNER}|[^\w\s]")
_MAYBE_CAPITAL = re.compile(rf"(?<!{_LETTER})(?<!{_LETTER}['’.\-])[^\W_a-z]{_LETTER}*{_INNER}")
"""Words that do not begin with a small letter of ASCII: most words are passed over without a look."""
_SMALL_WORDS = "of the de von van der and in for la di du del to on a at with from le el al und"
_BETWEEN = frozenset("&-',.!:") | frozenset(_SMALL_WORDS.split())
"""What may stand inside a name."""
_MAX_BETWEEN = 3
_QUOTED = re.compile(r"[《「『“\"]([^《》「」『』“”\"\n]{1,60})[》」』”\"]")
_ADDITION = re.compile(r"(?<!\s)\s{0,8}[(（][^()（）]{0,400}[)）]\s{0,8}$")

Terms = tuple[str, ...]
"""Fine terms in order."""


@dataclass(frozen=True, slots=True)
class Name:
    """One place where a text may name something.

    Attributes:
        terms: Fine terms of the name, at least one.
        start: Where it begins in the text, in characters.
        end: Where it ends.
    """

    terms: Terms
    start: int
    end: int

    def is_inside(self, other: "Name") -> bool:
        """Tell whether another name covers this one and more.

        Args:
            other: A name of the same text.

        Returns:
            Whether it is longer and holds this one.
        """
        return other.start <= self.start and self.end <= other.end and other.end - other.start > self.end - self.start


def find_names(text: str) -> tuple[Name, ...]:
    """Find what may be a name, with all parts of it that may be one too.

    Args:
        text: A question or a passage; of a longer one, the first 8,000 characters.

    Returns:
        At most 400 names in order, of at most 10 terms each; no name is made of function words or of figures alone.
    """
    found = dict.fromkeys(name for name in _candidates(text[:_MAX_CHARACTERS]) if _is_telling(name.terms))
    return tuple(found)[:_MAX_NAMES]


@lru_cache(maxsize=_MAX_KNOWN_TITLES)
def title_forms(title: str) -> tuple[Terms, ...]:
    """Give the names by which a text may call what a title calls so.

    Args:
        title: Title of a document.

    Returns:
        Fine terms of the title, and of the title without an addition in parentheses where it has one, as in
        "Planet of the Apes (2001 film)".
    """
    bare = _ADDITION.sub("", title)
    forms = (analyze(form).fine for form in dict.fromkeys((title, bare)))
    return tuple(dict.fromkeys(form for form in forms if form))


@dataclass(frozen=True, slots=True)
class _Word:
    """One capitalised word or figure of a span.

    Attributes:
        start: Where it begins.
        end: Where it ends.
        terms: Its fine terms.
        before: Those of the small words between the word before it and itself.
    """

    start: int
    end: int
    terms: Terms
    before: Terms


def _candidates(text: str) -> Iterator[Name]:
    for span in _spans(text):
        for first, word in enumerate(span):
            joined = word.terms
            parts = [Name(joined, word.start, word.end)]
            for other in span[first + 1 :]:
                joined = (*joined, *other.before, *other.terms)
                if len(joined) > MAX_NAME_TERMS:
                    break
                parts.append(Name(joined, word.start, other.end))
            # Whole names go first: only so many are searched.
            yield from reversed([part for part in parts if part.terms])
    for match in _QUOTED.finditer(text):
        quoted = analyze(match.group(1)).fine
        if 0 < len(quoted) <= MAX_NAME_TERMS:
            yield Name(quoted, match.start(1), match.end(1))


def _spans(text: str) -> Iterator[list[_Word]]:
    """Find runs of capitalised words and figures with at most three small words between two."""
    span: list[_Word] = []
    for match in _MAYBE_CAPITAL.finditer(text):
        token = match.group()
        if not _is_capital(token):
            continue
        between = _TOKEN.findall(text, span[-1].end, match.start()) if span else []
        joins = len(between) <= _MAX_BETWEEN and all(small.casefold() in _BETWEEN for small in between)
        if span and (not joins or len(span) >= _MAX_SPAN_WORDS):
            yield span
            span = []
        before = tuple(term for small in between for term in _terms_of(small)) if span else ()
        span.append(_Word(match.start(), match.end(), _terms_of(token), before))
    if span:
        yield span


@lru_cache(maxsize=_MAX_KNOWN_WORDS)
def _terms_of(token: str) -> Terms:
    return analyze(token).fine


def _is_capital(token: str) -> bool:
    return token[0].isupper() or token[0].isdigit()


def _is_telling(terms: Terms) -> bool:
    """Refuse function words, figures and single letters, which name nothing by themselves."""
    return any(
        not is_stop_word(term)
        and not term.isdigit()
        and (len(term) > _MIN_TELLING_LETTERS or script_of((term,)) is Script.UNSPACED)
        for term in terms
    )
