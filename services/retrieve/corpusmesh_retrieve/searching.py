"""One search from the first to the last stage, on one snapshot of each knowledge base."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap, FrozenBitMap

from corpusmesh_core.errors import DeadlineExceededError, OverloadedError, UnavailableError
from corpusmesh_core.ports.embedding import Embedder, EmbedLane, EmbedRole
from corpusmesh_core.ports.index import Candidates, RecallRequest, RecordIndex
from corpusmesh_core.ports.metadata import SnapshotStore
from corpusmesh_core.query import SearchMode
from corpusmesh_core.ranking import rank_candidates
from corpusmesh_core.tenancy import VisibilityInputs, visible_bitmap
from corpusmesh_core.text import analyze_query
from corpusmesh_core.visibility import Visibility, build_filter
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest, SpaceView
from corpusmesh_retrieve.pages import PageReader
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.logging import get_logger
from corpusmesh_runtime.metrics import STAGE_DURATION_SECONDS
from corpusmesh_runtime.tracing import tracer

_FOREIGN_SPACE = "SPACE_WITHOUT_MODEL"
_REFRESH_SECONDS = 2.0
_EMBED_SHARE_OF_DEADLINE = 0.4
"""Of the caller's time; the rest is for the full-text search, which must not fail because the model is slow."""
_log = get_logger(__name__)


