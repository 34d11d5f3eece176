import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from pyroaring import FrozenBitMap

from corpusmesh_adapters.opensearch import OpenSearchRecordIndex, OpenSearchSettings
from corpusmesh_adapters.opensearch.mapping import space_body
from corpusmesh_adapters.opensearch.names import space_alias, space_index
from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.documents import Box
from corpusmesh_core.errors import (
    ConflictError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from corpusmesh_core.ports.index import (
    Candidates,
    IndexSpace,
    RecallRequest,
    RecordSelection,
    Reference,
    WordMatching,
)
from corpusmesh_core.ranking import RankingOptions, rank_candidates
from corpusmesh_core.records import RULE_BY_KIND, Ordinal, Record, RecordKind
from corpusmesh_core.text import Alternative, QueryTerms, analyze, analyze_query
from corpusmesh_core.visibility import SINGLE_SOURCE_KINDS, Visibility, VisibilityFilter, build_filter, is_visible

pytestmark = pytest.mark.servers

_SPACE = IndexSpace("test-8", 8)
_SECONDS = 30.0


@pytest.fixture
async def index(stack_endpoints: StackEndpoints) -> AsyncIterator[OpenSearchRecordIndex]:
    opened = OpenSearchRecordIndex(OpenSearchSettings(urls=(stack_endpoints.opensearch_url,)))
    yield opened
    await opened.close()


def _vector(seed: int) -> NDArray[np.float32]:
    vector = np.random.default_rng(seed).normal(size=8).astype(np.float32)
    return vector / np.linalg.norm(vector)


def _chunk(record_id: str, text: str, *, ordinal: int = 1, seed: int | None = None, **fields: object) -> Record:
    vector = None if seed is None else _vector(seed)
    return Record(
        record_id,
        RecordKind.CHUNK,
        "kb",
        Ordinal(ordinal),
        (Ordinal(ordinal),),
        text,
        vector=vector,
        **fields,  # type: ignore[arg-type]
    )


def _all_visible(*kinds: RecordKind, size: int = 100) -> VisibilityFilter:
    return build_filter(Visibility.of("s", range(size), size), kinds or [RecordKind.CHUNK])


async def _fill(index: OpenSearchRecordIndex, tenant_id: str, records: list[Record]) -> None:
    await index.ensure_space(tenant_id, _SPACE, timeout_seconds=_SECONDS)
    await index.write(tenant_id, _SPACE.space_id, records, epoch=1, timeout_seconds=_SECONDS)
    await index.refresh(tenant_id, _SPACE.space_id, timeout_seconds=_SECONDS)


async def _search_ids(
    index: OpenSearchRecordIndex, tenant_id: str, question: str, vector: NDArray[np.float32] | None = None
) -> list[str]:
    terms = analyze_query(question)
    [candidates] = await index.search(
        tenant_id,
        _SPACE.space_id,
        [RecallRequest(terms, vector, _all_visible(), ("kb",))],
        timeout_seconds=_SECONDS,
    )
    return [item.candidate.record.record_id for item in rank_candidates(candidates, terms, RankingOptions())]


async def test_record_comes_back_as_it_was_written(index: OpenSearchRecordIndex, tenant_id: str) -> None:
    record = Record(
        "r-1",
        RecordKind.CHUNK,
        "kb",
        Ordinal(7),
        (Ordinal(7),),
        'text with \U0001f600 and "quotes"\n第二行',
        title="A title",
        document_id="doc",
        version=3,
        display_name="名字.pdf",
        heading_path=("One", "Two"),
        page=4,
        boxes=(Box(4, 1.5, 2, 3, 4.25), Box(5, 0, 0, 9, 9)),
        position=11,
        token_count=12,
        language="en",
        keywords=("k one", "k two"),
        questions=("why?",),
        vector=_vector(1),
        attributes={"parent.id": "p-1", "layer": "2"},
        context="One\nTable 3: what it costs",
        tags={"prices.2026": 0.75, "名": 1.0},
        links=("7-parent-0", "7-2"),
    )
    await _fill(index, tenant_id, [record])
    (found,) = await index.fetch(
        tenant_id, _SPACE.space_id, ["r-1"], _all_visible(), with_vectors=True, timeout_seconds=_SECONDS
    )
    assert found.vector is not None
    assert record.vector is not None
    assert np.allclose(found.vector, record.vector, atol=1e-6)
    for name in record.__slots__:
        if name != "vector":
            assert getattr(found, name) == getattr(record, name), name


async def test_context_is_searched_and_links_and_tags_can_be_asked_for(
    index: OpenSearchRecordIndex, tenant_id: str, stack_endpoints: StackEndpoints
) -> None:
    records = [
        _chunk("a", "42 euros", seed=1, context="Fees\nTable 3: annual membership", heading_path=("Fees",), title="T"),
        _chunk("b", "43 euros", seed=2, links=("1-parent-0",), tags={"price": 0.5}),
        _chunk("c", "44 euros", seed=3, context="会员费", heading_path=("Fees",), title="T"),
    ]
    await _fill(index, tenant_id, records)
    assert await _search_ids(index, tenant_id, "membership") == ["a"]
    assert await _search_ids(index, tenant_id, "会员费") == ["c"]
    terms = analyze_query("fees")
    [found] = await index.search(
        tenant_id, _SPACE.space_id, [RecallRequest(terms, None, _all_visible(), ("kb",))], timeout_seconds=_SECONDS
    )
    by_id = {item.record.record_id: item for item in found.items}
    assert by_id["a"].content_terms.split().count("fee") == 1, "a heading that the context repeats counts once"
    assert {item.script for item in found.items} == {by_id["a"].script}, "the script is that of the text alone"
    async with httpx.AsyncClient(base_url=stack_endpoints.opensearch_url, timeout=_SECONDS) as client:
        for field, value in (("links", "1-parent-0"), ("tag_names", "price")):
            answer = await client.post(
                f"/{space_alias(tenant_id, _SPACE.space_id)}/_search", json={"query": {"term": {field: value}}}
            )
            assert [hit["_id"] for hit in answer.json()["hits"]["hits"]] == ["b"], field


async def test_scan_reads_every_visible_record_and_no_other(index: OpenSearchRecordIndex, tenant_id: str) -> None:
    records = [
        Record(
            f"{ordinal}-tag_example-{position}",
            RecordKind.TAG_EXAMPLE,
            "kb" if ordinal != 3 else "other",
            Ordinal(ordinal),
            (Ordinal(ordinal),),
            f"example {position}",
            # Several records may stand at one place.
            position=position // 2,
            tags={"tag": 1.0},
        )
        for ordinal in (1, 2, 3)
        for position in range(1100 if ordinal == 1 else 3)
    ]
    await _fill(index, tenant_id, [*records, _chunk("1-0", "no example")])
    visibility = build_filter(Visibility.of("s", [1, 3], 4), [RecordKind.TAG_EXAMPLE])

    async def scan(max_count: int) -> list[Record]:
        return await index.scan(
            tenant_id,
            _SPACE.space_id,
            visibility,
            knowledge_base_ids=("kb",),
            max_count=max_count,
            timeout_seconds=_SECONDS,
        )

    found = await scan(5000)
    assert sorted(record.record_id for record in found) == sorted(
        record.record_id for record in records if record.publisher == 1
    )
    assert [record.position for record in found] == sorted(record.position for record in found)
    assert found[0].tags == {"tag": 1.0}
    assert len(await scan(1050)) == 1050
    with pytest.raises(InvalidArgumentError):
        await scan(0)


def _node(
    record_id: str, layer: int, publisher: int, sources: tuple[int, ...], seed: int, document: str = ""
) -> Record:
    return Record(
        record_id,
        RecordKind.TREE_NODE,
        "kb",
        Ordinal(publisher),
        tuple(Ordinal(source) for source in sources),
        f"alpha on layer {layer}",
        document_id=document,
        vector=_vector(seed),
        layer=layer,
    )


async def test_nodes_of_trees_are_found_by_layer_by_tree_and_only_with_all_their_sources(
    index: OpenSearchRecordIndex, tenant_id: str
) -> None:
    file_tree = [_node("f1", 1, 1, (1,), 11, "doc"), _node("f2", 2, 1, (1,), 12, "doc")]
    dataset = [_node("d1", 1, 7, (1, 2), 13), _node("d2", 1, 8, (1, 3), 14), _node("d3", 2, 9, (1, 2, 3), 15)]
    chunks = [_chunk(f"c{number}", "alpha", ordinal=number, seed=number) for number in (1, 2, 3)]
    await _fill(index, tenant_id, [*file_tree, *dataset, *chunks])
    every = _all_visible(RecordKind.CHUNK, RecordKind.TREE_NODE)
    # The third version is hidden, all builds are published.
    some = build_filter(Visibility.of("s", [1, 2, 7, 8, 9], 10), [RecordKind.CHUNK, RecordKind.TREE_NODE])

    async def found(visibility: VisibilityFilter, layers: tuple[int, ...] | None, ids: tuple[str, ...] | None) -> str:
        request = RecallRequest(
            analyze_query("alpha"), _vector(3), visibility, ("kb",), record_ids=ids, layers=layers, window=20
        )
        [candidates] = await index.search(tenant_id, _SPACE.space_id, [request], timeout_seconds=_SECONDS)
        return " ".join(sorted(item.record.record_id for item in candidates.items))

    assert await found(every, (1,), None) == "d1 d2 f1"
    assert await found(every, (2, 3), None) == "d3 f2"
    assert await found(every, (), None) == ""
    assert await found(every, (1,), ("f1", "f2", "c1")) == "f1"
    assert await found(some, (1, 2), None) == "d1 f1 f2"
    assert await found(some, None, None) == "c1 c2 d1 f1 f2"
    linked = replace(_node("top", 3, 1, (1,), 16, "doc"), links=("c1", "c2"))
    await index.write(tenant_id, _SPACE.space_id, [linked], epoch=1, timeout_seconds=_SECONDS)
    await index.refresh(tenant_id, _SPACE.space_id, timeout_seconds=_SECONDS)
    named = RecallRequest(analyze_query("alpha layer"), None, every, ("kb",), linking_to=("c2", "c3"))
    few = RecallRequest(
        analyze_query("alpha layer"), None, every, ("kb",), record_ids=("c1", "d1", "f1", "c2"), given_count=2
    )
    above, best = await index.search(tenant_id, _SPACE.space_id, [named, few], timeout_seconds=_SECONDS)
    assert [item.record.record_id for item in above.items] == ["top"]
    assert sorted(item.record.record_id for item in best.items) == ["d1", "f1"], "those that hold both words"
    for layers, visibility, expected in (((1,), every, 3), ((1,), some, 2), ((9,), every, 0), (None, some, 6)):
        selection = RecordSelection(visibility=visibility, layers=layers)
        assert await index.count(tenant_id, _SPACE.space_id, selection, timeout_seconds=_SECONDS) == expected

    async def scanned(visibility: VisibilityFilter, **only: tuple[int, ...] | tuple[str, ...]) -> list[str]:
        records = await index.scan(
            tenant_id,
            _SPACE.space_id,
            visibility,
            knowledge_base_ids=("kb",),
            max_count=100,
            timeout_seconds=_SECONDS,
            **only,  # type: ignore[arg-type]
        )
        return [record.record_id for record in records]

    nodes = _all_visible(RecordKind.TREE_NODE)
    assert await scanned(nodes, document_ids=("doc",)) == ["f1", "f2", "top"]
    assert await scanned(nodes, layers=(1,)) == ["f1", "d1", "d2"]
    assert await scanned(some, layers=(1,)) == ["f1", "d1"]
    assert await scanned(nodes, layers=()) == []
    assert await scanned(nodes, layers=(3,), document_ids=("doc",)) == ["top"]
    assert await scanned(nodes, layers=(1,), document_ids=("other",)) == []


async def test_every_candidate_has_both_scores(index: OpenSearchRecordIndex, tenant_id: str) -> None:
    records = [_chunk(f"word-{i}", "alpha beta", seed=i) for i in range(5)]
    records += [_chunk(f"near-{i}", "gamma", seed=100 + i) for i in range(5)]
    records += [_chunk("no-vector", "alpha")]
    await _fill(index, tenant_id, records)
    query = _vector(102)
    [candidates] = await index.search(
        tenant_id,
        _SPACE.space_id,
        [RecallRequest(analyze_query("alpha"), query, _all_visible(), ("kb",), window=6)],
        timeout_seconds=_SECONDS,
    )
    vectors = {record.record_id: record.vector for record in records}
    assert {item.record.record_id for item in candidates.items} >= {"no-vector", "near-2"}
    for item in candidates.items:
        vector = vectors[item.record.record_id]
        expected = None if vector is None else float(vector @ query)
        assert item.cosine == (None if expected is None else pytest.approx(expected, abs=1e-5))
        assert item.lexical_score is not None
        assert (item.lexical_score > 0) is ("alpha" in item.record.text)
        assert item.record.vector is None
    ranks = [
        item.vector_rank for item in sorted(candidates.items, key=lambda item: -(item.cosine or -9)) if item.vector_rank
    ]
    assert ranks == list(range(1, len(ranks) + 1))
    assert candidates.document_count == len(records)
    assert candidates.document_frequencies == {"alpha": 6}


async def test_every_candidate_of_a_variant_has_the_scores_of_the_question_too(
    index: OpenSearchRecordIndex, tenant_id: str
) -> None:
    records = [_chunk(f"word-{i}", "alpha beta", seed=i) for i in range(5)]
    records += [_chunk(f"near-{i}", "gamma", seed=100 + i) for i in range(5)]
    records += [_chunk("both", "gamma alpha", seed=200)]
    await _fill(index, tenant_id, records)
    question, variant = _vector(102), _vector(103)
    asked = RecallRequest(analyze_query("alpha"), question, _all_visible(), ("kb",), window=11)
    further = RecallRequest(
        analyze_query("gamma"),
        variant,
        _all_visible(),
        ("kb",),
        window=4,
        reference=Reference(asked.terms, asked.query_vector),
    )
    nothing = RecallRequest(analyze_query(""), None, _all_visible(), ("kb",))
    own, other, none = await index.search(
        tenant_id, _SPACE.space_id, [asked, further, nothing], timeout_seconds=_SECONDS
    )
    assert none.items == ()
    assert {item.reference_cosine for item in own.items} == {None}
    expected = {item.record.record_id: (item.lexical_score, item.cosine) for item in own.items}
    assert len(expected) == len(records)
    for item in other.items:
        score, cosine = expected[item.record.record_id]
        assert item.reference_lexical_score == pytest.approx(score)
        assert item.reference_cosine == pytest.approx(cosine)
        vector = next(record.vector for record in records if record.record_id == item.record.record_id)
        assert vector is not None
        assert item.cosine == pytest.approx(float(vector @ variant), abs=1e-5)
    by_words = [item for item in other.items if item.lexical_rank]
    assert {item.record.record_id[:4] for item in by_words} <= {"near", "both"}
    scores = [item.lexical_score or 0.0 for item in by_words]
    assert scores == sorted(scores, reverse=True)
    assert other.items[0].record is next(
        item.record for item in own.items if item.record.record_id == other.items[0].record.record_id
    ), "a record that several texts found is read once"
    assert other.document_frequencies == {"alpha": 6, "gamma": 6}


async def test_given_records_are_scored_like_recalled_ones_and_hidden_ones_are_left_out(
    index: OpenSearchRecordIndex, tenant_id: str
) -> None:
    records = [_chunk(f"r-{i}", "alpha" if i % 2 else "beta", seed=i) for i in range(8)]
    await _fill(index, tenant_id, [*records, _chunk("hidden", "alpha", ordinal=200, seed=50)])
    recalled = RecallRequest(analyze_query("alpha"), _vector(3), _all_visible(), ("kb",), window=8)
    given = replace(recalled, record_ids=("r-2", "hidden", "r-5", "unknown"))
    every, some = await index.search(tenant_id, _SPACE.space_id, [recalled, given], timeout_seconds=_SECONDS)
    expected = {item.record.record_id: (item.lexical_score, item.cosine) for item in every.items}
    assert {item.record.record_id for item in some.items} == {"r-2", "r-5"}
    for item in some.items:
        assert (item.lexical_rank, item.vector_rank) == (0, 0)
        assert (item.lexical_score, item.cosine) == pytest.approx(expected[item.record.record_id])


async def test_records_are_recalled_by_a_name_in_their_title_and_scored_by_the_question(
    index: OpenSearchRecordIndex, tenant_id: str
) -> None:
    records = [
        _chunk("exact", "beta", title="Diane Warren", seed=1),
        _chunk("longer", "alpha beta", title="Songs of Diane Warren", seed=2),
        _chunk("apart", "alpha", title="Diane and Warren", seed=3),
        _chunk("in text", "Diane Warren alpha", title="Other", seed=4),
        _chunk("hidden", "alpha", title="Diane Warren", ordinal=200, seed=5),
    ]
    await _fill(index, tenant_id, records)
    asked = RecallRequest(analyze_query("alpha"), _vector(3), _all_visible(), ("kb",), window=8)
    named = replace(asked, titles=(analyze("Diane Warren").fine, ("unknown",)))
    every, some, none = await index.search(
        tenant_id, _SPACE.space_id, [asked, named, replace(asked, titles=())], timeout_seconds=_SECONDS
    )
    assert {item.record.record_id for item in some.items} == {"exact", "longer"}
    assert not none.items
    expected = {item.record.record_id: (item.lexical_score, item.cosine) for item in every.items}
    for item in some.items:
        assert (item.lexical_rank, item.vector_rank) == (0, 0)
        assert (item.lexical_score, item.cosine) == pytest.approx(expected[item.record.record_id])
    [narrow] = await index.search(tenant_id, _SPACE.space_id, [replace(named, window=1)], timeout_seconds=_SECONDS)
    assert [item.record.record_id for item in narrow.items] == ["exact"], "the title that is the name goes first"
    too_many = replace(asked, titles=(("a",),) * 129)
    with pytest.raises(InvalidArgumentError, match="titles"):
        await index.search(tenant_id, _SPACE.space_id, [too_many], timeout_seconds=_SECONDS)


async def test_words_can_be_told_to_weigh_more_and_to_have_synonyms(
    index: OpenSearchRecordIndex, tenant_id: str
) -> None:
    await _fill(
        index, tenant_id, [_chunk("red", "red"), _chunk("blue", "blue"), _chunk("car", "motor car"), _chunk("x", "x")]
    )

    async def found(terms: QueryTerms) -> list[str]:
        request = RecallRequest(terms, None, _all_visible(), ("kb",))
        [candidates] = await index.search(tenant_id, _SPACE.space_id, [request], timeout_seconds=_SECONDS)
        return [item.record.record_id for item in candidates.items]

    plain = analyze_query("red blue")
    assert (await found(replace(plain, emphasis={"red": 3.0})))[0] == "red"
    assert (await found(replace(plain, emphasis={"blue": 3.0})))[0] == "blue"
    synonym = Alternative(("blue",), ("motor", "car"), 0.25)
    assert await found(replace(analyze_query("blue"), alternatives=(synonym,))) == ["blue", "car"]
    matching = WordMatching(minimum_match=1.0)
    request = RecallRequest(
        replace(analyze_query("blue x"), alternatives=(synonym,)), None, _all_visible(), ("kb",), matching=matching
    )
    [candidates] = await index.search(tenant_id, _SPACE.space_id, [request], timeout_seconds=_SECONDS)
    assert {item.record.record_id for item in candidates.items} == {"blue", "car", "x"}, "nothing holds both: a third"


async def test_hits_must_hold_a_share_of_the_terms_and_less_where_nothing_does(
    index: OpenSearchRecordIndex, tenant_id: str
) -> None:
    await _fill(
        index,
        tenant_id,
        [
            _chunk("two", "alpha beta", seed=1),
            _chunk("one", "alpha", seed=2),
            _chunk("keyword", "beta", seed=3, keywords=("gamma",)),
            _chunk("none", "delta", seed=4),
        ],
    )

    async def found(question: str, matching: WordMatching, vector: NDArray[np.float32] | None = None) -> set[str]:
        request = RecallRequest(analyze_query(question), vector, _all_visible(), ("kb",), matching=matching)
        [candidates] = await index.search(tenant_id, _SPACE.space_id, [request], timeout_seconds=_SECONDS)
        return {item.record.record_id for item in candidates.items}

    assert await found("alpha beta gamma", WordMatching(0.7)) == {"two", "keyword"}
    assert await found("alpha beta gamma", WordMatching(1.0)) == {"one", "two", "keyword"}, "a third is enough"
    assert await found("alpha", WordMatching(), _vector(4)) == {"one", "two", "keyword", "none"}
    assert await found("alpha", WordMatching(gates_vectors=True), _vector(4)) == {"one", "two"}
    assert await found("unknown", WordMatching(0.5, gates_vectors=True), _vector(4)) == set()


async def test_a_misspelt_word_is_searched_as_words_that_are_nearly_the_same(
    index: OpenSearchRecordIndex, tenant_id: str
) -> None:
    await _fill(
        index,
        tenant_id,
        [
            _chunk("bird", "the nightingale sings", seed=1),
            _chunk("other", "a lighthouse sings", seed=2),
            _chunk("hidden", "the nightingalf", seed=3, ordinal=200),
        ],
    )

    async def found(question: str) -> tuple[list[str], QueryTerms]:
        terms = analyze_query(question)
        request = RecallRequest(terms, None, _all_visible(), ("kb",), matching=WordMatching(corrects_spelling=True))
        [candidates] = await index.search(tenant_id, _SPACE.space_id, [request], timeout_seconds=_SECONDS)
        terms = replace(terms, alternatives=candidates.spellings)
        return [item.candidate.record.record_id for item in rank_candidates(candidates, terms, RankingOptions())], terms

    for _ in range(2):  # looked up, then remembered
        ids, terms = await found("nightinggale")
        assert ids == ["bird"]
        assert {alternative.replaced for alternative in terms.alternatives} == {analyze_query("nightinggale").fine}
        assert all(alternative.is_secret for alternative in terms.alternatives)
    ids, terms = await found("sings lighthuose")
    assert ids == ["other", "bird"]
    for question in ("lighthouse", "zebra", "灯塔", "a"):
        assert (await found(question))[1].alternatives == ()


async def test_neighbours_of_the_question_count_where_they_stand_side_by_side(
    index: OpenSearchRecordIndex, tenant_id: str
) -> None:
    await _fill(index, tenant_id, [_chunk("apart", "new homes in old york"), _chunk("beside", "york is old new york")])
    request = RecallRequest(analyze_query("new york"), None, _all_visible(), ("kb",))
    near = replace(request, matching=WordMatching(proximity=True))
    plain, closer = await index.search(tenant_id, _SPACE.space_id, [request, near], timeout_seconds=_SECONDS)

    def lead(candidates: Candidates) -> float:
        scores = {item.record.record_id: item.lexical_score or 0.0 for item in candidates.items}
        return scores["beside"] - scores["apart"]

    assert lead(closer) > lead(plain) + 0.1


async def test_records_of_the_other_script_are_recalled_apart(index: OpenSearchRecordIndex, tenant_id: str) -> None:
    # Every English vector is nearer to the question than the one Chinese record.
    near = _vector(1)
    records = [_chunk(f"en-{i}", "some english text") for i in range(20)]
    records = [Record(r.record_id, r.kind, "kb", r.publisher, r.sources, r.text, vector=near) for r in records] + [
        _chunk("zh", "一段中文", seed=2)
    ]
    await _fill(index, tenant_id, records)
    request = RecallRequest(analyze_query("text"), near, _all_visible(), ("kb",), window=4, other_script_window=2)
    [candidates] = await index.search(tenant_id, _SPACE.space_id, [request], timeout_seconds=_SECONDS)
    assert "zh" in {item.record.record_id for item in candidates.items}
    without = RecallRequest(request.terms, near, _all_visible(), ("kb",), window=4, other_script_window=0)
    [candidates] = await index.search(tenant_id, _SPACE.space_id, [without], timeout_seconds=_SECONDS)
    assert "zh" not in {item.record.record_id for item in candidates.items}


async def test_the_filter_of_the_index_equals_the_rule(index: OpenSearchRecordIndex, tenant_id: str) -> None:
    rng = np.random.default_rng(20261130)
    universe = 40
    records = []
    for number in range(300):
        kind = list(RecordKind)[int(rng.integers(len(RecordKind)))]
        publisher = int(rng.integers(universe + 3))
        sources = (
            (publisher,)
            if kind in SINGLE_SOURCE_KINDS
            else tuple(int(value) for value in rng.choice(universe + 3, size=int(rng.integers(1, 5)), replace=False))
        )
        records.append(
            Record(
                f"r{number}",
                kind,
                "kb",
                Ordinal(publisher),
                tuple(Ordinal(source) for source in sources),
                "word",
                vector=_vector(number),
            )
        )
    await _fill(index, tenant_id, records)
    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
        visible = [ordinal for ordinal in range(universe) if rng.random() < share]
        visibility = Visibility.of("s", visible, universe)
        for kinds in (
            [RecordKind.CHUNK],
            [RecordKind.ENTITY],
            [RecordKind.SUMMARY],
            [RecordKind.CHUNK, RecordKind.TREE_NODE],
            list(RecordKind),
        ):
            filter_ = build_filter(visibility, kinds)
            expected = {
                record.record_id
                for record in records
                if record.kind in kinds
                and is_visible(record.publisher, record.sources, RULE_BY_KIND[record.kind], visibility)
            }
            for terms, vector in ((analyze_query("word"), None), (analyze_query(""), _vector(7))):
                request = RecallRequest(terms, vector, filter_, ("kb",), window=300)
                [candidates] = await index.search(tenant_id, _SPACE.space_id, [request], timeout_seconds=_SECONDS)
                assert {item.record.record_id for item in candidates.items} == expected
            count = await index.count(
                tenant_id, _SPACE.space_id, RecordSelection(visibility=filter_), timeout_seconds=_SECONDS
            )
            assert count == len(expected)
            fetched = await index.fetch(
                tenant_id, _SPACE.space_id, [r.record_id for r in records], filter_, timeout_seconds=_SECONDS
            )
            assert {record.record_id for record in fetched} == expected


async def test_search_keeps_within_knowledge_bases_and_documents(index: OpenSearchRecordIndex, tenant_id: str) -> None:
    records = [
        Record(
            f"{kb}-{doc}", RecordKind.CHUNK, kb, Ordinal(1), (Ordinal(1),), "word", document_id=doc, vector=_vector(1)
        )
        for kb in ("kb", "other")
        for doc in ("d1", "d2")
    ]
    await _fill(index, tenant_id, records)

    async def found(knowledge_bases: tuple[str, ...], documents: tuple[str, ...] | None) -> set[str]:
        request = RecallRequest(analyze_query("word"), _vector(1), _all_visible(), knowledge_bases, documents)
        [candidates] = await index.search(tenant_id, _SPACE.space_id, [request], timeout_seconds=_SECONDS)
        return {item.record.record_id for item in candidates.items}

    assert await found(("kb",), None) == {"kb-d1", "kb-d2"}
    assert await found(("kb", "other"), ("d2",)) == {"kb-d2", "other-d2"}
    assert await found(("kb",), ()) == set()
    assert await found((), None) == set()


async def test_tenants_share_nothing_even_with_names_that_join_alike(index: OpenSearchRecordIndex) -> None:
    for tenant_id, space_id in (("a-b", "c"), ("a", "b-c")):
        await index.ensure_space(tenant_id, IndexSpace(space_id, 8), timeout_seconds=_SECONDS)
    await index.write("a-b", "c", [_chunk("x", "word", seed=1)], epoch=1, timeout_seconds=_SECONDS)
    await index.refresh("a-b", "c", timeout_seconds=_SECONDS)
    try:
        assert await index.count("a-b", None, RecordSelection(), timeout_seconds=_SECONDS) == 1
        assert await index.count("a", None, RecordSelection(), timeout_seconds=_SECONDS) == 0
    finally:
        await index.delete_made_of("a-b", [Ordinal(1)], timeout_seconds=_SECONDS)


async def test_space_is_made_once_by_many_at_the_same_time(index: OpenSearchRecordIndex, tenant_id: str) -> None:
    await asyncio.gather(*(index.ensure_space(tenant_id, _SPACE, timeout_seconds=_SECONDS) for _ in range(8)))
    with pytest.raises(FailedPreconditionError) as caught:
        await index.ensure_space(tenant_id, IndexSpace(_SPACE.space_id, 9), timeout_seconds=_SECONDS)
    assert caught.value.metadata["existing_dimension"] == "8"
    assert caught.value.metadata["requested_dimension"] == "9"


async def test_writing_into_a_missing_space_makes_no_index(index: OpenSearchRecordIndex, tenant_id: str) -> None:
    with pytest.raises(NotFoundError):
        await index.write(tenant_id, "nowhere", [_chunk("x", "word")], epoch=1, timeout_seconds=_SECONDS)
    with pytest.raises(NotFoundError):
        await index.search(
            tenant_id,
            "nowhere",
            [RecallRequest(analyze_query("x"), None, _all_visible(), ("kb",))],
            timeout_seconds=_SECONDS,
        )
    assert await index.count(tenant_id, None, RecordSelection(), timeout_seconds=_SECONDS) == 0


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ([math.nan] + [0.5] * 7, "NaN"),
        ([0.0] * 8, "norm 0.000"),
        ([1.0, 1.0] + [0.0] * 6, "norm 1.414"),
        ([1.0] + [0.0] * 8, "dimension 8"),
    ],
)
async def test_bad_vector_is_refused_with_its_id_before_anything_is_written(
    index: OpenSearchRecordIndex, tenant_id: str, vector: list[float], reason: str
) -> None:
    bad = Record(
        "bad", RecordKind.CHUNK, "kb", Ordinal(1), (Ordinal(1),), "x", vector=np.array(vector, dtype=np.float32)
    )
    await index.ensure_space(tenant_id, _SPACE, timeout_seconds=_SECONDS)
    with pytest.raises(InvalidArgumentError) as caught:
        await index.write(
            tenant_id, _SPACE.space_id, [_chunk("good", "x", seed=1), bad], epoch=1, timeout_seconds=_SECONDS
        )
    assert caught.value.metadata["record_ids"] == "bad"
    assert reason in caught.value.metadata["reasons"]
    await index.refresh(tenant_id, _SPACE.space_id, timeout_seconds=_SECONDS)
    assert await index.count(tenant_id, _SPACE.space_id, RecordSelection(), timeout_seconds=_SECONDS) == 0


