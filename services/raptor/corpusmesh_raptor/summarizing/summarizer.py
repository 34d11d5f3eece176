"""Opens the session in which the summaries of one build or one document are made."""

from collections.abc import Callable
from time import monotonic

import numpy as np

from corpusmesh_core.ports.chat import ChatModel
from corpusmesh_core.ports.completions import CompletionCache
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.ports.usage import UsageLedger
from corpusmesh_core.trees.settings import SummaryMethod, TreeSettings
from corpusmesh_core.trees.values import TreeCost
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.summarizing.calls import PURPOSE, TREE_BUDGET_SPENT, TREE_TIME_SPENT, UNFAITHFUL
from corpusmesh_raptor.summarizing.metrics import SUMMARY_CALLS_TOTAL
from corpusmesh_raptor.summarizing.session import SummarySession
from corpusmesh_runtime.model_calls import DeskSettings, ModelDesk, Spent


class Summarizer:
    """What all trees of a process share: the language model, its places, its cache, and whether it answers."""

    def __init__(
        self,
        chat: ChatModel | None,
        cache: CompletionCache | None,
        usage: UsageLedger,
        counter: TextTokenizer,
        settings: RaptorSettings,
        *,
        make_rng: Callable[[], np.random.Generator] = np.random.default_rng,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Create it.

        Args:
            chat: The language model; None where none is configured.
            cache: Keeps its answers; None to keep none.
            usage: What tenants have spent today.
            counter: The embedder's tokenizer.
            settings: Bounds.
            make_rng: Dice for delimiters.
            clock: Seconds that only grow, by which a model that does not answer is left alone.
        """
        self._counter = counter
        self._desk = ModelDesk(
            chat,
            cache,
            usage,
            counter,
            DeskSettings(
                purpose=PURPOSE,
                spent_reason=TREE_BUDGET_SPENT,
                time_reason=TREE_TIME_SPENT,
                calls_in_flight=settings.model_calls_in_flight,
                call_timeout_seconds=settings.model_call_timeout_seconds,
                rest_seconds=settings.model_rest_seconds,
                max_tenant_tokens_per_day=settings.max_tenant_tokens_per_day,
                tolerated=frozenset({UNFAITHFUL}),
            ),
            count_outcome=_count_outcome,
            make_rng=make_rng,
            clock=clock,
        )

    async def spent(self, tenant_id: str, run_id: str, settings: TreeSettings) -> TreeCost:
        """Tell what a build has been charged for its model, by attempts that died included.

        Args:
            tenant_id: Tenant.
            run_id: Run in whose name the model was asked.
            settings: How summaries are made.

        Returns:
            Calls and tokens; none where no model is asked. What a dead attempt had reserved counts as spent.

        Raises:
            UnavailableError: If it cannot be told, which a hard bound needs.
        """
        if settings.summaries is not SummaryMethod.LLM:
            return TreeCost()
        told = await self._desk.spent(tenant_id, run_id)
        return TreeCost(
            model_call_count=told.call_count,
            input_token_count=told.input_token_count,
            output_token_count=told.output_token_count,
        )

    def open(
        self, *, tenant_id: str, run_id: str, settings: TreeSettings, cost: TreeCost, spent: TreeCost | None = None
    ) -> SummarySession:
        """Begin a build, a slice of one, or the tree of a document.

        Args:
            tenant_id: Tenant.
            run_id: Run in whose name a language model is asked.
            settings: How summaries are made.
            cost: Bill that the session adds to.
            spent: What earlier slices or attempts of the same build have cost: counts against its budget, and what has
                stepped down to sentences stays there. Not `cost` itself.

        Returns:
            The session.
        """
        if settings.summaries is not SummaryMethod.LLM:
            return SummarySession(self._counter, settings, cost, None)
        before = spent or TreeCost()
        calls = self._desk.open(
            tenant_id=tenant_id,
            run_id=run_id,
            bill=cost,
            max_model_calls=settings.max_model_calls,
            max_model_tokens=settings.max_model_tokens,
            spent=Spent(before.model_call_count, before.input_token_count, before.output_token_count),
            closed=before.stepped_down_reason,
        )
        return SummarySession(self._counter, settings, cost, calls)


def _count_outcome(task: str, outcome: str) -> None:
    del task
    SUMMARY_CALLS_TOTAL.labels(outcome).inc()
