"""What to ask next, without a language model: the parts that are missing, or what leads on from what was found.

A question that asks for two things is taken into its parts. One that asks for a thing by way of another ("the spouse of
the director of the film") is led on by the names that the best passage brings in: each is asked together with the words
that are still without an answer.
"""

import re
from collections.abc import Sequence
from typing import Final

from corpusmesh_core.query.understanding.parts import general_question, parts_of
from corpusmesh_core.text import analyze, is_stop_word, normalize

_WORD: Final = re.compile(r"[^\W\d_][\w'\u2019-]*")
_JOINING: Final = frozenset(
    ["of", "the", "de", "del", "della", "di", "da", "du", "van", "von", "bin", "al", "la", "le"]
)
_MAX_JOINING: Final = 2
_QUOTED_NAME: Final = re.compile(r"[《「『]([^《》「」『』\n]{2,40})[》」』]")
_SENTENCE_START: Final = re.compile(r"(?:^|[.!?。！？\n]\s*)$")
_MAX_READ_CHARACTERS: Final = 1_500
_MAX_NAME_CHARACTERS: Final = 80


def next_questions(
    question: str, missing: Sequence[str], passages: Sequence[str], *, max_count: int
) -> tuple[str, ...]:
    """Make the questions that a question is taken apart into.

    Args:
        question: The question.
        missing: What is missing, from `check_sufficiency`.
        passages: What was found, the best first; the first two are read for names.
        max_count: Most questions.

    Returns:
        Questions or phrases that can be searched by themselves; none where nothing leads on.
    """
    found: dict[str, str] = {}

    def add(text: str) -> None:
        flat = " ".join(text.split())
        if flat and normalize(flat) != normalize(question):
            found.setdefault(normalize(flat), flat)

    parts = parts_of(question)
    for part in parts:
        if not missing or part in missing:
            add(part)
    if not parts:
        open_words = " ".join(word for word in missing if normalize(word) != normalize(question))
        for name in bridging_names(question, passages[:2], max_count=max(1, max_count - 1)):
            add(f"{name} {open_words}")
        add(general_question(question))
    return tuple(found.values())[:max_count]


def bridging_names(question: str, passages: Sequence[str], *, max_count: int) -> tuple[str, ...]:
    """Name what passages bring in that the question does not know.

    Args:
        question: The question.
        passages: Texts, the best first.
        max_count: Most names.

    Returns:
        Names of persons, places, works as they are written: runs of capitalised words, and what Chinese text puts in
        title marks; those that come up most often first, then in reading order.
    """
    known = frozenset(analyze(question).fine)
    counts: dict[str, int] = {}
    names: dict[str, str] = {}
    for passage in passages:
        text = passage[:_MAX_READ_CHARACTERS]
        for name in (*_capitalised(text), *(match.group(1) for match in _QUOTED_NAME.finditer(text))):
            terms = analyze(name).fine
            if not terms or len(name) > _MAX_NAME_CHARACTERS or all(term in known for term in terms):
                continue
            key = normalize(name)
            names.setdefault(key, name)
            counts[key] = counts.get(key, 0) + 1
    order = {key: place for place, key in enumerate(names)}
    best = sorted(names, key=lambda key: (-counts[key], order[key]))
    return tuple(names[key] for key in best[:max_count])


def _capitalised(text: str) -> list[str]:
    """Find runs of capitalised words with nothing but one blank, or "of the" and the like, between them."""
    names: list[str] = []
    words = list(_WORD.finditer(text))
    place = 0
    while place < len(words):
        if not words[place].group()[0].isupper():
            place += 1
            continue
        end = place
        for ahead in range(place + 1, len(words)):
            is_apart = text[words[ahead - 1].end() : words[ahead].start()] != " "
            if is_apart or ahead - end > _MAX_JOINING + 1:
                break
            if words[ahead].group()[0].isupper():
                end = ahead
            elif words[ahead].group() not in _JOINING:
                break
        first = place + is_stop_word(normalize(words[place].group()))
        is_alone = first == end and _SENTENCE_START.search(text[: words[first].start()][-4:]) is not None
        # One capitalised word at the beginning of a sentence may be any word.
        if first <= end and not is_alone:
            names.append(text[words[first].start() : words[end].end()])
        place = end + 1
    return names