async def test_purge_removes_records_of_all_spaces_and_only_of_the_publisher(
    index: OpenSearchRecordIndex, tenant_id: str
) -> None:
    second = IndexSpace("second-8", 8)
    await _fill(index, tenant_id, [_chunk("a", "x", ordinal=1, seed=1), _chunk("b", "x", ordinal=2, seed=2)])
    await index.ensure_space(tenant_id, second, timeout_seconds=_SECONDS)
    await index.write(
        tenant_id, second.space_id, [_chunk("a", "x", ordinal=1, seed=1)], epoch=1, timeout_seconds=_SECONDS
    )
    assert await index.delete_made_of(tenant_id, [Ordinal(1)], timeout_seconds=_SECONDS) == 2
    assert await index.delete_made_of(tenant_id, [Ordinal(1)], timeout_seconds=_SECONDS) == 0
    remaining = RecordSelection(publishers=[Ordinal(1), Ordinal(2)])
    assert await index.count(tenant_id, None, remaining, timeout_seconds=_SECONDS) == 1


@pytest.mark.parametrize("kind", [RecordKind.SUMMARY, RecordKind.ENTITY, RecordKind.COMMUNITY_REPORT])
async def test_purge_of_one_source_takes_what_a_build_made_of_it_and_of_others(
    index: OpenSearchRecordIndex, tenant_id: str, kind: RecordKind
) -> None:
    build = Ordinal(9)
    made = [
        Record(name, kind, "kb", build, tuple(map(Ordinal, sources)), "x", vector=_vector(1))
        for name, sources in (("both", (1, 2)), ("other", (2,)), ("mine", (1,)))
    ]
    await _fill(index, tenant_id, [_chunk("a", "x", ordinal=1, seed=1), *made])
    purged = RecordSelection(made_of=[Ordinal(1)])
    assert await index.count(tenant_id, None, purged, timeout_seconds=_SECONDS) == 3
    assert await index.delete_made_of(tenant_id, [Ordinal(1)], timeout_seconds=_SECONDS) == 3
    assert await index.count(tenant_id, None, purged, timeout_seconds=_SECONDS) == 0
    assert await index.count(tenant_id, None, RecordSelection(publishers=[build]), timeout_seconds=_SECONDS) == 1


