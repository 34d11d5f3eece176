"""Self-reflection: does the message need documents, does the evidence bear the draft out, is it of use (Self-RAG).

Asai et al., Self-RAG, ICLR 2024 train a model to emit such decisions; here each is one question to whatever model there
is, with a model-free form beside it, and at most one re-write comes of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from corpusmesh_core.answering import Evidence
from corpusmesh_core.answering.small_talk import is_doubtful
from corpusmesh_core.answering.step_answers import Verdict, read_need, read_verdict
from corpusmesh_core.answering.step_messages import DataBlock
from corpusmesh_core.citation import CheckedSentence, Statement
from corpusmesh_core.prompts.reflect_v1 import REFLECT_V1
from corpusmesh_core.prompts.verify_v1 import VERIFY_V1
from corpusmesh_retrieve.answering.drafting import Draft
from corpusmesh_retrieve.answering.reporting import StepClock
from corpusmesh_retrieve.asking import question_block
from corpusmesh_retrieve.outcome import SearchOutcome
from corpusmesh_runtime.context import CallContext

_MIN_SUPPORT = 0.4
_MIN_USEFUL = 0.4
_MAX_STATEMENTS = 24
_MAX_PASSAGES = 12
_MAX_PASSAGE_CHARACTERS = 2_400


@dataclass(frozen=True, slots=True)
class Reflection:
    """What a check says of a draft.

    Attributes:
        verdict: The check.
        unsupported: Statements that the evidence does not bear out.
        by_model: Whether a model checked.
    """

    verdict: Verdict
    unsupported: tuple[Statement, ...]
    by_model: bool

    @property
    def wants_rewrite(self) -> bool:
        """Whether the draft should be written again."""
        return bool(self.unsupported) or self.verdict.useful < _MIN_USEFUL

    @property
    def quality(self) -> float:
        """How good the draft is: its mean support, weighed with its use."""
        supports = self.verdict.supports
        return (sum(supports) / len(supports) if supports else 0.0) * (0.5 + 0.5 * self.verdict.useful)


async def needs_documents(call: CallContext, question: str, outcome: SearchOutcome) -> bool:
    """Decide whether a message that no rule calls small talk needs documents.

    Args:
        call: The call.
        question: What the user wrote.
        outcome: The search; its session is asked, and gets the report.

    Returns:
        Whether it does; always without a model, and for a message of some length.
    """
    session = outcome.request.session
    if not session.is_open or not is_doubtful(question):
        return True
    clock = StepClock(outcome, "reflect", "deciding whether documents are needed")
    made = await session.make(
        call, REFLECT_V1, [DataBlock("message", question)], read=read_need, otherwise=lambda: True
    )
    clock.end(by_model=made.by_model, detail=made.why_not or ("needed" if made.value else "not needed"))
    return made.value


async def reflect(
    call: CallContext, question: str, outcome: SearchOutcome, evidence: Sequence[Evidence], draft: Draft
) -> Reflection:
    """Check a draft against its evidence.

    Args:
        call: The call.
        question: What was asked.
        outcome: The search; its session is asked, and gets the report.
        evidence: What the draft was written from.
        draft: The draft.

    Returns:
        What the model says, or what terms, facts and cosines say.
    """
    clock = StepClock(outcome, "verify", "checking the answer against its evidence")
    statements = draft.statements[:_MAX_STATEMENTS]
    if not statements:
        clock.end(detail="nothing is stated")
        return Reflection(Verdict((), draft.confidence), (), by_model=False)
    blocks = [
        question_block(question),
        *(
            DataBlock(f"passage {place}", piece.text[:_MAX_PASSAGE_CHARACTERS])
            for place, piece in enumerate(evidence[:_MAX_PASSAGES], start=1)
        ),
        DataBlock("statements", "\n".join(f"{place}. {one.text}" for place, one in enumerate(statements, start=1))),
    ]
    made = await outcome.request.session.make(
        call,
        VERIFY_V1,
        blocks,
        read=lambda value: read_verdict(value, len(statements)),
        otherwise=lambda: check_by_rule(statements, draft),
    )
    unsupported = tuple(
        statement
        for statement, support in zip(statements, made.value.supports, strict=True)
        if support < _MIN_SUPPORT or statement.missing
    )
    clock.end(
        by_model=made.by_model,
        detail=f"{len(unsupported)} of {len(statements)} statements without support"
        + (f"; {made.why_not}" if made.why_not else ""),
    )
    return Reflection(made.value, unsupported, made.by_model)


def check_by_rule(statements: Sequence[Statement], draft: Draft) -> Verdict:
    """Say without a model how well a draft stands on its evidence.

    Args:
        statements: Its statements.
        draft: The draft.

    Returns:
        The support that the check of citations found; half of it for a statement without citation.
    """
    supports = tuple(one.support if one.labels else 0.5 * one.support for one in statements)
    return Verdict(supports, useful=1.0 if draft.cited else 0.0)


def with_verdict(draft: Draft, reflection: Reflection) -> None:
    """Take the verdict of a model into a draft: its support counts, and what it denies loses its citations.

    Args:
        draft: The draft; changed.
        reflection: The verdict on it.
    """
    if not reflection.by_model:
        return
    supports = iter(reflection.verdict.supports)
    settled: list[CheckedSentence] = []
    for sentence in draft.sentences:
        support = next(supports, None) if sentence.statement is not None else None
        settled.append(sentence if support is None else _settled(sentence, support))
    draft.sentences[:] = settled


def _settled(sentence: CheckedSentence, support: float) -> CheckedSentence:
    statement = sentence.statement
    assert statement is not None
    # The model may see what words do not show; numbers and names that are not there stay missing whatever it says.
    support = min(support, statement.support) if statement.missing else support
    if support > 0.0 or not statement.labels:
        return replace(sentence, statement=replace(statement, support=support))
    text = sentence.text
    for label in statement.labels:
        text = text.replace(f" [ID:{label}]", "").replace(f"[ID:{label}]", "")
    return replace(
        sentence,
        text=text,
        statement=replace(statement, labels=(), support=0.0),
        removed=(*sentence.removed, *(label for label in statement.labels if label not in sentence.placed)),
        placed=(),
    )
