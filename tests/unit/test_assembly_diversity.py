"""MMR and relevant information gain on sets whose right order can be told by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from corpusmesh_core.assembly import order_by_information_gain, order_by_mmr, term_similarities, vector_similarities
from tests.support.candidates import unit

RULES = [order_by_mmr, order_by_information_gain]
# Two that say the same, and a third, a little less relevant, that says something else.
RELEVANCE = np.array([0.9, 0.89, 0.8])
TWINS = np.array([[1.0, 1.0, 0.2], [1.0, 1.0, 0.2], [0.2, 0.2, 1.0]])


@pytest.mark.parametrize("rule", RULES)
def test_the_twin_of_the_best_hit_gives_way_to_one_that_says_something_else(rule: object) -> None:
    assert rule(RELEVANCE, TWINS, weight=0.5).tolist() == [0, 2, 1]  # type: ignore[operator]


@pytest.mark.parametrize("rule", RULES)
def test_without_weight_the_order_is_that_of_relevance(rule: object) -> None:
    relevance = np.array([0.3, 0.9, 0.5, 0.5])
    order = rule(relevance, np.full((4, 4), 0.5), weight=0.0)  # type: ignore[operator]
    assert order.tolist() == [1, 2, 3, 0]


def test_information_gain_does_not_trade_relevance_for_mere_difference() -> None:
    """What is far from the question is an unlikely target: MMR at the same weight takes it, the dartboard does not."""
    relevance = np.array([0.9, 0.85, 0.1])
    similarities = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert order_by_mmr(relevance, similarities, weight=0.55).tolist() == [0, 2, 1]
    assert order_by_information_gain(relevance, similarities, weight=0.55).tolist() == [0, 1, 2]


def test_information_gain_is_the_sum_over_targets_of_the_paper() -> None:
    """Every greedy step must be the best one by the definition, summed without logarithms."""
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(9, 3))
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    similarities = np.clip(vectors @ vectors.T, 0, 1)
    relevance = np.clip(rng.random(9), 0.4, 1.0)
    sigma = 0.3
    order = order_by_information_gain(relevance, similarities, weight=0.5, sigma=sigma)
    target = np.exp(-0.5 * ((1 - relevance) / sigma) ** 2)
    near = np.exp(-0.5 * ((1 - similarities) / sigma) ** 2)
    for step in range(1, 9):
        taken = order[:step].tolist()
        gains = {
            place: float((target * near[[*taken, place]].max(axis=0)).sum()) for place in range(9) if place not in taken
        }
        assert gains[int(order[step])] == pytest.approx(max(gains.values()))


@st.composite
def _sets(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    count = draw(st.integers(0, 12))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    vectors = rng.normal(size=(count, 4))
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1), 1e-9)[:, None]
    return rng.random(count), np.clip(vectors @ vectors.T, 0.0, 1.0)


@given(_sets(), st.floats(0.0, 1.0))
def test_every_rule_gives_each_hit_once_and_the_best_one_first(
    case: tuple[NDArray[np.float64], NDArray[np.float64]], weight: float
) -> None:
    relevance, similarities = case
    for rule in RULES:
        order = rule(relevance, similarities, weight=weight)
        assert sorted(order.tolist()) == list(range(len(relevance)))
        assert np.array_equal(order, rule(relevance, similarities, weight=weight))
        if len(relevance) and weight < 1.0:
            assert order[0] == np.argmax(relevance)


def test_cosines_are_stretched_from_the_models_floor() -> None:
    vectors = np.stack([unit([1, 0]), unit([0.7, 0.714143]), unit([0.85, 0.526783])])
    assert vector_similarities(vectors, floor=0.7)[0].tolist() == pytest.approx([1.0, 0.0, 0.5], abs=1e-4)


def test_without_vectors_shared_terms_speak() -> None:
    found = term_similarities(["a b c d", "a b c d", "a b x y", "", "z"])
    assert found[0].tolist() == pytest.approx([1.0, 1.0, 0.5, 0.0, 0.0])
    assert found[3].tolist() == [0.0] * 5
