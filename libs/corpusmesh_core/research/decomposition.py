"""What to ask next, without a language model: the parts that are missing, or what leads on from what was found.

A question that asks for two things is taken into its parts. One that asks for a thing by way of another ("the spouse of
the director of the film") is led on by the names that the best passage brings in: each is asked together with the words
that are still without an answer.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from corpusmesh_core.query.understanding.parts import general_question, parts_of
from corpusmesh_core.ranking.names import find_names
from corpusmesh_core.text import analyze, is_stop_word, normalize

_SENTENCE_START: Final = re.compile(r"(?:^|[.!?。！？\n]\s*)$")
_SENTENCE_END: Final = re.compile(r"\.\s")
_MAX_READ_CHARACTERS: Final = 1_500
_MAX_NAME_CHARACTERS: Final = 80
_MAX_QUESTION_CHARACTERS: Final = 4_000


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
    question = question[:_MAX_QUESTION_CHARACTERS]
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
        title marks; those of several words before single ones, then those that come up most often.
    """
    known = frozenset(analyze(question).fine)
    counts: dict[str, int] = {}
    names: dict[str, str] = {}
    for passage in passages:
        for name in _written_names(passage[:_MAX_READ_CHARACTERS]):
            terms = analyze(name).fine
            if not terms or len(name) > _MAX_NAME_CHARACTERS or all(term in known for term in terms):
                continue
            # A date or a figure leads nowhere.
            if not any(character.isalpha() for character in name):
                continue
            key = normalize(name)
            names.setdefault(key, name)
            counts[key] = counts.get(key, 0) + 1
    order = {key: place for place, key in enumerate(names)}
    # A single word is as often an adjective or a month as a name.
    best = sorted(names, key=lambda key: (_is_single_word(names[key]), -counts[key], order[key]))
    return tuple(names[key] for key in best[:max_count])


def _is_single_word(name: str) -> bool:
    return name.isascii() and " " not in name


def _written_names(text: str) -> Iterator[str]:
    """Give the longest names of a text, without function words before them."""
    found = find_names(text)
    for name in found:
        if any(name.is_inside(other) for other in found):
            continue
        words = _SENTENCE_END.split(text[name.start : name.end])[0].split()
        is_first = _SENTENCE_START.search(text[: name.start][-4:]) is not None
        while words and is_stop_word(normalize(words[0])):
            words, is_first = words[1:], False
        # One capitalised word at the beginning of a sentence may be any word.
        if words and not (is_first and len(words) == 1 and words[0].isascii()):
            yield " ".join(words)
