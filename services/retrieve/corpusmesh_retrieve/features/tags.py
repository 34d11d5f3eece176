"""Lifts candidates whose tags fit the question, which is tagged by the examples of the knowledge base's tag sets."""

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np

from corpusmesh_core.enrichment.settings import EnrichmentSettings, EnrichMethod, TagSettings
from corpusmesh_core.enrichment.tags import weigh_tags
from corpusmesh_core.enrichment.values import TagExample
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.index import RecallRequest, RecordIndex
from corpusmesh_core.ranking import rank_candidates
from corpusmesh_core.ranking.features import tag_overlap
from corpusmesh_core.records import RecordKind
from corpusmesh_core.visibility import build_filter
from corpusmesh_retrieve.features.page_rank import add_features, candidates_of
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult
from corpusmesh_retrieve.viewing import SnapshotReader, views_of
from corpusmesh_runtime.context import CallContext

_ENRICHMENT = "enrichment"
_EXAMPLES = 32
_LEAST_SIMILARITY = 0.4
"""From which an example says something of a question: the model's cosine of unrelated texts is worth 0.1 to 0.3."""


class TagFeature:
    """Tags the question and lifts what has the same tags.

    A tag set is a knowledge base like any other: what the caller may not see of it does not tag the question.
    """

    def __init__(self, snapshots: SnapshotReader, index: RecordIndex) -> None:
        """Create it.

        Args:
            snapshots: Tells what the caller may see of a tag set.
            index: Finds the examples that the question resembles.
        """
        self._snapshots = snapshots
        self._index = index

    @property
    def name(self) -> str:
        """See `Stage`."""
        return "tags"

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        recall = outcome.plan.recall
        return recall.tags and recall.tag_weight > 0.0 and any(_settings(item.config) for item in outcome.inputs)

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Add to the features of tagged candidates; see `Stage`."""
        settings = {item.knowledge_base_id: _settings(item.config) for item in outcome.inputs}
        tagged = [
            item.record
            for item in candidates_of(outcome)
            if item.record.tags and settings.get(item.record.knowledge_base_id)
        ]
        if not tagged:
            return StageResult(StageState.SKIPPED, detail="no candidate has tags")
        wanted = {found for found in settings.values() if found is not None}
        asked = dict(
            zip(wanted, await asyncio.gather(*(self._tags(call, outcome, found) for found in wanted)), strict=True)
        )
        gains: dict[str, float] = {}
        for record in tagged:
            own = settings[record.knowledge_base_id]
            gain = outcome.plan.recall.tag_weight * tag_overlap(asked[own], record.tags) if own else 0.0
            if gain > 0.0:
                gains[record.record_id] = gain
        add_features(outcome, gains)
        if not any(asked.values()):
            return StageResult(StageState.SKIPPED, detail="the question resembles no tagged example")
        return StageResult(detail=f"{sum(map(len, asked.values()))} tags of the question, {len(gains)} candidates")

    async def _tags(self, call: CallContext, outcome: SearchOutcome, settings: TagSettings) -> dict[str, float]:
        """Tag the question by the sets of one knowledge base."""
        found = await asyncio.gather(*(self._examples(call, outcome, name) for name in settings.tag_sets))
        scored = [entry for entries in found for entry in entries]
        return weigh_tags(
            np.array([score for score, _ in scored], dtype=np.float64),
            [example for _, example in scored],
            max_tags=settings.max_tags,
            threshold=_LEAST_SIMILARITY,
        )

    async def _examples(
        self, call: CallContext, outcome: SearchOutcome, tag_set: str
    ) -> Sequence[tuple[float, TagExample]]:
        try:
            inputs = await self._snapshots.visibility_inputs(call.identity, tag_set)
        except NotFoundError:
            return []
        [view] = views_of([inputs])
        if view.visibility.is_empty:
            return []
        is_comparable = outcome.query_space_id == view.space_id
        request = RecallRequest(
            terms=outcome.terms,
            query_vector=outcome.query_vector if is_comparable else None,
            visibility=build_filter(view.visibility, (RecordKind.TAG_EXAMPLE,)),
            knowledge_base_ids=view.knowledge_base_ids,
            window=_EXAMPLES,
        )
        [candidates] = await self._index.search(
            call.identity.tenant_id, view.space_id, [request], timeout_seconds=call.remaining_seconds()
        )
        return [
            (min(1.0, item.similarity), TagExample(item.candidate.record.text, dict(item.candidate.record.tags)))
            for item in rank_candidates(candidates, outcome.terms, outcome.plan.ranking_options())
            if item.candidate.record.tags
        ]


def _settings(config: Mapping[str, object]) -> TagSettings | None:
    section = config.get(_ENRICHMENT)
    if not isinstance(section, Mapping) or "tags" not in section:
        return None
    tags = EnrichmentSettings.from_config(section).tags
    return tags if tags.method is not EnrichMethod.OFF and tags.tag_sets else None
