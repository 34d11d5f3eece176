"""Also asks the general question behind a special one."""

from functools import partial
from typing import Final

from corpusmesh_core.prompts.step_back_v1 import STEP_BACK_V1
from corpusmesh_core.query import VariantOrigin
from corpusmesh_core.query.understanding import general_question
from corpusmesh_core.query.understanding.answers import read_general
from corpusmesh_retrieve.asking import question_block
from corpusmesh_retrieve.outcome import SearchOutcome
from corpusmesh_retrieve.stages import StageResult
from corpusmesh_retrieve.understanding.adding import add_variants, told
from corpusmesh_runtime.context import CallContext

_WEIGHT: Final = 0.4
"""Background helps where nothing exact is found, and must not go before it. By rule it neither gains nor costs on the
evaluation sets, with any weight from 0.4 to 0.9."""


class StepBack:
    """The stage `step_back`."""

    name = "step_back"

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.understanding.step_back and outcome.visible_count > 0

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """See `Stage`."""
        made = await outcome.request.session.make(
            call,
            STEP_BACK_V1,
            [question_block(outcome.question)],
            read=read_general(outcome.question),
            otherwise=partial(general_question, outcome.question),
        )
        count = add_variants(outcome, [made.value], VariantOrigin.STEP_BACK, weight=_WEIGHT)
        return told(count, "general question", by_model=made.by_model, why_not=made.why_not)
