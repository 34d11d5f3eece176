"""Checks and squashes what a cross-encoder gives."""

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import InternalError


class Activation(StrEnum):
    """How a model's numbers become scores between 0 and 1."""

    SIGMOID = "sigmoid"
    """Of one logit."""
    SOFTMAX = "softmax"
    """Of several logits, of which the last says that the passage fits."""
    NONE = "none"
    """They are such scores."""


def scores_checked(raw: NDArray[np.float32], *, count: int, activation: Activation) -> NDArray[np.float32]:
    """Make scores of a model's numbers.

    Args:
        raw: Shape (count,), (count, 1) or, for SOFTMAX, (count, n).
        count: How many passages were asked for.
        activation: How they become scores.

    Returns:
        Shape (count,), 0 to 1.

    Raises:
        InternalError: RERANK_SCORES_INVALID if they have another shape, are not finite, or are no scores.
    """
    values = raw.astype(np.float64)
    if activation is Activation.SOFTMAX and values.ndim == 2 and values.shape[1] > 1:
        shares = np.exp(values - values.max(axis=1, keepdims=True))
        values = shares[:, -1] / shares.sum(axis=1)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (count,) or not bool(np.isfinite(values).all()):
        raise InternalError("RERANK_SCORES_INVALID", "the cross-encoder gave numbers that do not fit the passages")
    if activation is Activation.SIGMOID:
        values = 1.0 / (1.0 + np.exp(-np.clip(values, -60.0, 60.0)))
    if bool(((values < -1e-6) | (values > 1.0 + 1e-6)).any()):
        raise InternalError(
            "RERANK_SCORES_INVALID",
            "the cross-encoder gave scores outside 0..1; say that they are logits (embed.rerank.scores_are_logits, or"
            " the activation of the model's description)",
        )
    return np.clip(values, 0.0, 1.0).astype(np.float32)
