"""What a language model is asked for, and what became of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from corpusmesh_core.ports.chat import ChatMessage

UNUSABLE: Final = "unusable"
"""The service refuses the request as it is, or its answer is of no use."""
UNREACHABLE: Final = "unreachable"
"""The service does not answer, or breaks off."""
MISCONFIGURED: Final = "misconfigured"
"""Wrong key or model: it will be as wrong for the next call."""


@dataclass(frozen=True, slots=True)
class CallOrder:
    """Something that a model is to write.

    Attributes:
        key: What decides the answer, SHA-256: model, version of the prompt, parameters, input.
        sources: Versions that the input is of; the kept answer is erased with any of them.
        render: Writes the messages, with dice for delimiters; called in another thread.
        check: Gives of an answer what is worth keeping and why not, of which one is ""; called in another thread.
        max_answer_tokens: Most tokens that the model may write.
        task: What it is for, of a few words that metrics tell apart.
    """

    key: bytes
    sources: tuple[int, ...]
    render: Callable[[np.random.Generator], tuple[ChatMessage, ...]]
    check: Callable[[str], tuple[str, str]]
    max_answer_tokens: int
    task: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of an order.

    Attributes:
        text: What its check gave; "" where there is nothing.
        failure: Why there is nothing: UNUSABLE, UNREACHABLE, MISCONFIGURED, what the check says, or why no more is
            asked for.
        is_answered: Whether the service said something; None where it was not asked, or not for long enough to tell.
    """

    text: str = ""
    failure: str = ""
    is_answered: bool | None = None
