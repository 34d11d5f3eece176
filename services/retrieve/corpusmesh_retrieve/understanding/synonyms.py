"""Adds the tenant's own terms and synonyms to the terms of the question (field report FR-A13)."""

from dataclasses import replace

from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult, counted
from corpusmesh_retrieve.vocabulary.reading import VocabularyReader
from corpusmesh_runtime.context import CallContext


class Synonyms:
    """The stage `synonyms`."""

    name = "synonyms"

    def __init__(self, vocabularies: VocabularyReader) -> None:
        """Create the stage.

        Args:
            vocabularies: Gives the words of a tenant.
        """
        self._vocabularies = vocabularies

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.understanding.synonyms and outcome.plan.runs_lexical and outcome.visible_count > 0

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """See `Stage`."""
        vocabulary = await self._vocabularies.read(call)
        if vocabulary.is_empty:
            return StageResult(StageState.SKIPPED, detail="there are no words of your own")
        phrases = vocabulary.phrases_in(outcome.question)
        alternatives = vocabulary.alternatives_in(outcome.question, outcome.terms.fine)
        outcome.terms = replace(outcome.terms, phrases=phrases, alternatives=alternatives)
        return StageResult(detail=f"{counted(len(phrases), 'term')}, {counted(len(alternatives), 'synonym')}")
