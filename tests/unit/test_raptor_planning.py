"""What plans tell: of all, of what has changed, of a sample, and for how long."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from corpusmesh.raptor.v1 import tree_service_pb2 as pb
from corpusmesh_core.artefacts.skeletons import pack_skeleton, unpack_skeleton
from corpusmesh_core.artefacts.trees import FileTree, pack_trees
from corpusmesh_core.errors import OverloadedError
from corpusmesh_core.ports.builds import BuildRow, BuildState
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_core.trees.clustering import centroids, group_layer
from corpusmesh_core.trees.cost import plan_tree
from corpusmesh_core.trees.keys import node_key, tree_fingerprint
from corpusmesh_core.trees.reuse import OldNodes, plan_layer
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.skeleton import plant, version_leaves
from corpusmesh_core.trees.telling import TreeFigures, figures_values
from corpusmesh_core.trees.values import GrownTree, Summary, TreeCost, TreeNode
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.leaves import read_leaves
from corpusmesh_runtime.context import CallContext, current_call
from tests.support.canned_trees import KB, CannedDocuments, Mesh

PARENT = f"knowledgeBases/{KB}"
CONTEXT = cast(Any, None)


@pytest.fixture(autouse=True)
def call() -> Iterator[None]:
    identity = Identity("acme", "ann", Role.EDITOR, Scope.WRITE)
    token = current_call.set(CallContext(identity, "request-1", time.monotonic() + 60))
    yield
    current_call.reset(token)


def shelf(document_count: int, chunk_count: int = 12, **tree: object) -> Mesh:
    mesh = Mesh(config={"tree": {"scope": "dataset", **tree}})
    for ordinal in range(1, document_count + 1):
        mesh.add_document(ordinal, f"d{ordinal}", chunk_count)
    return mesh


async def plan(mesh: Mesh, *, full: bool = False, documents: list[str] | None = None) -> pb.PlanTreeResponse:
    request = pb.PlanTreeRequest(parent=PARENT, full=full, documents=documents or [])
    return await mesh.handlers().PlanTree(request, CONTEXT)


async def build(mesh: Mesh, ordinals: range) -> None:
    """Put a tree over versions in place, as a full lite build shapes it."""
    settings = TreeSettings.of(mesh.config)
    rows = await CannedDocuments(mesh).versions_by_ordinal("acme", list(ordinals))
    found = await read_leaves(cast(Any, mesh), rows, timeout_seconds=5.0)
    entries = [version_leaves(version, leaves.leaves) for version, leaves in found.items()]
    fingerprint = (await fingerprint_of(mesh))[:16]
    skeleton = plant("space", tree_fingerprint(settings).hex(), fingerprint, entries)
    vectors = np.concatenate([leaves.vectors for leaves in found.values()])
    ordinal = 1000
    while (grouping := group_layer(vectors, settings)) is not None:
        made = plan_layer(
            skeleton, grouping.clusters, grouping.similarities, grouping.threshold, OldNodes(None),
            fresh=np.zeros(len(vectors), bool), dropped=np.zeros(len(grouping.clusters), bool),
        )  # fmt: skip
        made.layer.ordinals[:] = np.arange(ordinal, ordinal + len(made.layer))
        ordinal += len(made.layer)
        skeleton, vectors = skeleton.with_layer(made.layer), centroids(vectors, grouping)
    mesh.artefacts["shape"] = pack_skeleton(skeleton)
    mesh.row = BuildRow("acme", "b1", KB, BuildState.READY, artefacts={"skeleton": "shape"})


async def fingerprint_of(mesh: Mesh) -> bytes:
    from corpusmesh_raptor.summarizing import Summarizer

    summarizer = Summarizer(None, None, cast(Any, None), cast(Any, None), mesh.settings)
    settings = TreeSettings.of(mesh.config)
    return summarizer.open(tenant_id="", run_id="", settings=settings, cost=TreeCost()).fingerprint


async def test_a_lite_plan_counts_nodes_and_calls_no_model() -> None:
    found = await plan(shelf(6))
    assert (found.document_count, found.sampled_document_count, found.plan.leaf_count) == (6, 6, 72)
    assert found.plan.extractive_node_count == found.plan.node_count == sum(found.plan.layer_node_counts)
    assert found.plan.layer_node_counts[-1] == 1
    assert (found.plan.model_call_count, found.plan.embedded_text_count, found.tenant_tokens_left) == (0, 0, -1)
    assert found.plan.duration_seconds > 0


async def test_without_a_language_model_a_plan_says_that_none_will_write() -> None:
    found = await plan(shelf(6, summaries="llm"))
    assert found.plan.model_call_count == 0
    assert found.plan.stepped_down_reason == "MODEL_NOT_CONFIGURED"


async def test_bounds_and_what_is_left_of_the_day_are_told() -> None:
    mesh = shelf(2, max_model_calls=5, max_model_tokens=700)
    mesh.settings = RaptorSettings(max_tenant_tokens_per_day=1000)
    mesh.spent_tokens = 400
    found = await plan(mesh)
    assert (found.max_model_calls, found.max_model_tokens, found.tenant_tokens_left) == (5, 700, 600)
    mesh.spent_tokens = 4000
    assert (await plan(mesh)).tenant_tokens_left == 0


async def test_a_tree_that_is_up_to_date_costs_nothing() -> None:
    mesh = shelf(8)
    await build(mesh, range(1, 9))
    found = await plan(mesh)
    assert (found.plan.extractive_node_count, found.plan.reused_node_count) == (0, found.plan.node_count)


async def test_a_new_document_costs_a_part_of_a_full_build() -> None:
    mesh = shelf(20)
    await build(mesh, range(1, 21))
    mesh.add_document(21, "d21", 12)
    update, anew = await plan(mesh), await plan(mesh, full=True)
    assert update.plan.leaf_count == anew.plan.leaf_count == 252
    assert 0 < update.plan.extractive_node_count < 0.25 * anew.plan.node_count


async def test_more_changes_than_an_update_takes_are_planned_as_a_full_build() -> None:
    mesh = shelf(4)
    await build(mesh, range(1, 5))
    for ordinal in range(5, 15):
        mesh.add_document(ordinal, f"d{ordinal}", 12)
    assert (await plan(mesh)).plan.node_count == (await plan(mesh, full=True)).plan.node_count


async def test_changes_of_before_count_where_an_update_would_leave_too_much_behind() -> None:
    mesh = shelf(20)
    await build(mesh, range(1, 21))
    mesh.add_document(21, "d21", 12)
    update = (await plan(mesh)).plan.extractive_node_count
    # A quarter of its leaves was changed since the last full build; the new document makes that more than 0.3.
    shape = replace(unpack_skeleton(mesh.artefacts["shape"]), changed_leaf_count=65)
    mesh.artefacts["shape"] = pack_skeleton(shape)
    anew = (await plan(mesh, full=True)).plan.extractive_node_count
    assert (await plan(mesh)).plan.extractive_node_count == anew > update


async def test_a_tree_under_other_settings_is_planned_anew() -> None:
    mesh = shelf(8)
    await build(mesh, range(1, 9))
    mesh.config = {"tree": {"scope": "dataset", "summary_tokens": 64}}
    found = await plan(mesh)
    assert found.plan.reused_node_count == 0


async def test_of_many_chunks_a_plan_reads_some_documents_and_says_so() -> None:
    mesh = shelf(40)
    whole = await plan(mesh)
    mesh.settings = RaptorSettings(plan_max_leaves=120)
    found = await plan(mesh)
    assert (found.document_count, found.sampled_document_count) == (40, 10)
    assert found.plan.leaf_count == whole.plan.leaf_count == 480
    assert found.plan.layer_node_counts[-1] == 1
    assert found.plan.node_count == pytest.approx(whole.plan.node_count, rel=0.25)


async def test_what_a_build_took_tells_how_long_the_next_one_takes() -> None:
    mesh = shelf(6)
    usual = (await plan(mesh, full=True)).plan.duration_seconds
    bill = TreeCost(leaf_count=72, extractive_node_count=30)
    expected = 72 * 0.001 + 30 * 0.01
    bill.duration_seconds = 3 * expected
    mesh.row = BuildRow("acme", "b1", KB, BuildState.READY, figures=figures_values(TreeFigures(bill=bill)))
    assert (await plan(mesh, full=True)).plan.duration_seconds == pytest.approx(3 * usual)


async def test_trees_of_documents_are_planned_each_for_itself_where_settings_were_others() -> None:
    mesh = shelf(6, chunk_count=12, scope="file")
    mesh.made_before = {3, 4, 5, 6}
    found = await plan(mesh)
    assert (found.document_count, found.plan.leaf_count) == (4, 48)
    assert found.plan.layer_node_counts[-1] == 4
    one = await plan(mesh, documents=[f"{PARENT}/documents/d3"])
    assert (one.document_count, one.plan.leaf_count) == (1, 12)


async def test_what_a_document_has_of_its_tree_is_taken_over() -> None:
    mesh = shelf(1, scope="file")
    rows = await CannedDocuments(mesh).versions_by_ordinal("acme", [1])
    leaves = (await read_leaves(cast(Any, mesh), rows, timeout_seconds=5.0))[1]
    fingerprint = await fingerprint_of(mesh)
    settings = TreeSettings.of(mesh.config)
    grouping = group_layer(leaves.vectors, settings)
    assert grouping is not None
    places = tuple(grouping.clusters[0].tolist())
    key = node_key(fingerprint, [leaves.leaves[place].key for place in places])
    kept = TreeNode(key, 1, places, Summary("text", 5), places)
    tree = GrownTree(((kept,),), (np.ones((1, 4), np.float32),), TreeCost(), (0.5,))
    mesh.artefacts["tree-1"] = pack_trees({1: FileTree(tree, tuple(range(12)), (b"k" * 16,) * 12, b"")})
    mesh.with_trees, mesh.made_with = {1}, "other"
    found = await plan(mesh)
    assert found.plan.reused_node_count == 1
    anew = plan_tree(leaves.leaves, leaves.vectors, settings)
    assert found.plan.extractive_node_count == anew.extractive_node_count - 1


async def test_a_plan_of_whom_something_is_hidden_tells_of_the_visible_alone() -> None:
    mesh = shelf(8)
    await build(mesh, range(1, 9))
    assert mesh.row is not None
    mesh.hidden = {"ann": (1, 2, 3)}
    found = await plan(mesh)
    bare = shelf(8)
    bare.published -= {1, 2, 3}
    assert found.document_count == 5
    assert replace_time(found) == replace_time(await plan(bare))


def replace_time(found: pb.PlanTreeResponse) -> pb.PlanTreeResponse:
    copy = pb.PlanTreeResponse()
    copy.CopyFrom(found)
    copy.plan.ClearField("duration_seconds")
    return copy


async def test_a_build_that_is_under_way_is_not_planned_again() -> None:
    mesh = shelf(3)
    for _ in range(2):
        await mesh.handlers().BuildTree(pb.BuildTreeRequest(parent=PARENT), CONTEXT)
    assert [bool(order.plan) for order in mesh.orders] == [True, False]


async def test_few_plans_are_made_at_once_and_a_build_begins_without_one_all_the_same() -> None:
    mesh = shelf(6)
    mesh.settings = RaptorSettings(max_concurrent_plans=2)
    handlers = mesh.handlers()
    requests = [handlers.PlanTree(pb.PlanTreeRequest(parent=PARENT), CONTEXT) for _ in range(4)]
    build = handlers.BuildTree(pb.BuildTreeRequest(parent=PARENT), CONTEXT)
    *plans, _ = await asyncio.gather(*requests, build, return_exceptions=True)
    refused = [found for found in plans if isinstance(found, OverloadedError)]
    assert [error.reason for error in refused] == ["TREE_PLANS_BUSY"] * 3
    assert len(mesh.orders) == 1
    assert (await handlers.PlanTree(pb.PlanTreeRequest(parent=PARENT), CONTEXT)).document_count == 6


async def test_a_build_keeps_its_plan() -> None:
    mesh = shelf(6)
    await mesh.handlers().BuildTree(pb.BuildTreeRequest(parent=PARENT), CONTEXT)
    assert mesh.orders[0].plan["leaf_count"] == 72
    # Also of what is hidden from the caller: the bill will count it too.
    mesh.hidden = {"ann": (1,)}
    mesh.row = replace(mesh.row, is_building=False) if mesh.row is not None else None
    response = await mesh.handlers().BuildTree(pb.BuildTreeRequest(parent=PARENT), CONTEXT)
    assert mesh.orders[1].plan["leaf_count"] == 72
    assert not response.tree.HasField("plan")
