"""From the data of one step to the messages for a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from corpusmesh_core.answering.fences import draw_fence, fenced_block, header_text
from corpusmesh_core.ports.chat import ChatMessage, ChatRole
from corpusmesh_core.prompts.step_prompt import StepPrompt

_REPAIR = "Your last answer could not be read. Answer with one JSON object in exactly the form that is given."


@dataclass(frozen=True, slots=True)
class DataBlock:
    """One quoted text.

    Attributes:
        name: What it is, such as "question" or "passage 3".
        text: The text.
    """

    name: str
    text: str


def render_step_messages(
    prompt: StepPrompt,
    blocks: Sequence[DataBlock],
    *,
    rng: np.random.Generator,
    parameters: Mapping[str, str] | None = None,
    is_repair: bool = False,
) -> tuple[ChatMessage, ...]:
    """Write the messages of a step.

    Args:
        prompt: The wording.
        blocks: What is quoted, in order.
        rng: The dice for the delimiters.
        parameters: Values for the prompt's places.
        is_repair: Whether the model is asked again, because its last answer was unreadable.

    Returns:
        A system and a user message.
    """
    fence = draw_fence(rng, [text for block in blocks for text in (block.name, block.text)])
    body = [fenced_block(fence, header_text(block.name), block.text) for block in blocks]
    if is_repair:
        body.append(_REPAIR)
    return (
        ChatMessage(ChatRole.SYSTEM, prompt.system(parameters or {})),
        ChatMessage(ChatRole.USER, "\n\n".join(body)),
    )
