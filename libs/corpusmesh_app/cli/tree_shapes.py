"""The JSON shapes of trees, and how they are drawn in a terminal; documented in `docs/guide/cli.md`."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from corpusmesh.raptor.v1 import tree_service_pb2 as pb
from corpusmesh_app.cli.output import plain
from corpusmesh_app.cli.shapes import Shape, time_of
from corpusmesh_client.names import document_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

_MIN_TEXT_CELLS = 24
_NARROW_COLUMNS = 100
_TITLE_SEPARATOR = " › "
_ABSENCES = {
    "TREES_OFF": "no tree: the knowledge base asks for none (section `tree`, scope `{scope}`)",
    "NOT_PUBLISHED": "no tree: the document is not published",
    "NOT_BUILT": "not built yet: corpusmesh tree build --kb {knowledge_base}",
    "NO_TEXT": "no tree: there is no running text to summarize",
    "ONE_CHUNK": "no tree: one chunk needs no summary",
    "ROWS_OF_TABLES": "no tree: rows of tables are not summarized",
}
_COUNTS = (
    "leaf_count",
    "node_count",
    "reused_node_count",
    "model_node_count",
    "extractive_node_count",
    "model_call_count",
    "input_token_count",
    "output_token_count",
    "embedded_text_count",
    "embedded_token_count",
    "failed_call_count",
)


def tree_state(tree: pb.Tree) -> str:
    """Give the name of a tree's state.

    Args:
        tree: The tree.

    Returns:
        Such as "ready".
    """
    return pb.Tree.State.Name(tree.state).removeprefix("STATE_").lower()


def cost_shape(cost: pb.TreeCost) -> Shape:
    """Describe a cost.

    Args:
        cost: The cost.

    Returns:
        Its shape.
    """
    return {
        **{name: getattr(cost, name) for name in _COUNTS},
        "layer_node_counts": list(cost.layer_node_counts),
        "duration_seconds": cost.duration_seconds,
        "stepped_down_reason": cost.stepped_down_reason or None,
    }


def tree_shape(tree: pb.Tree) -> Shape:
    """Describe a tree.

    Args:
        tree: The tree.

    Returns:
        Its shape; what the caller is not told, or what is not there, is null.
    """
    progress = tree.progress
    return {
        "name": tree.name,
        "state": tree_state(tree),
        "empty_reason": tree.empty_reason or None,
        "method": tree.method or None,
        "layer_node_counts": list(tree.layer_node_counts),
        "run": tree.run or None,
        "error_reason": tree.error_reason or None,
        "error_message": tree.error_message or None,
        "staleness": tree.staleness,
        "drift": tree.drift,
        "wants_full_build": tree.wants_full_build,
        "outdated": tree.outdated,
        "plan": cost_shape(tree.plan) if tree.HasField("plan") else None,
        "bill": cost_shape(tree.bill) if tree.HasField("bill") else None,
        "publish_time": time_of(tree, "publish_time"),
        "snapshot": tree.snapshot or None,
        "progress": {
            "layer": progress.layer,
            "layer_node_count": progress.layer_node_count,
            "made_node_count": progress.made_node_count,
            "cost": cost_shape(progress.cost),
        }
        if tree.HasField("progress")
        else None,
    }


def node_shape(node: pb.TreeNode) -> Shape:
    """Describe a node.

    Args:
        node: The node.

    Returns:
        Its shape.
    """
    return {
        "name": node.name,
        "layer": node.layer,
        "title": node.title or None,
        "text": node.text,
        "token_count": node.token_count,
        "leaf_count": node.leaf_count,
        "by_model": node.by_model,
        "fallback_reason": node.fallback_reason or None,
        "children": list(node.children),
    }


def leaf_shape(leaf: pb.TreeLeaf) -> Shape:
    """Describe a chunk that a node stands for.

    Args:
        leaf: The chunk.

    Returns:
        Its shape.
    """
    return {
        "record_id": leaf.record_id,
        "document": leaf.document,
        "version": leaf.place.version,
        "title": leaf.title,
        "display_name": leaf.place.display_name,
        "page": leaf.place.page,
        "heading_path": list(leaf.place.heading_path),
        "text": leaf.text,
    }


def draw_tree(tree: pb.Tree, nodes: Sequence[pb.TreeNode], *, depth: int, more: bool) -> Callable[["Console"], None]:
    """Make a renderer of a tree.

    Args:
        tree: The tree.
        nodes: Its nodes, from the top down.
        depth: Layers to show from the top; 0 for all.
        more: Whether there are further nodes.

    Returns:
        A function that prints it on a console.
    """

    def render(console: "Console") -> None:
        from rich.text import Text
        from rich.tree import Tree

        console.print(plain(headline(tree)))
        if not nodes:
            return
        by_name = {node.name: node for node in nodes}
        beneath = {child for node in nodes for child in node.children}
        top = max(node.layer for node in nodes)
        lowest = top - depth + 1 if depth else 1
        width = min(console.width, 240)
        root = Tree(Text(plain(tree.name)), guide_style="dim")
        # Where what is above is hidden, or does not stand alone, a tree has several tops.
        tops = [node for node in nodes if node.name not in beneath]
        shared = {node.title for node in tops}
        above = shared.pop() if len(tops) > 1 and len(shared) == 1 else ""
        for node in tops:
            _grow(root, node, by_name, lowest, width - 4, above)
        console.print(root, soft_wrap=False)
        if more:
            console.print("There are more nodes; --limit shows more of them, --layer one layer alone.", style="dim")

    return render


def headline(tree: pb.Tree) -> str:
    """Say in a line what a tree is.

    Args:
        tree: The tree.

    Returns:
        State, method, nodes of each layer from the top, and for those who may know how well it still fits.
    """
    counts = list(tree.layer_node_counts)
    parts = [why_empty(tree) or tree_state(tree)]
    if tree.method:
        parts.append(tree.method)
    if counts:
        shape = f" ({' ← '.join(map(str, reversed(counts)))})" if len(counts) > 1 else ""
        parts.append(f"{many(sum(counts), 'node')} on {many(len(counts), 'layer')}{shape}")
    if tree.HasField("bill"):
        parts.append(f"{many(tree.bill.leaf_count, 'chunk')}, {many(tree.bill.model_call_count, 'call')} of a model")
    if tree.staleness or tree.drift:
        parts.append(f"staleness {tree.staleness:.2f}, drift {tree.drift:.2f}")
    if tree.outdated:
        parts.append("outdated")
    if tree.wants_full_build:
        parts.append("a full build would pay")
    if tree.error_message:
        parts.append(f"last build failed: {tree.error_message}")
    return " · ".join(parts)


def why_empty(tree: pb.Tree) -> str:
    """Say why there is nothing of a tree.

    Args:
        tree: The tree.

    Returns:
        The reason, and what to do about it; "" where there is something, or where it is not told.
    """
    scope = "dataset" if tree.name.endswith("/trees/dataset") else "file"
    sentence = _ABSENCES.get(tree.empty_reason, "") if tree.state == pb.Tree.STATE_EMPTY else ""
    return sentence.format(scope=scope, knowledge_base=tree.name.split("/")[1]) if sentence else ""


def node_line(node: pb.TreeNode, above: str = "") -> str:
    """Say in a few words what a node is.

    Args:
        node: The node.
        above: Title of the node that it is shown beneath, which is not said again.

    Returns:
        Layer, chunks, tokens, who wrote it and what it speaks of.
    """
    made_by = "by a model" if node.by_model else "sentences"
    why = f" ({node.fallback_reason})" if node.fallback_reason else ""
    own = "" if node.title == above else node.title.removeprefix(f"{above}{_TITLE_SEPARATOR}" if above else "")
    title = f" · {own}" if own else ""
    leaves, tokens = many(node.leaf_count, "chunk"), many(node.token_count, "token")
    return plain(f"L{node.layer} · {leaves} · {tokens} · {made_by}{why}{title}")


def render_cost(rows: Mapping[str, pb.TreeCost]) -> list[tuple[str, ...]]:
    """Write costs side by side.

    Args:
        rows: Cost by heading.

    Returns:
        Lines of a table: what, and a cell for each cost.
    """
    costs = list(rows.values())
    lines: list[tuple[str, ...]] = [
        ("Chunks", *(f"{cost.leaf_count:,}" for cost in costs)),
        ("Nodes", *(f"{cost.node_count:,} ({_layers(cost)})" for cost in costs)),
        ("  taken over", *(f"{cost.reused_node_count:,}" for cost in costs)),
        ("  by a language model", *(f"{cost.model_node_count:,}" for cost in costs)),
        ("  of sentences", *(f"{cost.extractive_node_count:,}" for cost in costs)),
        ("Calls", *(f"{cost.model_call_count:,}" for cost in costs)),
        ("Tokens sent, received", *(f"{cost.input_token_count:,}, {cost.output_token_count:,}" for cost in costs)),
        ("Tokens embedded", *(f"{cost.embedded_token_count:,}" for cost in costs)),
        ("Seconds", *(f"{cost.duration_seconds:.1f}" for cost in costs)),
    ]
    if any(cost.stepped_down_reason for cost in costs):
        lines.append(("Stepped down", *(cost.stepped_down_reason for cost in costs)))
    return lines


def place_line(leaf: pb.TreeLeaf) -> str:
    """Say where a chunk stands.

    Args:
        leaf: The chunk.

    Returns:
        File, page and headings.
    """
    parts = [leaf.place.display_name or document_of(leaf.document)]
    if leaf.place.page:
        parts.append(f"page {leaf.place.page}")
    if leaf.place.heading_path:
        parts.append(" > ".join(leaf.place.heading_path))
    return plain(", ".join(parts))


def _layers(cost: pb.TreeCost) -> str:
    return ", ".join(f"{count:,}" for count in cost.layer_node_counts) or "no layer"


def many(count: int, thing: str) -> str:
    """Count things.

    Args:
        count: How many.
        thing: One of them.

    Returns:
        Such as "1 node" or "1,200 nodes".
    """
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def _grow(
    branch: "Tree", node: pb.TreeNode, by_name: Mapping[str, pb.TreeNode], lowest: int, width: int, above: str
) -> None:
    if node.layer < lowest:
        return
    twig = branch.add(_label(node, width, above))
    for name in node.children:
        if name in by_name:
            _grow(twig, by_name[name], by_name, lowest, width - 4, node.title or above)


def _label(node: pb.TreeNode, width: int, above: str) -> "Text":
    from rich.cells import cell_len
    from rich.text import Text

    # On a wide terminal head and text share a line; a guide that goes on beneath a long one is hard to follow.
    is_narrow = width < _NARROW_COLUMNS
    line = fitted(node_line(node, above), width if is_narrow else width - _MIN_TEXT_CELLS - 3)
    head = Text(line, style="bold")
    text = fitted(" ".join(plain(node.text).split()), width if is_narrow else width - cell_len(line) - 3)
    return head + Text("\n" if is_narrow else " · ", style="") + Text(text, style="not bold")


def fitted(text: str, width: int) -> str:
    """Cut a text to the width that it has in a terminal, where an ideograph takes two cells.

    Args:
        text: One line.
        width: Cells.

    Returns:
        The text, or its beginning with an ellipsis; at least 24 cells of it.
    """
    from rich.cells import cell_len, set_cell_size

    room = max(width, _MIN_TEXT_CELLS)
    return text if cell_len(text) <= room else set_cell_size(text, room - 1).rstrip() + "…"
