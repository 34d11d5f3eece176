"""What a search may see of trees and graphs: told once, and free where there is none."""

import pytest
from pyroaring import BitMap

from corpusmesh_core.tenancy import Permission, VisibilityInputs
from corpusmesh_retrieve.viewing import views_of


def inputs(
    name: str,
    *,
    published: set[int],
    builds: set[int] | None = None,
    graph: set[int] | None = None,
    scope: str = "",
    hidden: tuple[int, ...] = (),
    matching: tuple[int, ...] | None = None,
) -> VisibilityInputs:
    return VisibilityInputs(
        name,
        "owner",
        Permission.TEAM,
        {"tree": {"scope": scope}} if scope else {},
        "space",
        1,
        1,
        BitMap(published).serialize(),
        hidden,
        matching,
        100,
        tuple(BitMap(ordinals).serialize() for ordinals in (builds, graph) if ordinals),
        tuple(kind for kind, ordinals in (("tree", builds), ("graph", graph)) if ordinals),
    )


@pytest.mark.parametrize(
    ("item", "has_tree", "build_count"),
    [
        (inputs("a", published={1, 2}), False, 0),
        (inputs("a", published={1, 2}, scope="file"), True, 0),
        (inputs("a", published={1, 2}, scope="dataset"), False, 0),
        (inputs("a", published={1, 2}, scope="off"), False, 0),
        (inputs("a", published={1, 2, 50, 51}, builds={50, 51}, scope="dataset"), True, 2),
        # What an earlier scope has left is a tree as long as it is published.
        (inputs("a", published={1, 50}, builds={50}), True, 1),
        (inputs("a", published={1}, builds={50}, scope="dataset"), False, 0),
        (inputs("a", published={1, 2, 50}, builds={50, 60}, matching=(2,)), True, 1),
    ],
)
def test_a_tree_takes_part_where_there_may_be_one(item: VisibilityInputs, has_tree: bool, build_count: int) -> None:
    [view] = views_of([item])
    assert (view.has_tree, view.build_count) == (has_tree, build_count)


def test_knowledge_bases_of_a_space_are_one_view_and_builds_are_no_versions() -> None:
    [view] = views_of([inputs("a", published={1, 2, 50}, builds={50}, hidden=(2,)), inputs("b", published={3})])
    assert view.knowledge_base_ids == ("a", "b")
    assert view.has_tree
    assert len(view.visibility.ordinals) - view.build_count == 2


@pytest.mark.parametrize(
    ("item", "has_tree", "has_graph"),
    [
        (inputs("a", published={1, 50}, graph={50}), False, True),
        (inputs("a", published={1, 50, 51}, builds={51}, graph={50}), True, True),
        (inputs("a", published={1}, graph={50}), False, False),
        (inputs("a", published={1, 50}, builds={50}), True, False),
    ],
)
def test_a_graph_is_no_tree_and_takes_part_where_something_of_it_is_published(
    item: VisibilityInputs, has_tree: bool, has_graph: bool
) -> None:
    [view] = views_of([item, inputs("b", published={3})])
    assert (view.has_tree, view.has_graph) == (has_tree, has_graph)
    assert view.graph_knowledge_base_ids == (("a",) if has_graph else ())
