"""Whether two names are one entity: the seed's rule, and a stricter one that is the default (ADR-0014).

The seed's rule (`000_3271a9def2ed8e29.txt`, section 3) makes a choice of pairs that a language model then confirms. It
joins "Johann Bernoulli" with "Jakob Bernoulli" and "World War I" with "World War II"; where nobody confirms, names must
differ in how they are written and in nothing else.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from corpusmesh_core.graphs.names import (
    NamedEntity,
    NameForm,
    bigram_difference,
    edit_distance,
    form_of,
    shared_characters,
    word_difference,
)

_Named: TypeAlias = tuple[NamedEntity, NameForm]


class SimilarityRule(StrEnum):
    """When two names are one without anybody's confirmation."""

    STRICT = "strict"
    SEED = "seed"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule says of two names.

    Attributes:
        similar: Whether they are one entity.
        reason: Why, for people to read; why not, where they are not.
        score: How sure, 0 to 1; 0 where they are not.
        doubtful: Whether vectors or a language model should be asked, where they are not.
    """

    similar: bool
    reason: str
    score: float = 0.0
    doubtful: bool = False


def is_similar(a: NamedEntity, b: NamedEntity, rule: SimilarityRule = SimilarityRule.STRICT) -> Verdict:
    """Say whether two names are one entity; it does not matter which is named first.

    Args:
        a: One name.
        b: The other.
        rule: SEED for the seed's rule alone.

    Returns:
        The verdict.
    """
    if a.type and b.type and a.type != b.type:
        return Verdict(False, "other types")
    first, second = form_of(a.name), form_of(b.name)
    if first.canonical > second.canonical:
        a, b, first, second = b, a, second, first
    if not first.letters or not second.letters:
        return Verdict(False, "no letters")
    seed_score = seed_similarity(first, second)
    if rule == SimilarityRule.SEED:
        return Verdict(seed_score > 0.0, _SEED_REASON if seed_score else "not similar", seed_score)
    if first.letters == second.letters and first.digits == second.digits:
        if _is_one_word(a, b, first, second):
            return Verdict(True, "same letters", 1.0)
        return Verdict(False, "written otherwise", doubtful=True)
    if first.numbers != second.numbers:
        return Verdict(False, "other numbers")
    strict = _unspaced_verdict if first.is_unspaced or second.is_unspaced else _spaced_verdict
    reason, score = strict((a, first), (b, second))
    if score:
        return Verdict(True, reason, score)
    is_doubtful = not reason and ((seed_score > 0.0 and _is_word_for_word(first, second)) or _may_be(first, second))
    return Verdict(False, reason or ("written otherwise" if is_doubtful else "not similar"), doubtful=is_doubtful)


def seed_similarity(first: NameForm, second: NameForm) -> float:
    """Apply the seed's rule.

    Args:
        first: One name.
        second: The other.

    Returns:
        How much of them agrees, above 0 and at most 1, if the rule holds them to be similar; else 0.
    """
    one, other = first.canonical, second.canonical
    if any(any(map(str.isdigit, pair)) for pair in bigram_difference(one, other)):
        return 0.0
    if not first.is_unspaced and not second.is_unspaced:
        shorter = min(len(one), len(other))
        distance = edit_distance(one, other, shorter // 2)
        return 1.0 - distance / max(len(one), len(other)) if distance <= shorter // 2 else 0.0
    shared, share = shared_characters(one, other)
    if max(len(set(one)), len(set(other))) < _FEW_CHARACTERS:
        return share if shared > 1 else 0.0
    return share if share >= _SEED_SHARE else 0.0


def _is_one_word(a: NamedEntity, b: NamedEntity, first: NameForm, second: NameForm) -> bool:
    """Whether names of the same letters differ in spaces and signs alone: not "Fr" and "F. R.", "II-IV" and "III-V"."""
    if len(first.letters) <= _SHORT and not first.is_unspaced:
        return a.name.isupper() and b.name.isupper() and not _APOSTROPHES & set(a.name + b.name)
    return [word for word in first.words if word in _NUMERALS] == [word for word in second.words if word in _NUMERALS]


def _spaced_verdict(one: _Named, other: _Named) -> tuple[str, float]:
    """Compare names of words; a reason without a score forbids that anybody joins them."""
    (a, first), (b, second) = one, other
    mine, theirs = word_difference(first.words, second.words)
    if any(word in _OPPOSED and counterpart in _OPPOSED[word] for word in mine for counterpart in theirs):
        return "opposite words", 0.0
    if not mine and not theirs:
        has_comma = _is_reversed(first, second) and _COMMA.search(a.name + b.name)
        return ("same words in another order", 0.95) if has_comma else ("", 0.0)
    if _is_company(one, other) or _is_company(other, one):
        return "legal form", 0.9
    if "person" in (a.type, b.type) and _is_titled(first, second):
        return "title of a person", 0.9
    if len(first.words) != len(second.words) or len(mine) != 1 or len(theirs) != 1:
        return "", 0.0
    place = next(at for at, word in enumerate(first.words) if word != second.words[at])
    if (first.words[place], second.words[place]) != (mine[0], theirs[0]):
        return "", 0.0
    commons = _is_common(a) + _is_common(b)
    has_title = _TITLE_ARTICLE.match(a.name) or _TITLE_ARTICLE.match(b.name)
    if (
        commons
        and not has_title
        and place == len(first.words) - 1
        and _is_plural(*sorted((mine[0], theirs[0]), key=len))
    ):
        return "singular and plural", 0.9
    # A name of one word that is spelled otherwise is as often another name: Monterey and Monterrey.
    if (commons == _BOTH or len(first.words) > 1) and _is_spelling(mine[0], theirs[0], len(first.words)):
        return "spelling", 0.8
    return "", 0.0


def _is_common(entity: NamedEntity) -> bool:
    """Whether it is called by nouns, not by a name."""
    return entity.type == "category" or (not entity.type and entity.name.split()[-1][:1].islower())


def _is_reversed(first: NameForm, second: NameForm) -> bool:
    """Whether one name begins with what the other ends with: "Bernoulli, Johann"."""
    words = first.words
    return 2 <= len(words) <= _MAX_REVERSED and any(
        words[at:] + words[:at] == second.words for at in range(1, len(words))
    )


def _is_company(bare: _Named, full: _Named) -> bool:
    """Whether names are one but for a company's legal form."""
    (a, first), (b, second) = bare, full
    if {a.type, b.type} - {"organization", ""} or _is_common(a):
        return False
    left, right = without_tail(first.words), without_tail(second.words)
    if left != right or second.words == right:
        return False
    if first.words != left or a.type == "organization" or len(left) > 1:
        return True
    # One word, such as "News", is a company's name where the form is one that nothing but companies have.
    return second.words[-1] in _CLEAR_FORMS and len(left[0]) > _SHORT


