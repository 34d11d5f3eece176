"""Ports of late interaction: the vision model that turns page images and questions into many vectors each."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.ports.embedding import EmbeddingSpace

MAX_PAGES_PER_CALL = 8
"""Most page images that one call of a `PageEmbedder` may carry."""
MAX_PAGE_IMAGE_BYTES = 2 * 1024 * 1024
"""Largest encoded page image of a call."""

MultiVectors = NDArray[np.float32]
"""Shape (n, dimension): vectors of unit norm of one page or question."""


class PageEmbeddingBackend(Protocol):
    """A vision model that can be called. Synchronous and thread-safe."""

    @property
    def space(self) -> EmbeddingSpace:
        """The space of its vectors; another one than that of the text model."""
        ...

    def encode_pages(self, images: Sequence[bytes]) -> list[MultiVectors]:
        """Embed page images.

        Args:
            images: PNG or JPEG, at least one.

        Returns:
            Vectors of each page, checked: dimension, finite, unit norm.

        Raises:
            InvalidArgumentError: PAGE_IMAGE_INVALID if one is no image.
            InternalError: If the model fails or gives vectors that cannot be used.
        """
        ...

    def encode_question(self, text: str) -> MultiVectors:
        """Embed a question.

        Args:
            text: The question.

        Returns:
            Its vectors, checked likewise.

        Raises:
            InternalError: If the model fails or gives vectors that cannot be used.
        """
        ...


class PageEmbedder(Protocol):
    """What services use of the vision model; there may be none."""

    @property
    def page_space(self) -> EmbeddingSpace | None:
        """Space of the vision model, as far as this process knows; None where none is configured: see `refresh`."""
        ...

    async def refresh(self, *, deadline_seconds: float) -> None:
        """Learn which models the service has now.

        Args:
            deadline_seconds: How long the caller waits, from now.

        Raises:
            UnavailableError: If the service does not answer; `page_space` stays as it was.
        """
        ...

    async def embed_pages(self, images: Sequence[bytes], *, deadline_seconds: float) -> list[MultiVectors]:
        """Embed page images.

        Args:
            images: PNG or JPEG, 1 to MAX_PAGES_PER_CALL of at most MAX_PAGE_IMAGE_BYTES each.
            deadline_seconds: How long the caller waits, from now.

        Returns:
            Vectors of each page in order.

        Raises:
            FailedPreconditionError: PAGE_MODEL_MISSING where no vision model is configured.
            InvalidArgumentError: PAGE_IMAGE_INVALID if one is no image, or there are too many.
            OverloadedError: EMBED_PAGES_QUEUE_FULL if too much waits.
            DeadlineExceededError: If the time is over.
            UnavailableError: If the service does not answer.
        """
        ...

    async def embed_page_question(self, text: str, *, deadline_seconds: float) -> MultiVectors:
        """Embed a question for pages.

        Args:
            text: The question.
            deadline_seconds: How long the caller waits, from now.

        Returns:
            Its vectors.

        Raises:
            FailedPreconditionError: PAGE_MODEL_MISSING where no vision model is configured.
            OverloadedError: EMBED_PAGES_QUEUE_FULL if too much waits.
            DeadlineExceededError: If the time is over.
            UnavailableError: If the service does not answer.
        """
        ...
