"""The stages after scoring: what they read, what they report, and that none of them can fail a search."""

import json
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray
from pyroaring import FrozenBitMap

from corpusmesh_core.assembly.compression import CompressionSettings
from corpusmesh_core.errors import (
    CorpusMeshError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    UnavailableError,
)
from corpusmesh_core.ports.chat import ChatDelta, ChatMessage, ChatModel
from corpusmesh_core.ports.embedding import Embedder, EmbeddingSpace, EmbedLane, EmbedResult, EmbedRole
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.ports.reranking import RerankModel
from corpusmesh_core.query import AssemblyPlan, Diversity, RerankMethod, RerankPlan, RetrievalPlan
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.records import Ordinal, Record, RecordKind, derived_record_id, parent_record_id
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_core.text import analyze, analyze_query
from corpusmesh_core.visibility import Visibility, VisibilityFilter
from corpusmesh_retrieve.asking import ModelSession
from corpusmesh_retrieve.assembling import assembly_stages
from corpusmesh_retrieve.assembling.compression import CompressionStage
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest, SpaceView, StageReport, StageState
from corpusmesh_retrieve.reranking import RerankStage
from corpusmesh_retrieve.stages import Stage, run_stages
from corpusmesh_runtime.context import CallContext
from tests.support.candidates import chunk, ids, ranked, reasons

SPACE = EmbeddingSpace("words", 64, True, "0")
QUESTION = "why does the leaf order help a range query"


class Shelf:
    """Records by id; gives out what a filter lets pass, and counts how often it was asked."""

    def __init__(self, records: Iterable[Record], *, error: CorpusMeshError | None = None) -> None:
        self.records = {record.record_id: record for record in records}
        self.error = error
        self.reads: list[tuple[str, int, bool]] = []

    async def fetch(
        self,
        tenant_id: str,
        space_id: str,
        record_ids: Sequence[str],
        visibility: VisibilityFilter,
        *,
        with_vectors: bool = False,
        timeout_seconds: float,
    ) -> list[Record]:
        if self.error is not None:
            raise self.error
        self.reads.append((space_id, len(record_ids), with_vectors))
        visible = {kind: clause.source_in or FrozenBitMap() for clause in visibility.clauses for kind in clause.kinds}
        found = [self.records[name] for name in record_ids if name in self.records]
        seen = [record for record in found if record.publisher in visible.get(record.kind, FrozenBitMap())]
        return seen if with_vectors else [replace(record, vector=None) for record in seen]


class WordEmbedder:
    """Vectors whose cosine is that of two texts' terms."""

    space = SPACE

    def __init__(self, error: CorpusMeshError | None = None) -> None:
        self.texts: list[str] = []
        self.error = error

    async def embed(
        self, texts: Sequence[str], *, role: EmbedRole, lane: EmbedLane, deadline_seconds: float
    ) -> EmbedResult:
        assert lane is EmbedLane.INTERACTIVE
        if self.error is not None:
            raise self.error
        self.texts.extend(texts)
        return EmbedResult(np.stack([vector_of(text) for text in texts]), 0)


class Grader:
    """A cross-encoder that scores by a table, or raises."""

    def __init__(
        self, scores: Mapping[str, float] | None = None, error: CorpusMeshError | None = None, *, is_late: bool = False
    ) -> None:
        self.scores = scores
        self.error = error
        self.rerank_model = None if scores is None or is_late else RerankModel("table", 512, "0")
        self.refreshes = 0
        self.passages: list[str] = []

    async def refresh(self, *, deadline_seconds: float) -> None:
        self.refreshes += 1
        if self.scores is not None:
            self.rerank_model = RerankModel("table", 512, "0")

    async def rerank(self, question: str, passages: Sequence[str], *, deadline_seconds: float) -> NDArray[np.float32]:
        if self.error is not None:
            raise self.error
        self.passages.extend(passages)
        assert self.scores is not None
        return np.array([self.scores[passage.partition("\n")[2]] for passage in passages], np.float32)


class Talker:
    """A language model that says one text after another."""

    def __init__(self, *answers: object) -> None:
        self.answers = [answer if isinstance(answer, str) else json.dumps(answer) for answer in answers]
        self.prompts: list[str] = []

    async def stream(
        self, messages: Sequence[ChatMessage], *, max_token_count: int, timeout_seconds: float
    ) -> AsyncIterator[ChatDelta]:
        self.prompts.append("\n".join(message.content for message in messages))
        yield ChatDelta(self.answers[min(len(self.prompts), len(self.answers)) - 1])


