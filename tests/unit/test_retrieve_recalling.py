import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import pytest
from pyroaring import BitMap

from corpusmesh_core.errors import UnavailableError
from corpusmesh_core.ports.embedding import Embedder, EmbeddingSpace, EmbedLane, EmbedResult, EmbedRole
from corpusmesh_core.ports.index import Candidate, Candidates, RecallRequest, RecordIndex
from corpusmesh_core.query import (
    QueryVariant,
    RecallPlan,
    RetrievalPlan,
    SearchMode,
    VariantOrigin,
)
from corpusmesh_core.ranking import merge_ranked
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.tenancy import Identity, MetadataFilter, Permission, Role, Scope, VisibilityInputs
from corpusmesh_core.text import analyze
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest
from corpusmesh_retrieve.recalling import MAX_VARIANTS
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_retrieve.stages import SearchStages, StageResult
from corpusmesh_runtime.context import CallContext

MODEL = EmbeddingSpace("model", 2, normalized=True, fingerprint="f")
TEXTS = {
    "1-0": "the ferry leaves at noon",
    "1-1": "the tram leaves at nine",
    "1-2": "an otter lives in the harbour",
    "1-3": "lighthouse keepers climb",
}
STATEMENT = Record("1-p", RecordKind.PROPOSITION, "kb", Ordinal(1), (Ordinal(1),), "lighthouse stairs", links=("1-3",))


class KnownSnapshots:
    """Shows every knowledge base; those named "other…" stand in another space, and "empty" has nothing published."""

    async def visibility_inputs(
        self,
        identity: Identity,
        knowledge_base_id: str,
        *,
        snapshot_id: int | None = None,
        metadata_filter: MetadataFilter | None = None,
    ) -> VisibilityInputs:
        assert identity.tenant_id == "acme"
        is_empty = knowledge_base_id == "empty"
        return VisibilityInputs(
            knowledge_base_id,
            "ann",
            Permission.TEAM,
            {},
            "other-space" if knowledge_base_id.startswith("other") else MODEL.space_id,
            1,
            0 if is_empty else 1,
            b"" if is_empty else BitMap([1]).serialize(),
            (),
            None if metadata_filter is None else (),
            2,
        )


class CountingEmbedder:
    """Embeds by length of text, and remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], EmbedRole]] = []
        self.is_away = False
        self.changes_to: EmbeddingSpace | None = None
        self.space = MODEL

    async def refresh(self, *, deadline_seconds: float) -> None:
        assert deadline_seconds > 0

    async def embed(
        self, texts: Sequence[str], *, role: EmbedRole, lane: EmbedLane, deadline_seconds: float
    ) -> EmbedResult:
        assert lane is EmbedLane.INTERACTIVE
        assert deadline_seconds > 0
        if self.is_away:
            raise UnavailableError("EMBED_UNAVAILABLE", "the embed service does not answer")
        if self.changes_to is not None:
            self.space, self.changes_to = self.changes_to, None
            raise UnavailableError("EMBED_MODEL_CHANGED", "the embed service runs another model than a moment ago")
        self.calls.append((list(texts), role))
        angles = np.array([len(text) / 100 for text in texts])
        return EmbedResult(np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32), len(texts))


class WordIndex:
    """Finds records that share a word with the request, and remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[RecallRequest]]] = []

    async def search(
        self, tenant_id: str, space_id: str, requests: Sequence[RecallRequest], *, timeout_seconds: float
    ) -> list[Candidates]:
        assert tenant_id == "acme"
        assert timeout_seconds > 0
        self.calls.append((space_id, list(requests)))
        return [Candidates(tuple(self._found(request)), 10, has_vector_leg=True) for request in requests]

    def _found(self, request: RecallRequest) -> Iterator[Candidate]:
        asked = set(request.terms.fine)
        records = [
            Record(name, RecordKind.CHUNK, "kb", Ordinal(1), (Ordinal(1),), text) for name, text in TEXTS.items()
        ]
        for record in [*records, STATEMENT]:
            own = analyze(record.text).fine
            is_wanted = record.record_id in request.record_ids if request.record_ids is not None else asked & set(own)
            if record.kind in request.visibility.kinds and is_wanted:
                reference = None if request.reference is None else 0.8
                yield Candidate(
                    record,
                    " ".join(own),
                    script="spaced",
                    lexical_score=1.0,
                    cosine=0.9,
                    reference_lexical_score=None if reference is None else 0.0,
                    reference_cosine=reference,
                )


