"""One search from the first to the last stage, on one snapshot of each knowledge base."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap, FrozenBitMap

from corpusmesh_core.errors import DeadlineExceededError, OverloadedError, UnavailableError
from corpusmesh_core.ports.embedding import Embedder, EmbedLane, EmbedRole
from corpusmesh_core.ports.index import Candidates, RecallRequest, RecordIndex
from corpusmesh_core.ports.metadata import SnapshotStore
from corpusmesh_core.query import QueryVariant, SearchMode, VariantOrigin
from corpusmesh_core.ranking import rank_candidates
from corpusmesh_core.tenancy import VisibilityInputs, visible_bitmap
from corpusmesh_core.text import analyze_query
from corpusmesh_core.visibility import Visibility, build_filter
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest, SpaceView
from corpusmesh_retrieve.stages import SearchStages, run_stages, timed_stage
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.logging import get_logger

_FOREIGN_SPACE = "SPACE_WITHOUT_MODEL"
_REFRESH_SECONDS = 2.0
_EMBED_SHARE_OF_DEADLINE = 0.4
"""Of the caller's time; the rest is for the full-text search, which must not fail because the model is slow."""
_log = get_logger(__name__)


class Searcher:
    """Runs searches."""

    def __init__(self, snapshots: SnapshotStore, index: RecordIndex, embedder: Embedder, stages: SearchStages) -> None:
        """Create the searcher.

        Args:
            snapshots: Tells what the caller may see.
            index: Recalls candidates.
            embedder: Embeds the question.
            stages: The optional stages.
        """
        self._snapshots = snapshots
        self._index = index
        self._embedder = embedder
        self._stages = stages

    async def search(self, call: CallContext, request: SearchRequest) -> SearchOutcome:
        """Search.

        Args:
            call: The call; its identity decides what is visible, its deadline bounds every stage.
            request: What is searched.

        Returns:
            Everything that was found, with its explanation.

        Raises:
            NotFoundError: If a knowledge base or snapshot is unknown to the caller.
            InvalidArgumentError: If the plan is not valid.
            UnavailableError: If the index does not answer.
        """
        outcome = SearchOutcome(request, question=request.query)
        with timed_stage(outcome, "visibility"):
            await self.look(call, outcome)
        outcome.plan = request.make_plan([item.config for item in outcome.inputs])
        outcome.variants = [QueryVariant(request.query, VariantOrigin.QUESTION)]
        with timed_stage(outcome, "analyze"):
            outcome.terms = analyze_query(request.query)
            if outcome.terms.is_cut:
                outcome.notes.append("the query was longer than a search reads; its last words were left out")
        await run_stages(self._stages.understanding, call, outcome)
        await self.recall(call, outcome)
        await run_stages(self._stages.assembly, call, outcome)
        return outcome

    async def look(self, call: CallContext, outcome: SearchOutcome) -> None:
        """Find out what the request may see; once looked at, a knowledge base stays at its snapshot.

        Args:
            call: The call.
            outcome: Gets inputs, snapshots and views; conditions that were read out of the question narrow them.
        """
        request = outcome.request
        metadata = request.metadata
        if outcome.inferred:
            metadata = replace(metadata, conditions=(*metadata.conditions, *outcome.inferred))
        pinned = {**request.snapshots, **outcome.snapshots}
        inputs = await asyncio.gather(
            *(
                self._snapshots.visibility_inputs(
                    call.identity,
                    identifier,
                    snapshot_id=pinned.get(identifier),
                    metadata_filter=None if metadata.is_empty else metadata,
                )
                for identifier in request.knowledge_base_ids
            )
        )
        outcome.inputs = tuple(inputs)
        outcome.snapshots = {item.knowledge_base_id: item.snapshot_id for item in inputs}
        outcome.views = _views(inputs)

    async def recall(self, call: CallContext, outcome: SearchOutcome) -> None:
        """Embed the variants, recall candidates for them and put these in order.

        Args:
            call: The call.
            outcome: Gets vectors, candidates and the order.
        """
        with timed_stage(outcome, "embed"):
            outcome.query_vector = await self._embed(call, outcome)
        with timed_stage(outcome, "recall"):
            found = await asyncio.gather(*(self._recall(call, outcome, view) for view in outcome.views))
            outcome.found = [[part] for part in found]
        await run_stages(self._stages.features, call, outcome)
        with timed_stage(outcome, "score"):
            options = outcome.plan.ranking_options()
            ranked = [
                item
                for parts in outcome.found
                for item in rank_candidates(parts[0], outcome.terms, options, rank_features=outcome.rank_features)
            ]
            if len(found) > 1:
                # Spaces cannot be compared by cosine alone; similarity is absolute, so it joins them.
                ranked.sort(key=lambda item: (not item.is_kept, -item.similarity))
            outcome.ranked = tuple(ranked)

    async def _embed(self, call: CallContext, outcome: SearchOutcome) -> NDArray[np.float32] | None:
        if not outcome.plan.runs_vector or not outcome.question.strip():
            return None
        spaces = {view.space_id for view in outcome.views}
        is_alone = outcome.plan.mode is SearchMode.VECTOR
        seconds = call.remaining_seconds()
        try:
            if spaces != {self._embedder.space.space_id}:
                await self._embedder.refresh(deadline_seconds=min(_REFRESH_SECONDS, seconds * _EMBED_SHARE_OF_DEADLINE))
            own = self._embedder.space.space_id
            if own not in spaces:
                raise UnavailableError(_FOREIGN_SPACE, "the model of this knowledge base is not loaded")
            result = await self._embedder.embed(
                [outcome.question],
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

    async def _recall(self, call: CallContext, outcome: SearchOutcome, view: SpaceView) -> Candidates:
        if view.visibility.is_empty:
            return Candidates(())
        plan = outcome.plan
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