async def test_writing_twice_is_the_same_as_once(index: OpenSearchRecordIndex, tenant_id: str) -> None:
    records = [_chunk(f"r{i}", f"text {i}", seed=i) for i in range(70)]
    await _fill(index, tenant_id, records)
    await _fill(index, tenant_id, records)
    assert await index.count(tenant_id, _SPACE.space_id, RecordSelection(), timeout_seconds=_SECONDS) == 70


async def test_hidden_and_unknown_ids_are_left_out_alike(index: OpenSearchRecordIndex, tenant_id: str) -> None:
    await _fill(index, tenant_id, [_chunk("seen", "x", ordinal=1), _chunk("hidden", "x", ordinal=2)])
    filter_ = build_filter(Visibility("s", FrozenBitMap([1]), 10), [RecordKind.CHUNK])
    found = await index.fetch(
        tenant_id, _SPACE.space_id, ["unknown", "hidden", "seen", "seen"], filter_, timeout_seconds=_SECONDS
    )
    assert [record.record_id for record in found] == ["seen"]


@pytest.mark.parametrize("window", [0, 1001])
async def test_window_out_of_range_is_refused(index: OpenSearchRecordIndex, tenant_id: str, window: int) -> None:
    await index.ensure_space(tenant_id, _SPACE, timeout_seconds=_SECONDS)
    with pytest.raises(InvalidArgumentError):
        await index.search(
            tenant_id,
            _SPACE.space_id,
            [RecallRequest(analyze_query("x"), None, _all_visible(), ("kb",), window=window)],
            timeout_seconds=_SECONDS,
        )


