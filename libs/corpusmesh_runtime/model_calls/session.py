"""The calls of one build, whatever the language model does: kept answers first, and an end where going on is senseless.

A build has one session, which closes for all that is asked in it: its budget is spent, or the model is misconfigured.
A session has scopes, each of which closes by itself after so many failures: one for a whole tree, one for each document
of a graph.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.errors import CorpusMeshError, OverloadedError, UnavailableError
from corpusmesh_core.ports.completions import MAX_KEYS_PER_CALL, Completion, CompletionCache
from corpusmesh_runtime.logging import get_logger
from corpusmesh_runtime.model_calls.budget import TENANT_BUDGET_SPENT, CallBill, usage_unknown
from corpusmesh_runtime.model_calls.caller import ModelCaller
from corpusmesh_runtime.model_calls.orders import MISCONFIGURED, CallOrder, Reply
from corpusmesh_runtime.model_calls.rest import ModelRest

MODEL_NOT_CONFIGURED: Final = "MODEL_NOT_CONFIGURED"
MODEL_UNREACHABLE: Final = "MODEL_UNREACHABLE"
MODEL_MISCONFIGURED: Final = "MODEL_MISCONFIGURED"
_CACHE_SECONDS: Final = 10.0
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """The language model as one build may use it.

    Attributes:
        caller: Makes calls.
        model: Name of the model.
        cache: Keeps what it wrote; None to keep none.
        slots: One for each call that this process may have under way, over all sessions.
        rest: Whether the model is left alone, by all sessions.
        call_count: How many slots there are.
        tenant_id: Tenant whose answers are kept.
        spent_reason: What the budget says when it is spent.
        time_reason: What is said where no time is left.
        tolerated: What checks say that is no failure of the service.
    """

    caller: ModelCaller
    model: str
    cache: CompletionCache | None
    slots: asyncio.Semaphore
    rest: ModelRest
    call_count: int
    tenant_id: str
    spent_reason: str
    time_reason: str
    tolerated: frozenset[str] = frozenset()


class CallSession:
    """What one build may ask."""

    def __init__(self, access: ModelAccess | None, bill: CallBill, *, closed: str = "") -> None:
        """Create it; see `ModelDesk.open`.

        Args:
            access: The language model; None where there is none.
            bill: Bill to add to.
            closed: Why the build has stepped down before; "" where it has not.
        """
        self.access = access
        self.bill = bill
        self.closed = closed if access is not None else MODEL_NOT_CONFIGURED
        """Why nothing more is asked in this build; "" while something is."""
        self.finds_rest = False
        """Whether something was not asked for because the model is left alone after calls of others were lost."""

    @property
    def model(self) -> str:
        """Name of the model; "" where there is none."""
        return self.access.model if self.access is not None else ""

    def scope(self, max_errors: int, *, in_a_row: bool) -> "CallScope":
        """Begin something that is left to itself after so many failures.

        Args:
            max_errors: Failures that are allowed; one at least.
            in_a_row: Whether an answer that is of use begins the count anew.

        Returns:
            The scope.
        """
        return CallScope(self, max(1, max_errors), in_a_row=in_a_row)


class CallScope:
    """What is asked for one thing, such as a document."""

    def __init__(self, session: CallSession, max_errors: int, *, in_a_row: bool) -> None:
        """Create it; see `CallSession.scope`.

        Args:
            session: What it is part of.
            max_errors: Failures after which nothing more is asked.
            in_a_row: Whether an answer that is of use begins the count anew.
        """
        self._session = session
        self._max_errors = max_errors
        self._in_a_row = in_a_row
        self._failure_count = 0
        self._closed = ""

    @property
    def closed(self) -> str:
        """Why nothing more is asked; "" while something is."""
        return self._session.closed or self._closed

    async def ask(self, orders: Sequence[CallOrder], deadline: float) -> dict[int, Reply]:
        """Ask for some things at once, as many as there are slots; what was answered before is not asked again.

        Args:
            orders: What is asked for.
            deadline: Time of the event loop's clock after which nothing begins or goes on.

        Returns:
            What became of them, by place among the orders; nothing of those that were not asked for.

        Raises:
            UnavailableError: If what the tenant has spent cannot be told, which a hard bound needs; never for what a
                language model does.
        """
        access = self._session.access
        if access is None:
            return {}
        replies = await _recall(access, orders)
        if self.closed:
            return replies
        waiting = iter([place for place in range(len(orders)) if place not in replies])
        errors: list[CorpusMeshError] = []
        async with asyncio.TaskGroup() as group:
            for _ in range(min(access.call_count, len(orders) - len(replies))):
                group.create_task(self._work(access, orders, waiting, replies, errors, deadline))
        if errors:
            raise errors[0]
        return replies

    async def _work(
        self,
        access: ModelAccess,
        orders: Sequence[CallOrder],
        waiting: Iterator[int],
        replies: dict[int, Reply],
        errors: list[CorpusMeshError],
        deadline: float,
    ) -> None:
        # All workers take from one iterator: nothing waits beyond what is under way.
        for place in waiting:
            if self.closed or errors:
                return
            try:
                found = await self._one(access, orders[place], deadline)
            except (UnavailableError, OverloadedError, TimeoutError) as error:
                errors.append(error if isinstance(error, CorpusMeshError) else usage_unknown())
                return
            if found is not None:
                replies[place] = found

    async def _one(self, access: ModelAccess, order: CallOrder, deadline: float) -> Reply | None:
        is_late = False
        try:
            async with asyncio.timeout_at(deadline):
                await access.slots.acquire()
        except TimeoutError:
            is_late = True
        if is_late:
            self._close(access.time_reason)
            return None
        try:
            # Another call may have found out meanwhile that the model does not answer, or that the budget is spent.
            if self.closed:
                return None
            with access.rest.attempt() as attempt:
                if attempt is None:
                    self._session.finds_rest = True
                    self._close(MODEL_UNREACHABLE)
                    return None
                reply = await access.caller.call(order, deadline)
                attempt.is_answered = reply.is_answered
        finally:
            access.slots.release()
        self._judge(access, reply)
        if reply.text:
            await _keep(access, order, reply)
        return reply

    def _judge(self, access: ModelAccess, reply: Reply) -> None:
        """Count what failed; close where going on makes no sense."""
        failure = reply.failure
        if not failure:
            if self._in_a_row:
                self._failure_count = 0
            return
        if failure in (access.spent_reason, TENANT_BUDGET_SPENT):
            self._close_all(failure)
            return
        if failure == access.time_reason:
            self._close(failure)
            return
        if failure == MISCONFIGURED:
            self._close_all(MODEL_MISCONFIGURED)
        self._session.bill.failed_call_count += 1
        if failure not in access.tolerated:
            self._failure_count += 1
        if self._failure_count >= self._max_errors:
            self._close(MODEL_UNREACHABLE)

    def _close(self, reason: str) -> None:
        if not self.closed:
            self._closed = reason
            _log.warning("language model is asked no more", reason=reason)

    def _close_all(self, reason: str) -> None:
        if not self._session.closed:
            self._session.closed = reason
            _log.warning("language model is asked no more in this build", reason=reason)


async def _recall(access: ModelAccess, orders: Sequence[CallOrder]) -> dict[int, Reply]:
    """Take what the model wrote before for the same input."""
    if access.cache is None:
        return {}
    kept: dict[bytes, str] = {}
    for start in range(0, len(orders), MAX_KEYS_PER_CALL):
        keys = [order.key for order in orders[start : start + MAX_KEYS_PER_CALL]]
        # What cannot be looked up is asked for again: the cache is never worth a failure.
        with contextlib.suppress(UnavailableError, OverloadedError, TimeoutError):
            async with asyncio.timeout(_CACHE_SECONDS):
                kept.update(await access.cache.get(access.tenant_id, keys))
    return {place: Reply(text) for place, order in enumerate(orders) if (text := kept.get(order.key))}


async def _keep(access: ModelAccess, order: CallOrder, reply: Reply) -> None:
    if access.cache is None:
        return
    completion = Completion(order.key, access.model, reply.text, order.sources)
    with contextlib.suppress(UnavailableError, OverloadedError, TimeoutError):
        async with asyncio.timeout(_CACHE_SECONDS):
            await access.cache.put(access.tenant_id, [completion])
