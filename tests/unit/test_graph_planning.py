"""Plans of graphs: counted from the chunks that a build would read, and told before anything is made."""

from dataclasses import replace
from typing import Any, cast

import pytest

from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh_core.artefacts import pack_chunks
from corpusmesh_core.documents import BlockKind, Chunk, ChunkRole
from corpusmesh_core.graphs.telling import figures_values
from corpusmesh_core.graphs.values import GraphFigures, Triple
from corpusmesh_core.ports.graph_inputs import TriplesRow
from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_graph.handlers import make_handlers
from corpusmesh_graph.stores import GraphTools
from tests.support.canned_graphs import MOMENT, GraphMesh, harbour
from tests.unit.test_graph_handlers import CONTEXT, GRAPH, calling

NAMES = ("Anna Berg", "Carl Dahl", "Harbour Board", "North Quay", "Old Customs House", "Vera Holm", "Port of Ystad")


def library(documents: int, chunks: int = 4, **config: Any) -> GraphMesh:
    mesh = GraphMesh(config={"graph": {"methods": ["ner"], **config}})
    for ordinal in range(1, documents + 1):
        mesh.published.add(ordinal)
        mesh.documents[ordinal] = f"d{ordinal}"
        mesh.chunk_counts[ordinal] = chunks
        texts = [
            f"{NAMES[(ordinal + place) % 7]} met {NAMES[(ordinal * place + 3) % 7]} and Mister{ordinal} Person{place}."
            for place in range(chunks)
        ]
        mesh.artefacts[f"chunks-{ordinal}"] = pack_chunks(
            {ordinal: [text_chunk(place, text) for place, text in enumerate(texts)]}
        )
    return mesh


def text_chunk(position: int, text: str) -> Chunk:
    return Chunk(
        position=position,
        text=text,
        role=ChunkRole.TEXT,
        heading_path=(),
        page=0,
        boxes=(),
        token_count=100,
        block_kind=BlockKind.PARAGRAPH,
    )


async def plan(mesh: GraphMesh, *, full: bool = False) -> pb.PlanGraphResponse:
    with calling("ann"):
        return await mesh.doors().graphs.PlanGraph(pb.PlanGraphRequest(name=GRAPH, full=full), CONTEXT)


async def test_a_plan_of_names_asks_no_model_and_embeds_nothing() -> None:
    found = (await plan(library(3))).plan
    assert (found.document_count, found.reused_document_count, found.chunk_count) == (3, 0, 12)
    assert found.entity_count >= len(NAMES)
    assert found.relation_count > 0
    assert found.duration_seconds > 0
    assert (found.model_call_count, found.input_token_count, found.embedded_text_count) == (0, 0, 0)


async def test_a_plan_for_a_model_tells_the_calls_that_a_build_would_make() -> None:
    mesh = library(2, chunks=6, methods=["light"], gleanings=1, extraction_tokens=300, reports="off", resolution="off")
    with_model = make_with_model(mesh)
    with calling("ann"):
        found = (await with_model.PlanGraph(pb.PlanGraphRequest(name=GRAPH), CONTEXT)).plan
    # 600 tokens of a document are two batches of three chunks, each asked and asked again.
    assert found.model_call_count == 8
    assert found.input_token_count > 2 * 1200
    assert found.output_token_count > 0
    assert found.embedded_token_count > 0
    assert found.stepped_down_reason == ""


async def test_without_a_model_names_are_planned_in_its_place_and_said_so() -> None:
    found = (await plan(library(2, methods=["general"], reports="llm"))).plan
    assert (found.stepped_down_reason, found.model_call_count) == ("MODEL_NOT_CONFIGURED", 0)
    assert found.entity_count > 0


async def test_of_many_chunks_some_documents_are_read_and_the_rest_is_projected() -> None:
    mesh = library(40, chunks=5)
    whole = await plan(mesh)
    mesh.settings = GraphServiceSettings(plan_max_chunks=100)
    sampled = await plan(mesh)
    assert (whole.sampled_document_count, sampled.sampled_document_count) == (40, 20)
    assert sampled.plan.chunk_count == whole.plan.chunk_count == 200
    assert sampled.plan.entity_count == pytest.approx(whole.plan.entity_count, rel=0.35)


async def test_distinct_names_grow_more_slowly_than_the_text() -> None:
    """The same few names again and again: a projection of a sample must not multiply them."""
    mesh = GraphMesh(config={"graph": {"methods": ["ner"]}})
    text = "Anna Berg met Carl Dahl at the Harbour Board."
    for ordinal in range(1, 41):
        mesh.published.add(ordinal)
        mesh.documents[ordinal] = f"d{ordinal}"
        mesh.chunk_counts[ordinal] = 10
        mesh.artefacts[f"chunks-{ordinal}"] = pack_chunks({ordinal: [text_chunk(place, text) for place in range(10)]})
    mesh.settings = GraphServiceSettings(plan_max_chunks=100, plan_sample_chunks=100)
    assert (await plan(mesh)).plan.entity_count < 12


async def test_a_plan_of_an_update_reads_what_has_changed_alone() -> None:
    mesh = harbour()
    mesh.add_document(3, "third", chunk_count=2)
    found = (await plan(mesh)).plan
    assert (found.document_count, found.reused_document_count, found.chunk_count) == (1, 2, 2)
    again = (await plan(mesh, full=True)).plan
    assert (again.reused_document_count, again.chunk_count) == (0, 10)


async def test_documents_whose_triples_changed_are_read_again() -> None:
    mesh = harbour()
    mesh.triples["open"] = TriplesRow("open", (Triple("A", "b", "C"),), MOMENT)
    found = (await plan(mesh)).plan
    assert (found.reused_document_count, found.chunk_count) == (1, 4)


async def test_facts_of_ones_own_are_counted_as_they_are() -> None:
    mesh = library(2, methods=["triples"], reports="off")
    facts = (
        Triple("Anna", "chairs", "the Board"),
        Triple("the board", "built", "Quay"),
        Triple("Board", "sold", "Quay"),
    )
    mesh.triples["d1"] = TriplesRow("d1", facts, MOMENT)
    found = (await plan(mesh)).plan
    assert (found.entity_count, found.relation_count, found.embedded_text_count) == (3, 2, 5)
    mesh.config = {"graph": {"methods": ["ner", "triples"]}}
    assert (await plan(mesh)).plan.entity_count > 3


async def test_other_settings_of_extraction_take_nothing_over() -> None:
    mesh = harbour()
    mesh.config = {"graph": {"methods": ["ner", "triples"], "max_chunk_relations": 3}}
    assert (await plan(mesh)).plan.reused_document_count == 0


async def test_communities_that_an_update_does_not_touch_keep_their_reports() -> None:
    mesh = harbour()
    assert mesh.row is not None
    mesh.row = replace(mesh.row, figures=figures_values(GraphFigures(entity_count=1000, report_count=100)))
    mesh.add_document(3, "third", chunk_count=2)
    found = (await plan(mesh)).plan
    assert 0 < found.report_count < 20
    assert found.report_count + found.reused_report_count == 100


def make_with_model(mesh: GraphMesh) -> Any:
    """Make the handlers of a mesh that has a language model, which a plan must not ask."""

    class Asked:
        model = "gpt"

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"a plan asks no model: {name}")

    doors = mesh.doors()
    builder = doors.graphs._builder
    stores = builder._stores
    tools = GraphTools(cast(Any, None), cast(Any, Asked()), cast(Any, None))
    return make_handlers(mesh.settings, stores, tools, mesh.reads()).graphs
