"""Asks a language model about items: in batches, at most so many calls at once, each answer kept when it is good.

What a call costs is bounded in every respect: time, answer, repairs; and a model that does not answer is asked no more
for the rest of the document.
"""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, TypeVar

from corpusmesh_core.enrichment.requests import ItemTask, PromptItem, batch_items, item_key, read_items, render_items
from corpusmesh_core.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    OverloadedError,
    UnavailableError,
)
from corpusmesh_core.ports.chat import ChatMessage, ChatModel
from corpusmesh_core.ports.completions import MAX_KEYS_PER_CALL, Completion, CompletionCache
from corpusmesh_ingest.enriching.metrics import ENRICH_CALLS_TOTAL, ENRICH_ITEMS_TOTAL
from corpusmesh_runtime.listening import LOST_ERRORS, listen

_Value = TypeVar("_Value")
_MIN_CALL_SECONDS: Final = 0.5
_GRACE_SECONDS: Final = 1.0
_MAX_FAILED_CALLS: Final = 3
_FRAME_TOKENS: Final = 100


@dataclass(frozen=True, slots=True)
class EnrichLimits:
    """Bounds of what the language model is asked.

    Attributes:
        max_concurrent_calls: Calls of this process under way at once, over all documents.
        call_timeout_seconds: Longest call.
        batch_tokens: Most tokens of document text in one call.
        batch_chunks: Most chunks in one call.
    """

    max_concurrent_calls: int = 4
    call_timeout_seconds: float = 60.0
    batch_tokens: int = 3000
    batch_chunks: int = 8


class AskFailure(StrEnum):
    """Why an item has no answer."""

    UNUSABLE = "unusable"
    """The model answered, and not well, twice; or refused the item."""
    UNREACHABLE = "unreachable"
    """The model did not answer in time, or not at all."""


