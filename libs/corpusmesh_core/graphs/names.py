"""Names of entities as rules compare them."""

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from corpusmesh_core.graphs.keys import canonical_name

_CACHED: Final = 65_536
_UNSPACED: Final = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)
_ROMAN: Final = re.compile(r"(?=[ivxlcdm])m{0,3}(?:c[md]|d?c{0,3})(?:x[cl]|l?x{0,3})(?:i[xv]|v?i{0,3})")
_DIGITS: Final = re.compile(r"\d+")
_CHINESE_NUMERALS: Final = frozenset("〇零一二三四五六七八九十百千万亿两甲乙丙丁戊己庚辛壬癸")
_NUMBER_WORDS: Final = {
    word: str(value)
    for value, words in enumerate(
        (
            "zero",
            "one first",
            "two second",
            "three third",
            "four fourth",
            "five fifth",
            "six sixth",
            "seven seventh",
            "eight eighth",
            "nine ninth",
            "ten tenth",
            "eleven eleventh",
            "twelve twelfth",
            "thirteen thirteenth",
            "fourteen fourteenth",
            "fifteen fifteenth",
        )
    )
    for word in words.split()
}


@dataclass(frozen=True, slots=True)
class NamedEntity:
    """A name that may be that of another name's entity.

    Attributes:
        name: As it is written.
        type: Type in lower case; "" where unknown, which any type may be.
    """

    name: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class NameForm:
    """A name in the forms that rules compare.

    Attributes:
        canonical: See `corpusmesh_core.graphs.keys.canonical_name`.
        words: Its words.
        letters: Its letters and digits without spaces.
        is_unspaced: Whether it is of a script written without spaces, or in syllables: one character tells much.
        numbers: Numbers that it holds, however they are written, ascending.
        digits: Those written in digits, in order.
    """

    canonical: str
    words: tuple[str, ...]
    letters: str
    is_unspaced: bool
    numbers: tuple[str, ...]
    digits: tuple[str, ...]


@lru_cache(maxsize=_CACHED)
def form_of(name: str) -> NameForm:
    """Bring a name into the forms that rules compare.

    Args:
        name: As it is written.

    Returns:
        The forms.
    """
    canonical = canonical_name(name)
    words = tuple(canonical.split())
    is_unspaced = bool(_UNSPACED.search(canonical))
    numbers = _numbers(words, is_unspaced)
    return NameForm(canonical, words, "".join(words), is_unspaced, numbers, tuple(_DIGITS.findall(canonical)))


def _numbers(words: tuple[str, ...], is_unspaced: bool) -> tuple[str, ...]:
    found = []
    for place, word in enumerate(words):
        if digits := _DIGITS.findall(word):
            found.extend(digits)
        elif word in _NUMBER_WORDS:
            found.append(_NUMBER_WORDS[word])
        elif place and len(word) <= _MAX_ROMAN and _ROMAN.fullmatch(word):
            found.append(str(_roman_value(word)))
        elif is_unspaced:
            found.extend(character for character in word if character in _CHINESE_NUMERALS)
    return tuple(sorted(found))


def _roman_value(word: str) -> int:
    values = [_ROMAN_VALUES[letter] for letter in word]
    return sum(-value if value < after else value for value, after in zip(values, [*values[1:], 0], strict=True))


def edit_distance(first: str, second: str, at_most: int) -> int:
    """Count insertions, deletions and substitutions that make one text of another.

    Args:
        first: One text.
        second: The other.
        at_most: Distance beyond which the number does not matter.

    Returns:
        The distance, or at_most + 1 if it is larger.

    References:
        Myers, "A fast bit-vector algorithm for approximate string matching", JACM 1999; one step a character.
    """
    if abs(len(first) - len(second)) > at_most:
        return at_most + 1
    if not first or not second:
        return max(len(first), len(second))
    places: dict[str, int] = {}
    for place, character in enumerate(first):
        places[character] = places.get(character, 0) | 1 << place
    every, last = (1 << len(first)) - 1, 1 << (len(first) - 1)
    rises, falls, distance = every, 0, len(first)
    for character in second:
        equal = places.get(character, 0)
        diagonal = (((equal & rises) + rises) ^ rises) | equal | falls
        up, down = falls | (every & ~(diagonal | rises)), rises & diagonal
        distance += bool(up & last) - bool(down & last)
        up = (up << 1) | 1
        rises = ((down << 1) | (every & ~(diagonal | up))) & every
        falls = up & diagonal & every
    return min(distance, at_most + 1)


def shared_characters(first: str, second: str) -> tuple[int, float]:
    """Count the characters that two texts share, each once.

    Args:
        first: One text.
        second: The other.

    Returns:
        How many, and their share of all that either has (Jaccard).
    """
    one, other = set(first), set(second)
    shared = len(one & other)
    return shared, shared / len(one | other) if one or other else 1.0


def bigram_difference(first: str, second: str) -> set[str]:
    """Find the pairs of neighbouring characters that only one of two texts has.

    Args:
        first: One text.
        second: The other.

    Returns:
        The pairs.
    """
    return {first[at : at + 2] for at in range(len(first) - 1)} ^ {second[at : at + 2] for at in range(len(second) - 1)}


def word_difference(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Find the words that only one of two names has, each as often as it has it more.

    Args:
        first: Words of one.
        second: Words of the other.

    Returns:
        Words of the first alone and of the second alone, ascending.
    """
    one, other = Counter(first), Counter(second)
    return sorted((one - other).elements()), sorted((other - one).elements())


_ROMAN_VALUES: Final = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100, "d": 500, "m": 1000}
_MAX_ROMAN: Final = 6
