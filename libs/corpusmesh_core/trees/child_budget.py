"""How much of each child a language model reads: the context is shared so that no child vanishes."""

from collections.abc import Sequence
from typing import Final

from corpusmesh_core.citation.sentences import split_sentences
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.trees.clauses import cut_to_clause
from corpusmesh_core.trees.settings import TreeSettings

PROMPT_TOKENS: Final = 450
"""Room for the instructions, which have some 300 tokens, and for what a model adds to messages."""
BLOCK_TOKENS: Final = 40
"""Room for the delimiters of a child."""
_MIN_CHILD_TOKENS: Final = 8
_COUNT_SLACK: Final = 0.9
"""Language models cut texts into other tokens than the embedder, which we count by."""


def readable_tokens(settings: TreeSettings, child_count: int, prompt_tokens: int = PROMPT_TOKENS) -> int:
    """Tell how many tokens of children fit into one call: the context without the summary and the prompt.

    Args:
        settings: The settings.
        child_count: Children of the cluster.
        prompt_tokens: Tokens of the instructions.

    Returns:
        Tokens, at least _MIN_CHILD_TOKENS for each child.
    """
    room = settings.context_tokens - settings.effective_summary_tokens - prompt_tokens - BLOCK_TOKENS * child_count
    return max(int(_COUNT_SLACK * room), _MIN_CHILD_TOKENS * child_count)


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
