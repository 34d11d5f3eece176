"""Port of what language models have cost a tenant, and of what they may still cost it today."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class UsageEntry:
    """What some calls cost.

    Attributes:
        model: Model that was asked.
        purpose: What for, such as "tree".
        run_id: Run in whose name; "" for none.
        call_count: Calls.
        input_token_count: Tokens sent.
        output_token_count: Tokens received.
    """

    model: str
    purpose: str
    run_id: str
    call_count: int
    input_token_count: int
    output_token_count: int


class UsageLedger(Protocol):
    """Usage by tenant and day (UTC). Every method raises `UnavailableError` where the store does not answer."""

    async def reserve(self, tenant_id: str, entry: UsageEntry, *, max_tokens_per_day: int) -> bool:
        """Count calls before they are made, if the tenant's day has room for them; whoever asks at once, asks in turn.

        Args:
            tenant_id: Tenant.
            entry: What the calls may cost at most.
            max_tokens_per_day: Most tokens of the tenant's day, of all purposes; 0 for no bound.

        Returns:
            Whether they are counted; False if they would pass the bound.
        """
        ...

    async def settle(self, tenant_id: str, reserved: UsageEntry, spent: UsageEntry) -> None:
        """Put what calls did cost in place of what was reserved for them.

        Args:
            tenant_id: Tenant.
            reserved: As it was reserved.
            spent: What they cost; the same model, purpose and run.
        """
        ...

    async def spent_by_run(self, tenant_id: str, purpose: str, run_id: str) -> tuple[int, int, int]:
        """Tell what the calls of a run have cost so far, on all days and of all models, reserved ones included.

        Args:
            tenant_id: Tenant.
            purpose: What for.
            run_id: The run.

        Returns:
            Calls, tokens sent and tokens received.
        """
        ...

    async def spent_today(self, tenant_id: str) -> int:
        """Tell how many tokens the tenant's day has cost so far, reserved ones included.

        Args:
            tenant_id: Tenant.

        Returns:
            Tokens, sent and received.
        """
        ...
