"""Makes one record of neighbouring chunks: text without doubled parts, places united."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final

from corpusmesh_core.chunking.places import merge_boxes
from corpusmesh_core.citation.sentences import split_sentences
from corpusmesh_core.records import Record

SPAN_ATTRIBUTE: Final = "span"
"""Attribute of a record that was joined: positions of its first and its last chunk."""
_BLANKS: Final = re.compile(r"\s+")
_MAX_OVERLAP_CHARACTERS: Final = 4_000
_MIN_OVERLAP_CHARACTERS: Final = 8


def join_texts(texts: Sequence[str]) -> str:
    """Join texts of neighbouring chunks; sentences that a chunk repeats of the one before it stand once.

    Args:
        texts: Texts in reading order.

    Returns:
        One text, the parts on lines of their own.
    """
    joined = ""
    for text in texts:
        rest = text[_repeated_length(joined, text) :].strip() if joined else text.strip()
        if rest:
            joined = f"{joined}\n{rest}" if joined else rest
    return joined


def join_records(members: Sequence[Record], anchor: Record) -> Record:
    """Make one record of neighbouring chunks of a version.

    Args:
        members: Chunks in reading order without a gap, `anchor` among them.
        anchor: The hit; its id names the whole, so that a citation resolves to it.

    Returns:
        The anchor with the text of all. Page and boxes are those of all, the first page first; headings are those that
        all share; the position is that of the first; tokens are estimated where parts were repeated.
    """
    if len(members) == 1:
        return anchor
    text = join_texts([record.text for record in members])
    whole = sum(len(record.text) for record in members)
    tokens = sum(record.token_count for record in members)
    return replace(
        anchor,
        text=text,
        heading_path=_common_path([record.heading_path for record in members]),
        page=next((record.page for record in members if record.page), 0),
        boxes=merge_boxes(box for record in members for box in record.boxes),
        position=members[0].position,
        token_count=min(tokens, math.ceil(tokens * len(text) / max(1, whole))),
        vector=None,
        attributes={**anchor.attributes, SPAN_ATTRIBUTE: f"{members[0].position}-{members[-1].position}"},
    )


def _repeated_length(before: str, text: str) -> int:
    """Tell how many characters at a text's start repeat the end of what stands before it: whole sentences alone."""
    tail = _BLANKS.sub("", before[-2 * _MAX_OVERLAP_CHARACTERS :])
    # Most chunks repeat nothing; looking for sentences takes a hundred times as long as seeing that.
    if _BLANKS.sub("", text[: 4 * _MIN_OVERLAP_CHARACTERS])[:_MIN_OVERLAP_CHARACTERS] not in tail:
        return 0
    ends = [span.end for span in split_sentences(text[:_MAX_OVERLAP_CHARACTERS])]
    for end in reversed(ends):
        head = _BLANKS.sub("", text[:end])
        if len(head) >= _MIN_OVERLAP_CHARACTERS and tail.endswith(head):
            return end
    return 0


def _common_path(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(level[0] for level in takewhile(lambda level: len(set(level)) == 1, zip(*paths, strict=False)))
