"""What a search may see of trees: told once, and free where there is none."""

import pytest
from pyroaring import BitMap

from corpusmesh_core.tenancy import Permission, VisibilityInputs
from corpusmesh_retrieve.viewing import views_of


def inputs(
    name: str,
    *,
    published: set[int],
    builds: set[int] | None = None,
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
        (BitMap(builds).serialize(),) if builds else (),
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
