"""From a question and its evidence to the messages for a model."""

import re
from collections.abc import Sequence

import numpy as np

from corpusmesh_core.answering.evidence import Evidence
from corpusmesh_core.citation.labels import defuse_markers
from corpusmesh_core.ports.chat import ChatMessage, ChatRole
from corpusmesh_core.prompts import ANSWER_V1, AnswerPrompt

_HEX_DIGITS = 16
# What no reader sees and a model does: controls, zero-width and direction characters, tag characters.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
_MAX_NAME_CHARACTERS = 200


def render_answer_messages(
    question: str, evidence: Sequence[Evidence], *, rng: np.random.Generator, prompt: AnswerPrompt = ANSWER_V1
) -> tuple[ChatMessage, ...]:
    """Write the messages that ask for an answer.

    Evidence stands in blocks whose delimiters hold a number drawn for this request, so that a document cannot end its
    own block; invisible characters are left out and marker look-alikes defused (invariant 10).

    Args:
        question: What was asked.
        evidence: Labelled evidence, best first.
        rng: The dice.
        prompt: The wording.

    Returns:
        A system and a user message.
    """
    fence = _fence(rng, evidence, question)
    blocks = [_block(piece, fence) for piece in evidence]
    body = "\n\n".join([prompt.before_evidence, *blocks, prompt.after_evidence, _visible(question)])
    return ChatMessage(ChatRole.SYSTEM, prompt.system), ChatMessage(ChatRole.USER, body)


def _block(piece: Evidence, fence: str) -> str:
    header = [f"ID: {piece.label}", f"document: {_name(piece.document)}"]
    if piece.page:
        header.append(f"page: {piece.page}")
    if piece.heading_path:
        header.append(f"section: {_name(' > '.join(piece.heading_path))}")
    text = defuse_markers(_visible(piece.text))
    return f"<<<{fence} {' | '.join(header)}\n{text}\n{fence}>>>"


def _fence(rng: np.random.Generator, evidence: Sequence[Evidence], question: str) -> str:
    while True:
        fence = "DATA-" + "".join(f"{digit:x}" for digit in rng.integers(0, 16, size=_HEX_DIGITS))
        names = (text for piece in evidence for text in (piece.text, piece.document, *piece.heading_path))
        if fence not in question and not any(fence in text for text in names):
            return fence


def _name(text: str) -> str:
    """Make a file name or a heading fit for a header line."""
    flat = " ".join(_visible(text).replace("|", "/").split())
    return defuse_markers(flat[:_MAX_NAME_CHARACTERS])


def _visible(text: str) -> str:
    return _CONTROLS.sub("", text)
