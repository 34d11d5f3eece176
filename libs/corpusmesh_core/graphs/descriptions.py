"""What documents say of an entity or a relation, put together from what the caller may see."""

from collections.abc import Iterable
from typing import Final

MAX_DESCRIPTION_CHARACTERS: Final = 4000
"""Longest description that is put together."""


def assembled_description(fragments: Iterable[str], *, max_characters: int = MAX_DESCRIPTION_CHARACTERS) -> str:
    """Put together what documents say.

    Args:
        fragments: What each says, the most telling first; what says the same as one before, or is a part of it, is left
            out.
        max_characters: Longest description; the first fragment alone is cut, others are left out whole.

    Returns:
        The fragments, a line each; "" for none.
    """
    lines: list[str] = []
    length = 0
    for fragment in fragments:
        line = " ".join(fragment.split())
        if not line or any(line.casefold() in kept.casefold() for kept in lines):
            continue
        if lines and length + 1 + len(line) > max_characters:
            break
        lines.append(line[:max_characters])
        length += len(lines[-1]) + 1
    return "\n".join(lines)
