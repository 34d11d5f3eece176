"""What the language model may still be asked in one build: counted before a call, and put right after it."""

import asyncio
import contextlib
from dataclasses import replace
from typing import Final

from corpusmesh_core.errors import CorpusMeshError, UnavailableError
from corpusmesh_core.ports.usage import UsageEntry, UsageLedger
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.values import TreeCost
from corpusmesh_runtime.logging import get_logger

TREE_BUDGET_SPENT: Final = "TREE_BUDGET_SPENT"
TENANT_BUDGET_SPENT: Final = "TENANT_BUDGET_SPENT"
PURPOSE: Final = "tree"
"""Purpose of usage entries."""
LEDGER_SECONDS: Final = 10.0
"""How long what a tenant has spent may take to be told."""
_log = get_logger(__name__)


def usage_unknown() -> UnavailableError:
    """Make the error of a ledger that does not answer in time."""
    return UnavailableError("USAGE_UNKNOWN", "what the tenant has spent cannot be told; try again")


class CallBudget:
    """Bounds of a build and of the tenant's day; neither is ever passed, however many calls are under way."""

    def __init__(
        self,
        usage: UsageLedger,
        settings: TreeSettings,
        cost: TreeCost,
        *,
        tenant_id: str,
        max_tenant_tokens_per_day: int,
        spent: TreeCost,
    ) -> None:
        """Create the budget of one build.

        Args:
            usage: What tenants have spent.
            settings: Bounds of the build.
            cost: Bill that is added to.
            tenant_id: Tenant.
            max_tenant_tokens_per_day: Bound of the tenant's day; 0 for none.
            spent: What the build has cost before.
        """
        self._usage = usage
        self._settings = settings
        self._cost = cost
        self._tenant_id = tenant_id
        self._max_tenant_tokens_per_day = max_tenant_tokens_per_day
        self._call_count = spent.model_call_count
        self._token_count = spent.input_token_count + spent.output_token_count

    async def reserve(self, entry: UsageEntry) -> str:
        """Count a call that is about to be made.

        Args:
            entry: What it may cost at most.

        Returns:
            "" where it may be made; else TREE_BUDGET_SPENT or TENANT_BUDGET_SPENT.

        Raises:
            UnavailableError: If what the tenant has spent cannot be told: a bound that is not known is not passed.
        """
        settings = self._settings
        tokens = entry.input_token_count + entry.output_token_count
        if settings.max_model_calls and self._call_count + entry.call_count > settings.max_model_calls:
            return TREE_BUDGET_SPENT
        if settings.max_model_tokens and self._token_count + tokens > settings.max_model_tokens:
            return TREE_BUDGET_SPENT
        # Before anything is waited for, so that calls at the same time know of each other.
        self._count(entry, 1)
        is_counted = False
        try:
            async with asyncio.timeout(LEDGER_SECONDS):
                is_counted = await self._usage.reserve(
                    self._tenant_id, entry, max_tokens_per_day=self._max_tenant_tokens_per_day
                )
        finally:
            if not is_counted:
                self._count(entry, -1)
        return "" if is_counted else TENANT_BUDGET_SPENT

    async def settle(self, reserved: UsageEntry, *, input_token_count: int, output_token_count: int) -> None:
        """Put what a call did cost in place of what was reserved for it, and on the bill.

        Args:
            reserved: As it was reserved.
            input_token_count: Tokens sent.
            output_token_count: Tokens received.
        """
        spent = replace(reserved, input_token_count=input_token_count, output_token_count=output_token_count)
        self._count(reserved, -1)
        self._count(spent, 1)
        self._cost.model_call_count += spent.call_count
        self._cost.input_token_count += spent.input_token_count
        self._cost.output_token_count += spent.output_token_count
        # Where this fails, the reservation stays, which is at least what was spent.
        with contextlib.suppress(TimeoutError):
            try:
                async with asyncio.timeout(LEDGER_SECONDS):
                    await self._usage.settle(self._tenant_id, reserved, spent)
            except CorpusMeshError as error:
                _log.warning("usage not settled", reason=error.reason)

    def _count(self, entry: UsageEntry, sign: int) -> None:
        self._call_count += sign * entry.call_count
        self._token_count += sign * (entry.input_token_count + entry.output_token_count)
