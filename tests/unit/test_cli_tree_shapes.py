"""How trees are drawn in a terminal: what a node is called, what fits on a line, and why there is nothing to draw."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from corpusmesh.raptor.v1 import tree_service_pb2 as pb
from corpusmesh_app.cli.tree_shapes import draw_tree, fitted, headline, node_line, tree_shape

FILE = "knowledgeBases/handbook/documents/d/tree"
DATASET = "knowledgeBases/handbook/trees/dataset"


def _node(name: str, layer: int, title: str, children: tuple[str, ...] = (), text: str = "Said.") -> pb.TreeNode:
    return pb.TreeNode(
        name=f"{FILE}/nodes/{name}",
        layer=layer,
        title=title,
        text=text,
        leaf_count=2,
        token_count=9,
        children=[f"{FILE}/nodes/{child}" for child in children],
    )


def _drawn(nodes: list[pb.TreeNode], width: int = 160) -> str:
    text = io.StringIO()
    tree = pb.Tree(name=FILE, state=pb.Tree.STATE_READY, layer_node_counts=[2, 1])
    draw_tree(tree, nodes, depth=0, more=False)(Console(file=text, width=width))
    return text.getvalue()


@pytest.mark.parametrize(
    ("name", "reason", "said"),
    [
        (FILE, "ROWS_OF_TABLES", "no tree: rows of tables are not summarized"),
        (FILE, "ONE_CHUNK", "no tree: one chunk needs no summary"),
        (DATASET, "NOT_BUILT", "not built yet: corpusmesh tree build --kb handbook"),
        (FILE, "TREES_OFF", "no tree: the knowledge base asks for none (section `tree`, scope `file`)"),
        (DATASET, "TREES_OFF", "no tree: the knowledge base asks for none (section `tree`, scope `dataset`)"),
        (FILE, "", "empty"),
        (FILE, "OF_A_LATER_RELEASE", "empty"),
    ],
)
def test_a_tree_that_is_empty_says_why(name: str, reason: str, said: str) -> None:
    tree = pb.Tree(name=name, state=pb.Tree.STATE_EMPTY, empty_reason=reason)
    assert headline(tree) == said
    assert tree_shape(tree)["empty_reason"] == (reason or None)


def test_one_of_a_thing_is_not_said_in_the_plural() -> None:
    bill = pb.TreeCost(leaf_count=1, model_call_count=1)
    one = headline(pb.Tree(state=pb.Tree.STATE_READY, layer_node_counts=[1], bill=bill))
    assert one == "ready · 1 node on 1 layer · 1 chunk, 1 call of a model"
    many = headline(pb.Tree(state=pb.Tree.STATE_READY, layer_node_counts=[2, 1], bill=pb.TreeCost(leaf_count=4)))
    assert many == "ready · 3 nodes on 2 layers (1 ← 2) · 4 chunks, 0 calls of a model"
    assert node_line(pb.TreeNode(layer=1, leaf_count=1, token_count=1)) == "L1 · 1 chunk · 1 token · sentences"


def test_a_title_is_said_once_on_the_way_down() -> None:
    shown = _drawn(
        [
            _node("top", 2, "The command line", ("a", "b", "c")),
            _node("a", 1, "The command line"),
            _node("b", 1, "The command line › Searching"),
            _node("c", 1, "The command line interface"),
        ]
    )
    assert [line.count("The command line") for line in shown.splitlines()[2:]] == [1, 0, 0, 1]
    assert "sentences · Searching · Said." in shown


def test_a_title_that_all_tops_share_is_left_out() -> None:
    shown = _drawn([_node("a", 1, "Rules"), _node("b", 1, "Rules")])
    assert "Rules" not in shown
    assert "Fees" in _drawn([_node("a", 1, "Rules"), _node("b", 1, "Fees")])


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_lines_are_cut_by_the_cells_that_they_take(width: int) -> None:
    text = "汇编指南讲述了项目的全部规则。" * 20
    long_title = "总则" * 60
    shown = _drawn([_node("top", 2, "汇编", ("a",), text), _node("a", 1, long_title, (), text)], width)
    lines = shown.splitlines()[2:]
    assert len(lines) == (2 if width > 104 else 4), "no line was broken"
    assert all(cell_len(line.rstrip()) <= width for line in lines)
    assert sum("…" in line for line in lines) >= 2


def test_what_fits_is_not_cut() -> None:
    assert fitted("汇编" * 6, 24) == "汇编" * 6
    cut = fitted("汇编" * 13, 25)
    assert (cut, cell_len(cut)) == ("汇编" * 6 + "…", 25)
