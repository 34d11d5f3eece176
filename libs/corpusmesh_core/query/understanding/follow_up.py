"""From the last turn of a conversation to a question that stands alone, without a model (seed 002, step Q1).

Words cannot be found for "and when does it end?"; the turns before have them. The rule keeps the question as it was
asked and puts behind it, in brackets, what the earlier questions were about: both legs of a search read them there, and
whoever asked sees what was added.
"""

import re
from collections.abc import Sequence
from typing import Final

from corpusmesh_core.query.understanding.words import Word, is_number, quoted_of, telling_phrases, words_of
from corpusmesh_core.text import normalize

_MAX_ADDED_CHARACTERS: Final = 160
_MAX_PHRASES: Final = 4
_MAX_TURNS_BACK: Final = 3
_MAX_SHORT_WORDS: Final = 2
_MAX_SHORT_IDEOGRAPHS: Final = 4
_PRONOUN_WORDS: Final = """
it its itself they them their theirs he him his she her hers 它 它们 他 他们 她 她们 其
"""
_PRONOUNS: Final = frozenset(_PRONOUN_WORDS.split())
"""They refer to what was said before, in the question itself or in a turn before it."""
_PERSONS: Final = frozenset(("he", "him", "his", "she", "her", "hers", "他", "她", "他们", "她们"))
_POINTER_WORDS: Final = """
this that these those such former latter 这个 那个 这些 那些 这种 那种 这样 那样 这里 那里 此 该 前者 后者 上述 这 那
这次 那次 这项 那项 这条 那条 这位 那位
"""
_POINTERS: Final = frozenset(_POINTER_WORDS.split())
_OPENERS: Final = re.compile(
    r"\s*(?:(?:and|or|but|so|then|also)\b|(?:what|how) about\b|why not\b|which (?:one|ones)\b"
    r"|(?:那么?|还有|另外|然后|而且|或者|至于)(?!种|时))",
    re.IGNORECASE,
)
_CLOSERS: Final = re.compile(r"(?:\b(?:else|as well|too|instead)|呢)\s*[?？!！.。]*\s*$", re.IGNORECASE)
# "that" joins clauses far more often than it points; "it" often stands for nothing.
_BEFORE_THAT: Final = """
about of for with to than like by in on at from into does is was did
"""
_POINTING_THAT: Final = frozenset(_BEFORE_THAT.split())
_EMPTY_IT: Final = re.compile(
    r"\b(?:is|was|will|would|does|can|could|if|when|where|that|makes?)?\s*it(?:'s)?\s+(?:is\s+|be\s+|was\s+)?"
    r"(?:possible|true|necessary|ok|okay|allowed|better|worth|safe|legal|required|mean|rain|take|cost)\b",
    re.IGNORECASE,
)
_CHINESE_PARTS: Final = re.compile(
    r"其(?=[中他它实余次后间])|(?<=[尤极及与])其|应该|该(?=不该)|那么|那(?=[就时])|此(?=[外后前时])|(?<=[因从由])此"
)
_CLAUSE: Final = re.compile(r"[?？!！。;；\n]+|(?<=[a-z0-9])\.(?=\s|$)")


def needs_context(question: str) -> bool:
    """Say whether a question can only be understood together with the turns before it.

    Args:
        question: The last turn.

    Returns:
        True if it goes on from something ("and …", "…呢"), points at something that it does not name ("it", "这个"), or
        says nothing by itself ("why?").
    """
    words = words_of(question)
    if not words:
        return False
    if _OPENERS.match(question) or _CLOSERS.search(question) or _is_short(words):
        return True
    if not any(word.is_telling for word in words) and not telling_phrases(question):
        return True
    return _points_outside(question, words)


def stand_alone(question: str, earlier: Sequence[str], said: Sequence[str] = ()) -> str:
    """Make a stand-alone question of the last turn.

    Args:
        question: The last turn.
        earlier: What the same person said before, oldest first.
        said: What was answered before, oldest first; only of the last answer, and only names in its first sentence,
            are used, and only for a question about a person ("who wrote it?" does not name the one that "she" is).

    Returns:
        The question as it was asked, with what it is about in brackets behind it; the question itself where it stands
        alone, or nothing can be added.
    """
    if not needs_context(question):
        return question
    phrases: list[str] = []
    held = normalize(question)
    for turn in list(earlier)[: -_MAX_TURNS_BACK - 1 : -1]:
        phrases.extend(_new(telling_phrases(turn), held, phrases))
        if phrases and not needs_context(turn):
            break
    if said and _PERSONS & {word.folded for word in words_of(question)}:
        first = next(filter(None, (part.strip() for part in _CLAUSE.split(said[-1]))), "")
        phrases.extend(_new(_names(first), held, phrases))
    added = _joined(phrases)
    if not added:
        return question
    is_chinese = any(word.is_ideographic for word in words_of(question))
    return f"{question.strip()}（{added}）" if is_chinese else f"{question.strip()} ({added})"


def _is_short(words: Sequence[Word]) -> bool:
    if any(is_number(word.text) and len(word.text) > 4 for word in words):
        return False
    ideographs = sum(len(word.text) for word in words if word.is_ideographic)
    others = [word for word in words if not word.is_ideographic]
    if ideographs:
        return ideographs <= _MAX_SHORT_IDEOGRAPHS and not others
    return len(others) <= _MAX_SHORT_WORDS


def _points_outside(question: str, words: Sequence[Word]) -> bool:
    if quoted_of(question):
        return False
    skipped = [match.span() for match in (*_EMPTY_IT.finditer(question), *_CHINESE_PARTS.finditer(question))]
    for place, word in enumerate(words):
        if any(start <= word.start < end for start, end in skipped):
            continue
        folded = word.folded
        # A pronoun behind a noun of the same question mostly means that noun.
        if folded in _PRONOUNS and not _names_something(words[:place]):
            return True
        is_pointer = folded != "that" or place == 0 or words[place - 1].folded in _POINTING_THAT
        if folded in _POINTERS and is_pointer and not _names_something(words[:place]):
            return True
    return False


def _names_something(words: Sequence[Word]) -> bool:
    return any(word.is_telling for word in words)


def _names(text: str) -> tuple[str, ...]:
    return tuple(phrase for phrase in telling_phrases(text) if any(char.isupper() for char in phrase))[:2]


def _new(phrases: Sequence[str], held: str, known: Sequence[str]) -> list[str]:
    folded = {normalize(phrase) for phrase in known}
    return [phrase for phrase in phrases if normalize(phrase) not in held and normalize(phrase) not in folded]


def _joined(phrases: Sequence[str]) -> str:
    text = ""
    for phrase in phrases[:_MAX_PHRASES]:
        longer = f"{text}, {phrase}" if text else phrase
        if len(longer) > _MAX_ADDED_CHARACTERS:
            break
        text = longer
    return text
