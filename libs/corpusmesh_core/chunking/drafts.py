"""Chunks in the making: pieces that will be one text, held to a budget by the tokenizer's own count."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from corpusmesh_core.chunking.pieces import Piece, split_at, split_piece
from corpusmesh_core.ports.embedding import TextTokenizer


@dataclass(frozen=True, slots=True)
class Draft:
    """Pieces that become one chunk.

    Attributes:
        pieces: In reading order, at least one.
        copy_count: How many of the first pieces repeat what a chunk before holds.
        group: Number of the group that they belong to.
        budget_tokens: Most tokens of their text.
        owner: For a child, the number of its parent; -1 for others.
    """

    pieces: Sequence[Piece]
    copy_count: int
    group: int
    budget_tokens: int
    owner: int = -1


@dataclass(frozen=True, slots=True)
class CountedDraft:
    """A draft with its text.

    Attributes:
        draft: The pieces.
        text: Their text.
        token_count: Tokens of the text.
    """

    draft: Draft
    text: str
    token_count: int


def draft_text(pieces: Iterable[Piece]) -> str:
    """Join pieces.

    Args:
        pieces: In reading order.

    Returns:
        Their text, without line breaks at either end.
    """
    parts: list[str] = []
    for piece in pieces:
        if parts and piece.separator:
            parts[-1] = parts[-1].rstrip()
            parts.append(piece.separator)
        parts.append(piece.text)
    return "".join(parts).strip("\r\n").rstrip()


def within_budget(drafts: Sequence[Draft], counter: TextTokenizer) -> list[CountedDraft]:
    """Count drafts, and halve those over their budget: tokens of joined text are not quite the sum of the parts.

    Args:
        drafts: In order.
        counter: The embedder's tokenizer.

    Returns:
        Drafts with text, in order, none over its budget unless it is a single character.
    """
    counted = _count(drafts, counter)
    while any(map(_is_too_long, counted)):
        halves = [half for entry in counted if _is_too_long(entry) for half in _halve(entry.draft, counter)]
        recounted = iter(_count(halves, counter))
        following: list[CountedDraft] = []
        for entry in counted:
            following.extend((next(recounted), next(recounted)) if _is_too_long(entry) else (entry,))
        counted = following
    return [entry for entry in counted if entry.text]


def _count(drafts: Sequence[Draft], counter: TextTokenizer) -> list[CountedDraft]:
    texts = [draft_text(draft.pieces) for draft in drafts]
    return list(map(CountedDraft, drafts, texts, counter.count_tokens(texts)))


def _is_too_long(entry: CountedDraft) -> bool:
    return entry.token_count > entry.draft.budget_tokens and len(entry.text) > 1


def _halve(draft: Draft, counter: TextTokenizer) -> tuple[Draft, Draft]:
    pieces = draft.pieces
    if len(pieces) > 1:
        middle = len(pieces) // 2
        return _part(draft, pieces[:middle], draft.copy_count), _part(draft, pieces[middle:], draft.copy_count - middle)
    parts = split_piece(pieces[0], counter, max_tokens=max(pieces[0].token_count // 2, 1))
    if len(parts) == 1:
        # The tokenizer's offsets disagree with its counts: characters always get fewer.
        left, right = split_at(pieces[0], len(pieces[0].text) // 2)
        return _part(draft, [left], 0), _part(draft, [right], 0)
    return _part(draft, parts[:1], 0), _part(draft, parts[1:], 0)


def _part(draft: Draft, pieces: Sequence[Piece], copy_count: int) -> Draft:
    return Draft(pieces, min(max(copy_count, 0), len(pieces)), draft.group, draft.budget_tokens, draft.owner)
