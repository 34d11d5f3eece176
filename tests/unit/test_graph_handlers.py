"""The doors to graphs: builds, what is told to whom, and what is done once."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from corpusmesh_core.graphs.telling import GraphProgress, bill_values, figures_values, progress_values
from corpusmesh_core.graphs.values import GraphBill, GraphFigures
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_runtime.context import CallContext, current_call
from tests.support.canned_graphs import KB, GraphMesh, harbour

GRAPH = f"knowledgeBases/{KB}/graph"
CONTEXT = cast(Any, None)
BILL = GraphBill(document_count=2, entity_count=4, duration_seconds=1.5, stepped_down_reason="GRAPH_BUDGET_SPENT")


@contextmanager
def calling(user: str, role: Role = Role.EDITOR) -> Iterator[None]:
    identity = Identity("acme", user, role, Scope.WRITE)
    token = current_call.set(CallContext(identity, "request-1", time.monotonic() + 60))
    try:
        yield
    finally:
        current_call.reset(token)


def told() -> GraphMesh:
    mesh = harbour()
    assert mesh.row is not None
    mesh.row = replace(
        mesh.row,
        plan=bill_values(BILL),
        figures=figures_values(GraphFigures(4, 4, 2, BILL)),
        error_reason="BUILD_FAILED",
        error_message="it broke",
    )
    return mesh


async def get(mesh: GraphMesh) -> pb.Graph:
    return await mesh.doors().graphs.GetGraph(pb.GetGraphRequest(name=GRAPH), CONTEXT)


async def test_an_editor_who_sees_all_is_told_counts_and_figures() -> None:
    with calling("ann"):
        graph = await get(told())
    assert (graph.state, graph.entity_count, graph.relation_count, graph.report_count) == (
        pb.Graph.STATE_READY,
        4,
        4,
        2,
    )
    assert (graph.run, graph.error_reason) == (f"knowledgeBases/{KB}/runs/run-9", "BUILD_FAILED")
    assert (graph.plan.entity_count, graph.bill.stepped_down_reason) == (4, "GRAPH_BUDGET_SPENT")
    assert graph.snapshot == f"knowledgeBases/{KB}/snapshots/6"
    assert not graph.outdated


async def test_a_viewer_is_told_counts_without_figures() -> None:
    with calling("vic", Role.VIEWER):
        graph = await get(told())
    assert graph == pb.Graph(
        name=GRAPH,
        state=pb.Graph.STATE_READY,
        entity_count=4,
        relation_count=4,
        report_count=2,
        publish_time=graph.publish_time,
        snapshot=f"knowledgeBases/{KB}/snapshots/6",
    )


async def test_an_editor_from_whom_something_is_hidden_is_told_what_is_visible_and_nothing_else() -> None:
    with calling("bob"):
        graph = await get(told())
    assert graph == pb.Graph(name=GRAPH, state=pb.Graph.STATE_READY, entity_count=3, relation_count=2, report_count=1)


async def test_a_build_under_way_is_not_told_to_whom_something_is_hidden() -> None:
    mesh = told()
    assert mesh.row is not None
    progress = progress_values(GraphProgress("extract", 40, 10, BILL))
    mesh.row = replace(mesh.row, is_building=True, progress=progress)
    with calling("ann"):
        graph = await get(mesh)
        assert (graph.state, graph.progress.phase, graph.progress.done_count) == (
            pb.Graph.STATE_BUILDING,
            "extract",
            10,
        )
    with calling("bob"):
        graph = await get(mesh)
        assert (graph.state, graph.HasField("progress")) == (pb.Graph.STATE_READY, False)


@pytest.mark.parametrize(("config", "reason"), [({}, "GRAPH_OFF"), ({"graph": {"methods": ["ner"]}}, "NOT_BUILT")])
async def test_a_knowledge_base_without_a_graph_says_why(config: dict[str, object], reason: str) -> None:
    mesh = GraphMesh(published={1}, documents={1: "open"}, config=config)
    with calling("ann"):
        assert await get(mesh) == pb.Graph(name=GRAPH, state=pb.Graph.STATE_EMPTY, empty_reason=reason)


async def test_a_graph_is_outdated_once_something_else_is_published() -> None:
    mesh = told()
    mesh.add_document(3, "third")
    with calling("ann"):
        assert (await get(mesh)).outdated


async def test_the_same_request_id_begins_one_build_and_says_so_again() -> None:
    mesh = told()
    request = pb.BuildGraphRequest(name=GRAPH, full=True, request_id=str(uuid.uuid4()))
    with calling("ann"):
        first = await mesh.doors().graphs.BuildGraph(request, CONTEXT)
        assert await mesh.doors().graphs.BuildGraph(request, CONTEXT) == first
    assert (first.run, first.graph.state) == (f"knowledgeBases/{KB}/runs/run-1", pb.Graph.STATE_BUILDING)
    assert [(order.full, order.request_id) for order in mesh.orders] == [(True, request.request_id)]
    assert mesh.orders[0].headers["request_id"] == "request-1"
    assert mesh.orders[0].plan["document_count"] == 2
    assert mesh.audited == [("graph.build", GRAPH)]


async def test_a_plan_covers_what_the_caller_sees_and_takes_over_what_is_there() -> None:
    mesh = told()
    with calling("ann"):
        plan = (await mesh.doors().graphs.PlanGraph(pb.PlanGraphRequest(name=GRAPH), CONTEXT)).plan
        assert (plan.document_count, plan.reused_document_count, plan.chunk_count) == (0, 2, 0)
        plan = (await mesh.doors().graphs.PlanGraph(pb.PlanGraphRequest(name=GRAPH, full=True), CONTEXT)).plan
        assert (plan.document_count, plan.reused_document_count, plan.chunk_count) == (2, 0, 8)
    with calling("bob"):
        plan = (await mesh.doors().graphs.PlanGraph(pb.PlanGraphRequest(name=GRAPH), CONTEXT)).plan
    # Not told that one is taken over: it would tell of the hidden one.
    assert (plan.document_count, plan.reused_document_count, plan.chunk_count) == (1, 0, 4)


async def test_a_knowledge_base_that_makes_no_graph_says_how_to_switch_it_on() -> None:
    handlers = GraphMesh(config={}).doors().graphs
    with calling("ann"):
        for answer in (
            handlers.BuildGraph(pb.BuildGraphRequest(name=GRAPH), CONTEXT),
            handlers.PlanGraph(pb.PlanGraphRequest(name=GRAPH), CONTEXT),
        ):
            with pytest.raises(FailedPreconditionError) as caught:
                await answer
            assert caught.value.reason == "GRAPH_OFF"
            assert "methods" in caught.value.message


async def test_viewers_neither_plan_nor_build_nor_cancel_nor_delete() -> None:
    handlers = told().doors().graphs
    with calling("vic", Role.VIEWER):
        for answer in (
            handlers.PlanGraph(pb.PlanGraphRequest(name=GRAPH), CONTEXT),
            handlers.BuildGraph(pb.BuildGraphRequest(name=GRAPH), CONTEXT),
            handlers.CancelGraphBuild(pb.CancelGraphBuildRequest(name=GRAPH), CONTEXT),
            handlers.DeleteGraph(pb.DeleteGraphRequest(name=GRAPH), CONTEXT),
        ):
            with pytest.raises(NotFoundError):
                await answer


async def test_cancel_and_delete_are_done_once_and_audited() -> None:
    mesh = told()
    cancel = pb.CancelGraphBuildRequest(name=GRAPH, request_id=str(uuid.uuid4()))
    delete = pb.DeleteGraphRequest(name=GRAPH, request_id=str(uuid.uuid4()))
    with calling("ann"):
        for _ in range(2):
            assert (await mesh.doors().graphs.CancelGraphBuild(cancel, CONTEXT)).graph.state == pb.Graph.STATE_READY
        for _ in range(2):
            run = (await mesh.doors().graphs.DeleteGraph(delete, CONTEXT)).run
            assert run == f"knowledgeBases/{KB}/runs/sweep"
        graph = await get(mesh)
    assert (graph.state, graph.entity_count) == (pb.Graph.STATE_DELETING, 0)
    assert mesh.audited == [("graph.cancel", GRAPH), ("graph.delete", GRAPH)]


async def test_a_watch_tells_the_graph_as_it_is_then_every_change_and_ends_with_the_build() -> None:
    mesh = told()
    assert mesh.row is not None
    building = replace(mesh.row, is_building=True, run_id="run-2")
    moves = [replace(building, progress=progress_values(GraphProgress("extract", 4, made))) for made in (1, 1, 4)]
    mesh.moves = [building, *moves, replace(mesh.row, is_building=False)]
    with calling("ann"):
        request = pb.WatchGraphRequest(name=GRAPH)
        seen = [piece async for piece in mesh.doors().graphs.WatchGraph(request, CONTEXT)]
    assert [piece.sequence for piece in seen] == [1, 2, 3]
    assert [piece.graph.progress.done_count for piece in seen] == [1, 4, 0]
    assert seen[-1].graph.state == pb.Graph.STATE_READY


@pytest.mark.parametrize("name", ["knowledgeBases/handbook", "knowledgeBases/handbook/graphs", f"{GRAPH}/entities/x"])
async def test_names_of_another_shape_are_refused(name: str) -> None:
    with calling("ann"), pytest.raises(InvalidArgumentError) as caught:
        await told().doors().graphs.GetGraph(pb.GetGraphRequest(name=name), CONTEXT)
    assert caught.value.reason == "RESOURCE_NAME_INVALID"


async def test_another_knowledge_base_and_an_unknown_one_answer_alike() -> None:
    with calling("ann"), pytest.raises(NotFoundError) as caught:
        await told().doors().graphs.GetGraph(pb.GetGraphRequest(name="knowledgeBases/other/graph"), CONTEXT)
    assert caught.value.reason == "KNOWLEDGE_BASE_NOT_FOUND"
