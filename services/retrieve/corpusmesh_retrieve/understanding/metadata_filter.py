"""Reads conditions on metadata out of the question, and narrows what the search may see by them.

Visibility can only get narrower by it: the conditions are added to those of the request, and the snapshot stays. Where
nothing would be left, the search goes on without them.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from corpusmesh_core.answering.step_messages import DataBlock
from corpusmesh_core.enrichment.schema import MetadataField
from corpusmesh_core.prompts.metadata_filter_v1 import METADATA_FILTER_V1
from corpusmesh_core.query.understanding import common_fields, conditions_in
from corpusmesh_core.query.understanding.answers import read_conditions
from corpusmesh_core.tenancy import FilterCondition
from corpusmesh_retrieve.asking import question_block
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult, counted
from corpusmesh_retrieve.viewing import Look
from corpusmesh_runtime.context import CallContext

_MAX_DESCRIPTION_CHARACTERS = 200
_MAX_SHOWN_VALUES = 64


class MetadataConditions:
    """The stage `metadata_filter`."""

    name = "metadata_filter"

    def __init__(self, look: Look, now: Callable[[], datetime]) -> None:
        """Create the stage.

        Args:
            look: Finds out again what the search may see.
            now: The clock, UTC.
        """
        self._look = look
        self._now = now

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.understanding.metadata_filter and outcome.visible_count > 0

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """See `Stage`."""
        given = {condition.key for condition in outcome.request.metadata.conditions}
        fields = [entry for entry in common_fields([item.config for item in outcome.inputs]) if entry.name not in given]
        if not fields:
            return StageResult(StageState.SKIPPED, detail="there are no metadata fields to set conditions on")
        today = self._now()
        made = await outcome.request.session.make(
            call,
            METADATA_FILTER_V1,
            [DataBlock("fields", _shown(fields)), question_block(outcome.question)],
            read=read_conditions(outcome.question, fields),
            otherwise=partial(conditions_in, outcome.question, fields, today=today),
            parameters={"today": today.date().isoformat()},
        )
        if not made.value:
            return StageResult(StageState.SKIPPED, made.by_model, "the question sets no condition on metadata")
        names = ", ".join(dict.fromkeys(condition.key for condition in made.value))
        if not await self._narrowed(call, outcome, made.value):
            detail = f"no document meets the conditions on {names}, so they were left out"
            outcome.notes.append(detail)
            return StageResult(StageState.SKIPPED, made.by_model, detail)
        outcome.notes.append(f"only documents were searched that meet conditions of the question on {names}")
        return StageResult(StageState.RAN, made.by_model, f"{counted(len(made.value), 'condition')} on {names}")

    async def _narrowed(
        self, call: CallContext, outcome: SearchOutcome, conditions: tuple[FilterCondition, ...]
    ) -> bool:
        before = outcome.inputs, outcome.snapshots, outcome.views
        is_useful = False
        outcome.inferred = conditions
        try:
            await self._look(call, outcome)
            is_useful = outcome.visible_count > 0
        finally:
            if not is_useful:
                outcome.inferred = ()
                outcome.inputs, outcome.snapshots, outcome.views = before
        return is_useful


def _shown(fields: Sequence[MetadataField]) -> str:
    lines: list[str] = []
    for entry in fields:
        line = f"{entry.name} ({entry.type.value})"
        if entry.description:
            line += f": {entry.description[:_MAX_DESCRIPTION_CHARACTERS]}"
        if entry.values:
            line += f"; one of: {', '.join(entry.values[:_MAX_SHOWN_VALUES])}"
        lines.append(line)
    return "\n".join(lines)