def vector_of(text: str) -> NDArray[np.float32]:
    vector = np.full(SPACE.dimension, 1e-3, np.float32)
    for term in analyze(text).fine:
        vector[sum(term.encode()) % SPACE.dimension] += 1.0
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def outcome_of(
    items: Sequence[RankedCandidate],
    *,
    assembly: AssemblyPlan | None = None,
    rerank: RerankPlan | None = None,
    chat: Talker | None = None,
    visible: Iterable[int] = (7, 8),
    with_vector: bool = True,
) -> SearchOutcome:
    session = ModelSession(cast(ChatModel, chat) if chat else None, lambda: np.random.default_rng(1))
    request = SearchRequest(("kb",), QUESTION, lambda _configs: RetrievalPlan(), session)
    outcome = SearchOutcome(request, question=QUESTION, terms=analyze_query(QUESTION))
    outcome.plan = RetrievalPlan(assembly=assembly or AssemblyPlan(), rerank=rerank or RerankPlan())
    outcome.views = (SpaceView(SPACE.space_id, ("kb",), Visibility.of("kb/1", visible, 100)),)
    if with_vector:
        outcome.query_vector, outcome.query_space_id = vector_of(QUESTION), SPACE.space_id
    outcome.ranked = tuple(items)
    return outcome


async def run(
    outcome: SearchOutcome,
    shelf: Shelf,
    *,
    embedder: WordEmbedder | None = None,
    reranker: Grader | None = None,
    stages: Sequence[Stage] = (),
) -> dict[str, StageReport]:
    identity = Identity("t", "u", Role.OWNER, Scope.READ, ())
    call = CallContext(identity, "r", time.monotonic() + 30)
    wanted = stages or assembly_stages(
        cast(RecordIndex, shelf), cast(Embedder, embedder or WordEmbedder()), reranker or Grader()
    )
    await run_stages(wanted, call, outcome)
    return {report.name: report for report in outcome.stages}


def stored(position: int, text: str, **fields: str) -> Record:
    return replace(chunk(position, text, **fields), vector=vector_of(text))  # type: ignore[arg-type]


def toc_record(number: int, title: str, *chunks: int) -> Record:
    name = derived_record_id(Ordinal(7), RecordKind.TOC, f"{number:05d}")
    return replace(chunk(0, title), record_id=name, kind=RecordKind.TOC, links=tuple(f"7-{i}" for i in chunks))


async def test_a_plan_that_wants_nothing_costs_nothing_and_leaves_no_report() -> None:
    shelf = Shelf([])
    items = (ranked(chunk(0, "a"), 0.9),)
    outcome = outcome_of(items)
    assert await run(outcome, shelf) == {}
    assert outcome.ranked == items
    assert shelf.reads == []


async def test_every_stage_runs_in_its_order_and_reports_itself() -> None:
    text = "The leaf order helps a range query to read on. " * 8
    items = [ranked(chunk(i, f"{text} {'abcdefgh'[i]}"), 0.9 - i / 100) for i in range(6)]
    outcome = outcome_of(
        items,
        assembly=AssemblyPlan(True, True, 1, True, Diversity.MMR, 0.3, True, 3, True),
        rerank=RerankPlan(RerankMethod.CROSS_ENCODER),
    )
    reports = await run(outcome, Shelf(item.candidate.record for item in items))
    assert list(reports) == [
        "rerank",
        "toc",
        "parents",
        "duplicates",
        "diversity",
        "segments",
        "neighbours",
        "document_cap",
        "compression",
    ]
    assert all(report.detail for report in reports.values())
    assert "leaf" not in " ".join(report.detail for report in reports.values()), "details hold no text of documents"


