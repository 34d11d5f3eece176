"""A language model that does not answer: what it costs one tree, and what it costs all trees of a process."""

import asyncio

import numpy as np

from corpusmesh_core.trees.settings import SummaryMethod, TreeSettings
from corpusmesh_core.trees.values import Summary, TreeCost
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.summarizing import Summarizer
from corpusmesh_runtime.model_calls.rest import LOST_IN_A_ROW, ModelRest
from tests.support.tree_summaries import COUNTER, FlakyChat, MemoryUsage, engine_cluster


class Bench:
    """A summarizer with a clock that is set by hand."""

    def __init__(self, calls_in_flight: int = 1) -> None:
        self.now = 0.0
        self.chat = FlakyChat()
        self.usage = MemoryUsage()
        self.summarizer = Summarizer(
            self.chat,
            None,
            self.usage,
            COUNTER,
            RaptorSettings(model_calls_in_flight=calls_in_flight, model_rest_seconds=60.0),
            make_rng=lambda: np.random.default_rng(1),
            clock=lambda: self.now,
        )

    async def tree(self, count: int = 10, *, max_errors: int = 3) -> tuple[list[Summary], TreeCost]:
        cost = TreeCost()
        settings = TreeSettings(summaries=SummaryMethod.LLM, max_errors=max_errors)
        session = self.summarizer.open(tenant_id="t", run_id="r", settings=settings, cost=cost)
        return await session.summarize([engine_cluster(0)] * count, timeout_seconds=30), cost


async def test_a_dead_service_costs_a_tree_the_failures_that_it_allows_and_what_is_under_way() -> None:
    bench = Bench(calls_in_flight=4)
    summaries, cost = await bench.tree(20, max_errors=3)
    assert 3 <= bench.chat.calls <= 3 + 4
    assert cost.model_call_count == bench.chat.calls == bench.usage.calls
    assert cost.stepped_down_reason == "MODEL_UNREACHABLE"
    assert len(summaries) == 20


async def test_a_thousand_trees_do_not_each_find_out_that_the_service_is_away() -> None:
    bench = Bench()
    costs = [(await bench.tree(1))[1] for _ in range(1000)]
    assert bench.chat.calls == LOST_IN_A_ROW
    assert {cost.stepped_down_reason for cost in costs[LOST_IN_A_ROW:]} == {"MODEL_UNREACHABLE"}
    assert sum(cost.model_call_count for cost in costs) == LOST_IN_A_ROW


async def test_what_is_not_asked_for_says_that_the_service_is_unreachable() -> None:
    bench = Bench()
    for _ in range(2):
        await bench.tree()
    summaries, cost = await bench.tree()
    assert {summary.fallback for summary in summaries} == {"unreachable"}
    assert (cost.model_call_count, cost.failed_call_count, cost.extractive_node_count) == (0, 0, 10)


async def test_after_the_rest_one_call_tries_and_an_answer_ends_it() -> None:
    bench = Bench(calls_in_flight=4)
    for _ in range(2):
        await bench.tree()
    asked = bench.chat.calls
    bench.now = 61.0
    await asyncio.gather(*(bench.tree() for _ in range(5)))
    assert bench.chat.calls == asked + 1
    bench.now = 122.0
    bench.chat.is_away = False
    await bench.tree(1)
    summaries, cost = await bench.tree()
    assert {summary.method for summary in summaries} == {SummaryMethod.LLM}
    assert cost.stepped_down_reason == ""


async def test_a_service_that_answers_badly_is_not_away() -> None:
    bench = Bench()
    bench.chat.is_away, bench.chat.text = False, "I'm sorry, but I cannot help with that."
    for _ in range(4):
        await bench.tree(max_errors=2)
    assert bench.chat.calls == 8


def lose(rest: ModelRest, count: int) -> None:
    for _ in range(count):
        with rest.attempt() as attempt:
            assert attempt is not None
            attempt.is_answered = False


def test_an_answer_in_between_begins_the_count_anew() -> None:
    rest = ModelRest(60.0, lambda: 0.0)
    lose(rest, LOST_IN_A_ROW - 1)
    with rest.attempt() as attempt:
        assert attempt is not None
        attempt.is_answered = True
    lose(rest, LOST_IN_A_ROW)
    with rest.attempt() as attempt:
        assert attempt is None


def test_a_try_that_tells_nothing_leaves_the_next_one_free() -> None:
    now = 0.0
    rest = ModelRest(60.0, lambda: now)
    lose(rest, LOST_IN_A_ROW)
    now = 61.0
    for _ in range(2):
        with rest.attempt() as attempt:
            assert attempt is not None
            with rest.attempt() as other:
                assert other is None


def test_without_a_rest_the_service_is_asked_whatever_happens() -> None:
    lose(ModelRest(0.0, lambda: 0.0), 3 * LOST_IN_A_ROW)
