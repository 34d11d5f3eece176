"""What the language model may still be asked in one build: counted before a call, and put right after it."""

import asyncio
import contextlib
from dataclasses import dataclass, replace
from typing import Final, Protocol

from corpusmesh_core.errors import CorpusMeshError, UnavailableError
from corpusmesh_core.ports.usage import UsageEntry, UsageLedger
from corpusmesh_runtime.logging import get_logger

TENANT_BUDGET_SPENT: Final = "TENANT_BUDGET_SPENT"
LEDGER_SECONDS: Final = 10.0
"""How long what a tenant has spent may take to be told."""
_log = get_logger(__name__)


class CallBill(Protocol):
    """What calls are put on, such as the cost of a tree or of a graph."""

    model_call_count: int
    input_token_count: int
    output_token_count: int
    failed_call_count: int


@dataclass(frozen=True, slots=True)
class CallBounds:
    """Most that one build may ask of a language model.

    Attributes:
        max_model_calls: Calls; 0 for no bound.
        max_model_tokens: Tokens, sent and received; 0 for no bound.
        max_tenant_tokens_per_day: Tokens of the tenant's day, of all purposes; 0 for no bound.
        spent_reason: What the build says when its own bounds are reached, such as TREE_BUDGET_SPENT.
    """

    max_model_calls: int
    max_model_tokens: int
    max_tenant_tokens_per_day: int
    spent_reason: str


@dataclass(frozen=True, slots=True)
class Spent:
    """What a build has cost before.

    Attributes:
        call_count: Calls.
        input_token_count: Tokens sent.
        output_token_count: Tokens received.
    """

    call_count: int = 0
    input_token_count: int = 0
    output_token_count: int = 0


def usage_unknown() -> UnavailableError:
    """Make the error of a ledger that does not answer in time."""
    return UnavailableError("USAGE_UNKNOWN", "what the tenant has spent cannot be told; try again")


class CallBudget:
    """Bounds of a build and of the tenant's day; neither is ever passed, however many calls are under way."""

    def __init__(self, usage: UsageLedger, bounds: CallBounds, bill: CallBill, *, tenant_id: str, spent: Spent) -> None:
        """Create the budget of one build.

        Args:
            usage: What tenants have spent.
            bounds: Bounds of the build and of the tenant's day.
            bill: Bill that is added to.
            tenant_id: Tenant.
            spent: What the build has cost before.
        """
        self._usage = usage
        self._bounds = bounds
        self._bill = bill
        self._tenant_id = tenant_id
        self._call_count = spent.call_count
        self._token_count = spent.input_token_count + spent.output_token_count

    async def reserve(self, entry: UsageEntry) -> str:
        """Count a call that is about to be made.

        Args:
            entry: What it may cost at most.

        Returns:
            "" where it may be made; else the bounds' `spent_reason`, or TENANT_BUDGET_SPENT.

        Raises:
            UnavailableError: If what the tenant has spent cannot be told: a bound that is not known is not passed.
        """
        bounds = self._bounds
        tokens = entry.input_token_count + entry.output_token_count
        if bounds.max_model_calls and self._call_count + entry.call_count > bounds.max_model_calls:
            return bounds.spent_reason
        if bounds.max_model_tokens and self._token_count + tokens > bounds.max_model_tokens:
            return bounds.spent_reason
        # Before anything is waited for, so that calls at the same time know of each other.
        self._count(entry, 1)
        is_counted = False
        try:
            async with asyncio.timeout(LEDGER_SECONDS):
                is_counted = await self._usage.reserve(
                    self._tenant_id, entry, max_tokens_per_day=bounds.max_tenant_tokens_per_day
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
        self._bill.model_call_count += spent.call_count
        self._bill.input_token_count += spent.input_token_count
        self._bill.output_token_count += spent.output_token_count
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
