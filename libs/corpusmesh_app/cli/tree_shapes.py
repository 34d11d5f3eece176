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

_MIN_TEXT_CHARACTERS = 24
_NARROW_COLUMNS = 100
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
        for node in nodes:
            # Where what is above is hidden, or does not stand alone, a tree has several tops.
            if node.name not in beneath:
                _grow(root, node, by_name, lowest, width - 4)
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
    parts = [tree_state(tree)]
    if tree.method:
        parts.append(tree.method)
    if counts:
        parts.append(f"{sum(counts)} nodes on {len(counts)} layers ({' ← '.join(map(str, reversed(counts)))})")
    if tree.HasField("bill"):
        parts.append(f"{tree.bill.leaf_count} chunks, {tree.bill.model_call_count} calls of a model")
    if tree.staleness or tree.drift:
        parts.append(f"staleness {tree.staleness:.2f}, drift {tree.drift:.2f}")
    if tree.outdated:
        parts.append("outdated")
    if tree.wants_full_build:
        parts.append("a full build would pay")
    if tree.error_message:
        parts.append(f"last build failed: {tree.error_message}")
    return " · ".join(parts)


def node_line(node: pb.TreeNode) -> str:
    """Say in a few words what a node is.

    Args:
        node: The node.

    Returns:
        Layer, chunks, tokens, who wrote it and what it speaks of.
    """
    made_by = "by a model" if node.by_model else "sentences"
    why = f" ({node.fallback_reason})" if node.fallback_reason else ""
    title = f" · {node.title}" if node.title else ""
    leaves = "1 chunk" if node.leaf_count == 1 else f"{node.leaf_count} chunks"
    return plain(f"L{node.layer} · {leaves} · {node.token_count} tokens · {made_by}{why}{title}")


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


def _grow(branch: "Tree", node: pb.TreeNode, by_name: Mapping[str, pb.TreeNode], lowest: int, width: int) -> None:
    if node.layer < lowest:
        return
    twig = branch.add(_label(node, width))
    for name in node.children:
        if name in by_name:
            _grow(twig, by_name[name], by_name, lowest, width - 4)


def _label(node: pb.TreeNode, width: int) -> "Text":
    from rich.text import Text

    line = node_line(node)
    # On a wide terminal head and text share a line; a guide that goes on beneath a long one is hard to follow.
    head = Text(line, style="bold")
    shown = max(_MIN_TEXT_CHARACTERS, (width if width < _NARROW_COLUMNS else width - len(line) - 3))
    text = " ".join(plain(node.text).split())
    clipped = text if len(text) <= shown else text[: shown - 1].rstrip() + "…"
    return head + Text("\n" if width < _NARROW_COLUMNS else " · ", style="") + Text(clipped, style="not bold")
