"""Graphs in a search: what each mode looks up, who sees what, and where citations of a table open."""

import time
from typing import Any

import pytest

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_core.answering import candidate_sentences
from corpusmesh_core.citation import Statement
from corpusmesh_core.errors import FailedPreconditionError, UnavailableError
from corpusmesh_core.graph_search.keywords import GraphKeywords
from corpusmesh_core.prompts.graph_search_knowledge_v1 import GRAPH_SEARCH_KNOWLEDGE_V1
from corpusmesh_core.prompts.graph_search_levels_v1 import GRAPH_SEARCH_LEVELS_V1
from corpusmesh_core.prompts.graph_search_relations_v1 import GRAPH_SEARCH_RELATIONS_V1
from corpusmesh_core.query import ChunkPick, GraphMode, RelationRerank
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_retrieve.answering.citing import citations_to_wire
from corpusmesh_retrieve.answering.evidence import evidence_of
from corpusmesh_retrieve.answering.values import AnswerResult
from corpusmesh_retrieve.convert import hit_to_wire
from corpusmesh_retrieve.explaining import explanation_to_wire
from corpusmesh_retrieve.graphs.words import WordsCache
from corpusmesh_retrieve.ledger.recording import effective_plan
from corpusmesh_retrieve.outcome import SearchOutcome
from corpusmesh_runtime.context import CallContext
from tests.support.graph_bench import CrossEncoder, GraphBench, chunks_of, ids_of, labels_of, report_of
from tests.support.graph_shelf import ShelfViews
from tests.support.step_chat import Answer, Late, StepChat
from tests.support.tree_index import chunk

_TABLE_MODES = (GraphMode.LOCAL, GraphMode.GLOBAL, GraphMode.HYBRID, GraphMode.MIX, GraphMode.KNOWLEDGE)
_MODES = (*_TABLE_MODES, GraphMode.ADJACENCY)


def _table(outcome: SearchOutcome) -> Record:
    record = outcome.kept[0].candidate.record
    assert record.kind is RecordKind.GRAPH_TABLE
    return record


@pytest.mark.parametrize("mode", _MODES)
async def test_without_a_graph_a_mode_says_so_and_costs_nothing(mode: GraphMode) -> None:
    bench = GraphBench(graphs=())
    outcome = await bench.search(mode)
    assert report_of(outcome, "graph").state.value == "skipped"
    assert any("no graph" in note for note in outcome.notes)
    assert bench.index.trip_count == 1
    assert bench.views.asked == []
    assert "graph_words" not in {report.name for report in outcome.stages}
    assert chunks_of(outcome)


@pytest.mark.parametrize("mode", [GraphMode.OFF, GraphMode.PAGE_RANK])
async def test_other_modes_are_left_to_others(mode: GraphMode) -> None:
    outcome = await GraphBench().search(mode)
    assert "graph" not in {report.name for report in outcome.stages}


@pytest.mark.parametrize("mode", _MODES)
async def test_a_mode_takes_few_round_trips_and_embeds_once(mode: GraphMode) -> None:
    for vectors in ("none", "all"):
        bench = GraphBench(vectors=vectors)
        outcome = await bench.search(mode)
        assert report_of(outcome, "graph").state.value == "ran"
        assert bench.index.trip_count <= 6
        assert len(bench.embedder.calls) == 1
        assert (len(bench.embedder.calls[0]) > 1) == (vectors == "all")


@pytest.mark.parametrize("mode", _MODES)
async def test_what_is_hidden_shows_nowhere(mode: GraphMode) -> None:
    query = "What secret press did Daniel Bernoulli own, the son of Euler's teacher? Hidden Press?"
    outcome = await GraphBench().search(mode, query)
    hits = [hit_to_wire(item, outcome.leaves.get(item.candidate.record.record_id, ())) for item in outcome.ranked]
    told = explanation_to_wire(outcome)
    told.ClearField("variants")
    shown = f"{told} {hits}"
    assert "Daniel Bernoulli" in shown
    for secret in ("Hidden Press", "secretly", "sealed", "5-0", "Secret presses"):
        assert secret not in shown
    seeing = await GraphBench(visible=(1, 2, 3, 4, 5)).search(mode, query)
    assert "Hidden Press" in f"{explanation_to_wire(seeing).graph_path}"


