"""How trees of summaries are searched: which nodes are kept, followed, or give way; pure functions (ADR-0012)."""

from corpusmesh_core.tree_search.collapsing import (
    COVERED_BY_LEAVES,
    COVERED_BY_SUMMARY,
    CollapseSettings,
    leaves_to_score,
    lift_leaves,
    settle_nodes,
)
from corpusmesh_core.tree_search.nodes import NodeOutcome, TreeStep, children_of, is_node, leaf_count_of, node_title

__all__ = [
    "COVERED_BY_LEAVES",
    "COVERED_BY_SUMMARY",
    "CollapseSettings",
    "NodeOutcome",
    "TreeStep",
    "children_of",
    "is_node",
    "leaf_count_of",
    "leaves_to_score",
    "lift_leaves",
    "node_title",
    "settle_nodes",
]
