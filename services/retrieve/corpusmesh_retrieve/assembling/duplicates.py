"""Stage that leaves out hits whose text is that of a better one."""

import asyncio
from collections.abc import Sequence

from corpusmesh_core.assembly import (
    DuplicateSettings,
    collapse,
    confirmed_pairs,
    exact_duplicates,
    kept_of,
    near_pairs,
)
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_retrieve.assembling.reading import RecordReader, space_of
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult
from corpusmesh_runtime.context import CallContext

_MOST_HERE = 256
"""Hits that are compared at once; going to a thread costs more than comparing these (7 ms against 2)."""


class DuplicateStage:
    """Collapses duplicates into the best of them."""

    def __init__(self, reader: RecordReader, settings: DuplicateSettings | None = None) -> None:
        """Create the stage.

        Args:
            reader: Reads vectors, where words alone do not decide.
            settings: When two texts are the same.
        """
        self._reader = reader
        self._settings = settings or DuplicateSettings()

    @property
    def name(self) -> str:
        """See `Stage`."""
        return "duplicates"

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.assembly.collapse_duplicates

    def _compare(self, kept: Sequence[RankedCandidate]) -> tuple[dict[int, int], list[tuple[int, int, float]]]:
        found = exact_duplicates(kept)
        return found, near_pairs(kept, self._settings, without=found)

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Collapse them; see `Stage`."""
        kept = kept_of(outcome.ranked)
        if len(kept) <= _MOST_HERE:
            found, pairs = self._compare(kept)
        else:
            # A thousand hits that are nearly equal take seconds: not on the event loop.
            found, pairs = await asyncio.to_thread(self._compare, kept)
        equal = len(found)
        if pairs:
            places = sorted({place for better, worse, _ in pairs for place in (better, worse)})
            spaces = {space_of(outcome, kept[place].candidate.record) for place in places}
            records = await self._reader.vectors_of(call, outcome, [kept[place] for place in places])
            # Vectors of two spaces cannot be compared (FR-A11); words decide then.
            vectors = (
                {name: record.vector for name, record in records.items() if record.vector is not None}
                if len(spaces) == 1
                else {}
            )
            found |= confirmed_pairs(pairs, kept, vectors, self._settings)
        if not found:
            return StageResult(StageState.SKIPPED, detail="no hit says what a better one says")
        outcome.ranked = collapse(outcome.ranked, found)
        return StageResult(detail=f"{equal} equal, {len(found) - equal} nearly equal")
