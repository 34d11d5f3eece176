"""From a question and its evidence to the messages for a model."""

from collections.abc import Sequence

import numpy as np

from corpusmesh_core.answering.evidence import Evidence
from corpusmesh_core.answering.fences import draw_fence, fenced_block, header_text, visible_text
from corpusmesh_core.ports.chat import ChatMessage, ChatRole
from corpusmesh_core.prompts import ANSWER_V2, AnswerPrompt


def render_answer_messages(
    question: str,
    evidence: Sequence[Evidence],
    *,
    rng: np.random.Generator,
    prompt: AnswerPrompt = ANSWER_V2,
    unsupported: Sequence[str] = (),
) -> tuple[ChatMessage, ...]:
    """Write the messages that ask for an answer.

    Evidence stands in blocks whose delimiters hold a number drawn for this request, so that a document cannot end its
    own block; invisible characters are left out and marker look-alikes defused (invariant 10).

    Args:
        question: What was asked.
        evidence: Labelled evidence, best first.
        rng: The dice.
        prompt: The wording.
        unsupported: Statements of an earlier draft that the evidence does not bear out; for `REVISE_V1`.

    Returns:
        A system and a user message.
    """
    names = (text for piece in evidence for text in (piece.text, piece.document, *piece.heading_path))
    fence = draw_fence(rng, [question, *unsupported, *names])
    blocks = [_block(piece, fence) for piece in evidence]
    body = "\n\n".join([prompt.before_evidence, *blocks, prompt.after_evidence, visible_text(question)])
    if unsupported:
        body += "\n\n" + fenced_block(fence, "statements of the draft without support", "\n".join(unsupported))
    return ChatMessage(ChatRole.SYSTEM, prompt.system), ChatMessage(ChatRole.USER, body)


def _block(piece: Evidence, fence: str) -> str:
    header = [f"ID: {piece.label}", f"document: {header_text(piece.document)}"]
    if piece.url:
        header.append("page of the web")
    if piece.is_summary:
        header.append("summary of several passages")
    if piece.page:
        header.append(f"page: {piece.page}")
    if piece.heading_path:
        header.append(f"section: {header_text(' > '.join(piece.heading_path))}")
    return fenced_block(fence, " | ".join(header), piece.text)
