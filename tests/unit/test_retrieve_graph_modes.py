"""Graphs in a search: what each mode looks up, who sees what, and where citations of a table open."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from pyroaring import BitMap

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_core.answering import candidate_sentences
from corpusmesh_core.citation import Statement
from corpusmesh_core.errors import UnavailableError
from corpusmesh_core.graph_search.keywords import GraphKeywords
from corpusmesh_core.graphs.keys import entity_key
from corpusmesh_core.ports.embedding import Embedder, EmbeddingSpace, EmbedLane, EmbedResult, EmbedRole
from corpusmesh_core.ports.index import Candidates, RecallRequest, RecordIndex
from corpusmesh_core.ports.reranking import RerankModel
from corpusmesh_core.prompts.graph_search_knowledge_v1 import GRAPH_SEARCH_KNOWLEDGE_V1
from corpusmesh_core.prompts.graph_search_levels_v1 import GRAPH_SEARCH_LEVELS_V1
from corpusmesh_core.prompts.graph_search_relations_v1 import GRAPH_SEARCH_RELATIONS_V1
from corpusmesh_core.query import ChunkPick, GraphMode, GraphPlan, RelationRerank, RetrievalPlan
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.tenancy import Identity, MetadataFilter, Permission, Role, Scope, VisibilityInputs
from corpusmesh_core.text import analyze
from corpusmesh_core.visibility import Visibility
from corpusmesh_retrieve.answering.citing import citations_to_wire
from corpusmesh_retrieve.answering.evidence import evidence_of
from corpusmesh_retrieve.answering.values import AnswerResult
from corpusmesh_retrieve.asking import ModelSession
from corpusmesh_retrieve.convert import hit_to_wire
from corpusmesh_retrieve.explaining import explanation_to_wire
from corpusmesh_retrieve.graphs.stage import GraphStage, GraphTableStage, modes_of
from corpusmesh_retrieve.graphs.words import GraphWords, WordsCache
from corpusmesh_retrieve.ledger.recording import effective_plan
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest
from corpusmesh_retrieve.recalling import Recaller
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_retrieve.stages import SearchStages
from corpusmesh_retrieve.trees.leaves import LeafStage
from corpusmesh_runtime.context import CallContext
from tests.support.graph_shelf import PUBLISHERS_FROM, GraphShelf, ShelfViews
from tests.support.step_chat import Answer, Late, StepChat
from tests.support.tree_index import TreeIndex, chunk

_SPACE = EmbeddingSpace("space", 2, normalized=True, fingerprint="f")
_QUESTION = "What contribution did the son of Euler's teacher make?"
_SEEN = (1, 2, 3, 4)
_TABLE_MODES = (GraphMode.LOCAL, GraphMode.GLOBAL, GraphMode.HYBRID, GraphMode.MIX, GraphMode.KNOWLEDGE)
_MODES = (*_TABLE_MODES, GraphMode.ADJACENCY)


class Snapshots:
    """Publishes versions with their subgraphs."""

    def __init__(self, visible: Sequence[int], *, graphs: Sequence[str], vectors: str) -> None:
        self._visible = visible
        self._graphs = graphs
        self._config: dict[str, object] = {"graph": {"methods": ["triples"], "vectors": vectors}}

    async def visibility_inputs(
        self,
        identity: Identity,
        knowledge_base_id: str,
        *,
        snapshot_id: int | None = None,
        metadata_filter: MetadataFilter | None = None,
    ) -> VisibilityInputs:
        assert metadata_filter is None
        has_graph = knowledge_base_id in self._graphs
        builds = BitMap(number for number in self._visible if number >= PUBLISHERS_FROM)
        return VisibilityInputs(
            knowledge_base_id,
            identity.user_id,
            Permission.TEAM,
            self._config if has_graph else {},
            _SPACE.space_id,
            1,
            1,
            BitMap(self._visible).serialize(),
            (),
            None,
            200,
            (builds.serialize(),) if has_graph else (),
            ("graph",) if has_graph else (),
        )


class CountingEmbedder:
    """Embeds everything alike, and remembers what it was asked."""

    space = _SPACE

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    async def refresh(self, *, deadline_seconds: float) -> None:
        assert deadline_seconds > 0

    async def embed(
        self, texts: Sequence[str], *, role: EmbedRole, lane: EmbedLane, deadline_seconds: float
    ) -> EmbedResult:
        assert (role, lane, deadline_seconds > 0) == (EmbedRole.QUERY, EmbedLane.INTERACTIVE, True)
        self.calls.append(list(texts))
        return EmbedResult(np.tile(np.array([[1.0, 0.0]], dtype=np.float32), (len(texts), 1)), len(texts))


class CrossEncoder:
    """Likes a passage the more often it holds a word."""

    def __init__(self, word: str, error: Exception | None = None) -> None:
        self.rerank_model: RerankModel | None = cast("RerankModel", object())
        self._word = word
        self._error = error

    async def refresh(self, *, deadline_seconds: float) -> None:
        assert deadline_seconds > 0

    async def rerank(self, question: str, passages: Sequence[str], *, deadline_seconds: float) -> Any:
        assert question
        assert deadline_seconds > 0
        if self._error is not None:
            raise self._error
        return np.array([passage.count(self._word) for passage in passages], dtype=np.float32)


class CountingIndex(TreeIndex):
    """Counts its round trips, reads of records included; may fail for what graphs ask."""

    def __init__(self, records: Sequence[Record], visibility: Visibility) -> None:
        super().__init__(records, visibility)
        self.trip_count = 0
        self.fails_for: RecordKind | None = None

    async def search(
        self, tenant_id: str, space_id: str, requests: Sequence[RecallRequest], *, timeout_seconds: float
    ) -> list[Candidates]:
        self.trip_count += 1
        if any(self.fails_for in request.visibility.kinds for request in requests):
            raise UnavailableError("INDEX_DOWN", "the index does not answer")
        answers = await super().search(tenant_id, space_id, requests, timeout_seconds=timeout_seconds)
        counts = Counter(term for record in self.records for term in set(analyze(record.text).fine))
        return [replace(answer, document_frequencies=counts) for answer in answers]

    async def fetch(self, *args: Any, **kwargs: Any) -> list[Record]:
        self.trip_count += 1
        if self.fails_for in args[3].kinds:
            raise UnavailableError("INDEX_DOWN", "the index does not answer")
        return await super().fetch(*args, **kwargs)


class Bench:
    """A searcher over the Bernoullis."""

    def __init__(
        self,
        *,
        visible: Sequence[int] = _SEEN,
        vectors: str = "none",
        answers: Sequence[tuple[Any, Answer]] = (),
        others: Sequence[Record] = (),
        reranker: Any = None,
        graphs: Sequence[str] = ("kb",),
    ) -> None:
        self.shelf = GraphShelf()
        self.shelf.report(
            "A family of scholars",
            "Johann taught Euler, and Daniel was his son.",
            [entity_key("Euler"), entity_key("Johann Bernoulli"), entity_key("Daniel Bernoulli")],
            (2, 3),
        )
        self.shelf.report("Secret presses", "Daniel owned a secret press.", [entity_key("Daniel Bernoulli")], (3, 5))
        ordinals = [*visible, *(PUBLISHERS_FROM + number for number in visible), 80, 81]
        self.index = CountingIndex([*self.shelf.records, *others], Visibility.of("kb/1", ordinals, 200))
        self.embedder = CountingEmbedder()
        self.views = ShelfViews(self.shelf)
        self.chat = StepChat(answers)
        self.has_chat = bool(answers)
        index, embedder = cast("RecordIndex", self.index), cast("Embedder", self.embedder)
        recaller = Recaller(index, embedder)
        self.words = GraphWords(self.views)
        stages = SearchStages(
            understanding=(self.words,),
            assembly=(
                GraphStage(self.views, index, modes_of(recaller, reranker or CrossEncoder("contribution"))),
                GraphTableStage(),
                LeafStage(index),
            ),
        )
        snapshots = Snapshots(ordinals, graphs=graphs, vectors=vectors)
        self._searcher = Searcher(cast("Any", snapshots), index, embedder, stages)
        self.call = CallContext(Identity("acme", "ann", Role.VIEWER, Scope.READ), "r-1", time.monotonic() + 60.0)

    async def search(
        self,
        mode: GraphMode,
        query: str = _QUESTION,
        *,
        knowledge_bases: tuple[str, ...] = ("kb",),
        page_size: int = 10,
        **graph: Any,
    ) -> SearchOutcome:
        plan = RetrievalPlan(graph=GraphPlan(mode=mode, **graph), page_size=page_size)
        chat = cast("Any", self.chat) if self.has_chat else None
        session = ModelSession(chat, lambda: np.random.default_rng(1))
        return await self._searcher.search(
            self.call, SearchRequest(knowledge_bases, query, lambda _: plan, session=session)
        )


def _ids(outcome: SearchOutcome) -> list[str]:
    return [item.candidate.record.record_id for item in outcome.kept]


def _chunks(outcome: SearchOutcome) -> list[str]:
    return [item.candidate.record.record_id for item in outcome.kept if item.candidate.record.kind is RecordKind.CHUNK]


def _table(outcome: SearchOutcome) -> Record:
    record = outcome.kept[0].candidate.record
    assert record.kind is RecordKind.GRAPH_TABLE
    return record


def _labels(outcome: SearchOutcome, kind: str, *, kept: bool = True) -> list[str]:
    return [
        step.label for step in outcome.graph_path if step.kind == kind and (not kept or step.outcome.value == "kept")
    ]


def _report(outcome: SearchOutcome, name: str) -> Any:
    return next(report for report in outcome.stages if report.name == name)


@pytest.mark.parametrize("mode", _MODES)
async def test_without_a_graph_a_mode_says_so_and_costs_nothing(mode: GraphMode) -> None:
    bench = Bench(graphs=())
    outcome = await bench.search(mode)
    assert _report(outcome, "graph").state.value == "skipped"
    assert any("no graph" in note for note in outcome.notes)
    assert bench.index.trip_count == 1
    assert bench.views.asked == []
    assert "graph_words" not in {report.name for report in outcome.stages}
    assert _chunks(outcome)


@pytest.mark.parametrize("mode", [GraphMode.OFF, GraphMode.PAGE_RANK])
async def test_other_modes_are_left_to_others(mode: GraphMode) -> None:
    outcome = await Bench().search(mode)
    assert "graph" not in {report.name for report in outcome.stages}


@pytest.mark.parametrize("mode", _MODES)
async def test_a_mode_takes_few_round_trips_and_embeds_once(mode: GraphMode) -> None:
    for vectors in ("none", "all"):
        bench = Bench(vectors=vectors)
        outcome = await bench.search(mode)
        assert _report(outcome, "graph").state.value == "ran"
        assert bench.index.trip_count <= 6
        assert len(bench.embedder.calls) == 1
        assert (len(bench.embedder.calls[0]) > 1) == (vectors == "all")


@pytest.mark.parametrize("mode", _MODES)
async def test_what_is_hidden_shows_nowhere(mode: GraphMode) -> None:
    query = "What secret press did Daniel Bernoulli own, the son of Euler's teacher? Hidden Press?"
    outcome = await Bench().search(mode, query)
    hits = [hit_to_wire(item, outcome.leaves.get(item.candidate.record.record_id, ())) for item in outcome.ranked]
    told = explanation_to_wire(outcome)
    told.ClearField("variants")
    shown = f"{told} {hits}"
    assert "Daniel Bernoulli" in shown
    for secret in ("Hidden Press", "secretly", "sealed", "5-0", "Secret presses"):
        assert secret not in shown
    seeing = await Bench(visible=(1, 2, 3, 4, 5)).search(mode, query)
    assert "Hidden Press" in f"{explanation_to_wire(seeing).graph_path}"


@pytest.mark.parametrize("mode", _TABLE_MODES)
async def test_a_table_comes_first_and_its_citations_open_chunks(mode: GraphMode) -> None:
    outcome = await Bench().search(mode)
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
    outcome = await Bench().search(GraphMode.HYBRID)
    [whole] = evidence_of(outcome, max_count=1)
    [cut, *_] = evidence_of(outcome, max_count=3, max_token_count=2 * whole.token_count)
    assert cut.token_count <= 2 * whole.token_count * 14 / 30
    assert "---- Entities ----" in cut.text
    assert "---- Relations ----" in cut.text
    assert all(line in whole.text.split("\n") for line in cut.text.split("\n"))


async def test_local_finds_entities_that_are_named_with_their_relations_and_passages() -> None:
    outcome = await Bench().search(GraphMode.LOCAL)
    assert _labels(outcome, "entity")[0] == "Euler"
    assert "Johann Bernoulli \u2013 Euler" in _labels(outcome, "relation")
    assert set(_chunks(outcome)[:2]) == {"2-0", "4-0"}, "passages of Euler stand first"


async def test_global_finds_relations_by_general_words_with_their_ends() -> None:
    outcome = await Bench().search(GraphMode.GLOBAL, high_level_keywords=("lasting contribution",))
    assert _labels(outcome, "relation") == ["Daniel Bernoulli \u2013 fluid mechanics"]
    assert _labels(outcome, "entity") == ["Daniel Bernoulli", "fluid mechanics"]
    assert set(_chunks(outcome)[:2]) == {"2-0", "3-0"}


async def test_mix_puts_passages_of_the_graph_between_those_of_the_search() -> None:
    bench = Bench()
    keywords: dict[str, Any] = {"low_level_keywords": ("Bernoulli numbers",), "top_k": 1}
    plain = _chunks(await bench.search(GraphMode.OFF))
    mixed = _chunks(await bench.search(GraphMode.MIX, **keywords))
    hybrid = _chunks(await bench.search(GraphMode.HYBRID, **keywords))
    assert hybrid[0] == "1-0"
    assert plain[0] == mixed[0] != "1-0"
    assert mixed[1] == "1-0"


async def test_naive_orders_by_vectors_alone() -> None:
    bench = Bench()
    outcome = await bench.search(GraphMode.NAIVE)
    cosines = [item.candidate.cosine for item in outcome.kept]
    assert cosines == sorted(cosines, key=lambda value: -(value or 0.0))
    assert bench.index.trip_count == 1
    assert bench.views.asked == []


async def test_budgets_hold_entities_relations_and_passages() -> None:
    bench = Bench()
    full = await bench.search(GraphMode.HYBRID)
    less = await bench.search(GraphMode.HYBRID, max_entity_tokens=14, max_relation_tokens=0)
    assert 0 < len(_labels(less, "entity")) < len(_labels(full, "entity"))
    assert _labels(less, "relation") == []
    assert _labels(less, "relation", kept=False) == _labels(full, "relation", kept=False)
    none = await bench.search(GraphMode.HYBRID, max_total_tokens=0)
    assert len(none.kept) == 1, "the best hit stays whatever it has"
    few = await bench.search(GraphMode.HYBRID, chunk_top_k=1, page_size=1)
    assert len(_chunks(few)) == 1


async def test_weight_takes_passages_that_most_items_come_from() -> None:
    outcome = await Bench().search(
        GraphMode.LOCAL, low_level_keywords=("Johann Bernoulli", "Euler"), top_k=2, chunk_pick=ChunkPick.WEIGHT
    )
    assert _chunks(outcome)[0] == "2-0"


async def test_keywords_come_from_the_model_once_and_from_rules_without_one() -> None:
    answer = {"high_level_keywords": ["lasting contribution"], "low_level_keywords": "Daniel Bernoulli, Euler"}
    bench = Bench(answers=[(GRAPH_SEARCH_LEVELS_V1, answer)])
    for _ in range(2):
        outcome = await bench.search(GraphMode.HYBRID)
        assert outcome.graph_keywords is not None
        assert outcome.graph_keywords.low == ("Daniel Bernoulli", "Euler")
        assert _report(outcome, "graph_words").by_model
    assert len(bench.chat.asked) == 1, "the second time it is known"
    plain = await Bench().search(GraphMode.HYBRID)
    assert plain.graph_keywords is not None
    assert plain.graph_keywords.low == ("Euler",)
    assert "contribution" in " ".join(plain.graph_keywords.high)
    assert not _report(plain, "graph_words").by_model


@pytest.mark.parametrize("answer", ["no JSON at all", {"keywords": 3}, UnavailableError("CHAT_DOWN", "gone"), Late()])
async def test_a_bad_model_costs_its_words_alone(answer: Answer) -> None:
    bench = Bench(answers=[(GRAPH_SEARCH_LEVELS_V1, answer)])
    bench.call = CallContext(bench.call.identity, "r-1", time.monotonic() + 1.5)
    outcome = await bench.search(GraphMode.LOCAL)
    assert outcome.graph_keywords is not None
    assert outcome.graph_keywords.low == ("Euler",)
    assert _table(outcome)


async def test_a_recorded_search_holds_the_keywords_that_it_looked_up() -> None:
    outcome = await Bench().search(GraphMode.HYBRID)
    plan = effective_plan(retrieval_pb.RetrievalPlan(), outcome)
    assert list(plan.graph.low_level_keywords) == ["Euler"]
    again = await Bench().search(
        GraphMode.HYBRID,
        low_level_keywords=tuple(plan.graph.low_level_keywords),
        high_level_keywords=tuple(plan.graph.high_level_keywords),
    )
    assert _ids(again) == _ids(outcome)
    outcome.question = "What did Daniel Bernoulli do, the son of Euler's teacher?"
    assert not effective_plan(retrieval_pb.RetrievalPlan(), outcome).graph.low_level_keywords, "words of other turns"


async def test_supplied_keywords_ask_nobody() -> None:
    bench = Bench(answers=[(GRAPH_SEARCH_LEVELS_V1, {"high_level_keywords": [], "low_level_keywords": []})])
    outcome = await bench.search(GraphMode.LOCAL, low_level_keywords=("Jakob Bernoulli",))
    assert bench.chat.asked == []
    assert _labels(outcome, "entity")[0] == "Jakob Bernoulli"


async def test_a_short_question_without_keywords_is_looked_up_itself_and_a_long_one_is_not() -> None:
    nothing: dict[str, object] = {"high_level_keywords": [], "low_level_keywords": []}
    bench = Bench(answers=[(GRAPH_SEARCH_LEVELS_V1, nothing)])
    short = await bench.search(GraphMode.LOCAL, "Jakob Bernoulli")
    assert short.graph_keywords is not None
    assert short.graph_keywords.low == ("Jakob Bernoulli",)
    assert _labels(short, "entity")[0] == "Jakob Bernoulli"
    long = await bench.search(GraphMode.LOCAL, "Jakob Bernoulli and whatever else may come to mind on a day like this")
    assert _report(long, "graph").state.value == "skipped"
    assert any("no words to look up" in note for note in long.notes)
    assert _chunks(long)


async def test_a_level_without_words_gives_way_to_the_other() -> None:
    outcome = await Bench().search(GraphMode.GLOBAL, low_level_keywords=("Jakob Bernoulli",))
    assert _labels(outcome, "entity")[0] == "Jakob Bernoulli"
    assert any("other level" in note for note in outcome.notes)


async def test_knowledge_ranks_by_types_and_ways_and_adds_the_report_of_most_of_them() -> None:
    outcome = await Bench().search(GraphMode.KNOWLEDGE)
    record = _table(outcome)
    assert record.text.startswith("---- Entities ----\nEntity,Type,Score,Description\nEuler,person,")
    assert "Johann Bernoulli" in record.text
    assert "A family of scholars" in record.text
    assert _labels(outcome, "community_report") == ["A family of scholars"]
    hops = {step.label: step.hop for step in outcome.graph_path if step.kind == "relation"}
    assert hops["Johann Bernoulli \u2013 Euler"] == 1
    assert hops["Daniel Bernoulli \u2013 Johann Bernoulli"] == 2
    assert set(record.sources) <= {1, 2, 3, 4}


async def test_knowledge_takes_types_of_the_answer_where_nothing_is_named() -> None:
    answer = {"answer_type_keywords": ["Organization", "planet"], "entities_from_query": []}
    bench = Bench(answers=[(GRAPH_SEARCH_KNOWLEDGE_V1, answer)])
    outcome = await bench.search(GraphMode.KNOWLEDGE, "Which ones are mentioned anywhere in the whole of these papers?")
    assert outcome.graph_keywords is not None
    assert outcome.graph_keywords.types == ("organization",)
    assert _labels(outcome, "entity") == ["Saint Petersburg academy"]


async def test_adjacency_leads_from_the_pupil_over_the_teacher_to_what_his_son_did() -> None:
    plain = _chunks(await Bench().search(GraphMode.OFF))
    assert plain.index("4-0") < plain.index("3-0") if "3-0" in plain else "4-0" in plain
    bench = Bench()
    outcome = await bench.search(GraphMode.ADJACENCY, hops=2)
    assert _labels(outcome, "entity") == ["Euler"]
    assert "3-0" in _chunks(outcome)[:3]
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

    bench = Bench()
    bench.chat, bench.has_chat = Chooser(), True
    outcome = await bench.search(GraphMode.ADJACENCY, relation_rerank=RelationRerank.MODEL)
    assert chosen
    assert _chunks(outcome)[0] == "3-0"
    assert _report(outcome, "graph").by_model
    without = await Bench().search(GraphMode.ADJACENCY, relation_rerank=RelationRerank.MODEL)
    assert "no language model" in _report(without, "graph").detail


async def test_adjacency_lets_a_cross_encoder_choose_relations_where_there_is_one() -> None:
    liked = await Bench(reranker=CrossEncoder("older brother")).search(
        GraphMode.ADJACENCY, relation_rerank=RelationRerank.CROSS_ENCODER
    )
    assert _chunks(liked)[0] == "1-0"
    broken = CrossEncoder("", UnavailableError("EMBED_DOWN", "gone"))
    outcome = await Bench(reranker=broken).search(GraphMode.ADJACENCY, relation_rerank=RelationRerank.CROSS_ENCODER)
    assert any("cross-encoder did not answer" in note for note in outcome.notes)
    assert "3-0" in _chunks(outcome)[:3]


@pytest.mark.parametrize("mode", _MODES)
async def test_an_index_that_does_not_answer_costs_the_graph_alone(mode: GraphMode) -> None:
    bench = Bench()
    bench.index.fails_for = RecordKind.RELATION
    outcome = await bench.search(mode)
    assert "graph" in outcome.unreachable
    assert _chunks(outcome)


@pytest.mark.parametrize("mode", _MODES)
async def test_knowledge_bases_without_a_graph_are_searched_beside(mode: GraphMode) -> None:
    beside = chunk("4-9", "The contribution of a son to the school of his teacher", version=4)
    outcome = await Bench(others=[beside]).search(mode, knowledge_bases=("kb", "plain"))
    assert any("without a graph" in note for note in outcome.notes)
    assert "4-9" in _chunks(outcome)
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
