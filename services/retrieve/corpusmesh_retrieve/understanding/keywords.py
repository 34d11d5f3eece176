"""Weighs the telling words of the question (seed 002, step Q1: `keyword`)."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from corpusmesh_core.prompts.query_keywords_v1 import QUERY_KEYWORDS_V1
from corpusmesh_core.query.understanding import emphasis_of, emphasis_of_terms
from corpusmesh_core.query.understanding.answers import MAX_KEYWORDS, read_keywords
from corpusmesh_retrieve.asking import question_block
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult, counted
from corpusmesh_runtime.context import CallContext


class Keywords:
    """The stage `keywords`."""

    name = "keywords"

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.understanding.keywords and outcome.plan.runs_lexical and outcome.visible_count > 0

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """See `Stage`."""
        question = outcome.question
        read = read_keywords(question)

        def weighed(answer: object) -> Mapping[str, float] | None:
            keywords = read(answer)
            return None if keywords is None else {**emphasis_of(question), **emphasis_of_terms(question, keywords)}

        made = await outcome.request.session.make(
            call,
            QUERY_KEYWORDS_V1,
            [question_block(outcome.question)],
            read=weighed,
            otherwise=partial(emphasis_of, question),
            parameters={"count": str(MAX_KEYWORDS)},
        )
        held = frozenset((*outcome.terms.fine, *outcome.terms.coarse))
        emphasis = {term: factor for term, factor in made.value.items() if term in held}
        if not emphasis:
            return StageResult(StageState.SKIPPED, made.by_model, "no word stands out")
        outcome.terms = replace(outcome.terms, emphasis=emphasis)
        return StageResult(StageState.RAN, made.by_model, f"counting for more: {counted(len(emphasis), 'term')}")