async def test_index_that_is_away_is_unavailable_and_a_silent_one_ends_at_the_deadline(tenant_id: str) -> None:
    request = RecallRequest(analyze_query("x"), None, _all_visible(), ("kb",))
    silent = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    waiting = OpenSearchRecordIndex(OpenSearchSettings(urls=(f"http://127.0.0.1:{port}",)))
    try:
        with pytest.raises(DeadlineExceededError):
            await waiting.search(tenant_id, "s", [request], timeout_seconds=0.3)
    finally:
        await waiting.close()
        silent.close()
    away = OpenSearchRecordIndex(OpenSearchSettings(urls=(f"http://127.0.0.1:{port}",)))
    try:
        with pytest.raises(UnavailableError):
            await away.search(tenant_id, "s", [request], timeout_seconds=5.0)
    finally:
        await away.close()


_SYNTAX = [
    "C++",
    "a+b",
    "+",
    "what (is",
    "AND OR NOT",
    "tenant:other",
    "path/to?",
    '100% "quoted"',
    "~",
    "\\",
    " ".join(f"word{number}" for number in range(2000)),
    "kind:chunk OR *:*",
    "{}[]^~*?:/\\!&|<>=",
    "\x00\ud800",
]


@pytest.mark.parametrize("question", _SYNTAX, ids=range(len(_SYNTAX)))
async def test_fr_a12_query_syntax_is_text(index: OpenSearchRecordIndex, tenant_id: str, question: str) -> None:
    await _fill(
        index,
        tenant_id,
        [
            _chunk("cpp", "C++ is a language with templates", seed=1),
            _chunk("c", "C is a language", seed=2),
            _chunk("percent", "100 quoted words", seed=3),
        ],
    )
    found = await _search_ids(index, tenant_id, question)
    if question == "C++":
        assert found == ["cpp"]
    if question == "a+b":
        assert set(found) == {"cpp", "c"}, "its letters are searched as words"
    if question in {"+", "~", "\\", "{}[]^~*?:/\\!&|<>=", "tenant:other", "kind:chunk OR *:*"}:
        assert found == [], "neither operator nor field"


