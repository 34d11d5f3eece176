"""Texts cut where a clause ends."""

import re
from typing import Final

from corpusmesh_core.ports.embedding import TextTokenizer

_CLAUSE_END: Final = re.compile(r"[,;:，；：、。！？.!?)）]+(?=\s|$|[\u3400-\u9fff])")
_LAST_BREAK: Final = re.compile(r"\s+\S*$")
_MIN_SHARE: Final = 0.5
"""A clause that ends before this share of what fits is not worth losing the rest."""
_MARK: Final = "…"


def cut_to_clause(text: str, counter: TextTokenizer | None, size: int) -> str:
    """Cut a text at the end of a clause, of a word where no clause ends in time.

    Args:
        text: The text, on one line.
        counter: Counts tokens; None for characters.
        size: Most tokens, or characters; at least 1.

    Returns:
        The text if it fits; else a beginning that ends in "…", which fits too. Not empty unless the text is.
    """
    if counter is None:
        return text if len(text) <= size else _cut(text, max(1, size - len(_MARK)))
    offsets = counter.token_offsets(text)
    if len(offsets) <= size:
        return text
    for kept in range(min(size - 1, len(offsets)), 0, -1):
        made = _cut(text, max(1, offsets[kept - 1][1]))
        # A mark or a cut word can have more tokens than what it stands for.
        if counter.count_tokens([made])[0] <= size:
            return made
    return text[: max(1, offsets[0][1])]


def _cut(text: str, end: int) -> str:
    window = text[:end]
    clause = 0
    for match in _CLAUSE_END.finditer(text, 0, min(len(text), end + 1)):
        if match.end() <= end:
            clause = match.start()
    if clause < _MIN_SHARE * end:
        is_inside_word = text[end - 1].isalnum() and text[end : end + 1].isalnum() and text[end - 1].isascii()
        shorter = _LAST_BREAK.sub("", window) if is_inside_word else window
        clause = len(shorter) if len(shorter) >= _MIN_SHARE * end else end
    return text[:clause].rstrip(" ,;:，；：、(（") + _MARK
