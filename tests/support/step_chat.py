"""A language model for the steps of a request: each step gets the answer that a test gives it, or none."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from corpusmesh_core.errors import DeadlineExceededError
from corpusmesh_core.ports.chat import ChatDelta, ChatMessage, FinishReason
from corpusmesh_core.prompts.step_prompt import StepPrompt


@dataclass(frozen=True)
class Late:
    """The model takes the call and says nothing until the caller's time is over."""


Answer = Mapping[str, object] | str | Exception | Late


@dataclass
class StepChat:
    """The model.

    Attributes:
        answers: What each step gets, by its prompt: an object, which is written as JSON, a text, an error, or nothing.
        otherwise: What a step without an entry gets.
        asked: Names of the steps that asked, in order.
        prompts: What each was asked, in the same order.
        pause_seconds: How long it thinks before it answers.
    """

    answers: Sequence[tuple[StepPrompt, Answer]] = ()
    otherwise: Answer = "I would rather talk about the weather."
    model: str = "steps"
    asked: list[str] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    pause_seconds: float = 0.0
    at_once: int = 0
    most_at_once: int = 0

    async def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_token_count: int,
        timeout_seconds: float,
        temperature: float = 0.0,
    ) -> AsyncIterator[ChatDelta]:
        """See `ChatModel`."""
        system = messages[0].content
        found = next((entry for entry in self.answers if system.endswith(entry[0].form)), None)
        self.asked.append(found[0].name if found else "")
        self.prompts.append("\n".join(message.content for message in messages))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        answer = found[1] if found else self.otherwise
        try:
            await asyncio.sleep(self.pause_seconds)
            if isinstance(answer, Exception):
                raise answer
            if isinstance(answer, Late):
                await asyncio.sleep(timeout_seconds)
                raise DeadlineExceededError("CHAT_DEADLINE", "the model did not answer in time")
            text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
            for start in range(0, len(text), 40):
                yield ChatDelta(text[start : start + 40])
            yield ChatDelta("", FinishReason.STOP)
        finally:
            self.at_once -= 1
