"""The clusters of the RAPTOR paper: UMAP, then a Gaussian mixture, over all nodes and again inside each cluster.

Sarthi et al., "RAPTOR: Recursive Abstractive Processing for Tree-Organized Retrieval", ICLR 2024, section 3, with the
parameters of its reference code: 10 dimensions by cosine, neighbours the square root of n - 1 over all and 10 inside a
cluster, at most 50 components, membership above 0.1. umap and sklearn are imported where they are needed: importing
them takes 16 seconds, and the first reduction 9 more.
"""

import warnings
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.trees.values import Vectors

SMALL: Final = 12
"""Nodes up to which there is one cluster: ten dimensions say nothing about fewer."""

_DIMENSIONS: Final = 10
_LOCAL_NEIGHBOURS: Final = 10
_MAX_COMPONENTS: Final = 50
_PATIENCE: Final = 10
"""Numbers of components in a row that may be worse than the best before before the search ends."""
_LEAST_PROBABILITY: Final = 0.1
_EQUAL: Final = 1e-6

Members = NDArray[np.int32]
"""Places of the members of a cluster, ascending."""


def soft_clusters(vectors: Vectors, seed: int) -> list[Members]:
    """Cluster the nodes of a layer.

    Args:
        vectors: Shape (n, dimension), n >= 1; any values.
        seed: Equal vectors under an equal seed give equal clusters.

    Returns:
        Clusters ordered by their members, none twice; every node is in at least one.
    """
    unit = _unit(vectors)
    found: set[tuple[int, ...]] = set()
    for members in _split(unit, seed, neighbours=int(np.sqrt(max(len(unit) - 1, 1)))):
        for local in _split(unit[members], seed, neighbours=_LOCAL_NEIGHBOURS):
            found.add(tuple(members[local].tolist()))
    return [np.array(each, dtype=np.int32) for each in sorted(found)]


def _split(unit: Vectors, seed: int, *, neighbours: int) -> list[Members]:
    count = len(unit)
    everything = [np.arange(count, dtype=np.int32)]
    if count <= SMALL or float(np.abs(unit - unit[0]).max()) < _EQUAL:
        return everything
    return mixture_members(_reduced(unit, seed, neighbours), seed)


def _reduced(unit: Vectors, seed: int, neighbours: int) -> Vectors:
    import umap

    with warnings.catch_warnings():
        # It says that a seed makes it use one core, and that a layer may be small: both are wanted.
        warnings.simplefilter("ignore")
        reducer = umap.UMAP(
            n_neighbors=min(max(neighbours, 2), len(unit) - 1),
            n_components=min(_DIMENSIONS, len(unit) - 2),
            metric="cosine",
            random_state=seed,
        )
        reduced: Vectors = reducer.fit_transform(unit)
    return reduced


def mixture_members(points: NDArray[np.floating], seed: int) -> list[Members]:
    """Fit the mixture that the Bayesian information criterion prefers, and read who belongs where.

    Args:
        points: Shape (n, dimensions), n >= 2; those with values that are not finite are put together.
        seed: Seed of the fit.

    Returns:
        Members of each component by a probability above 0.1, and by the largest of a point in any case; components
        without members are left out.
    """
    finite = np.flatnonzero(np.isfinite(points).all(axis=1)).astype(np.int32)
    lost = np.setdiff1d(np.arange(len(points), dtype=np.int32), finite)
    members = [lost] if len(lost) else []
    if len(finite) < 2:
        return [*members, finite] if len(finite) else members
    probabilities = _best_mixture(points[finite].astype(np.float64), seed)
    belongs = probabilities > _LEAST_PROBABILITY
    belongs[np.arange(len(finite)), probabilities.argmax(axis=1)] = True
    return members + [finite[column] for column in belongs.T if column.any()]


def _best_mixture(points: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    from sklearn.mixture import GaussianMixture

    best, lowest, best_count = None, np.inf, 0
    with warnings.catch_warnings():
        # It says that points are equal, or that a fit was ended: the criterion judges what came of it.
        warnings.simplefilter("ignore")
        for count in range(1, min(_MAX_COMPONENTS, len(points) - 1) + 1):
            mixture = GaussianMixture(count, random_state=seed).fit(points)
            criterion = mixture.bic(points)
            if best is None or criterion < lowest:
                best, lowest, best_count = mixture, criterion, count
            elif count - best_count >= _PATIENCE:
                break
    assert best is not None
    probabilities: NDArray[np.float64] = best.predict_proba(points)
    return probabilities


def _unit(vectors: Vectors) -> Vectors:
    with np.errstate(all="ignore"):
        unit: Vectors = vectors / np.abs(vectors).max(axis=1, keepdims=True, initial=0.0)
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    unit[~np.isfinite(unit).all(axis=1)] = 0.0
    return unit
