"""Opens the session in which the summaries of one build or one document are made."""

import asyncio
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
from corpusmesh_raptor.summarizing.budget import LEDGER_SECONDS, PURPOSE, CallBudget, usage_unknown
from corpusmesh_raptor.summarizing.calls import ModelWriter
from corpusmesh_raptor.summarizing.rest import ModelRest
from corpusmesh_raptor.summarizing.session import ModelAccess, SummarySession


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
        self._chat = chat
        self._cache = cache
        self._usage = usage
        self._counter = counter
        self._settings = settings
        self._make_rng = make_rng
        self._slots = asyncio.Semaphore(settings.model_calls_in_flight)
        self._rest = ModelRest(settings.model_rest_seconds, clock)

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
        if settings.summaries is not SummaryMethod.LLM or self._chat is None:
            return TreeCost()
        try:
            async with asyncio.timeout(LEDGER_SECONDS):
                calls, sent, received = await self._usage.spent_by_run(tenant_id, PURPOSE, run_id)
        except TimeoutError as error:
            raise usage_unknown() from error
        return TreeCost(model_call_count=calls, input_token_count=sent, output_token_count=received)

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
        before = spent or TreeCost()
        access: ModelAccess | None = None
        if settings.summaries is SummaryMethod.LLM and self._chat is not None:
            budget = CallBudget(
                self._usage,
                settings,
                cost,
                tenant_id=tenant_id,
                max_tenant_tokens_per_day=self._settings.max_tenant_tokens_per_day,
                spent=before,
            )
            writer = ModelWriter(
                self._chat,
                self._counter,
                budget,
                settings,
                run_id=run_id,
                call_timeout_seconds=self._settings.model_call_timeout_seconds,
                make_rng=self._make_rng,
            )
            access = ModelAccess(
                writer,
                self._chat.model,
                self._cache,
                self._slots,
                self._rest,
                self._settings.model_calls_in_flight,
                tenant_id,
            )
        return SummarySession(self._counter, settings, cost, access, before.stepped_down_reason)