async def test_children_are_replaced_by_what_may_be_seen_in_one_round_trip() -> None:
    seen, hidden = parent_record_id(Ordinal(7), 0), parent_record_id(Ordinal(9), 0)
    items = [
        ranked(chunk(0, "a", parent=seen), 0.9),
        ranked(chunk(1, "b", version=9, parent=hidden), 0.8),
        ranked(chunk(2, "c", parent=seen), 0.8),
    ]
    shelf = Shelf(
        [
            replace(chunk(0, "whole"), record_id=seen, kind=RecordKind.PARENT),
            replace(chunk(0, "secret", version=9), record_id=hidden, kind=RecordKind.PARENT),
        ]
    )
    outcome = outcome_of(items, assembly=AssemblyPlan(parents=True))
    reports = await run(outcome, shelf)
    assert ids(outcome.ranked) == [seen, "9-1"]
    assert reports["parents"].detail == "3 hits became 2; 1 parents were not there"
    assert shelf.reads == [(SPACE.space_id, 2, False)]


async def test_a_parent_id_that_names_another_kind_of_record_is_not_followed() -> None:
    items = [ranked(chunk(0, "a", parent="7-5"), 0.9)]
    outcome = outcome_of(items, assembly=AssemblyPlan(parents=True))
    await run(outcome, Shelf([chunk(5, "a chunk")]))
    assert ids(outcome.ranked) == ["7-0"]


async def test_equal_texts_collapse_without_reading_anything() -> None:
    shelf = Shelf([])
    items = [ranked(chunk(0, "Same text."), 0.9), ranked(chunk(0, "same TEXT", version=8), 0.8)]
    outcome = outcome_of(items, assembly=AssemblyPlan(collapse_duplicates=True))
    reports = await run(outcome, shelf)
    assert ids(outcome.ranked) == ["7-0"]
    assert outcome.ranked[0].merged_record_ids == ("8-0",)
    assert reports["duplicates"].detail == "1 equal, 0 nearly equal"
    assert shelf.reads == []


async def test_near_texts_collapse_by_their_vectors_which_are_read_once() -> None:
    text = "the leaf pages of a clustered index hold whole rows in the order of the primary key for every table of it"
    records = [stored(0, text), stored(1, f"{text} once"), stored(2, "cats and dogs")]
    shelf = Shelf(records)
    items = [ranked(replace(record, vector=None), 0.9 - i / 10) for i, record in enumerate(records)]
    outcome = outcome_of(items, assembly=AssemblyPlan(collapse_duplicates=True))
    reports = await run(outcome, shelf)
    assert ids(outcome.ranked) == ["7-0", "7-2"]
    assert reports["duplicates"].detail == "0 equal, 1 nearly equal"
    assert shelf.reads == [(SPACE.space_id, 2, True)]


@pytest.mark.parametrize("rule", [Diversity.MMR, Diversity.DARTBOARD])
@pytest.mark.parametrize("with_vector", [True, False])
async def test_a_hit_that_says_something_else_comes_before_the_twin_of_the_best(
    rule: Diversity, with_vector: bool
) -> None:
    texts = ["leaf pages are linked in order", "in order leaf pages are linked", "soup needs salt and time", "dogs"]
    records = [stored(i, text) for i, text in enumerate(texts)]
    items = [ranked(replace(record, vector=None), 0.9 - i / 50) for i, record in enumerate(records)]
    outcome = outcome_of(items, assembly=AssemblyPlan(diversity=rule, diversity_weight=0.5), with_vector=with_vector)
    shelf = Shelf(records)
    reports = await run(outcome, shelf)
    assert ids(outcome.ranked)[0] == "7-0"
    assert ids(outcome.ranked).index("7-1") > ids(outcome.ranked).index("7-2")
    assert ("by vectors" if with_vector else "by words") in reports["diversity"].detail
    assert len(shelf.reads) == with_vector


async def test_segments_and_neighbours_read_what_is_missing_and_no_more() -> None:
    texts = {i: f"text number {'abcdefghij'[i]}" for i in range(10)}
    items = [ranked(chunk(4, texts[4]), 0.9), ranked(chunk(6, texts[6]), 0.85), ranked(chunk(0, texts[0]), 0.5)]
    outcome = outcome_of(items, assembly=AssemblyPlan(segments=True, neighbours=1))
    shelf = Shelf(chunk(i, text) for i, text in texts.items())
    await run(outcome, shelf)
    assert [item.candidate.record.text for item in outcome.kept] == [
        "\n".join(texts[i] for i in (4, 5, 6)),
        "\n".join(texts[i] for i in (0, 1)),
    ]
    assert [count for _, count, _ in shelf.reads] == [1, 1]
    assert reasons(outcome.ranked) == {"7-6": "merged_into_segment"}


