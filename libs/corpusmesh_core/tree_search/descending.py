"""From summaries down to chunks: layer by layer from the top, or from one layer at once.

References:
    Sarthi et al.: RAPTOR, ICLR 2024 (tree traversal retrieval); hierarchical indices, seed `003_67b62910d2d3a085.txt`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.assembly.ordering import arranged, dropped, kept_of, level_scores, with_scores
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.tree_search.nodes import NodeOutcome, TreeStep, children_of, is_node

LEADS_TO_CHUNKS: Final = "leads_to_chunks"
"""Why a node that was only followed is no hit."""


@dataclass(frozen=True, slots=True)
class Descent:
    """A way down a tree, as far as its nodes are known.

    Attributes:
        followed: Nodes that were followed, from the top.
        passed_by: Nodes that could have been followed and fit less, from the top.
        missing: Nodes beneath followed ones that must be scored before the way goes on; none at its end.
    """

    followed: tuple[RankedCandidate, ...]
    passed_by: tuple[RankedCandidate, ...]
    missing: tuple[str, ...]

    @property
    def last(self) -> tuple[RankedCandidate, ...]:
        """The followed nodes right above chunks, best first."""
        return tuple(item for item in self.followed if item.candidate.record.layer == 1)


def descend(nodes: Sequence[RankedCandidate], *, width: int, absent: Collection[str] = ()) -> Descent:
    """Follow the best nodes of each layer from the top down.

    A node that no known node names as its child begins a way of its own: the root of a tree, and what stands beneath
    nodes that the caller may not see.

    Args:
        nodes: Known nodes, best first.
        width: Nodes that are followed on each layer, at least 1.
        absent: Ids that were asked for in vain.

    Returns:
        The way as far as it goes.
    """
    known = {item.candidate.record.record_id for item in nodes}
    beneath = {name for item in nodes for name in children_of(item.candidate.record)}
    reached: set[str] = set()
    followed: list[RankedCandidate] = []
    passed_by: list[RankedCandidate] = []
    for layer in sorted({item.candidate.record.layer for item in nodes}, reverse=True):
        open_nodes = [
            item
            for item in nodes
            if (record := item.candidate.record).layer == layer
            and (record.record_id in reached or record.record_id not in beneath)
        ]
        followed += open_nodes[:width]
        passed_by += open_nodes[width:]
        if layer == 1:
            break
        following = dict.fromkeys(
            name for item in open_nodes[:width] for name in children_of(item.candidate.record) if name not in absent
        )
        missing = tuple(name for name in following if name not in known)
        if missing:
            return Descent(tuple(followed), tuple(passed_by), missing)
        reached.update(following)
    return Descent(tuple(followed), tuple(passed_by), ())


def orphans(nodes: Sequence[RankedCandidate]) -> tuple[RankedCandidate, ...]:
    """Find the nodes whose parents are not known, be it that they have none.

    Args:
        nodes: Known nodes.

    Returns:
        Those that no known node names as its child.
    """
    beneath = {name for item in nodes for name in children_of(item.candidate.record)}
    return tuple(item for item in nodes if item.candidate.record.record_id not in beneath)


def best_of_layer(ranked: Sequence[RankedCandidate], *, layer: int, count: int) -> tuple[RankedCandidate, ...]:
    """Take the best nodes of one layer.

    Args:
        ranked: Candidates, kept ones first, best first.
        layer: The layer.
        count: Most nodes.

    Returns:
        Nodes, best first.
    """
    found = [item for item in kept_of(ranked) if is_node(item) and item.candidate.record.layer == layer]
    return tuple(found[:count])


def best_leaves(
    ranked: Sequence[RankedCandidate], nodes: Sequence[RankedCandidate], *, per_node: int | None = None
) -> tuple[tuple[str, ...], ...]:
    """Take the best chunks beneath each of some nodes.

    Args:
        ranked: Candidates, kept ones first, best first.
        nodes: The nodes.
        per_node: Most chunks of each; None for all that are hits.

    Returns:
        For each node the ids of its chunks, best first.
    """
    order = [item.candidate.record.record_id for item in kept_of(ranked) if not is_node(item)]
    return tuple(
        tuple(name for name in order if name in links)[:per_node]
        for links in (frozenset(node.candidate.record.links) for node in nodes)
    )


def lead_by(ranked: Sequence[RankedCandidate], leaves: Collection[str]) -> tuple[RankedCandidate, ...]:
    """Put the chunks that a tree has led to before all others.

    What the tree does not lead to stays behind them: documents without a tree can still be found.

    Args:
        ranked: Candidates, kept ones first, best first.
        leaves: Ids of those chunks.

    Returns:
        Candidates in order: those chunks, then the other hits; nodes are no hits.
    """
    hits = [item for item in kept_of(ranked) if not is_node(item)]
    first = [item for item in hits if item.candidate.record.record_id in leaves]
    rest = [item for item in hits if item.candidate.record.record_id not in leaves]
    # Dealt out anew, so that a later stage that sorts keeps this order.
    staying = [
        with_scores(item, similarity=item.similarity, order_score=float(level))
        for item, level in zip([*first, *rest], level_scores(hits), strict=True)
    ]
    leaving = [dropped(item, LEADS_TO_CHUNKS) for item in kept_of(ranked) if is_node(item)]
    return arranged(staying, leaving, ranked)


def path_of(descent: Descent, shown: Collection[str]) -> tuple[TreeStep, ...]:
    """Tell of a way down.

    Args:
        descent: The way.
        shown: Ids of records that the search has read: all of them such as the caller may see.

    Returns:
        A step for each node that was looked at, from the top; followed ones first on each layer.
    """
    steps = [
        TreeStep(
            item.candidate.record.record_id,
            item.candidate.record.layer,
            item.similarity,
            outcome,
            tuple(name for name in children_of(item.candidate.record) if name in shown) if is_followed else (),
        )
        for outcome, items, is_followed in (
            (NodeOutcome.FOLLOWED, descent.followed, True),
            (NodeOutcome.DROPPED, descent.passed_by, False),
        )
        for item in items
    ]
    return tuple(sorted(steps, key=lambda step: -step.layer))
