"""Which chunks of a document a language model reads at once, and how much it may answer."""

from collections.abc import Sequence
from typing import Final

from corpusmesh_core.graphs.values import GraphChunk
from corpusmesh_core.token_estimate import estimate_tokens

_ANSWER_FACTOR: Final = 4.0
_MIN_ANSWER_TOKENS: Final = 1024
_MAX_ANSWER_TOKENS: Final = 4096
_TOKENS_PER_ENTITY: Final = 25
_MIN_ENTITIES: Final = 8
_MAX_ENTITIES: Final = 60


def batch_sizes(token_counts: Sequence[int], max_tokens: int) -> list[int]:
    """Cut the chunks of a document into batches of neighbours.

    Args:
        token_counts: Tokens of each chunk, in order.
        max_tokens: Most tokens of a batch; a chunk that has more is a batch of its own.

    Returns:
        Chunks of each batch, at least 1; their sum is the number of chunks.
    """
    sizes: list[int] = []
    filled = 0
    for count in token_counts:
        if not sizes or filled + count > max_tokens:
            sizes.append(0)
            filled = 0
        sizes[-1] += 1
        filled += count
    return sizes


def batched(chunks: Sequence[GraphChunk], max_tokens: int) -> list[tuple[GraphChunk, ...]]:
    """Cut chunks into batches, see `batch_sizes`.

    Args:
        chunks: Chunks of one document, in order.
        max_tokens: Most tokens of a batch.

    Returns:
        The batches.
    """
    batches: list[tuple[GraphChunk, ...]] = []
    at = 0
    for size in batch_sizes([chunk_tokens(chunk) for chunk in chunks], max_tokens):
        batches.append(tuple(chunks[at : at + size]))
        at += size
    return batches


def chunk_tokens(chunk: GraphChunk) -> int:
    """Tell the tokens of a chunk.

    Args:
        chunk: The chunk.

    Returns:
        As it says; an estimate where it does not.
    """
    return chunk.token_count or estimate_tokens(chunk.text)


def answer_tokens(batch_tokens: int) -> int:
    """Tell how many tokens a model may write of a batch.

    Args:
        batch_tokens: Tokens of its chunks.

    Returns:
        Tokens at most.
    """
    return max(_MIN_ANSWER_TOKENS, min(_MAX_ANSWER_TOKENS, int(_ANSWER_FACTOR * batch_tokens)))


def entity_limit(batch_tokens: int) -> int:
    """Tell how many entities a model is asked for.

    Args:
        batch_tokens: Tokens of the chunks.

    Returns:
        Entities at most, 8 to 60.
    """
    return max(_MIN_ENTITIES, min(_MAX_ENTITIES, batch_tokens // _TOKENS_PER_ENTITY))
