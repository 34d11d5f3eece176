"""Communities: found, divided, brought up to date, and written."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_adapters.communities import LeidenFinder
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.graphs.communities import (
    Grouping,
    WeightedGraph,
    community_key,
    pack_grouping,
    unpack_grouping,
    update_communities,
)
from corpusmesh_core.graphs.values import Community

FINDER = LeidenFinder()
MAX_SIZE = 5
Edges = dict[tuple[int, int], float]


def _graph(edges: Edges, alone: tuple[int, ...] = (), order: int = 0) -> WeightedGraph:
    keys = np.array(sorted({key for pair in edges for key in pair} | set(alone)), dtype=np.uint64)
    place = {int(key): at for at, key in enumerate(keys)}
    pairs = sorted(edges)
    np.random.default_rng(order).shuffle(pairs)
    ends = [(place[a], place[b]) if order % 2 == 0 else (place[b], place[a]) for a, b in pairs]
    return WeightedGraph(
        keys,
        np.array([a for a, _ in ends], dtype=np.int32),
        np.array([b for _, b in ends], dtype=np.int32),
        np.array([edges[a, b] for a, b in pairs], dtype=np.float32),
    )


def _update(graph: WeightedGraph, previous: Grouping | None = None) -> Grouping:
    return update_communities(graph, previous, max_size=MAX_SIZE, finder=FINDER)


@st.composite
def _edges(draw: st.DrawFn, first: int = 1, last: int = 24, max_count: int = 60) -> Edges:
    node = st.integers(first, last)
    pairs = draw(st.lists(st.tuples(node, node), max_size=max_count))
    return {(min(pair), max(pair)): float(1 + (sum(pair) % 3)) for pair in pairs if pair[0] != pair[1]}


def _planted(group_count: int, size: int = 8, seed: int = 3) -> Edges:
    """Groups that hold together, in a ring."""
    rng = np.random.default_rng(seed)
    edges: Edges = {}
    for group in range(group_count):
        base = 1000 * (group + 1)
        members = [base + place for place in range(size)]
        for a, b in itertools.pairwise(members):
            edges[a, b] = 1.0
        for _ in range(3 * size):
            a, b = sorted(rng.choice(members, 2, replace=False).tolist())
            edges[a, b] = 1.0
        following = 1000 * ((group + 1) % group_count + 1)
        edges[min(base, following), max(base, following)] = 0.1
    return edges


def _check(grouping: Grouping, edges: Edges) -> None:
    by_key = {item.key: item for item in grouping.communities}
    assert len(by_key) == len(grouping.communities)
    related = {key for pair in edges for key in pair}
    for level in range(1 + max((item.level for item in grouping.communities), default=0)):
        members = [key for item in grouping.communities if item.level == level for key in item.members]
        assert len(members) == len(set(members))
        if level == 0:
            assert set(members) == related
    divided = {item.parent for item in grouping.communities}
    for item in grouping.communities:
        assert item.key == community_key(item.level, item.members)
        assert len(item.members) >= 2
        assert list(item.members) == sorted(item.members)
        assert (item.parent == "") == (item.level == 0)
        if item.parent:
            above = by_key[item.parent]
            assert above.level == item.level - 1
            assert set(item.members) < set(above.members)
            assert len(above.members) > MAX_SIZE
        assert len(item.members) <= MAX_SIZE or item.key in divided


@given(_edges(), st.integers(0, 5))
@settings(deadline=None)
def test_every_related_entity_is_in_one_community_of_each_level_that_it_reaches(edges: Edges, order: int) -> None:
    grouping = _update(_graph(edges, alone=(100, 200)))
    _check(grouping, edges)
    assert _update(_graph(edges, alone=(100, 200), order=order)) == grouping


@given(_edges(), _edges(first=15, last=40, max_count=20))
@settings(deadline=None)
def test_an_update_gives_communities_that_are_as_sound(edges: Edges, more: Edges) -> None:
    before = _update(_graph(edges))
    after = _update(_graph(edges | more, order=1), before)
    _check(after, edges | more)
    assert _update(_graph(edges | more, order=2), before) == after
    fewer = {pair: weight for pair, weight in edges.items() if sum(pair) % 5}
    _check(_update(_graph(fewer), after), fewer)


@given(_edges(first=2000, last=12000, max_count=6), st.integers(0, 9), st.integers(1, 40))
@settings(deadline=None, max_examples=60)
def test_what_is_added_and_removed_leaves_the_communities_as_they_were(more: Edges, group: int, count: int) -> None:
    edges = _planted(12)
    before = _update(_graph(edges))
    # New entities that know each other and one group; the rest touches what is there.
    new = {(1000 * (group + 1) + place % 8, 50_000 + place): 1.0 for place in range(min(count, 12))}
    new |= {(50_000 + place, 50_001 + place): 1.0 for place in range(min(count, 12) - 1)}
    known = {key for pair in edges for key in pair}
    between = {pair: weight for pair, weight in more.items() if set(pair) <= known}
    after = _update(_graph(new | between | edges), before)
    assert after.found_count == before.found_count
    assert _update(_graph(edges), after).communities == before.communities


def test_a_change_in_one_group_leaves_the_communities_of_all_others() -> None:
    edges = _planted(30)
    before = _update(_graph(edges))
    after = _update(_graph(edges | {(5000, 60_000): 2.0, (5001, 60_000): 1.0}), before)
    gone = {item.key for item in before.communities} - {item.key for item in after.communities}
    touched = {key for item in before.communities if item.key in gone and item.level for key in item.members}
    assert touched <= {key for pair in edges for key in pair if 5000 <= key < 6000 or 1000 <= key < 12_000}
    assert len(gone) <= 3
    joined = [item for item in after.communities if 60_000 in item.members]
    assert all(5000 in item.members or 5001 in item.members for item in joined)


def test_groups_that_hold_together_are_found() -> None:
    grouping = _update(_graph(_planted(6)))
    coarsest = [item for item in grouping.communities if not item.level]
    assert [
        {key // 1000 for key in item.members} for item in coarsest if len({key // 1000 for key in item.members}) == 1
    ]
    for item in grouping.communities:
        if item.level:
            assert len({key // 1000 for key in item.members}) == 1


def test_communities_are_found_anew_when_too_many_members_were_placed() -> None:
    edges = _planted(6)
    before = _update(_graph(edges))
    more = {(1000, 70_000 + place): 1.0 for place in range(30)}
    after = _update(_graph(edges | more), before)
    assert after.placed_count == 0
    assert after.found_count == before.found_count + 30
    assert after == _update(_graph(edges | more))


def test_communities_are_found_anew_when_they_no_longer_hold_together() -> None:
    edges = _planted(6)
    before = _update(_graph(edges))
    bridges = {(1000 + a, 4000 + b): 5.0 for a in range(8) for b in range(8)}
    assert _update(_graph(edges | bridges), before) == _update(_graph(edges | bridges))


@pytest.mark.parametrize("count", [6, 13, 40])
def test_a_clique_is_cut_into_communities_of_bounded_size(count: int) -> None:
    edges = {(a, b): 1.0 for a in range(1, count + 1) for b in range(a + 1, count + 1)}
    grouping = _update(_graph(edges))
    _check(grouping, edges)
    finest = {item.key for item in grouping.communities} - {item.parent for item in grouping.communities}
    assert all(len(item.members) <= MAX_SIZE for item in grouping.communities if item.key in finest)


def test_a_graph_without_relations_has_no_communities() -> None:
    empty = _update(_graph({}, alone=(1, 2)))
    assert empty == Grouping()
    before = _update(_graph({(1, 2): 1.0}))
    assert _update(_graph({}, alone=(1, 2)), before).communities == ()
    assert _update(_graph({}), before).communities == ()


@given(_edges())
@settings(deadline=None)
def test_communities_are_read_as_they_were_written(edges: Edges) -> None:
    grouping = _update(_graph(edges))
    packed = pack_grouping(grouping)
    assert unpack_grouping(packed) == grouping
    assert pack_grouping(unpack_grouping(packed)) == packed
    with pytest.raises(InvalidArgumentError):
        unpack_grouping(packed[:-1])


def test_a_key_tells_level_and_members() -> None:
    assert community_key(0, (1, 2)) != community_key(1, (1, 2)) != community_key(1, (1, 3))
    assert Community(community_key(0, (1, 2)), 0, (1, 2)) in _update(_graph({(1, 2): 1.0})).communities
