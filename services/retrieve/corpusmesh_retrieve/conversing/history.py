"""Which messages of a conversation a question is continued from: the newest, within a budget."""

from collections.abc import Sequence
from dataclasses import dataclass

from corpusmesh_retrieve.outcome import PastTurn

_LATIN_CHARACTERS_PER_TOKEN = 4
_MIN_CUT_TOKENS = 40
_LAST_LATIN = 0x24F


@dataclass(frozen=True, slots=True)
class HistoryBounds:
    """How much of a conversation goes into the next question.

    Attributes:
        max_turns: Messages.
        max_tokens: Tokens of all of them, by `estimate_tokens`.
    """

    max_turns: int = 12
    max_tokens: int = 2000


@dataclass(frozen=True, slots=True)
class PastMessage:
    """A message that may be shown now.

    Attributes:
        is_user: Whether the user said it.
        text: What was said.
        sources: Ordinals that it was made from.
    """

    is_user: bool
    text: str
    sources: tuple[int, ...] = ()


def estimate_tokens(text: str) -> int:
    """Estimate tokens: a quarter for a Latin character, one for any other.

    Args:
        text: Any text.

    Returns:
        At least 1 for a text that is not empty.
    """
    latin = sum(1 for character in text if ord(character) <= _LAST_LATIN)
    return -(-latin // _LATIN_CHARACTERS_PER_TOKEN) + len(text) - latin


def select_history(
    newest_first: Sequence[PastMessage], bounds: HistoryBounds
) -> tuple[tuple[PastTurn, ...], tuple[int, ...]]:
    """Select the history of a question.

    Args:
        newest_first: Messages before the question; those without text are passed over.
        bounds: How much.

    Returns:
        Turns, oldest first, and the ordinals that they were made from, ascending. The oldest turn may be cut at its
        end, where a useful part of it is left.
    """
    turns: list[PastTurn] = []
    sources: set[int] = set()
    room = bounds.max_tokens
    for message in newest_first:
        if not message.text.strip():
            continue
        if len(turns) == bounds.max_turns or room <= 0:
            break
        text = message.text
        count = estimate_tokens(text)
        if count > room:
            text = _cut(text, room) if room >= _MIN_CUT_TOKENS else ""
            if not text:
                break
        room -= count
        turns.append(PastTurn(message.is_user, text))
        sources.update(message.sources)
    return tuple(reversed(turns)), tuple(sorted(sources))


def _cut(text: str, max_tokens: int) -> str:
    quarters = max_tokens * _LATIN_CHARACTERS_PER_TOKEN
    for place, character in enumerate(text):
        quarters -= 1 if ord(character) <= _LAST_LATIN else _LATIN_CHARACTERS_PER_TOKEN
        if quarters < 0:
            return text[:place]
    return text
