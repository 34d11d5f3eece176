"""One call to the language model: within the budget, in time, checked.

It is not tried again here: the port does so where that makes sense, and a second layer of attempts would multiply.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError, OverloadedError, UnavailableError
from corpusmesh_core.ports.chat import ChatMessage, ChatModel
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.ports.usage import UsageEntry
from corpusmesh_runtime.listening import LOST_ERRORS, Heard, listen
from corpusmesh_runtime.model_calls.budget import CallBudget
from corpusmesh_runtime.model_calls.orders import MISCONFIGURED, UNREACHABLE, UNUSABLE, CallOrder, Reply

_INPUT_SLACK: Final = 1.25
"""Language models cut texts into other tokens than the embedder, which we count by before a call."""
_LEAST_TOLD: Final = 0.25
"""Of our own count, the least that a service is believed: no tokenizer takes so few, and a bound of tokens must hold
where a service says that nothing was read."""
_MIN_CALL_SECONDS: Final = 0.5
_GRACE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class CallerTools:
    """What calls are made with.

    Attributes:
        chat: The model.
        counter: The embedder's tokenizer.
        purpose: Purpose of usage entries, such as "tree".
        time_reason: What a call says for which no time is left, such as TREE_TIME_SPENT.
        call_timeout_seconds: Longest call.
        make_rng: Dice for delimiters.
        count_outcome: Is told what a call was for and how it ended: answered, lost, refused, misconfigured, or what its
            check says.
    """

    chat: ChatModel
    counter: TextTokenizer
    purpose: str
    time_reason: str
    call_timeout_seconds: float
    make_rng: Callable[[], np.random.Generator]
    count_outcome: Callable[[str, str], None]


class ModelCaller:
    """Makes the calls of one build."""

    def __init__(self, tools: CallerTools, budget: CallBudget, *, run_id: str) -> None:
        """Create it.

        Args:
            tools: What calls are made with.
            budget: What may be spent.
            run_id: Run in whose name the model is asked.
        """
        self._tools = tools
        self._budget = budget
        self._run_id = run_id

    async def call(self, order: CallOrder, deadline: float) -> Reply:
        """Ask for one thing.

        Args:
            order: What is asked for.
            deadline: Time of the event loop's clock after which no call begins and none goes on.

        Returns:
            The answer, checked; or why there is none.

        Raises:
            UnavailableError: If what the tenant has spent cannot be told.
        """
        messages = await asyncio.to_thread(order.render, self._tools.make_rng())
        return await self._ask(order, messages, deadline)

    async def _ask(self, order: CallOrder, messages: Sequence[ChatMessage], deadline: float) -> Reply:
        tools = self._tools
        seconds = min(tools.call_timeout_seconds, deadline - asyncio.get_running_loop().time())
        if seconds < _MIN_CALL_SECONDS:
            return Reply(failure=tools.time_reason)
        sent = sum(tools.counter.count_tokens([message.content for message in messages]))
        entry = UsageEntry(
            tools.chat.model, tools.purpose, self._run_id, 1, int(_INPUT_SLACK * sent), order.max_answer_tokens
        )
        if reason := await self._budget.reserve(entry):
            return Reply(failure=reason)
        heard = Heard()
        is_begun = True
        try:
            async with asyncio.timeout(seconds + _GRACE_SECONDS):
                await listen(
                    tools.chat, messages, max_token_count=order.max_answer_tokens, timeout_seconds=seconds, heard=heard
                )
        except InvalidArgumentError:
            # The service refuses the request as it is, as for its length.
            is_begun = False
            return self._failed(order, "refused", UNUSABLE, is_answered=True)
        except FailedPreconditionError:
            is_begun = False
            return self._failed(order, "misconfigured", MISCONFIGURED, is_answered=True)
        except (UnavailableError, OverloadedError):
            is_begun = bool(heard.parts)
            return self._failed(order, "lost", UNREACHABLE, is_answered=False)
        except LOST_ERRORS:
            # Of a call that the end of the whole's time cut short nobody knows whether it would have been answered.
            is_answered = False if seconds >= tools.call_timeout_seconds else None
            return self._failed(order, "lost", UNREACHABLE, is_answered=is_answered)
        finally:
            await self._settle(entry, heard, sent if is_begun else 0)
        text, failure = await asyncio.to_thread(order.check, heard.text)
        tools.count_outcome(order.task, failure or "answered")
        return Reply("" if failure else text, failure, is_answered=True)

    async def _settle(self, entry: UsageEntry, heard: Heard, sent: int) -> None:
        """Account by the service's own figures, where they can be true; by our own where it does not tell."""
        received = self._tools.counter.count_tokens([heard.text])[0]
        told = heard.usage
        await self._budget.settle(
            entry,
            input_token_count=max(told.prompt_token_count, int(_LEAST_TOLD * sent)) if told else sent,
            output_token_count=max(told.completion_token_count, int(_LEAST_TOLD * received)) if told else received,
        )

    def _failed(self, order: CallOrder, outcome: str, failure: str, *, is_answered: bool | None) -> Reply:
        self._tools.count_outcome(order.task, outcome)
        return Reply(failure=failure, is_answered=is_answered)
