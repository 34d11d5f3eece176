"""Searches by communities of a graph: what each mode looks up and costs, who sees what, with and without a model."""

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.answering import candidate_sentences
from corpusmesh_core.citation import Statement
from corpusmesh_core.errors import UnavailableError
from corpusmesh_core.graph_search.drift import ROUNDS
from corpusmesh_core.graphs.keys import entity_key
from corpusmesh_core.graphs.records import report_record
from corpusmesh_core.graphs.values import Community, CommunityReport
from corpusmesh_core.ports.chat import ChatDelta
from corpusmesh_core.prompts.graph_search_follow_up_v1 import GRAPH_SEARCH_FOLLOW_UP_V1
from corpusmesh_core.prompts.graph_search_map_v1 import GRAPH_SEARCH_MAP_V1
from corpusmesh_core.prompts.graph_search_primer_v1 import GRAPH_SEARCH_PRIMER_V1
from corpusmesh_core.prompts.graph_search_rate_v1 import GRAPH_SEARCH_RATE_V1
from corpusmesh_core.query import ChunkPick, GraphMode
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.token_estimate import estimate_tokens
from corpusmesh_retrieve.answering.citing import citations_to_wire
from corpusmesh_retrieve.answering.evidence import evidence_of
from corpusmesh_retrieve.answering.values import AnswerResult
from corpusmesh_retrieve.convert import hit_to_wire
from corpusmesh_retrieve.explaining import explanation_to_wire
from corpusmesh_retrieve.graphs.drift import MAX_CALLS
from corpusmesh_retrieve.graphs.stage import GraphTableStage
from corpusmesh_retrieve.outcome import SearchOutcome
from corpusmesh_runtime.context import CallContext
from tests.support.graph_bench import GraphBench, chunks_of, ids_of, labels_of, report_of
from tests.support.graph_shelf import Document, GraphShelf
from tests.support.step_chat import Answer, Late, StepChat
from tests.support.tree_index import chunk

_MODES = (GraphMode.COMMUNITY_LOCAL, GraphMode.COMMUNITY_GLOBAL, GraphMode.DRIFT)
_MAX_TRIPS = {GraphMode.COMMUNITY_LOCAL: 6, GraphMode.COMMUNITY_GLOBAL: 4, GraphMode.DRIFT: 8}
_FAMILY = ("Euler", "Johann Bernoulli", "Daniel Bernoulli")
_POINTS = {
    "points": [
        {"text": "Daniel founded the mechanics of fluids.", "score": 90, "report": 2},
        {"text": "Johann taught Euler.", "score": 70, "report": "[1]"},
        {"text": "Nobody reported this.", "score": 99, "report": 77},
    ]
}
_BAD: Sequence[Answer] = ("no JSON at all", {"points": 3}, UnavailableError("CHAT_DOWN", "gone"), Late())


def _report(
    title: str,
    text: str,
    names: Sequence[str],
    *,
    level: int = 0,
    sources: tuple[int, ...] = (2, 3),
    weight: float = 0.5,
) -> Record:
    keys = tuple(sorted(entity_key(name) for name in names))
    community = Community(f"{entity_key(title):016x}", level, keys)
    chunks = tuple((version, 0) for version in sources)
    return report_record("kb", 80, CommunityReport(community, title, text, weight, "lite", sources, chunks))


