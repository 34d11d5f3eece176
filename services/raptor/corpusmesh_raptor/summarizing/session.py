"""Makes the summaries of one build or one document, whatever the language model does."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.errors import CorpusMeshError, OverloadedError, UnavailableError
from corpusmesh_core.ports.completions import MAX_KEYS_PER_CALL, Completion, CompletionCache
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.prompts.tree_summary_v1 import TREE_SUMMARY_VERSION
from corpusmesh_core.trees.extractive import extract
from corpusmesh_core.trees.keys import summary_fingerprint
from corpusmesh_core.trees.settings import SummaryMethod, TreeSettings
from corpusmesh_core.trees.values import Cluster, Summary, TreeCost
from corpusmesh_raptor.summarizing.budget import TENANT_BUDGET_SPENT, TREE_BUDGET_SPENT, usage_unknown
from corpusmesh_raptor.summarizing.calls import (
    MISCONFIGURED,
    TOO_MANY,
    TREE_TIME_SPENT,
    UNFAITHFUL,
    UNREACHABLE,
    UNUSABLE,
    ModelWriter,
    Order,
    Written,
    make_order,
)
from corpusmesh_raptor.summarizing.metrics import SUMMARIES_TOTAL
from corpusmesh_raptor.summarizing.rest import ModelRest
from corpusmesh_runtime.logging import get_logger

MODEL_NOT_CONFIGURED: Final = "MODEL_NOT_CONFIGURED"
MODEL_UNREACHABLE: Final = "MODEL_UNREACHABLE"
MODEL_MISCONFIGURED: Final = "MODEL_MISCONFIGURED"
_FALLBACKS: Final[Mapping[str, str]] = {
    TREE_BUDGET_SPENT: "budget_spent",
    TENANT_BUDGET_SPENT: "budget_spent",
    MODEL_UNREACHABLE: "errors_spent",
    MODEL_MISCONFIGURED: UNREACHABLE,
    MODEL_NOT_CONFIGURED: "not_configured",
    TREE_TIME_SPENT: UNREACHABLE,
}
"""What a node says of why its tree stepped down to sentences."""
_SHARE_OF_TIME: Final = 0.8
_CACHE_SECONDS: Final = 10.0
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """The language model as one build may use it.

    Attributes:
        writer: Writes summaries.
        model: Name of the model.
        cache: Keeps what it wrote; None to keep none.
        slots: One for each call that this process may have under way, over all trees.
        rest: Whether the model is left alone, by all trees.
        call_count: How many that are.
        tenant_id: Tenant whose answers are kept.
    """

    writer: ModelWriter
    model: str
    cache: CompletionCache | None
    slots: asyncio.Semaphore
    rest: ModelRest
    call_count: int
    tenant_id: str


class SummarySession:
    """Makes the summaries of one build."""

    def __init__(
        self,
        counter: TextTokenizer,
        settings: TreeSettings,
        cost: TreeCost,
        access: ModelAccess | None,
        stepped_down_reason: str,
    ) -> None:
        """Create it; see `Summarizer.open`.

        Args:
            counter: The embedder's tokenizer.
            settings: How summaries are made.
            cost: Bill to add to.
            access: The language model; None where none is configured or wanted.
            stepped_down_reason: Why the build has stepped down to sentences before; "" where it has not.
        """
        self._counter = counter
        self._settings = settings
        self._cost = cost
        self._access = access
        self._failure_count = 0
        self._closed = stepped_down_reason
        self._finds_rest = False
        self._writes = settings.summaries is SummaryMethod.LLM
        if self._writes and access is None:
            self._closed = MODEL_NOT_CONFIGURED
        self._made_by = f"{access.model}/{TREE_SUMMARY_VERSION}" if access is not None else ""
        self.fingerprint = summary_fingerprint(settings, self._made_by)
        """What decides a summary besides its children, for `node_key`."""

    async def summarize(self, clusters: Sequence[Cluster], *, timeout_seconds: float) -> list[Summary]:
        """Make summaries.

        Args:
            clusters: What is summarized.
            timeout_seconds: How long it may take in all; what the language model has not written in 80 % of that is
                made of sentences.

        Returns:
            One summary for each cluster, in order.

        Raises:
            UnavailableError: If what the tenant has spent cannot be told, which a hard bound needs; never for what a
                language model does.
        """
        written: dict[int, Written] = {}
        if self._writes and self._access is not None:
            deadline = asyncio.get_running_loop().time() + _SHARE_OF_TIME * timeout_seconds
            written = await self._write(self._access, clusters, deadline)
        if self._writes and self._closed:
            self._cost.stepped_down_reason = self._closed
        summaries = await asyncio.to_thread(self._settle, clusters, written)
        model_count = sum(summary.method is SummaryMethod.LLM for summary in summaries)
        self._cost.model_node_count += model_count
        self._cost.extractive_node_count += len(summaries) - model_count
        for (method, fallback), count in Counter((one.method, one.fallback) for one in summaries).items():
            SUMMARIES_TOTAL.labels(method.value, fallback).inc(count)
        return summaries

    def _settle(self, clusters: Sequence[Cluster], written: Mapping[int, Written]) -> list[Summary]:
        """Give every cluster its summary: as it was written, or of its sentences."""
        budget = self._settings.effective_summary_tokens
        made: list[Summary] = []
        for place, cluster in enumerate(clusters):
            found = written.get(place)
            if found is not None and found.text:
                made.append(
                    Summary(
                        found.text,
                        found.token_count,
                        SummaryMethod.LLM,
                        self._made_by,
                        places=tuple(range(len(cluster.children))),
                    )
                )
                continue
            one = extract(cluster.children, cluster.vectors, self._counter, max_tokens=budget)
            made.append(Summary(one.text, one.token_count, fallback=self._fallback(found), places=one.places))
        return made

    def _fallback(self, found: Written | None) -> str:
        if not self._writes:
            return ""
        if found is not None and found.failure in (UNFAITHFUL, UNUSABLE, UNREACHABLE, TOO_MANY):
            return found.failure
        return UNREACHABLE if self._finds_rest else _FALLBACKS.get(self._closed, UNREACHABLE)

    async def _write(self, access: ModelAccess, clusters: Sequence[Cluster], deadline: float) -> dict[int, Written]:
        orders = await asyncio.to_thread(self._orders, access, clusters)
        written = await self._recall(access, orders)
        missing = [order for order in orders if order.place not in written]
        if self._closed:
            return written
        waiting = iter(missing)
        errors: list[CorpusMeshError] = []

        async def work() -> None:
            # All workers take from one iterator: nothing waits beyond what is under way.
            for order in waiting:
                if self._closed or errors:
                    return
                try:
                    found = await self._write_one(access, order, deadline)
                except (UnavailableError, OverloadedError, TimeoutError) as error:
                    errors.append(error if isinstance(error, CorpusMeshError) else usage_unknown())
                    return
                if found is not None:
                    written[order.place] = found

        async with asyncio.TaskGroup() as group:
            for _ in range(min(access.call_count, len(missing))):
                group.create_task(work())
        if errors:
            raise errors[0]
        return written

    def _orders(self, access: ModelAccess, clusters: Sequence[Cluster]) -> list[Order]:
        return [
            make_order(place, cluster, self._settings, self._counter, model=access.model)
            for place, cluster in enumerate(clusters)
        ]

    async def _write_one(self, access: ModelAccess, order: Order, deadline: float) -> Written | None:
        is_late = False
        try:
            async with asyncio.timeout_at(deadline):
                await access.slots.acquire()
        except TimeoutError:
            is_late = True
        if is_late:
            self._closed = self._closed or TREE_TIME_SPENT
            return None
        try:
            # Another call may have found out meanwhile that the model does not answer, or that the budget is spent.
            if self._closed:
                return None
            with access.rest.attempt() as attempt:
                if attempt is None:
                    self._finds_rest = True
                    self._step_down(MODEL_UNREACHABLE)
                    return None
                written = await access.writer.write(order, deadline)
                attempt.is_answered = written.is_answered
        finally:
            access.slots.release()
        self._judge(written)
        if written.text:
            await self._keep(access, order, written)
        return written

    def _judge(self, written: Written) -> None:
        """Count what failed; step down where going on makes no sense."""
        match written.failure:
            case "" | "context_too_small":
                return
            case "TREE_BUDGET_SPENT" | "TENANT_BUDGET_SPENT" | "TREE_TIME_SPENT":
                self._step_down(written.failure)
                return
            case failure if failure == MISCONFIGURED:
                # Wrong key or model: it will be as wrong for the next call.
                self._step_down(MODEL_MISCONFIGURED)
        self._cost.failed_call_count += 1
        if written.failure != UNFAITHFUL:
            self._failure_count += 1
        if self._failure_count >= max(1, self._settings.max_errors):
            self._step_down(MODEL_UNREACHABLE)

    def _step_down(self, reason: str) -> None:
        if not self._closed:
            self._closed = reason
            _log.warning("rest of the tree is made of sentences", reason=reason)

    async def _recall(self, access: ModelAccess, orders: Sequence[Order]) -> dict[int, Written]:
        """Take what the model wrote before for the same texts."""
        found: dict[int, Written] = {}
        if access.cache is None:
            return found
        kept: dict[bytes, str] = {}
        for start in range(0, len(orders), MAX_KEYS_PER_CALL):
            keys = [order.key for order in orders[start : start + MAX_KEYS_PER_CALL]]
            # What cannot be looked up is asked for again: the cache is never worth a failure.
            with contextlib.suppress(UnavailableError, OverloadedError, TimeoutError):
                async with asyncio.timeout(_CACHE_SECONDS):
                    kept.update(await access.cache.get(access.tenant_id, keys))
        texts = [(order.place, kept[order.key]) for order in orders if kept.get(order.key)]
        counts = await asyncio.to_thread(self._counter.count_tokens, [text for _, text in texts])
        for (place, text), count in zip(texts, counts, strict=True):
            found[place] = Written(text, count)
        return found

    async def _keep(self, access: ModelAccess, order: Order, written: Written) -> None:
        if access.cache is None:
            return
        completion = Completion(order.key, access.model, written.text, order.sources)
        with contextlib.suppress(UnavailableError, OverloadedError, TimeoutError):
            async with asyncio.timeout(_CACHE_SECONDS):
                await access.cache.put(access.tenant_id, [completion])