class Searcher:
    """Runs searches."""

    def __init__(self, snapshots: SnapshotStore, index: RecordIndex, embedder: Embedder, pages: PageReader) -> None:
        """Create the searcher.

        Args:
            snapshots: Tells what the caller may see.
            index: Recalls candidates.
            embedder: Embeds the question.
            pages: Looks at the images of pages.
        """
        self._pages = pages
        self._snapshots = snapshots
        self._index = index
        self._embedder = embedder

    async def search(self, call: CallContext, request: SearchRequest) -> SearchOutcome:
        """Search.

        Args:
            call: The call; its identity decides what is visible, its deadline bounds every stage.
            request: What is searched.

        Returns:
            Everything that was found, with its explanation.

        Raises:
            NotFoundError: If a knowledge base or snapshot is unknown to the caller.
            UnavailableError: If the index does not answer.
        """
        outcome = SearchOutcome()
        with _stage(outcome, "visibility"):
            inputs = await asyncio.gather(
                *(self._inputs(call, identifier, request) for identifier in request.knowledge_base_ids)
            )
            outcome.snapshots = {item.knowledge_base_id: item.snapshot_id for item in inputs}
            outcome.views = _views(inputs)
        with _stage(outcome, "analyze"):
            outcome.terms = analyze_query(request.query)
            if outcome.terms.is_cut:
                outcome.notes.append("the query was longer than a search reads; its last words were left out")
        with _stage(outcome, "embed"):
            outcome.query_vector = await self._embed(call, request, outcome)
        with _stage(outcome, "recall"):
            found = await asyncio.gather(*(self._recall(call, request, outcome, view) for view in outcome.views))
        with _stage(outcome, "score"):
            options = request.plan.ranking_options()
            ranked = [item for part in found for item in rank_candidates(part, outcome.terms, options)]
            if len(found) > 1:
                # Spaces cannot be compared by cosine alone; similarity is absolute, so it joins them.
                ranked.sort(key=lambda item: (not item.is_kept, -item.similarity))
            outcome.ranked = tuple(ranked)
        if request.plan.page_weight > 0.0:
            with _stage(outcome, "pages"):
                await self._pages.rescore(call, request, outcome)
        return outcome

    async def _inputs(self, call: CallContext, knowledge_base_id: str, request: SearchRequest) -> VisibilityInputs:
        metadata = request.plan.metadata
        return await self._snapshots.visibility_inputs(
            call.identity,
            knowledge_base_id,
            snapshot_id=request.snapshots.get(knowledge_base_id),
            metadata_filter=None if metadata.is_empty else metadata,
        )

    async def _embed(
        self, call: CallContext, request: SearchRequest, outcome: SearchOutcome
    ) -> NDArray[np.float32] | None:
        if not request.plan.runs_vector or not request.query.strip():
            return None
        spaces = {view.space_id for view in outcome.views}
        is_alone = request.plan.mode is SearchMode.VECTOR
        seconds = call.remaining_seconds()
        try:
            if spaces != {self._embedder.space.space_id}:
                await self._embedder.refresh(deadline_seconds=min(_REFRESH_SECONDS, seconds * _EMBED_SHARE_OF_DEADLINE))
            own = self._embedder.space.space_id
            if own not in spaces:
                raise UnavailableError(_FOREIGN_SPACE, "the model of this knowledge base is not loaded")
            result = await self._embedder.embed(
                [request.query],
                role=EmbedRole.QUERY,
                lane=EmbedLane.INTERACTIVE,
                deadline_seconds=seconds if is_alone else seconds * _EMBED_SHARE_OF_DEADLINE,
            )
        except (UnavailableError, OverloadedError, DeadlineExceededError) as error:
            if is_alone:
                raise
            _log.warning("vector leg left out", reason=error.reason)
            outcome.unreachable.append("vector")
            outcome.notes.append(
                "the knowledge base was made with another embedding model, so this is a full-text search alone"
                if error.reason == _FOREIGN_SPACE
                else "the embedding model did not answer, so this is a full-text search alone"
            )
            return None
        if len(spaces) > 1:
            outcome.unreachable.append("vector")
            outcome.notes.append("a knowledge base made with another embedding model was searched by its words alone")
        outcome.query_space_id = own
        vector: NDArray[np.float32] = result.vectors[0]
        return vector

    async def _recall(
        self, call: CallContext, request: SearchRequest, outcome: SearchOutcome, view: SpaceView
    ) -> Candidates:
        if view.visibility.is_empty:
            return Candidates(())
        plan = request.plan
        comparable = outcome.query_vector is not None and outcome.query_space_id == view.space_id
        terms = outcome.terms if plan.runs_lexical else analyze_query("")
        if terms.is_empty and not comparable:
            return Candidates(())
        candidates = await self._index.search(
            call.identity.tenant_id,
            view.space_id,
            RecallRequest(
                terms=terms,
                query_vector=outcome.query_vector if comparable else None,
                visibility=build_filter(view.visibility, plan.kinds),
                knowledge_base_ids=view.knowledge_base_ids,
                window=plan.window,
                other_script_window=max(1, plan.window // 4) if plan.include_other_script else 0,
            ),
            timeout_seconds=call.remaining_seconds(),
        )
        outcome.unreachable.extend(candidates.incomplete_legs)
        return candidates


def _views(inputs: Sequence[VisibilityInputs]) -> tuple[SpaceView, ...]:
    spaces: dict[str, list[VisibilityInputs]] = {}
    for item in inputs:
        spaces.setdefault(item.space_id, []).append(item)
    views: list[SpaceView] = []
    for space_id, items in spaces.items():
        visible = BitMap()
        for item in items:
            visible |= visible_bitmap(item)
        visibility = Visibility(
            ",".join(f"{item.knowledge_base_id}/{item.snapshot_id}" for item in items),
            FrozenBitMap(visible),
            max(item.next_ordinal for item in items),
        )
        views.append(SpaceView(space_id, tuple(item.knowledge_base_id for item in items), visibility))
    return tuple(views)


@contextmanager
def _stage(outcome: SearchOutcome, name: str) -> Iterator[None]:
    started = time.perf_counter()
    with tracer().start_as_current_span(f"search.{name}"):
        yield
    seconds = time.perf_counter() - started
    outcome.stage_milliseconds[name] = seconds * 1000.0
    STAGE_DURATION_SECONDS.labels("retrieve", name).observe(seconds)
