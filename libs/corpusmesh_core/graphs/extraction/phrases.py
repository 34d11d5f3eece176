"""Noun phrases of spaced scripts by rule: words in a row between function words."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from corpusmesh_core.graphs.extraction.spelled_names import WORD, Found
from corpusmesh_core.graphs.extraction.wordlists import COMMON_WORDS
from corpusmesh_core.text import is_stop_word

_MAX_WORDS: Final = 3
_MAX_RUN_WORDS: Final = 6
_MIN_LONE_CHARACTERS: Final = 5


def noun_phrases(text: str, start: int, end: int) -> Iterator[Found]:
    """Find what may be a noun phrase in a sentence.

    Args:
        text: The text.
        start: Where the sentence begins.
        end: Where it ends.

    Yields:
        Runs of one to three words; longer runs give their last words, which the phrase is about. Whether one is a topic
        shows by how often a document has it.
    """
    run: list[re.Match[str]] = []
    for match in WORD.finditer(text, start, end):
        word = match.group()
        is_content = _is_content(word)
        if run and (not is_content or text[run[-1].end() : match.start()] != " "):
            yield from _of_run(text, run)
            run = []
        if is_content and len(run) < _MAX_RUN_WORDS:
            run.append(match)
    if run:
        yield from _of_run(text, run)


def _of_run(text: str, run: list[re.Match[str]]) -> Iterator[Found]:
    while run and _is_verbal(run[-1].group()):
        run = run[:-1]
    if not run:
        return
    for width in range(min(_MAX_WORDS, len(run)), 0, -1):
        first, last = run[-width], run[-1]
        if width > 1 or len(last.group()) >= _MIN_LONE_CHARACTERS:
            yield Found(text[first.start() : last.end()], first.start(), last.end(), is_part=width < len(run))


@lru_cache(maxsize=50_000)
def _is_content(word: str) -> bool:
    lowered = word.lower()
    return not (
        lowered in COMMON_WORDS or is_stop_word(lowered) or word[0].isdigit() or len(word) < 2 or len(word) > 40
    )


def _is_verbal(word: str) -> bool:
    return word.endswith(("ed", "ing", "ly", "s'"))