async def test_fr_a13_unknown_chinese_term_is_found_where_its_characters_stand_together(
    index: OpenSearchRecordIndex, tenant_id: str
) -> None:
    # 烯炔 stands in no dictionary of general Chinese.
    records = [_chunk("together", "这种方法用烯炔环化反应来合成药物分子", seed=1)]
    records += [_chunk(f"apart-{i}", f"第{i}段先说烯的加成再说炔的还原反应与药物合成", seed=2 + i) for i in range(9)]
    await _fill(index, tenant_id, records)
    for question in ("烯炔", "什么是烯炔的反应？", "　烯炔　ＡＢ", "請問烯炔環化"):
        assert (await _search_ids(index, tenant_id, question))[0] == "together", question
        found = await _search_ids(index, tenant_id, question, _vector(50))
        assert "together" in found[:3], question


async def test_fr_a13_a_tenants_own_term_is_searched_as_a_phrase_without_writing_again(
    index: OpenSearchRecordIndex, tenant_id: str
) -> None:
    await _fill(
        index,
        tenant_id,
        [_chunk("phrase", "甲乙丙丁", seed=1), _chunk("pieces", "甲乙 乙丙 丙丁 甲乙 乙丙 丙丁", seed=2)],
    )
    request = RecallRequest(analyze_query("甲乙丙丁", own_terms=["甲乙丙丁"]), None, _all_visible(), ("kb",))
    [candidates] = await index.search(tenant_id, _SPACE.space_id, [request], timeout_seconds=_SECONDS)
    assert candidates.items[0].record.record_id == "phrase"


