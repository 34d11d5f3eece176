"""Asks the language model for one step of a request, within the request's budget; whoever asks has another way.

A model may answer badly, slowly, or never (invariant 9). A step that gets no good answer in time goes on without one,
and once the model has not answered, the rest of the request does not wait for it again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from corpusmesh_core.answering.step_messages import DataBlock, render_step_messages
from corpusmesh_core.enrichment.answers import read_json_answer
from corpusmesh_core.errors import CorpusMeshError, DeadlineExceededError
from corpusmesh_core.ports.chat import ChatMessage, ChatModel
from corpusmesh_core.prompts.step_prompt import StepPrompt
from corpusmesh_retrieve.metrics import STEP_CALLS_TOTAL
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.listening import Heard, listen
from corpusmesh_runtime.logging import get_logger

_Value = TypeVar("_Value")
MAX_ATTEMPTS = 2
"""Most calls of one step: what cannot be read is asked for once more."""
_MIN_CALL_SECONDS = 0.2
_SHARE_OF_DEADLINE = 0.5
_GRACE_SECONDS = 0.5
_MAX_QUOTED_CHARACTERS = 160_000
"""Of all blocks of one step: some 40,000 tokens; what steps quote by design is a quarter of that."""
_PROMPT_CHARACTERS_PER_TOKEN = 3
_MAX_QUESTION_CHARACTERS = 4_000
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ModelBudget:
    """What the steps of one request may cost.

    Attributes:
        max_calls: Calls.
        max_tokens: Tokens of prompts and answers together, estimated from characters where the service does not tell.
        call_timeout_seconds: Longest call.
        max_concurrent_calls: Calls of one request under way at once.
    """

    max_calls: int = 24
    max_tokens: int = 200_000
    call_timeout_seconds: float = 15.0
    max_concurrent_calls: int = 8


@dataclass(frozen=True, slots=True)
class Made(Generic[_Value]):
    """What a step made.

    Attributes:
        value: The value.
        by_model: Whether the language model made it.
        why_not: Why not; "" where it did, or where none was to be asked.
    """

    value: _Value
    by_model: bool
    why_not: str = ""


class ModelSession:
    """The language model as one request may use it."""

    def __init__(
        self, chat: ChatModel | None, make_rng: Callable[[], np.random.Generator], budget: ModelBudget | None = None
    ) -> None:
        """Create the session of one request.

        Args:
            chat: The model; None where none is configured, or where the caller wants none.
            make_rng: Dice for delimiters.
            budget: What the request may cost.
        """
        self._chat = chat
        self._make_rng = make_rng
        self._budget = budget or ModelBudget()
        self._slots = asyncio.Semaphore(self._budget.max_concurrent_calls)
        self._why_lost = ""
        self.call_count = 0
        self.token_count = 0

    @property
    def is_open(self) -> bool:
        """Whether asking makes sense: a model is there, it has not failed, and the budget is not spent."""
        return not self._closed_because()

    @property
    def why_lost(self) -> str:
        """Why the model is not asked again; "" where it has answered, or was not asked."""
        return self._why_lost

    def charge(self, character_count: int) -> None:
        """Count a call that was made beside the steps, such as that of writing an answer once more.

        Args:
            character_count: Characters of prompt and answer.
        """
        self.call_count += 1
        self.token_count += character_count // _PROMPT_CHARACTERS_PER_TOKEN

    async def make(
        self,
        call: CallContext,
        prompt: StepPrompt,
        blocks: Sequence[DataBlock],
        *,
        read: Callable[[object], _Value | None],
        otherwise: Callable[[], _Value] | Callable[[], Awaitable[_Value]],
        parameters: Mapping[str, str] | None = None,
        attempts: int = MAX_ATTEMPTS,
    ) -> Made[_Value]:
        """Make something by the model, or by the model-free way.

        Args:
            call: The call; its deadline bounds the model.
            prompt: What to ask.
            blocks: What is quoted.
            read: Checks the JSON value of the answer strictly; None for one that is no answer.
            otherwise: The model-free way, a function or a coroutine function.
            parameters: Values for the prompt's places.
            attempts: Most calls; with a second one the model is asked again where its answer cannot be read.

        Returns:
            What was made, and by which way.

        Raises:
            DeadlineExceededError: If the time of the call itself is over.
        """
        why_not = self._closed_because()
        if not why_not and sum(len(block.text) for block in blocks) > _MAX_QUOTED_CHARACTERS:
            why_not = "what the language model was to read is too long"
        if not why_not:
            value, why_not = await self._ask(call, prompt, blocks, read, parameters, attempts)
            if value is not None:
                return Made(value, by_model=True)
        made = otherwise()
        return Made(await made if isinstance(made, Awaitable) else made, by_model=False, why_not=why_not)

    def _closed_because(self) -> str:
        if self._chat is None:
            return "no language model is used"
        if self.call_count >= self._budget.max_calls or self.token_count >= self._budget.max_tokens:
            return "the budget of the language model is spent"
        return self._why_lost

    async def _ask(
        self,
        call: CallContext,
        prompt: StepPrompt,
        blocks: Sequence[DataBlock],
        read: Callable[[object], _Value | None],
        parameters: Mapping[str, str] | None,
        attempts: int,
    ) -> tuple[_Value | None, str]:
        for is_repair in (False, True)[:attempts]:
            if why_not := self._closed_because():
                return None, why_not
            messages = render_step_messages(
                prompt, blocks, rng=self._make_rng(), parameters=parameters, is_repair=is_repair
            )
            try:
                async with asyncio.timeout(call.remaining_seconds()), self._slots:
                    # Another step may have found out meanwhile that the model does not answer.
                    if why_not := self._closed_because():
                        return None, why_not
                    seconds = min(self._budget.call_timeout_seconds, call.remaining_seconds() * _SHARE_OF_DEADLINE)
                    if seconds < _MIN_CALL_SECONDS:
                        return None, "there was no time left for the language model"
                    async with asyncio.timeout(seconds + _GRACE_SECONDS):
                        answer = await self._listen(messages, prompt.max_token_count, seconds)
            except (CorpusMeshError, TimeoutError) as error:
                reason = error.reason if isinstance(error, CorpusMeshError) else "CHAT_DEADLINE"
                _log.warning("step without the language model", step=prompt.name, reason=reason)
                STEP_CALLS_TOTAL.labels(prompt.name, "lost").inc()
                is_late = isinstance(error, DeadlineExceededError | TimeoutError)
                self._why_lost = f"the language model did not answer{' in time' if is_late else ''}"
                return None, self._why_lost
            parsed = read_json_answer(answer)
            value = read(parsed) if parsed is not None else None
            STEP_CALLS_TOTAL.labels(prompt.name, "unusable" if value is None else "answered").inc()
            if value is not None:
                return value, ""
        return None, "the language model gave no usable answer"

    async def _listen(self, messages: Sequence[ChatMessage], max_token_count: int, seconds: float) -> str:
        assert self._chat is not None
        prompt_characters = sum(len(message.content) for message in messages)
        # Before the call, so that calls at the same time know of each other.
        reserved = prompt_characters // _PROMPT_CHARACTERS_PER_TOKEN
        self.call_count += 1
        self.token_count += reserved
        heard = Heard()
        try:
            return await listen(
                self._chat, messages, max_token_count=max_token_count, timeout_seconds=seconds, heard=heard
            )
        finally:
            usage = heard.usage
            told = usage.prompt_token_count + usage.completion_token_count if usage is not None else 0
            characters = prompt_characters + sum(map(len, heard.parts))
            self.token_count += (told or characters // _PROMPT_CHARACTERS_PER_TOKEN) - reserved


def question_block(question: str) -> DataBlock:
    """Quote the question of a step.

    Args:
        question: The question.

    Returns:
        It; of a very long one the first 4,000 characters, since every step pays for them.
    """
    return DataBlock("question", question[:_MAX_QUESTION_CHARACTERS])


class SessionOpener(Protocol):
    """Gives a request its access to the language model."""

    def __call__(self, *, model_free: bool) -> ModelSession:
        """Open a session.

        Args:
            model_free: Whether the request wants no language model.

        Returns:
            The session, with a budget of its own.
        """
        ...
