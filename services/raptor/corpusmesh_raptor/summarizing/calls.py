"""One call to the language model for one cluster: within the budget, in time, checked.

It is not tried again here: the port does so where that makes sense, and a second layer of attempts would multiply.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError, OverloadedError, UnavailableError
from corpusmesh_core.ports.chat import ChatMessage, ChatModel
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.ports.usage import UsageEntry
from corpusmesh_core.prompts.tree_summary_v1 import TREE_SUMMARY_VERSION
from corpusmesh_core.trees.child_budget import answer_tokens, block_count, cut_children, readable_tokens
from corpusmesh_core.trees.faithfulness import unsupported
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.values import Cluster
from corpusmesh_core.trees.writing import read_summary, render_summary_messages, summary_instructions
from corpusmesh_raptor.summarizing.budget import PURPOSE, CallBudget
from corpusmesh_raptor.summarizing.metrics import SUMMARY_CALLS_TOTAL
from corpusmesh_runtime.listening import LOST_ERRORS, Heard, listen

UNFAITHFUL: Final = "unfaithful"
UNUSABLE: Final = "unusable"
UNREACHABLE: Final = "unreachable"
TREE_TIME_SPENT: Final = "TREE_TIME_SPENT"
TOO_MANY: Final = "context_too_small"
MISCONFIGURED: Final = "misconfigured"
_INPUT_SLACK: Final = 1.25
"""Language models cut texts into other tokens than the embedder, which we count by before a call."""
_LEAST_TOLD: Final = 0.25
"""Of our own count, the least that a service is believed: no tokenizer takes so few, and a bound of tokens must hold
where a service says that nothing was read."""
_MIN_CALL_SECONDS: Final = 0.5
_GRACE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Order:
    """A summary that a model is to write.

    Attributes:
        place: Place of its cluster among those that were asked for.
        key: What decides the answer, SHA-256.
        instructions: What the model is to do.
        texts: What it reads of each child; none where its context is too small for so many.
        block_count: Blocks that they are quoted in.
        topic: Heading that they stand under; "" for none.
        known: What the summary may say: the children as they are, with their titles.
        sources: Versions that they are of.
    """

    place: int
    key: bytes
    instructions: str
    texts: tuple[str, ...]
    block_count: int
    topic: str
    known: tuple[str, ...]
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """What became of an order.

    Attributes:
        text: The summary; "" where there is none.
        token_count: Its tokens.
        failure: Why there is none: UNFAITHFUL, UNUSABLE, UNREACHABLE, MISCONFIGURED, TOO_MANY, TREE_TIME_SPENT or a
            reason of the budget.
        is_answered: Whether the service said something; None where it was not asked, or not for long enough to tell.
    """

    text: str = ""
    token_count: int = 0
    failure: str = ""
    is_answered: bool | None = None


def make_order(place: int, cluster: Cluster, settings: TreeSettings, counter: TextTokenizer, *, model: str) -> Order:
    """Prepare what a model reads of a cluster.

    Args:
        place: Place of the cluster.
        cluster: The cluster.
        settings: How trees are made.
        counter: The embedder's tokenizer.
        model: The model.

    Returns:
        The order.
    """
    children = cluster.children
    whole = [child.text for child in children]
    instructions = summary_instructions(whole, wish=settings.prompt, max_tokens=settings.effective_summary_tokens)
    prompt_tokens = sum(counter.count_tokens([instructions, cluster.title]))
    room = readable_tokens(settings, len(children), prompt_tokens)
    fits = room >= len(children)
    texts = cut_children(whole, [child.token_count for child in children], counter, room) if fits else []
    digest = hashlib.sha256()
    for part in (model, instructions, TREE_SUMMARY_VERSION, cluster.title, *texts):
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return Order(
        place=place,
        key=digest.digest(),
        instructions=instructions,
        texts=tuple(texts),
        block_count=block_count(settings, len(children), prompt_tokens),
        topic=cluster.title,
        known=(cluster.title, *(part for child in children for part in (child.title, child.text))),
        sources=tuple(cluster.sources),
    )


class ModelWriter:
    """Writes the summaries of one build."""

    def __init__(
        self,
        chat: ChatModel,
        counter: TextTokenizer,
        budget: CallBudget,
        settings: TreeSettings,
        *,
        run_id: str,
        call_timeout_seconds: float,
        make_rng: Callable[[], np.random.Generator],
    ) -> None:
        """Create it.

        Args:
            chat: The model.
            counter: The embedder's tokenizer.
            budget: What may be spent.
            settings: How summaries are made.
            run_id: Run in whose name it is asked.
            call_timeout_seconds: Longest call.
            make_rng: Dice for delimiters.
        """
        self._chat = chat
        self._counter = counter
        self._budget = budget
        self._settings = settings
        self._run_id = run_id
        self._call_timeout_seconds = call_timeout_seconds
        self._make_rng = make_rng

    async def write(self, order: Order, deadline: float) -> Written:
        """Write one summary.

        Args:
            order: What is summarized.
            deadline: Time of the event loop's clock after which no call begins and none goes on.

        Returns:
            The summary, checked; or why there is none.

        Raises:
            UnavailableError: If what the tenant has spent cannot be told.
        """
        if not order.texts:
            return Written(failure=TOO_MANY)
        rng = self._make_rng()
        messages = await asyncio.to_thread(self._render, order, rng)
        return await self._ask(order, messages, deadline)

    def _render(self, order: Order, rng: np.random.Generator) -> tuple[ChatMessage, ...]:
        return render_summary_messages(
            order.instructions, order.texts, topic=order.topic, block_count=order.block_count, rng=rng
        )

    async def _ask(self, order: Order, messages: Sequence[ChatMessage], deadline: float) -> Written:
        seconds = min(self._call_timeout_seconds, deadline - asyncio.get_running_loop().time())
        if seconds < _MIN_CALL_SECONDS:
            return Written(failure=TREE_TIME_SPENT)
        max_answer_tokens = answer_tokens(self._settings)
        sent = sum(self._counter.count_tokens([message.content for message in messages]))
        entry = UsageEntry(self._chat.model, PURPOSE, self._run_id, 1, int(_INPUT_SLACK * sent), max_answer_tokens)
        if reason := await self._budget.reserve(entry):
            return Written(failure=reason)
        heard = Heard()
        is_begun = True
        try:
            async with asyncio.timeout(seconds + _GRACE_SECONDS):
                await listen(
                    self._chat, messages, max_token_count=max_answer_tokens, timeout_seconds=seconds, heard=heard
                )
        except InvalidArgumentError:
            # The service refuses the request as it is, as for its length.
            is_begun = False
            return _failed("refused", UNUSABLE, is_answered=True)
        except FailedPreconditionError:
            is_begun = False
            return _failed("misconfigured", MISCONFIGURED, is_answered=True)
        except (UnavailableError, OverloadedError):
            is_begun = bool(heard.parts)
            return _failed("lost", UNREACHABLE, is_answered=False)
        except LOST_ERRORS:
            # Of a call that the end of the tree's time cut short nobody knows whether it would have been answered.
            return _failed("lost", UNREACHABLE, is_answered=False if seconds >= self._call_timeout_seconds else None)
        finally:
            await self._settle(entry, heard, sent if is_begun else 0)
        return await asyncio.to_thread(self._check, order, heard.text)

    async def _settle(self, entry: UsageEntry, heard: Heard, sent: int) -> None:
        """Account by the service's own figures, where they can be true; by our own where it does not tell."""
        received = self._counter.count_tokens([heard.text])[0]
        told = heard.usage
        await self._budget.settle(
            entry,
            input_token_count=max(told.prompt_token_count, int(_LEAST_TOLD * sent)) if told else sent,
            output_token_count=max(told.completion_token_count, int(_LEAST_TOLD * received)) if told else received,
        )

    def _check(self, order: Order, answer: str) -> Written:
        text = read_summary(answer, order.texts, self._counter, max_tokens=self._settings.effective_summary_tokens)
        if text is None:
            SUMMARY_CALLS_TOTAL.labels("unusable").inc()
            return Written(failure=UNUSABLE, is_answered=True)
        if next(unsupported(text, order.known), None) is not None:
            SUMMARY_CALLS_TOTAL.labels("unfaithful").inc()
            return Written(failure=UNFAITHFUL, is_answered=True)
        SUMMARY_CALLS_TOTAL.labels("answered").inc()
        return Written(text, self._counter.count_tokens([text])[0], is_answered=True)


def _failed(outcome: str, failure: str, *, is_answered: bool | None) -> Written:
    SUMMARY_CALLS_TOTAL.labels(outcome).inc()
    return Written(failure=failure, is_answered=is_answered)