@pytest.mark.parametrize("mode", _TABLE_MODES)
async def test_a_table_comes_first_and_its_citations_openchunks_of(mode: GraphMode) -> None:
    outcome = await GraphBench().search(mode)
    record = _table(outcome)
    assert record.token_count > 0
    leaves = {leaf.record_id for leaf in outcome.leaves[record.record_id]}
    assert leaves
    assert leaves <= {"1-0", "2-0", "3-0", "4-0"}
    expected = "2-0" if mode is GraphMode.LOCAL else "3-0"
    [piece] = evidence_of(outcome, max_count=1)
    assert piece.is_table
    assert candidate_sentences([piece]) == ()
    labelled = type(piece)(**{name: getattr(piece, name) for name in piece.__slots__} | {"label": 7})
    result = AnswerResult(evidence=(labelled,), cited=(7,))
    text = (
        "Johann Bernoulli was the teacher of Euler in Basel."
        if mode is GraphMode.LOCAL
        else "The pressure of water falls where it flows faster, which founded the mechanics of fluids."
    )
    result.statements = (Statement(text, (7,), 1.0, 1.0, None),)
    [citation] = citations_to_wire([7], result, outcome, resolved=True)
    assert citation.hit.kind == "graph_table"
    assert citation.places[0].record_id == expected
    assert citation.places[0].document == f"knowledgeBases/kb/documents/d{expected[0]}"


async def test_a_table_leaves_room_for_passages_in_an_answer() -> None:
    outcome = await GraphBench().search(GraphMode.HYBRID)
    [whole] = evidence_of(outcome, max_count=1)
    [cut, *_] = evidence_of(outcome, max_count=3, max_token_count=2 * whole.token_count)
    assert cut.token_count <= 2 * whole.token_count * 14 / 30
    assert "---- Entities ----" in cut.text
    assert "---- Relations ----" in cut.text
    assert all(line in whole.text.split("\n") for line in cut.text.split("\n"))


async def test_local_finds_entities_that_are_named_with_their_relations_and_passages() -> None:
    outcome = await GraphBench().search(GraphMode.LOCAL)
    assert labels_of(outcome, "entity")[0] == "Euler"
    assert "Johann Bernoulli \u2013 Euler" in labels_of(outcome, "relation")
    assert set(chunks_of(outcome)[:2]) == {"2-0", "4-0"}, "passages of Euler stand first"


async def test_global_finds_relations_by_general_words_with_their_ends() -> None:
    outcome = await GraphBench().search(GraphMode.GLOBAL, high_level_keywords=("lasting contribution",))
    assert labels_of(outcome, "relation") == ["Daniel Bernoulli \u2013 fluid mechanics"]
    assert labels_of(outcome, "entity") == ["Daniel Bernoulli", "fluid mechanics"]
    assert set(chunks_of(outcome)[:2]) == {"2-0", "3-0"}


async def test_mix_puts_passages_of_the_graph_between_those_of_the_search() -> None:
    bench = GraphBench()
    keywords: dict[str, Any] = {"low_level_keywords": ("Bernoulli numbers",), "top_k": 1}
    plain = chunks_of(await bench.search(GraphMode.OFF))
    mixed = chunks_of(await bench.search(GraphMode.MIX, **keywords))
    hybrid = chunks_of(await bench.search(GraphMode.HYBRID, **keywords))
    assert hybrid[0] == "1-0"
    assert plain[0] == mixed[0] != "1-0"
    assert mixed[1] == "1-0"


async def test_what_a_graph_leads_to_need_not_be_like_the_question() -> None:
    bench = GraphBench()
    assert chunks_of(await bench.search(GraphMode.OFF, threshold=0.9)) == []
    for mode in (GraphMode.HYBRID, GraphMode.MIX, GraphMode.ADJACENCY):
        assert "3-0" in chunks_of(await bench.search(mode, threshold=0.9))


async def test_a_graph_that_is_too_large_is_left_out_with_a_note() -> None:
    class TooLarge(ShelfViews):
        async def view(self, *args: Any, **options: Any) -> Any:
            raise FailedPreconditionError("GRAPH_TOO_LARGE", "the graph does not fit")

    bench = GraphBench(views=TooLarge())
    outcome = await bench.search(GraphMode.MIX)
    assert any("larger than this installation" in note for note in outcome.notes)
    assert chunks_of(outcome)


async def test_naive_orders_by_vectors_alone() -> None:
    bench = GraphBench()
    outcome = await bench.search(GraphMode.NAIVE)
    cosines = [item.candidate.cosine for item in outcome.kept]
    assert cosines == sorted(cosines, key=lambda value: -(value or 0.0))
    assert bench.index.trip_count == 1
    assert bench.views.asked == []


async def test_budgets_hold_entities_relations_and_passages() -> None:
    bench = GraphBench()
    full = await bench.search(GraphMode.HYBRID)
    less = await bench.search(GraphMode.HYBRID, max_entity_tokens=14, max_relation_tokens=0)
    assert 0 < len(labels_of(less, "entity")) < len(labels_of(full, "entity"))
    assert labels_of(less, "relation") == []
    assert labels_of(less, "relation", kept=False) == labels_of(full, "relation", kept=False)
    none = await bench.search(GraphMode.HYBRID, max_total_tokens=0)
    assert len(none.kept) == 1, "the best hit stays whatever it has"
    few = await bench.search(GraphMode.HYBRID, chunk_top_k=1, page_size=1)
    assert len(chunks_of(few)) == 1


