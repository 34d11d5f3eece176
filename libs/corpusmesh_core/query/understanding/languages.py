"""Which language a question is in, and which languages it can be asked in."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

LANGUAGE_NAMES: Final[Mapping[str, str]] = {
    "ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "es": "Spanish",
    "fa": "Persian", "fi": "Finnish", "fr": "French", "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian",
    "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "no": "Norwegian",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sv": "Swedish", "th": "Thai",
    "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
"""English names of the languages that a question is translated into, by BCP 47 primary tag."""
_SCRIPTS: Final = (
    ("ja", re.compile(r"[\u3041-\u30fa]")),
    ("ko", re.compile(r"[\uac00-\ud7a3]")),
    ("zh", re.compile(r"[\u3400-\u9fff]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
    ("ar", re.compile(r"[\u0600-\u06ff]")),
    ("el", re.compile(r"[\u0370-\u03ff]")),
    ("he", re.compile(r"[\u0590-\u05ff]")),
    ("hi", re.compile(r"[\u0900-\u097f]")),
    ("th", re.compile(r"[\u0e00-\u0e7f]")),
)
_SCRIPT_BY_LANGUAGE: Final = {**dict(_SCRIPTS), "uk": dict(_SCRIPTS)["ru"], "fa": dict(_SCRIPTS)["ar"]}
_LETTER: Final = re.compile(r"[^\W\d_]")
_COMMON_WORDS: Final = """
en the of and what which who how is are does do did when where why in to for can with was were a
de der die das und was wie ist sind wer wann wo warum welche welcher für mit ein eine nicht von
fr le la les des et qui quel quelle comment est sont quand où pourquoi pour avec une du que dans
es el los las qué cómo cuál quién es son cuándo dónde por para con una del de y en cuánto
it il gli che come qual chi è sono quando dove perché per con una del della di e nel quanto
pt o os as que como qual quem é são quando onde por para com uma do da de e em quanto
nl de het een wat hoe welke wie is zijn wanneer waar waarom voor met van en niet
"""
_LATIN_WORDS: Final[Mapping[str, frozenset[str]]] = {
    line.split()[0]: frozenset(line.split()[1:]) for line in _COMMON_WORDS.strip().splitlines()
}
_MIN_SHARE: Final = 0.2


def language_of(text: str) -> str:
    """Guess the language of a question.

    Args:
        text: The question.

    Returns:
        BCP 47 primary tag; "" where nothing tells, as in a name alone.
    """
    letters = len(_LETTER.findall(text))
    for language, script in _SCRIPTS:
        if letters and len(script.findall(text)) >= _MIN_SHARE * letters:
            return language
    words = re.findall(r"[^\W\d_]+", text.lower())
    hits = {language: sum(word in known for word in words) for language, known in _LATIN_WORDS.items()}
    best = max(hits, key=lambda language: hits[language])
    return best if hits[best] else ""


def is_written_in(text: str, language: str) -> bool:
    """Say whether a text can be in a language, by its script.

    Args:
        text: The text.
        language: BCP 47 primary tag.

    Returns:
        Whether at least a fifth of its letters are of the script of the language, or, for a language in Latin letters,
        of no other one.
    """
    letters = len(_LETTER.findall(text))
    own = _SCRIPT_BY_LANGUAGE.get(language)
    if not letters:
        return False
    if own is not None:
        return len(own.findall(text)) >= _MIN_SHARE * letters
    return all(len(script.findall(text)) < _MIN_SHARE * letters for _, script in _SCRIPTS)


def languages_to_ask_in(question: str, languages: Iterable[str], *, most: int) -> tuple[str, ...]:
    """Choose the languages that a question is asked in besides its own.

    Args:
        question: The question.
        languages: Languages that are wanted, or that the records have, BCP 47 tags, most important first.
        most: Most languages.

    Returns:
        Known primary tags, distinct, without the question's own.
    """
    own = language_of(question)
    tags = (language.strip().lower().partition("-")[0] for language in languages)
    return tuple(dict.fromkeys(tag for tag in tags if tag in LANGUAGE_NAMES and tag != own))[:most]
