"""Trees of documents: the stage, its artefact, and the records that stage index makes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest

from corpusmesh_adapters.opensearch.documents import check_records, to_record, to_source
from corpusmesh_core.artefacts import (
    CHUNKS,
    TREE,
    VECTORS,
    FileTree,
    VectorSet,
    embedded_texts,
    ordinals_in,
    pack_chunks,
    pack_trees,
    pack_vectors,
    text_key,
    unpack_trees,
    without,
)
from corpusmesh_core.documents import BlockKind, Chunk, ChunkRole
from corpusmesh_core.errors import InternalError, UnavailableError
from corpusmesh_core.orchestration.values import Stage
from corpusmesh_core.ports.work import StageOutcome
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_core.trees.settings import SummaryMethod
from corpusmesh_core.trees.values import CHILDREN, FALLBACK, LEAF_COUNT, MADE_BY, MAX_LINKED_LEAVES, SPEAKS_OF, TREE_OF
from corpusmesh_ingest.stages.index import IndexStage
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.stages.file_tree import FileTreeStage
from corpusmesh_raptor.stores import RaptorStores, RaptorTools
from corpusmesh_raptor.summarizing import Summarizer
from tests.support.ingest_stages import (
    DIMENSION,
    CountingEmbedder,
    MemoryMetadata,
    MemoryObjects,
    WordCounter,
    context,
    version,
)
from tests.support.tree_growing import CountingSession, OverlappingClusterer, walk

SCOPE_FILE = {"tree": {"scope": "file"}}
KEY = "acme/artefacts/run/run.0.tree.tree"


def chunk(position: int, text: str = "", **fields: Any) -> Chunk:
    plain = Chunk(
        position,
        text or f"word{position} is told of in this passage.",
        heading_path=("Book", f"Part {position // 20}"),
        page=1 + position // 10,
        boxes=(),
        token_count=7,
    )
    return replace(plain, **fields)


class CountingSummarizer:
    """Opens sessions that count."""

    def __init__(self, method: SummaryMethod = SummaryMethod.LITE) -> None:
        self.session = CountingSession(method=method)

    def open(self, **_: object) -> CountingSession:
        return self.session


class Bench:
    """The stages tree and index over the same stores."""

    def __init__(self, config: Mapping[str, object] | None = None, summarizer: Any = None) -> None:
        self.objects = MemoryObjects()
        self.embedder = CountingEmbedder()
        self.space_id = self.embedder.space.space_id
        self.metadata = MemoryMetadata(SCOPE_FILE if config is None else config, space_id=self.space_id)
        self.summarizer = summarizer or CountingSummarizer()
        self.records: list[Record] = []
        stores: Any = RaptorStores(
            **dict.fromkeys(("snapshots", "runs", "trees", "usage", "cache", "idempotency", "audit"), cast(Any, None)),
            documents=cast(Any, self.metadata),
            knowledge_bases=cast(Any, self.metadata),
            objects=cast(Any, self.objects),
            index=cast(Any, self),
            embedder=cast(Any, self.embedder),
        )
        self.clusterer = OverlappingClusterer()
        tools = RaptorTools(
            counter=WordCounter(), chat=None, events=cast(Any, None), clusterer=cast(Any, self.clusterer)
        )
        self.stage = FileTreeStage(RaptorSettings(), stores, tools, cast(Any, self.summarizer))
        self.index = IndexStage(stores.documents, stores.knowledge_bases, stores.objects, cast(Any, self))

    async def write(self, tenant_id: str, space_id: str, records: Sequence[Record], **_: object) -> None:
        self.records = list(records)

    def put(self, row: VersionRow, chunks: Sequence[Chunk], *, seed: int = 0) -> None:
        """Store a version with its chunks and with vectors of which neighbours are alike."""
        ordinal = int(row.ordinal)
        texts = embedded_texts("Book", chunks)
        keys = b"".join(text_key(self.space_id, text) for text in texts)
        vectors = VectorSet(
            walk(len(texts), DIMENSION, seed=seed), np.frombuffer(keys, dtype=np.uint8).reshape(len(texts), 16)
        )
        self.objects.kept[f"{ordinal}.chunks"] = pack_chunks({ordinal: chunks})
        self.objects.kept[f"{ordinal}.vectors"] = pack_vectors({ordinal: vectors})
        artefacts = {CHUNKS: f"{ordinal}.chunks", VECTORS: f"{ordinal}.vectors"}
        self.metadata.add(replace(row, title="Book", artefacts=artefacts))

    async def run(self, *parts: int, task: str = "run.0.tree") -> StageOutcome:
        outcome = await self.stage(context(Stage.TREE, *parts, task=task))
        self.metadata.apply(outcome)
        return outcome

    async def run_index(self, *parts: int) -> dict[int, list[Record]]:
        self.metadata.apply(await self.index(context(Stage.INDEX, *parts)))
        return {part: [record for record in self.records if record.publisher == part] for part in parts}

    def tree(self, ordinal: int) -> FileTree:
        return unpack_trees(self.objects.kept[self.metadata.rows[ordinal].artefacts[TREE]])[ordinal]


def nodes(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record.kind is RecordKind.TREE_NODE]


async def test_a_tree_is_an_artefact_of_its_version_and_its_nodes_are_records_among_the_others() -> None:
    bench = Bench()
    bench.put(version(1), [chunk(place) for place in range(60)])
    outcome = await bench.run(1)
    assert [(patch.ordinal, patch.artefacts) for patch in outcome.patches] == [(1, {TREE: KEY})]
    made = (await bench.run_index(1))[1]
    assert bench.metadata.rows[1].record_count == len(made) == len({record.record_id for record in made})
    assert bench.metadata.rows[1].chunk_count == 0, "what is a chunk is told by the stage that cuts"
    found = nodes(made)
    assert len(found) == bench.tree(1).node_count == len(made) - 60
    by_id = {record.record_id: record for record in made}
    for record in found:
        assert (record.publisher, record.sources, record.layer > 0) == (1, (1,), True)
        children = [by_id[child] for child in record.attributes[CHILDREN].split()]
        assert {child.layer for child in children} == {record.layer - 1}
        beneath = {leaf for child in children for leaf in child.links or [child.record_id]}
        assert beneath == set(record.links)
        assert record.attributes[LEAF_COUNT] == str(len(record.links))
        assert (record.attributes[TREE_OF], record.attributes[MADE_BY]) == ("file", "lite")
        assert FALLBACK not in record.attributes
        assert (record.title, record.document_id, record.version) == ("Book", "doc", 1)
        first = by_id[record.links[0]]
        assert record.page == first.page
        assert record.heading_path[:1] == ("Book",)
    assert [record.position for record in found] == list(range(len(found)))
    assert all(one.layer <= two.layer for one, two in pairwise(found))
    root = found[-1]
    assert (root.links, root.heading_path) == (tuple(f"1-{place}" for place in range(60)), ("Book",))
    check_records(made, DIMENSION)
    again = to_record(root.record_id, to_source(root))
    assert (again.layer, again.links, again.attributes) == (root.layer, root.links, root.attributes)


async def test_summaries_of_sentences_cost_no_call_of_any_model() -> None:
    counter: Any = WordCounter()
    bench = Bench(summarizer=Summarizer(None, None, cast(Any, None), counter, RaptorSettings()))
    bench.put(version(1), [chunk(place) for place in range(60)])
    await bench.run(1)
    assert bench.embedder.texts == []
    assert bench.tree(1).tree.cost.extractive_node_count == bench.tree(1).node_count
    assert all(record.text for record in nodes((await bench.run_index(1))[1]))


@pytest.mark.parametrize("config", [{}, {"tree": {"scope": "dataset"}}])
async def test_a_knowledge_base_that_wants_no_trees_any_more_passes_on(config: Mapping[str, object]) -> None:
    bench = Bench(config)
    bench.put(version(1), [chunk(place) for place in range(20)])
    assert await bench.run(1) == StageOutcome()
    assert bench.objects.calls == []
    assert nodes((await bench.run_index(1))[1]) == []


async def test_a_batch_shares_one_artefact_and_what_has_nothing_to_summarize_is_not_in_it() -> None:
    bench = Bench()
    bench.put(version(1, document_id="one"), [chunk(0)])
    bench.put(version(2, document_id="two"), [chunk(place) for place in range(3)])
    bench.put(version(3, document_id="three"), [chunk(place, block_kind=BlockKind.TABLE) for place in range(30)])
    bench.put(version(4, document_id="four"), [chunk(place) for place in range(40)])
    bench.put(version(5, document_id="five"), [])
    outcome = await bench.run(1, 2, 3, 4, 5)
    assert sorted(patch.ordinal for patch in outcome.patches) == [2, 4]
    assert ordinals_in(KEY, bench.objects.kept[KEY]) == {2, 4}
    assert bench.tree(2).node_count == 1
    by_version = await bench.run_index(1, 2, 3, 4, 5)
    assert {part: bool(nodes(records)) for part, records in by_version.items()} == {
        1: False,
        2: True,
        3: False,
        4: True,
        5: False,
    }
    # A purge takes out its own part, and leaves the neighbour's as it is.
    before = bench.tree(4)
    rest = without(KEY, bench.objects.kept[KEY], [2])
    assert rest is not None
    assert ordinals_in(KEY, rest) == {4}
    assert unpack_trees(rest)[4].tree.layers == before.tree.layers
    assert without(KEY, rest, [4]) is None


async def test_no_document_at_all_writes_nothing() -> None:
    bench = Bench()
    bench.put(version(1), [chunk(0)])
    assert await bench.run(1) == StageOutcome()
    assert KEY not in bench.objects.kept


@pytest.mark.parametrize("fields", [{"base_ordinal": 1}, {"version": 2}])
async def test_the_next_version_takes_over_what_it_shares_and_makes_the_rest_anew(fields: dict[str, Any]) -> None:
    bench = Bench()
    chunks = [chunk(place) for place in range(200)]
    bench.put(version(1), chunks)
    await bench.run(1)
    before = nodes((await bench.run_index(1))[1])
    asked = len(bench.summarizer.session.asked)
    chunks[90] = replace(chunks[90], text="An edited passage.", is_edited=True)
    bench.put(version(2, **fields), chunks)
    await bench.run(2, task="run.1.tree")
    layers = bench.tree(2).tree.layers
    assert len(bench.summarizer.session.asked) - asked <= len(layers)
    after = nodes((await bench.run_index(2))[2])

    def named(records: Sequence[Record]) -> dict[str, Record]:
        return {record.record_id.partition("-tree_node-")[2]: record for record in records}

    changed = [record for key, record in named(after).items() if key not in named(before)]
    assert 0 < len(changed) <= len(layers)
    assert all("2-90" in record.links for record in changed)
    for key, record in named(before).items():
        if key in named(after):
            assert named(after)[key].text == record.text
            np.testing.assert_array_equal(
                cast(Any, named(after)[key].vector), cast(Any, record.vector), err_msg="text and vector are taken over"
            )
    assert bench.tree(2).tree.cost.reused_node_count == len(after) - len(changed)


async def test_pages_name_their_nodes_and_carry_no_heading_of_their_own() -> None:
    bench = Bench({"tree": {"scope": "file", "method": "page"}})
    bench.put(version(1), [chunk(place) for place in range(40)])
    await bench.run(1)
    found = nodes((await bench.run_index(1))[1])
    pages = [record for record in found if record.layer == 1]
    assert [(record.attributes.get(SPEAKS_OF), record.page) for record in pages] == [
        (f"page {page}", page) for page in range(1, 5)
    ]
    assert found[-1].attributes[SPEAKS_OF] == "pages 1–4", "first and last page of what stands beneath"


async def test_a_node_above_very_many_chunks_names_its_children_alone() -> None:
    bench = Bench()
    count = MAX_LINKED_LEAVES + 1
    bench.put(version(1), [chunk(place) for place in range(count)])
    await bench.run(1)
    found = nodes((await bench.run_index(1))[1])
    assert (found[-1].links, found[-1].attributes[LEAF_COUNT]) == ((), str(count))
    assert found[-1].attributes[CHILDREN]
    assert all(record.links for record in found[:-1])


async def test_leaves_stand_where_their_chunks_do_among_parents_and_switched_off_ones() -> None:
    bench = Bench()
    chunks = [
        chunk(0, role=ChunkRole.PARENT),
        chunk(0, attributes={"disabled": "true"}),
        *(chunk(place) for place in range(1, 4)),
    ]
    bench.put(version(1), chunks)
    await bench.run(1)
    [node] = nodes((await bench.run_index(1))[1])
    assert node.links == ("1-1", "1-2", "1-3")


async def test_what_a_model_wrote_and_why_it_did_not_is_on_the_record() -> None:
    bench = Bench(summarizer=CountingSummarizer(SummaryMethod.LLM))
    bench.summarizer.session.fallbacks = {"word20": "unfaithful"}
    bench.put(version(1), [chunk(place) for place in range(40)])
    await bench.run(1)
    found = nodes((await bench.run_index(1))[1])
    by_fallback = {bool(record.attributes.get(FALLBACK)): record.attributes for record in found}
    assert by_fallback[False][MADE_BY] == "llm stub/1"
    assert (by_fallback[True][MADE_BY], by_fallback[True][FALLBACK]) == ("lite", "unfaithful")


async def test_an_embed_service_that_is_away_gives_the_task_back_and_leaves_nothing() -> None:
    bench = Bench(summarizer=CountingSummarizer(SummaryMethod.LLM))

    async def away(texts: Sequence[str], **_: object) -> Any:
        raise UnavailableError("EMBED_AWAY", "away")

    bench.embedder.embed = away  # type: ignore[method-assign]
    bench.put(version(1), [chunk(place) for place in range(40)])
    with pytest.raises(ExceptionGroup) as told:
        await bench.run(1)
    assert told.group_contains(UnavailableError)
    assert KEY not in bench.objects.kept


async def test_a_tree_that_is_gone_from_the_version_before_is_made_anew() -> None:
    bench = Bench()
    chunks = [chunk(place) for place in range(40)]
    bench.put(version(1), chunks)
    await bench.run(1)
    del bench.objects.kept[KEY]
    bench.put(version(2, base_ordinal=1), chunks)
    await bench.run(2, task="run.1.tree")
    assert bench.tree(2).tree.cost.reused_node_count == 0


async def test_an_artefact_is_read_as_it_was_written_or_not_at_all() -> None:
    bench = Bench()
    bench.put(version(1), [chunk(place) for place in range(60)])
    await bench.run(1)
    tree = bench.tree(1)
    again = unpack_trees(pack_trees({1: tree}))[1]
    assert replace(again, tree=tree.tree) == tree
    assert (again.tree.layers, again.tree.cost) == (tree.tree.layers, tree.tree.cost)
    for one, two in zip(again.tree.vectors, tree.tree.vectors, strict=True):
        np.testing.assert_array_equal(one, two)
    for broken in (b"", pack_chunks({1: []}), pack_chunks({1: [chunk(0)]})):
        with pytest.raises(InternalError) as told:
            unpack_trees(broken)
        assert told.value.reason == "ARTEFACT_UNREADABLE"


async def grown_twice(bench: Bench, before: Sequence[Chunk], after: Sequence[Chunk], *, seed: int = 0) -> int:
    """Grow a tree, then that of the next version; tell how many summaries the second one asked for."""
    bench.put(version(1), before)
    await bench.run(1)
    asked = len(bench.summarizer.session.asked)
    bench.put(version(2, base_ordinal=1), after, seed=seed)
    await bench.run(2, task="run.1.tree")
    return len(bench.summarizer.session.asked) - asked


@pytest.mark.parametrize("method", ["watershed", "section", "page"])
async def test_boundaries_stay_where_nothing_changed_whatever_the_vectors_say(method: str) -> None:
    bench = Bench({"tree": {"scope": "file", "method": method}})
    chunks = [chunk(place) for place in range(200)]
    edited = list(chunks)
    edited[90] = replace(edited[90], text="An edited passage.")
    # Every vector is another one, as if the threshold of the whole had moved: one node a layer is made all the same.
    asked = await grown_twice(bench, chunks, edited, seed=1)
    assert asked == len(bench.tree(2).tree.layers)
    assert bench.tree(2).changed_count == 1


async def test_an_added_and_a_deleted_chunk_change_two_nodes_of_a_layer_at_most() -> None:
    bench = Bench()
    chunks = [chunk(place) for place in range(200)]
    added = [*chunks[:90], chunk(0, "A passage that a person added."), *chunks[90:150], *chunks[151:]]
    numbered = [replace(one, position=place) for place, one in enumerate(added)]
    asked = await grown_twice(bench, chunks, numbered)
    assert asked <= 2 * 2 * len(bench.tree(2).tree.layers)
    assert bench.tree(2).changed_count == 2


async def test_boundaries_are_drawn_anew_once_many_leaves_have_changed() -> None:
    bench = Bench()
    chunks = [chunk(place) for place in range(60)]
    bench.put(version(1), chunks)
    await bench.run(1)
    counts = []
    for ordinal in range(2, 6):
        for place in range(7 * (ordinal - 2), 7 * (ordinal - 1)):
            chunks[place] = replace(chunks[place], text=f"Edited {place} in version {ordinal}.")
        bench.put(version(ordinal, base_ordinal=ordinal - 1), chunks)
        await bench.run(ordinal, task=f"run.{ordinal}.tree")
        counts.append(bench.tree(ordinal).changed_count)
    assert counts == [7, 14, 0, 7], "21 of 60 leaves are more than three tenths"
    bench.put(version(9), chunks)
    await bench.run(9, task="run.9.tree")
    anew = [node.children for node in bench.tree(9).tree.layers[0]]
    assert [node.children for node in bench.tree(4).tree.layers[0]] == anew


async def test_other_settings_draw_other_boundaries_and_keep_the_nodes_that_are_the_same() -> None:
    bench = Bench()
    chunks = [chunk(place) for place in range(100)]
    bench.put(version(1), chunks)
    await bench.run(1)
    bench.metadata.config = {"tree": {"scope": "file", "clustering_threshold": 0.4}}
    bench.put(version(2, base_ordinal=1), chunks)
    await bench.run(2, task="run.1.tree")
    one, two = bench.tree(1), bench.tree(2)
    assert len(one.tree.layers[0]) != len(two.tree.layers[0])
    shared = {node.children for node in one.tree.layers[0]} & {node.children for node in two.tree.layers[0]}
    assert two.tree.cost.reused_node_count >= len(shared) > 0


async def test_soft_clusters_are_carried_over_and_an_edit_costs_those_that_share_the_chunk() -> None:
    bench = Bench({"tree": {"scope": "file", "method": "mixture"}})
    chunks = [chunk(place) for place in range(60)]
    edited = list(chunks)
    edited[30] = replace(edited[30], text="An edited passage.")
    asked = await grown_twice(bench, chunks, edited, seed=1)
    tree = bench.tree(2).tree
    assert asked == sum(30 in node.leaf_places for layer in tree.layers for node in layer)
    assert asked < bench.tree(2).node_count
    assert len(tree.layers[-1]) == 1
    assert tree.layers[-1][0].leaf_places == tuple(range(60))
    assert len(bench.clusterer.seeds) == len([layer for layer in bench.tree(1).tree.layers if len(layer) > 1])
