"""Corrective loops: what was found is checked, graded, and searched for again where it is not enough."""

import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from corpusmesh_core.answering.rewriting import rewrite_by_rule
from corpusmesh_core.answering.step_answers import (
    read_grades,
    read_need,
    read_queries,
    read_sufficiency,
    read_verdict,
)
from corpusmesh_core.answering.step_messages import DataBlock
from corpusmesh_core.citation.weights import telling_terms
from corpusmesh_core.errors import DeadlineExceededError, UnavailableError
from corpusmesh_core.ports.chat import ChatDelta, ChatMessage, FinishReason
from corpusmesh_core.ports.index import Candidates
from corpusmesh_core.prompts.rewrite_v1 import REWRITE_V1
from corpusmesh_core.query import CorrectionPlan, QueryVariant, RetrievalPlan, VariantOrigin
from corpusmesh_core.ranking import RankedCandidate, RankingOptions, rank_candidates
from corpusmesh_core.records import RecordKind
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_core.text import Alternative, analyze_query
from corpusmesh_retrieve.asking import ModelSession
from corpusmesh_retrieve.correcting import CorrectionStage
from corpusmesh_retrieve.outcome import PastTurn, SearchOutcome, SearchRequest
from corpusmesh_retrieve.stages import run_stages
from corpusmesh_runtime.context import CallContext
from tests.support.research_library import candidate

QUESTION = "How is the pressure vessel certified?"
POOR = {"menu": "On Mondays the canteen serves soup.", "noise": "The vessel in the harbour is a ship."}
GOOD = {"good": "The pressure vessel is certified by an inspection of the notified body every year."}


class Chat:
    """A model that says one thing after the other."""

    model = "scripted"

    def __init__(self, *says: object) -> None:
        self.says = list(says)
        self.prompts: list[str] = []

    async def stream(self, messages: Sequence[ChatMessage], **_: Any) -> AsyncIterator[ChatDelta]:
        self.prompts.append(messages[0].content)
        say = self.says[min(len(self.prompts), len(self.says)) - 1]
        if isinstance(say, Exception):
            raise say
        yield ChatDelta(json.dumps(say), FinishReason.STOP)


def ranked(texts: dict[str, str], question: str = QUESTION) -> tuple[RankedCandidate, ...]:
    items = tuple(candidate(key, text, telling_terms(question)) for key, text in texts.items())
    return rank_candidates(Candidates(items), analyze_query(question), RankingOptions())


class Further:
    """A searcher that finds the same for all that it is asked."""

    def __init__(self, texts: dict[str, str], question: str = QUESTION) -> None:
        self.texts = texts
        self.question = question
        self.asked: list[list[QueryVariant]] = []

    async def recall_more(
        self, call: CallContext, outcome: SearchOutcome, variants: Sequence[QueryVariant]
    ) -> tuple[RankedCandidate, ...]:
        self.asked.append(list(variants))
        outcome.variants.extend(variants)
        return ranked(self.texts, self.question)


