"""Opens the session in which one build of a graph asks a language model."""

from collections.abc import Callable
from time import monotonic
from typing import Final

import numpy as np

from corpusmesh_core.graphs.settings import GraphSettings
from corpusmesh_core.graphs.values import GraphBill
from corpusmesh_core.ports.chat import ChatModel
from corpusmesh_core.ports.completions import CompletionCache
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.ports.usage import UsageLedger
from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_graph.models.metrics import GRAPH_MODEL_CALLS_TOTAL
from corpusmesh_graph.models.orders import GRAPH_BUDGET_SPENT, GRAPH_TIME_SPENT, UNFAITHFUL
from corpusmesh_graph.models.session import GraphSession
from corpusmesh_runtime.model_calls import MODEL_MISCONFIGURED, DeskSettings, ModelDesk, Spent

PURPOSE: Final = "graph"
"""Purpose of usage entries."""
_BINDING: Final = frozenset({GRAPH_BUDGET_SPENT, MODEL_MISCONFIGURED})
"""What binds the next slice of a build: not that a slice had no time left, nor that a document's calls were lost."""


class GraphModels:
    """What all graphs of a process share: the language model, its places, its cache, and whether it answers."""

    def __init__(
        self,
        chat: ChatModel | None,
        cache: CompletionCache | None,
        usage: UsageLedger,
        counter: TextTokenizer,
        settings: GraphServiceSettings,
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
                spent_reason=GRAPH_BUDGET_SPENT,
                time_reason=GRAPH_TIME_SPENT,
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

    @property
    def model(self) -> str:
        """Name of the model; "" where none is configured."""
        return self._desk.model

    async def spent(self, tenant_id: str, run_id: str) -> GraphBill:
        """Tell what a build has been charged for its model, by attempts that died included.

        Args:
            tenant_id: Tenant.
            run_id: Run in whose name the model was asked.

        Returns:
            Calls and tokens; what a dead attempt had reserved counts as spent.

        Raises:
            UnavailableError: If it cannot be told, which a hard bound needs.
        """
        told = await self._desk.spent(tenant_id, run_id)
        return GraphBill(
            model_call_count=told.call_count,
            input_token_count=told.input_token_count,
            output_token_count=told.output_token_count,
        )

    def open(
        self,
        *,
        tenant_id: str,
        run_id: str,
        settings: GraphSettings,
        bill: GraphBill,
        spent: GraphBill | None = None,
    ) -> GraphSession:
        """Begin a build or a slice of one.

        Args:
            tenant_id: Tenant.
            run_id: Run in whose name the model is asked.
            settings: How the graph is made.
            bill: Bill that the session adds to.
            spent: What earlier slices or attempts of the same build have cost: counts against its budget, and a budget
                that was spent stays so. Not `bill` itself.

        Returns:
            The session.
        """
        before = spent or GraphBill()
        reason = before.stepped_down_reason
        calls = self._desk.open(
            tenant_id=tenant_id,
            run_id=run_id,
            bill=bill,
            max_model_calls=settings.max_model_calls,
            max_model_tokens=settings.max_model_tokens,
            spent=Spent(before.model_call_count, before.input_token_count, before.output_token_count),
            closed=reason if reason in _BINDING else "",
        )
        return GraphSession(self._counter, settings, bill, calls)


def _count_outcome(task: str, outcome: str) -> None:
    GRAPH_MODEL_CALLS_TOTAL.labels(task, outcome).inc()