def _is_titled(first: NameForm, second: NameForm) -> bool:
    """Whether names are one but for titles that do not tell persons apart, as "Bishop" and "Mrs." do."""
    left, right = without_head(first.words), without_head(second.words)
    return left == right and len(left) > 1 and left[0] not in _SMALL_WORDS


def without_tail(words: tuple[str, ...]) -> tuple[str, ...]:
    """Take a company's legal form off a name.

    Args:
        words: Its words.

    Returns:
        Those that are left, one at least.
    """
    end = len(words)
    while end > 1 and words[end - 1] in _LEGAL_FORMS:
        end -= 1
    return words[:end]


def without_head(words: tuple[str, ...]) -> tuple[str, ...]:
    """Take a person's titles off a name.

    Args:
        words: Its words.

    Returns:
        Those that are left, one at least.
    """
    start = 0
    while start < len(words) - 1 and words[start] in _TITLES:
        start += 1
    return words[start:]


def _is_plural(shorter: str, longer: str) -> bool:
    if len(shorter) < _MIN_PLURAL or shorter.endswith("s"):
        return False
    return longer in (f"{shorter}s", f"{shorter}es") or (shorter.endswith("y") and longer == f"{shorter[:-1]}ies")


def _is_spelling(one: str, other: str, word_count: int) -> bool:
    """Whether two words are one word written in two ways: the differences that transcription and typing make."""
    shorter, longer = sorted((one, other), key=len)
    if len(shorter) < (_MIN_SPELLED if word_count > 1 else _MIN_SPELLED_ALONE) or shorter[0] != longer[0]:
        return False
    if shorter + shorter[-1] == longer and word_count == 1:
        # Princes and princess.
        return False
    if _evened(shorter) == _evened(longer) or _is_swap(shorter, longer):
        return True
    return sounds(shorter) == sounds(longer) and edit_distance(shorter, longer, 1) == 1