async def test_single_character_is_found_inside_words(index: OpenSearchRecordIndex, tenant_id: str) -> None:
    await _fill(index, tenant_id, [_chunk("tax", "增值税法实施条例", seed=1), _chunk("other", "合同法", seed=2)])
    assert await _search_ids(index, tenant_id, "税") == ["tax"]


async def test_worker_thought_dead_writes_nothing_over_a_later_attempt(
    index: OpenSearchRecordIndex, tenant_id: str
) -> None:
    async def write(text: str, epoch: int) -> None:
        record = _chunk("1-0", text, seed=1)
        await index.write(tenant_id, _SPACE.space_id, [record], epoch=epoch, timeout_seconds=_SECONDS)

    await index.ensure_space(tenant_id, _SPACE, timeout_seconds=_SECONDS)
    await write("first", 1)
    await write("second", 2)
    await write("second", 2)
    with pytest.raises(ConflictError) as caught:
        await write("first", 1)
    assert caught.value.reason == "RECORDS_FENCED"
    await index.refresh(tenant_id, _SPACE.space_id, timeout_seconds=_SECONDS)
    [record] = await index.fetch(tenant_id, _SPACE.space_id, ["1-0"], _all_visible(), timeout_seconds=_SECONDS)
    assert record.text == "second"
    # Removed after a failure, then tried again: every claim of a batch has a higher epoch than the one before.
    assert await index.delete_made_of(tenant_id, [Ordinal(1)], timeout_seconds=_SECONDS) == 1
    await write("third", 4)


