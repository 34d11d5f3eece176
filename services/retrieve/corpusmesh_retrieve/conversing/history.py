"""Which messages of a conversation a question is continued from: the newest, within a budget."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from corpusmesh_core.token_estimate import cut_to_tokens, estimate_tokens
from corpusmesh_retrieve.outcome import PastTurn

_MIN_CUT_TOKENS = 40
_MARKER = re.compile(r"\s?\[ID:\d+\]")


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
        knowledge_base_ids: Knowledge bases of those.
    """

    is_user: bool
    text: str
    sources: tuple[int, ...] = ()
    knowledge_base_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """What a question is continued from.

    Attributes:
        turns: Turns, oldest first.
        sources: Ordinals that they were made from, ascending.
        knowledge_base_ids: Knowledge bases of those, in order.
    """

    turns: tuple[PastTurn, ...] = ()
    sources: tuple[int, ...] = ()
    knowledge_base_ids: tuple[str, ...] = ()


def select_history(newest_first: Sequence[PastMessage], bounds: HistoryBounds) -> History:
    """Select the history of a question.

    Args:
        newest_first: Messages before the question; those without text are passed over.
        bounds: How much.

    Returns:
        The history; its oldest turn may be cut at its end, where a useful part of it is left.
    """
    turns: list[PastTurn] = []
    sources: set[int] = set()
    knowledge_base_ids: set[str] = set()
    room = bounds.max_tokens
    for message in newest_first:
        if not message.text.strip():
            continue
        if len(turns) == bounds.max_turns or room <= 0:
            break
        # Markers number the evidence of their own answer alone.
        text = message.text if message.is_user else _MARKER.sub("", message.text)
        count = estimate_tokens(text)
        if count > room:
            text = cut_to_tokens(text, room) if room >= _MIN_CUT_TOKENS else ""
            if not text:
                break
        room -= count
        turns.append(PastTurn(message.is_user, text))
        sources.update(message.sources)
        knowledge_base_ids.update(message.knowledge_base_ids)
    return History(tuple(reversed(turns)), tuple(sorted(sources)), tuple(sorted(knowledge_base_ids)))
