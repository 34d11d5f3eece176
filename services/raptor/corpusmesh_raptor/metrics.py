"""Metrics of trees."""

from prometheus_client import Counter

from corpusmesh_core.trees.settings import TreeScope
from corpusmesh_core.trees.values import TreeCost

TREE_NODES_TOTAL = Counter(
    "corpusmesh_raptor_tree_nodes_total",
    "Nodes of trees by where their summary came from: a language model, sentences, or the tree before.",
    ("scope", "origin"),
)


def count_nodes(scope: TreeScope, cost: TreeCost) -> None:
    """Count the nodes of a tree, or of a part of one.

    Args:
        scope: What it is made of.
        cost: What making it cost.
    """
    counts = {
        "model": cost.model_node_count,
        "sentences": cost.extractive_node_count,
        "earlier_tree": cost.reused_node_count,
    }
    for origin, count in counts.items():
        TREE_NODES_TOTAL.labels(scope.value, origin).inc(count)
