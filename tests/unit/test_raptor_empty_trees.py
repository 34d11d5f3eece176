"""Why a caller sees nothing of a tree, and that what is hidden is not told by it."""

from dataclasses import replace
from typing import Any

import pytest
from pyroaring import BitMap

from corpusmesh.raptor.v1 import tree_service_pb2 as pb
from corpusmesh_core.ports.builds import BuildRow, BuildState
from corpusmesh_core.tenancy import dump_bitmap
from corpusmesh_core.trees.telling import TreeFigures, figures_values
from corpusmesh_core.trees.values import TreeCost
from tests.support.canned_trees import KB, Mesh, node
from tests.unit.test_raptor_handlers import CONTEXT, DATASET, FILE, calling, library

FILE_TREES: dict[str, object] = {"tree": {"scope": "file"}}


async def _reason(mesh: Mesh, name: str, user: str = "ann") -> str:
    with calling(user):
        tree = await mesh.handlers().GetTree(pb.GetTreeRequest(name=name), CONTEXT)
    assert tree.state == pb.Tree.STATE_EMPTY
    return tree.empty_reason


@pytest.mark.parametrize(
    ("chunk_count", "expected"), [(0, "NO_TEXT"), (1, "ONE_CHUNK"), (2, "ROWS_OF_TABLES"), (48, "ROWS_OF_TABLES")]
)
async def test_a_document_whose_ingest_made_no_tree_says_what_it_is_of(chunk_count: int, expected: str) -> None:
    mesh = Mesh(config=FILE_TREES)
    mesh.add_document(1, "open", chunk_count)
    assert await _reason(mesh, FILE) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"config": {}}, "TREES_OFF"),
        ({"config": {"tree": {"scope": "dataset"}}}, "TREES_OFF"),
        ({"config": FILE_TREES, "made_with": "other settings"}, "NOT_BUILT"),
    ],
)
async def test_a_document_that_was_not_asked_for_a_tree_says_so(fields: dict[str, Any], expected: str) -> None:
    mesh = Mesh(**fields)
    mesh.add_document(1, "open", 9)
    assert await _reason(mesh, FILE) == expected


async def test_a_tree_that_is_there_says_nothing_of_the_kind() -> None:
    mesh = library()
    with calling("ann"):
        tree = await mesh.handlers().GetTree(pb.GetTreeRequest(name=DATASET), CONTEXT)
    assert (tree.state, tree.empty_reason) == (pb.Tree.STATE_READY, "")


def _built(leaf_count: int) -> Mesh:
    mesh = Mesh(published={1}, documents={1: "open"})
    figures = figures_values(TreeFigures("watershed", 0.0, 0.0, False, TreeCost(leaf_count=leaf_count)))
    mesh.row = BuildRow("acme", "b1", KB, BuildState.READY, sources=dump_bitmap(BitMap([1])), figures=figures)
    return mesh


async def test_the_tree_of_a_knowledge_base_says_what_it_found() -> None:
    assert await _reason(Mesh(published={1}, documents={1: "open"}), DATASET) == "NOT_BUILT"
    assert await _reason(Mesh(published={1}, documents={1: "open"}, config=FILE_TREES), DATASET) == "TREES_OFF"
    assert await _reason(_built(1), DATASET) == "ONE_CHUNK"
    assert await _reason(_built(0), DATASET) == "NO_TEXT"
    outdated = _built(0)
    outdated.add_document(2, "new", 9)
    assert await _reason(outdated, DATASET) == "NOT_BUILT"
    deleted = _built(0)
    assert deleted.row is not None
    deleted.row = replace(deleted.row, state=BuildState.EMPTY)
    assert await _reason(deleted, DATASET) == "NOT_BUILT"


async def test_who_may_see_nothing_of_a_tree_is_told_what_they_are_told_without_one() -> None:
    without = Mesh(published={1, 2}, documents={1: "open", 2: "secret"}, hidden={"bob": (2,)})
    hidden = library()
    hidden.index.records = [record for record in hidden.index.records if record.publisher == 13] + [
        node(14, 1, 0, [record for record in hidden.index.records if record.record_id.startswith("2-")][:2])
    ]
    empty = _built(1)
    empty.published.add(2)
    empty.documents[2] = "secret"
    empty.hidden = {"bob": (2,)}
    answers = {await _reason(mesh, DATASET, "bob") for mesh in (without, hidden, empty)}
    assert answers == {"NOT_BUILT"}
