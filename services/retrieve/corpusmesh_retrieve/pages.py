"""Looks at the images of candidates' pages: late interaction between a question and what a vision model saw of them."""

import asyncio
import contextlib
import io
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import CorpusMeshError, InvalidArgumentError, NotFoundError, UnavailableError
from corpusmesh_core.ports.embedding import MAX_TEXT_BYTES
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.ports.page_embedding import PageEmbedder
from corpusmesh_core.ranking import max_sim, page_image_ids, rescore_by_pages, unpack_page
from corpusmesh_core.records import PAGE_PLACE, PAGE_SPACE, PAGE_VECTORS_KEY, Record, RecordKind
from corpusmesh_core.text import cut_to_bytes
from corpusmesh_core.visibility import build_filter
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.logging import get_logger

_MAX_PAGES = 64
_MAX_OBJECT_BYTES = 512 * 1024 * 1024
_READS_IN_FLIGHT = 4
_REFRESH_SECONDS = 2.0
_SHARE_OF_DEADLINE = 0.5
_log = get_logger(__name__)
_Arrays = dict[str, NDArray[Any]]


class PageReader:
    """Re-scores candidates by the images of their pages."""

    def __init__(
        self, index: RecordIndex, objects: ObjectStore, embedder: PageEmbedder, *, max_cached_bytes: int
    ) -> None:
        """Create the reader.

        Args:
            index: Reads records of page images.
            objects: Reads their vectors.
            embedder: Embeds the question.
            max_cached_bytes: Vectors kept in memory. An object never changes and is only asked for with a key out of a
                record that the caller may see, so what is kept needs no rights of its own.
        """
        self._index = index
        self._objects = objects
        self._embedder = embedder
        self._max_cached_bytes = max_cached_bytes
        self._cached: OrderedDict[str, _Arrays] = OrderedDict()
        self._cached_bytes = 0

    @property
    def name(self) -> str:
        """See `Stage`."""
        return "pages"

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.page_weight > 0.0

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Mix what the pages look like into the order; see `Stage`."""
        if self._embedder.page_space is None:
            with contextlib.suppress(UnavailableError):
                await self._embedder.refresh(deadline_seconds=min(_REFRESH_SECONDS, call.remaining_seconds()))
        space = self._embedder.page_space
        if space is None:
            return _skipped(outcome, "no vision model is configured, so the images of pages were not looked at")
        wanted = dict.fromkeys(page_id for item in outcome.kept for page_id in page_image_ids(item.candidate.record))
        pages = await self._pages(call, outcome, list(wanted)[:_MAX_PAGES])
        readable = [page for page in pages if page.attributes.get(PAGE_SPACE) == space.space_id]
        if not readable:
            return _skipped(outcome, "no page of the candidates has an image that the vision model has seen")
        try:
            question = await self._embedder.embed_page_question(
                cut_to_bytes(outcome.question, MAX_TEXT_BYTES),
                deadline_seconds=call.remaining_seconds() * _SHARE_OF_DEADLINE,
            )
            scores = await self._scores(call, question, readable)
        except CorpusMeshError as error:
            _log.warning("pages left out", reason=error.reason)
            outcome.unreachable.append(self.name)
            note = "the images of pages could not be looked at, so the order is that of words and vectors"
            outcome.notes.append(note)
            return StageResult(StageState.FAILED, detail=note)
        outcome.ranked = rescore_by_pages(
            outcome.ranked,
            readable,
            scores,
            weight=outcome.plan.page_weight,
            similarity_threshold=outcome.plan.ranking_options().similarity_threshold,
        )
        return StageResult(detail=f"{len(scores)} pages")

    async def _pages(self, call: CallContext, outcome: SearchOutcome, record_ids: Sequence[str]) -> list[Record]:
        if not record_ids:
            return []
        found = await asyncio.gather(
            *(
                self._index.fetch(
                    call.identity.tenant_id,
                    view.space_id,
                    record_ids,
                    build_filter(view.visibility, (RecordKind.PAGE_IMAGE,)),
                    timeout_seconds=call.remaining_seconds(),
                )
                for view in outcome.views
                if not view.visibility.is_empty
            )
        )
        return [page for part in found for page in part]

    async def _scores(
        self, call: CallContext, question: NDArray[np.float32], pages: Sequence[Record]
    ) -> dict[str, float]:
        gate = asyncio.Semaphore(_READS_IN_FLIGHT)
        keys = list(dict.fromkeys(page.attributes[PAGE_VECTORS_KEY] for page in pages))

        async def read(key: str) -> _Arrays | None:
            async with gate:
                return await self._arrays(call, key)

        objects = dict(zip(keys, await asyncio.gather(*(read(key) for key in keys)), strict=True))
        present = [
            (page, arrays) for page in pages if (arrays := objects[page.attributes[PAGE_VECTORS_KEY]]) is not None
        ]
        vectors = [unpack_page(arrays, int(page.attributes[PAGE_PLACE])) for page, arrays in present]
        scores = await asyncio.to_thread(max_sim, question, vectors)
        return {page.record_id: float(score) for (page, _), score in zip(present, scores, strict=True)}

    async def _arrays(self, call: CallContext, key: str) -> _Arrays | None:
        if key in self._cached:
            self._cached.move_to_end(key)
            return self._cached[key]
        try:
            content = await self._objects.get(
                key, max_byte_count=_MAX_OBJECT_BYTES, timeout_seconds=call.remaining_seconds()
            )
        except NotFoundError:
            # Purged since the search began.
            return None
        arrays = await asyncio.to_thread(_load, content)
        size = sum(array.nbytes for array in arrays.values())
        if size <= self._max_cached_bytes and key not in self._cached:
            self._cached[key] = arrays
            self._cached_bytes += size
            while self._cached_bytes > self._max_cached_bytes:
                _, dropped = self._cached.popitem(last=False)
                self._cached_bytes -= sum(array.nbytes for array in dropped.values())
        return arrays


def _skipped(outcome: SearchOutcome, note: str) -> StageResult:
    outcome.notes.append(note)
    return StageResult(StageState.SKIPPED, detail=note)


def _load(content: bytes) -> _Arrays:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {name: archive[name] for name in ("codes", "scales", "starts")}
    except (ValueError, OSError, KeyError) as error:
        raise InvalidArgumentError("PAGE_VECTORS_INVALID", "vectors of pages cannot be read", field="object") from error