def sounds(word: str) -> str:
    """Bring a word into a form that does not depend on how its sounds are written.

    Args:
        word: A word, or several.

    Returns:
        The form: equal for two transcriptions of a name, not to be read.
    """
    even = _evened(word)
    return "".join(letter for at, letter in enumerate(even) if not at or letter != even[at - 1])


def _evened(word: str) -> str:
    for written, sound in _SPELLINGS:
        word = word.replace(written, sound)
    return word


def _is_swap(one: str, other: str) -> bool:
    """Whether two neighbouring letters inside a long word have changed places: that is typed, and nobody's name."""
    if len(one) != len(other) or len(one) < _MIN_SWAPPED:
        return False
    at = next(place for place, letter in enumerate(one) if letter != other[place])
    return 0 < at < len(one) - 2 and one[:at] + one[at + 1] + one[at] + one[at + 2 :] == other


def _unspaced_verdict(one: _Named, other: _Named) -> tuple[str, float]:
    """Compare names in which one character tells much; a reason without a score forbids that anybody joins them."""
    (a, first), (b, second) = sorted((one, other), key=lambda named: len(named[1].letters))
    shorter, longer = first.letters, second.letters
    is_company = a.type == "organization" and b.type in ("organization", "")
    if is_company and longer.startswith(shorter) and longer[len(shorter) :] in UNSPACED_FORMS:
        return "legal form", 0.9
    if a.type == b.type == "person" and _is_transcribed(first.words, second.words):
        return "transcription", 0.8
    if (set(shorter) ^ set(longer)) & _TELLING:
        return "telling character", 0.0
    return "", 0.0


def _is_transcribed(fewer: tuple[str, ...], more: tuple[str, ...]) -> bool:
    """Whether one part of a foreign name, such as the last of two, has a character more behind its first."""
    if len(fewer) != len(more) or len(fewer) < _BOTH:
        return False
    different = [(one, other) for one, other in zip(fewer, more, strict=True) if one != other]
    if len(different) != 1:
        return False
    one, other = different[0]
    if len(one) < _MIN_TRANSCRIBED or len(other) != len(one) + 1:
        return False
    at = next((place for place, letter in enumerate(one) if letter != other[place]), len(one))
    return at > 0 and one[at:] == other[at + 1 :] and other[at] not in _TELLING


