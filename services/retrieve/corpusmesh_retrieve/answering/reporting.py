"""Reports of what an answer's own steps did, beside those of the search."""

import time

from corpusmesh_retrieve.metrics import STAGES_TOTAL
from corpusmesh_retrieve.outcome import SearchOutcome, StageReport, StageState
from corpusmesh_runtime.metrics import STAGE_DURATION_SECONDS


class StepClock:
    """Times one step of an answer and reports it."""

    def __init__(self, outcome: SearchOutcome, name: str, message: str) -> None:
        """Begin the step.

        Args:
            outcome: Gets the report, and tells whoever listens.
            name: Name of the step.
            message: What is being done, for people; "" to tell nobody.
        """
        self._outcome = outcome
        self._name = name
        self._started = time.perf_counter()
        if message:
            outcome.request.tell(name, message)

    def end(self, *, state: StageState = StageState.RAN, by_model: bool = False, detail: str = "") -> None:
        """End the step.

        Args:
            state: What became of it.
            by_model: Whether a language model did it.
            detail: What it did, or why it did not; for people, without text of documents.
        """
        seconds = time.perf_counter() - self._started
        self._outcome.stages.append(StageReport(self._name, seconds * 1000.0, state, by_model, detail))
        STAGE_DURATION_SECONDS.labels("retrieve", self._name).observe(seconds)
        STAGES_TOTAL.labels(self._name, state.value).inc()