class AddVariants:
    """An understanding stage that adds variants."""

    name = "variants"

    def __init__(self, variants: Sequence[QueryVariant]) -> None:
        self._variants = variants

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        return not outcome.found

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        assert call.remaining_seconds() > 0
        outcome.variants.extend(self._variants)
        return StageResult()


class Bench:
    """A searcher over these."""

    def __init__(self, *variants: QueryVariant) -> None:
        self.index = WordIndex()
        self.embedder = CountingEmbedder()
        self.searcher = Searcher(
            cast("Any", KnownSnapshots()),
            cast("RecordIndex", self.index),
            cast("Embedder", self.embedder),
            SearchStages(understanding=(AddVariants(variants),)),
        )
        self.call = CallContext(Identity("acme", "ann", Role.VIEWER, Scope.READ), "r-1", time.monotonic() + 60.0)

    async def search(
        self, query: str, plan: RetrievalPlan | None = None, *, bases: tuple[str, ...] = ("kb",)
    ) -> SearchOutcome:
        made = plan or RetrievalPlan()
        return await self.searcher.search(
            self.call, SearchRequest(bases, query, lambda _: made, session=cast("Any", None))
        )


def _ids(outcome: SearchOutcome) -> list[str]:
    return [item.candidate.record.record_id for item in outcome.kept]


async def test_all_variants_take_one_round_trip_and_one_embedding_call_for_each_role() -> None:
    bench = Bench(
        QueryVariant("tram", VariantOrigin.PART, 0.8),
        QueryVariant("an otter lives", VariantOrigin.HYPOTHETICAL, 0.8, is_passage=True),
        QueryVariant("ships", VariantOrigin.TRANSLATION, by_vector=False),
        QueryVariant("harbour", VariantOrigin.STEP_BACK, 0.5, by_words=False),
    )
    outcome = await bench.search("ferry")
    assert sorted(bench.embedder.calls) == [
        (["an otter lives"], EmbedRole.PASSAGE),
        (["ferry", "tram", "harbour"], EmbedRole.QUERY),
    ]
    [(space_id, requests)] = bench.index.calls
    assert space_id == MODEL.space_id
    assert [request.terms.is_empty for request in requests] == [False, False, False, False, True]
    assert [request.query_vector is None for request in requests] == [False, False, False, True, False]
    assert [request.reference is None for request in requests] == [True, False, False, False, False]
    assert all(
        request.reference is None or request.reference.query_vector is outcome.query_vector for request in requests
    )
    assert [len(part.items) for part in outcome.found[0]] == [1, 1, 1, 0, 0]
    assert outcome.query_vector is outcome.variant_vectors[0]
    assert len(outcome.variant_vectors) == len(outcome.variants) == 5
    assert _ids(outcome)[0] == "1-0"
    by_id = {item.candidate.record.record_id: item.explanation.variant for item in outcome.ranked}
    assert by_id == {"1-0": 0, "1-1": 1, "1-2": 2}


async def test_variants_take_fewer_candidates_than_a_question_that_asks_for_very_many() -> None:
    bench = Bench(*(QueryVariant(f"tram {place}", VariantOrigin.PART, 0.8) for place in range(9)))
    for window in (64, 1000):
        await bench.search("ferry", RetrievalPlan(window=window, page_size=10))
        [question, *variants] = bench.index.calls[-1][1]
        assert question.window == window
        assert sum(request.window for request in variants) <= 9 * 128
        assert all(request.window == min(window, 128) for request in variants)


