"""What all builds of one kind in a process share: the language model, its places, and whether it answers."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

import numpy as np

from corpusmesh_core.ports.chat import ChatModel
from corpusmesh_core.ports.completions import CompletionCache
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.ports.usage import UsageLedger
from corpusmesh_runtime.model_calls.budget import (
    LEDGER_SECONDS,
    CallBill,
    CallBounds,
    CallBudget,
    Spent,
    usage_unknown,
)
from corpusmesh_runtime.model_calls.caller import CallerTools, ModelCaller
from corpusmesh_runtime.model_calls.rest import ModelRest
from corpusmesh_runtime.model_calls.session import CallSession, ModelAccess


@dataclass(frozen=True, slots=True)
class DeskSettings:
    """How a kind of builds asks its model.

    Attributes:
        purpose: Purpose of usage entries: "tree", "graph".
        spent_reason: What a build says whose own budget is spent: TREE_BUDGET_SPENT, GRAPH_BUDGET_SPENT.
        time_reason: What it says where no time is left: TREE_TIME_SPENT, GRAPH_TIME_SPENT.
        calls_in_flight: Calls that the process may have under way.
        call_timeout_seconds: Longest call.
        rest_seconds: How long a model that does not answer is left alone; 0 to ask it whatever happens.
        max_tenant_tokens_per_day: Tokens of a tenant's day; 0 for no bound.
        tolerated: What checks say that is no failure of the service, such as "unfaithful".
    """

    purpose: str
    spent_reason: str
    time_reason: str
    calls_in_flight: int
    call_timeout_seconds: float
    rest_seconds: float
    max_tenant_tokens_per_day: int
    tolerated: frozenset[str] = frozenset()


class ModelDesk:
    """Opens sessions."""

    def __init__(
        self,
        chat: ChatModel | None,
        cache: CompletionCache | None,
        usage: UsageLedger,
        counter: TextTokenizer,
        settings: DeskSettings,
        *,
        count_outcome: Callable[[str, str], None],
        make_rng: Callable[[], np.random.Generator] = np.random.default_rng,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Create it.

        Args:
            chat: The language model; None where none is configured.
            cache: Keeps its answers; None to keep none.
            usage: What tenants have spent today.
            counter: The embedder's tokenizer.
            settings: How it is asked.
            count_outcome: Is told of every call what it was for and how it ended.
            make_rng: Dice for delimiters.
            clock: Seconds that only grow, by which a model that does not answer is left alone.
        """
        self._cache = cache
        self._usage = usage
        self._settings = settings
        self._slots = asyncio.Semaphore(settings.calls_in_flight)
        self._rest = ModelRest(settings.rest_seconds, clock)
        self._tools = (
            CallerTools(
                chat,
                counter,
                settings.purpose,
                settings.time_reason,
                settings.call_timeout_seconds,
                make_rng,
                count_outcome,
            )
            if chat is not None
            else None
        )

    @property
    def model(self) -> str:
        """Name of the model; "" where there is none."""
        return self._tools.chat.model if self._tools is not None else ""

    async def spent(self, tenant_id: str, run_id: str) -> Spent:
        """Tell what a build has been charged for its model, by attempts that died included.

        Args:
            tenant_id: Tenant.
            run_id: Run in whose name the model was asked.

        Returns:
            Calls and tokens; none where there is no model. What a dead attempt had reserved counts as spent.

        Raises:
            UnavailableError: If it cannot be told, which a hard bound needs.
        """
        if self._tools is None:
            return Spent()
        try:
            async with asyncio.timeout(LEDGER_SECONDS):
                return Spent(*await self._usage.spent_by_run(tenant_id, self._settings.purpose, run_id))
        except TimeoutError as error:
            raise usage_unknown() from error

    def open(
        self,
        *,
        tenant_id: str,
        run_id: str,
        bill: CallBill,
        max_model_calls: int,
        max_model_tokens: int,
        spent: Spent | None = None,
        closed: str = "",
    ) -> CallSession:
        """Begin a build, a slice of one, or what is made of one document.

        Args:
            tenant_id: Tenant.
            run_id: Run in whose name the model is asked.
            bill: Bill that the session adds to.
            max_model_calls: Most calls of the build; 0 for no bound.
            max_model_tokens: Most tokens of the build; 0 for no bound.
            spent: What earlier slices or attempts of the same build have cost: counts against its budget.
            closed: Why an earlier slice has stepped down: this one does so too.

        Returns:
            The session.
        """
        settings, tools = self._settings, self._tools
        if tools is None:
            return CallSession(None, bill)
        bounds = CallBounds(
            max_model_calls, max_model_tokens, settings.max_tenant_tokens_per_day, settings.spent_reason
        )
        budget = CallBudget(self._usage, bounds, bill, tenant_id=tenant_id, spent=spent or Spent())
        access = ModelAccess(
            caller=ModelCaller(tools, budget, run_id=run_id),
            model=tools.chat.model,
            cache=self._cache,
            slots=self._slots,
            rest=self._rest,
            call_count=settings.calls_in_flight,
            tenant_id=tenant_id,
            spent_reason=settings.spent_reason,
            time_reason=settings.time_reason,
            tolerated=settings.tolerated,
        )
        return CallSession(access, bill, closed=closed)
