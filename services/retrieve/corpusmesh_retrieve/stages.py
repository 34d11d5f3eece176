"""The optional stages of a search: what each is given, what each must offer, and how one is run.

An optional stage never fails a search: where what it needs does not answer, the search goes on with what the stages
before it left, and the report says so.
"""

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from corpusmesh_core.errors import DeadlineExceededError, OverloadedError, UnavailableError
from corpusmesh_retrieve.metrics import STAGES_TOTAL
from corpusmesh_retrieve.outcome import SearchOutcome, StageReport, StageState
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.logging import get_logger
from corpusmesh_runtime.metrics import STAGE_DURATION_SECONDS
from corpusmesh_runtime.tracing import tracer

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StageResult:
    """What a stage says of itself.

    Attributes:
        state: RAN, or SKIPPED where it had nothing to do.
        by_model: Whether a language model did it.
        detail: What it did, or why it did not; for people, without text of documents.
    """

    state: StageState = StageState.RAN
    by_model: bool = False
    detail: str = ""


def counted(count: int, noun: str) -> str:
    """Write how many there are of something.

    Args:
        count: How many.
        noun: One of them, with a regular plural.

    Returns:
        Such as "1 name", "3 names".
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class Stage(Protocol):
    """One optional stage."""

    @property
    def name(self) -> str:
        """Its name in explanations and metrics."""
        ...

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """Tell whether the plan wants it, and it has something to work on.

        Args:
            outcome: The state so far, request and plan included.

        Returns:
            Whether to run it; a stage that the plan does not want leaves no report.
        """
        ...

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Do its work on the state.

        Args:
            call: The call; its deadline bounds the stage.
            outcome: The state; changed only once the stage has succeeded.

        Returns:
            What it did.

        Raises:
            UnavailableError: If what it needs does not answer.
            OverloadedError: Likewise.
            DeadlineExceededError: Likewise.
        """
        ...


@dataclass(frozen=True, slots=True)
class SearchStages:
    """The optional stages, each group in order.

    Attributes:
        route: Picks knowledge bases where the request names none, before anything else; without it there are none then.
        understanding: Before recall: they work on question, variants and terms.
        features: Between recall and scoring: they add to `rank_features`.
        assembly: After scoring: they work on `ranked`.
    """

    route: Callable[[CallContext, SearchOutcome], Awaitable[None]] | None = None
    understanding: tuple[Stage, ...] = ()
    features: tuple[Stage, ...] = ()
    assembly: tuple[Stage, ...] = ()


async def run_stages(stages: Sequence[Stage], call: CallContext, outcome: SearchOutcome) -> None:
    """Run the stages that are wanted, one after the other.

    Args:
        stages: The stages.
        call: The call.
        outcome: The state.
    """
    for stage in stages:
        if stage.is_wanted(outcome):
            await _run(stage, call, outcome)


async def _run(stage: Stage, call: CallContext, outcome: SearchOutcome) -> None:
    started = time.perf_counter()
    with tracer().start_as_current_span(f"search.{stage.name}"):
        try:
            result = await stage.run(call, outcome)
        except (UnavailableError, OverloadedError, DeadlineExceededError) as error:
            # Where the caller's own time is over there is nobody to answer.
            call.remaining_seconds()
            _log.warning("stage left out", stage=stage.name, reason=error.reason)
            outcome.unreachable.append(stage.name)
            result = StageResult(StageState.FAILED, detail="what it needs did not answer")
    report_stage(outcome, stage.name, time.perf_counter() - started, result)


def report_stage(outcome: SearchOutcome, name: str, seconds: float, result: StageResult) -> None:
    """Keep what a stage did, for explanations and metrics.

    Args:
        outcome: Gets the report.
        name: Name of the stage.
        seconds: How long it took.
        result: What it says of itself.
    """
    outcome.stages.append(StageReport(name, seconds * 1000.0, result.state, result.by_model, result.detail))
    STAGE_DURATION_SECONDS.labels("retrieve", name).observe(seconds)
    STAGES_TOTAL.labels(name, result.state.value).inc()


@contextmanager
def timed_stage(outcome: SearchOutcome, name: str) -> Iterator[None]:
    """Time a stage that every search has.

    Args:
        outcome: Gets the report.
        name: Name of the stage.

    Yields:
        Nothing; an error goes through without a report.
    """
    started = time.perf_counter()
    with tracer().start_as_current_span(f"search.{name}"):
        yield
    seconds = time.perf_counter() - started
    outcome.stages.append(StageReport(name, seconds * 1000.0))
    STAGE_DURATION_SECONDS.labels("retrieve", name).observe(seconds)
