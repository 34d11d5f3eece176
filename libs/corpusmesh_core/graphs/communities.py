"""Communities of a graph, in levels, brought up to date where it changed (ADR-0014).

A community with more members than wanted is divided, and so on; what its divisions are depends on its own members and
relations alone. Where the graph changes, nobody is moved: a new entity joins the community that it is related to most,
from the top downwards, and a community that has grown too large is divided. So what a change costs depends on what it
touches, and what was added and is removed again leaves the communities as they were. Since placing is not as good as
finding, everything is found anew once a share of the members was placed, or the communities hold together clearly less.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from corpusmesh_core.graphs.columns import offsets_of, ranges
from corpusmesh_core.graphs.grouping import Grouping, community_key, digest_of, pack_grouping, unpack_grouping
from corpusmesh_core.graphs.values import Community
from corpusmesh_core.ports.communities import CommunityFinder

__all__ = ["Grouping", "WeightedGraph", "community_key", "pack_grouping", "unpack_grouping", "update_communities"]

MAX_PLACED_SHARE: Final = 0.3
"""Members that came or went since all communities were found, against members then, above which they are found anew."""
MAX_MODULARITY_LOSS: Final = 0.1
"""Share of the modularity of the coarsest level that may be lost since then."""
MAX_LEVELS: Final = 8
"""Levels; a community of the last one is not divided."""
Labels: TypeAlias = NDArray[np.int32]
"""Community of each node by number; -1 where it is in none."""
_Inner: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class WeightedGraph:
    """Entities and how strongly they are related.

    Attributes:
        keys: Keys of n entities, ascending, shape (n,).
        sources: One end of each of m relations, by place among the keys, shape (m,).
        targets: The other end, never the same; each pair once, in either direction.
        weights: Strength of each, above 0, shape (m,).
    """

    keys: NDArray[np.uint64]
    sources: NDArray[np.int32]
    targets: NDArray[np.int32]
    weights: NDArray[np.float32]


def update_communities(
    graph: WeightedGraph, previous: Grouping | None, *, max_size: int, finder: CommunityFinder
) -> Grouping:
    """Bring the communities of a graph up to date.

    Args:
        graph: The graph as it is now.
        previous: Its communities before; None to find all.
        max_size: Members above which a community is divided; at least 2.
        finder: Finds groups.

    Returns:
        The communities; the same for the same graph and communities before, in whatever order relations are given.
    """
    if not len(graph.sources):
        return Grouping()
    edges = _Edges(graph)
    if previous is None or not previous.communities:
        return _found(graph, edges, max_size, finder)
    levels = _levels_of(previous.communities, graph.keys)
    lost = len({key for item in previous.communities if not item.level for key in item.members})
    levels[0][~edges.is_related] = -1
    lost -= int((levels[0] >= 0).sum())
    _let_down(levels)
    is_new = edges.is_related & (levels[0] < 0)
    placed = previous.placed_count + int(is_new.sum()) + lost
    if placed > MAX_PLACED_SHARE * previous.found_count:
        return _found(graph, edges, max_size, finder)
    _place(edges, levels, is_new)
    _divide_newcomers(edges, levels, finder, max_size)
    _divide(edges, levels, max_size, finder)
    if edges.modularity(levels[0]) < (1.0 - MAX_MODULARITY_LOSS) * previous.found_modularity:
        return _found(graph, edges, max_size, finder)
    communities = _communities(levels, graph.keys)
    return Grouping(communities, previous.found_count, previous.found_modularity, placed)


class _Edges:
    """The relations of a graph in both directions, by node."""

    def __init__(self, graph: WeightedGraph) -> None:
        count = len(graph.keys)
        ends = np.concatenate([graph.sources, graph.targets]), np.concatenate([graph.targets, graph.sources])
        matrix = sparse.coo_array((np.tile(graph.weights.astype(np.float64), 2), ends), shape=(count, count)).tocsr()
        # Relations given in another order must not give other sums or another order of neighbours.
        matrix.sum_duplicates()
        matrix.sort_indices()
        self.count = count
        self.matrix = matrix
        self._place = np.full(count, -1, np.int32)
        self.strength: NDArray[np.float64] = np.asarray(matrix.sum(axis=1)).ravel()
        self.is_related: NDArray[np.bool_] = np.diff(matrix.indptr) > 0

    def inner(self, members: NDArray[np.int64]) -> _Inner:
        """Relations among some nodes, ascending: offsets, neighbours by their place among the nodes, weights."""
        starts, counts = self.matrix.indptr[members], np.diff(self.matrix.indptr)[members]
        entries = ranges(starts.astype(np.int64), counts.astype(np.int64))
        self._place[members] = np.arange(len(members), dtype=np.int32)
        neighbours = self._place[self.matrix.indices[entries]]
        self._place[members] = -1
        is_inner = neighbours >= 0
        owners = np.repeat(np.arange(len(members)), counts)[is_inner]
        offsets = offsets_of(np.bincount(owners, minlength=len(members)).astype(np.int64))
        return offsets, neighbours[is_inner], self.matrix.data[entries][is_inner]

    def components(self, nodes: NDArray[np.int64]) -> Labels:
        """Which of some nodes hang together; numbers from 0 in the order of their first nodes."""
        _, labels = sparse.csgraph.connected_components(self.matrix[nodes][:, nodes], directed=False)
        return _numbered(labels.astype(np.int32))

    def modularity(self, labels: Labels) -> float:
        """How much more weight lies inside communities than would by chance, -0.5 to 1."""
        total = float(self.strength.sum())
        if not total:
            return 0.0
        rows = np.repeat(np.arange(self.count), np.diff(self.matrix.indptr))
        inside = (labels[rows] == labels[self.matrix.indices]) & (labels[rows] >= 0)
        by_community = np.bincount(labels[labels >= 0], weights=self.strength[labels >= 0])
        return float(self.matrix.data[inside].sum() / total - ((by_community / total) ** 2).sum())


def _found(graph: WeightedGraph, edges: _Edges, max_size: int, finder: CommunityFinder) -> Grouping:
    """Find all communities."""
    levels = [np.full(edges.count, -1, np.int32)]
    _divide_newcomers(edges, levels, finder, max_size)
    _divide(edges, levels, max_size, finder)
    count = int((levels[0] >= 0).sum())
    return Grouping(_communities(levels, graph.keys), count, edges.modularity(levels[0]))


def _divide_newcomers(edges: _Edges, levels: list[Labels], finder: CommunityFinder, max_size: int) -> None:
    """Give communities of the coarsest level to related nodes that have none: each component by itself."""
    nodes = np.flatnonzero(edges.is_related & (levels[0] < 0))
    if not len(nodes):
        return
    components = edges.components(nodes)
    order = np.argsort(components, kind="stable")
    following = int(levels[0].max()) + 1
    for members in np.split(nodes[order], np.flatnonzero(np.diff(components[order])) + 1):
        groups = np.zeros(len(members), np.int32)
        if len(members) > max_size:
            part = edges.inner(members)
            groups = _with_singles(_numbered(finder.partition(*part, resolution=1.0, seed=SEED)), part)
        levels[0][members] = groups + following
        following += int(groups.max()) + 1


def _divide(edges: _Edges, levels: list[Labels], max_size: int, finder: CommunityFinder) -> None:
    """Divide what is larger than wanted and has no divisions, and forget the divisions of what is not."""
    for level in range(MAX_LEVELS):
        labels = levels[level]
        sizes = np.bincount(labels[labels >= 0]) if (labels >= 0).any() else np.zeros(1, np.int64)
        if level + 1 == len(levels):
            levels.append(np.full(edges.count, -1, np.int32))
        below = levels[level + 1]
        below[(labels < 0) | (sizes[labels] <= max_size)] = -1
        is_divided = np.zeros(len(sizes), dtype=bool)
        is_divided[labels[below >= 0]] = True
        following = int(below.max()) + 1
        for members in _members(labels, np.flatnonzero((sizes > max_size) & ~is_divided)):
            groups = _parts(edges, members, finder, max_size)
            below[members] = groups + following
            following += int(groups.max()) + 1
        _leave_singles(below)
        if (below < 0).all():
            break
    # What lies below a level that a node does not reach is not reached either.
    _let_down(levels)


def _members(labels: Labels, wanted: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Nodes of some communities, each ascending."""
    places = np.flatnonzero(np.isin(labels, wanted) & (labels >= 0))
    if not len(places):
        return []
    order = places[np.argsort(labels[places], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)


def _parts(edges: _Edges, members: NDArray[np.int64], finder: CommunityFinder, max_size: int) -> Labels:
    """Divide more nodes than wanted by their own relations; parts are numbered from 0 by their first nodes."""
    graph = edges.inner(members)
    best: Labels | None = None
    largest = len(members)
    for resolution in _RESOLUTIONS:
        found = _numbered(finder.partition(*graph, resolution=resolution, seed=SEED))
        groups = _with_singles(found, graph)
        if np.bincount(groups).max() > _MAX_PART * len(members):
            # As the leaves of a star: they stay with the whole.
            groups = found
        sizes = np.bincount(groups)
        if _MIN_MEMBERS <= sizes.max() < largest:
            best, largest = groups, int(sizes.max())
        if largest <= _MAX_PART * len(members):
            break
    if best is not None:
        return best
    # What is related all over, as a clique, has no parts: it is cut, the most related first.
    offsets, _, weights = graph
    strength = np.add.reduceat(weights, offsets[:-1])
    order = np.lexsort((np.arange(len(members)), -strength))
    groups = np.empty(len(members), np.int32)
    groups[order] = np.arange(len(members)) * -(-len(members) // max_size) // len(members)
    return _numbered(groups)


def _with_singles(groups: Labels, graph: _Inner) -> Labels:
    """Let nodes that are alone in their group join that of the neighbour that they are related to most."""
    offsets, neighbours, weights = graph
    is_single = np.bincount(groups)[groups] < _MIN_MEMBERS
    owner = np.repeat(np.arange(len(groups)), np.diff(offsets))
    fits = is_single[owner] & ~is_single[neighbours]
    best = _strongest(owner, groups[neighbours], weights, fits, len(groups))
    return _numbered(np.where(best >= 0, best, groups))


def _place(edges: _Edges, levels: list[Labels], is_new: NDArray[np.bool_]) -> None:
    """Let new nodes join the communities that they are related to most, round by round, all of a round at once."""
    waiting = np.flatnonzero(is_new)
    while len(waiting):
        rows = edges.matrix[waiting]
        owner = np.repeat(np.arange(len(waiting)), np.diff(rows.indptr))
        joined = np.zeros(len(waiting), dtype=bool)
        fits = np.ones(len(owner), dtype=bool)
        chosen: list[Labels] = []
        for labels in levels:
            theirs = labels[rows.indices]
            best = _strongest(owner, theirs, rows.data, fits & (theirs >= 0), len(waiting))
            chosen.append(best)
            joined |= best >= 0
            # Further down, neighbours of the same community count alone.
            fits &= (theirs >= 0) & (theirs == best[owner])
        if not joined.any():
            return
        for labels, best in zip(levels, chosen, strict=True):
            labels[waiting[joined]] = best[joined]
        waiting = waiting[~joined]


def _strongest(
    owner: NDArray[np.int64],
    labels: Labels,
    weights: NDArray[np.float64],
    fits: NDArray[np.bool_],
    count: int,
) -> Labels:
    """The community to which each owner has most weight, the one with the lower number of equal ones; -1 for none."""
    best = np.full(count, -1, np.int32)
    owner, labels, weights = owner[fits], labels[fits], weights[fits]
    if not len(owner):
        return best
    width = int(labels.max()) + 1
    codes, place = np.unique(owner * width + labels, return_inverse=True)
    sums = np.bincount(place, weights=weights)
    order = np.lexsort((codes % width, -sums, codes // width))
    owners = codes[order] // width
    first = np.concatenate([[True], owners[1:] != owners[:-1]])
    best[owners[first]] = (codes[order] % width)[first]
    return best


def _leave_singles(labels: Labels) -> None:
    """A community of one is none."""
    reached = labels >= 0
    if reached.any():
        sizes = np.bincount(labels[reached])
        labels[reached & (sizes[labels] < _MIN_MEMBERS)] = -1


def _let_down(levels: list[Labels]) -> None:
    """A node that is in no community of a level is in none further down; nor is a community of one."""
    for level, labels in enumerate(levels):
        if level:
            labels[levels[level - 1] < 0] = -1
        _leave_singles(labels)
    while len(levels) > 1 and (levels[-1] < 0).all():
        levels.pop()


def _numbered(labels: NDArray[np.int32]) -> Labels:
    """Number groups from 0 in the order of their first nodes."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[inverse]


def _levels_of(communities: Sequence[Community], keys: NDArray[np.uint64]) -> list[Labels]:
    """Communities as labels of the nodes that there are now; numbered by their first members."""
    depth = max(item.level for item in communities) + 1
    levels = [np.full(len(keys), -1, np.int32) for _ in range(depth)]
    if not len(keys):
        return levels
    for level, labels in enumerate(levels):
        items = sorted((item for item in communities if item.level == level), key=lambda item: item.members[0])
        sizes = [len(item.members) for item in items]
        members = np.fromiter(chain.from_iterable(item.members for item in items), np.uint64, sum(sizes))
        numbers = np.repeat(np.arange(len(items), dtype=np.int32), sizes)
        places = np.minimum(np.searchsorted(keys, members), len(keys) - 1)
        is_there = keys[places] == members
        labels[places[is_there]] = numbers[is_there]
    return levels


def _communities(levels: Sequence[Labels], keys: NDArray[np.uint64]) -> tuple[Community, ...]:
    made: list[Community] = []
    above: dict[int, str] = {}
    for level, labels in enumerate(levels):
        reached = np.flatnonzero(labels >= 0)
        order = reached[np.argsort(labels[reached], kind="stable")]
        starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
        # One list and one buffer for all: there are as many communities as a sixth of the entities.
        members, raw = keys[order].tolist(), memoryview(keys[order].astype("<u8").tobytes())
        numbers = labels[order[starts]].tolist()
        parents = levels[level - 1][order[starts]].tolist() if level else [-1] * len(starts)
        named: dict[int, str] = {}
        found: list[Community] = []
        rows = zip(starts.tolist(), [*starts.tolist()[1:], len(order)], numbers, parents, strict=True)
        for start, end, number, parent in rows:
            key = named[number] = digest_of(level, raw[_KEY_BYTES * start : _KEY_BYTES * end])
            found.append(Community(key, level, tuple(members[start:end]), above.get(parent, "")))
        made.extend(sorted(found, key=lambda item: item.key))
        above = named
    return tuple(made)


SEED: Final = 5489
"""Of every partition: the same communities on every machine."""
_MIN_MEMBERS: Final = 2
_KEY_BYTES: Final = 8
_RESOLUTIONS: Final = (1.0, 1.5, 2.0, 3.0)
"""Tried in turn until a community falls into parts; a clique does not."""
_MAX_PART: Final = 0.5
"""Share of a community that its largest part may be before smaller ones are looked for."""
