"""The doors to trees: what is visible to whom, what is told to whom, and what is done once."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from pyroaring import BitMap

from corpusmesh.raptor.v1 import tree_service_pb2 as pb
from corpusmesh_core.artefacts.skeletons import pack_skeleton
from corpusmesh_core.artefacts.trees import FileTree, pack_trees
from corpusmesh_core.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
)
from corpusmesh_core.ports.builds import BuildRow, BuildState
from corpusmesh_core.tenancy import Identity, Role, Scope, dump_bitmap
from corpusmesh_core.trees.skeleton import SkeletonLayer, VersionLeaves, plant
from corpusmesh_core.trees.telling import TreeFigures, TreeProgress, cost_values, figures_values, progress_values
from corpusmesh_core.trees.values import GrownTree, TreeCost
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.handlers.shapes import SkeletonShelf
from corpusmesh_runtime.context import CallContext, current_call
from tests.support.canned_trees import KB, MOMENT, Mesh, chunk, node

PARENT = f"knowledgeBases/{KB}"
DATASET = f"{PARENT}/trees/dataset"
FILE = f"{PARENT}/documents/open/tree"
CONTEXT = cast(Any, None)
BILL = TreeCost(leaf_count=9, layer_node_counts=[3, 1], extractive_node_count=4, duration_seconds=1.0)


@contextmanager
def calling(user: str, role: Role = Role.EDITOR) -> Iterator[None]:
    identity = Identity("acme", user, role, Scope.WRITE)
    token = current_call.set(CallContext(identity, "request-1", time.monotonic() + 60))
    try:
        yield
    finally:
        current_call.reset(token)


def library() -> Mesh:
    """Two documents, one of which bob may not see; a tree of each and one over both.

    Ordinals: 1 and 2 are versions, 11 to 14 nodes of the tree over both. 13 stands on both documents, 14 is its top.
    """
    mesh = Mesh(published={1, 2, 11, 12, 13, 14}, documents={1: "open", 2: "secret"}, hidden={"bob": (2,)})
    opened = [chunk(1, place, "open") for place in range(4)]
    secret = [chunk(2, place, "secret") for place in range(4)]
    first, second = node(11, 1, 0, opened[:2]), node(12, 1, 1, opened[2:])
    mixed = node(13, 1, 2, secret)
    top = node(14, 2, 0, [first, second, mixed])
    low = [node(1, 1, place, opened[2 * place : 2 * place + 2], document="open") for place in (0, 1)]
    mesh.index.records = [
        *opened, *secret, first, second, mixed, top,
        *low, node(1, 2, 2, low, document="open"), node(2, 1, 0, secret, document="secret", made_by="llm gpt/v1"),
    ]  # fmt: skip
    mesh.row = BuildRow(
        "acme", "b1", KB, BuildState.READY,
        run_id="run-9",
        ordinals=dump_bitmap(BitMap([11, 12, 13, 14])),
        published=dump_bitmap(BitMap([11, 12, 13, 14])),
        sources=dump_bitmap(BitMap([1, 2])),
        snapshot_id=6,
        figures=figures_values(TreeFigures("watershed", 0.25, 0.5, True, BILL)),
        plan=cost_values(BILL),
        error_reason="BUILD_FAILED",
        error_message="it broke",
        publish_time=MOMENT,
    )  # fmt: skip
    return mesh


def node_name(mesh: Mesh, publisher: int, layer: int, document: str = "") -> str:
    record = next(one for one in mesh.index.records if (one.publisher, one.layer) == (publisher, layer))
    return (
        f"{PARENT}/documents/{document}/tree/nodes/{record.record_id}"
        if document
        else (f"{DATASET}/nodes/{record.record_id}")
    )


async def test_an_editor_who_sees_all_is_told_counts_and_figures() -> None:
    with calling("ann"):
        tree = await library().handlers().GetTree(pb.GetTreeRequest(name=DATASET), CONTEXT)
    assert tree.state == pb.Tree.STATE_READY
    assert list(tree.layer_node_counts) == [3, 1]
    assert (tree.staleness, tree.drift, tree.wants_full_build) == (0.25, 0.5, True)
    assert (tree.method, tree.run, tree.error_reason) == ("watershed", f"{PARENT}/runs/run-9", "BUILD_FAILED")
    assert (tree.plan.node_count, tree.bill.leaf_count) == (4, 9)
    assert tree.snapshot == f"{PARENT}/snapshots/6"
    assert not tree.outdated


async def test_a_viewer_is_told_counts_without_figures() -> None:
    with calling("vic", Role.VIEWER):
        tree = await library().handlers().GetTree(pb.GetTreeRequest(name=DATASET), CONTEXT)
    assert list(tree.layer_node_counts) == [3, 1]
    expected = pb.Tree(
        name=DATASET,
        state=pb.Tree.STATE_READY,
        method="watershed",
        layer_node_counts=[3, 1],
        publish_time=tree.publish_time,
        snapshot=f"{PARENT}/snapshots/6",
    )
    assert tree == expected


async def test_an_editor_from_whom_something_is_hidden_is_told_what_is_visible_and_nothing_else() -> None:
    mesh = library()
    with calling("bob"):
        tree = await mesh.handlers().GetTree(pb.GetTreeRequest(name=DATASET), CONTEXT)
    assert tree == pb.Tree(name=DATASET, state=pb.Tree.STATE_READY, method="watershed", layer_node_counts=[2])


async def test_a_build_under_way_is_not_told_to_whom_something_is_hidden() -> None:
    mesh = library()
    assert mesh.row is not None
    progress = progress_values(TreeProgress(1, 40, 10, BILL))
    mesh.row = replace(mesh.row, is_building=True, progress=progress)
    with calling("ann"):
        told = await mesh.handlers().GetTree(pb.GetTreeRequest(name=DATASET), CONTEXT)
    assert (told.state, told.progress.made_node_count) == (pb.Tree.STATE_BUILDING, 10)
    # Even where what is hidden is not published any more: the build may stand on it.
    mesh.published.discard(2)
    mesh.row = replace(mesh.row, sources=dump_bitmap(BitMap([1])))
    with calling("bob"):
        told = await mesh.handlers().GetTree(pb.GetTreeRequest(name=DATASET), CONTEXT)
    assert told.state == pb.Tree.STATE_READY
    assert not told.HasField("progress")


async def test_what_was_hidden_and_is_gone_hides_no_figures() -> None:
    mesh = library()
    assert mesh.row is not None
    mesh.hidden = {"bob": (99,)}
    with calling("bob"):
        tree = await mesh.handlers().GetTree(pb.GetTreeRequest(name=DATASET), CONTEXT)
    assert tree.HasField("bill")


async def test_a_tree_is_outdated_once_something_else_is_published() -> None:
    mesh = library()
    mesh.add_document(3, "third")
    with calling("ann"):
        assert (await mesh.handlers().GetTree(pb.GetTreeRequest(name=DATASET), CONTEXT)).outdated


async def test_a_knowledge_base_without_a_tree_has_an_empty_one() -> None:
    mesh = Mesh(published={1}, documents={1: "open"})
    with calling("ann"):
        tree = await mesh.handlers().GetTree(pb.GetTreeRequest(name=DATASET), CONTEXT)
    assert tree == pb.Tree(name=DATASET, state=pb.Tree.STATE_EMPTY, empty_reason="NOT_BUILT")


async def test_the_tree_of_a_document_shows_its_nodes_alone() -> None:
    mesh = library()
    mesh.config = {"tree": {"scope": "file", "method": "section"}}
    with calling("bob"):
        tree = await mesh.handlers().GetTree(pb.GetTreeRequest(name=FILE), CONTEXT)
        assert list(tree.layer_node_counts) == [2, 1]
        assert (tree.method, tree.run, tree.outdated) == ("section", f"{PARENT}/runs/ingest-run", False)
        page = await mesh.handlers().ListTreeNodes(pb.ListTreeNodesRequest(parent=FILE), CONTEXT)
    assert [(one.layer, one.text) for one in page.nodes] == [
        (2, "summary 2.2"),
        (1, "summary 1.0"),
        (1, "summary 1.1"),
    ]
    assert page.nodes[0].children == [page.nodes[1].name, page.nodes[2].name]
    assert [one.children for one in page.nodes[1:]] == [[], []]


async def test_what_the_tree_of_a_document_has_cost_is_for_those_who_may_write() -> None:
    mesh = library()
    mesh.config = {"tree": {"scope": "file"}}
    mesh.with_trees = {1}
    grown = FileTree(GrownTree((), (), BILL), tuple(range(4)), (b"k" * 16,) * 4, b"", changed_count=2)
    mesh.artefacts["tree-1"] = pack_trees({1: grown})
    with calling("ann"):
        tree = await mesh.handlers().GetTree(pb.GetTreeRequest(name=FILE), CONTEXT)
    assert (tree.bill.leaf_count, tree.staleness, tree.wants_full_build) == (9, 0.5, True)
    with calling("vic", Role.VIEWER):
        tree = await mesh.handlers().GetTree(pb.GetTreeRequest(name=FILE), CONTEXT)
    assert (tree.HasField("bill"), tree.staleness, tree.run) == (False, 0.0, "")
    assert tree.HasField("publish_time")


@pytest.mark.parametrize("document", ["secret", "unknown"])
async def test_a_hidden_document_and_an_unknown_one_answer_alike(document: str) -> None:
    handlers = library().handlers()
    name = f"{PARENT}/documents/{document}/tree"
    record = "2-tree_node-" + "0" * 32
    with calling("bob"):
        for answer in (
            handlers.GetTree(pb.GetTreeRequest(name=name), CONTEXT),
            handlers.ListTreeNodes(pb.ListTreeNodesRequest(parent=name), CONTEXT),
            handlers.GetTreeNode(pb.GetTreeNodeRequest(name=f"{name}/nodes/{record}"), CONTEXT),
        ):
            with pytest.raises(NotFoundError) as caught:
                await answer
            assert caught.value.reason == "DOCUMENT_NOT_FOUND"


async def test_a_node_comes_with_its_children_and_its_chunks_with_their_places() -> None:
    mesh = library()
    name = node_name(mesh, 14, 2)
    with calling("ann"):
        found = await mesh.handlers().GetTreeNode(pb.GetTreeNodeRequest(name=name), CONTEXT)
    assert (found.node.name, found.node.layer, found.node.leaf_count) == (name, 2, 8)
    assert [child.text for child in found.children] == ["summary 1.0", "summary 1.1", "summary 1.2"]
    assert found.node.children == [child.name for child in found.children]
    assert [leaf.record_id for leaf in found.leaves] == [*(f"1-{n}" for n in range(4)), *(f"2-{n}" for n in range(4))]
    leaf = found.leaves[5]
    assert leaf.document == f"{PARENT}/documents/secret"
    assert (leaf.place.version, leaf.place.page) == (f"{PARENT}/documents/secret/versions/1", 2)


async def test_a_node_made_of_hidden_text_and_an_unknown_one_answer_alike() -> None:
    mesh = library()
    unknown = f"{DATASET}/nodes/14-tree_node-{'f' * 32}"
    with calling("bob"):
        for name in (node_name(mesh, 14, 2), node_name(mesh, 13, 1), unknown):
            with pytest.raises(NotFoundError) as caught:
                await mesh.handlers().GetTreeNode(pb.GetTreeNodeRequest(name=name), CONTEXT)
            assert caught.value.reason == "TREE_NODE_NOT_FOUND"
            assert not caught.value.metadata
        seen = await mesh.handlers().GetTreeNode(pb.GetTreeNodeRequest(name=node_name(mesh, 12, 1)), CONTEXT)
    assert [leaf.record_id for leaf in seen.leaves] == ["1-2", "1-3"]


async def test_a_node_of_one_tree_is_no_node_of_another() -> None:
    mesh = library()
    of_dataset = node_name(mesh, 12, 1).rsplit("/", 1)[1]
    of_file = node_name(mesh, 1, 1, "open").rsplit("/", 1)[1]
    with calling("ann"):
        for name in (f"{FILE}/nodes/{of_dataset}", f"{DATASET}/nodes/{of_file}"):
            with pytest.raises(NotFoundError):
                await mesh.handlers().GetTreeNode(pb.GetTreeNodeRequest(name=name), CONTEXT)


async def test_who_wrote_a_node_is_told() -> None:
    mesh = library()
    with calling("ann"):
        name = f"{PARENT}/documents/secret/tree"
        page = await mesh.handlers().ListTreeNodes(pb.ListTreeNodesRequest(parent=name), CONTEXT)
        other = await mesh.handlers().ListTreeNodes(pb.ListTreeNodesRequest(parent=FILE), CONTEXT)
    assert [one.by_model for one in page.nodes] == [True]
    assert not any(one.by_model for one in other.nodes)


async def test_a_node_over_many_chunks_shows_the_first_of_them() -> None:
    mesh = Mesh(published={1, 20, 21, 22, 23}, documents={1: "open"})
    chunks = [chunk(1, place, "open") for place in range(300)]
    lows = [node(20, 1, place, chunks[100 * place : 100 * place + 100]) for place in range(3)]
    middle = [node(21, 2, 0, lows[:2], links=False), node(22, 2, 1, lows[2:], links=False)]
    top = node(23, 3, 0, middle, links=False)
    mesh.index.records = [*chunks, *lows, *middle, top]
    with calling("ann"):
        name = f"{DATASET}/nodes/{top.record_id}"
        found = await mesh.handlers().GetTreeNode(pb.GetTreeNodeRequest(name=name), CONTEXT)
    assert found.node.leaf_count == 2000
    assert [leaf.record_id for leaf in found.leaves] == [f"1-{place}" for place in range(200)]


async def test_a_page_reads_the_layers_that_it_shows_alone() -> None:
    mesh = library()
    with calling("ann"):
        page = await mesh.handlers().ListTreeNodes(pb.ListTreeNodesRequest(parent=FILE, page_size=1), CONTEXT)
    assert [one.layer for one in page.nodes] == [2]
    assert page.next_page_token
    assert mesh.index.scanned == [1]


async def test_pages_of_nodes_follow_one_another_to_the_end() -> None:
    handlers = library().handlers()
    seen: list[str] = []
    token = ""
    with calling("ann"):
        for _ in range(3):
            request = pb.ListTreeNodesRequest(parent=FILE, page_size=1, page_token=token)
            page = await handlers.ListTreeNodes(request, CONTEXT)
            seen += [one.text for one in page.nodes]
            token = page.next_page_token
        assert (seen, token) == (["summary 2.2", "summary 1.0", "summary 1.1"], "")
        layer = await handlers.ListTreeNodes(pb.ListTreeNodesRequest(parent=FILE, layer=1), CONTEXT)
        assert [one.layer for one in layer.nodes] == [1, 1]
        first = await handlers.ListTreeNodes(pb.ListTreeNodesRequest(parent=FILE, page_size=1), CONTEXT)
        other = pb.ListTreeNodesRequest(parent=FILE, layer=1, page_token=first.next_page_token)
        for wrong in (other, pb.ListTreeNodesRequest(parent=FILE, layer=-1)):
            with pytest.raises(InvalidArgumentError):
                await handlers.ListTreeNodes(wrong, CONTEXT)


def built(mesh: Mesh) -> None:
    """Give the tree over both documents its shape."""
    assert mesh.row is not None
    leaves = [VersionLeaves(one, np.arange(4, dtype=np.int32), np.zeros((4, 16), np.uint8)) for one in (1, 2)]
    skeleton = plant("space", "", b"", leaves)
    by_layer = {
        layer: [one for one in mesh.index.records if one.layer == layer and not one.document_id] for layer in (1, 2)
    }
    for layer, children in ((1, [[0, 1], [2, 3], [4, 5, 6, 7]]), (2, [[0, 1, 2]])):
        keys = [bytes.fromhex(one.record_id.rsplit("-", 1)[1]) for one in by_layer[layer]]
        skeleton = skeleton.with_layer(
            SkeletonLayer(
                bounds=np.cumsum([0, *map(len, children)]).astype(np.int32),
                children=np.concatenate(children).astype(np.int32),
                keys=np.frombuffer(b"".join(keys), np.uint8).reshape(-1, 16),
                ordinals=np.array([one.publisher for one in by_layer[layer]], np.int32),
                cosines=np.zeros(0, np.float32),
                threshold=0.0,
            )
        )
    mesh.artefacts["shape"] = pack_skeleton(skeleton)
    mesh.row = replace(mesh.row, artefacts={"skeleton": "shape"})


async def test_the_tree_of_a_knowledge_base_is_listed_from_the_top_down_as_far_as_it_is_visible() -> None:
    mesh = library()
    built(mesh)
    handlers = mesh.handlers()
    request = pb.ListTreeNodesRequest(parent=DATASET)
    with calling("ann"):
        page = await handlers.ListTreeNodes(request, CONTEXT)
        assert [(one.layer, one.text) for one in page.nodes] == [
            (2, "summary 2.0"),
            (1, "summary 1.0"),
            (1, "summary 1.1"),
            (1, "summary 1.2"),
        ]
        first = await handlers.ListTreeNodes(pb.ListTreeNodesRequest(parent=DATASET, page_size=3), CONTEXT)
        last = pb.ListTreeNodesRequest(parent=DATASET, page_size=3, page_token=first.next_page_token)
        assert [one.text for one in (await handlers.ListTreeNodes(last, CONTEXT)).nodes] == ["summary 1.2"]
        top = await handlers.ListTreeNodes(pb.ListTreeNodesRequest(parent=DATASET, layer=2), CONTEXT)
        assert [one.text for one in top.nodes] == ["summary 2.0"]
    with calling("bob"):
        page = await handlers.ListTreeNodes(request, CONTEXT)
        assert [one.text for one in page.nodes] == ["summary 1.0", "summary 1.1"]
        assert page.next_page_token == ""
        tree = await handlers.GetTree(pb.GetTreeRequest(name=DATASET), CONTEXT)
        assert sum(tree.layer_node_counts) == len(page.nodes)


async def test_a_shape_is_read_once_however_many_ask_at_once() -> None:
    mesh = library()
    built(mesh)
    reads: list[str] = []

    class Slow:
        async def get(self, key: str, **_: object) -> bytes:
            reads.append(key)
            await asyncio.sleep(0.02)
            return mesh.artefacts[key]

    shelf = SkeletonShelf(cast(Any, Slow()))
    assert mesh.row is not None
    found = await asyncio.gather(*(shelf.read(mesh.row, timeout_seconds=5.0) for _ in range(20)))
    assert reads == ["shape"]
    assert all(shape is found[0] for shape in found)
    with pytest.raises(DeadlineExceededError):
        await SkeletonShelf(cast(Any, Slow())).read(mesh.row, timeout_seconds=0.001)


async def test_a_tree_that_was_never_published_has_no_nodes_to_list() -> None:
    with calling("ann"):
        page = await library().handlers().ListTreeNodes(pb.ListTreeNodesRequest(parent=DATASET), CONTEXT)
    assert page == pb.ListTreeNodesResponse()


async def test_a_tree_whose_shape_was_swept_has_no_nodes_to_list() -> None:
    mesh = library()
    assert mesh.row is not None
    mesh.row = replace(mesh.row, state=BuildState.DELETING, artefacts={"skeleton": "gone"})
    with calling("ann"):
        page = await mesh.handlers().ListTreeNodes(pb.ListTreeNodesRequest(parent=DATASET), CONTEXT)
    assert page == pb.ListTreeNodesResponse()


async def test_the_same_request_id_begins_one_build_and_says_so_again() -> None:
    mesh = library()
    request = pb.BuildTreeRequest(parent=PARENT, full=True, request_id=str(uuid.uuid4()))
    with calling("ann"):
        first = await mesh.handlers().BuildTree(request, CONTEXT)
        assert await mesh.handlers().BuildTree(request, CONTEXT) == first
    assert (first.run, first.tree.state) == (f"{PARENT}/runs/run-1", pb.Tree.STATE_BUILDING)
    assert [(order.full, order.request_id) for order in mesh.orders] == [(True, request.request_id)]
    assert mesh.orders[0].headers["request_id"] == "request-1"
    # What the documents were made of is gone here: a build that cannot be planned begins all the same.
    assert mesh.orders[0].plan == {}
    assert mesh.audited == [("tree.build", PARENT)]


async def test_trees_of_documents_are_made_where_settings_were_others() -> None:
    mesh = library()
    mesh.config = {"tree": {"scope": "file"}}
    mesh.add_document(3, "third")
    mesh.made_before = {3}
    request = pb.BuildTreeRequest(parent=PARENT, request_id=str(uuid.uuid4()))
    with calling("ann"):
        first = await mesh.handlers().BuildTree(request, CONTEXT)
        assert await mesh.handlers().BuildTree(request, CONTEXT) == first
    assert (first.run, first.document_count, mesh.remade) == (f"{PARENT}/runs/remake", 1, ["third"])
    assert not first.HasField("tree")
    assert mesh.audited == [("tree.build", PARENT)]
    mesh.remade, mesh.made_with = [], "of-other-settings"
    with calling("bob"):
        await mesh.handlers().BuildTree(pb.BuildTreeRequest(parent=PARENT), CONTEXT)
    # Not the one that bob may not see.
    assert mesh.remade == ["open", "third"]


async def test_where_every_document_was_made_under_the_settings_of_now_there_is_nothing_to_do() -> None:
    # One of them can have no tree, and is not made again for that.
    mesh = library()
    mesh.config = {"tree": {"scope": "file"}}
    mesh.with_trees = {1}
    with calling("ann"):
        response = await mesh.handlers().BuildTree(pb.BuildTreeRequest(parent=PARENT), CONTEXT)
        assert response == pb.BuildTreeResponse()
        assert mesh.audited == []
        one = pb.BuildTreeRequest(parent=PARENT, documents=[f"{PARENT}/documents/open"], full=True)
        assert (await mesh.handlers().BuildTree(one, CONTEXT)).document_count == 1
        assert mesh.remade == ["open"]
    for name in ("secret", "unknown"):
        hidden = pb.BuildTreeRequest(parent=PARENT, documents=[f"{PARENT}/documents/{name}"])
        with calling("bob"), pytest.raises(NotFoundError) as caught:
            await mesh.handlers().BuildTree(hidden, CONTEXT)
        assert caught.value.reason == "DOCUMENT_NOT_FOUND"


async def test_a_knowledge_base_that_makes_no_trees_says_how_to_switch_them_on() -> None:
    mesh = Mesh(config={})
    with calling("ann"):
        for answer in (
            mesh.handlers().BuildTree(pb.BuildTreeRequest(parent=PARENT), CONTEXT),
            mesh.handlers().PlanTree(pb.PlanTreeRequest(parent=PARENT), CONTEXT),
        ):
            with pytest.raises(FailedPreconditionError) as caught:
                await answer
            assert caught.value.reason == "TREE_SCOPE_OFF"
            assert "scope" in caught.value.message
            assert "--settings" in caught.value.message


async def test_one_tree_over_all_takes_no_documents() -> None:
    request = pb.BuildTreeRequest(parent=PARENT, documents=[f"{PARENT}/documents/open"])
    with calling("ann"), pytest.raises(InvalidArgumentError) as caught:
        await library().handlers().BuildTree(request, CONTEXT)
    assert caught.value.field == "documents"


async def test_viewers_neither_plan_nor_build_nor_cancel_nor_delete() -> None:
    handlers = library().handlers()
    with calling("vic", Role.VIEWER):
        for answer in (
            handlers.PlanTree(pb.PlanTreeRequest(parent=PARENT), CONTEXT),
            handlers.BuildTree(pb.BuildTreeRequest(parent=PARENT), CONTEXT),
            handlers.CancelTreeBuild(pb.CancelTreeBuildRequest(name=DATASET), CONTEXT),
            handlers.DeleteTree(pb.DeleteTreeRequest(name=DATASET), CONTEXT),
        ):
            with pytest.raises(NotFoundError):
                await answer


async def test_cancel_and_delete_are_done_once_and_audited() -> None:
    mesh = library()
    cancel = pb.CancelTreeBuildRequest(name=DATASET, request_id=str(uuid.uuid4()))
    delete = pb.DeleteTreeRequest(name=DATASET, request_id=str(uuid.uuid4()))
    with calling("ann"):
        for _ in range(2):
            assert (await mesh.handlers().CancelTreeBuild(cancel, CONTEXT)).tree.state == pb.Tree.STATE_READY
        for _ in range(2):
            assert (await mesh.handlers().DeleteTree(delete, CONTEXT)).run == f"{PARENT}/runs/sweep"
        tree = await mesh.handlers().GetTree(pb.GetTreeRequest(name=DATASET), CONTEXT)
    assert tree.state == pb.Tree.STATE_DELETING
    assert mesh.audited == [("tree.cancel", DATASET), ("tree.delete", DATASET)]


async def test_a_watch_tells_the_tree_as_it_is_then_every_change_and_ends_with_the_build() -> None:
    mesh = library()
    assert mesh.row is not None
    building = replace(mesh.row, is_building=True, run_id="run-2")
    told = [replace(building, progress=progress_values(TreeProgress(1, 4, made))) for made in (1, 1, 4)]
    mesh.row = building
    mesh.moves = [building, *told, replace(mesh.row, is_building=False)]
    with calling("ann"):
        request = pb.WatchTreeRequest(name=DATASET)
        seen = [piece async for piece in mesh.handlers().WatchTree(request, CONTEXT)]
    assert [piece.sequence for piece in seen] == [1, 2, 3]
    assert [piece.tree.progress.made_node_count for piece in seen] == [1, 4, 0]
    assert [piece.tree.state for piece in seen] == [
        pb.Tree.STATE_BUILDING,
        pb.Tree.STATE_BUILDING,
        pb.Tree.STATE_READY,
    ]


async def test_one_tenant_leaves_watches_to_others() -> None:
    mesh = library()
    assert mesh.row is not None
    mesh.row = replace(mesh.row, is_building=True)
    mesh.settings = RaptorSettings(max_concurrent_watches=2)
    handlers = mesh.handlers()
    request = pb.WatchTreeRequest(name=DATASET)
    with calling("ann"):
        async with contextlib.aclosing(cast(Any, handlers.WatchTree(request, CONTEXT))) as first:
            await anext(first)
            with pytest.raises(OverloadedError, match="watched"):
                await anext(handlers.WatchTree(request, CONTEXT))
        async with contextlib.aclosing(cast(Any, handlers.WatchTree(request, CONTEXT))) as again:
            assert (await anext(again)).tree.state == pb.Tree.STATE_BUILDING


async def test_a_watch_of_what_is_not_built_tells_it_once() -> None:
    with calling("vic", Role.VIEWER):
        request = pb.WatchTreeRequest(name=DATASET)
        seen = [piece async for piece in library().handlers().WatchTree(request, CONTEXT)]
    assert [piece.tree.state for piece in seen] == [pb.Tree.STATE_READY]


@pytest.mark.parametrize(
    "name",
    [
        "knowledgeBases/handbook/trees/other",
        "knowledgeBases/handbook/documents/a/b/tree",
        "knowledgeBases/handbook/trees/dataset/nodes/5-chunk-1",
        "knowledgeBases/handbook/trees/dataset/nodes/../../x",
    ],
)
async def test_names_of_another_shape_are_refused(name: str) -> None:
    handlers = library().handlers()
    answer = (
        handlers.GetTreeNode(pb.GetTreeNodeRequest(name=name), CONTEXT)
        if "/nodes/" in name
        else handlers.GetTree(pb.GetTreeRequest(name=name), CONTEXT)
    )
    with calling("ann"), pytest.raises(InvalidArgumentError) as caught:
        await answer
    assert caught.value.reason == "RESOURCE_NAME_INVALID"
