"""The engine in front of the vision model: one run at a time, a bounded line of calls, early refusal."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from corpusmesh_core.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    OverloadedError,
)
from corpusmesh_core.ports.embedding import MAX_TEXT_BYTES, EmbeddingSpace
from corpusmesh_core.ports.page_embedding import (
    MAX_PAGE_IMAGE_BYTES,
    MAX_PAGES_PER_CALL,
    MultiVectors,
    PageEmbeddingBackend,
)

_Result = TypeVar("_Result")
_RETRY_SECONDS = 2.0


class PageEngine:
    """Embeds page images and questions for pages, or says that no vision model is configured."""

    def __init__(self, backend: PageEmbeddingBackend | None, *, max_waiting_calls: int) -> None:
        """Create the engine.

        Args:
            backend: The vision model; None for none.
            max_waiting_calls: Calls that may wait for the model; one more is refused.
        """
        self._backend = backend
        self._gate = asyncio.Semaphore(1)
        self._max_waiting = max_waiting_calls
        self._waiting = 0

    @property
    def page_space(self) -> EmbeddingSpace | None:
        """Space of the vision model; None where none is configured."""
        return None if self._backend is None else self._backend.space

    async def embed_pages(self, images: Sequence[bytes], *, deadline_seconds: float) -> list[MultiVectors]:
        """Embed page images; see `PageEmbedder.embed_pages`.

        Args:
            images: PNG or JPEG.
            deadline_seconds: How long the caller waits.

        Returns:
            Vectors of each page.

        Raises:
            InvalidArgumentError: PAGE_IMAGE_INVALID if there are too many, or one is too large or no image.
        """
        backend = self._require()
        if not 1 <= len(images) <= MAX_PAGES_PER_CALL or any(len(image) > MAX_PAGE_IMAGE_BYTES for image in images):
            raise InvalidArgumentError(
                "PAGE_IMAGE_INVALID",
                f"send 1 to {MAX_PAGES_PER_CALL} images of at most {MAX_PAGE_IMAGE_BYTES:,} bytes each",
                field="images",
            )
        return await self._run(lambda: backend.encode_pages(images), deadline_seconds)

    async def embed_page_question(self, text: str, *, deadline_seconds: float) -> MultiVectors:
        """Embed a question; see `PageEmbedder.embed_page_question`.

        Args:
            text: The question.
            deadline_seconds: How long the caller waits.

        Returns:
            Its vectors.

        Raises:
            InvalidArgumentError: PAGE_QUESTION_INVALID if it is empty or too long.
        """
        backend = self._require()
        if not text.strip() or len(text.encode()) > MAX_TEXT_BYTES:
            raise InvalidArgumentError(
                "PAGE_QUESTION_INVALID", f"text takes 1 to {MAX_TEXT_BYTES:,} bytes", field="text"
            )
        return await self._run(lambda: backend.encode_question(text), deadline_seconds)

    def _require(self) -> PageEmbeddingBackend:
        if self._backend is None:
            raise FailedPreconditionError(
                "PAGE_MODEL_MISSING",
                "no vision model is configured; set embed.page_model_directory to that of one",
                setting="embed.page_model_directory",
            )
        return self._backend

    async def _run(self, work: Callable[[], _Result], deadline_seconds: float) -> _Result:
        if self._waiting >= self._max_waiting:
            raise OverloadedError(
                "EMBED_PAGES_QUEUE_FULL",
                "too many pages wait for the vision model; try again shortly",
                retry_delay_seconds=_RETRY_SECONDS,
                limit=self._max_waiting,
            )
        self._waiting += 1
        try:
            async with asyncio.timeout(deadline_seconds):
                await self._gate.acquire()
                run = asyncio.create_task(self._hold(work))
                # A run that nobody waits for any more goes on in its thread; its error has been given up with it.
                run.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
                return await asyncio.shield(run)
        except TimeoutError as error:
            raise DeadlineExceededError(
                "EMBED_PAGES_DEADLINE_EXCEEDED", f"the vision model did not answer within {deadline_seconds:.3g} s"
            ) from error
        finally:
            self._waiting -= 1

    async def _hold(self, work: Callable[[], _Result]) -> _Result:
        try:
            return await asyncio.to_thread(work)
        finally:
            self._gate.release()
