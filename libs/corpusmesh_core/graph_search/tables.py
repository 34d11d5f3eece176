"""Entities, relations and reports as one text: CSV tables as in the seed (`000_3271a9def2ed8e29.txt`, 3.3)."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.token_estimate import cut_to_tokens, estimate_tokens

ENTITY_HEADER: Final = "---- Entities ----\nEntity,Type,Score,Description"
RELATION_HEADER: Final = "---- Relations ----\nFrom Entity,To Entity,Score,Description"
REPORT_HEADER: Final = "---- Community Report ----"
_MAX_TEXT_TOKENS: Final = 400
"""Of one description: no entity may fill a table."""
_MIN_REPORT_TOKENS: Final = 64


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table.

    Attributes:
        names: Name of an entity and its type; or the names of both ends of a relation.
        score: Its score.
        text: What is said of it.
    """

    names: tuple[str, str]
    score: float
    text: str

    @property
    def line(self) -> str:
        """As CSV, on one line: what documents say cannot add a line or a column."""
        buffer = io.StringIO()
        text = cut_to_tokens(_flat(self.text), _MAX_TEXT_TOKENS)
        csv.writer(buffer, lineterminator="").writerow([*map(_flat, self.names), f"{self.score:.2f}", text])
        return buffer.getvalue()


def table_text(
    entities: Sequence[str], relations: Sequence[str], reports: Sequence[tuple[str, str]] = (), *, max_tokens: int
) -> str:
    """Put lines and reports together.

    Args:
        entities: Lines of entities.
        relations: Lines of relations.
        reports: Titles and texts of reports; what does not fit is cut off.
        max_tokens: Most tokens of all.

    Returns:
        The text; "" where there is nothing.
    """
    parts: list[str] = []
    left = max_tokens
    for header, lines in ((ENTITY_HEADER, entities), (RELATION_HEADER, relations)):
        taken = [header]
        left -= estimate_tokens(header)
        for line in lines:
            cost = estimate_tokens(line) + 1
            if cost <= left:
                taken.append(line)
                left -= cost
        if len(taken) > 1:
            parts.append("\n".join(taken))
    for title, text in reports:
        room = left - estimate_tokens(f"{REPORT_HEADER}\n## {title}\n")
        if room < _MIN_REPORT_TOKENS:
            break
        parts.append(f"{REPORT_HEADER}\n## {_flat(title)}\n{cut_to_tokens(text.strip(), room)}")
        left = room - min(room, estimate_tokens(text))
    return "\n\n".join(parts)


def cut_table(text: str, max_tokens: int) -> str:
    """Shorten a table at the end of a line.

    Args:
        text: Text of `table_text`.
        max_tokens: Most tokens.

    Returns:
        Whole lines of each part, in proportion to their size, headers with them.
    """
    total = estimate_tokens(text)
    if total <= max_tokens:
        return text
    parts: list[str] = []
    for part in text.split("\n\n"):
        left = max_tokens * estimate_tokens(part) // total
        taken: list[str] = []
        for line in part.split("\n"):
            cost = estimate_tokens(line) + 1
            if cost > left:
                break
            taken.append(line)
            left -= cost
        if len(taken) > 1:
            parts.append("\n".join(taken))
    return "\n\n".join(parts)


def _flat(text: str) -> str:
    return " ".join(text.split())
