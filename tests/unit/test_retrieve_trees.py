"""Trees in a search: what is asked for, who sees what, where each mode leads, and where citations of summaries open."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from pyroaring import BitMap

from corpusmesh_core.answering import render_answer_messages
from corpusmesh_core.citation import Statement
from corpusmesh_core.ports.embedding import Embedder, EmbeddingSpace, EmbedLane, EmbedResult, EmbedRole
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.query import RetrievalPlan, TreeMode, TreePlan
from corpusmesh_core.records import RULE_BY_KIND, Record, RecordKind
from corpusmesh_core.tenancy import Identity, MetadataFilter, Permission, Role, Scope, VisibilityInputs
from corpusmesh_core.tree_search import CollapseSettings
from corpusmesh_core.visibility import Visibility, is_visible
from corpusmesh_retrieve.answering.citing import citations_to_wire, places_of
from corpusmesh_retrieve.answering.evidence import evidence_of
from corpusmesh_retrieve.answering.values import AnswerResult
from corpusmesh_retrieve.convert import hit_to_wire
from corpusmesh_retrieve.explaining import explanation_to_wire
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest
from corpusmesh_retrieve.recalling import Recaller
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_retrieve.stages import SearchStages
from corpusmesh_retrieve.trees.leaves import LeafStage
from corpusmesh_retrieve.trees.stage import TreeStage
from corpusmesh_runtime.context import CallContext
from tests.support.tree_index import TreeIndex, chunk, node

_SPACE = EmbeddingSpace("space", 2, normalized=True, fingerprint="f")
_CHUNKS = [
    chunk("1-0", "ferries leave the harbour at noon"),
    chunk("1-1", "trams leave the station at nine"),
    chunk("1-2", "otters live in the river"),
    chunk("1-3", "herons stand in the river"),
    chunk("2-0", "ferries are painted white", version=2),
    chunk("3-0", "secret ferries leave at night", version=3),
]
_FILE_TREE = [
    node("1-tree_node-a", "ferries and trams leave at noon and nine", leaves="1-0 1-1", document="d1"),
    node("1-tree_node-b", "otters and herons in the river", leaves="1-2 1-3", document="d1"),
    node(
        "1-tree_node-r",
        "ferries trams otters",
        leaves="1-0 1-1 1-2 1-3",
        children="1-tree_node-a 1-tree_node-b",
        layer=2,
        document="d1",
    ),
]
_DATASET = [
    node("20-tree_node-x", "ferries are white and leave at noon", leaves="1-0 2-0", publisher=20, sources=(1, 2)),
    node("21-tree_node-y", "secret ferries are white", leaves="2-0 3-0", publisher=21, sources=(2, 3)),
]
_BUILDS = (20, 21)


class Snapshots:
    """Publishes versions and builds; tells whether the knowledge base makes file trees."""

    def __init__(self, visible: Sequence[int], *, file_trees: bool) -> None:
        self._visible = visible
        self._config: dict[str, object] = {"tree": {"scope": "file"}} if file_trees else {}

    async def visibility_inputs(
        self,
        identity: Identity,
        knowledge_base_id: str,
        *,
        snapshot_id: int | None = None,
        metadata_filter: MetadataFilter | None = None,
    ) -> VisibilityInputs:
        assert metadata_filter is None
        builds = BitMap(number for number in self._visible if number in _BUILDS)
        return VisibilityInputs(
            knowledge_base_id,
            identity.user_id,
            Permission.TEAM,
            self._config,
            _SPACE.space_id,
            1,
            1,
            BitMap(self._visible).serialize(),
            (),
            None,
            30,
            (builds.serialize(),) if builds else (),
            ("tree",) if builds else (),
        )


class StillEmbedder:
    """Embeds everything alike."""

    space = _SPACE

    async def refresh(self, *, deadline_seconds: float) -> None:
        assert deadline_seconds > 0

    async def embed(
        self, texts: Sequence[str], *, role: EmbedRole, lane: EmbedLane, deadline_seconds: float
    ) -> EmbedResult:
        assert (role, lane, deadline_seconds > 0) == (EmbedRole.QUERY, EmbedLane.INTERACTIVE, True)
        return EmbedResult(np.tile(np.array([[1.0, 0.0]], dtype=np.float32), (len(texts), 1)), len(texts))


class Bench:
    """A searcher over an index in memory."""

    def __init__(
        self,
        records: Sequence[Record],
        *,
        visible: Sequence[int] = (1, 2, 3),
        file_trees: bool = True,
        settings: CollapseSettings | None = None,
    ) -> None:
        self.index = TreeIndex(records, Visibility.of("kb/1", visible, 30))
        index, embedder = cast("RecordIndex", self.index), cast("Embedder", StillEmbedder())
        stages = (TreeStage(Recaller(index, embedder), settings), LeafStage(index))
        self._searcher = Searcher(
            cast("Any", Snapshots(visible, file_trees=file_trees)), index, embedder, SearchStages(assembly=stages)
        )
        self.call = CallContext(Identity("acme", "ann", Role.VIEWER, Scope.READ), "r-1", time.monotonic() + 60.0)

    async def search(
        self,
        query: str,
        mode: TreeMode = TreeMode.COLLAPSED,
        *,
        kinds: tuple[RecordKind, ...] = (RecordKind.CHUNK,),
        page_size: int = 10,
        **tree: int,
    ) -> SearchOutcome:
        window = max(64, page_size)
        plan = RetrievalPlan(tree=TreePlan(mode=mode, **tree), kinds=kinds, page_size=page_size, window=window)
        request = SearchRequest(("kb",), query, lambda _: plan, session=cast("Any", None))
        return await self._searcher.search(self.call, request)


def _ids(outcome: SearchOutcome) -> list[str]:
    return [item.candidate.record.record_id for item in outcome.kept]


@pytest.mark.parametrize(
    ("records", "mode", "file_trees"),
    [
        (_CHUNKS, TreeMode.COLLAPSED, False),
        (_CHUNKS, TreeMode.TRAVERSAL, False),
        ([*_CHUNKS, *_FILE_TREE], TreeMode.OFF, True),
    ],
)
async def test_where_no_tree_takes_part_nothing_is_asked_for_and_nothing_is_run(
    records: Sequence[Record], mode: TreeMode, file_trees: bool
) -> None:
    bench = Bench(records, file_trees=file_trees)
    outcome = await bench.search("ferries", mode)
    assert [len(requests) for requests in bench.index.calls] == [1]
    assert bench.index.calls[0][0].visibility.kinds == (RecordKind.CHUNK,)
    assert {"tree", "leaves"}.isdisjoint(report.name for report in outcome.stages)
    assert outcome.tree_path == []


async def test_nodes_are_asked_for_beside_chunks_and_lead_to_their_leaves() -> None:
    bench = Bench([*_CHUNKS, *_FILE_TREE])
    outcome = await bench.search("ferries at noon")
    first, second = bench.index.calls[:2]
    assert [request.visibility.kinds for request in first] == [(RecordKind.CHUNK,), (RecordKind.TREE_NODE,)]
    assert set(second[0].record_ids or ()) == {"1-2", "1-3"}, "leaves that no leg returned are scored"
    assert _ids(outcome)[0] == "1-0"
    tram = next(item for item in outcome.kept if item.candidate.record.record_id == "1-1")
    assert "1-tree_node-a" in tram.via_record_ids
    kinds = {step.record_id: step.outcome.value for step in outcome.tree_path}
    assert kinds["1-tree_node-a"] in ("covered", "kept")


async def test_a_node_of_what_is_hidden_shows_nowhere() -> None:
    visible = (1, 2, 20, 21)
    bench = Bench([*_CHUNKS, *_FILE_TREE, *_DATASET], visible=visible, settings=CollapseSettings(better_share=1.0))
    for mode in TreeMode:
        outcome = await bench.search("secret ferries are white and leave at noon", mode)
        told = explanation_to_wire(outcome)
        hits = [hit_to_wire(item, outcome.leaves.get(item.candidate.record.record_id, ())) for item in outcome.kept]
        shown = f"{told} {hits}"
        assert "1-0" in shown
        for hidden in ("21-tree_node-y", "3-0", "secret"):
            assert hidden not in shown.replace('query_terms: "secret"', "").replace("secret ferries are white and", "")
        seen = Visibility.of("kb/1", visible, 30)
        for item in outcome.ranked:
            record = item.candidate.record
            assert is_visible(record.publisher, record.sources, RULE_BY_KIND[record.kind], seen)
        assert told.visible_version_count == 2, "builds are no versions"
    outcome = await bench.search("ferries white noon")
    assert "20-tree_node-x" in {step.record_id for step in outcome.tree_path}
    assert [leaf.record_id for leaf in outcome.leaves["20-tree_node-x"]] == ["1-0", "2-0"]


async def test_the_place_of_a_summary_in_its_layer_does_not_count_hidden_ones() -> None:
    bench = Bench([*_CHUNKS, *_FILE_TREE])
    item = (await bench.search("ferries at noon")).kept[0]
    own = replace(item.candidate.record, position=7)
    of_many = replace(own, document_id="", kind=RecordKind.TREE_NODE)
    places = [
        hit_to_wire(replace(item, candidate=replace(item.candidate, record=record))).position
        for record in (own, of_many)
    ]
    assert places == [7, 0]


async def test_the_best_summaries_are_entered_and_other_chunks_stay_behind() -> None:
    bench = Bench([*_CHUNKS, *_FILE_TREE])
    outcome = await bench.search("otters trams", TreeMode.HIERARCHICAL, summaries=1, chunks_per_summary=1)
    assert all(request.layers in (None, (1,)) for request in bench.index.calls[0])
    followed = [step for step in outcome.tree_path if step.outcome.value == "followed"]
    assert len(followed) == 1
    assert followed[0].led_to == (_ids(outcome)[0],)
    assert set(_ids(outcome)) >= {"1-1", "1-2"}
    assert not any(item.candidate.record.kind is RecordKind.TREE_NODE for item in outcome.kept)


async def test_a_tree_is_followed_from_the_top_to_the_chunks_beneath() -> None:
    bench = Bench([*_CHUNKS, *_FILE_TREE])
    outcome = await bench.search("otters live in the river", TreeMode.TRAVERSAL, nodes_per_layer=1)
    path = [(step.record_id, step.outcome.value) for step in outcome.tree_path]
    assert path[:2] == [("1-tree_node-r", "followed"), ("1-tree_node-b", "followed")]
    assert _ids(outcome)[:2] == ["1-2", "1-3"]
    report = next(report for report in outcome.stages if report.name == "tree")
    assert report.detail == "2 summaries followed on 2 layers: 2 chunks"


async def test_children_that_no_leg_returned_are_scored_on_the_way() -> None:
    silent = replace(_FILE_TREE[1], text="beasts")
    bench = Bench([*_CHUNKS, _FILE_TREE[0], silent, _FILE_TREE[2]])
    outcome = await bench.search("otters", TreeMode.TRAVERSAL, nodes_per_layer=2)
    assert {step.record_id for step in outcome.tree_path} == {"1-tree_node-r", "1-tree_node-a", "1-tree_node-b"}
    assert _ids(outcome)[0] == "1-2"


async def test_a_node_whose_parent_is_hidden_begins_by_itself() -> None:
    above = node(
        "21-tree_node-top",
        "white ferries trams and otters",
        leaves="1-0 2-0 3-0",
        children="20-tree_node-x",
        layer=2,
        publisher=21,
        sources=(1, 2, 3),
    )
    bench = Bench([*_CHUNKS, _DATASET[0], above], visible=(1, 2, 20, 21), file_trees=False)
    outcome = await bench.search("white ferries", TreeMode.TRAVERSAL)
    assert [step.record_id for step in outcome.tree_path] == ["20-tree_node-x"]
    assert _ids(outcome) == ["2-0", "1-0"]


async def test_nodes_without_links_are_followed_to_their_chunks() -> None:
    top = node(
        "20-tree_node-top", "ferries white noon", children="20-tree_node-x", layer=2, publisher=20, sources=(1, 2)
    )
    bench = Bench(
        [*_CHUNKS, _DATASET[0], top],
        visible=(1, 2, 20),
        file_trees=False,
        settings=CollapseSettings(better_share=1.0, covered_share=1.0),
    )
    outcome = await bench.search("ferries white noon")
    assert [leaf.record_id for leaf in outcome.leaves["20-tree_node-top"]] == ["1-0", "2-0"]


async def test_every_summary_of_a_large_page_names_some_leaves() -> None:
    leaves = " ".join(record.record_id for record in _CHUNKS[:4])
    nodes = [node(f"1-tree_node-{number:02}", "rivers", leaves=leaves, document="d1") for number in range(70)]
    bench = Bench([*_CHUNKS, *nodes])
    outcome = await bench.search("rivers", kinds=(RecordKind.TREE_NODE,), page_size=70)
    assert len(_ids(outcome)) == 70
    assert {len(outcome.leaves[name]) for name in _ids(outcome)} == {4}
    assert max(len(requests) for requests in bench.index.calls) <= 32


async def test_a_citation_of_a_summary_opens_where_the_sentence_stands() -> None:
    settings = CollapseSettings(better_share=1.0)
    bench = Bench([*_CHUNKS, *_DATASET], visible=(1, 2, 20), file_trees=False, settings=settings)
    outcome = await bench.search("ferries white noon")
    [piece] = [piece for piece in evidence_of(outcome, max_count=20) if piece.record_id == "20-tree_node-x"]
    assert piece.document == "Document 1, Document 2"
    assert piece.source == "knowledgeBases/kb/records/20-tree_node-x"
    assert piece.is_summary
    _, message = render_answer_messages("When?", [replace(piece, label=7)], rng=np.random.default_rng(1))
    assert "ID: 7 | document: Document 1, Document 2 | summary of several passages" in message.content
    result = AnswerResult(
        evidence=(replace(piece, label=7),), statements=(Statement("Ferries are painted white.", (7,), 1.0, 1.0, None),)
    )
    [citation] = citations_to_wire([7], result, outcome, resolved=True)
    assert [place.record_id for place in citation.places] == ["2-0"]
    assert citation.places[0].place.version == "knowledgeBases/kb/documents/d2/versions/1"
    assert [leaf.record_id for leaf in citation.hit.leaves] == ["2-0", "1-0"]
    assert (citation.hit.layer, citation.hit.title, citation.hit.document) == (1, "Document 1, Document 2", "")
    [before] = citations_to_wire([7], result, outcome)
    assert not before.places
    node_record = next(item.candidate.record for item in outcome.kept if item.candidate.record.layer)
    said_nothing = AnswerResult(evidence=result.evidence)
    assert places_of(7, node_record, outcome.leaves["20-tree_node-x"], said_nothing), "every citation leads somewhere"
    assert places_of(7, node_record, (), said_nothing) == []
