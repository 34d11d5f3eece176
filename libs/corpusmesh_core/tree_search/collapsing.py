"""The collapsed tree: nodes of every layer compete with chunks, and nothing is said twice.

A node and its own leaves say the same in fewer and in more words, so that at most one of them is worth its tokens:

* a node that does not fit clearly better than one of its leaves gives way to it: the question is about one place;
* so does a node most of whose leaves are better hits already, and one that speaks of what a better node speaks of;
* a leaf whose words a kept node holds already gives way to the node.

What gave way still speaks: a node lifts the leaves beneath it, as other derived records do (ADR-0011).

References:
    Sarthi et al.: RAPTOR, ICLR 2024 (collapsed tree retrieval); ADR-0012.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from corpusmesh_core.assembly.ordering import arranged, dropped, kept_of
from corpusmesh_core.ranking import RankedCandidate, RankingOptions, in_order, raised
from corpusmesh_core.ranking.scoring import BELOW_THRESHOLD
from corpusmesh_core.tree_search.nodes import NodeOutcome, TreeStep, is_node

COVERED_BY_LEAVES: Final = "covered_by_leaves"
COVERED_BY_SUMMARY: Final = "covered_by_summary"
MAX_STEPS: Final = 200
"""Most nodes that an explanation tells of."""
MAX_LEADING: Final = 24
MAX_LED_TO_PER_NODE: Final = 64
MAX_LED_TO: Final = 200
_MAX_NAMED: Final = 8
_MAX_VIA: Final = 8


@dataclass(frozen=True, slots=True)
class CollapseSettings:
    """How nodes and leaves share a result.

    Attributes:
        margin: What a node's similarity must be above that of its best leaf to be kept.
        covered_share: Share of a node's leaves among better hits, or of the leaves of the smaller of two nodes that
            both have, from which a node says nothing new.
        quoted_share: Share of a leaf's terms that a kept node must hold for the leaf to give way.
        lead_penalty: What is taken from a node's similarity where it lifts leaves.
        lead_share: Share of the difference that the best leaf beneath it gains.
        lead_decay: What each further leaf gains of what the one before it gains.
    """

    margin: float = 0.04
    covered_share: float = 0.5
    quoted_share: float = 0.8
    lead_penalty: float = 0.05
    lead_share: float = 1.0
    lead_decay: float = 0.5


def settle_nodes(
    ranked: Sequence[RankedCandidate], settings: CollapseSettings | None = None
) -> tuple[tuple[RankedCandidate, ...], tuple[TreeStep, ...]]:
    """Decide which nodes are hits, and which leaves give way to them.

    Args:
        ranked: Candidates, kept ones first, best first.
        settings: How they share the result; None for the measured ones.

    Returns:
        Candidates in order, those that gave way dropped with the reason, leaves whose words a kept node holds named as
        merged into it; and what became of each node, best first.
    """
    chosen = settings or CollapseSettings()
    kept = kept_of(ranked)
    nodes = [place for place, item in enumerate(kept) if is_node(item)]
    if not nodes:
        return tuple(ranked), ()
    place_of = {item.candidate.record.record_id: place for place, item in enumerate(kept) if not is_node(item)}
    gone: dict[int, str] = {}
    merged: dict[int, list[str]] = {}
    steps: list[TreeStep] = []
    taken: list[frozenset[str]] = []
    for place in nodes:
        links = frozenset(kept[place].candidate.record.links)
        beneath = sorted(place_of[name] for name in links if name in place_of)
        standing = [leaf for leaf in beneath if leaf not in gone]
        covering = _covering(kept, place, standing, chosen)
        if covering or any(_overlaps(links, other, chosen.covered_share) for other in taken):
            gone[place] = COVERED_BY_LEAVES if covering else COVERED_BY_SUMMARY
            steps.append(_step(kept, place, NodeOutcome.COVERED, covering))
            continue
        taken.append(links)
        quoted = [leaf for leaf in standing if leaf > place and _holds(kept[place], kept[leaf], chosen.quoted_share)]
        gone.update(dict.fromkeys(quoted, COVERED_BY_SUMMARY))
        merged[place] = [kept[leaf].candidate.record.record_id for leaf in quoted]
        steps.append(_step(kept, place, NodeOutcome.KEPT, beneath))
    staying = [
        replace(item, merged_record_ids=tuple(dict.fromkeys((*item.merged_record_ids, *merged.get(place, ())))))
        if merged.get(place)
        else item
        for place, item in enumerate(kept)
        if place not in gone
    ]
    leaving = [dropped(kept[place], reason) for place, reason in sorted(gone.items())]
    return arranged(staying, leaving, ranked), tuple(steps[:MAX_STEPS])


def leaves_to_score(nodes: Sequence[RankedCandidate], known: Collection[str]) -> tuple[str, ...]:
    """Name the leaves of the best nodes that are no candidates yet.

    A node of more than MAX_LED_TO_PER_NODE leaves speaks of too much to speak for one of them.

    Args:
        nodes: Nodes, kept ones first, best first.
        known: Ids of all candidates.

    Returns:
        At most MAX_LED_TO ids of the first MAX_LEADING nodes, those of the best first.
    """
    wanted: dict[str, None] = {}
    for item in kept_of(nodes)[:MAX_LEADING]:
        links = item.candidate.record.links
        if len(links) <= MAX_LED_TO_PER_NODE:
            wanted.update(dict.fromkeys(name for name in links if name not in known))
    return tuple(wanted)[:MAX_LED_TO]


def lift_leaves(
    ranked: Sequence[RankedCandidate], options: RankingOptions, settings: CollapseSettings | None = None
) -> tuple[RankedCandidate, ...]:
    """Let nodes lift the leaves beneath them.

    Args:
        ranked: Candidates, kept ones first, best first; nodes among them, whether they compete or not.
        options: How similarities were made.
        settings: How much; None for the measured ones.

    Returns:
        The candidates in their new order; `via_record_ids` names the nodes that lifted them, the best first.
    """
    chosen = settings or CollapseSettings()
    places = {item.candidate.record.record_id: place for place, item in enumerate(ranked) if not is_node(item)}
    best: dict[int, float] = {}
    via: dict[int, list[str]] = {}
    for node in sorted(filter(is_node, ranked), key=lambda item: -item.similarity):
        target = node.similarity - node.explanation.rank_feature - chosen.lead_penalty
        share = chosen.lead_share
        for place in sorted(places[name] for name in set(node.candidate.record.links) if name in places):
            if ranked[place].explanation.dropped_because not in ("", BELOW_THRESHOLD):
                continue
            own = ranked[place].similarity - ranked[place].explanation.rank_feature
            lifted = own + share * (target - own)
            if lifted <= own:
                continue
            best[place] = max(best.get(place, 0.0), lifted)
            via.setdefault(place, []).append(node.candidate.record.record_id)
            share *= chosen.lead_decay
    return in_order(
        [
            raised(item, best[place], options, via=tuple(via[place][:_MAX_VIA])) if place in best else item
            for place, item in enumerate(ranked)
        ]
    )


def _covering(
    kept: Sequence[RankedCandidate], place: int, standing: Sequence[int], settings: CollapseSettings
) -> list[int]:
    """Give the leaves that make a node say nothing new: one that fits as well, or most of them."""
    node = kept[place]
    near = [leaf for leaf in standing if kept[leaf].similarity > node.similarity - settings.margin]
    if near:
        return near
    better = [leaf for leaf in standing if leaf < place]
    return better if len(better) > settings.covered_share * len(node.candidate.record.links) else []


def _overlaps(links: frozenset[str], other: frozenset[str], share: float) -> bool:
    smaller = min(len(links), len(other))
    return smaller > 0 and len(links & other) > share * smaller


def _holds(node: RankedCandidate, leaf: RankedCandidate, share: float) -> bool:
    wanted = set(leaf.candidate.content_terms.split())
    held = set(node.candidate.content_terms.split())
    return bool(wanted) and len(wanted & held) >= share * len(wanted)


def _step(kept: Sequence[RankedCandidate], place: int, outcome: NodeOutcome, others: Sequence[int]) -> TreeStep:
    record = kept[place].candidate.record
    named = tuple(kept[other].candidate.record.record_id for other in others[:_MAX_NAMED])
    return TreeStep(record.record_id, record.layer, kept[place].similarity, outcome, named)
