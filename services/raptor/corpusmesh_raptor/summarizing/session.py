"""Makes the summaries of one build or one document, whatever the language model does."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.prompts.tree_summary_v1 import TREE_SUMMARY_VERSION
from corpusmesh_core.trees.extractive import extract
from corpusmesh_core.trees.keys import summary_fingerprint
from corpusmesh_core.trees.settings import SummaryMethod, TreeSettings
from corpusmesh_core.trees.values import Cluster, Summary, TreeCost
from corpusmesh_raptor.summarizing.calls import (
    TOO_MANY,
    TREE_BUDGET_SPENT,
    TREE_TIME_SPENT,
    UNFAITHFUL,
    make_order,
)
from corpusmesh_raptor.summarizing.metrics import SUMMARIES_TOTAL
from corpusmesh_runtime.model_calls import (
    MODEL_MISCONFIGURED,
    MODEL_NOT_CONFIGURED,
    MODEL_UNREACHABLE,
    TENANT_BUDGET_SPENT,
    UNREACHABLE,
    UNUSABLE,
    CallOrder,
    CallSession,
    Reply,
)

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


class SummarySession:
    """Makes the summaries of one build."""

    def __init__(
        self, counter: TextTokenizer, settings: TreeSettings, cost: TreeCost, calls: CallSession | None
    ) -> None:
        """Create it; see `Summarizer.open`.

        Args:
            counter: The embedder's tokenizer.
            settings: How summaries are made.
            cost: Bill to add to.
            calls: What the language model may be asked; None where it is not wanted.
        """
        self._counter = counter
        self._settings = settings
        self._cost = cost
        self._calls = calls
        self._scope = calls.scope(settings.max_errors, in_a_row=False) if calls is not None else None
        self._made_by = f"{calls.model}/{TREE_SUMMARY_VERSION}" if calls is not None and calls.model else ""
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
        written: dict[int, Reply] = {}
        if self._scope is not None:
            deadline = asyncio.get_running_loop().time() + _SHARE_OF_TIME * timeout_seconds
            written = await self._write(clusters, deadline)
            if self._scope.closed:
                self._cost.stepped_down_reason = self._scope.closed
        summaries = await asyncio.to_thread(self._settle, clusters, written)
        model_count = sum(summary.method is SummaryMethod.LLM for summary in summaries)
        self._cost.model_node_count += model_count
        self._cost.extractive_node_count += len(summaries) - model_count
        for (method, fallback), count in Counter((one.method, one.fallback) for one in summaries).items():
            SUMMARIES_TOTAL.labels(method.value, fallback).inc(count)
        return summaries

    async def _write(self, clusters: Sequence[Cluster], deadline: float) -> dict[int, Reply]:
        """Ask for summaries; gives what became of them by place among the clusters."""
        if self._scope is None or self._calls is None or self._calls.access is None:
            return {}
        orders = await asyncio.to_thread(self._orders, clusters, self._calls.model)
        written = {place: Reply(failure=TOO_MANY) for place, order in enumerate(orders) if order is None}
        asked = [(place, order) for place, order in enumerate(orders) if order is not None]
        replies = await self._scope.ask([order for _, order in asked], deadline)
        written.update((asked[number][0], reply) for number, reply in replies.items())
        return written

    def _orders(self, clusters: Sequence[Cluster], model: str) -> list[CallOrder | None]:
        return [make_order(cluster, self._settings, self._counter, model=model) for cluster in clusters]

    def _settle(self, clusters: Sequence[Cluster], written: Mapping[int, Reply]) -> list[Summary]:
        """Give every cluster its summary: as it was written, or of its sentences."""
        budget = self._settings.effective_summary_tokens
        texts = {place: reply.text for place, reply in written.items() if reply.text}
        counts = dict(zip(texts, self._counter.count_tokens(list(texts.values())), strict=True))
        made: list[Summary] = []
        for place, cluster in enumerate(clusters):
            if place in texts:
                made.append(
                    Summary(
                        texts[place],
                        counts[place],
                        SummaryMethod.LLM,
                        self._made_by,
                        places=tuple(range(len(cluster.children))),
                    )
                )
                continue
            one = extract(cluster.children, cluster.vectors, self._counter, max_tokens=budget)
            fallback = self._fallback(written.get(place))
            made.append(Summary(one.text, one.token_count, fallback=fallback, places=one.places))
        return made

    def _fallback(self, found: Reply | None) -> str:
        if self._calls is None or self._scope is None:
            return ""
        if found is not None and found.failure in (UNFAITHFUL, UNUSABLE, UNREACHABLE, TOO_MANY):
            return found.failure
        return UNREACHABLE if self._calls.finds_rest else _FALLBACKS.get(self._scope.closed, UNREACHABLE)
