"""Listens to a language model until it has said enough, and knows what came even where it breaks off."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from corpusmesh_core.errors import DeadlineExceededError, OverloadedError, UnavailableError
from corpusmesh_core.ports.chat import ChatMessage, ChatModel, ChatUsage

CHARACTERS_PER_TOKEN: Final = 8
"""Most characters that are taken for a token which a model may write."""
LOST_ERRORS: Final = (UnavailableError, OverloadedError, DeadlineExceededError, TimeoutError)
"""How a model does not answer: whoever asked goes on without it."""


@dataclass(slots=True)
class Heard:
    """What a model has said so far.

    Attributes:
        parts: Its text, in pieces.
        usage: What the call cost, where the service has told.
    """

    parts: list[str] = field(default_factory=list)
    usage: ChatUsage | None = None

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.parts)


async def listen(
    chat: ChatModel,
    messages: Sequence[ChatMessage],
    *,
    max_token_count: int,
    timeout_seconds: float,
    heard: Heard | None = None,
) -> str:
    """Ask a model and listen to the end, or until it has said far more than it may.

    Args:
        chat: The model.
        messages: What it is asked.
        max_token_count: Most tokens that it may write.
        timeout_seconds: Bound that the port is given; the caller has one of its own.
        heard: Is filled as text comes, so that a call that fails can be accounted for.

    Returns:
        The text.

    Raises:
        UnavailableError: See `ChatModel.stream`, for this and all other errors.
    """
    told = heard if heard is not None else Heard()
    room = CHARACTERS_PER_TOKEN * max_token_count
    stream = chat.stream(messages, max_token_count=max_token_count, timeout_seconds=timeout_seconds)
    async with contextlib.AsyncExitStack() as stack:
        # The port promises an iterator; one that is a generator is closed at once, so that the request ends too.
        if (close := getattr(stream, "aclose", None)) is not None:
            stack.push_async_callback(close)
        async for delta in stream:
            told.parts.append(delta.text)
            room -= len(delta.text)
            if delta.usage is not None:
                told.usage = delta.usage
            if room < 0:
                break
    return told.text
