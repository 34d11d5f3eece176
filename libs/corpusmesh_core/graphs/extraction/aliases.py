"""Forms of one name within a document: acronyms, short forms of a full name, and titles with and without brackets."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from corpusmesh_core.graphs.extraction.unspaced_names import UNSPACED
from corpusmesh_core.graphs.extraction.wordlists import SMALL_WORDS
from corpusmesh_core.graphs.keys import canonical_name

_BRACKETS: Final = re.compile(r"\s{0,4}[(（][^()（）]{0,200}[)）]\s{0,4}$")
_ACRONYM: Final = re.compile(r"[A-Z][A-Z0-9&]{1,9}")
ACRONYM_BEHIND: Final = re.compile(
    r"\s?[(（]\s?(?:the\s|or\s|abbreviated\s)?[\"“']?([A-Z][A-Za-z0-9&.\-]{1,11})[\"”']?\s?[)）]"
)
"""An acronym in brackets right behind a name."""
_MIN_SHORT_CHARACTERS: Final = 3
_MAX_FULL_WORDS: Final = 5


def bare_title(title: str) -> str:
    """Take an addition in brackets off a title.

    Args:
        title: Title, such as "Planet of the Apes (2001 film)".

    Returns:
        The title without it; the title itself where it has none or nothing would be left.
    """
    return _BRACKETS.sub("", title).strip() or title


def is_acronym_of(short: str, full: str) -> bool:
    """Tell whether a word is made of the first letters of a name.

    Args:
        short: The word.
        full: The name.

    Returns:
        Whether the letters are those of the name's words, small words counted or not.
    """
    letters = short.replace(".", "").replace("-", "").lower()
    words = canonical_name(full).split(" ")
    if len(letters) < 2 or len(words) < 2:
        return False
    return letters in (
        "".join(word[0] for word in words),
        "".join(word[0] for word in words if word not in SMALL_WORDS),
    )


def acronym_pairs(names: Iterable[str]) -> Mapping[str, str]:
    """Find acronyms of which a document names what they stand for.

    Args:
        names: Names of one document.

    Returns:
        Full name by acronym; an acronym that several names fit is left out.
    """
    full_by_letters: dict[str, set[str]] = defaultdict(set)
    acronyms: list[str] = []
    for name in names:
        if _ACRONYM.fullmatch(name) is not None:
            acronyms.append(name)
            continue
        words = canonical_name(name).split(" ")
        if 2 <= len(words) <= 10:
            full_by_letters["".join(word[0] for word in words)].add(name)
            full_by_letters["".join(word[0] for word in words if word not in SMALL_WORDS)].add(name)
    found: dict[str, str] = {}
    for acronym in acronyms:
        fitting = full_by_letters.get(acronym.lower(), set())
        if len(fitting) == 1:
            found[acronym] = next(iter(fitting))
    return found


def short_forms(names: Iterable[str], people: Iterable[str]) -> Mapping[str, str]:
    """Find names of one word that are the first or last word of exactly one longer name of the document.

    Args:
        names: Names of one document.
        people: Those of them that may be persons, whose names are shortened.

    Returns:
        Longer name by short form, as "Euler" for "Leonhard Euler".
    """
    full_by_word: dict[str, set[str]] = defaultdict(set)
    for name in people:
        if bare_title(name) != name:
            # "Planet (2001 film)" and "Planet" are names of their own.
            continue
        words = name.split(" ")
        if UNSPACED.search(name) is not None:
            words = name.split("·")
        if 2 <= len(words) <= _MAX_FULL_WORDS and not SMALL_WORDS.intersection(words[1:]):
            full_by_word[words[0]].add(name)
            full_by_word[words[-1]].add(name)
    found: dict[str, str] = {}
    for name in names:
        if " " in name or len(name) < (_MIN_SHORT_CHARACTERS if name.isascii() else 2):
            continue
        fitting = full_by_word.get(name, set()) - {name}
        if len(fitting) == 1:
            found[name] = next(iter(fitting))
    return found
