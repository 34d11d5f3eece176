"""Orders in which hits that say the same give way to others: MMR and relevant information gain."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

INFORMATION_SIGMA: Final = 0.1
"""Standard deviation of the kernel over distances of 0 to 1; near that of the paper (0.096 to 0.16 over its sets)."""


def vector_similarities(vectors: NDArray[np.float32], *, floor: float) -> NDArray[np.float64]:
    """Compare vectors with each other.

    Args:
        vectors: Shape [n, dimension], unit norm.
        floor: Cosine of texts that have nothing to do with each other, below 1.

    Returns:
        Similarities, shape [n, n], 0 to 1: cosines stretched so that unrelated texts are near 0.
    """
    cosines = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    return np.clip((cosines - floor) / (1.0 - floor), 0.0, 1.0)


def term_similarities(term_texts: Sequence[str]) -> NDArray[np.float64]:
    """Compare texts with each other by their terms.

    Args:
        term_texts: Terms of each text, joined by spaces.

    Returns:
        Cosines of their sets of terms, shape [n, n], 0 to 1; 0 for a text without terms.
    """
    sets = [set(text.split()) for text in term_texts]
    place = {term: index for index, term in enumerate(sorted(set().union(*sets)))}
    held = np.zeros((len(sets), max(1, len(place))), dtype=np.float64)
    for row, terms in enumerate(sets):
        held[row, [place[term] for term in terms]] = 1.0
    norms = np.sqrt(held.sum(axis=1))
    held /= np.where(norms > 0.0, norms, 1.0)[:, None]
    return np.clip(held @ held.T, 0.0, 1.0)


def order_by_mmr(
    relevance: NDArray[np.float64], similarities: NDArray[np.float64], *, weight: float
) -> NDArray[np.int64]:
    """Order by maximal marginal relevance: (1 - w) * relevance - w * similarity with the nearest one before.

    Args:
        relevance: Similarity of each candidate with the question, shape [n].
        similarities: Similarities between candidates, shape [n, n], 0 to 1.
        weight: Weight w of diversity, 0 to 1; 0 is the order of relevance.

    Returns:
        Places in their new order, shape [n]; ties keep the old one.

    References:
        Carbonell, Goldstein: The Use of MMR, SIGIR 1998.
    """
    count = len(relevance)
    order = np.empty(count, dtype=np.int64)
    nearest = np.zeros(count, dtype=np.float64)
    is_free = np.ones(count, dtype=np.bool_)
    for step in range(count):
        gain = np.where(is_free, (1.0 - weight) * relevance - weight * nearest, -np.inf)
        chosen = int(np.argmax(gain))
        order[step] = chosen
        is_free[chosen] = False
        nearest = np.maximum(nearest, similarities[chosen])
    return order


def order_by_information_gain(
    relevance: NDArray[np.float64],
    similarities: NDArray[np.float64],
    *,
    weight: float,
    sigma: float = INFORMATION_SIGMA,
) -> NDArray[np.int64]:
    """Order by relevant information gain, the dartboard.

    Each candidate could be what the question aims at, with a probability that falls with its distance from the
    question; each next one is that which brings the set nearest to the target, whichever that is. What is said already
    adds nothing, without being punished.

    Args:
        relevance: Similarity of each candidate with the question, shape [n], 0 to 1.
        similarities: Similarities between candidates, shape [n, n], 0 to 1.
        weight: Weight of diversity, 0 to 1: the exponents of the paper's two factors are 2 * weight (how near the set
            is to a target) and 2 * (1 - weight) (how probable the target is), so that 0.5 is the paper's own rule.
        sigma: Standard deviation of the normal kernel over distances, above 0.

    Returns:
        Places in their new order, shape [n]; ties keep the old one.

    References:
        Pickett, Hartman, Bhowmick, Alam, Vempaty: Better RAG using Relevant Information Gain, 2024
        (arXiv 2407.12101), algorithm 1.
    """
    count = len(relevance)
    order = np.empty(count, dtype=np.int64)
    if not count:
        return order
    # Constants of the density are the same for all and leave the order as it is.
    target = 2.0 * (1.0 - weight) * (-0.5 * np.square((1.0 - relevance) / sigma))
    nearness = 2.0 * weight * (-0.5 * np.square((1.0 - similarities) / sigma))
    is_free = np.ones(count, dtype=np.bool_)
    chosen = int(np.argmax(relevance))
    reached = nearness[chosen]
    order[0] = chosen
    is_free[chosen] = False
    for step in range(1, count):
        gain = _log_sum_exp(np.maximum(reached[None, :], nearness) + target[None, :])
        # The gain is the same for all that add nothing: the better one of those goes first.
        best = float(gain[is_free].max())
        open_places = np.flatnonzero(is_free & (gain >= best - 1e-12))
        chosen = int(open_places[np.argmax(relevance[open_places])])
        order[step] = chosen
        is_free[chosen] = False
        reached = np.maximum(reached, nearness[chosen])
    return order


def _log_sum_exp(values: NDArray[np.float64]) -> NDArray[np.float64]:
    highest = values.max(axis=1)
    return np.asarray(highest + np.log(np.exp(values - highest[:, None]).sum(axis=1)), dtype=np.float64)