async def test_weight_takes_passages_that_most_items_come_from() -> None:
    outcome = await GraphBench().search(
        GraphMode.LOCAL, low_level_keywords=("Johann Bernoulli", "Euler"), top_k=2, chunk_pick=ChunkPick.WEIGHT
    )
    assert chunks_of(outcome)[0] == "2-0"


async def test_keywords_come_from_the_model_once_and_from_rules_without_one() -> None:
    answer = {"high_level_keywords": ["lasting contribution"], "low_level_keywords": "Daniel Bernoulli, Euler"}
    bench = GraphBench(answers=[(GRAPH_SEARCH_LEVELS_V1, answer)])
    for _ in range(2):
        outcome = await bench.search(GraphMode.HYBRID)
        assert outcome.graph_keywords is not None
        assert outcome.graph_keywords.low == ("Daniel Bernoulli", "Euler")
        assert report_of(outcome, "graph_words").by_model
    assert len(bench.chat.asked) == 1, "the second time it is known"
    plain = await GraphBench().search(GraphMode.HYBRID)
    assert plain.graph_keywords is not None
    assert plain.graph_keywords.low == ("Euler",)
    assert "contribution" in " ".join(plain.graph_keywords.high)
    assert not report_of(plain, "graph_words").by_model


@pytest.mark.parametrize("answer", ["no JSON at all", {"keywords": 3}, UnavailableError("CHAT_DOWN", "gone"), Late()])
async def test_a_bad_model_costs_its_words_alone(answer: Answer) -> None:
    bench = GraphBench(answers=[(GRAPH_SEARCH_LEVELS_V1, answer)])
    bench.call = CallContext(bench.call.identity, "r-1", time.monotonic() + 1.5)
    outcome = await bench.search(GraphMode.LOCAL)
    assert outcome.graph_keywords is not None
    assert outcome.graph_keywords.low == ("Euler",)
    assert _table(outcome)


async def test_a_recorded_search_holds_the_keywords_that_it_looked_up() -> None:
    outcome = await GraphBench().search(GraphMode.HYBRID)
    plan = effective_plan(retrieval_pb.RetrievalPlan(), outcome)
    assert list(plan.graph.low_level_keywords) == ["Euler"]
    again = await GraphBench().search(
        GraphMode.HYBRID,
        low_level_keywords=tuple(plan.graph.low_level_keywords),
        high_level_keywords=tuple(plan.graph.high_level_keywords),
    )
    assert ids_of(again) == ids_of(outcome)
    outcome.question = "What did Daniel Bernoulli do, the son of Euler's teacher?"
    assert not effective_plan(retrieval_pb.RetrievalPlan(), outcome).graph.low_level_keywords, "words of other turns"


async def test_supplied_keywords_ask_nobody() -> None:
    bench = GraphBench(answers=[(GRAPH_SEARCH_LEVELS_V1, {"high_level_keywords": [], "low_level_keywords": []})])
    outcome = await bench.search(GraphMode.LOCAL, low_level_keywords=("Jakob Bernoulli",))
    assert bench.chat.asked == []
    assert labels_of(outcome, "entity")[0] == "Jakob Bernoulli"


async def test_a_short_question_without_keywords_is_looked_up_itself_and_a_long_one_is_not() -> None:
    nothing: dict[str, object] = {"high_level_keywords": [], "low_level_keywords": []}
    bench = GraphBench(answers=[(GRAPH_SEARCH_LEVELS_V1, nothing)])
    short = await bench.search(GraphMode.LOCAL, "Jakob Bernoulli")
    assert short.graph_keywords is not None
    assert short.graph_keywords.low == ("Jakob Bernoulli",)
    assert labels_of(short, "entity")[0] == "Jakob Bernoulli"
    long = await bench.search(GraphMode.LOCAL, "Jakob Bernoulli and whatever else may come to mind on a day like this")
    assert report_of(long, "graph").state.value == "skipped"
    assert any("no words to look up" in note for note in long.notes)
    assert chunks_of(long)


async def test_a_level_without_words_gives_way_to_the_other() -> None:
    outcome = await GraphBench().search(GraphMode.GLOBAL, low_level_keywords=("Jakob Bernoulli",))
    assert labels_of(outcome, "entity")[0] == "Jakob Bernoulli"
    assert any("other level" in note for note in outcome.notes)


