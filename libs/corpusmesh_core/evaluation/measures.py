"""Measures of retrieval with binary relevance."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from corpusmesh_core.errors import InvalidArgumentError

RECALL_DEPTHS = (2, 5, 10)
NDCG_DEPTH = 10


@dataclass(frozen=True, slots=True)
class QueryOutcome:
    """What a search gave for one question.

    Attributes:
        ranked: Identifiers, best first, each once.
        gold: Identifiers that should be found, at least one.
    """

    ranked: tuple[str, ...]
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class RetrievalQuality:
    """Means over all questions, each 0 to 1.

    Attributes:
        query_count: Questions.
        recall: Mean recall by depth, for the depths 2, 5 and 10.
        ndcg: Mean nDCG at 10.
        mean_reciprocal_rank: Mean of 1 / rank of the first gold identifier over the whole ranking.
    """

    query_count: int
    recall: tuple[tuple[int, float], ...]
    ndcg: float
    mean_reciprocal_rank: float


def unique_in_order(identifiers: Iterable[str]) -> tuple[str, ...]:
    """Keep the first of every identifier, so that a document ranks where its best chunk ranks.

    Args:
        identifiers: Identifiers, best first; one may come several times.

    Returns:
        Each identifier once, in the order of its first place.
    """
    return tuple(dict.fromkeys(identifiers))


def recall_at(ranked: Sequence[str], gold: Collection[str], depth: int) -> float:
    """Measure which share of the gold set the first places hold.

    Args:
        ranked: Identifiers, best first, each once.
        gold: Identifiers that should be found, at least one.
        depth: Places looked at, at least 1.

    Returns:
        `|top-depth ∩ gold| / |gold|`, 0 to 1.

    Raises:
        InvalidArgumentError: If the gold set is empty or the depth is less than 1.
    """
    wanted = _checked(gold, depth)
    return len(wanted.intersection(ranked[:depth])) / len(wanted)


def ndcg_at(ranked: Sequence[str], gold: Collection[str], depth: int) -> float:
    """Measure normalised discounted cumulative gain with gains 0 and 1.

    Args:
        ranked: Identifiers, best first, each once.
        gold: Identifiers that should be found, at least one.
        depth: Places looked at, at least 1.

    Returns:
        DCG over the best possible DCG at that depth, 0 to 1.

    Raises:
        InvalidArgumentError: If the gold set is empty or the depth is less than 1.

    References:
        Järvelin, Kekäläinen, TOIS 2002; discount 1 / log2(rank + 1).
    """
    wanted = _checked(gold, depth)
    gained = sum(1 / math.log2(rank + 1) for rank, name in enumerate(ranked[:depth], start=1) if name in wanted)
    best = sum(1 / math.log2(rank + 1) for rank in range(1, min(depth, len(wanted)) + 1))
    return gained / best


def reciprocal_rank(ranked: Sequence[str], gold: Collection[str]) -> float:
    """Measure how early the first gold identifier comes.

    Args:
        ranked: Identifiers, best first, each once.
        gold: Identifiers that should be found, at least one.

    Returns:
        1 / rank of the first gold identifier; 0.0 if none is ranked.

    Raises:
        InvalidArgumentError: If the gold set is empty.
    """
    wanted = _checked(gold, 1)
    return next((1 / rank for rank, name in enumerate(ranked, start=1) if name in wanted), 0.0)


def summarise_quality(outcomes: Sequence[QueryOutcome]) -> RetrievalQuality:
    """Average the measures over questions.

    Args:
        outcomes: One entry per question, at least one.

    Returns:
        The means.

    Raises:
        InvalidArgumentError: If there is no question or one has no gold.
    """
    if not outcomes:
        raise InvalidArgumentError("EVALUATION_EMPTY", "there is no question to evaluate")
    count = len(outcomes)
    return RetrievalQuality(
        query_count=count,
        recall=tuple(
            (depth, sum(recall_at(entry.ranked, entry.gold, depth) for entry in outcomes) / count)
            for depth in RECALL_DEPTHS
        ),
        ndcg=sum(ndcg_at(entry.ranked, entry.gold, NDCG_DEPTH) for entry in outcomes) / count,
        mean_reciprocal_rank=sum(reciprocal_rank(entry.ranked, entry.gold) for entry in outcomes) / count,
    )


def _checked(gold: Collection[str], depth: int) -> frozenset[str]:
    if not gold:
        raise InvalidArgumentError("EVALUATION_GOLD_EMPTY", "a question without gold cannot be measured")
    if depth < 1:
        raise InvalidArgumentError("EVALUATION_DEPTH", f"the depth must be at least 1, not {depth}", depth=depth)
    return frozenset(gold)
