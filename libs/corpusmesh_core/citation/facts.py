"""Hard facts of a sentence: the numbers and the names that evidence must hold for the sentence to stand on it."""

import re
import unicodedata

from corpusmesh_core.text import is_stop_word

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_ITEM_NUMBER = re.compile(r"^\s*(?:[-*+•]\s+)?(?:\d{1,3}[.)、]\s*|[(（]\d{1,3}[)）]\s*)")
_THOUSANDS = re.compile(r",(?=\d{3}(?:\D|$))")
_LATIN_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_SENTENCE_SIGNS = frozenset(".!?:;。！？：；\"“'‘(（[|>*_-")
_MIN_ENGLISH_WORDS = 2
_MIN_NAME_CHARACTERS = 2
_ENGLISH_NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen twenty
""".split()  # noqa: SIM905 - a list of words reads better than a list of quoted words
_CHINESE_NUMBERS = "零一二三四五六七八九十"
_SPELT = {word: str(number) for words in (_ENGLISH_NUMBERS, _CHINESE_NUMBERS) for number, word in enumerate(words)}
_SPELT_WORD = re.compile(r"\b(?:" + "|".join(word for word in _SPELT if word.isascii()) + r")\b", re.IGNORECASE)
_SPELT_IDEOGRAPH = re.compile("[" + "".join(word for word in _SPELT if not word.isascii()) + "]")


def stated_numbers(sentence: str) -> frozenset[str]:
    """Name the numbers that a sentence states in digits.

    Args:
        sentence: One sentence without markers; the number of a list item is not stated.

    Returns:
        Numbers in one spelling: no thousands separators, no zeros behind the decimal point.
    """
    return _digits(_ITEM_NUMBER.sub("", unicodedata.normalize("NFKC", sentence)))


def held_numbers(text: str) -> frozenset[str]:
    """Name the numbers that a text holds, those in words included.

    Args:
        text: Evidence.

    Returns:
        Numbers in the spelling of `stated_numbers`; each number of one digit to twenty counts where it is spelt too.
    """
    plain = unicodedata.normalize("NFKC", text)
    spelt = {_SPELT[word.lower()] for word in _SPELT_WORD.findall(plain)}
    return _digits(plain) | spelt | {_SPELT[sign] for sign in _SPELT_IDEOGRAPH.findall(plain)}


def stated_names(sentence: str, *, min_function_words: int = _MIN_ENGLISH_WORDS) -> frozenset[str]:
    """Name what an English sentence calls by a name: words with a capital inside it, and words of capitals.

    Args:
        sentence: One sentence without markers.
        min_function_words: English function words that it must have to be taken for English; 0 where that is known.

    Returns:
        Names in lower case; none for a sentence of another language, where capitals mean something else (German) or
        there are none (Chinese).
    """
    words = [(match.start(), match.group()) for match in _LATIN_WORD.finditer(sentence)]
    english = sum(is_stop_word(word.lower()) for _, word in words)
    if english < min_function_words:
        return frozenset()
    names: set[str] = set()
    before = 0
    for start, word in words:
        # What stands right before: of a sentence without end, looking at all of it for each word would take for ever.
        last = sentence[before:start].rstrip()[-1:]
        before = start
        bare = re.sub(r"['’]s?$", "", word)
        if len(bare) < _MIN_NAME_CHARACTERS or is_stop_word(bare.lower()):
            continue
        is_first = not last or last in _SENTENCE_SIGNS
        is_name = bare[0].isupper() and (not is_first or bare[1:] != bare[1:].lower())
        if is_name:
            names.add(bare.lower())
    return frozenset(names)


def holds_name(name: str, folded: str) -> bool:
    """Tell whether a text holds a name, also as a part of a longer word, as a plural or with an ending.

    Args:
        name: In lower case.
        folded: Text in lower case.

    Returns:
        Whether it does.
    """
    return name in folded or (name.endswith("s") and name[:-1] in folded)


def _digits(text: str) -> frozenset[str]:
    return frozenset(_canonical(number) for number in _NUMBER.findall(text))


def _canonical(number: str) -> str:
    plain = _THOUSANDS.sub("", number)
    whole, point, fraction = plain.partition(".")
    fraction = fraction.rstrip("0") if "." not in fraction else fraction
    whole = whole.lstrip("0") or "0"
    return f"{whole}{point}{fraction}" if fraction else whole
