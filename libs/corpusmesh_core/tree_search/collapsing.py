"""The collapsed tree: nodes of every layer compete with chunks, lead to the chunks beneath them, and say nothing twice.

What a summary is worth is above all that it leads: a chunk whose summary fits the question is likelier to be a part of
the answer than one that stands alone. So each node lifts its leaves, as other derived records do (ADR-0011), and is a
hit of its own only where nearly none of its leaves, lifted as they are, is a better one: a summary costs tokens, and
the leaf says the same in full.

Measured on long documents with questions that need several places of them (bench/tree_study.py; recall of gold
passages at 2,000 tokens, without and with): 2wiki 74.3 → 80.8, MultiHop 83.3 → 86.2, articles in English 91.7 → 97.5,
in Chinese 66.7 → 74.3, real documents 28.5 → 29.9; on questions of one place scifact 78.9 → 78.9. Leaves that gave way
to a summary that quotes them would cost 6 to 15 points. Of ten questions one gets a summary into its evidence; with a
third of the leaves allowed it is every third one, for up to 1.7 points of passages at 1,000 tokens.

References:
    Sarthi et al.: RAPTOR, ICLR 2024 (collapsed tree retrieval); ADR-0012.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.assembly.ordering import arranged, dropped, kept_of
from corpusmesh_core.ranking import RankedCandidate, RankingOptions, in_order, raised
from corpusmesh_core.ranking.scoring import BELOW_THRESHOLD
from corpusmesh_core.tree_search.nodes import NodeOutcome, TreeStep, is_node

COVERED_BY_LEAVES: Final = "covered_by_leaves"
COVERED_BY_SUMMARY: Final = "covered_by_summary"
MAX_STEPS: Final = 200
"""Most nodes that an explanation tells of."""
MAX_LEADING: Final = 12
"""Most nodes whose leaves are scored where no leg returned them: 24 and all of them find the same, 8 a little less
(eleven sets)."""
MAX_LED_TO: Final = 100
"""Most leaves that are scored because nodes lead to them."""
MAX_LED_TO_PER_NODE: Final = 64
"""A node of more leaves speaks of too much to speak for one of them."""
_MAX_NAMED: Final = 8
_MAX_VIA: Final = 8


@dataclass(frozen=True, slots=True)
class CollapseSettings:
    """How nodes and leaves share a result.

    Attributes:
        better_share: Share of a node's leaves that may be better hits while it is one too.
        covered_share: Share of the leaves of the smaller of two nodes that both must have for the lesser one to say
            nothing new.
        leading_layers: Layers whose nodes lead, from 1; those above add nothing (measured).
        lead_penalty: What is taken from a node's similarity where it lifts leaves; below 0 it is given more.
        lead_share: Share of the difference that the best leaf beneath a node gains.
        lead_decay: What each further leaf gains of what the one before it gains.
    """

    better_share: float = 0.2
    covered_share: float = 0.5
    leading_layers: int = 2
    lead_penalty: float = -0.03
    lead_share: float = 0.6
    lead_decay: float = 0.9


def settle_nodes(
    ranked: Sequence[RankedCandidate], settings: CollapseSettings | None = None
) -> tuple[tuple[RankedCandidate, ...], tuple[TreeStep, ...]]:
    """Decide which nodes are hits.

    Args:
        ranked: Candidates, kept ones first, best first, leaves lifted already.
        settings: How nodes and leaves share the result; None for the measured ones.

    Returns:
        Candidates in order, nodes that say nothing new dropped with the reason; and what became of each node.
    """
    chosen = settings or CollapseSettings()
    kept = kept_of(ranked)
    place_of = {item.candidate.record.record_id: place for place, item in enumerate(kept) if not is_node(item)}
    gone: dict[int, str] = {}
    steps: list[TreeStep] = []
    taken: list[tuple[str, frozenset[str]]] = []
    for place, item in enumerate(kept):
        if not is_node(item):
            continue
        name, links = item.candidate.record.record_id, frozenset(item.candidate.record.links)
        leaves = sorted(place_of[link] for link in links if link in place_of)
        better = [kept[leaf].candidate.record.record_id for leaf in leaves if leaf < place]
        same = [other for other, theirs in taken if _overlaps(links, theirs, chosen.covered_share)]
        # A node of one leaf says what the leaf says.
        is_covered = len(better) > chosen.better_share * len(links) or (len(links) == 1 and bool(leaves))
        if is_covered or same:
            gone[place] = COVERED_BY_LEAVES if is_covered else COVERED_BY_SUMMARY
            covering = better or [kept[leaf].candidate.record.record_id for leaf in leaves]
            steps.append(_step(item, NodeOutcome.COVERED, covering if is_covered else same))
        else:
            taken.append((name, links))
            steps.append(_step(item, NodeOutcome.KEPT, [kept[leaf].candidate.record.record_id for leaf in leaves]))
    if not gone:
        return tuple(ranked), tuple(steps[:MAX_STEPS])
    staying = [item for place, item in enumerate(kept) if place not in gone]
    leaving = [dropped(kept[place], reason) for place, reason in gone.items()]
    return arranged(staying, leaving, ranked), tuple(steps[:MAX_STEPS])


def leaves_to_score(
    nodes: Sequence[RankedCandidate], known: Collection[str], settings: CollapseSettings | None = None
) -> tuple[str, ...]:
    """Name the leaves of the best nodes that are no candidates yet.

    Args:
        nodes: Nodes, kept ones first, best first.
        known: Ids of all candidates.
        settings: Which layers lead; None for the measured ones.

    Returns:
        At most MAX_LED_TO ids of the first MAX_LEADING nodes, those of the best first.
    """
    chosen = settings or CollapseSettings()
    wanted: dict[str, None] = {}
    for item in [item for item in kept_of(nodes) if _leads(item, chosen)][:MAX_LEADING]:
        wanted.update(dict.fromkeys(name for name in item.candidate.record.links if name not in known))
    return tuple(wanted)[:MAX_LED_TO]


def lift_leaves(
    ranked: Sequence[RankedCandidate], options: RankingOptions, settings: CollapseSettings | None = None
) -> tuple[RankedCandidate, ...]:
    """Let nodes lift the leaves beneath them.

    Args:
        ranked: Candidates, kept ones first, best first; nodes among them, whether they are hits or not.
        options: How similarities were made.
        settings: How much; None for the measured ones.

    Returns:
        The candidates in their new order; `via_record_ids` names the nodes that lifted them, the best first.
    """
    chosen = settings or CollapseSettings()
    places = {
        item.candidate.record.record_id: place
        for place, item in enumerate(ranked)
        if not is_node(item) and item.explanation.dropped_because in ("", BELOW_THRESHOLD)
    }
    best: dict[int, float] = {}
    via: dict[int, list[str]] = {}
    for node in sorted((item for item in ranked if _leads(item, chosen)), key=lambda item: -item.similarity):
        target = node.similarity - node.explanation.rank_feature - chosen.lead_penalty
        share = chosen.lead_share
        beneath = [(_own(ranked[places[name]]), places[name]) for name in node.candidate.record.links if name in places]
        for own, place in sorted(beneath, key=lambda leaf: (-leaf[0], leaf[1])):
            if target <= own:
                continue
            best[place] = max(best.get(place, 0.0), own + share * (target - own))
            via.setdefault(place, []).append(node.candidate.record.record_id)
            share *= chosen.lead_decay
    return in_order(
        [
            raised(item, best[place], options, via=tuple(via[place][:_MAX_VIA])) if place in best else item
            for place, item in enumerate(ranked)
        ]
    )


def _own(item: RankedCandidate) -> float:
    return item.similarity - item.explanation.rank_feature


def _leads(item: RankedCandidate, settings: CollapseSettings) -> bool:
    record = item.candidate.record
    return is_node(item) and record.layer <= settings.leading_layers and len(record.links) <= MAX_LED_TO_PER_NODE


def _overlaps(links: frozenset[str], other: frozenset[str], share: float) -> bool:
    smaller = min(len(links), len(other))
    return smaller > 0 and len(links & other) > share * smaller


def _step(item: RankedCandidate, outcome: NodeOutcome, others: Sequence[str]) -> TreeStep:
    record = item.candidate.record
    return TreeStep(record.record_id, record.layer, item.similarity, outcome, tuple(others[:_MAX_NAMED]))
