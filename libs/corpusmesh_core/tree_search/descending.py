"""From summaries down to chunks: layer by layer from the top, or from one layer at once.

References:
    Sarthi et al.: RAPTOR, ICLR 2024 (tree traversal retrieval); hierarchical indices, seed `003_67b62910d2d3a085.txt`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.assembly.ordering import arranged, dropped, kept_of
from corpusmesh_core.ranking import RankedCandidate, RankingOptions, in_order, raised
from corpusmesh_core.ranking.scoring import BELOW_THRESHOLD
from corpusmesh_core.tree_search.nodes import NodeOutcome, TreeStep, children_of, is_node

LEADS_TO_CHUNKS: Final = "leads_to_chunks"
"""Why a node that was only followed is no hit."""
LED_GAIN: Final = 0.06
"""What a chunk gains that a way down has led to, on top of what summaries lift (`lift_leaves`). Recall of gold passages
at 2,000 tokens with such chunks strictly first, and with this (bench/tree_study.py): traversal on 2wiki 64.8 and 81.7
(74.3 without a tree), on scifact, questions of one place, 49.9 and 78.7 (78.9); hierarchical 82.6 and 82.8, 62.7 and
75.5."""


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


def lead_by(
    ranked: Sequence[RankedCandidate], leaves: Collection[str], options: RankingOptions, *, gain: float = LED_GAIN
) -> tuple[RankedCandidate, ...]:
    """Prefer the chunks that a tree has led to.

    Preferred, not put before all others: a way down that takes a wrong turn at the top would hide the best chunk of
    all, and documents without a tree could not be found.

    Args:
        ranked: Candidates, kept ones first, best first.
        leaves: Ids of those chunks.
        options: How similarities were made.
        gain: What is added to their similarity.

    Returns:
        Candidates in their new order; nodes are no hits.
    """
    moved = [
        raised(item, item.similarity - item.explanation.rank_feature + gain, options)
        if item.candidate.record.record_id in leaves and item.explanation.dropped_because in ("", BELOW_THRESHOLD)
        else item
        for item in ranked
    ]
    ordered = in_order(moved)
    hits = [item for item in kept_of(ordered) if not is_node(item)]
    leaving = [dropped(item, LEADS_TO_CHUNKS) for item in kept_of(ordered) if is_node(item)]
    return arranged(hits, leaving, ordered)


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