class Web:
    """A web that holds one page."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[tuple[str, str | None]] = []

    async def search(
        self, call: CallContext, query: str, *, max_results: int, asked: str | None = None
    ) -> list[RankedCandidate]:
        self.asked.append((query, asked))
        if self.error is not None:
            raise self.error
        item = ranked({"page": GOOD["good"]})[0]
        record = replace(item.candidate.record, kind=RecordKind.WEB_PAGE, attributes={"url": "https://body.example/"})
        return [replace(item, candidate=replace(item.candidate, record=record))]


def a_call(seconds: float = 60.0) -> CallContext:
    return CallContext(Identity("acme", "ann", Role.VIEWER, Scope.READ), "request-1", time.monotonic() + seconds)


def an_outcome(texts: dict[str, str], chat: Chat | None = None, **correction: Any) -> SearchOutcome:
    plan = RetrievalPlan(correction=CorrectionPlan(**correction))
    session = ModelSession(cast(Any, chat), lambda: np.random.default_rng(1))
    request = SearchRequest(("base",), QUESTION, lambda _: plan, session)
    return SearchOutcome(
        request,
        plan=plan,
        question=QUESTION,
        ranked=ranked(texts),
        terms=analyze_query(QUESTION),
        variants=[QueryVariant(QUESTION, VariantOrigin.QUESTION)],
    )


async def run(outcome: SearchOutcome, further: Further, web: Web | None = None, seconds: float = 60.0) -> None:
    stage = CorrectionStage(web=web)
    stage.attach(further)
    await run_stages([stage], a_call(seconds), outcome)


def kept(outcome: SearchOutcome) -> list[str]:
    return [item.candidate.record.record_id for item in outcome.kept]


async def test_a_model_is_not_given_more_to_read_than_a_prompt_may_hold() -> None:
    for size, is_asked in ((1_000, True), (200_000, False)):
        chat = Chat({"queries": ["other words"]})
        session = ModelSession(cast(Any, chat), lambda: np.random.default_rng(1))
        made = await session.make(
            a_call(),
            REWRITE_V1,
            [DataBlock("question", QUESTION), DataBlock("passage", "x" * size)],
            read=lambda value: read_queries(value, 3),
            otherwise=tuple[str, ...],
            parameters={"count": "3"},
        )
        assert (made.by_model, len(chat.prompts)) == (is_asked, int(is_asked))
        assert ("too long" in made.why_not) is not is_asked


async def test_what_the_plan_does_not_want_does_not_run() -> None:
    outcome, further = an_outcome(POOR), Further(GOOD)
    await run(outcome, further)
    assert (outcome.stages, further.asked, outcome.sufficiency) == ([], [], None)


async def test_without_a_model_the_calibrated_support_decides_and_other_words_are_searched_for() -> None:
    outcome, further = an_outcome(POOR, check_sufficiency=True, correct=True), Further(GOOD)
    await run(outcome, further)
    (variants,) = further.asked
    assert {variant.origin for variant in variants} == {VariantOrigin.REWRITE}
    assert QUESTION not in [variant.text for variant in variants]
    assert kept(outcome)[0] == "good"
    assert outcome.sufficiency is not None
    assert outcome.sufficiency.is_sufficient
    (report,) = outcome.stages
    assert (report.name, report.by_model) == ("correct", False)
    assert "not enough" in report.detail
    assert "1 new hits" in report.detail


async def test_what_is_enough_is_not_searched_for_again() -> None:
    outcome, further = an_outcome({**GOOD, **POOR}, check_sufficiency=True, correct=True), Further(GOOD)
    await run(outcome, further)
    assert further.asked == []
    assert outcome.stages[0].detail.startswith("enough")


async def test_a_check_alone_searches_for_nothing() -> None:
    outcome, further = an_outcome(POOR, check_sufficiency=True), Further(GOOD)
    await run(outcome, further)
    assert further.asked == []
    assert outcome.sufficiency is not None
    assert not outcome.sufficiency.is_sufficient


async def test_the_model_checks_and_what_it_misses_is_searched_for() -> None:
    chat = Chat(
        {"is_sufficient": False, "missing": ["certification of vessels"], "confidence": 0.9},
        {"grades": [{"n": n, "grade": 0.1} for n in (1, 2)]},
        {"is_sufficient": True, "missing": [], "confidence": 0.9},
    )
    outcome, further = an_outcome(POOR, chat, check_sufficiency=True, correct=True), Further(GOOD)
    await run(outcome, further)
    assert [[variant.text for variant in variants] for variants in further.asked] == [["certification of vessels"]]
    assert len(chat.prompts) == 3
    assert outcome.stages[0].by_model
    assert outcome.sufficiency is not None
    assert outcome.sufficiency.is_sufficient


async def test_the_model_grades_and_rewrites_and_hits_of_no_help_are_left_out() -> None:
    chat = Chat(
        {"grades": [{"n": 1, "grade": 0.3}, {"n": 2, "grade": 0.3}]},
        {"queries": ["vessel inspection body", QUESTION]},
        {"grades": [{"n": 1, "grade": 1.0}, {"n": 2, "grade": 0.0}, {"n": 3, "grade": 0.3}]},
    )
    outcome, further = an_outcome(POOR, chat, correct=True), Further(GOOD)
    await run(outcome, further)
    assert [variant.text for variant in further.asked[0]] == ["vessel inspection body"]
    dropped = [item for item in outcome.ranked if item.explanation.dropped_because == "graded_irrelevant"]
    assert len(dropped) == 1
    assert kept(outcome)[0] == "good"
    assert len(outcome.ranked) == 3


async def test_a_hit_of_no_help_does_not_come_back_with_other_words_for_it() -> None:
    chat = Chat(
        {"is_sufficient": False, "missing": ["certification of vessels"], "confidence": 0.9},
        {"grades": [{"n": 1, "grade": 0.6}, {"n": 2, "grade": 0.0}]},
        {"is_sufficient": True, "missing": [], "confidence": 0.9},
    )
    outcome = an_outcome(POOR, chat, check_sufficiency=True, correct=True)
    (unhelpful,) = [item.candidate.record.record_id for item in outcome.kept][1:]
    further = Further({unhelpful: POOR[unhelpful]}, question=POOR[unhelpful])
    await run(outcome, further)
    assert len(further.asked) == 1
    assert unhelpful not in kept(outcome)


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
async def test_there_are_at_most_so_many_rounds(rounds: int) -> None:
    says = {"queries": [f"other words {number}" for number in range(3)]}
    grades = {"grades": [{"n": 1, "grade": 0.0}, {"n": 2, "grade": 0.0}]}
    chat = Chat(*[entry for _ in range(5) for entry in (grades, says)])
    further = Further(POOR)
    await run(an_outcome(POOR, chat, correct=True, max_rounds=rounds), further)
    # A second round has nothing new to search for: the model says the same again.
    assert len(further.asked) == min(rounds, 1)


async def test_the_web_is_asked_where_the_plan_says_so_with_what_the_user_wrote() -> None:
    outcome, web = an_outcome(POOR, correct=True, web=True), Web()
    outcome.request = replace(
        outcome.request, history=(PastTurn(True, "about boilers"), PastTurn(False, "secret text of a document"))
    )
    await run(outcome, Further(POOR), web)
    assert web.asked == [(QUESTION, f"{QUESTION}\nabout boilers")]
    best = outcome.kept[0].candidate.record
    assert (best.kind, best.attributes["url"]) == (RecordKind.WEB_PAGE, "https://body.example/")


@pytest.mark.parametrize(
    ("web", "note"), [(None, "no search engine"), (Web(UnavailableError("WEB", "away")), "could not be searched")]
)
async def test_a_web_that_is_not_there_costs_a_note(web: Web | None, note: str) -> None:
    outcome = an_outcome(POOR, correct=True, web=True)
    await run(outcome, Further(POOR), web)
    assert any(note in entry for entry in outcome.notes)
    assert len(outcome.stages) == 1


async def test_a_plan_without_web_leaves_the_web_alone() -> None:
    web = Web()
    await run(an_outcome(POOR, correct=True), Further(POOR), web)
    assert web.asked == []


@pytest.mark.parametrize(
    "say",
    [
        DeadlineExceededError("CHAT_DEADLINE", "late"),
        {"is_sufficient": "yes"},
        {"grades": []},
        ["DROP TABLE"],
    ],
)
async def test_a_bad_model_costs_its_word_and_not_the_search(say: object) -> None:
    chat = Chat(say)
    outcome, further = an_outcome(POOR, chat, check_sufficiency=True, correct=True), Further(GOOD)
    await run(outcome, further)
    assert not outcome.stages[0].by_model
    assert kept(outcome)[0] == "good"
    if isinstance(say, Exception):
        assert len(chat.prompts) == 1


async def test_progress_is_told() -> None:
    told: list[str] = []
    outcome = an_outcome(POOR, correct=True, web=True)
    outcome.request = replace(outcome.request, notify=lambda stage, _: told.append(stage))
    await run(outcome, Further(GOOD), Web())
    assert told == ["check", "correct", "web", "check"]


async def test_nothing_found_is_not_enough_and_no_model_is_asked_about_it() -> None:
    chat = Chat({"queries": ["boiler inspection"]})
    outcome, further = an_outcome({}, chat, check_sufficiency=True, correct=True), Further({})
    await run(outcome, further)
    assert outcome.sufficiency is not None
    assert not outcome.sufficiency.is_sufficient
    assert len(chat.prompts) == 1


def test_a_rewrite_by_rule_shows_no_word_that_was_looked_up_among_all_records() -> None:
    question = "Who leads Quilfeather in Velm?"
    own = Alternative(("lead",), ("head",))
    looked_up = Alternative(analyze_query("quilfeather").fine, ("quillfeath",), is_secret=True)
    terms = replace(analyze_query(question), alternatives=(own, looked_up))
    queries = rewrite_by_rule(question, terms, (), count=8)
    assert any("head" in query for query in queries)
    assert not any("quillfeath" in query for query in queries)


def test_a_rewrite_by_rule_searches_first_for_what_is_missing() -> None:
    question = "How is the pressure vessel certified?"
    terms = replace(analyze_query(question), alternatives=(Alternative(telling(question, "vessel"), ("tank",)),))
    queries = rewrite_by_rule(question, terms, telling(question, "pressure"), count=3)
    assert queries == ("vessel certified", "pressure certified tank", "pressure vessel certified")
    assert rewrite_by_rule(question, terms, (), count=1) == queries[1:2]
    assert "vessel certified" not in rewrite_by_rule(
        question, terms, telling(question, "pressure"), count=3, known=["Vessel  certified?"]
    )
    assert rewrite_by_rule("???", analyze_query("???"), (), count=3) == ()


def telling(question: str, *words: str) -> tuple[str, ...]:
    return tuple(term for word in words for term in telling_terms(word) if term in telling_terms(question))


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"is_sufficient": 1, "missing": [], "confidence": 0.5},
        {"is_sufficient": True, "missing": [], "confidence": 2},
        {"is_sufficient": True, "missing": [], "confidence": True},
        {"is_sufficient": False, "missing": [3], "confidence": 0.5},
        {"is_sufficient": False, "confidence": 0.5},
        {"grades": [{"n": 1, "grade": 0.5}]},
        {"grades": [{"n": 1, "grade": 0.5}, {"n": "2", "grade": 0.5}]},
        {"grades": [{"n": 1, "grade": 0.5}, {"n": 2, "grade": float("nan")}]},
        {"queries": ["", " "]},
        {"needs_documents": "no"},
        {"statements": [{"n": 1, "support": 1}, {"n": 2, "support": -1}], "useful": 1},
        {"statements": [{"n": 1, "support": 1}, {"n": 2, "support": 1}]},
    ],
)
def test_an_answer_of_another_form_is_none(value: object) -> None:
    assert read_sufficiency(value) is None
    assert read_grades(value, 2) is None
    assert read_queries(value, 3) is None
    assert read_need(value) is None
    assert read_verdict(value, 2) is None
