"""What a question may name: every row of its words, to be looked up among the names of a graph without a round trip."""

from typing import Final

from corpusmesh_core.graphs.extraction.sentences import sentence_spans
from corpusmesh_core.graphs.extraction.spelled_names import WORD, capitalised_inside, spelled_names
from corpusmesh_core.graphs.extraction.unspaced_names import QUOTED, UNSPACED, unspaced_names
from corpusmesh_core.text import is_stop_word

MAX_NAMES: Final = 1_000
"""Most names of a question."""
_MAX_CHARACTERS: Final = 4_000
_MAX_WORDS: Final = 8
_MAX_RUN: Final = 12
_MIN_RUN: Final = 2


def names_in(question: str) -> tuple[str, ...]:
    """List what a question may name.

    Args:
        question: The question; of one with more than 4,000 characters, the beginning.

    Returns:
        At most MAX_NAMES distinct names: first those that look like names, then every row of one to eight words that
        neither begins nor ends with a function word, of scripts without spaces every row of 2 to 12 characters; the
        longest first. Most of them are no names: they are to be looked up.
    """
    text = question[:_MAX_CHARACTERS]
    found: dict[str, None] = {}
    spans = list(sentence_spans(text))
    known = capitalised_inside(text, spans)
    for start, end in spans:
        found.update((name.name, None) for name in spelled_names(text, start, end, known))
        if UNSPACED.search(text, start, end):
            found.update((word.name, None) for word in unspaced_names(text, start, end))
    found.update((match.group(1).strip(), None) for match in QUOTED.finditer(text))
    for row in (*_word_rows(text), *_character_rows(text)):
        if len(found) >= MAX_NAMES:
            break
        found[row] = None
    return tuple(found)[:MAX_NAMES]


def _word_rows(text: str) -> list[str]:
    words = [(match.start(), match.end()) for match in WORD.finditer(text)]
    is_telling = [not is_stop_word(text[start:end].lower()) for start, end in words]
    rows: list[str] = []
    for width in range(min(_MAX_WORDS, len(words)), 0, -1):
        for first in range(len(words) - width + 1):
            last = first + width - 1
            # "The Wall" and "Who" are names too where they are written so.
            if (is_telling[first] or text[words[first][0]].isupper()) and (
                is_telling[last] or text[words[last][0]].isupper()
            ):
                rows.append(" ".join(text[words[first][0] : words[last][1]].split()))
    return rows


def _character_rows(text: str) -> list[str]:
    rows: list[str] = []
    start = 0
    while start < len(text):
        if UNSPACED.match(text[start]) is None and text[start] not in "·・":
            start += 1
            continue
        end = start
        while end < len(text) and (UNSPACED.match(text[end]) is not None or text[end] in "·・"):
            end += 1
        run = text[start:end]
        for width in range(min(_MAX_RUN, len(run)), _MIN_RUN - 1, -1):
            rows.extend(run[first : first + width] for first in range(len(run) - width + 1))
        start = end
    # The longest of all runs first.
    return sorted(rows, key=len, reverse=True)
