"""What of a community a language model reads for its report: some of its entities, relations and sentences each."""

from collections.abc import Callable, Sequence
from typing import Final

from corpusmesh_core.graphs.reports import MAX_ENTITIES, ReportInput

_SHARES: Final = (0.4, 0.6, 1.0)
"""Of what is left of the room, for entities, then relations, then sentences."""


def report_excerpt(
    given: ReportInput, *, max_tokens: int, count_tokens: Callable[[Sequence[str]], list[int]]
) -> tuple[str, ...]:
    """Choose the lines that a model reads, so that a large community is not told by its names alone.

    Args:
        given: The community.
        max_tokens: Most tokens of all lines.
        count_tokens: Counts the tokens of texts.

    Returns:
        Lines, whole, the most important of each kind first: those of entities, relations and sentences, each within a
        share of the room; what one kind does not need is left to the others. None where no line fits.
    """
    kinds = _kinds(given)
    counts = [count_tokens(lines) for lines in kinds]
    chosen: list[list[str]] = []
    left = max_tokens
    for lines, tokens, share in zip(kinds, counts, _SHARES, strict=True):
        later = sum(map(sum, counts[len(chosen) + 1 :]))
        room = max(int(share * left), left - later)
        kept: list[str] = []
        for line, count in zip(lines, tokens, strict=True):
            if count > room:
                break
            room -= count
            left -= count
            kept.append(line)
        chosen.append(kept)
    return tuple(line for kept in chosen for line in kept)


def _kinds(given: ReportInput) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """Cut the lines of a community where those of entities and those of relations end."""
    lines = given.lines
    ranked = sorted(given.entities, key=lambda entity: (-entity.rank, entity.key))[:MAX_ENTITIES]
    keys = {entity.key for entity in ranked}
    first = len(ranked)
    second = first + sum(bool(item.text) and {item.source, item.target} <= keys for item in given.relations)
    return lines[:first], lines[first:second], lines[second:]