async def test_further_texts_are_searched_in_the_same_view_and_merge_into_the_order() -> None:
    bench = Bench()
    outcome = await bench.search("ferry")
    before = outcome.ranked
    further = await bench.searcher.recall_more(
        bench.call, outcome, [QueryVariant("tram leaves", VariantOrigin.HOP, 0.9), QueryVariant(" ", VariantOrigin.HOP)]
    )
    assert outcome.ranked == before
    assert {item.candidate.record.record_id for item in further} == {"1-0", "1-1"}
    assert [variant.text for variant in outcome.variants] == ["ferry", "tram leaves"]
    assert len(outcome.variant_vectors) == len(outcome.found[0]) == 2
    first, second = bench.index.calls
    assert second[1][0].visibility == first[1][0].visibility
    assert second[1][0].knowledge_base_ids == first[1][0].knowledge_base_ids
    merged = merge_ranked(before, further)
    assert [item.candidate.record.record_id for item in merged] == ["1-0", "1-1"]
    assert await bench.searcher.recall_more(bench.call, outcome, []) == ()


async def test_failing_to_search_further_leaves_the_search_as_it_was() -> None:
    bench = Bench()
    outcome = await bench.search("ferry", RetrievalPlan(mode=SearchMode.VECTOR))
    bench.embedder.is_away = True
    with pytest.raises(UnavailableError):
        await bench.searcher.recall_more(bench.call, outcome, [QueryVariant("tram", VariantOrigin.HOP)])
    assert len(outcome.variants) == len(outcome.variant_vectors) == len(outcome.found[0]) == 1


async def test_no_more_variants_than_the_bound_are_searched() -> None:
    bench = Bench(*(QueryVariant(f"tram {place}", VariantOrigin.PART) for place in range(40)))
    outcome = await bench.search("ferry")
    assert len(outcome.variants) == len(bench.index.calls[0][1]) == MAX_VARIANTS
    more = [QueryVariant(f"otter {place}", VariantOrigin.HOP) for place in range(40)]
    await bench.searcher.recall_more(bench.call, outcome, more)
    assert len(bench.index.calls[1][1]) == MAX_VARIANTS - 1


async def test_a_statement_brings_its_chunk_which_is_scored_by_the_question() -> None:
    plan = RetrievalPlan(recall=RecallPlan(derived=True, minimum_match=0.3))
    bench = Bench()
    outcome = await bench.search("stairs of a lighthouse", plan)
    recalled, fetched = bench.index.calls[0][1], bench.index.calls[1:]
    assert [set(request.visibility.kinds) for request in recalled] == [
        {RecordKind.CHUNK},
        {RecordKind.QUESTION, RecordKind.PROPOSITION, RecordKind.SUMMARY, RecordKind.MEMORY},
    ]
    assert [request.matching.minimum_match for request in recalled] == [0.3, 0.0]
    assert [request.matching.corrects_spelling for request in recalled] == [True, False]
    assert fetched == [], "the chunk is a candidate by its own words"
    assert outcome.ranked[0].via_record_ids == ("1-p",)
    assert [len(part.items) for part in outcome.derived] == [1]


async def test_a_chunk_that_only_a_statement_leads_to_is_read_with_its_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(TEXTS, "1-3", "keepers climb")
    bench = Bench()
    outcome = await bench.search("lighthouse stairs", RetrievalPlan(recall=RecallPlan(derived=True)))
    [_, (_, [fetched])] = bench.index.calls
    assert fetched.record_ids == ("1-3",)
    assert fetched.visibility.kinds == (RecordKind.CHUNK,)
    assert _ids(outcome) == ["1-3"]
    assert outcome.ranked[0].via_record_ids == ("1-p",)
    assert outcome.ranked[0].explanation.vector.raw == 0.9


async def test_kinds_that_the_plan_asks_for_are_returned_as_themselves() -> None:
    plan = RetrievalPlan(kinds=(RecordKind.PROPOSITION,), recall=RecallPlan(derived=True))
    bench = Bench()
    outcome = await bench.search("lighthouse", plan)
    assert len(bench.index.calls[0][1]) == 1
    assert _ids(outcome) == ["1-p"]


