"""Judges what a search found: is it enough, what does each hit help, what other words could find more."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from corpusmesh_core.answering import Evidence, SupportCalibration, measure_support
from corpusmesh_core.answering.rewriting import rewrite_by_rule
from corpusmesh_core.answering.step_answers import Sufficiency, read_grades, read_queries, read_sufficiency
from corpusmesh_core.answering.step_messages import DataBlock
from corpusmesh_core.answering.support import Support
from corpusmesh_core.prompts.grade_v1 import GRADE_V1
from corpusmesh_core.prompts.rewrite_v1 import REWRITE_V1
from corpusmesh_core.prompts.sufficiency_v1 import SUFFICIENCY_V1
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_retrieve.answering.evidence import evidence_of
from corpusmesh_retrieve.asking import Made, question_block
from corpusmesh_retrieve.outcome import SearchOutcome
from corpusmesh_runtime.context import CallContext

GRADED_IRRELEVANT: Final = "graded_irrelevant"
MAX_JUDGED = 12
_MAX_PASSAGE_CHARACTERS = 1_600
_MAX_QUERIES = 3
_IRRELEVANT = 0.2
_RELEVANT = 0.5


class Judge:
    """Judges the hits of one search at a time."""

    def __init__(self, calibration: SupportCalibration) -> None:
        """Create the judge.

        Args:
            calibration: How well evidence must carry an answer.
        """
        self._calibration = calibration

    def measure(self, outcome: SearchOutcome) -> tuple[list[Evidence], Support]:
        """Measure without a model how well the best hits carry an answer.

        Args:
            outcome: The search.

        Returns:
            The best hits as evidence, and how well they carry an answer; some milliseconds of computing.
        """
        evidence = evidence_of(outcome, max_count=MAX_JUDGED)
        return evidence, measure_support(
            outcome.question, evidence, alternatives=outcome.terms.alternatives, calibration=self._calibration
        )

    async def check(
        self, call: CallContext, outcome: SearchOutcome, evidence: Sequence[Evidence], support: Support
    ) -> Made[Sufficiency]:
        """Say whether what was found is enough.

        Args:
            call: The call.
            outcome: The search.
            evidence: From `measure`.
            support: From `measure`.

        Returns:
            What the model says, else what the calibrated support says; nothing found is never enough.
        """
        by_rule = Sufficiency(support.confidence >= self._calibration.min_confidence, support.confidence)
        if not evidence:
            return Made(by_rule, by_model=False)
        return await outcome.request.session.make(
            call,
            SUFFICIENCY_V1,
            _blocks(outcome.question, evidence),
            read=read_sufficiency,
            otherwise=lambda: by_rule,
        )

    async def grade(
        self, call: CallContext, outcome: SearchOutcome, evidence: Sequence[Evidence], support: Support
    ) -> Made[tuple[float, ...]]:
        """Say how much each hit helps.

        Args:
            call: The call.
            outcome: The search.
            evidence: From `measure`.
            support: From `measure`.

        Returns:
            Grades of 0 to 1 in the order of the evidence: one call of the model for all, else calibrated ones.
        """
        if not evidence:
            return Made((), by_model=False)
        return await outcome.request.session.make(
            call,
            GRADE_V1,
            _blocks(outcome.question, evidence),
            read=lambda value: read_grades(value, len(evidence)),
            otherwise=lambda: support.grades,
        )

    async def rewrite(
        self, call: CallContext, outcome: SearchOutcome, support: Support, missing: Sequence[str]
    ) -> Made[tuple[str, ...]]:
        """Find other words to search for.

        Args:
            call: The call.
            outcome: The search; what it has searched already is not given again.
            support: From `measure`.
            missing: What a check calls missing; searched for before anything else.

        Returns:
            Queries; none where there is nothing new to search for.
        """
        known = [variant.text for variant in outcome.variants]
        by_rule = rewrite_by_rule(outcome.question, outcome.terms, support.held_terms, count=_MAX_QUERIES, known=known)
        if missing:
            return Made(tuple(text for text in missing if text not in known)[:_MAX_QUERIES], by_model=True)
        made = await outcome.request.session.make(
            call,
            REWRITE_V1,
            [question_block(outcome.question)],
            read=lambda value: read_queries(value, _MAX_QUERIES),
            otherwise=lambda: by_rule,
            parameters={"count": str(_MAX_QUERIES)},
        )
        return Made(tuple(text for text in made.value if text not in known), made.by_model, made.why_not)


def without_irrelevant(
    ranked: Sequence[RankedCandidate], evidence: Sequence[Evidence], grades: Sequence[float]
) -> tuple[RankedCandidate, ...]:
    """Leave out hits that a model graded as of no help, where others are.

    Args:
        ranked: The order.
        evidence: What was graded.
        grades: The grades.

    Returns:
        The order with those hits dropped, at its end.
    """
    if not any(grade >= _RELEVANT for grade in grades):
        return tuple(ranked)
    dropped = {piece.record_id for piece, grade in zip(evidence, grades, strict=True) if grade < _IRRELEVANT}
    kept = [item for item in ranked if item.candidate.record.record_id not in dropped or not item.is_kept]
    rest = [
        replace(item, explanation=replace(item.explanation, dropped_because=GRADED_IRRELEVANT))
        for item in ranked
        if item.candidate.record.record_id in dropped and item.is_kept
    ]
    still = [item for item in kept if item.is_kept]
    return (*still, *rest, *(item for item in kept if not item.is_kept))


def _blocks(question: str, evidence: Sequence[Evidence]) -> list[DataBlock]:
    return [
        question_block(question),
        *(
            DataBlock(f"passage {place}", piece.text[:_MAX_PASSAGE_CHARACTERS])
            for place, piece in enumerate(evidence, start=1)
        ),
    ]
