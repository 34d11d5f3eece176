"""An order in which neighbours are alike."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from corpusmesh_core.trees.seriation import BLOCK_SIZE, seriate
from corpusmesh_core.trees.values import Vectors

any_value = st.floats(width=32) | st.sampled_from([0.0, 1.0, 1e38, 1e-38, float("nan"), float("inf")])


def alikeness(vectors: Vectors) -> float:
    """Mean cosine of neighbours that have unit norm."""
    return float(np.einsum("ij,ij->i", vectors[:-1], vectors[1:]).mean())


def topics(rng: np.random.Generator, count: int, topic_count: int) -> Vectors:
    """Unit vectors about topics, in no order, as documents are uploaded."""
    centres = rng.normal(size=(topic_count, 48))
    vectors = centres[rng.integers(topic_count, size=count)] + 0.7 * rng.normal(size=(count, 48))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def greedy_chain(vectors: Vectors) -> Vectors:
    """The quadratic chain: from each vector to the most alike of all that are left."""
    left = list(range(1, len(vectors)))
    chain = [0]
    while left:
        best = int(np.argmax(vectors[left] @ vectors[chain[-1]]))
        chain.append(left.pop(best))
    return vectors[chain]


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.float32, st.tuples(st.integers(0, 300), st.integers(0, 4)), elements=any_value, fill=st.just(0.5)))
def test_any_matrix_gives_the_same_permutation_each_time(vectors: Vectors) -> None:
    order = seriate(vectors)
    assert sorted(order.tolist()) == list(range(len(vectors)))
    np.testing.assert_array_equal(order, seriate(vectors.copy()))


@pytest.mark.parametrize("value", [0.0, np.nan, 1.0, 1e38])
def test_vectors_that_are_all_alike_keep_their_order(value: float) -> None:
    vectors = np.full((3 * BLOCK_SIZE, 5), value, dtype=np.float32)
    np.testing.assert_array_equal(seriate(vectors), np.arange(len(vectors)))


def test_the_vectors_are_left_as_they_were() -> None:
    vectors = np.random.default_rng(1).normal(size=(300, 8)).astype(np.float32)
    before = vectors.copy()
    seriate(vectors)
    np.testing.assert_array_equal(vectors, before)


@pytest.mark.parametrize("count", [100, 1500])
def test_neighbours_are_far_more_alike_than_in_input_order_and_nearly_as_alike_as_in_a_greedy_chain(count: int) -> None:
    vectors = topics(np.random.default_rng(7), count, topic_count=40)
    before, after, best = alikeness(vectors), alikeness(vectors[seriate(vectors)]), alikeness(greedy_chain(vectors))
    assert after - before > 0.9 * (best - before)


def test_points_of_a_curve_come_in_the_order_of_the_curve() -> None:
    angles = np.linspace(0.0, 3.0, 400)
    curve = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    shuffled = np.random.default_rng(3).permutation(len(curve))
    ordered = shuffled[seriate(curve[shuffled])]
    np.testing.assert_array_equal(ordered if ordered[0] < ordered[-1] else ordered[::-1], np.arange(len(curve)))


def test_length_does_not_matter_only_direction() -> None:
    rng = np.random.default_rng(5)
    vectors = topics(rng, 300, topic_count=10)
    scaled = vectors * (2.0 ** rng.integers(-60, 60, size=(300, 1))).astype(np.float32)
    assert alikeness(vectors[seriate(scaled)]) == pytest.approx(alikeness(vectors[seriate(vectors)]), abs=0.02)
