"""Stage that lets hits that say the same give way to others."""

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.assembly import (
    kept_of,
    level_scores,
    order_by_information_gain,
    order_by_mmr,
    reordered,
    term_similarities,
    vector_similarities,
)
from corpusmesh_core.query import Diversity
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_retrieve.assembling.reading import RecordReader, space_of
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult
from corpusmesh_runtime.context import CallContext

_WINDOW = 32
"""Hits that are put into another order; reading vectors too nearly doubles the time of a read."""
_MIN_HITS = 3


class DiversityStage:
    """Orders the best hits by what each adds to those before it."""

    def __init__(self, reader: RecordReader) -> None:
        """Create the stage.

        Args:
            reader: Reads vectors.
        """
        self._reader = reader

    @property
    def name(self) -> str:
        """See `Stage`."""
        return "diversity"

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.assembly.diversity is not Diversity.NONE

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Order them; see `Stage`."""
        assembly = outcome.plan.assembly
        kept = kept_of(outcome.ranked)
        window = kept[:_WINDOW]
        if len(window) < _MIN_HITS:
            return StageResult(StageState.SKIPPED, detail="there are too few hits to choose among")
        vectors = await self._vectors(call, outcome, window)
        if vectors is None:
            similarities = term_similarities([item.candidate.content_terms for item in window])
        else:
            similarities = vector_similarities(vectors, floor=outcome.plan.ranking_options().scale.floor)
        relevance = np.clip(level_scores(kept)[: len(window)], 0.0, 1.0)
        rule = order_by_mmr if assembly.diversity is Diversity.MMR else order_by_information_gain
        order = rule(relevance, similarities, weight=assembly.diversity_weight)
        outcome.ranked = reordered(outcome.ranked, order.tolist())
        moved = int(np.count_nonzero(order != np.arange(len(order))))
        by = "words" if vectors is None else "vectors"
        return StageResult(detail=f"{assembly.diversity.value} by {by}: {moved} of {len(window)} hits moved")

    async def _vectors(
        self, call: CallContext, outcome: SearchOutcome, window: list[RankedCandidate]
    ) -> NDArray[np.float32] | None:
        """Read the vectors of all; None where one has none, or where they are of two spaces."""
        records = [item.candidate.record for item in window]
        if outcome.query_vector is None or len({space_of(outcome, record) for record in records}) != 1:
            return None
        found = await self._reader.vectors_of(call, outcome, window)
        vectors = [found[record.record_id].vector for record in records if record.record_id in found]
        present = [vector for vector in vectors if vector is not None]
        return np.stack(present) if len(present) == len(records) else None
