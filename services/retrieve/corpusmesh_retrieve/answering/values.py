"""What an answer is asked to be, and what became of it."""

from dataclasses import dataclass, field

from corpusmesh_core.answering import Evidence
from corpusmesh_core.citation import Statement
from corpusmesh_core.prompts import ANSWER_V2, AnswerPrompt


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """How an answer is made.

    Attributes:
        max_evidence_tokens: Tokens of evidence.
        evidence_count: Most pieces of evidence.
        model_free: Whether to leave the language model alone.
        max_answer_tokens: Longest answer of a model.
        model_deadline_seconds: Time after which a model-free answer is given instead.
        max_per_source: Most pieces of one document or site; None for the plan's own bound.
        prompt: What the model is asked to write.
    """

    max_evidence_tokens: int
    evidence_count: int
    model_free: bool
    max_answer_tokens: int
    model_deadline_seconds: float
    max_per_source: int | None = None
    prompt: AnswerPrompt = ANSWER_V2


@dataclass(slots=True)
class AnswerResult:
    """What became of a question.

    Attributes:
        evidence: Labelled evidence, best first.
        text: The whole answer; what was streamed, put together.
        cited: Labels in order of first use.
        by_model: Whether a language model wrote it.
        abstained: Whether the evidence does not carry an answer.
        dropped_marker_count: Markers that referred to nothing.
        unsupported_citation_count: Citations of evidence that does not bear their sentence out, and were taken out.
        statements: What the answer states, each with what bears it out.
        confidence: How well the evidence carries an answer, 0 to 1.
        notes: What the caller should know.
    """

    evidence: tuple[Evidence, ...] = ()
    text: str = ""
    cited: tuple[int, ...] = ()
    by_model: bool = False
    abstained: bool = False
    dropped_marker_count: int = 0
    unsupported_citation_count: int = 0
    statements: tuple[Statement, ...] = ()
    confidence: float = 0.0
    notes: list[str] = field(default_factory=list)
