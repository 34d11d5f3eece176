"""Port of soft clustering: the method of the RAPTOR paper, for trees of METHOD_MIXTURE (ADR-0012)."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

MAX_VECTORS_PER_CALL = 20_000
"""Most vectors of a call: beyond it the mixture takes longer than anybody waits, and the watershed stands in."""


class SoftClusterer(Protocol):
    """Finds clusters that may share members."""

    async def cluster(
        self, vectors: NDArray[np.float32], *, seed: int, timeout_seconds: float
    ) -> tuple[NDArray[np.int32], ...]:
        """Cluster the nodes of a layer; the event loop is free meanwhile.

        Args:
            vectors: Their vectors, shape (n, dimension), at most MAX_VECTORS_PER_CALL.
            seed: Equal vectors under an equal seed give equal clusters on one machine.
            timeout_seconds: How long it may take; what still runs then is stopped.

        Returns:
            Members of each cluster, ascending places; ordered by first member. Every node is in at least one.

        Raises:
            FailedPreconditionError: TREE_METHOD_UNAVAILABLE if what it needs is not installed.
            InvalidArgumentError: TREE_LAYER_TOO_LARGE if there are more vectors.
            DeadlineExceededError: TREE_CLUSTERING_TIMEOUT if the time is over.
            UnavailableError: TREE_CLUSTERING_STOPPED if it ended in the middle, for want of memory perhaps.
        """
        ...