def _is_word_for_word(first: NameForm, second: NameForm) -> bool:
    """Whether no word stands in place of a quite different one: nobody asks whether two dukes are one."""
    if first.is_unspaced or len(first.words) != len(second.words):
        return True
    pairs = zip(first.words, second.words, strict=True)
    return all(edit_distance(one, other, (half := min(len(one), len(other)) // 2)) <= half for one, other in pairs)


def _may_be(first: NameForm, second: NameForm) -> bool:
    """Whether one name may be the other in a way that the seed's rule does not see."""
    if first.is_unspaced or second.is_unspaced:
        return False
    return _is_reversed(first, second) or _may_stand_for(first, second) or _may_stand_for(second, first)


def _may_stand_for(short: NameForm, long: NameForm) -> bool:
    """Whether a short name may be another's acronym, or the same person's with fewer words."""
    if len(short.words) == 1 and short.letters == acronym_of(long.words):
        return True
    if len(short.words) < 2 or len(long.words) < len(short.words):
        return False
    rest = iter(long.words)
    is_like = all(any(_abbreviates(word, full) for full in rest) for word in short.words)
    return is_like and short.words[-1] == long.words[-1]


def _abbreviates(word: str, full: str) -> bool:
    return word == full or (len(word) == 1 and full.startswith(word))


def acronym_of(words: tuple[str, ...]) -> str:
    """Make the acronym of a name.

    Args:
        words: Its words.

    Returns:
        First letters of its words but small ones; "" if there are fewer than two or more than eight of them.
    """
    letters = [word[0] for word in words if word not in _SMALL_WORDS]
    return "".join(letters) if _MIN_ACRONYM <= len(letters) <= _MAX_ACRONYM else ""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _opposed() -> dict[str, frozenset[str]]:
    groups = (
        "north south east west northern southern eastern western northeast northwest southeast southwest central",
        "upper lower middle",
        "new old",
        "men women mens womens boys girls male female",
        "senior junior sr jr",
        "great greater little lesser",
        "early late",
        "inner outer",
        "internal external",
        "first last second third final",
        "king queen prince princess duke duchess lord lady mr mrs",
        "spring summer autumn fall winter",
        "january february march april may june july august september october november december",
        "monday tuesday wednesday thursday friday saturday sunday",
        "input output",
        "indoor outdoor",
        "domestic international national regional",
    )
    found: dict[str, frozenset[str]] = {}
    for group in groups:
        words = _words(group)
        for word in words:
            found[word] = found.get(word, frozenset()) | (words - {word})
    return found


_SEED_REASON: Final = "similar by the seed's rule"
_SEED_SHARE: Final = 0.8
_FEW_CHARACTERS: Final = 4
_MIN_PLURAL: Final = 4
_MIN_SPELLED: Final = 5
_MIN_SPELLED_ALONE: Final = 7
_MIN_SWAPPED: Final = 7
_MIN_TRANSCRIBED: Final = 3
_BOTH: Final = 2
_MAX_REVERSED: Final = 4
_MIN_ACRONYM: Final = 2
_MAX_ACRONYM: Final = 8
_OPPOSED: Final = _opposed()
_SMALL_WORDS: Final = _words("of the and for in on at to a an de la le du des der die das und et y del di")
_LEGAL_FORMS: Final = _words(
    "inc incorporated corp corporation co company ltd limited llc llp plc gmbh ag sa nv bv srl pty"
)
_CLEAR_FORMS: Final = _words("inc incorporated corp ltd llc llp plc gmbh")
_TITLES: Final = _words(
    "mr ms dr prof professor sir president senator governor general colonel captain lieutenant major admiral judge"
)
UNSPACED_FORMS: Final = ("股份有限公司", "有限责任公司", "有限公司", "集团公司", "株式会社", "公司", "集团")
"""Legal forms behind names without spaces, the longest first."""
_APOSTROPHES: Final = frozenset("'\u2019")
_TITLE_ARTICLE: Final = re.compile("(?:The|A|An) ")
"""Before what is called by a title: "The Drive" is none of several drives."""
_COMMA: Final = re.compile("[,，]")
_NUMERALS: Final = _words("ii iii iv vi vii viii ix xi xii xiii xiv xv xvi xvii xviii xix xx")
_SHORT: Final = 3
_TELLING: Final = frozenset(
    "〇零一二三四五六七八九十百千万亿两甲乙丙丁戊己庚辛壬癸东南西北中上下前后左右内外大小新旧老少男女父母子孙正副总分省市县区州国"
)
_SPELLINGS: Final = (
    ("ael", "a-el"), ("ae", "e"), ("oe", "o"), ("ue", "u"), ("ph", "f"), ("th", "t"), ("ck", "k"), ("c", "k"),
    ("y", "i"), ("j", "i"), ("z", "s"), ("w", "v"), ("dh", "d"), ("gh", "g"),
)  # fmt: skip
"""Ways of writing that two transcriptions of one name differ in, in the order in which they are evened out."""
