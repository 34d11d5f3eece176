"""Port of community detection: one flat partition of a connected graph (ADR-0014)."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class CommunityFinder(Protocol):
    """Finds groups of nodes that hold together. It computes: callers keep it off the event loop."""

    def partition(
        self,
        offsets: NDArray[np.int64],
        neighbours: NDArray[np.int32],
        weights: NDArray[np.float64],
        *,
        resolution: float,
        seed: int,
    ) -> NDArray[np.int32]:
        """Partition a graph.

        Args:
            offsets: Where the neighbours of each of n nodes begin, shape (n + 1,).
            neighbours: Neighbours of each node, ascending, every edge in both directions, shape (2 edges,).
            weights: Weights of the edges, above 0, shape (2 edges,).
            resolution: Above 1 for smaller groups, below for larger ones.
            seed: Equal graphs under an equal seed give equal groups.

        Returns:
            Group of each node, shape (n,); any numbers.
        """
        ...