def _many(count: int, word: str = "contribution", *, length: int = 1) -> list[Record]:
    """Make reports, every fourth one a coarse one above the three behind it."""
    records: list[Record] = []
    for number in range(count):
        group, place = divmod(number, 4)
        own = [f"member {group}-{i}" for i in range(1, 4)]
        names = own if not place else [own[place - 1]]
        text = f"The {word} number {number} of a son. " * length + "贡献。" * (length // 4)
        records.append(_report(f"{word} {number}", text, names, level=bool(place), sources=(4,)))
    return records


def _scholars() -> list[Record]:
    """Divide the family's community twice, and set another one beside it."""
    return [
        _report("Teachers", "Johann taught Euler in Basel.", _FAMILY[:2], level=1, sources=(2,)),
        _report("Fluids", "The son made a contribution to the mechanics of fluids.", _FAMILY[2:], level=1),
        _report("Pupils", "Euler learnt of a teacher.", _FAMILY[:1], level=2, sources=(2,)),
        _report("Numbers", "Jakob found the numbers.", ("Jakob Bernoulli", "Bernoulli numbers"), sources=(1,)),
    ]


def _reports(outcome: SearchOutcome) -> list[Record]:
    return [item.candidate.record for item in outcome.kept if item.candidate.record.kind is RecordKind.COMMUNITY_REPORT]


def _table_tokens(outcome: SearchOutcome) -> int:
    return sum(item.candidate.record.token_count for item in outcome.graph_tables)


@pytest.mark.parametrize("mode", _MODES)
async def test_without_a_graph_a_mode_says_so_and_costs_nothing(mode: GraphMode) -> None:
    bench = GraphBench(graphs=())
    outcome = await bench.search(mode)
    assert report_of(outcome, "graph").state.value == "skipped"
    assert any("no graph" in note for note in outcome.notes)
    assert bench.index.trip_count == 1
    assert chunks_of(outcome)


@pytest.mark.parametrize("mode", _MODES)
async def test_a_mode_takes_few_round_trips_however_many_reports_there_are(mode: GraphMode) -> None:
    trips: set[int] = set()
    for count in (0, 40, 200):
        bench = GraphBench(others=_many(count), vectors="all")
        outcome = await bench.search(mode)
        assert report_of(outcome, "graph").state.value == "ran"
        trips.add(bench.index.trip_count)
    assert max(trips) <= _MAX_TRIPS[mode] + (mode is not GraphMode.DRIFT)


@pytest.mark.parametrize("mode", _MODES)
async def test_what_is_hidden_shows_nowhere(mode: GraphMode) -> None:
    query = "What did Daniel Bernoulli, the son of Euler's teacher, own or make?"
    outcome = await GraphBench(others=_scholars()).search(mode, query)
    hits = [hit_to_wire(item, outcome.leaves.get(item.candidate.record.record_id, ())) for item in outcome.ranked]
    shown = f"{explanation_to_wire(outcome)} {hits}"
    assert "Daniel Bernoulli" in shown
    for secret in ("Hidden Press", "secretly", "sealed", "5-0", "Secret presses"):
        assert secret not in shown
    seeing = await GraphBench(visible=(1, 2, 3, 4, 5)).search(mode, query)
    path = f"{explanation_to_wire(seeing).graph_path}"
    assert ("Secret presses" if mode is GraphMode.COMMUNITY_GLOBAL else "Hidden Press") in path


@pytest.mark.parametrize("mode", _MODES)
async def test_an_index_that_does_not_answer_costs_the_graph_alone(mode: GraphMode) -> None:
    bench = GraphBench()
    bench.index.fails_for = RecordKind.COMMUNITY_REPORT
    outcome = await bench.search(mode)
    assert "graph" in outcome.unreachable
    assert chunks_of(outcome)


@pytest.mark.parametrize("mode", _MODES)
async def test_knowledge_bases_without_a_graph_are_searched_beside(mode: GraphMode) -> None:
    beside = chunk("4-9", "The contribution of a son to the school of his teacher", version=4)
    outcome = await GraphBench(others=[beside]).search(mode, knowledge_bases=("kb", "plain"))
    assert any("without a graph" in note for note in outcome.notes)
    assert "4-9" in chunks_of(outcome)
    assert outcome.graph_path


@pytest.mark.parametrize("mode", _MODES)
async def test_a_graph_without_reports_says_so(mode: GraphMode) -> None:
    bench = GraphBench()
    bench.index.records = [item for item in bench.index.records if item.kind is not RecordKind.COMMUNITY_REPORT]
    outcome = await bench.search(mode)
    assert any("no reports of communities" in note for note in outcome.notes)
    assert report_of(outcome, "graph").state.value == ("skipped" if mode is GraphMode.COMMUNITY_GLOBAL else "ran")
    assert chunks_of(outcome)


@pytest.mark.parametrize("mode", [GraphMode.COMMUNITY_LOCAL, GraphMode.DRIFT])
async def test_a_question_that_nothing_of_the_graph_fits_is_searched_by_passages(mode: GraphMode) -> None:
    bench = GraphBench()
    bench.index.records = [item for item in bench.index.records if item.kind is RecordKind.CHUNK]
    outcome = await bench.search(mode, "How does water flow faster?")
    assert report_of(outcome, "graph").state.value == "skipped"
    assert any("nothing that fits" in note for note in outcome.notes)
    assert chunks_of(outcome)


async def test_local_tells_entities_relations_reports_and_passages() -> None:
    outcome = await GraphBench().search(GraphMode.COMMUNITY_LOCAL)
    table = outcome.kept[0].candidate.record
    assert table.kind is RecordKind.GRAPH_TABLE
    for text in ("Euler,person", "Johann Bernoulli,Euler", "## A family of scholars"):
        assert text in table.text
    assert labels_of(outcome, "entity") == ["Euler"]
    assert set(labels_of(outcome, "relation")) == {
        "Johann Bernoulli \u2013 Euler",
        "Euler \u2013 Saint Petersburg academy",
    }
    assert labels_of(outcome, "community_report") == ["A family of scholars"]
    assert set(chunks_of(outcome)[:2]) == {"2-0", "4-0"}
    by_weight = await GraphBench().search(GraphMode.COMMUNITY_LOCAL, chunk_pick=ChunkPick.WEIGHT)
    assert set(chunks_of(by_weight)[:2]) == {"2-0", "4-0"}


@pytest.mark.parametrize(
    ("level", "expected"),
    [(0, "A family of scholars"), (1, "Teachers"), (2, "Pupils"), (8, "Pupils")],
)
async def test_local_reads_the_report_of_its_level_or_the_finest_there_is(level: int, expected: str) -> None:
    bench = GraphBench(others=_scholars())
    outcome = await bench.search(GraphMode.COMMUNITY_LOCAL, community_level=level)
    assert labels_of(outcome, "community_report") == [expected]


@given(st.integers(0, 1_200), st.integers(0, 40))
@settings(deadline=None, max_examples=15)
async def test_local_holds_every_share_of_its_tokens(most: int, count: int) -> None:
    bench = GraphBench(others=[*_scholars(), *_many(count)])
    outcome = await bench.search(GraphMode.COMMUNITY_LOCAL, max_total_tokens=most)
    # Headers of its parts and titles are not counted line by line.
    assert _table_tokens(outcome) <= 0.5 * most + 8
    passages = [item.candidate.record for item in outcome.kept if item.candidate.record.kind is RecordKind.CHUNK]
    assert sum(estimate_tokens(record.text) for record in passages[1:]) <= 0.5 * most + 8


async def test_global_tells_what_reports_say_and_its_citations_open_chunks() -> None:
    outcome = await GraphBench(others=_scholars()).search(GraphMode.COMMUNITY_GLOBAL)
    first = _reports(outcome)[0]
    assert outcome.kept[0].candidate.record is first
    assert first.title == "Fluids"
    assert "mechanics of fluids" in first.text
    assert "by key sentences: no language model" in report_of(outcome, "graph").detail
    assert {leaf.record_id for leaf in outcome.leaves[first.record_id]} == {"2-0", "3-0"}
    [piece] = evidence_of(outcome, max_count=1)
    assert piece.is_summary
    assert candidate_sentences([piece]), "what a report says can be quoted"
    labelled = type(piece)(**{name: getattr(piece, name) for name in piece.__slots__} | {"label": 7})
    result = AnswerResult(evidence=(labelled,), cited=(7,))
    text = "The pressure of water falls where it flows faster, which founded the mechanics of fluids."
    result.statements = (Statement(text, (7,), 1.0, 1.0, None),)
    [citation] = citations_to_wire([7], result, outcome, resolved=True)
    assert citation.hit.kind == "community_report"
    assert citation.places[0].record_id == "3-0"
    assert citation.places[0].document == "knowledgeBases/kb/documents/d3"


async def test_a_report_that_was_found_by_itself_too_comes_once() -> None:
    bench = GraphBench()
    outcome = await bench.search(GraphMode.COMMUNITY_GLOBAL)
    own = ids_of(outcome)
    outcome.ranked = (*outcome.ranked[1:], outcome.ranked[0])
    await GraphTableStage().run(bench.call, outcome)
    assert ids_of(outcome) == own


async def test_global_reads_points_of_the_model_and_leaves_out_what_no_report_bears() -> None:
    bench = GraphBench(others=_scholars(), answers=[(GRAPH_SEARCH_MAP_V1, _POINTS)])
    outcome = await bench.search(GraphMode.COMMUNITY_GLOBAL, dynamic_selection=False)
    assert bench.chat.asked == ["graph_search_map"]
    assert [record.text for record in _reports(outcome)] == [
        "Daniel founded the mechanics of fluids.",
        "Johann taught Euler.",
    ]
    assert [item.similarity for item in outcome.graph_tables] == [0.9, 0.7]
    assert report_of(outcome, "graph").by_model
    assert "Nobody reported" not in str(explanation_to_wire(outcome))


async def test_global_says_when_no_report_helps() -> None:
    bench = GraphBench(answers=[(GRAPH_SEARCH_MAP_V1, {"points": []})])
    outcome = await bench.search(GraphMode.COMMUNITY_GLOBAL)
    assert _reports(outcome) == []
    assert any("no report of the graph helps" in note for note in outcome.notes)
    assert chunks_of(outcome)
    nothing = await bench.search(GraphMode.COMMUNITY_GLOBAL, max_total_tokens=0)
    assert _reports(nothing) == []
    assert len(bench.chat.asked) == 1, "a model is not asked about nothing"


async def test_a_question_about_everything_reads_what_most_of_the_graph_is_about() -> None:
    outcome = await GraphBench().search(GraphMode.COMMUNITY_GLOBAL, "Which topics matter most here?")
    assert [record.title for record in _reports(outcome)] == ["A family of scholars"]


@pytest.mark.parametrize(
    ("level", "dynamic", "expected"),
    [
        (0, True, {"A family of scholars", "Numbers"}),
        (1, False, {"Teachers", "Fluids", "Numbers"}),
        (2, False, {"Pupils", "Fluids", "Numbers"}),
        (8, False, {"Pupils", "Fluids", "Numbers"}),
    ],
)
async def test_global_reads_the_reports_of_its_level_or_the_finest_there_are(
    level: int, dynamic: bool, expected: set[str]
) -> None:
    bench = GraphBench(others=_scholars())
    outcome = await bench.search(GraphMode.COMMUNITY_GLOBAL, community_level=level, dynamic_selection=dynamic)
    assert {record.title for record in _reports(outcome)} == expected


async def test_coarse_reports_decide_which_finer_ones_are_read() -> None:
    others = [
        _report("Ships", "Ships sail without a teacher.", ("a", "b", "c"), sources=(4,), weight=0.0),
        _report("Sails", "The contribution of a son to sails.", ("a",), level=1, sources=(4,), weight=0.0),
        _report("Sons", "A son, his contribution, a teacher, Euler.", ("d", "e"), sources=(4,), weight=1.0),
        _report("Heirs", "A son, his contribution, a teacher, Euler too.", ("d",), level=1, sources=(4,), weight=1.0),
    ]
    bench = GraphBench(others=others)
    outcome = await bench.search(GraphMode.COMMUNITY_GLOBAL)
    titles = {record.title for record in _reports(outcome)}
    assert "Heirs" in titles
    assert "Sons" not in titles, "the finer one stands for it"
    assert "Sails" not in titles, "what is above it is not near to the question"
    assert "Sails" in labels_of(outcome, "community_report", kept=False)
    everything = await bench.search(GraphMode.COMMUNITY_GLOBAL, dynamic_selection=False)
    assert "Sails" in {record.title for record in _reports(everything)}


async def test_where_coarse_reports_are_hidden_the_finer_ones_are_where_a_descent_begins() -> None:
    hidden = _report("All of it", "Euler, a teacher, a son, a contribution.", _FAMILY, sources=(2, 5))
    bench = GraphBench(others=[hidden, *_scholars()[:2]])
    bench.index.records = [item for item in bench.index.records if item.title != "A family of scholars"]
    outcome = await bench.search(GraphMode.COMMUNITY_GLOBAL)
    assert _reports(outcome)[0].title == "Fluids"
    assert set(labels_of(outcome, "community_report", kept=False)) == {"Teachers", "Fluids"}


async def test_a_model_chooses_coarse_reports_by_their_titles() -> None:
    class Chooser(StepChat):
        async def stream(self, messages: Any, **options: Any) -> AsyncIterator[ChatDelta]:
            lines = messages[1].content.split("\n")
            wanted = next((line for line in lines if line.startswith("[") and "contribution 8" in line), "")
            self.answers = [(GRAPH_SEARCH_RATE_V1, {"reports": [wanted.partition("]")[0].lstrip("["), 99]})]
            async for delta in super().stream(messages, **options):
                yield delta

    bench = GraphBench(others=_many(24))
    bench.chat, bench.has_chat = Chooser(), True
    outcome = await bench.search(GraphMode.COMMUNITY_GLOBAL)
    assert bench.chat.asked == ["graph_search_rate", ""]
    titles = {record.title for record in _reports(outcome)}
    assert titles == {"contribution 9", "contribution 10", "contribution 11"}
    detail = report_of(outcome, "graph").detail
    assert "chosen by title" in detail
    assert "no usable answer" in detail


@pytest.mark.parametrize("answer", _BAD)
async def test_a_bad_model_costs_the_points_alone(answer: Answer) -> None:
    bench = GraphBench(others=_many(40), answers=[(GRAPH_SEARCH_MAP_V1, answer), (GRAPH_SEARCH_RATE_V1, answer)])
    bench.call = CallContext(bench.call.identity, "r-1", time.monotonic() + 3.0)
    outcome = await bench.search(GraphMode.COMMUNITY_GLOBAL)
    assert len(bench.chat.asked) <= 2
    assert _reports(outcome)
    assert not report_of(outcome, "graph").by_model
    assert "by key sentences: the language model" in report_of(outcome, "graph").detail


@pytest.mark.parametrize("count", [1, 60])
@pytest.mark.parametrize("answers", [[], [(GRAPH_SEARCH_MAP_V1, _POINTS), (GRAPH_SEARCH_RATE_V1, {"reports": [1, 2]})]])
async def test_global_costs_at_most_two_calls_and_a_bound_of_tokens(count: int, answers: Any) -> None:
    bench = GraphBench(others=_many(count, length=120), answers=answers)
    bench.has_chat = True
    question = "What contribution did the son make? " + "哪些贡献？" * 400
    await bench.search(GraphMode.COMMUNITY_GLOBAL, question)
    assert len(bench.chat.asked) <= 2
    # With the answer's own prompt (4,000 tokens of evidence and its instructions) no more than 20,000.
    assert sum(estimate_tokens(prompt) for prompt in bench.chat.prompts) <= 14_500


async def test_drift_follows_what_reports_name_to_what_the_question_does_not() -> None:
    plain = chunks_of(await GraphBench().search(GraphMode.OFF, "Euler, pupil"))
    assert "3-0" not in plain
    outcome = await GraphBench().search(GraphMode.DRIFT, "Euler, pupil")
    assert "3-0" in chunks_of(outcome)
    hops = {step.label or step.name: step.hop for step in outcome.graph_path}
    assert hops["Euler"] == 0
    assert hops["Johann Bernoulli"] == hops["Daniel Bernoulli"] == 1
    assert hops["fluid mechanics"] == 2
    assert hops["2-0"] == 0
    assert hops["3-0"] == 1
    asked = [variant.text for variant in outcome.variants[1:]]
    assert "Johann Bernoulli pupil" in asked, "what is asked, of a neighbour"
    assert "Daniel Bernoulli pupil" in asked, "and of what a report is about"
    assert outcome.kept[0].candidate.record.kind is RecordKind.GRAPH_TABLE
    assert "by rule: no language model" in report_of(outcome, "graph").detail


async def test_drift_asks_what_the_model_wants_to_know_in_two_rounds() -> None:
    primer = {"answer": "He taught in Basel.", "follow_ups": ["Who was the son of Johann Bernoulli?"]}
    further = {"follow_ups": ["What did Hydrodynamica show?", "Who was the son of Johann Bernoulli?"]}
    bench = GraphBench(answers=[(GRAPH_SEARCH_PRIMER_V1, primer), (GRAPH_SEARCH_FOLLOW_UP_V1, further)])
    outcome = await bench.search(GraphMode.DRIFT)
    assert bench.chat.asked == ["graph_search_primer", "graph_search_follow_up"]
    assert [(variant.text, variant.origin.value) for variant in outcome.variants[1:]] == [
        ("He taught in Basel.", "hypothetical"),
        ("Who was the son of Johann Bernoulli?", "hop"),
        ("What did Hydrodynamica show?", "hop"),
    ]
    assert "Daniel Bernoulli was his son" in bench.chat.prompts[1], "passages of the first round"
    assert {"2-0", "3-0"} <= set(chunks_of(outcome)[:3])
    assert "2 follow-up questions in 2 rounds" in report_of(outcome, "graph").detail
    assert report_of(outcome, "graph").by_model


async def test_drift_embeds_the_questions_of_a_round_at_once() -> None:
    bench = GraphBench(vectors="all")
    outcome = await bench.search(GraphMode.DRIFT, follow_ups=3)
    assert len(bench.embedder.calls) == 1 + ROUNDS
    assert [text for texts in bench.embedder.calls for text in texts] == [item.text for item in outcome.variants]


async def test_drift_looks_entities_up_for_questions_that_name_none() -> None:
    primer = {"follow_ups": ["What is it that flows?"]}
    bench = GraphBench(answers=[(GRAPH_SEARCH_PRIMER_V1, primer)], vectors="all")
    await bench.search(GraphMode.DRIFT)
    asked = [
        request
        for call in bench.index.calls
        for request in call
        if RecordKind.ENTITY in request.visibility.kinds and "flow" in " ".join(request.terms.fine)
    ]
    assert asked
    assert all(request.query_vector is not None for request in asked)


@pytest.mark.parametrize("answer", [*_BAD, {"follow_ups": [3]}])
async def test_a_bad_model_costs_its_questions_alone(answer: Answer) -> None:
    bench = GraphBench(answers=[(GRAPH_SEARCH_PRIMER_V1, answer), (GRAPH_SEARCH_FOLLOW_UP_V1, answer)])
    bench.call = CallContext(bench.call.identity, "r-1", time.monotonic() + 3.0)
    outcome = await bench.search(GraphMode.DRIFT)
    assert len(bench.chat.asked) <= MAX_CALLS
    assert "3-0" in chunks_of(outcome)
    assert "by rule: the language model" in report_of(outcome, "graph").detail
    assert not report_of(outcome, "graph").by_model


@given(st.integers(0, 100), st.integers(1, 20), st.booleans())
@settings(deadline=None, max_examples=10)
async def test_drift_holds_its_bounds_however_many_reports_and_questions_there_are(
    count: int, follow_ups: int, is_good: bool
) -> None:
    endless: dict[str, object] = {"answer": "a " * 2_000, "follow_ups": [f"Who is son {n}?" for n in range(100)]}
    more: dict[str, object] = {"follow_ups": [f"Who is heir {n}?" for n in range(100)]}
    answers = [(GRAPH_SEARCH_PRIMER_V1, endless), (GRAPH_SEARCH_FOLLOW_UP_V1, more)] if is_good else []
    bench = GraphBench(others=_many(count), answers=answers)
    bench.has_chat = True
    outcome = await bench.search(GraphMode.DRIFT, follow_ups=follow_ups, max_total_tokens=2_000)
    assert len(bench.chat.asked) <= MAX_CALLS
    assert sum(estimate_tokens(prompt) for prompt in bench.chat.prompts) <= 16_000
    assert len(outcome.variants) <= 2 + ROUNDS * min(follow_ups, 14)
    assert bench.index.trip_count <= _MAX_TRIPS[GraphMode.DRIFT] + ROUNDS
    assert _table_tokens(outcome) <= 0.5 * 2_000 + 8


async def test_drift_leaves_a_round_out_where_its_time_is_gone() -> None:
    left = [60.0]

    class Ebbing(CallContext):
        def remaining_seconds(self) -> float:
            return left[0]

    class Slow(StepChat):
        async def stream(self, messages: Any, **options: Any) -> AsyncIterator[ChatDelta]:
            left[0] /= 2.0
            async for delta in super().stream(messages, **options):
                yield delta

    bench = GraphBench()
    bench.chat, bench.has_chat = (
        Slow(
            [(GRAPH_SEARCH_PRIMER_V1, {"follow_ups": ["Who?"]}), (GRAPH_SEARCH_FOLLOW_UP_V1, {"follow_ups": ["Why?"]})]
        ),
        True,
    )
    bench.call = Ebbing(bench.call.identity, "r-1", time.monotonic() + 60.0)
    outcome = await bench.search(GraphMode.DRIFT)
    assert any("no time left for all rounds" in note for note in outcome.notes)
    assert "1 follow-up question in 1 round" in report_of(outcome, "graph").detail
    assert chunks_of(outcome)


async def test_drift_goes_on_with_what_it_has_where_the_index_does_not_answer_a_round() -> None:
    bench = GraphBench()
    search = bench.index.search

    async def failing(tenant_id: str, space_id: str, requests: Any, *, timeout_seconds: float) -> Any:
        if any(request.reference is not None for request in requests):
            raise UnavailableError("INDEX_DOWN", "the index does not answer")
        return await search(tenant_id, space_id, requests, timeout_seconds=timeout_seconds)

    bench.index.search = failing  # type: ignore[method-assign]
    outcome = await bench.search(GraphMode.DRIFT)
    assert report_of(outcome, "graph").state.value == "ran"
    assert any("a round of follow-up questions was left out" in note for note in outcome.notes)
    assert labels_of(outcome, "entity") == ["Euler"]


@pytest.mark.parametrize("mode", [GraphMode.COMMUNITY_LOCAL, GraphMode.DRIFT])
async def test_particular_words_that_come_with_a_question_name_entities(mode: GraphMode) -> None:
    outcome = await GraphBench().search(mode, low_level_keywords=("Jakob Bernoulli",))
    assert labels_of(outcome, "entity")[0] == "Jakob Bernoulli"
    assert "Euler" in labels_of(outcome, "entity")


@pytest.mark.parametrize("mode", _MODES)
async def test_questions_in_chinese_find_their_way_too(mode: GraphMode) -> None:
    documents = (
        Document(1, "李冰在成都修建了都江堰。", (("李冰", "修建了", "都江堰"), ("都江堰", "位于", "成都"))),
        Document(2, "都江堰用鱼嘴分开江水。", (("都江堰", "有", "鱼嘴"),)),
    )
    bench = GraphBench()
    shelf = GraphShelf(documents)
    members = [entity_key(name) for name in ("李冰", "都江堰", "鱼嘴")]
    shelf.report("李冰，都江堰", "李冰主持修建都江堰。鱼嘴把江水分成两股。", members, (1, 2))
    bench.index.records = shelf.records
    bench.shelf.segments = shelf.segments
    outcome = await bench.search(mode, "李冰修建的水利工程怎样分开江水？")
    assert labels_of(outcome, "community_report") == ["李冰，都江堰"]
    assert set(chunks_of(outcome)) == {"1-0", "2-0"}
    if mode is GraphMode.DRIFT:
        assert any(variant.text.startswith("鱼嘴 ") for variant in outcome.variants)
    if mode is GraphMode.COMMUNITY_GLOBAL:
        assert "鱼嘴把江水分成两股。" in outcome.kept[0].candidate.record.text
