"""Guesses the language of a text from its scripts and, for Latin letters, its commonest words."""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice

_SAMPLE_BLOCKS = 400
_SAMPLE_CHARACTERS = 20_000
_MIN_LETTERS = 4
_LONE_LETTER_WEIGHT = 0.2
_MIN_FOREIGN_CHARACTERS = 12
_FOREIGN_SAMPLE_CHARACTERS = 400
_CLEAR_FACTOR = 3
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff]+")
_JAPANESE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
_KANA = re.compile("[\u3040-\u30ff]+")
# Letters of other alphabets and scripts; marks and symbols that Latin texts use too lie elsewhere.
_NOT_LATIN = re.compile("[\u0370-\u1dff\u2c00-\u2dff\u3040-\ud7ff\uf900-\ufdff\ufe70-\ufefc]")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]+")
_OTHER_SCRIPTS = (
    ("ko", re.compile("[\uac00-\ud7a3]+")),
    ("ar", re.compile("[\u0600-\u06ff\ufb50-\ufdff\ufe70-\ufefc]+")),
    ("he", re.compile("[\u0590-\u05ff]+")),
    ("ru", re.compile("[\u0400-\u04ff]+")),
    ("el", re.compile("[\u0370-\u03ff]+")),
    ("th", re.compile("[\u0e00-\u0e7f]+")),
    ("hi", re.compile("[\u0900-\u097f]+")),
)
_OWN_SCRIPTS = frozenset(["zh", "ja", "ko", "ar", "he", "ru", "el", "th", "hi", "fa", "ur", "uk", "bg", "sr"])
# A Chinese character says about as much as two or three letters of an alphabet.
_HAN_WEIGHT = 2.5
_COMMON_WORDS = {
    "en": frozenset(
        [
            "the",
            "of",
            "and",
            "to",
            "in",
            "is",
            "that",
            "for",
            "it",
            "with",
            "as",
            "was",
            "on",
            "are",
            "be",
            "this",
            "by",
            "from",
        ]
    ),
    "de": frozenset(
        [
            "der",
            "die",
            "und",
            "das",
            "ist",
            "nicht",
            "ein",
            "eine",
            "mit",
            "von",
            "zu",
            "den",
            "auf",
            "für",
            "im",
            "werden",
            "sich",
            "dem",
        ]
    ),
    "fr": frozenset(
        [
            "le",
            "la",
            "les",
            "des",
            "et",
            "est",
            "une",
            "dans",
            "pour",
            "que",
            "qui",
            "sur",
            "pas",
            "avec",
            "au",
            "par",
            "du",
            "ce",
        ]
    ),
    "es": frozenset(
        [
            "el",
            "la",
            "los",
            "las",
            "de",
            "que",
            "y",
            "en",
            "un",
            "una",
            "es",
            "por",
            "con",
            "para",
            "del",
            "se",
            "no",
            "al",
        ]
    ),
    "it": frozenset(
        [
            "il",
            "la",
            "di",
            "che",
            "e",
            "un",
            "una",
            "per",
            "non",
            "sono",
            "con",
            "del",
            "della",
            "le",
            "gli",
            "nel",
            "si",
        ]
    ),
    "pt": frozenset(
        ["o", "a", "os", "as", "de", "que", "e", "em", "um", "uma", "é", "por", "com", "para", "do", "da", "não", "se"]
    ),
    "nl": frozenset(
        [
            "de",
            "het",
            "een",
            "en",
            "van",
            "is",
            "dat",
            "niet",
            "op",
            "te",
            "zijn",
            "met",
            "voor",
            "aan",
            "door",
            "er",
            "ook",
        ]
    ),
}


def detect_language(texts: Iterable[str]) -> str:
    """Guess the language of most of some texts.

    Args:
        texts: Texts of one document; the first few thousand words are looked at.

    Returns:
        BCP 47 primary tag, "" where there is too little to go by.
    """
    sample = " ".join(text[:2_000] for text in islice(texts, _SAMPLE_BLOCKS))[:_SAMPLE_CHARACTERS]
    latin = _letter_count(_LATIN, sample)
    if not _NOT_LATIN.search(sample):
        return _latin_language(sample) if latin >= _MIN_LETTERS else ""
    han, kana = _letter_count(_HAN, sample), _letter_count(_KANA, sample)
    scores = {tag: float(_letter_count(pattern, sample)) for tag, pattern in _OTHER_SCRIPTS}
    if kana * 8 > han:
        scores["ja"] = _HAN_WEIGHT * (han + kana)
    else:
        scores["zh"] = _HAN_WEIGHT * han
    best = max(scores, key=lambda tag: scores[tag])
    if max(scores[best], latin) < _MIN_LETTERS:
        return ""
    return best if scores[best] >= latin else _latin_language(sample)


def believed_language(declared: str, found: str) -> str:
    """Decide between the language that a document gives itself and the one that its letters show.

    Args:
        declared: BCP 47 tag, "" where it gives none.
        found: What `detect_language` found.

    Returns:
        BCP 47 primary tag; what was found wins where the scripts differ, as pages often declare a default.
    """
    tag = re.split("[-_]", declared.strip().lower(), maxsplit=1)[0]
    if not tag.isalpha() or not 2 <= len(tag) <= 3:
        return found
    if not found:
        return tag
    return tag if found in _COMMON_WORDS and tag not in _OWN_SCRIPTS else found


def foreign_language(text: str, of_document: str) -> str:
    """Find the language of a passage whose script differs clearly from its document's.

    Args:
        text: The passage.
        of_document: The document's language, "" where unknown.

    Returns:
        BCP 47 primary tag; "" where the passage is short, or of the document's script.
    """
    is_latin = not of_document or of_document in _COMMON_WORDS
    if len(text) < _MIN_FOREIGN_CHARACTERS or (is_latin and (text.isascii() or not _NOT_LATIN.search(text))):
        return ""
    sample = text[:_FOREIGN_SAMPLE_CHARACTERS]
    found = detect_language([sample])
    if not found or found == of_document or (is_latin and found in _COMMON_WORDS):
        return ""
    # A Chinese text may quote English words and a Korean one Chinese characters: most letters decide, by a wide margin.
    own = _letters_of(sample, of_document)
    return found if _letters_of(sample, found) > _CLEAR_FACTOR * own else ""


def _letters_of(sample: str, tag: str) -> int:
    scripts = dict(_OTHER_SCRIPTS) | {"zh": _HAN, "ja": _JAPANESE}
    return _letter_count(scripts.get(tag, _LATIN), sample)


def _letter_count(runs: re.Pattern[str], sample: str) -> int:
    # A pattern of runs: one match for each letter would cost ten times as much.
    return sum(map(len, runs.findall(sample)))


def _latin_language(sample: str) -> str:
    words = re.findall(r"[^\W\d_]+", sample.lower())
    held = Counter(words)
    # A lone letter is a word in some languages, and a list mark or part of a number in all: it counts for little.
    counts = {
        tag: sum([held[word] for word in common if len(word) > 1])
        + _LONE_LETTER_WEIGHT * sum([held[word] for word in common if len(word) == 1])
        for tag, common in _COMMON_WORDS.items()
    }
    best = max(counts, key=lambda tag: counts[tag])
    return best if counts[best] * 20 >= len(words) and counts[best] >= 1 else ""
