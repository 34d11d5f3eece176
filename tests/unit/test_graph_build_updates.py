"""What a build of a graph makes anew, what it takes over, and what it lets go of."""

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.errors import FailedPreconditionError
from corpusmesh_core.graphs.corrections import DeleteEntity, unpack_corrections
from corpusmesh_core.graphs.extraction import extract_entities
from corpusmesh_core.graphs.keys import entity_key, key_text, pair_of
from corpusmesh_core.graphs.records import KEY, PARENT
from corpusmesh_core.graphs.resolution import unpack_pairs
from corpusmesh_core.graphs.settings import GraphMethod, GraphSettings, GraphVectors, Resolution
from corpusmesh_core.graphs.telling import figures_of
from corpusmesh_core.graphs.values import GraphChunk, Subgraph, Triple
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.tenancy.publishing import load_bitmap
from corpusmesh_graph.building import extracting
from corpusmesh_graph.building.before import CORRECTIONS, RESOLUTION
from corpusmesh_graph.config import GraphServiceSettings
from tests.support.graph_builds import NER, GraphWorld, columns, content
from tests.support.tree_builds import Death, Fuse
from tests.unit.test_graph_build_deaths import IN_SLICES, WITH_VECTORS, change, library, texts_of


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each text was read for entities."""
    texts: Counter[str] = Counter()
    found = extract_entities

    def counted(chunks: Sequence[GraphChunk], graph: GraphSettings) -> Subgraph:
        texts.update(chunk.text for chunk in chunks)
        return found(chunks, graph)

    monkeypatch.setattr(extracting, "extract_entities", counted)
    return texts


async def test_only_what_changed_is_read_and_written(read: Counter[str]) -> None:
    world = library(count=8)
    await world.build()
    before = {record.record_id for record in world.records()}
    read.clear()
    change(world)
    await world.build()
    assert set(read) == {*texts_of(2, "second"), *texts_of(23, "third")}
    after = {record.record_id for record in world.records() if record.document_id}
    assert {record.split("-")[0] for record in after - before} == {
        str(publisher)
        for version, publisher in zip(world.ledger().versions.tolist(), world.ledger().publishers.tolist(), strict=True)
        if version > 100
    }
    # The one that was only written again says the same, under an ordinal of its own.
    same = [item for item in said(world) if item[4] == (102,)]
    assert len(same) == len([record for record in world.index.records() if 4 in record.sources and record.document_id])

    read.clear()
    await world.build()
    assert not read
    assert {record.record_id for record in world.records() if record.document_id} == after, "nothing has changed"


@pytest.mark.parametrize("step", range(2, 14, 3))
async def test_nothing_is_read_twice_whatever_dies(read: Counter[str], step: int) -> None:
    world = library(count=8)
    task = world.begin()
    with contextlib.suppress(Death):
        await task.work(Fuse(dies_at=step), IN_SLICES)
    known = dict(world.objects.kept)
    # Another run, too, finds what a failed one has found.
    await world.build(IN_SLICES)
    kept = sum("/found/" in key for key in known)
    again = [text for text, count in read.items() if count > 1]
    assert len(again) <= 3 * 2, "the group whose death came before it was kept"
    assert kept == 0 or len(again) < len(read)


async def test_deleted_documents_are_in_no_segment_of_the_next_build() -> None:
    world = library(count=8)
    await world.build()
    world.remove("d3", is_purged=True)
    await world.build()
    versions = {int(version) for segment in world.segments() for version in segment.document_version}
    assert versions == {1, 2, 3, 5, 6, 7, 8}
    assert 4 not in load_bitmap(world.builds.row.sources)


@pytest.mark.parametrize("slice_count", [1, 2, 3])
async def test_document_that_is_deleted_while_the_graph_is_built_is_in_no_part_of_it(slice_count: int) -> None:
    world = library(count=8)
    task = world.begin()
    for _ in range(slice_count):
        outcome = await task.attempt(Fuse(), IN_SLICES)
        task.payload, task.slice_count = outcome.payload, task.slice_count + 1
    world.builds.gone = frozenset({2, 8})
    await task.work(Fuse(), IN_SLICES)
    assert not {2, 8} & set(load_bitmap(world.builds.row.sources))
    assert not [record for record in world.records() if {2, 8} & set(record.sources)]
    assert {int(one) for segment in world.segments() for one in segment.document_version} == {1, 3, 4, 5, 6, 7}


async def test_equal_texts_are_embedded_once_in_the_life_of_a_graph() -> None:
    world = library(WITH_VECTORS, 8)
    await world.build(IN_SLICES)
    records = world.records()
    entities = {record.title for record in records if record.kind is RecordKind.ENTITY}
    relations = {record.record_id.rpartition("-")[2] for record in records if record.kind is RecordKind.RELATION}
    assert len(world.embedder.texts) == len(set(world.embedder.texts))
    assert len(world.embedder.texts) <= 1.05 * (len(entities) + len(relations)) + len(reports(world))
    world.embedder.texts.clear()
    world.put(101, "again", texts_of(1), title="Book d1")
    await world.build()
    told = {f"{record.title}\n{record.text}" for record in reports(world).values()}
    assert set(world.embedder.texts) <= told, "another document has said all the rest before"
    assert all(record.vector is not None for record in world.records() if record.document_id)


async def test_vectors_that_are_wanted_later_cost_no_reading(read: Counter[str]) -> None:
    world = library(count=8)
    await world.build()
    read.clear()
    world.graph = replace(NER, vectors=GraphVectors.ENTITIES)
    await world.build()
    assert not read
    with_vector = {record.kind for record in world.records() if record.vector is not None}
    assert with_vector == {RecordKind.ENTITY}


async def test_triples_of_a_document_are_part_of_its_subgraph_alone(read: Counter[str]) -> None:
    world = library(GraphSettings(methods=(GraphMethod.NER, GraphMethod.TRIPLES)), 8)
    await world.build()
    before = {record.record_id for record in world.records() if record.document_id}
    world.inputs.triples["d1"] = (Triple("Leonhard Euler", "is a friend of", "Christian Goldbach"),)
    read.clear()
    await world.build()
    assert set(read) == set(texts_of(1))
    assert any(record.title == "Christian Goldbach" and record.sources == (2,) for record in world.records())
    del world.inputs.triples["d1"]
    await world.build()
    assert not any(record.title == "Christian Goldbach" for record in world.records())
    assert len({record.record_id for record in world.records() if record.document_id} & before) < len(before)


async def test_corrections_are_an_artefact_of_the_build() -> None:
    world = library(count=8)
    await world.build()
    assert CORRECTIONS not in world.builds.row.artefacts
    world.inputs.corrections = [DeleteEntity((entity_key("Basel"),))]
    await world.build()
    kept = unpack_corrections(world.objects.kept[world.builds.row.artefacts[CORRECTIONS]])
    assert kept.items == (DeleteEntity((entity_key("Basel"),)),)


async def test_too_large_a_graph_is_refused_before_anything_is_read(read: Counter[str]) -> None:
    world = library(count=8)
    with pytest.raises(FailedPreconditionError, match="may have 15 chunks"):
        await world.build(GraphServiceSettings(max_chunk_count=15))
    assert not read


async def test_reports_stay_where_nothing_that_they_tell_of_has_changed() -> None:
    world = library(count=30)
    await world.build()
    before = reports(world)
    assert len(before) > 5
    world.put(101, "new", ["Ada Lovelace corresponded with Charles Babbage in London about the Analytical Engine."])
    await world.build()
    kept = before.keys() & reports(world).keys()
    assert len(kept) > len(before) / 2
    bill = figures_of(world.builds.row.figures).bill
    assert bill.report_count + bill.reused_report_count == len(reports(world))
    assert bill.report_count <= 6
    world.remove("new")
    await world.build()
    assert sorted(record.text for record in reports(world).values()) == sorted(
        record.text for record in before.values()
    )
    parents = {record.attributes[PARENT] for record in reports(world).values() if PARENT in record.attributes}
    assert parents <= {record.record_id.rpartition("-")[2] for record in reports(world).values()}


async def test_reports_stand_on_all_documents_of_their_members() -> None:
    world = library(count=8)
    await world.build()
    records = world.records()
    spoken: dict[str, set[int]] = {}
    for record in records:
        if record.kind is RecordKind.ENTITY:
            spoken.setdefault(record.attributes[KEY], set()).update(record.sources)
    pairs = {(pair.a, pair.b) for pair in resolved(world)}
    assert reports(world)
    for record in records:
        if record.kind is RecordKind.COMMUNITY_REPORT:
            names = set(record.links)
            names |= {key_text(b) for a, b in pairs if key_text(a) in names}
            names |= {key_text(a) for a, b in pairs if key_text(b) in names}
            assert set(record.sources) >= set().union(*(spoken[name] for name in record.links))
            assert set(record.sources) == set().union(*(spoken[name] for name in names))


def said(world: GraphWorld) -> list[tuple[object, ...]]:
    """What documents say, without reports of what they say together."""
    return [item for item in content(world) if item[0] != RecordKind.COMMUNITY_REPORT]


async def test_the_wider_rule_joins_names_and_the_narrow_one_lets_them_go_again() -> None:
    world = GraphWorld(replace(NER, resolution=Resolution.LOOSE))
    world.put(1, "one", ["Johann Bernoulli met Anna Berg in Vienna last year."])
    world.put(2, "other", ["Jakob Bernoulli met Carl Weiss in Vienna last year."])
    pair = pair_of(entity_key("Johann Bernoulli"), entity_key("Jakob Bernoulli"))
    await world.build()
    assert pair in {(found.a, found.b) for found in resolved(world)}
    world.graph = NER
    await world.build()
    assert pair not in {(found.a, found.b) for found in resolved(world)}


def reports(world: GraphWorld) -> dict[str, Record]:
    return {record.record_id: record for record in world.records() if record.kind is RecordKind.COMMUNITY_REPORT}


def resolved(world: GraphWorld) -> list[Any]:
    return list(unpack_pairs(world.objects.kept[world.builds.row.artefacts[RESOLUTION]]))


_NAMES = (
    "Anna Berg",
    "Anna  Berg",
    "Bern Institute",
    "Institute of Bern",
    "Carl Weiss",
    "Karl Weiss",
    "Acme Inc",
    "ACME",
)
_TEXT = st.lists(st.sampled_from(_NAMES), min_size=2, max_size=4).map(
    lambda names: f"{names[0]} met {' and '.join(names[1:])} in Vienna last year."
)
_DOCUMENTS = st.lists(st.lists(_TEXT, min_size=1, max_size=2), min_size=1, max_size=5)


@given(_DOCUMENTS, _DOCUMENTS, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=15)
async def test_adding_and_removing_again_restores_the_graph(
    first: list[list[str]], second: list[list[str]], dice: Any
) -> None:
    world = GraphWorld(NER)
    for number, texts in enumerate(first):
        world.put(number + 1, f"first{number}", texts)
    await world.build()
    before = (said(world), columns(world), resolved(world))
    for number, texts in enumerate(second):
        world.put(number + 101, f"second{number}", texts)
    await world.build()
    both = said(world)
    for number in dice.sample(range(len(second)), len(second)):
        world.remove(f"second{number}", is_purged=True)
        if dice.random() < 0.5:
            await world.build()
    await world.build()
    assert (said(world), columns(world), resolved(world)) == before

    # The union is the same in whatever order its documents come.
    other = GraphWorld(NER)
    order = [*((number + 1, f"first{number}", texts) for number, texts in enumerate(first))]
    order += [(number + 101, f"second{number}", texts) for number, texts in enumerate(second)]
    dice.shuffle(order)
    for ordinal, document, texts in order:
        other.put(ordinal, document, texts)
        if dice.random() < 0.5:
            await other.build()
    await other.build()
    assert said(other) == both
