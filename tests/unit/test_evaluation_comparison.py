"""Paired comparisons: a gain is called one only where it is more than chance."""

import numpy as np
import pytest

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.evaluation import compare_paired


def dice(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_p_value_is_that_of_all_sign_patterns() -> None:
    # Five questions, all better by 1: of the 32 patterns two have a mean as large, so p = 2/32.
    outcome = compare_paired([0.0] * 5, [1.0] * 5, rng=dice())
    assert outcome.p_value == pytest.approx(2 / 32, abs=0.01)
    assert not outcome.is_significant
    assert (outcome.difference, outcome.low, outcome.high) == (1.0, 1.0, 1.0)
    assert (outcome.win_count, outcome.loss_count) == (5, 0)


def test_eight_wins_in_a_row_are_more_than_chance() -> None:
    # 2/256 = 0.0078
    outcome = compare_paired([0.0] * 8, [0.5] * 8, rng=dice())
    assert outcome.p_value == pytest.approx(2 / 256, abs=0.004)
    assert outcome.is_significant


def test_noise_is_not_called_a_gain() -> None:
    false_alarms = 0
    for seed in range(60):
        rng = dice(seed)
        first, second = rng.random(40), rng.random(40)
        false_alarms += compare_paired(list(first), list(second), rng=rng).is_significant
    # 5 % of 60 is 3; 9 or more would come once in 300 times.
    assert false_alarms <= 8


def test_a_small_gain_on_every_question_is_found_in_noise() -> None:
    rng = dice()
    first = rng.random(200)
    outcome = compare_paired(list(first), list(first + 0.02 + rng.normal(0, 0.05, 200)), rng=rng)
    assert outcome.is_significant
    assert 0.0 < outcome.low < outcome.difference < outcome.high < 0.05


def test_the_same_values_differ_by_nothing() -> None:
    outcome = compare_paired([0.3, 1.0, 0.0], [0.3, 1.0, 0.0], rng=dice())
    assert (outcome.difference, outcome.p_value, outcome.win_count, outcome.loss_count) == (0.0, 1.0, 0, 0)


def test_a_loss_is_as_significant_as_a_gain() -> None:
    outcome = compare_paired([1.0] * 10, [0.0] * 10, rng=dice())
    assert outcome.is_significant
    assert outcome.difference == -1.0
    assert outcome.loss_count == 10


@pytest.mark.parametrize(("first", "second", "reason"), [([], [], "EVALUATION_EMPTY"), ([1.0], [], "EVALUATION_PAIRS")])
def test_what_cannot_be_paired_is_refused(first: list[float], second: list[float], reason: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        compare_paired(first, second, rng=dice())
    assert raised.value.reason == reason
