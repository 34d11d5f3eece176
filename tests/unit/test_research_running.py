"""A research as a whole: what is searched, what ends it, and that it always ends with what was found."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from corpusmesh_core.errors import DeadlineExceededError, UnavailableError
from corpusmesh_core.query import RetrievalPlan, UnderstandingPlan
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.research.budget import ResearchBudget, share_budget
from corpusmesh_core.research.tree import QuestionState
from corpusmesh_core.tenancy import FilterCondition, FilterOperator, Identity, Role, Scope
from corpusmesh_retrieve.asking import ModelBudget
from corpusmesh_retrieve.outcome import PastTurn, SearchOutcome, SearchRequest
from corpusmesh_retrieve.researching.running import Research, ResearchPlan
from corpusmesh_retrieve.researching.sources import KnowledgeBaseSource, ResearchSource, planned_for_research
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_runtime.context import CallContext
from tests.support.research_library import Library, ScriptedModel, session

TEXTS = {
    "falcon-price": "The Falcon scooter: its price is 900 euros with a battery.",
    "falcon-range": "The Falcon scooter: its range is 60 kilometres on one charge.",
    "heron-price": "The Heron scooter: its price is 1200 euros without a battery.",
    "heron-range": "The Heron scooter: its range is 110 kilometres on one charge.",
    "menu": "On Mondays the canteen serves soup.",
}
COMPARE = "Compare the Falcon and the Heron in price and range"


def call(seconds: float = 60.0) -> CallContext:
    return CallContext(Identity("acme", "ann", Role.VIEWER, Scope.READ), "request-1", time.monotonic() + seconds)


def research(
    library: Library,
    question: str = COMPARE,
    *,
    model: ScriptedModel | None = None,
    budget: ResearchBudget | None = None,
    sources: tuple[ResearchSource, ...] = (),
    **changes: Any,
) -> Research:
    bounds = budget or ResearchBudget()
    shares = share_budget(
        bounds, evidence_tokens=4000, answer_tokens=500, answer_seconds=10, with_model=model is not None
    )
    steps = ModelBudget(shares.step_calls, shares.step_tokens, call_timeout_seconds=0.5)
    request = SearchRequest(
        knowledge_base_ids=("base",),
        query=question,
        make_plan=planned_for_research(lambda _: RetrievalPlan(page_size=8)),
        session=session(model, steps),
        **changes,
    )
    source = KnowledgeBaseSource(cast(Searcher, library), request)
    return Research(ResearchPlan(request, bounds, shares), source, sources)


def states(run: Research) -> dict[str, QuestionState]:
    return {node.node_id: node.state for node in run.tree.nodes}


def found_ids(outcome: SearchOutcome) -> set[str]:
    return {item.candidate.record.record_id for item in outcome.kept}


async def told(run: Research) -> list[tuple[str, QuestionState]]:
    events: list[tuple[str, QuestionState]] = []
    while (node := run.events.get_nowait()) is not None:
        events.append((node.node_id, node.state))
    return events


def asks(questions: dict[str, list[str]]) -> Callable[[dict[str, str]], object]:
    return lambda blocks: {"questions": questions.get(blocks.get("question", blocks["original question"]), [])}


async def test_without_a_model_a_comparison_is_taken_into_its_parts_and_answered() -> None:
    library = Library({**TEXTS, "falcon-price": TEXTS["falcon-range"], "heron-price": TEXTS["heron-range"]})
    run = research(library)
    await run.explore(call())
    assert library.queries[1:] == ["Falcon price", "Heron price"], "what is there is not asked for again"
    assert states(run)["1"] is QuestionState.DECOMPOSED
    assert [node.text for node in run.tree.open_questions()] == ["Falcon price", "Heron price"]


async def test_enough_evidence_ends_it_after_one_search() -> None:
    library = Library(TEXTS)
    run = research(library, "What is the range of the Heron scooter on one charge?")
    outcome = await run.explore(call())
    assert len(library.requests) == 1
    assert states(run) == {"1": QuestionState.SUFFICIENT}
    assert "heron-range" in found_ids(outcome)
    assert not run.spent
    assert await told(run) == [
        ("1", QuestionState.SEARCHING),
        ("1", QuestionState.FOUND),
        ("1", QuestionState.SUFFICIENT),
    ]


async def test_a_model_that_answers_well_steers_the_tree() -> None:
    model = ScriptedModel(
        {
            "sufficiency": lambda blocks: {
                "sufficient": "price" in blocks["question"],
                "missing": ["the price of the Heron"],
            },
            "questions": asks({"Which scooter is cheaper?": ["Falcon price", "Heron price", "price of the heron"]}),
        }
    )
    library = Library(TEXTS)
    run = research(library, "Which scooter is cheaper?", model=model)
    outcome = await run.explore(call())
    assert library.queries == ["Which scooter is cheaper?", "Falcon price", "Heron price"], "the same terms once"
    assert states(run) == {
        "1": QuestionState.DECOMPOSED,
        "1.1": QuestionState.SUFFICIENT,
        "1.2": QuestionState.SUFFICIENT,
    }
    assert all(node.by_model for node in run.tree.nodes)
    assert run.tree.node("1").missing == ("the price of the Heron",)
    assert {"falcon-price", "heron-price"} <= found_ids(outcome)
    assert sorted(model.calls) == ["questions", "sufficiency", "sufficiency", "sufficiency"]


async def test_evidence_that_several_questions_find_comes_once_and_every_question_has_its_best_first() -> None:
    run = research(
        Library(TEXTS),
        "Tell me about scooters: Falcon price? Heron range?",
        model=ScriptedModel(
            {
                "sufficiency": lambda blocks: {"sufficient": len(blocks["question"]) < 20, "missing": []},
                "questions": lambda _: {"questions": ["Falcon price", "Heron range"]},
            }
        ),
    )
    outcome = await run.explore(call())
    ids = [item.candidate.record.record_id for item in outcome.kept]
    assert len(ids) == len(set(ids))
    assert {"falcon-price", "heron-range"} <= set(ids[:3])
    second = run.tree.node("1.2")
    assert second.found_count > second.new_count == 0


@pytest.mark.parametrize(
    "says",
    ["no JSON at all", {"sufficient": "yes"}, {"sufficient": False, "missing": "x"}, {"questions": 3}, []],
    ids=["text", "wrong type", "no list", "other step", "empty"],
)
async def test_a_model_that_answers_badly_is_replaced_by_rules(says: object) -> None:
    model = ScriptedModel({"sufficiency": lambda _: says, "questions": lambda _: says})
    library = Library(TEXTS)
    run = research(library, "What is the range of the Heron scooter on one charge?", model=model)
    await run.explore(call())
    assert states(run) == {"1": QuestionState.SUFFICIENT}
    assert not run.tree.root.by_model
    assert model.calls == ["sufficiency", "sufficiency"], "asked once more, then no further"


async def test_a_model_that_never_answers_costs_one_deadline_for_the_whole_research() -> None:
    model = ScriptedModel({})
    library = Library({**TEXTS, "falcon-price": "-"})
    run = research(library, model=model)
    await run.explore(call())
    assert len(model.calls) == 1
    assert len(library.requests) > 1, "the rules went on"


async def test_a_document_cannot_make_the_model_ask_without_end() -> None:
    counter = iter(range(1000))
    model = ScriptedModel(
        {
            "sufficiency": lambda _: {"sufficient": False, "missing": ["more"]},
            "questions": lambda _: {"questions": [f"secret number {next(counter)} of the canteen" for _ in range(50)]},
        }
    )
    library = Library(TEXTS)
    budget = ResearchBudget(max_questions=9, max_children=3)
    run = research(library, model=model, budget=budget)
    await run.explore(call())
    assert len(library.requests) == 9
    assert "questions" in run.spent
    assert max(node.level for node in run.tree.nodes) <= 3


async def test_levels_of_questions_are_bounded() -> None:
    counter = iter(range(1000))
    model = ScriptedModel(
        {
            "sufficiency": lambda _: {"sufficient": False, "missing": []},
            "questions": lambda _: {"questions": [f"number {next(counter)}"]},
        }
    )
    library = Library(TEXTS)
    run = research(library, model=model, budget=ResearchBudget(max_depth=3))
    await run.explore(call())
    assert [node.node_id for node in run.tree.nodes] == ["1", "1.1", "1.1.1"]
    assert "levels of questions" in run.spent


async def test_calls_are_bounded_and_one_is_kept_for_the_answer() -> None:
    counter = iter(range(1000))
    model = ScriptedModel(
        {
            "sufficiency": lambda _: {"sufficient": False, "missing": []},
            "questions": lambda _: {"questions": [f"number {next(counter)}", f"number {next(counter)}"]},
        }
    )
    run = research(Library(TEXTS), model=model, budget=ResearchBudget(max_calls=4))
    await run.explore(call())
    assert len(model.calls) == 3
    assert "calls or tokens of the language model" in run.spent


async def test_no_more_questions_than_allowed_are_worked_on_at_once() -> None:
    model = ScriptedModel(
        {
            "sufficiency": lambda blocks: {"sufficient": "number" in blocks["question"], "missing": []},
            "questions": lambda _: {"questions": [f"number {place} of the scooter" for place in range(8)]},
        }
    )
    library = Library(TEXTS, delay_of=lambda _: 0.01)
    budget = ResearchBudget(max_children=8, max_concurrency=3)
    await research(library, model=model, budget=budget).explore(call())
    assert len(library.requests) == 9
    assert library.most_at_once == 3


async def test_the_end_of_the_time_ends_all_questions_and_keeps_what_was_found() -> None:
    model = ScriptedModel(
        {
            "sufficiency": lambda _: {"sufficient": False, "missing": []},
            "questions": lambda _: {"questions": ["Falcon price", "Heron price"]},
        }
    )
    library = Library(TEXTS, delay_of=lambda query: 0.0 if query == COMPARE else 30.0)
    run = research(library, model=model)
    outcome = await run.explore(call(seconds=1.5))
    assert list(run.spent) == ["seconds"]
    assert library.cancelled_count == 2
    assert states(run) == {
        "1": QuestionState.DECOMPOSED,
        "1.1": QuestionState.STOPPED,
        "1.2": QuestionState.STOPPED,
    }
    assert found_ids(outcome), "what the first search found is there"
    assert (await told(run))[-1][1] is QuestionState.SEARCHING


async def test_not_even_one_search_in_time_is_an_empty_outcome_and_no_error() -> None:
    run = research(Library(TEXTS, delay_of=lambda _: 30.0))
    outcome = await run.explore(call(seconds=0.5))
    assert outcome.kept == ()
    assert outcome.question == COMPARE
    assert list(run.spent) == ["seconds"]


async def test_a_caller_without_time_gets_the_error() -> None:
    run = research(Library(TEXTS))
    with pytest.raises(DeadlineExceededError):
        await run.explore(call(seconds=-1.0))
    assert run.events.get_nowait() is None, "whoever follows the events is not left waiting"


async def test_cancelling_ends_every_search_and_call_at_once() -> None:
    model = ScriptedModel(
        {
            "sufficiency": lambda _: {"sufficient": False, "missing": []},
            "questions": lambda _: {"questions": ["Falcon price", "Heron price", "Heron range"]},
        }
    )
    library = Library(TEXTS, delay_of=lambda query: 0.0 if query == COMPARE else 30.0, busy_count=3)
    task = asyncio.create_task(research(library, model=model).explore(call()))
    await asyncio.wait_for(library.busy.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (library.at_once, library.cancelled_count) == (0, 3)


async def test_the_first_search_that_fails_is_an_error_and_a_later_one_is_not() -> None:
    with pytest.raises(UnavailableError):
        await research(Library(TEXTS, broken_words=("Compare",))).explore(call())
    library = Library({**TEXTS, "falcon-price": "-", "heron-price": "-"}, broken_words=("Falcon price",))
    run = research(library)
    outcome = await run.explore(call())
    assert run.tree.node("1.1").detail.startswith("knowledge bases did not answer")
    assert "knowledge bases" in outcome.unreachable
    assert run.tree.node("1.2").found_count


async def test_all_searches_see_the_snapshots_and_conditions_of_the_first() -> None:
    year = FilterCondition(key="year", operator=FilterOperator.EQUALS, texts=("2024",))
    texts = {**TEXTS, "falcon-price": "-", "heron-price": "-"}
    library = Library(texts, inferred=(year,), snapshots={"base": 7, "empty": 0})
    await research(library, history=(PastTurn(True, "hello"),)).explore(call())
    first, *others = library.requests
    assert (first.snapshots, first.metadata.conditions) == ({}, ())
    assert len(others) == 2
    for request in others:
        assert request.snapshots == {"base": 7, "empty": 0}
        assert request.knowledge_base_ids == ("base", "empty")
        assert request.metadata.conditions == (year,)
        assert request.history == ()
        plan = request.make_plan([{}])
        assert plan.understanding == UnderstandingPlan(refine=False, metadata_filter=False)


class OtherSource:
    """A further source that finds one thing, or falls silent."""

    name = "other"

    def __init__(self, found: list[RankedCandidate] | None) -> None:
        self.found = found
        self.questions: list[str] = []

    async def search(self, call_: CallContext, question: str) -> list[RankedCandidate]:
        self.questions.append(question)
        if self.found is None:
            raise UnavailableError("OTHER_UNAVAILABLE", "the other source does not answer")
        return self.found


async def test_further_sources_are_asked_with_each_question_and_may_fall_silent() -> None:
    outcome = await Library({"extra": "An extra text about a scooter."}).search(
        call(), research(Library({}), "scooter")._plan.request
    )
    talking, silent = OtherSource(list(outcome.kept)), OtherSource(None)
    run = research(Library({**TEXTS, "falcon-price": "-", "heron-price": "-"}), sources=(talking, silent))
    result = await run.explore(call())
    assert "extra" in found_ids(result)
    assert talking.questions == silent.questions == [COMPARE, "Falcon price", "Heron price"]
    assert run.tree.root.detail == "other did not answer"
