"""What a build has spent before a slice of it begins, and what of that binds the slice."""

import asyncio

import pytest

from corpusmesh_core.bills import with_lost_spending
from corpusmesh_core.errors import UnavailableError
from corpusmesh_core.ports.usage import UsageEntry
from corpusmesh_core.trees.settings import SummaryMethod, TreeSettings
from corpusmesh_core.trees.values import TreeCost
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.dataset.finishing import binding
from corpusmesh_raptor.summarizing import Summarizer
from corpusmesh_raptor.summarizing.calls import PURPOSE
from corpusmesh_runtime.model_calls import desk
from tests.support.tree_summaries import COUNTER, FlakyChat, MemoryUsage, engine_cluster

ASKS = TreeSettings(summaries=SummaryMethod.LLM, max_model_calls=5)


class SlowUsage(MemoryUsage):
    """Never tells."""

    async def spent_by_run(self, tenant_id: str, purpose: str, run_id: str) -> tuple[int, int, int]:
        await asyncio.Event().wait()
        raise AssertionError


async def test_what_an_attempt_was_charged_that_died_within_a_slice_counts_for_the_next() -> None:
    usage = MemoryUsage()
    for _ in range(4):
        await usage.reserve("t", UsageEntry("stub", PURPOSE, "r", 1, 90, 10), max_tokens_per_day=0)
    await usage.reserve("t", UsageEntry("stub", PURPOSE, "another", 1, 90, 10), max_tokens_per_day=0)
    chat, cost = FlakyChat(), TreeCost()
    summaries = Summarizer(chat, None, usage, COUNTER, RaptorSettings(model_calls_in_flight=1))
    charged = await summaries.spent("t", "r", ASKS)
    spent = with_lost_spending(TreeCost(model_call_count=1, input_token_count=20), charged)
    assert (spent.model_call_count, spent.input_token_count, spent.output_token_count) == (4, 360, 40)
    session = summaries.open(tenant_id="t", run_id="r", settings=ASKS, cost=cost, spent=spent)
    await session.summarize([engine_cluster(number) for number in range(3)], timeout_seconds=30)
    assert chat.calls == 1
    assert cost.stepped_down_reason == "TREE_BUDGET_SPENT"


async def test_a_build_that_asks_no_model_asks_no_ledger() -> None:
    without = Summarizer(None, None, SlowUsage(), COUNTER, RaptorSettings())
    assert await without.spent("t", "r", ASKS) == TreeCost()
    lite = Summarizer(FlakyChat(), None, SlowUsage(), COUNTER, RaptorSettings())
    assert await lite.spent("t", "r", TreeSettings()) == TreeCost()


async def test_a_ledger_that_does_not_tell_ends_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "LEDGER_SECONDS", 0.01)
    with pytest.raises(UnavailableError):
        await Summarizer(FlakyChat(), None, SlowUsage(), COUNTER, RaptorSettings()).spent("t", "r", ASKS)


@pytest.mark.parametrize(
    ("reason", "failed", "left"),
    [
        ("TREE_BUDGET_SPENT", 0, "TREE_BUDGET_SPENT"),
        ("MODEL_MISCONFIGURED", 1, "MODEL_MISCONFIGURED"),
        ("MODEL_UNREACHABLE", 3, "MODEL_UNREACHABLE"),
        ("MODEL_UNREACHABLE", 2, ""),
        ("TREE_TIME_SPENT", 2, ""),
        ("", 2, ""),
    ],
)
def test_what_was_no_fault_of_the_build_does_not_bind_its_next_slice(reason: str, failed: int, left: str) -> None:
    spent = TreeCost(model_call_count=7, failed_call_count=failed, stepped_down_reason=reason)
    found = binding(spent, ASKS)
    assert found.stepped_down_reason == left
    assert found.model_call_count == 7