async def test_knowledge_ranks_by_types_and_ways_and_adds_the_report_of_most_of_them() -> None:
    outcome = await GraphBench().search(GraphMode.KNOWLEDGE)
    record = _table(outcome)
    assert record.text.startswith("---- Entities ----\nEntity,Type,Score,Description\nEuler,person,")
    assert "Johann Bernoulli" in record.text
    assert "A family of scholars" in record.text
    assert labels_of(outcome, "community_report") == ["A family of scholars"]
    hops = {step.label: step.hop for step in outcome.graph_path if step.kind == "relation"}
    assert hops["Johann Bernoulli \u2013 Euler"] == 1
    assert hops["Daniel Bernoulli \u2013 Johann Bernoulli"] == 2
    assert set(record.sources) <= {1, 2, 3, 4}


async def test_knowledge_takes_types_of_the_answer_where_nothing_is_named() -> None:
    answer = {"answer_type_keywords": ["Organization", "planet"], "entities_from_query": []}
    bench = GraphBench(answers=[(GRAPH_SEARCH_KNOWLEDGE_V1, answer)])
    outcome = await bench.search(GraphMode.KNOWLEDGE, "Which ones are mentioned anywhere in the whole of these papers?")
    assert outcome.graph_keywords is not None
    assert outcome.graph_keywords.types == ("organization",)
    assert labels_of(outcome, "entity") == ["Saint Petersburg academy"]


async def test_adjacency_leads_from_the_pupil_over_the_teacher_to_what_his_son_did() -> None:
    plain = chunks_of(await GraphBench().search(GraphMode.OFF))
    assert plain.index("4-0") < plain.index("3-0") if "3-0" in plain else "4-0" in plain
    bench = GraphBench()
    outcome = await bench.search(GraphMode.ADJACENCY, hops=2)
    assert labels_of(outcome, "entity") == ["Euler"]
    assert "3-0" in chunks_of(outcome)[:3]
    hops = {step.label: step.hop for step in outcome.graph_path if step.kind == "relation"}
    assert hops["Daniel Bernoulli \u2013 fluid mechanics"] <= 2


async def test_adjacency_lets_a_model_choose_relations_by_number() -> None:
    chosen: list[str] = []

    class Chooser(StepChat):
        async def stream(self, messages: Any, **options: Any) -> Any:
            lines = messages[1].content.split("\n")
            wanted = next(line for line in lines if line.startswith("[") and "fluid mechanics" in line)
            chosen.append(wanted)
            number = wanted[1 : wanted.index("]")]
            answer = {"reasoning": "teacher, son, contribution", "useful_relationships": [f"[{number}] so", "[99]"]}
            self.answers = [(GRAPH_SEARCH_RELATIONS_V1, answer)]
            async for delta in super().stream(messages, **options):
                yield delta

    bench = GraphBench()
    bench.chat, bench.has_chat = Chooser(), True
    outcome = await bench.search(GraphMode.ADJACENCY, relation_rerank=RelationRerank.MODEL)
    assert chosen
    assert chunks_of(outcome)[0] == "3-0"
    assert report_of(outcome, "graph").by_model
    without = await GraphBench().search(GraphMode.ADJACENCY, relation_rerank=RelationRerank.MODEL)
    assert "no language model" in report_of(without, "graph").detail


async def test_adjacency_lets_a_cross_encoder_choose_relations_where_there_is_one() -> None:
    liked = await GraphBench(reranker=CrossEncoder("older brother")).search(
        GraphMode.ADJACENCY, relation_rerank=RelationRerank.CROSS_ENCODER
    )
    assert chunks_of(liked)[0] == "1-0"
    broken = CrossEncoder("", UnavailableError("EMBED_DOWN", "gone"))
    outcome = await GraphBench(reranker=broken).search(
        GraphMode.ADJACENCY, relation_rerank=RelationRerank.CROSS_ENCODER
    )
    assert any("cross-encoder did not answer" in note for note in outcome.notes)
    assert "3-0" in chunks_of(outcome)[:3]


@pytest.mark.parametrize("mode", _MODES)
async def test_an_index_that_does_not_answer_costs_the_graph_alone(mode: GraphMode) -> None:
    bench = GraphBench()
    bench.index.fails_for = RecordKind.RELATION
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


def test_words_are_forgotten_after_an_hour() -> None:
    now = [0.0]
    cache = WordsCache(lambda: now[0])
    key = WordsCache.key_of("acme", "p/1", "who?")
    assert key != WordsCache.key_of("other", "p/1", "who?")
    words = GraphKeywords(low=("Ada",))
    cache.put(key, words)
    now[0] = 3_600.0
    assert cache.get(key) is words
    now[0] = 3_601.0
    assert cache.get(key) is None
