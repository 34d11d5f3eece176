"""What every backend does with the numbers that a model gave: check them, and bring them to unit norm."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import InternalError

_LEAST_NORM: Final = 1e-6


def normalize_checked(vectors: NDArray[Any], *, text_count: int, dimension: int) -> NDArray[np.float32]:
    """Check vectors and bring them to unit norm.

    Args:
        vectors: What the model gave.
        text_count: How many vectors were asked for.
        dimension: Numbers per vector that the space declares.

    Returns:
        Shape (text_count, dimension), float32, unit norm.

    Raises:
        InternalError: EMBED_DIMENSION_MISMATCH, EMBED_NOT_FINITE or EMBED_ZERO_NORM.
    """
    if vectors.shape != (text_count, dimension):
        raise InternalError(
            "EMBED_DIMENSION_MISMATCH",
            f"the model gave an array of shape {vectors.shape} where {(text_count, dimension)} is declared",
            found_shape=vectors.shape,
            declared_shape=(text_count, dimension),
        )
    rows = vectors.astype(np.float32, copy=False)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.isfinite(norms).all():
        position = int(np.argmin(np.isfinite(norms)))
        raise InternalError(
            "EMBED_NOT_FINITE", "the model gave a vector that is not finite; the text is refused", position=position
        )
    if text_count and float(norms.min()) < _LEAST_NORM:
        raise InternalError(
            "EMBED_ZERO_NORM", "the model gave a vector of zero norm; the text is refused", position=int(norms.argmin())
        )
    return np.asarray(rows / norms, np.float32)