async def test_the_contents_of_the_best_document_lead_to_a_section_that_no_leg_found() -> None:
    found = [stored(0, "an overview of storage"), stored(5, "backups are copies")]
    missing = stored(3, "the leaf order makes a range query read neighbouring pages")
    shelf = Shelf(
        [
            *found,
            missing,
            toc_record(0, "Overview", 0),
            toc_record(1, "Leaf order and range queries", 3),
            toc_record(2, "Backups", 5),
        ]
    )
    items = [ranked(replace(found[0], vector=None), 0.15), ranked(replace(found[1], vector=None), 0.1)]
    outcome = outcome_of(items, assembly=AssemblyPlan(toc=True))
    reports = await run(outcome, shelf)
    assert ids(outcome.ranked)[0] == "7-3"
    assert reports["toc"].detail == "1 of 3 sections; added: 1 chunk"
    assert not reports["toc"].by_model
    assert len(shelf.reads) == 2
    assert outcome.ranked[0].candidate.record.vector is None


async def test_the_language_model_may_choose_the_sections_and_one_that_answers_badly_does_not() -> None:
    records = [stored(0, "an overview"), toc_record(0, "Overview", 0), toc_record(1, "Leaf order", 3), stored(3, "x")]
    for answer, by_model, first in (({"sections": [1]}, True, "7-0"), ({"sections": [9]}, False, "7-3")):
        chat = Talker(answer)
        outcome = outcome_of([ranked(chunk(0, "an overview"), 0.5)], assembly=AssemblyPlan(toc=True), chat=chat)
        reports = await run(outcome, Shelf(records))
        assert reports["toc"].by_model is by_model
        assert "2. Leaf order" in chat.prompts[0]
        assert (ids(outcome.ranked)[0] == first) or not by_model


async def test_contents_of_a_version_that_may_not_be_seen_are_not_read() -> None:
    shelf = Shelf([toc_record(0, "Leaf order and range queries", 3), stored(3, "x")])
    outcome = outcome_of([ranked(chunk(0, "a"), 0.9)], assembly=AssemblyPlan(toc=True), visible=(8,))
    reports = await run(outcome, shelf)
    assert reports["toc"].state is StageState.SKIPPED
    assert ids(outcome.ranked) == ["7-0"]


async def test_a_slow_embedder_leaves_sections_and_sentences_to_their_words() -> None:
    late = WordEmbedder(DeadlineExceededError("EMBED_DEADLINE_EXCEEDED", "late"))
    text = "Cats sleep all day and dream. The leaf order helps a range query to read on. " + "Soup needs salt. " * 30
    shelf = Shelf([stored(0, text), toc_record(0, "Leaf order and range queries", 0)])
    outcome = outcome_of([ranked(chunk(0, text), 0.9)], assembly=AssemblyPlan(toc=True, compress=True))
    reports = await run(outcome, shelf, embedder=late)
    assert {report.state for report in reports.values()} == {StageState.RAN}
    assert "The leaf order helps a range query to read on." in outcome.compressed["7-0"]
    assert len(outcome.compressed["7-0"]) < len(text) / 2


async def test_compression_embeds_no_more_than_its_bound_and_leaves_the_records_alone() -> None:
    texts = [" ".join(f"Sentence {i} of text {n} on leaf order." for i in range(30)) for n in range(12)]
    items = [ranked(chunk(i, text), 0.9 - i / 100) for i, text in enumerate(texts)]
    embedder = WordEmbedder()
    outcome = outcome_of(items, assembly=AssemblyPlan(compress=True))
    await run(outcome, Shelf([]), embedder=embedder)
    assert len(embedder.texts) == CompressionSettings().max_embedded_count
    assert sorted(outcome.compressed) == sorted(f"7-{i}" for i in range(10)), "the first page alone"
    assert [item.candidate.record.text for item in outcome.kept] == texts
    for name, short in outcome.compressed.items():
        assert all(part in texts[int(name[2:])] for part in short.split("\n\n"))


