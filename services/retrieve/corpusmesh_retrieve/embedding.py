"""Vectors for those who can do without them."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import DeadlineExceededError, OverloadedError, UnavailableError
from corpusmesh_core.ports.embedding import MAX_TEXT_BYTES, Embedder, EmbedLane, EmbedRole
from corpusmesh_core.text import cut_to_bytes
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.logging import get_logger

_log = get_logger(__name__)


async def vectors_or_none(
    embedder: Embedder,
    call: CallContext,
    texts: Sequence[str],
    *,
    role: EmbedRole,
    share_of_deadline: float,
    without: str,
    max_seconds: float = math.inf,
) -> NDArray[np.float32] | None:
    """Embed texts where the embedder answers in time.

    Args:
        embedder: Embeds them.
        call: The call.
        texts: The texts; of one that is too long for a model, the beginning.
        role: What they are.
        share_of_deadline: Longest wait, as a share of the call's time that is left, 0 to 1.
        without: What happens without vectors, for the log.
        max_seconds: Longest wait whatever is left.

    Returns:
        Vectors, shape [n_texts, dimension]; None where the embedder does not answer, or no time is left.
    """
    try:
        result = await embedder.embed(
            [cut_to_bytes(text, MAX_TEXT_BYTES) for text in texts],
            role=role,
            lane=EmbedLane.INTERACTIVE,
            deadline_seconds=min(max_seconds, call.remaining_seconds() * share_of_deadline),
        )
    except (UnavailableError, OverloadedError, DeadlineExceededError) as error:
        _log.warning("vectors left out", without=without, reason=error.reason)
        return None
    return result.vectors
