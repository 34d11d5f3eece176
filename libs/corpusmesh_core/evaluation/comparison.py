"""Whether one configuration is better than another on the same questions, or only luckier."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from corpusmesh_core.errors import InvalidArgumentError

SIGNIFICANCE_LEVEL: Final = 0.05
_SAMPLE_COUNT: Final = 10_000
_BLOCK_CELLS: Final = 2_000_000
"""Signs or draws that are held at once."""
_SAME: Final = 1e-12


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """A difference between two configurations, question by question.

    Attributes:
        difference: Mean of the second minus the first.
        low: Lower bound of its 95 % interval: bootstrap over questions, percentiles.
        high: Upper bound.
        p_value: Probability of a mean difference at least as large if both were equally good: paired randomisation
            test, two-sided.
        win_count: Questions on which the second is better.
        loss_count: Questions on which it is worse.
    """

    difference: float
    low: float
    high: float
    p_value: float
    win_count: int
    loss_count: int

    @property
    def is_significant(self) -> bool:
        """Whether the difference is more than chance at the 5 % level."""
        return self.p_value < SIGNIFICANCE_LEVEL


def compare_paired(first: Sequence[float], second: Sequence[float], *, rng: np.random.Generator) -> PairedComparison:
    """Compare two configurations by a measure of each question.

    The randomisation test asks how often the mean difference would be as large if, for each question, it were a matter
    of luck which of the two got which value. It needs no assumption on how values are spread, and it agrees with the
    bootstrap and the t test where those hold.

    Args:
        first: Values of the first, one a question, shape (n,).
        second: Values of the second on the same questions.
        rng: The dice.

    Returns:
        The comparison; a difference of 0 without a single win or loss has p = 1.

    Raises:
        InvalidArgumentError: EVALUATION_EMPTY if there is no question; EVALUATION_PAIRS if the lengths differ.

    References:
        Smucker, Allan, Carterette: A comparison of statistical significance tests for information retrieval
        evaluation, CIKM 2007. The p-value counts the observed order as one of the samples, so it is never 0.
    """
    if len(first) != len(second):
        raise InvalidArgumentError("EVALUATION_PAIRS", "both configurations must be measured on the same questions")
    if not first:
        raise InvalidArgumentError("EVALUATION_EMPTY", "there is no question to compare")
    deltas = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    observed = float(deltas.mean())
    as_large = 0
    means: list[np.ndarray] = []
    step = max(1, min(_SAMPLE_COUNT, _BLOCK_CELLS // len(deltas)))
    for start in range(0, _SAMPLE_COUNT, step):
        rows = min(step, _SAMPLE_COUNT - start)
        signs = rng.integers(0, 2, size=(rows, len(deltas)), dtype=np.int8) * 2.0 - 1.0
        as_large += int((np.abs(signs @ deltas / len(deltas)) >= abs(observed) - _SAME).sum())
        means.append(deltas[rng.integers(0, len(deltas), size=(rows, len(deltas)))].mean(axis=1))
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return PairedComparison(
        difference=observed,
        low=float(low),
        high=float(high),
        p_value=(as_large + 1) / (_SAMPLE_COUNT + 1),
        win_count=int((deltas > _SAME).sum()),
        loss_count=int((deltas < -_SAME).sum()),
    )
