"""What a language model's service says of its cost: believed as far as it can be true."""

import json
from collections.abc import AsyncGenerator, Sequence

import numpy as np
import pytest

from corpusmesh_adapters.chat.sse import parse_event
from corpusmesh_core.ports.chat import ChatDelta, ChatMessage, ChatUsage, FinishReason
from corpusmesh_core.trees.settings import SummaryMethod, TreeSettings
from corpusmesh_core.trees.values import TreeCost
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.summarizing import Summarizer
from tests.support.tree_summaries import COUNTER, MemoryUsage, engine_cluster, good_summary


class TellingChat:
    """Writes well, and says of each call what it is told to say."""

    model = "liar"

    def __init__(self, usage: ChatUsage) -> None:
        self.usage = usage
        self.calls = 0

    async def stream(
        self, messages: Sequence[ChatMessage], *, max_token_count: int, timeout_seconds: float, temperature: float = 0.0
    ) -> AsyncGenerator[ChatDelta, None]:
        number = self.calls
        self.calls += 1
        yield ChatDelta(good_summary(number), FinishReason.STOP)
        yield ChatDelta("", None, self.usage)


@pytest.mark.parametrize(("prompt", "completion"), [(-1_000_000, 5), (5, -1), (10**30, 5), (5, 2**63)])
def test_figures_that_no_call_has_are_none(prompt: int, completion: int) -> None:
    event = {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}
    assert parse_event(json.dumps(event)).usage is None


def test_figures_that_a_call_may_have_are_told() -> None:
    event = {"choices": [], "usage": {"prompt_tokens": 1200, "completion_tokens": 0}}
    assert parse_event(json.dumps(event)).usage == ChatUsage(1200, 0)


async def test_a_service_that_says_that_it_read_nothing_does_not_lift_the_bound_of_a_build() -> None:
    chat, usage, cost = TellingChat(ChatUsage(0, 0)), MemoryUsage(), TreeCost()
    summarizer = Summarizer(
        chat, None, usage, COUNTER, RaptorSettings(model_calls_in_flight=1), make_rng=lambda: np.random.default_rng(1)
    )
    settings = TreeSettings(summaries=SummaryMethod.LLM, max_model_tokens=2_000)
    session = summarizer.open(tenant_id="t", run_id="r", settings=settings, cost=cost)
    await session.summarize([engine_cluster(number) for number in range(60)], timeout_seconds=30)
    assert cost.stepped_down_reason == "TREE_BUDGET_SPENT"
    assert 0 < chat.calls < 40
    assert usage.tokens == cost.input_token_count + cost.output_token_count > 0


async def test_a_service_that_counts_as_we_do_is_believed() -> None:
    chat, cost = TellingChat(ChatUsage(300, 40)), TreeCost()
    summarizer = Summarizer(chat, None, MemoryUsage(), COUNTER, RaptorSettings())
    session = summarizer.open(tenant_id="t", run_id="r", settings=TreeSettings(summaries=SummaryMethod.LLM), cost=cost)
    await session.summarize([engine_cluster(0)], timeout_seconds=30)
    assert (cost.input_token_count, cost.output_token_count) == (300, 40)
