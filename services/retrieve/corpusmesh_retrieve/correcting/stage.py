"""Check what was found; where it is not enough, search with other words, or in the web (corrective RAG).

Yan et al., Corrective Retrieval Augmented Generation, 2024: a grade of what was retrieved decides between using it,
refining it and searching elsewhere. The plan's `correction` decides what of that runs, and how often.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from corpusmesh_core.answering import Evidence, SupportCalibration
from corpusmesh_core.answering.step_answers import Sufficiency
from corpusmesh_core.answering.support import Support
from corpusmesh_core.errors import DeadlineExceededError, OverloadedError, UnavailableError
from corpusmesh_core.query import QueryVariant, VariantOrigin
from corpusmesh_core.ranking import RankedCandidate, merge_ranked
from corpusmesh_retrieve.correcting.judging import Judge, without_irrelevant
from corpusmesh_retrieve.outcome import SearchOutcome
from corpusmesh_retrieve.stages import StageResult
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.logging import get_logger

_GOOD_GRADE = 0.7
"""From here on a hit answers (the upper threshold of corrective RAG)."""
_REWRITE_WEIGHT = 0.8
_WEB_RESULTS = 5
_MIN_SHARE_LEFT = 0.4
"""Of the time at the start of the loop: a further round begins only if so much is left for what comes after it."""
_log = get_logger(__name__)


class FurtherSearch(Protocol):
    """Searches for further texts on the same snapshot; see `Searcher.recall_more`."""

    async def recall_more(
        self, call: CallContext, outcome: SearchOutcome, variants: Sequence[QueryVariant]
    ) -> tuple[RankedCandidate, ...]:
        """Search for further texts for the same question.

        Args:
            call: The call.
            outcome: The search.
            variants: What to search for.

        Returns:
            What they found, comparable with `outcome.ranked`.
        """
        ...


class WebSearcher(Protocol):
    """Searches the web; see `WebSource`."""

    async def search(
        self, call: CallContext, query: str, *, max_results: int, asked: str | None = None
    ) -> list[RankedCandidate]:
        """Search the web.

        Args:
            call: The call.
            query: What to look for.
            max_results: Most passages.
            asked: What the user wrote: other words do not leave the installation.

        Returns:
            Passages, best first.
        """
        ...


class CorrectionStage:
    """Checks and corrects what a search found; the first stage after scoring."""

    name = "correct"

    def __init__(self, *, web: WebSearcher | None = None, calibration: SupportCalibration | None = None) -> None:
        """Create the stage.

        Args:
            web: The web; None where no search engine is configured.
            calibration: How well evidence must carry an answer; None for that of the bundled embedding model.
        """
        self._web = web
        self._judge = Judge(calibration or SupportCalibration())
        self._searcher: FurtherSearch | None = None

    def attach(self, searcher: FurtherSearch) -> None:
        """Give it what it searches again with, which is made of stages itself.

        Args:
            searcher: The searcher that runs this stage.
        """
        self._searcher = searcher

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.correction.check_sufficiency or outcome.plan.correction.correct

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Check, and search again while that is due; see `Stage`."""
        plan = outcome.plan.correction
        start_seconds = call.remaining_seconds()
        rounds = plan.max_rounds if plan.correct else 0
        details: list[str] = []
        by_model = False
        for number in range(rounds + 1):
            outcome.request.tell("check", "checking what was found")
            found = await _Finding.of(self._judge, call, outcome)
            by_model = by_model or found.by_model
            details.append(found.detail)
            if found.is_good or number == rounds:
                break
            if call.remaining_seconds() < _MIN_SHARE_LEFT * start_seconds:
                details.append("no time was left for another search")
                break
            added = await self._search_again(call, outcome, found)
            if added is None:
                details.append("there was nothing else to search for")
                break
            details.append(added)
        return StageResult(by_model=by_model, detail="; ".join(details))

    async def _search_again(self, call: CallContext, outcome: SearchOutcome, found: "_Finding") -> str | None:
        missing = found.sufficiency.missing if found.sufficiency is not None else ()
        made = await self._judge.rewrite(call, outcome, found.support, missing)
        uses_web = outcome.plan.correction.web and self._web is not None
        if outcome.plan.correction.web and self._web is None:
            _note(outcome, "the web was not searched: no search engine is configured")
        if not made.value and not uses_web:
            return None
        known = {item.candidate.record.record_id for item in outcome.kept}
        if made.value and self._searcher is not None:
            outcome.request.tell("correct", "searching with other words")
            variants = [QueryVariant(text, VariantOrigin.REWRITE, weight=_REWRITE_WEIGHT) for text in made.value]
            further = await self._searcher.recall_more(call, outcome, variants)
            outcome.ranked = merge_ranked(outcome.ranked, further)
        if uses_web:
            outcome.request.tell("web", "searching the web")
            outcome.ranked = merge_ranked(outcome.ranked, await self._search_web(call, outcome))
        new_count = sum(item.candidate.record.record_id not in known for item in outcome.kept)
        return f"{len(made.value)} other queries{', the web' if uses_web else ''}: {new_count} new hits"

    async def _search_web(self, call: CallContext, outcome: SearchOutcome) -> Sequence[RankedCandidate]:
        assert self._web is not None
        asked = "\n".join([outcome.request.query, *(turn.text for turn in outcome.request.history if turn.is_user)])
        try:
            return await self._web.search(call, outcome.question, max_results=_WEB_RESULTS, asked=asked)
        except (UnavailableError, OverloadedError, DeadlineExceededError) as error:
            call.remaining_seconds()
            _log.warning("the web left out", reason=error.reason)
            outcome.unreachable.append("web")
            _note(outcome, "the web could not be searched")
            return ()


class _Finding:
    """What one look at the hits says."""

    def __init__(self, evidence: Sequence[Evidence], support: Support) -> None:
        self.evidence = evidence
        self.support = support
        self.sufficiency: Sufficiency | None = None
        self.is_good = False
        self.by_model = False
        self.detail = ""

    @classmethod
    async def of(cls, judge: Judge, call: CallContext, outcome: SearchOutcome) -> "_Finding":
        found = cls(*await asyncio.to_thread(judge.measure, outcome))
        if outcome.plan.correction.check_sufficiency:
            await found._check(judge, call, outcome)
        if outcome.plan.correction.correct and not (found.is_good and outcome.plan.correction.check_sufficiency):
            await found._grade(judge, call, outcome)
        return found

    async def _check(self, judge: Judge, call: CallContext, outcome: SearchOutcome) -> None:
        made = await judge.check(call, outcome, self.evidence, self.support)
        self.sufficiency = outcome.sufficiency = made.value
        self.is_good = made.value.is_sufficient
        self.by_model = made.by_model
        self.detail = f"{'enough' if self.is_good else 'not enough'}, confidence {made.value.confidence:.2f}"

    async def _grade(self, judge: Judge, call: CallContext, outcome: SearchOutcome) -> None:
        made = await judge.grade(call, outcome, self.evidence, self.support)
        self.by_model = self.by_model or made.by_model
        best = max(made.value, default=0.0)
        self.detail += f"{', ' if self.detail else ''}best grade {best:.2f}"
        if made.by_model:
            outcome.ranked = without_irrelevant(outcome.ranked, self.evidence, made.value)
        if self.sufficiency is None:
            # Without a check the grades decide; a part of an answer is no reason to stop where a check misses the rest.
            self.is_good = best >= _GOOD_GRADE


def _note(outcome: SearchOutcome, note: str) -> None:
    if note not in outcome.notes:
        outcome.notes.append(note)
