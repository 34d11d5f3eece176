"""Settings of evaluations."""

from pydantic import Field

from corpusmesh_runtime.config import Section


class EvaluationSettings(Section):
    """Bounds of what golden sets may cost."""

    max_concurrent_evaluations: int = Field(default=2, ge=1)
    """Evaluations and draws under way at once; one more is refused with RESOURCE_EXHAUSTED. Where there may be several,
    one is left for another tenant. Gates of publishing have as many places of their own, and one more."""
    question_timeout_seconds: float = Field(default=30.0, gt=0)
    """Longest search of a question; an answer may take ten times as long."""
    max_gate_questions: int = Field(default=200, ge=1)
    """Questions that the gate of a publish asks, spread over its golden set: every publish step of a run asks them."""
    max_drawn_documents: int = Field(default=400, ge=1)
    """Document versions that a draw looks into, taken at random."""
    max_drawn_chunks: int = Field(default=5000, ge=1, le=100_000)
    """Chunks that a draw looks at."""
