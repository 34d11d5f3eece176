"""How trees of summaries are searched: which nodes are kept, followed, or give way; pure functions (ADR-0012)."""

from corpusmesh_core.tree_search.collapsing import (
    COVERED_BY_LEAVES,
    COVERED_BY_SUMMARY,
    CollapseSettings,
    leaves_to_score,
    lift_leaves,
    settle_nodes,
)
from corpusmesh_core.tree_search.descending import (
    LEADS_TO_CHUNKS,
    Descent,
    best_leaves,
    best_of_layer,
    descend,
    lead_by,
    orphans,
    path_of,
)
from corpusmesh_core.tree_search.nodes import (
    NodeOutcome,
    TreeStep,
    children_of,
    is_node,
    leaf_count_of,
    node_title,
    on_scale_of_leaves,
    with_cosines_of_leaves,
)

__all__ = [
    "COVERED_BY_LEAVES",
    "COVERED_BY_SUMMARY",
    "LEADS_TO_CHUNKS",
    "CollapseSettings",
    "Descent",
    "NodeOutcome",
    "TreeStep",
    "best_leaves",
    "best_of_layer",
    "children_of",
    "descend",
    "is_node",
    "lead_by",
    "leaf_count_of",
    "leaves_to_score",
    "lift_leaves",
    "node_title",
    "on_scale_of_leaves",
    "orphans",
    "path_of",
    "settle_nodes",
    "with_cosines_of_leaves",
]
