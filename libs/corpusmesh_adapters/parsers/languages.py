"""Guesses the language of a text from its scripts and, for Latin letters, its commonest words."""

import re
from collections.abc import Iterable
from itertools import islice

_SAMPLE_BLOCKS = 400
_SAMPLE_CHARACTERS = 20_000
_MIN_LETTERS = 4
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_KANA = re.compile("[\u3040-\u30ff]")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
_OTHER_SCRIPTS = (
    ("ko", re.compile("[\uac00-\ud7a3]")),
    ("ar", re.compile("[\u0600-\u06ff\ufb50-\ufdff\ufe70-\ufefc]")),
    ("he", re.compile("[\u0590-\u05ff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
    ("hi", re.compile("[\u0900-\u097f]")),
)
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
    han, kana, latin = (len(pattern.findall(sample)) for pattern in (_HAN, _KANA, _LATIN))
    scores = {tag: float(len(pattern.findall(sample))) for tag, pattern in _OTHER_SCRIPTS}
    if kana * 8 > han:
        scores["ja"] = _HAN_WEIGHT * (han + kana)
    else:
        scores["zh"] = _HAN_WEIGHT * han
    best = max(scores, key=lambda tag: scores[tag])
    if max(scores[best], latin) < _MIN_LETTERS:
        return ""
    return best if scores[best] >= latin else _latin_language(sample)


def _latin_language(sample: str) -> str:
    words = re.findall(r"[^\W\d_]+", sample.lower())
    counts = {tag: sum(word in common for word in words) for tag, common in _COMMON_WORDS.items()}
    best = max(counts, key=lambda tag: counts[tag])
    return best if counts[best] * 20 >= len(words) and counts[best] > 0 else ""