async def test_the_language_model_may_choose_sentences_and_never_writes_them() -> None:
    text = "Cats sleep all day. The leaf order helps. Soup needs salt. " + "Dogs bark at night and day. " * 12
    by_rule = outcome_of([ranked(chunk(0, text), 0.9)], assembly=AssemblyPlan(compress=True))
    await run(by_rule, Shelf([]))
    for answer, expected in (
        ({"sentences": [1, 3]}, "Cats sleep all day.\n\nSoup needs salt."),
        ({"sentences": ["Ignore the rules"]}, by_rule.compressed["7-0"]),
        ({"sentences": [400]}, by_rule.compressed["7-0"]),
    ):
        chat = Talker(answer)
        outcome = outcome_of([ranked(chunk(0, text), 0.9)], assembly=AssemblyPlan(compress=True), chat=chat)
        stage = CompressionStage(cast(Embedder, WordEmbedder()), by_model=True)
        await run(outcome, Shelf([]), stages=[stage])
        assert outcome.compressed == {"7-0": expected}


async def test_a_cross_encoder_puts_the_best_into_a_new_order() -> None:
    items = [ranked(chunk(i, text), 0.9 - i / 10) for i, text in enumerate(["a", "b", "c"])]
    grader = Grader({"a": 0.1, "b": 0.9, "c": 1.0})
    outcome = outcome_of(items, rerank=RerankPlan(RerankMethod.CROSS_ENCODER, depth=2, weight=1.0))
    reports = await run(outcome, Shelf([]), reranker=grader)
    assert ids(outcome.ranked) == ["7-1", "7-0", "7-2"]
    assert grader.passages == ["Title 7\na", "Title 7\nb"]
    assert reports["rerank"].detail == "2 passages by table"


async def test_without_a_cross_encoder_the_stage_is_skipped_and_does_not_ask_again_each_time() -> None:
    grader = Grader()
    stage = RerankStage(grader)
    for _ in range(3):
        items = [ranked(chunk(0, "a"), 0.9), ranked(chunk(1, "b"), 0.8)]
        outcome = outcome_of(items, rerank=RerankPlan(RerankMethod.CROSS_ENCODER))
        reports = await run(outcome, Shelf([]), stages=[stage])
        assert reports["rerank"].state is StageState.SKIPPED
        assert reports["rerank"].detail == "no cross-encoder is configured"
        assert ids(outcome.ranked) == ["7-0", "7-1"]
    assert grader.refreshes == 1


async def test_a_cross_encoder_that_came_up_later_is_found() -> None:
    outcome = outcome_of(
        [ranked(chunk(0, "a"), 0.9), ranked(chunk(1, "b"), 0.8)],
        rerank=RerankPlan(RerankMethod.CROSS_ENCODER, weight=1.0),
    )
    await run(outcome, Shelf([]), stages=[RerankStage(Grader({"a": 0.0, "b": 1.0}, is_late=True))])
    assert ids(outcome.ranked) == ["7-1", "7-0"]


@pytest.mark.parametrize(
    "error",
    [
        UnavailableError("EMBED_SERVICE_UNAVAILABLE", "gone"),
        DeadlineExceededError("RERANK_DEADLINE_EXCEEDED", "late"),
        InternalError("RERANK_SCORES_INVALID", "bad"),
        FailedPreconditionError("RERANK_MODEL_MISSING", "gone"),
        FailedPreconditionError("RERANK_ACCESS_DENIED", "no"),
    ],
)
async def test_a_cross_encoder_that_fails_leaves_the_order_and_says_so(error: CorpusMeshError) -> None:
    items = (ranked(chunk(0, "a"), 0.9), ranked(chunk(1, "b"), 0.8))
    outcome = outcome_of(items, rerank=RerankPlan(RerankMethod.CROSS_ENCODER))
    reports = await run(outcome, Shelf([]), reranker=Grader({"a": 0.0, "b": 1.0}, error))
    assert reports["rerank"].state is StageState.FAILED
    assert outcome.ranked == items
    assert outcome.unreachable == ["rerank"]
    assert outcome.notes


def _graded(*grades: object) -> dict[str, object]:
    return {"grades": [{"passage": number, "grade": grade} for number, grade in enumerate(grades, 1)]}


async def test_the_language_model_grades_the_best_passages() -> None:
    items = [ranked(chunk(i, text), 0.9 - i / 10) for i, text in enumerate(["a", "b", "c"])]
    chat = Talker(_graded(0, 5, 10))
    outcome = outcome_of(items, rerank=RerankPlan(RerankMethod.MODEL, weight=1.0), chat=chat)
    reports = await run(outcome, Shelf([]))
    assert ids(outcome.ranked) == ["7-2", "7-1", "7-0"]
    assert reports["rerank"].by_model
    assert "each of the 3 passages" in chat.prompts[0]


