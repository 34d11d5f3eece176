"""Searches for what an answer would look like (HyDE, seed 003)."""

from typing import Final

from corpusmesh_core.prompts.hyde_v1 import HYDE_V1
from corpusmesh_core.query import VariantOrigin
from corpusmesh_core.query.understanding.answers import read_passage
from corpusmesh_retrieve.asking import question_block
from corpusmesh_retrieve.outcome import SearchOutcome
from corpusmesh_retrieve.stages import StageResult
from corpusmesh_retrieve.understanding.adding import add_variants, told
from corpusmesh_runtime.context import CallContext

_WEIGHT: Final = 0.6


class HypotheticalPassage:
    """The stage `hyde`: by a language model alone; a passage that the index already holds would be no hypothesis."""

    name = "hyde"

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.understanding.hyde and outcome.plan.runs_vector and outcome.visible_count > 0

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """See `Stage`."""
        made = await outcome.request.session.make(
            call, HYDE_V1, [question_block(outcome.question)], read=read_passage, otherwise=str
        )
        # Words that nobody wrote find what nobody asked for: the passage is searched by its vector alone.
        count = add_variants(
            outcome, [made.value], VariantOrigin.HYPOTHETICAL, weight=_WEIGHT, is_passage=True, by_words=False
        )
        return told(count, "hypothetical passage", by_model=made.by_model, why_not=made.why_not)
