"""Reads what a model answered in a step of understanding, strictly: what does not fit is no answer (invariant 9).

What is made here is searched for and shown, and never followed: still no markup, no addresses, no control characters
and no lengths beyond what a question has.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from corpusmesh_core.enrichment.schema import FieldType, MetadataField
from corpusmesh_core.query.understanding.conditions import MAX_CONDITIONS, checked_condition, is_said
from corpusmesh_core.query.understanding.languages import is_written_in
from corpusmesh_core.query.understanding.parts import MAX_PARTS
from corpusmesh_core.query.understanding.words import is_telling, words_of
from corpusmesh_core.tenancy.visibility import FilterCondition, FilterOperator
from corpusmesh_core.text import normalize

MAX_KEYWORDS: Final = 12
"""Most keywords of one question."""
MAX_CLUES: Final = 4
"""Most clues, and most further questions, from memory records."""
_MAX_QUESTION_CHARACTERS: Final = 600
_MAX_GROWTH: Final = 4
_MAX_KEYWORD_CHARACTERS: Final = 64
_MAX_CLUE_CHARACTERS: Final = 200
_MIN_PASSAGE_CHARACTERS: Final = 40
_MAX_PASSAGE_CHARACTERS: Final = 3_000
_MAX_LISTED: Final = 64
_MARKUP: Final = re.compile(r"</?[a-zA-Z][^>]*>|[{}<>\\`|]|\[[^\]]*\]\(|\*\*|https?:|www\.", re.IGNORECASE)
_CONTROLS: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)
# What models say about their answer in place of it.
_TALK: Final = re.compile(
    r"^(?:sure|certainly|okay|ok|here (?:is|are)|as an ai|i cannot|i can't|i'm sorry|sorry|note that|the rewritten|"
    r"rewritten question|stand-?alone question|translation|好的|以下是|抱歉|作为)\b[,:： ]?",
    re.IGNORECASE,
)
_OPERATORS: Final[Mapping[str, tuple[FilterOperator, bool]]] = {
    "eq": (FilterOperator.EQUALS, False),
    "ne": (FilterOperator.EQUALS, True),
    "lt": (FilterOperator.LESS, False),
    "lte": (FilterOperator.LESS_OR_EQUAL, False),
    "gt": (FilterOperator.GREATER, False),
    "gte": (FilterOperator.GREATER_OR_EQUAL, False),
}


def read_question(question: str) -> Callable[[object], str | None]:
    """Make the reader of `{"question": text}`.

    Args:
        question: What was asked; the answer may be some times as long.

    Returns:
        A reader that gives the question, None if it is none.
    """
    most = _room(question, _MAX_QUESTION_CHARACTERS)
    return lambda answer: _line(_entry(answer, "question"), most, question)


def read_general(question: str) -> Callable[[object], str | None]:
    """Make the reader of `{"question": text or null}`, where null says that there is nothing more general.

    Args:
        question: What was asked.

    Returns:
        A reader that gives the question, "" for null or for the same question, None if it is neither.
    """

    def read(answer: object) -> str | None:
        value = _entry(answer, "question")
        if value is None:
            return "" if isinstance(answer, dict) and "question" in answer else None
        text = _line(value, _room(question, _MAX_QUESTION_CHARACTERS), question)
        return "" if text is not None and normalize(text) == normalize(question) else text

    return read


def read_parts(question: str) -> Callable[[object], tuple[str, ...] | None]:
    """Make the reader of `{"questions": [text]}`.

    Args:
        question: What was asked.

    Returns:
        A reader that gives 2 to 6 parts, none for an empty list or one part, None if an entry is no question.
    """

    def read(answer: object) -> tuple[str, ...] | None:
        listed = _entry(answer, "questions")
        if not isinstance(listed, list) or len(listed) > _MAX_LISTED:
            return None
        parts = _lines(listed, _room(question, _MAX_QUESTION_CHARACTERS), question)
        if listed and not parts:
            return None
        distinct = _without(parts, question)
        return distinct[:MAX_PARTS] if len(distinct) > 1 else ()

    return read


def read_translations(
    question: str, languages: Sequence[str]
) -> Callable[[object], tuple[tuple[str, str], ...] | None]:
    """Make the reader of `{"translations": {"zh": text}}`.

    Args:
        question: What was asked.
        languages: What it was to be translated into, BCP 47 primary tags.

    Returns:
        A reader that gives language and text of those translations that are written in their language, None if there
        is none.
    """

    def read(answer: object) -> tuple[tuple[str, str], ...] | None:
        listed = _entry(answer, "translations")
        if not isinstance(listed, dict):
            return None
        found: list[tuple[str, str]] = []
        for language in languages:
            text = _line(listed.get(language), _room(question, _MAX_QUESTION_CHARACTERS), question)
            if text is not None and is_written_in(text, language) and normalize(text) != normalize(question):
                found.append((language, text))
        return tuple(found) or None

    return read


def read_keywords(question: str) -> Callable[[object], tuple[str, ...] | None]:
    """Make the reader of `{"keywords": [text]}`.

    Args:
        question: What was asked.

    Returns:
        A reader that gives the keywords that the question holds, at most 12; None if it holds none of them.
    """
    held = normalize(question)

    def read(answer: object) -> tuple[str, ...] | None:
        listed = _entry(answer, "keywords")
        if not isinstance(listed, list):
            return None
        lines = _lines(listed[:_MAX_LISTED], _MAX_KEYWORD_CHARACTERS, question)
        kept = [
            line for line in lines if normalize(line) in held and any(is_telling(word.text) for word in words_of(line))
        ]
        return tuple(dict.fromkeys(kept))[:MAX_KEYWORDS] or None

    return read


def read_passage(answer: object) -> str | None:
    """Read `{"passage": text}`.

    Args:
        answer: The model's answer.

    Returns:
        The passage in one line; None if it is none, or too short or too long for one.
    """
    text = _line(_entry(answer, "passage"), _MAX_PASSAGE_CHARACTERS)
    return text if text is not None and len(text) >= _MIN_PASSAGE_CHARACTERS else None


def read_clues(question: str) -> Callable[[object], tuple[str, ...] | None]:
    """Make the reader of `{"clues": [text], "questions": [text]}`.

    Args:
        question: What was asked.

    Returns:
        A reader that gives the further questions and the clues, at most 4 of each, none where both lists are empty;
        None if it is no such answer.
    """

    def read(answer: object) -> tuple[str, ...] | None:
        clues, questions = _entry(answer, "clues"), _entry(answer, "questions")
        if not isinstance(clues, list) or not isinstance(questions, list):
            return None
        kept = [*_lines(questions[:_MAX_LISTED], _MAX_QUESTION_CHARACTERS)[:MAX_CLUES]]
        kept.extend(_lines(clues[:_MAX_LISTED], _MAX_CLUE_CHARACTERS)[:MAX_CLUES])
        if not kept and (clues or questions):
            return None
        return _without(kept, question)

    return read


def read_conditions(
    question: str, fields: Sequence[MetadataField]
) -> Callable[[object], tuple[FilterCondition, ...] | None]:
    """Make the reader of `{"conditions": [{"field": name, "operator": "eq", "values": [value]}]}`.

    A condition on another field, with an operator or a value that the field does not have, and one whose text the
    question does not name, is dropped; the others stand.

    Args:
        question: What was asked.
        fields: Fields that may be used.

    Returns:
        A reader that gives the conditions, at most 8; None if it is no such list.
    """
    by_name = {entry.name: entry for entry in fields}

    def read(answer: object) -> tuple[FilterCondition, ...] | None:
        listed = _entry(answer, "conditions")
        if not isinstance(listed, list):
            return None
        found = [made for item in listed[:_MAX_LISTED] for made in _condition(question, by_name, item)]
        return tuple(dict.fromkeys(found))[:MAX_CONDITIONS]

    return read


def _condition(question: str, fields: Mapping[str, MetadataField], item: object) -> tuple[FilterCondition, ...]:
    if not isinstance(item, dict):
        return ()
    name, operator, values = item.get("field"), item.get("operator", "eq"), item.get("values")
    entry = fields.get(name) if isinstance(name, str) else None
    known = _OPERATORS.get(operator) if isinstance(operator, str) else None
    values = values if isinstance(values, list) else [values]
    if entry is None or known is None or not all(isinstance(value, str | int | float | bool) for value in values):
        return ()
    if entry.type is FieldType.DATE:
        values = [str(value) for value in values]
    if entry.type is FieldType.TEXT and not all(
        isinstance(value, str) and is_said(question, value) for value in values
    ):
        return ()
    return checked_condition(entry, known[0], values, negated=known[1])


def _entry(answer: object, key: str) -> object:
    return answer.get(key) if isinstance(answer, dict) else None


def _room(question: str, least: int) -> int:
    return max(least, _MAX_GROWTH * len(question))


def _lines(listed: Sequence[object], most: int, held: str = "") -> list[str]:
    return [line for line in (_line(value, most, held) for value in listed) if line is not None]


def _line(value: object, most: int, held: str = "") -> str | None:
    """Take a text as one line; None if it is no text, too long, or has markup that the question does not have too."""
    if not isinstance(value, str):
        return None
    text = " ".join(value.split())
    if not 0 < len(text) <= most or _CONTROLS.search(text) or _TALK.match(text):
        return None
    if any(match.group() not in held for match in _MARKUP.finditer(text)):
        return None
    return text if re.search(r"\w", text) else None


def _without(texts: Sequence[str], question: str) -> tuple[str, ...]:
    """Leave out repetitions, and the question itself."""
    return tuple(text for text in _distinct(texts) if normalize(text) != normalize(question))


def _distinct(texts: Sequence[str]) -> Iterator[str]:
    seen: set[str] = set()
    for text in texts:
        folded = normalize(text)
        if folded not in seen:
            seen.add(folded)
            yield text
