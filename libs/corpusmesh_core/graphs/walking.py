"""Walks over a view: PageRank of entities, personalised PageRank over entities and passages, neighbourhoods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.graphs.view import GraphView

TOLERANCE: Final = 1e-6
"""A walk ends where a step moves less than this share of all that walks."""
MAX_STEPS: Final = 100


@dataclass(frozen=True, slots=True)
class Walk:
    """Where a walk spends its time; entities and passages together sum to 1.

    Attributes:
        entities: Shape (n,).
        passages: Shape (p,).
        step_count: Steps that were made.
    """

    entities: NDArray[np.float32]
    passages: NDArray[np.float32]
    step_count: int


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """What is near some entities.

    Attributes:
        entities: Places, nearest first, then by the strength of what leads there; shape (m,).
        hops: Hops from the given ones, ascending; shape (m,).
        relations: Relations between them, strongest first.
    """

    entities: NDArray[np.int32]
    hops: NDArray[np.int32]
    relations: NDArray[np.int32]


def page_rank(adjacency: Any, *, damping: float = 0.85) -> NDArray[np.float32]:
    """Rank entities by where a random walk spends its time (Brin and Page 1998).

    Args:
        adjacency: `csr_array`, symmetric, float32, shape (n, n).
        damping: Probability of walking on rather than starting anew anywhere.

    Returns:
        Ranks, sum 1, shape (n,).
    """
    count = adjacency.shape[0]
    if not count:
        return np.zeros(0, np.float32)
    degree = np.asarray(adjacency.sum(axis=1), np.float32).ravel()
    inverse = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
    rank: NDArray[np.float32] = np.full(count, 1.0 / count, np.float32)
    for _ in range(MAX_STEPS):
        moved = adjacency @ (rank * inverse)
        # What stands where nothing leads on starts anew, as do all that do not walk on.
        after = np.float32(damping) * moved + np.float32((1.0 - damping * float(moved.sum())) / count)
        change = float(np.abs(after - rank).sum())
        rank = after.astype(np.float32)
        if change < TOLERANCE:
            break
    return rank


def personalized_page_rank(
    view: GraphView,
    entity_seeds: Mapping[int, float],
    passage_seeds: Mapping[int, float],
    damping: float = 0.5,
    *,
    relation_share: float = 1.0,
) -> Walk:
    """Walk from seeds over entities and passages, along mentions and relations.

    An entity leads to the passages that it stands in by how often it does, and to other entities by the strength of
    the relations; a passage leads to its entities.

    Args:
        view: The graph.
        entity_seeds: Weight by place of an entity, above 0.
        passage_seeds: Weight by place of a passage, above 0.
        damping: Probability of walking on rather than starting anew at a seed.
        relation_share: Factor of relations against mentions; 0 walks along mentions alone.

    Returns:
        Where the walk spends its time; all zeros without seeds.
    """
    n, p = view.mentions.shape
    start = np.zeros(n + p, np.float32)
    for place, weight in entity_seeds.items():
        start[place] += weight
    for place, weight in passage_seeds.items():
        start[n + place] += weight
    total = float(start.sum())
    if total <= 0.0:
        return Walk(start[:n], start[n:], 0)
    start /= np.float32(total)
    mentions, passages, adjacency = view.mentions, view.passage_mentions, view.adjacency
    share = np.float32(relation_share)
    degree = np.concatenate(
        [
            np.asarray(mentions.sum(axis=1)).ravel() + share * np.asarray(adjacency.sum(axis=1)).ravel(),
            np.asarray(passages.sum(axis=1)).ravel(),
        ]
    ).astype(np.float32)
    inverse = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
    rank, steps = start.copy(), 0
    while steps < MAX_STEPS:
        steps += 1
        out = rank * inverse
        moved = np.empty_like(rank)
        moved[:n] = mentions @ out[n:] + share * (adjacency @ out[:n])
        moved[n:] = passages @ out[:n]
        moved *= np.float32(damping)
        moved += start * np.float32(1.0 - float(moved.sum()))
        change = float(np.abs(moved - rank).sum())
        rank = moved
        if change < TOLERANCE:
            break
    return Walk(rank[:n], rank[n:], steps)


def neighbourhood(view: GraphView, entities: Sequence[int], hops: int, limit: int) -> Neighbourhood:
    """Find what is near some entities.

    Args:
        view: The graph.
        entities: Places to begin with.
        hops: How far.
        limit: Most entities, the given ones included.

    Returns:
        The nearest, of each hop those that are led to most strongly, and the relations between them.
    """
    adjacency = view.adjacency
    n = adjacency.shape[0]
    hop = np.full(n, -1, np.int32)
    current = np.unique(np.asarray(entities, np.int64))[:limit]
    hop[current] = 0
    chosen = [current]
    for distance in range(1, hops + 1):
        left = limit - sum(map(len, chosen))
        if left <= 0 or not len(current):
            break
        strength = np.asarray(adjacency[current].sum(axis=0)).ravel()
        reached = np.flatnonzero((strength > 0) & (hop < 0))
        current = reached[np.argsort(-strength[reached], kind="stable")][:left]
        hop[current] = distance
        chosen.append(current)
    found = np.concatenate(chosen)
    ends = view.relation_ends
    within = np.flatnonzero((hop[ends[:, 0]] >= 0) & (hop[ends[:, 1]] >= 0))
    within = within[np.argsort(-view.relation_weights[within], kind="stable")]
    return Neighbourhood(found.astype(np.int32), hop[found], within.astype(np.int32))