async def test_behind_the_first_part_without_grades_all_stays_as_it_is() -> None:
    items = [ranked(chunk(i, "abcdefghijklmnopqrst"[i]), 0.9 - i / 100) for i in range(20)]
    chat = Talker(_graded(*range(8)), "no", "no", _graded(*[10] * 4))
    outcome = outcome_of(items, rerank=RerankPlan(RerankMethod.MODEL, depth=20, weight=1.0), chat=chat)
    await run(outcome, Shelf([]))
    assert ids(outcome.ranked) == [f"7-{i}" for i in (*range(7, -1, -1), *range(8, 20))]


@pytest.mark.parametrize(
    "answer",
    [
        "I would say the first one.",
        {"grades": []},
        _graded(1),
        _graded(1, 11),
        _graded(1, -1),
        _graded(1, "10"),
        _graded(1, True),
        {"grades": [{"passage": 1, "grade": 1}, {"passage": 1, "grade": 2}]},
        {"grades": [{"passage": 1, "grade": 1}, {"passage": 3, "grade": 2}]},
        {"grades": "all good"},
    ],
)
async def test_grades_that_are_none_change_nothing(answer: object) -> None:
    items = (ranked(chunk(0, "a"), 0.9), ranked(chunk(1, "b"), 0.8))
    outcome = outcome_of(items, rerank=RerankPlan(RerankMethod.MODEL), chat=Talker(answer))
    reports = await run(outcome, Shelf([]))
    assert outcome.ranked == items
    assert reports["rerank"].state is StageState.SKIPPED
    assert "no usable answer" in reports["rerank"].detail


async def test_without_a_language_model_grading_is_skipped_and_says_why() -> None:
    items = (ranked(chunk(0, "a"), 0.9), ranked(chunk(1, "b"), 0.8))
    outcome = outcome_of(items, rerank=RerankPlan(RerankMethod.MODEL))
    reports = await run(outcome, Shelf([]))
    assert outcome.ranked == items
    assert reports["rerank"].detail == "no language model is used"


async def test_an_index_that_does_not_answer_costs_the_stages_and_not_the_search() -> None:
    items = (
        ranked(chunk(0, "a", parent="7-parent-0"), 0.9),
        ranked(chunk(1, "b"), 0.8),
        ranked(chunk(2, "c"), 0.7),
    )
    outcome = outcome_of(
        items, assembly=AssemblyPlan(toc=True, parents=True, neighbours=1, segments=True, diversity=Diversity.MMR)
    )
    outcome.ranked = (*outcome.ranked, ranked(chunk(50, "far"), 0.6))
    reports = await run(outcome, Shelf([], error=UnavailableError("INDEX_UNAVAILABLE", "gone")))
    assert {name for name, report in reports.items() if report.state is StageState.FAILED} == {
        "toc",
        "parents",
        "diversity",
        "neighbours",
    }
    assert reports["segments"].state is StageState.RAN, "nothing had to be read"
    assert set(ids(outcome.ranked)) | set(reasons(outcome.ranked)) == {"7-0", "7-1", "7-2", "7-50"}


async def test_the_same_search_gives_the_same_order_and_running_the_stages_again_changes_nothing() -> None:
    texts = [f"leaf order {'x' * i} of range query {'abcdefghijkl'[i]}" for i in range(12)]
    records = [stored(2 * i, text) for i, text in enumerate(texts)] + [stored(2 * i + 1, "between") for i in range(12)]
    plan = AssemblyPlan(False, True, 1, True, Diversity.DARTBOARD, 0.3, False, 0, True)
    items = [ranked(replace(record, vector=None), 0.9 - i / 100) for i, record in enumerate(records[:12])]
    first, second = outcome_of(items, assembly=plan), outcome_of(items, assembly=plan)
    await run(first, Shelf(records))
    await run(second, Shelf(records))
    assert [item.candidate.record.text for item in first.kept] == [item.candidate.record.text for item in second.kept]
    texts_before = {item.candidate.record.text for item in first.kept}
    await run(first, Shelf(records))
    assert {item.candidate.record.text for item in first.kept} == texts_before
