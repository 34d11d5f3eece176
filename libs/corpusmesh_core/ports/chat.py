"""Port of language models that talk: any service that speaks the OpenAI protocol, or a fake in tests."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class ChatRole(StrEnum):
    """Who says a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class FinishReason(StrEnum):
    """Why a model stopped."""

    STOP = "stop"
    LENGTH = "length"
    FILTERED = "content_filter"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation.

    Attributes:
        role: Who says it.
        content: What is said.
    """

    role: ChatRole
    content: str


@dataclass(frozen=True, slots=True)
class ChatUsage:
    """Tokens that a call cost, as the service counts them.

    Attributes:
        prompt_token_count: Tokens read.
        completion_token_count: Tokens written.
    """

    prompt_token_count: int
    completion_token_count: int


@dataclass(frozen=True, slots=True)
class ChatDelta:
    """One piece of what a model says.

    Attributes:
        text: The next characters, possibly "".
        finish_reason: Set on the piece that ends the text.
        usage: Set once, on one of the last pieces, where the service tells.
    """

    text: str
    finish_reason: FinishReason | None = None
    usage: ChatUsage | None = None


class ChatModel(Protocol):
    """A model that answers messages with text, piece by piece."""

    @property
    def model(self) -> str:
        """Name of the model, for records and metrics."""
        ...

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_token_count: int,
        timeout_seconds: float,
        temperature: float = 0.0,
    ) -> AsyncIterator[ChatDelta]:
        """Ask the model and hand over its text as it comes.

        Leaving the iteration early (`aclose`, cancellation) ends the request at the service too. What is yielded is
        untrusted input (invariant 9).

        Args:
            messages: The conversation, the newest last.
            max_token_count: Most tokens that the model may write.
            timeout_seconds: Bound from the call to the last piece, retries included.
            temperature: 0 for the likeliest text.

        Returns:
            Pieces; the last has a finish reason.

        Raises:
            UnavailableError: CHAT_UNAVAILABLE where the service does not answer, or breaks off (text may have come).
            OverloadedError: CHAT_OVERLOADED where the service or our own limit refuses more calls.
            DeadlineExceededError: CHAT_DEADLINE where the time is over.
            FailedPreconditionError: CHAT_ACCESS_DENIED or CHAT_MODEL_UNKNOWN where the configuration is wrong.
            InvalidArgumentError: CHAT_REFUSED where the service refuses the request as it is, as for its length.
        """
        ...
