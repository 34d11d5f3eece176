"""Walks over a view: personalised PageRank over entities and passages, and neighbourhoods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.graphs.columns import ranges
from corpusmesh_core.graphs.ranks import MAX_STEPS, inverse_degrees
from corpusmesh_core.graphs.view import GraphView

TOLERANCE: Final = 1e-4
"""Share still on its way at which a walk ends: what is estimated then is off by less than a fifth of that."""
MAX_EDGES: Final = 60_000_000
"""Edges that a walk passes; then what is still on its way is estimated. Some 60,000 passages take none of it."""
_SPARSE_SHARE: Final = 0.15
"""Share of all edges up to which a step follows the edges of what it stands on, not all edges."""
_SMALL_EDGE_COUNT: Final = 500_000
"""Edges that are passed faster than it is found out which of them matter."""


@dataclass(frozen=True, slots=True)
class Walk:
    """Where a walk spends its time; entities and passages together sum to 1.

    Attributes:
        entities: Shape (n,).
        passages: Shape (p,).
        step_count: Steps that were made.
        estimated: Share that was still on its way when the walk ended, and was estimated.
    """

    entities: NDArray[np.float32]
    passages: NDArray[np.float32]
    step_count: int
    estimated: float


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


def personalized_page_rank(
    view: GraphView,
    entity_seeds: Mapping[int, float],
    passage_seeds: Mapping[int, float],
    damping: float = 0.5,
    *,
    relation_share: float = 1.0,
    tolerance: float = TOLERANCE,
    max_edges: int = MAX_EDGES,
) -> Walk:
    """Walk from seeds over entities and passages, along mentions and relations.

    An entity leads to the passages that it stands in by how often it does, and to other entities by the strength of
    the relations; a passage leads to its entities. What is on its way is followed step by step, a share of it stays at
    each: at first along few edges, and in a large graph no longer than `max_edges` allow. By then it has spread so
    far that one more step hardly changes it, so it is taken to stay that way (exact where the walk has mixed, also
    where the graph has two sides between which it goes to and fro).

    Args:
        view: The graph.
        entity_seeds: Weight by place of an entity, above 0.
        passage_seeds: Weight by place of a passage, above 0.
        damping: Probability of walking on rather than starting anew at a seed.
        relation_share: Factor of relations against mentions; 0 walks along mentions alone.
        tolerance: Share still on its way at which the walk ends.
        max_edges: Edges that it passes at most; at least one step is made.

    Returns:
        Where the walk spends its time; all zeros without seeds.

    References:
        Jeh and Widom, WWW 2003; HippoRAG, NeurIPS 2024.
    """
    n, p = view.mentions.shape
    start = _start(entity_seeds, passage_seeds, n, p)
    rank = np.zeros(n + p, np.float32)
    if not start.any():
        return Walk(rank[:n], rank[n:], 0, 0.0)
    paths = _Paths(view, relation_share)
    before, moving, mass = start, start, 1.0
    steps = passed = 0
    is_sparse = paths.edge_count > _SMALL_EDGE_COUNT
    while steps < MAX_STEPS and mass >= tolerance:
        support = np.flatnonzero(moving) if is_sparse else _NOWHERE
        cost = paths.edges_of(support) if is_sparse else paths.edge_count
        # What has spread does not gather again.
        is_sparse = is_sparse and cost < _SPARSE_SHARE * paths.edge_count
        if steps and passed + cost > max_edges:
            break
        moved = paths.along(moving, support) if is_sparse else paths.along_all(moving)
        rank += np.float32(1.0 - damping) * moving
        moved *= np.float32(damping)
        left = float(moved.sum(dtype=np.float64))
        # What stands where nothing leads on starts anew.
        moved += np.float32(max(0.0, damping * mass - left)) * start
        before, moving, mass = moving, moved, damping * mass
        steps, passed = steps + 1, passed + cost
    # The rest is moving, then what it becomes: much like what it was one step before.
    rank += (moving + before * np.float32(damping * mass / max(float(before.sum()), 1e-30))) / np.float32(1.0 + damping)
    rank /= np.float32(rank.sum(dtype=np.float64))
    return Walk(rank[:n], rank[n:], steps, mass)


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
        places = ranges(*_rows(adjacency, current))
        strength = np.bincount(adjacency.indices[places], adjacency.data[places], minlength=n)
        reached = np.flatnonzero((strength > 0) & (hop < 0))
        current = reached[np.argsort(-strength[reached], kind="stable")][:left]
        hop[current] = distance
        chosen.append(current)
    found = np.concatenate(chosen)
    ends = view.relation_ends
    within = np.flatnonzero((hop[ends[:, 0]] >= 0) & (hop[ends[:, 1]] >= 0))
    within = within[np.argsort(-view.relation_weights[within], kind="stable")]
    return Neighbourhood(found.astype(np.int32), hop[found], within.astype(np.int32))


class _Paths:
    """Where one step leads: entities come before passages."""

    def __init__(self, view: GraphView, relation_share: float) -> None:
        self._mentions, self._passages, self._adjacency = view.mentions, view.passage_mentions, view.adjacency
        self._share = np.float32(relation_share)
        self._count = view.mentions.shape[0]
        degree = np.concatenate([view.mention_sums + self._share * view.adjacency_sums, view.passage_sums])
        self._inverse = inverse_degrees(degree)
        self.edge_count = 2 * self._mentions.nnz + self._adjacency.nnz

    def edges_of(self, places: NDArray[np.int64]) -> int:
        """Count the edges that lead away from some places."""
        entities, passages = self._split(places)
        return sum(
            int(_rows(matrix, rows)[1].sum())
            for matrix, rows in (
                (self._mentions, entities),
                (self._adjacency, entities),
                (self._passages, passages),
            )
        )

    def along_all(self, moving: NDArray[np.float32]) -> NDArray[np.float32]:
        """Make a step from everywhere."""
        n, out = self._count, moving * self._inverse
        moved = np.empty_like(moving)
        moved[:n] = self._mentions @ out[n:]
        if self._share:
            moved[:n] += self._share * (self._adjacency @ out[:n])
        moved[n:] = self._passages @ out[:n]
        return moved

    def along(self, moving: NDArray[np.float32], places: NDArray[np.int64]) -> NDArray[np.float32]:
        """Make a step from some places, where all that moves is."""
        n, moved = self._count, np.zeros_like(moving)
        entities, passages = self._split(places)
        for matrix, rows, origin, target, factor in (
            (self._mentions, entities, 0, n, np.float32(1.0)),
            (self._adjacency, entities, 0, 0, self._share),
            (self._passages, passages, n, 0, np.float32(1.0)),
        ):
            starts, counts = _rows(matrix, rows)
            edges = ranges(starts, counts)
            out = moving[rows + origin] * self._inverse[rows + origin] * factor
            np.add.at(moved, matrix.indices[edges] + target, matrix.data[edges] * np.repeat(out, counts))
        return moved

    def _split(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        at = int(np.searchsorted(places, self._count))
        return places[:at], places[at:] - self._count


def _start(
    entity_seeds: Mapping[int, float], passage_seeds: Mapping[int, float], n: int, p: int
) -> NDArray[np.float32]:
    start = np.zeros(n + p, np.float32)
    for place, weight in entity_seeds.items():
        start[place] += max(0.0, weight)
    for place, weight in passage_seeds.items():
        start[n + place] += max(0.0, weight)
    total = float(start.sum(dtype=np.float64))
    return start / np.float32(total) if total > 0 else start


def _rows(matrix: Any, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tell where the entries of some rows begin, and how many there are."""
    starts = matrix.indptr[rows].astype(np.int64)
    return starts, matrix.indptr[rows + 1].astype(np.int64) - starts


_NOWHERE: Final = np.zeros(0, np.int64)