@dataclass(slots=True)
class Answers(Generic[_Value]):
    """What became of the items of one task.

    Attributes:
        values: Checked answers by item.
        failures: Why there is none, by item.
    """

    values: dict[int, _Value] = field(default_factory=dict)
    failures: dict[int, AskFailure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AskScope:
    """Whose document is asked about.

    Attributes:
        tenant_id: Tenant.
        ordinal: Version: kept answers are erased with it.
        deadline: Time of the event loop's clock after which no call begins and none goes on.
    """

    tenant_id: str
    ordinal: int
    deadline: float


class Asker:
    """Asks about one document."""

    def __init__(
        self,
        chat: ChatModel,
        cache: CompletionCache | None,
        scope: AskScope,
        *,
        limits: EnrichLimits,
        slots: asyncio.Semaphore,
    ) -> None:
        """Create it.

        Args:
            chat: The model.
            cache: Keeps good answers; None to keep none.
            scope: Whose document it is.
            limits: Bounds.
            slots: One for each call that this process may have under way.
        """
        self._chat = chat
        self._cache = cache
        self._scope = scope
        self._limits = limits
        self._slots = slots
        self._failed_call_count = 0
        self._is_lost = False

    async def ask(
        self,
        task: ItemTask,
        items: Sequence[PromptItem],
        read: Callable[[PromptItem, Mapping[str, object]], _Value | None],
    ) -> Answers[_Value]:
        """Ask about items.

        Args:
            task: What to ask.
            items: About what; indices distinct.
            read: Checks the model's entry for an item; None for one that is no answer.

        Returns:
            A checked answer or a reason for every item.
        """
        answers: Answers[_Value] = Answers()
        open_items = await self._recall(task, items, read, answers)
        kept_count = len(answers.values)
        batches = batch_items(open_items, max_items=self._limits.batch_chunks, max_tokens=self._limits.batch_tokens)

        async def work() -> None:
            # All workers take from one iterator: nothing waits beyond what is under way.
            for batch in batches:
                await self._ask_batch(task, batch, read, answers)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._limits.max_concurrent_calls, len(open_items))):
                group.create_task(work())
        _count_items(task, answers, kept_count)
        return answers

    async def _ask_batch(
        self,
        task: ItemTask,
        batch: Sequence[PromptItem],
        read: Callable[[PromptItem, Mapping[str, object]], _Value | None],
        answers: Answers[_Value],
    ) -> None:
        missing = list(batch)
        for is_repair in (False, True):
            try:
                answer = await self._call(
                    task,
                    render_items(task, missing, is_repair=is_repair),
                    max_tokens=_FRAME_TOKENS + task.answer_tokens * len(missing),
                )
            except InvalidArgumentError:
                # The service refuses the request as it is. One item may be the reason: each is asked alone, once.
                if len(missing) > 1:
                    for item in missing:
                        await self._ask_batch(task, [item], read, answers)
                else:
                    answers.failures[missing[0].index] = AskFailure.UNUSABLE
                return
            if answer is None:
                answers.failures.update((item.index, AskFailure.UNREACHABLE) for item in missing)
                return
            missing = await self._take(task, missing, answer, read, answers)
            if not missing:
                return
        answers.failures.update((item.index, AskFailure.UNUSABLE) for item in missing)

    async def _take(
        self,
        task: ItemTask,
        items: Sequence[PromptItem],
        answer: str,
        read: Callable[[PromptItem, Mapping[str, object]], _Value | None],
        answers: Answers[_Value],
    ) -> list[PromptItem]:
        """Take what is good of an answer; give back the items without one."""
        entries = read_items(answer, items)
        missing: list[PromptItem] = []
        good: list[tuple[PromptItem, Mapping[str, object]]] = []
        for item in items:
            entry = entries.get(item.index)
            value = read(item, entry) if entry is not None else None
            if entry is None or value is None:
                missing.append(item)
            else:
                answers.values[item.index] = value
                good.append((item, entry))
        await self._keep(task, good)
        return missing

    async def _call(self, task: ItemTask, messages: Sequence[ChatMessage], *, max_tokens: int) -> str | None:
        """Make one call; None where the model does not answer.

        Raises:
            InvalidArgumentError: If the service refuses the request as it is.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(self._scope.deadline), self._slots:
                seconds = min(self._limits.call_timeout_seconds, self._scope.deadline - loop.time())
                if self._is_lost or seconds < _MIN_CALL_SECONDS:
                    return None
                async with asyncio.timeout(seconds + _GRACE_SECONDS):
                    answer = await listen(self._chat, messages, max_token_count=max_tokens, timeout_seconds=seconds)
        except InvalidArgumentError:
            _count_call(task, "refused")
            raise
        except FailedPreconditionError:
            # Wrong key or model: it will be as wrong for the next call.
            _count_call(task, "misconfigured")
            self._is_lost = True
            return None
        except LOST_ERRORS:
            _count_call(task, "lost")
            self._failed_call_count += 1
            self._is_lost = self._is_lost or self._failed_call_count >= _MAX_FAILED_CALLS
            return None
        _count_call(task, "answered")
        self._failed_call_count = 0
        return answer

    async def _recall(
        self,
        task: ItemTask,
        items: Sequence[PromptItem],
        read: Callable[[PromptItem, Mapping[str, object]], _Value | None],
        answers: Answers[_Value],
    ) -> list[PromptItem]:
        """Take kept answers; give back the items without one."""
        if self._cache is None:
            return list(items)
        missing: list[PromptItem] = []
        keys = [item_key(task, item, self._chat.model) for item in items]
        for start in range(0, len(items), MAX_KEYS_PER_CALL):
            kept: Mapping[bytes, str] = {}
            # An answer that cannot be looked up is asked for again: the cache is never worth a failure.
            with contextlib.suppress(UnavailableError, OverloadedError):
                kept = await self._cache.get(self._scope.tenant_id, keys[start : start + MAX_KEYS_PER_CALL])
            for item, key in zip(items[start:], keys[start : start + MAX_KEYS_PER_CALL], strict=False):
                value = read(item, _entry(kept[key])) if key in kept else None
                if value is None:
                    missing.append(item)
                else:
                    answers.values[item.index] = value
        return missing

    async def _keep(self, task: ItemTask, good: Sequence[tuple[PromptItem, Mapping[str, object]]]) -> None:
        if self._cache is None or not good:
            return
        model = self._chat.model
        completions = [
            Completion(item_key(task, item, model), model, json.dumps(entry), (self._scope.ordinal,))
            for item, entry in good
        ]
        with contextlib.suppress(UnavailableError, OverloadedError):
            await self._cache.put(self._scope.tenant_id, completions)


def _count_call(task: ItemTask, outcome: str) -> None:
    ENRICH_CALLS_TOTAL.labels(task.prompt.name, outcome).inc()


def _count_items(task: ItemTask, answers: Answers[_Value], kept_count: int) -> None:
    counts = Counter(str(failure) for failure in answers.failures.values())
    counts.update(kept=kept_count, answered=len(answers.values) - kept_count)
    for outcome, count in counts.items():
        ENRICH_ITEMS_TOTAL.labels(task.prompt.name, outcome).inc(count)


def _entry(response: str) -> Mapping[str, object]:
    try:
        entry = json.loads(response)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}
