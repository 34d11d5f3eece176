"""Runs stages that do not need each other at the same time: the model is waited for once, not once a stage."""

import asyncio
from collections.abc import Sequence

from corpusmesh_retrieve.outcome import SearchOutcome
from corpusmesh_retrieve.stages import Stage, StageResult, counted, run_stages
from corpusmesh_retrieve.understanding.adding import sort_variants
from corpusmesh_runtime.context import CallContext


class Together:
    """Several lanes of stages as one stage; each stage of a lane still reports itself.

    The stages share one state. Each reads what it needs before it waits and writes its own part afterwards, without
    waiting in between, so that no stage undoes what another has done meanwhile.
    """

    name = "understanding"

    def __init__(self, *lanes: Sequence[Stage]) -> None:
        """Create it.

        Args:
            lanes: Lanes; the stages of one run one after the other, the lanes at the same time.
        """
        self._lanes = lanes
        self._order = [stage.name for lane in lanes for stage in lane]

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return any(stage.is_wanted(outcome) for lane in self._lanes for stage in lane)

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """See `Stage`."""
        first = len(outcome.stages)
        ended = await asyncio.gather(*(run_stages(lane, call, outcome) for lane in self._lanes), return_exceptions=True)
        sort_variants(outcome)
        outcome.stages[first:] = sorted(outcome.stages[first:], key=lambda report: self._order.index(report.name))
        for error in ended:
            if error is not None:
                raise error
        return StageResult(detail=f"{counted(len(outcome.stages) - first, 'stage')} at the same time")