async def test_space_of_an_earlier_release_is_given_the_fields_it_lacks(
    index: OpenSearchRecordIndex, tenant_id: str, stack_endpoints: StackEndpoints
) -> None:
    body = space_body(tenant_id, _SPACE, OpenSearchSettings(urls=()))
    del body["mappings"]["properties"]["script"]
    old_index = space_index(tenant_id, _SPACE.space_id).replace(".1", ".0")
    async with httpx.AsyncClient(base_url=stack_endpoints.opensearch_url, timeout=_SECONDS) as client:
        (await client.put(f"/{old_index}", json=body)).raise_for_status()
        await _fill(index, tenant_id, [_chunk("a", "x", seed=1)])
        answer = (await client.get(f"/{space_alias(tenant_id, _SPACE.space_id)}/_mapping")).json()
    assert list(answer) == [old_index], "no second index stands behind the alias"
    assert answer[old_index]["mappings"]["properties"]["script"] == {"type": "keyword"}
    assert await index.count(tenant_id, _SPACE.space_id, RecordSelection(), timeout_seconds=_SECONDS) == 1


async def test_space_of_an_earlier_release_can_be_written_by_a_worker_that_did_not_make_it(
    index: OpenSearchRecordIndex, tenant_id: str, stack_endpoints: StackEndpoints
) -> None:
    body = space_body(tenant_id, _SPACE, OpenSearchSettings(urls=()))
    for name in ("links", "context", "tags", "tag_names"):
        del body["mappings"]["properties"][name]
    async with httpx.AsyncClient(base_url=stack_endpoints.opensearch_url, timeout=_SECONDS) as client:
        (await client.put(f"/{space_index(tenant_id, _SPACE.space_id)}", json=body)).raise_for_status()
    record = _chunk("a", "x", seed=1, links=("1-parent-0",), context="c", tags={"t": 1.0})
    # Read first: what a process knows of a space from reading it must not keep it from extending it.
    await index.search(
        tenant_id,
        _SPACE.space_id,
        [RecallRequest(analyze_query("x"), _vector(1), _all_visible(), ("kb",))],
        timeout_seconds=_SECONDS,
    )
    await index.write(tenant_id, _SPACE.space_id, [record], epoch=1, timeout_seconds=_SECONDS)
    await index.refresh(tenant_id, _SPACE.space_id, timeout_seconds=_SECONDS)
    [found] = await index.fetch(tenant_id, _SPACE.space_id, ["a"], _all_visible(), timeout_seconds=_SECONDS)
    assert (found.links, found.context, found.tags) == (record.links, record.context, record.tags)
