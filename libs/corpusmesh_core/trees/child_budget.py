"""How much of each child a language model reads: the context is shared so that no child vanishes."""

from collections.abc import Sequence
from typing import Final

from corpusmesh_core.citation.sentences import split_sentences
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.trees.clauses import cut_to_clause
from corpusmesh_core.trees.settings import TreeSettings

BLOCK_TOKENS: Final = 40
"""Room for the delimiters of a block."""
_BLOCK_SHARE: Final = 4
"""Delimiters take at most one part in so many of the room: more children share a block."""
_COUNT_SLACK: Final = 0.9
"""Language models cut texts into other tokens than the embedder, which we count by."""
_ANSWER_FACTOR: Final = 1.5


def answer_tokens(settings: TreeSettings) -> int:
    """Tell how many tokens a model may write: somewhat more than a summary may have, which is cut afterwards.

    Args:
        settings: The settings.

    Returns:
        Tokens.
    """
    return int(_ANSWER_FACTOR * settings.effective_summary_tokens)


def block_count(settings: TreeSettings, child_count: int, prompt_tokens: int) -> int:
    """Tell in how many blocks children are quoted: one each, fewer where their delimiters would crowd them out.

    Args:
        settings: The settings.
        child_count: Children of the cluster, at least 1.
        prompt_tokens: Tokens of the instructions.

    Returns:
        Blocks, 1 to `child_count`.
    """
    return max(1, min(child_count, _room(settings, prompt_tokens) // (_BLOCK_SHARE * BLOCK_TOKENS)))


def readable_tokens(settings: TreeSettings, child_count: int, prompt_tokens: int) -> int:
    """Tell how many tokens of children fit into one call: the context without the answer and the prompt.

    Args:
        settings: The settings.
        child_count: Children of the cluster, at least 1.
        prompt_tokens: Tokens of the instructions.

    Returns:
        Tokens for all children; less than one for each where the context is too small for the cluster.
    """
    return _room(settings, prompt_tokens) - BLOCK_TOKENS * block_count(settings, child_count, prompt_tokens)


def _room(settings: TreeSettings, prompt_tokens: int) -> int:
    return max(0, int(_COUNT_SLACK * (settings.context_tokens - answer_tokens(settings) - prompt_tokens)))


def share_tokens(token_counts: Sequence[int], budget: int) -> list[int]:
    """Share a budget among texts: each gets an even share, and what short ones do not need goes to long ones.

    Args:
        token_counts: Tokens of each text, at least 0.
        budget: Tokens for all.

    Returns:
        Tokens for each text, at most its own; their sum is at most the budget, and at least the smaller of the budget
        and of the sum of the texts, but for what an even share of whole tokens leaves.
    """
    shares = [0] * len(token_counts)
    left = max(0, budget)
    # From the shortest on, so that what one leaves is shared by all that follow.
    for done, place in enumerate(sorted(range(len(token_counts)), key=lambda place: (token_counts[place], place))):
        shares[place] = min(token_counts[place], left // (len(token_counts) - done))
        left -= shares[place]
    return shares


def cut_children(texts: Sequence[str], token_counts: Sequence[int], counter: TextTokenizer, budget: int) -> list[str]:
    """Cut texts so that together they fit a budget, at the ends of sentences.

    Args:
        texts: The children.
        token_counts: Their tokens by `counter`.
        counter: Counts tokens.
        budget: Tokens for all; at least one for each text.

    Returns:
        One text for each, in order: whole where it fits its share, else its first whole sentences, else the beginning
        of its first one; never empty unless the text is.
    """
    shares = share_tokens(token_counts, budget)
    return [
        text if share >= count else _cut(text, counter, max(1, share))
        for text, count, share in zip(texts, token_counts, shares, strict=True)
    ]


def _cut(text: str, counter: TextTokenizer, size: int) -> str:
    offsets = counter.token_offsets(text)
    if len(offsets) <= size:
        return text
    # A token that would reach beyond the cut is not read.
    limit = offsets[size][0]
    end = max((span.end for span in split_sentences(text) if span.end <= limit), default=0)
    kept = text[:end].rstrip()
    if kept.strip():
        return kept
    return cut_to_clause(text.strip() or text, counter, size)
