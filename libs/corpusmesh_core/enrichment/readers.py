"""Checks what a model answered about one item: whatever does not fit is dropped, and a bad entry is none.

What comes in is untrusted (invariant 9): no markup, no addresses, no control characters, no lengths beyond what was
asked for, no sentences where words were wanted (field report FR-A08).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from corpusmesh_core.citation.answer_filter import filter_answer
from corpusmesh_core.citation.sentences import split_sentences
from corpusmesh_core.enrichment.memories import MAX_DETAILS_CHARACTERS, MAX_TOPIC_CHARACTERS
from corpusmesh_core.enrichment.propositions import MAX_PER_CHUNK
from corpusmesh_core.enrichment.questions import MAX_QUESTION_CHARACTERS
from corpusmesh_core.enrichment.schema import MetadataField
from corpusmesh_core.enrichment.statements import is_chinese
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.tenancy.values import MetadataValue

SCORE_COUNT: Final = 4
"""Accuracy, clarity, completeness, conciseness."""
_MAX_KEYWORD_CHARACTERS: Final = 64
_MAX_KEYWORD_WORDS: Final = 6
_MAX_PROPOSITION_CHARACTERS: Final = 500
_MAX_PROSE_CHARACTERS: Final = 20_000
_MAX_LEVEL: Final = 6
_CONTROLS: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]+"
)
_MARKUP: Final = re.compile(r"</?[a-zA-Z][^>]*>|[{}<>\\`|]|\w\[|\*\*|https?:|www\.", re.IGNORECASE)
_THINKING: Final = re.compile(
    r"^(?:wait|okay|ok|hmm|let me|sure|note|actually|i think|here (?:is|are))\b[,: ]", re.IGNORECASE
)
_LABELED: Final = re.compile(r"^\s*(?:\d{1,2}[.)、]|[-*•]|[QqAa问答]\d*\s*[:：])\s*")


def read_keywords(entry: Mapping[str, object], *, count: int) -> tuple[str, ...] | None:
    """Read `{"keywords": [text]}`.

    Args:
        entry: The model's entry.
        count: Most keywords.

    Returns:
        Distinct keywords in order; None if none is one.
    """
    found: dict[str, str] = {}
    for text in _texts(entry.get("keywords")):
        keyword = text.strip(" .,;:，。；：、#")
        is_phrase = 0 < len(keyword) <= _MAX_KEYWORD_CHARACTERS and len(keyword.split()) <= _MAX_KEYWORD_WORDS
        if is_phrase and not _MARKUP.search(keyword) and not _THINKING.match(keyword) and keyword[-1] not in "?？!！":
            found.setdefault(keyword.casefold(), keyword)
    return tuple(found.values())[:count] or None


def read_questions(entry: Mapping[str, object], *, count: int) -> tuple[str, ...] | None:
    """Read `{"questions": [text]}`.

    Args:
        entry: The model's entry.
        count: Most questions.

    Returns:
        Distinct questions in order, possibly none where the model gave an empty list; None if it gave no good one.
    """
    listed = entry.get("questions")
    if isinstance(listed, list) and not listed:
        return ()
    found: dict[str, str] = {}
    for text in _texts(listed):
        question = _LABELED.sub("", text)
        if not question.endswith(("?", "？")):
            question = question.rstrip(".。 ") + ("？" if is_chinese(question) else "?")
        if 4 <= len(question) <= MAX_QUESTION_CHARACTERS and not _MARKUP.search(question):
            found.setdefault(question.casefold(), question)
    return tuple(found.values())[:count] or None


def read_prose(entry: Mapping[str, object], key: str, counter: TextTokenizer, *, max_tokens: int) -> str | None:
    """Read `{"summary": text}` or `{"context": text}`.

    Args:
        entry: The model's entry.
        key: Name of the text.
        counter: Counts tokens.
        max_tokens: Longest text; a longer one loses its last sentences.

    Returns:
        The text without links and images; None if it is none, or if its first sentence is too long.
    """
    text = _prose(entry.get(key), _MAX_PROSE_CHARACTERS)
    if text is None:
        return None
    if counter.count_tokens([text])[0] <= max_tokens:
        return text
    ends = [span.end for span in split_sentences(text)]
    starts = [text[:end] for end in ends]
    fitting = [start for start, size in zip(starts, counter.count_tokens(starts), strict=True) if size <= max_tokens]
    return fitting[-1] if fitting else None


def read_propositions(entry: Mapping[str, object]) -> tuple[str, ...] | None:
    """Read `{"propositions": [text]}`.

    Args:
        entry: The model's entry.

    Returns:
        Distinct statements in order; None if none is one.
    """
    found: dict[str, None] = {}
    for text in _texts(entry.get("propositions")):
        statement = _prose(_LABELED.sub("", text), _MAX_PROPOSITION_CHARACTERS)
        if statement and not statement.endswith(("?", "？")):
            found.setdefault(statement)
    return tuple(found)[:MAX_PER_CHUNK] or None


def read_scores(entry: Mapping[str, object], *, count: int) -> tuple[tuple[int, ...], ...] | None:
    """Read `{"scores": [[accuracy, clarity, completeness, conciseness]]}`.

    Args:
        entry: The model's entry.
        count: Statements that were to be scored.

    Returns:
        Four whole numbers from 1 to 10 for each; None if it is anything else.
    """
    listed = entry.get("scores")
    if not isinstance(listed, list) or len(listed) != count:
        return None
    rows: list[tuple[int, ...]] = []
    for row in listed:
        values = list(row.values()) if isinstance(row, dict) else row
        numbers = (
            [number for value in values if (number := _whole(value, 1, 10)) is not None] if _is_list(values) else []
        )
        if len(numbers) != SCORE_COUNT or len(values) != SCORE_COUNT:
            return None
        rows.append(tuple(numbers))
    return tuple(rows)


def read_pairs(entry: Mapping[str, object], *, count: int) -> tuple[tuple[str, str], ...] | None:
    """Read `{"pairs": [{"topic": text, "details": text}]}`.

    Args:
        entry: The model's entry.
        count: Most pairs.

    Returns:
        Topics and details; None if no pair is one.
    """
    found: list[tuple[str, str]] = []
    listed = entry.get("pairs")
    for pair in listed if isinstance(listed, list) else []:
        if isinstance(pair, dict):
            topic = _prose(pair.get("topic"), MAX_TOPIC_CHARACTERS)
            details = _prose(pair.get("details"), MAX_DETAILS_CHARACTERS)
            if topic and details:
                found.append((topic, details))
    return tuple(found[:count]) or None


def read_toc_title(entry: Mapping[str, object]) -> str | None:
    """Read `{"title": text or -1}`.

    Args:
        entry: The model's entry.

    Returns:
        The title, "" for -1; None if it is neither.
    """
    title = entry.get("title")
    if (isinstance(title, int) and not isinstance(title, bool)) or title in ("-1", "", None):
        return "" if "title" in entry else None
    text = _clean(title)
    return text if text and not _MARKUP.search(text) else None


def read_levels(entry: Mapping[str, object], *, count: int) -> tuple[int, ...] | None:
    """Read `{"levels": [number]}`.

    Args:
        entry: The model's entry.
        count: Titles that were asked about.

    Returns:
        A level from 1 to 6 for each; None if it is anything else.
    """
    listed = entry.get("levels")
    if not isinstance(listed, list) or len(listed) != count:
        return None
    levels = [level for value in listed if (level := _whole(value, 1, _MAX_LEVEL)) is not None]
    return tuple(levels) if len(levels) == count else None


def read_values(
    entry: Mapping[str, object], fields: Sequence[MetadataField]
) -> tuple[dict[str, MetadataValue], tuple[MetadataField, ...]] | None:
    """Read `{"values": {name: value or null}}`.

    Args:
        entry: The model's entry.
        fields: The fields that were asked for.

    Returns:
        Checked values by name, and the fields whose value was bad; None if there is no object of values.
    """
    values = entry.get("values")
    if not isinstance(values, dict):
        return None
    kept: dict[str, MetadataValue] = {}
    bad: list[MetadataField] = []
    for known in fields:
        value = values.get(known.name)
        if value is None or value in ("", "null", "None", "N/A"):
            continue
        checked = known.normalize(value)
        if checked is None:
            bad.append(known)
        else:
            kept[known.name] = checked
    return kept, tuple(bad)


def _texts(value: object) -> list[str]:
    return [text for item in value if (text := _clean(item))] if isinstance(value, list) else []


def _clean(value: object) -> str:
    return " ".join(_CONTROLS.sub(" ", value).split()) if isinstance(value, str) else ""


def _prose(value: object, most: int) -> str | None:
    """Clean a text of sentences: markers, links and images are taken out of it as they are out of an answer."""
    text = _clean(value)
    if not text or len(text) > most:
        return None
    plain, _ = filter_answer(text, ())
    plain = plain.strip()
    return plain if any(char.isalnum() for char in plain) else None


def _whole(value: object, least: int, most: int) -> int | None:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value.strip()[:4])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most else None


def _is_list(value: object) -> bool:
    return isinstance(value, list)
