"""Also asks in the other languages of what is searched (seed 002, step Q1: `cross_languages`).

Without a model nothing is translated, and little is lost: the vectors of the default model span languages, and recall
looks among the records of the other script apart. A translation lets words find what they cannot find otherwise.
"""

from typing import Final

from corpusmesh_core.prompts.translate_v1 import TRANSLATE_V1
from corpusmesh_core.query import VariantOrigin
from corpusmesh_core.query.stages import MAX_LANGUAGES
from corpusmesh_core.query.understanding import LANGUAGE_NAMES, language_of, languages_to_ask_in
from corpusmesh_core.query.understanding.answers import read_translations
from corpusmesh_core.records import RecordKind
from corpusmesh_retrieve.asking import question_block
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult
from corpusmesh_retrieve.understanding.adding import add_variants, told
from corpusmesh_retrieve.understanding.probing import Prober
from corpusmesh_runtime.context import CallContext

_WEIGHT: Final = 0.9
_WINDOW: Final = 12
_MAX_FOUND_LANGUAGES: Final = 2
_NO_MODEL: Final = "vectors alone span the languages"


class CrossLanguage:
    """The stage `cross_language`."""

    name = "cross_language"

    def __init__(self, prober: Prober) -> None:
        """Create the stage.

        Args:
            prober: Finds out in which languages there is something near the question.
        """
        self._prober = prober

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.understanding.cross_language and outcome.visible_count > 0

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """See `Stage`."""
        session = outcome.request.session
        if not session.is_open:
            return StageResult(StageState.SKIPPED, detail=f"no language model translates the question; {_NO_MODEL}")
        languages = await self._languages(call, outcome)
        if not languages:
            return StageResult(StageState.SKIPPED, detail="there is no other language to ask in")
        made = await session.make(
            call,
            TRANSLATE_V1,
            [question_block(outcome.question)],
            read=read_translations(outcome.question, languages),
            otherwise=tuple[tuple[str, str], ...],
            parameters={"languages": ", ".join(f"{LANGUAGE_NAMES[tag]} ({tag})" for tag in languages)},
        )
        texts = [text for _, text in made.value]
        count = add_variants(outcome, texts, VariantOrigin.TRANSLATION, weight=_WEIGHT)
        why_not = f"{made.why_not}; {_NO_MODEL}" if made.why_not else ""
        return told(count, "translation", by_model=made.by_model, why_not=why_not)

    async def _languages(self, call: CallContext, outcome: SearchOutcome) -> tuple[str, ...]:
        wanted = outcome.plan.understanding.languages
        if wanted:
            return languages_to_ask_in(outcome.question, wanted, most=MAX_LANGUAGES)
        near = await self._prober.best(
            call,
            outcome.question,
            outcome.views,
            (RecordKind.CHUNK,),
            window=_WINDOW,
            other_script_window=_WINDOW,
        )
        records = [item.candidate.record for item in near]
        found = [record.language or language_of(record.text[:500]) for record in records]
        return languages_to_ask_in(outcome.question, found, most=_MAX_FOUND_LANGUAGES)