async def test_without_the_model_words_find_and_the_answer_says_so_once() -> None:
    bench = Bench()
    bench.embedder.is_away = True
    outcome = await bench.search("ferry")
    await bench.searcher.recall_more(bench.call, outcome, [QueryVariant("tram", VariantOrigin.HOP)])
    assert _ids(outcome) == ["1-0"]
    assert outcome.unreachable == ["vector", "vector"]
    assert len(outcome.notes) == 1


@pytest.mark.parametrize(
    ("space", "note"),
    [
        (EmbeddingSpace("other", 2, normalized=True, fingerprint="g"), ["another embedding model"]),
        (MODEL, []),
    ],
    ids=["changed", "changed back"],
)
async def test_a_model_that_was_changed_since_the_last_search_is_told_from_one_that_is_away(
    space: EmbeddingSpace, note: list[str]
) -> None:
    bench = Bench()
    bench.embedder.changes_to = space
    outcome = await bench.search("when does the ferry leave")
    assert len(outcome.notes) == len(note)
    assert all(part in told for part, told in zip(note, outcome.notes, strict=True))
    assert outcome.unreachable == (["vector"] if note else [])
    assert (outcome.query_vector is None) is bool(note)


async def test_spaces_are_searched_side_by_side_and_only_the_models_own_by_vector() -> None:
    bench = Bench(QueryVariant("tram", VariantOrigin.PART))
    outcome = await bench.search("ferry", bases=("kb", "other-1", "other-2", "empty"))
    by_space = dict(bench.index.calls)
    assert by_space.keys() == {MODEL.space_id, "other-space"}
    assert [request.query_vector is None for request in by_space["other-space"]] == [True, True]
    assert by_space["other-space"][0].knowledge_base_ids == ("other-1", "other-2")
    assert [len(found) for found in outcome.found] == [2, 2]
    assert outcome.unreachable == ["vector"]
    scores = [item.similarity for item in outcome.kept]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    "query",
    [
        "a",
        "章",
        "what is the of and to",
        "?!… — ,.;",
        "🦡🚂",
        'title:"x" AND (NOT *:* OR foo~2^9)',
        "word " * 5000,
        "\x00\u202e",
    ],
)
@pytest.mark.parametrize("mode", list(SearchMode))
async def test_a_question_of_any_shape_finds_something_or_nothing(query: str, mode: SearchMode) -> None:
    plan = RetrievalPlan(mode=mode, recall=RecallPlan(derived=True, minimum_match=0.3, lexical_gate=True))
    for bases in (("kb",), ("empty",), ("kb", "empty", "other-1")):
        if mode is SearchMode.VECTOR and "empty" not in bases and "other-1" in bases:
            continue
        bench = Bench()
        outcome = await bench.search(query, plan, bases=bases)
        assert len(outcome.found) == len(outcome.views)
        assert all(text for texts, _ in bench.embedder.calls for text in texts)
        if bases == ("empty",):
            assert bench.index.calls == []
            assert bench.embedder.calls == []
            assert outcome.ranked == ()


@pytest.mark.parametrize(("query", "is_noted"), [("what is the of and to", True), ("?!", True), ("ferry", False)])
async def test_a_question_without_a_telling_word_is_told_so(query: str, *, is_noted: bool) -> None:
    outcome = await Bench().search(query)
    assert any("no telling word" in note for note in outcome.notes) is is_noted


@pytest.mark.parametrize(
    ("origin", "lifts"),
    [(VariantOrigin.REWRITE, False), (VariantOrigin.HOP, True), (VariantOrigin.PART, True)],
)
async def test_a_rewrite_that_is_about_something_else_lifts_little_and_a_hop_may_lead_away(
    origin: VariantOrigin, *, lifts: bool
) -> None:
    bench = Bench()
    outcome = await bench.search("ferry")
    # The stand-in model puts texts apart by their length: this one is at a right angle to the question.
    far = QueryVariant(("tram leaves nine " * 10)[:162], origin, 0.9)
    further = await bench.searcher.recall_more(bench.call, outcome, [far])
    [tram] = [item for item in further if item.candidate.record.record_id == "1-1"]
    assert (tram.explanation.variant == 1) is lifts
