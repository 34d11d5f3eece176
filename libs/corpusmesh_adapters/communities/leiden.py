"""Leiden's algorithm by graspologic-native (MIT, Rust), behind the port `CommunityFinder`."""

from typing import Final

import graspologic_native
import numpy as np
from numpy.typing import NDArray

_RANDOMNESS: Final = 0.001
_ITERATIONS: Final = 1


class LeidenFinder:
    """Groups of largest modularity (Traag, Waltman and van Eck, "From Louvain to Leiden", 2019).

    The global interpreter lock is free while it computes. Its groups are connected.
    """

    def partition(
        self,
        offsets: NDArray[np.int64],
        neighbours: NDArray[np.int32],
        weights: NDArray[np.float64],
        *,
        resolution: float,
        seed: int,
    ) -> NDArray[np.int32]:
        """Partition a graph, see `CommunityFinder.partition`."""
        count = len(offsets) - 1
        if not len(neighbours):
            return np.arange(count, dtype=np.int32)
        _, groups = graspologic_native.leiden_csr(
            np.ascontiguousarray(offsets, dtype=np.int64),
            np.ascontiguousarray(neighbours, dtype=np.int32),
            np.ascontiguousarray(weights, dtype=np.float64),
            count,
            resolution=resolution,
            randomness=_RANDOMNESS,
            iterations=_ITERATIONS,
            use_modularity=True,
            seed=seed,
            trials=1,
        )
        labels = np.arange(count, 2 * count, dtype=np.int32)
        labels[np.fromiter(groups.keys(), np.int64, len(groups))] = np.fromiter(groups.values(), np.int32, len(groups))
        return labels
