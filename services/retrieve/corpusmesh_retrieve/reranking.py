"""Stage that scores the best candidates again: by a cross-encoder, or by the language model."""

import asyncio
import contextlib
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.answering.step_messages import DataBlock
from corpusmesh_core.assembly import kept_of, mix_rerank_scores
from corpusmesh_core.errors import CorpusMeshError, FailedPreconditionError, UnavailableError
from corpusmesh_core.ports.reranking import MAX_PASSAGE_BYTES, PassageReranker
from corpusmesh_core.prompts.rerank_v1 import RERANK_V1
from corpusmesh_core.query import RerankMethod
from corpusmesh_core.records import Record
from corpusmesh_core.text import cut_to_bytes
from corpusmesh_retrieve.asking import question_block
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.logging import get_logger

_REFRESH_SECONDS = 2.0
_REFRESH_AFTER_SECONDS = 30.0
_SHARE_OF_DEADLINE = 0.5
_GRADED_AT_ONCE = 8
_MAX_GRADED_CHARACTERS = 1_200
_MAX_GRADE = 10
_NONE_CONFIGURED = "no cross-encoder is configured"
_log = get_logger(__name__)


class RerankStage:
    """Mixes a second look at the best candidates into their order."""

    def __init__(self, reranker: PassageReranker) -> None:
        """Create the stage.

        Args:
            reranker: The cross-encoder.
        """
        self._reranker = reranker
        self._refreshed_seconds = -_REFRESH_AFTER_SECONDS

    @property
    def name(self) -> str:
        """See `Stage`."""
        return "rerank"

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.rerank.method is not RerankMethod.NONE

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Score the best again; see `Stage`."""
        records = [item.candidate.record for item in kept_of(outcome.ranked)[: outcome.plan.rerank.depth]]
        if len(records) < 2:
            return StageResult(StageState.SKIPPED, detail="there is nothing to put in order")
        if outcome.plan.rerank.method is RerankMethod.MODEL:
            return await self._by_language_model(call, outcome, records)
        return await self._by_cross_encoder(call, outcome, records)

    async def _by_cross_encoder(
        self, call: CallContext, outcome: SearchOutcome, records: Sequence[Record]
    ) -> StageResult:
        await self._learn(call)
        model = self._reranker.rerank_model
        if model is None:
            return StageResult(StageState.SKIPPED, detail=_NONE_CONFIGURED)
        try:
            scores = await self._reranker.rerank(
                cut_to_bytes(outcome.question, MAX_PASSAGE_BYTES),
                [cut_to_bytes(_passage(record), MAX_PASSAGE_BYTES) for record in records],
                deadline_seconds=call.remaining_seconds() * _SHARE_OF_DEADLINE,
            )
        except FailedPreconditionError as error:
            _log.warning("reranking left out", reason=error.reason)
            is_gone = error.reason == "RERANK_MODEL_MISSING"
            self._refreshed_seconds = -_REFRESH_AFTER_SECONDS
            return _failed(outcome, _NONE_CONFIGURED if is_gone else "the cross-encoder refuses to answer")
        except CorpusMeshError as error:
            _log.warning("reranking left out", reason=error.reason)
            return _failed(outcome, "the cross-encoder did not answer")
        _mix(outcome, scores.astype(np.float64))
        return StageResult(detail=f"{len(scores)} passages by {model.name}")

    async def _learn(self, call: CallContext) -> None:
        """Ask again which cross-encoder there is, now and then: the embed service may have been given one since."""
        now = time.monotonic()
        if self._reranker.rerank_model is None and now - self._refreshed_seconds >= _REFRESH_AFTER_SECONDS:
            self._refreshed_seconds = now
            with contextlib.suppress(UnavailableError):
                await self._reranker.refresh(deadline_seconds=min(_REFRESH_SECONDS, call.remaining_seconds()))

    async def _by_language_model(
        self, call: CallContext, outcome: SearchOutcome, records: Sequence[Record]
    ) -> StageResult:
        parts = [records[start : start + _GRADED_AT_ONCE] for start in range(0, len(records), _GRADED_AT_ONCE)]
        made = await asyncio.gather(*(self._grades(call, outcome, part) for part in parts))
        grades: list[float] = []
        for value, _ in made:
            # Two scales cannot be put in one order: behind the first part without grades all stays as it is.
            if not value:
                break
            grades.extend(value)
        if not grades:
            return StageResult(StageState.SKIPPED, detail=made[0][1] or "the language model gave no usable answer")
        _mix(outcome, np.array(grades, dtype=np.float64))
        return StageResult(by_model=True, detail=f"{len(grades)} of {len(records)} passages by the language model")

    async def _grades(
        self, call: CallContext, outcome: SearchOutcome, records: Sequence[Record]
    ) -> tuple[tuple[float, ...], str]:
        def read(value: object) -> tuple[float, ...] | None:
            return _read_grades(value, len(records))

        def without_model() -> tuple[float, ...]:
            return ()

        passages = [
            DataBlock(f"passage {number}", _passage(record)[:_MAX_GRADED_CHARACTERS])
            for number, record in enumerate(records, 1)
        ]
        made = await outcome.request.session.make(
            call,
            RERANK_V1,
            [question_block(outcome.question), *passages],
            read=read,
            otherwise=without_model,
            parameters={"count": str(len(records))},
        )
        return made.value, made.why_not


def _read_grades(value: object, count: int) -> tuple[float, ...] | None:
    """Read grades strictly: one for each passage, each within 0..10."""
    entries = value.get("grades") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        return None
    found: dict[int, float] = {}
    for entry in entries:
        number, grade = (entry.get("passage"), entry.get("grade")) if isinstance(entry, dict) else (None, None)
        if type(number) is not int or type(grade) not in (int, float) or number in found:
            return None
        assert isinstance(grade, int | float)
        if not 1 <= number <= count or not 0 <= grade <= _MAX_GRADE:
            return None
        found[number] = grade / _MAX_GRADE
    return tuple(found[number] for number in range(1, count + 1)) if len(found) == count else None


def _mix(outcome: SearchOutcome, scores: NDArray[np.float64]) -> None:
    outcome.ranked = mix_rerank_scores(
        outcome.ranked,
        scores,
        weight=outcome.plan.rerank.weight,
        similarity_threshold=outcome.plan.ranking_options().similarity_threshold,
    )


def _failed(outcome: SearchOutcome, why: str) -> StageResult:
    outcome.unreachable.append("rerank")
    outcome.notes.append(f"{why}, so the order is that of words and vectors")
    return StageResult(StageState.FAILED, detail=why)


def _passage(record: Record) -> str:
    """Write what is read: the title first, as where the record was embedded."""
    return f"{record.title}\n{record.text}" if record.title else record.text
