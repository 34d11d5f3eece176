"""Where the vector of a node comes from."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from corpusmesh_core.trees.settings import SummaryMethod
from corpusmesh_core.trees.values import Child, Summary, Vectors

_MIN_NORM: Final = 1e-12


def needs_embedding(summary: Summary) -> bool:
    """Tell whether the vector of a node is that of its text, by the embedder, or that of its children.

    Args:
        summary: The node's summary.

    Returns:
        True for what a language model wrote; sentences get `blend_vectors`.
    """
    return summary.method is SummaryMethod.LLM


def blend_vectors(children: Sequence[Child], vectors: Vectors) -> Vectors:
    """Make the vector of a node from those of its children: their mean, each weighed by its leaves.

    Args:
        children: At least one.
        vectors: Shape (len(children), dimension), float32, unit norm.

    Returns:
        Shape (dimension,), float32, unit norm; the first child's vector where they cancel each other out.
    """
    weights = np.array([max(1, child.leaf_count) for child in children], np.float64)
    blend = weights @ vectors.astype(np.float64)
    norm = float(np.linalg.norm(blend))
    if not norm > _MIN_NORM * len(children):
        return np.array(vectors[0], np.float32)
    return np.array(blend / norm, np.float32)
