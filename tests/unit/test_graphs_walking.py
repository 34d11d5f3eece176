"""Walks: the same as a dense power iteration, all that walks is somewhere, and large graphs end in bounded time."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from corpusmesh_core.graphs import walking
from corpusmesh_core.graphs.keys import entity_key
from corpusmesh_core.graphs.ranks import page_rank
from corpusmesh_core.graphs.segments import SegmentDocument
from corpusmesh_core.graphs.values import EntityFragment, Mention, RelationFragment, Subgraph
from corpusmesh_core.graphs.view import GraphView, compile_view
from corpusmesh_core.graphs.walking import neighbourhood, personalized_page_rank
from tests.support.graph_strategies import documents, ordinals_of, resolved_pairs, segments_of

_QUICK = settings(deadline=None, max_examples=30)


@st.composite
def _views(draw: st.DrawFn) -> GraphView:
    items = draw(documents(min_size=1))
    view = compile_view(segments_of([items]), ordinals_of(items), draw(resolved_pairs()))
    assume(len(view.entity_keys))
    return view


@st.composite
def _seeds(draw: st.DrawFn, count: int) -> dict[int, float]:
    places = draw(st.sets(st.integers(0, count - 1), max_size=3))
    return {place: draw(st.sampled_from((0.1, 1.0, 2.0))) for place in places}


def _dense(
    view: GraphView, entities: dict[int, float], passages: dict[int, float], damping: float, share: float
) -> NDArray[np.float64]:
    """The definition: a linear system over the whole matrix."""
    n, p = view.mentions.shape
    whole = np.zeros((n + p, n + p))
    whole[:n, :n] = share * view.adjacency.toarray()
    whole[:n, n:] = view.mentions.toarray()
    whole[n:, :n] = view.mentions.toarray().T
    start = np.zeros(n + p)
    for place, weight in entities.items():
        start[place] += weight
    for place, weight in passages.items():
        start[n + place] += weight
    start /= start.sum()
    sums = whole.sum(axis=0)
    transition = np.divide(whole, sums, out=np.tile(start[:, None], (1, n + p)), where=sums > 0)
    return np.linalg.solve(np.eye(n + p) - damping * transition, (1 - damping) * start)


@_QUICK
@given(st.data(), st.sampled_from((0.1, 0.5, 0.85, 0.95)), st.sampled_from((0.0, 0.5, 1.0)))
def test_a_walk_is_that_of_a_dense_reference(data: st.DataObject, damping: float, share: float) -> None:
    view = data.draw(_views())
    n, p = view.mentions.shape
    entities, passages = data.draw(_seeds(n)), data.draw(_seeds(p))
    assume(entities or passages)
    walk = personalized_page_rank(view, entities, passages, damping, relation_share=share, tolerance=1e-7)
    found = np.concatenate([walk.entities, walk.passages])
    np.testing.assert_allclose(
        found, _dense(view, entities, passages, damping, share), atol=2e-3 if damping > 0.9 else 1e-5
    )
    assert found.sum() == pytest.approx(1.0, abs=1e-5)
    assert (found >= 0).all()


@_QUICK
@given(st.data())
def test_all_that_walks_is_somewhere_however_early_the_walk_ends(data: st.DataObject) -> None:
    view = data.draw(_views())
    walk = personalized_page_rank(view, {0: 1.0}, {}, 0.5, max_edges=data.draw(st.integers(0, 200)))
    assert walk.entities.sum() + walk.passages.sum() == pytest.approx(1.0, abs=1e-5)
    assert walk.step_count >= 1


@_QUICK
@given(st.data())
def test_steps_along_few_edges_and_along_all_are_the_same(data: st.DataObject) -> None:
    view = data.draw(_views())
    seeds = data.draw(_seeds(len(view.entity_keys)))
    assume(seeds)
    along_all = personalized_page_rank(view, seeds, {})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(walking, "_SMALL_EDGE_COUNT", -1)
        patched.setattr(walking, "_SPARSE_SHARE", 2.0)
        along_few = personalized_page_rank(view, seeds, {})
    np.testing.assert_allclose(along_few.entities, along_all.entities, atol=1e-6)
    np.testing.assert_allclose(along_few.passages, along_all.passages, atol=1e-6)


def test_what_is_estimated_when_a_walk_ends_early_is_close() -> None:
    rng = np.random.default_rng(7)
    items = [_random_document(number, rng) for number in range(1, 300)]
    view = compile_view(segments_of([items]), ordinals_of(items))
    edges = 2 * view.mentions.nnz + view.adjacency.nnz
    n, p = view.mentions.shape
    for _ in range(5):
        entities = {int(place): 1.0 for place in rng.choice(n, 3, replace=False)}
        passages = {int(place): 0.01 for place in rng.choice(p, 10, replace=False)}
        exact = personalized_page_rank(view, entities, passages, tolerance=1e-7)
        early = personalized_page_rank(view, entities, passages, max_edges=6 * edges)
        assert early.step_count == 6
        assert early.estimated == pytest.approx(0.5**6)
        distance = np.abs(early.entities - exact.entities).sum() + np.abs(early.passages - exact.passages).sum()
        assert distance < early.estimated
        assert np.argmax(early.passages) == np.argmax(exact.passages)


def _random_document(number: int, rng: np.random.Generator) -> SegmentDocument:
    """A document of four chunks that names a few entities out of many, common ones more often."""
    places = np.unique(np.minimum(rng.zipf(1.4, 8), 500))
    fragments = sorted(
        (
            EntityFragment(entity_key(f"E{place}"), f"E{place}", mentions=(Mention(int(rng.integers(4))),))
            for place in places
        ),
        key=lambda fragment: fragment.key,
    )
    related = tuple(
        RelationFragment(one.key, other.key, mentions=one.mentions) for one, other in itertools.pairwise(fragments)
    )
    return SegmentDocument(number, 1000 + number, Subgraph(tuple(fragments), related))


def test_a_walk_without_seeds_goes_nowhere() -> None:
    items = [*_chain(3)]
    view = compile_view(segments_of([items]), ordinals_of(items))
    walk = personalized_page_rank(view, {}, {})
    assert walk.step_count == 0
    assert not walk.entities.any()
    assert not walk.passages.any()


@_QUICK
@given(_views())
def test_page_rank_sums_to_one_and_is_its_own_next_step(view: GraphView) -> None:
    rank = page_rank(view.adjacency).astype(np.float64)
    assert rank.sum() == pytest.approx(1.0, abs=1e-5)
    dense = view.adjacency.toarray().astype(np.float64)
    sums = dense.sum(axis=0)
    transition = np.divide(dense, sums, out=np.full_like(dense, 1 / len(sums)), where=sums > 0)
    np.testing.assert_allclose(0.85 * transition @ rank + 0.15 / len(sums), rank, atol=1e-5)


def _chain(length: int) -> Iterator[SegmentDocument]:
    for number in range(length):
        names = f"Link {number}", f"Link {number + 1}"
        entities = tuple(EntityFragment(entity_key(name), name, mentions=(Mention(0),)) for name in names)
        relation = RelationFragment(*map(entity_key, names), mentions=(Mention(0),), weight=1.0 + number)
        yield SegmentDocument(number + 1, number + 100, Subgraph(entities, (relation,)))


def test_a_neighbourhood_goes_as_far_as_its_hops_and_no_further() -> None:
    items = list(_chain(5))
    view = compile_view(segments_of([items]), ordinals_of(items))
    [start] = view.find([entity_key("Link 0")])
    near = neighbourhood(view, [int(start)], 2, 100)
    assert [view.name(place) for place in near.entities] == ["Link 0", "Link 1", "Link 2"]
    assert near.hops.tolist() == [0, 1, 2]
    assert len(near.relations) == 2
    assert len(neighbourhood(view, [int(start)], 9, 4).entities) == 4
    assert len(neighbourhood(view, [], 2, 4).entities) == 0
