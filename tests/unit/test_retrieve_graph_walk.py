"""The default graph mode: a walk leads to passages that nobody had found, shows nothing hidden, and costs nothing where
there is no graph."""

from typing import Any

import numpy as np
import pytest

from corpusmesh_core.errors import DeadlineExceededError, UnavailableError
from corpusmesh_core.query import AssemblyPlan, GraphMode, GraphPlan, RetrievalPlan
from corpusmesh_retrieve.asking import ModelSession
from corpusmesh_retrieve.hopping import HopStage
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest, StageReport, StageState
from tests.support.graph_bench import SEEN, GraphBench, chunks_of, ids_of, report_of

_WALK = "graph_walk"
_QUESTION = "Who was the teacher of Euler?"


async def _search(bench: GraphBench, *, window: int = 1, mode: GraphMode = GraphMode.PAGE_RANK) -> SearchOutcome:
    plan = RetrievalPlan(graph=GraphPlan(mode=mode), window=window, page_size=10)
    session = ModelSession(None, lambda: np.random.default_rng(1))
    request = SearchRequest(("kb",), _QUESTION, lambda _: plan, session=session)
    return await bench._searcher.search(bench.call, request)


def _walks(outcome: SearchOutcome) -> list[StageReport]:
    return [report for report in outcome.stages if report.name == _WALK]


async def test_a_walk_leads_to_passages_that_the_search_had_not_found() -> None:
    bench = GraphBench()
    without = await _search(bench, mode=GraphMode.OFF)
    trips = bench.index.trip_count
    outcome = await _search(bench)
    assert set(chunks_of(without)) < set(chunks_of(outcome))
    assert report_of(outcome, _WALK).state is StageState.RAN
    assert not report_of(outcome, _WALK).by_model
    assert bench.index.trip_count - 2 * trips <= 2, "one round trip for each round"
    assert ids_of(outcome)[0] == "2-0"


async def test_the_path_tells_what_was_named_and_where_the_walk_came_by() -> None:
    outcome = await _search(GraphBench())
    seeds = [step for step in outcome.graph_path if step.outcome == "seed"]
    assert [step.label for step in seeds] == ["Euler"]
    walked = {step.name for step in outcome.graph_path if step.reason == "walk"}
    assert walked
    assert walked <= {item.candidate.record.record_id for item in outcome.ranked}


async def test_what_is_hidden_leads_nowhere_and_is_not_led_to() -> None:
    for visible in (SEEN, (2, 4), (1, 3)):
        outcome = await _search(GraphBench(visible=visible), window=2)
        shown = {item.candidate.record.record_id for item in outcome.ranked}
        assert shown <= {f"{number}-0" for number in visible}
        assert "Hidden Press" not in f"{outcome.graph_path}{outcome.stages}"


async def test_where_no_knowledge_base_has_a_graph_nothing_is_asked_and_nothing_told() -> None:
    bench = GraphBench(graphs=())
    outcome = await _search(bench)
    assert bench.views.asked == []
    assert not _walks(outcome)
    off = GraphBench()
    assert not _walks(await _search(off, mode=GraphMode.OFF))
    assert off.views.asked == []


@pytest.mark.parametrize("error", [DeadlineExceededError, UnavailableError])
async def test_a_graph_that_is_not_ready_leaves_the_search_as_it_is(error: type[Exception]) -> None:
    bench = GraphBench()
    expected = ids_of(await _search(bench, mode=GraphMode.OFF))

    async def broken(*_: Any, **__: Any) -> None:
        raise error("GRAPH_NOT_READY", "not now")

    bench.views.view = broken  # type: ignore[method-assign, assignment]
    outcome = await _search(bench)
    assert ids_of(outcome) == expected
    assert report_of(outcome, _WALK).state is StageState.FAILED
    assert _WALK in outcome.unreachable


async def test_passages_that_cannot_be_read_leave_the_search_as_it_is() -> None:
    bench = GraphBench()
    expected = ids_of(await _search(bench, mode=GraphMode.OFF))
    original, count = bench.index.search, 0

    async def second_fails(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if count > 1:
            raise UnavailableError("INDEX_DOWN", "the index does not answer")
        return await original(*args, **kwargs)

    bench.index.search = second_fails  # type: ignore[method-assign]
    outcome = await _search(bench)
    assert ids_of(outcome) == expected
    assert not outcome.graph_path
    assert report_of(outcome, _WALK).state is StageState.FAILED


async def test_names_are_not_followed_twice() -> None:
    outcome = await _search(GraphBench())
    hops = HopStage(None)  # type: ignore[arg-type]
    for count, expected in ((0, False), (1, False), (2, True)):
        outcome.plan = RetrievalPlan(assembly=AssemblyPlan(hops=count))
        assert hops.is_wanted(outcome) is expected
    outcome.stages = []
    outcome.plan = RetrievalPlan(assembly=AssemblyPlan(hops=1))
    assert hops.is_wanted(outcome)
