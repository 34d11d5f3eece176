"""Relations around entities that a question is about (Microsoft GraphRAG's local search)."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from corpusmesh_core.graph_search.levels import Found
from corpusmesh_core.graph_search.reading import degree_of, other_end, strongest_relations
from corpusmesh_core.graph_search.steps import StepReason
from corpusmesh_core.graphs.view import GraphView

MAX_ENTITIES: Final = 10
OVERSAMPLING: Final = 2
RELATIONS_OF_ONE: Final = 10
TEXT_SHARE: Final = 0.5
REPORT_SHARE: Final = 0.15
"""Of all tokens; entities and relations have the rest."""
_LOOKED_AT: Final = 50
"""Relations of one entity that are ranked, the strongest: a hub has as many as a graph has entities."""


def relations_around(views: Sequence[GraphView], entities: Sequence[Found]) -> tuple[Found, ...]:
    """Rank the relations of entities.

    Args:
        views: The graphs.
        entities: Entities, best first.

    Returns:
        Relations, each once, at most RELATIONS_OF_ONE for each entity: those between two of the entities first; then
        those to an entity that most of them are related to; within each by the relations of both ends, then by
        strength.
    """
    chosen = {item.identity for item in entities}
    reached: Counter[tuple[int, int]] = Counter()
    sources: dict[tuple[int, int], tuple[Found, int]] = {}
    for item in entities:
        view = views[item.graph]
        for relation in strongest_relations(view, item.place, _LOOKED_AT):
            end = other_end(view, relation, item.place)
            reached[item.graph, end] += 1
            sources.setdefault((item.graph, relation), (item, end))
    degrees: dict[tuple[int, int], int] = {}

    def degree(identity: tuple[int, int]) -> int:
        if identity not in degrees:
            degrees[identity] = degree_of(views[identity[0]], identity[1])
        return degrees[identity]

    def worth(identity: tuple[int, int]) -> tuple[bool, int, int, float, tuple[int, int]]:
        item, end = sources[identity]
        other = (item.graph, end)
        shared = 0 if other in chosen else reached[other]
        weight = float(views[item.graph].relation_weights[identity[1]])
        return other not in chosen, -shared, -(degree(item.identity) + degree(other)), -weight, identity

    ordered = sorted(sources, key=worth)[: RELATIONS_OF_ONE * len(entities)]
    return tuple(
        Found(identity[0], identity[1], item.score, StepReason.NEIGHBOUR, item.hop + 1)
        for identity in ordered
        for item, _ in [sources[identity]]
    )


def token_shares(max_total_tokens: int) -> tuple[int, int, int]:
    """Split tokens.

    Args:
        max_total_tokens: All of them.

    Returns:
        Tokens of passages, of reports, and of entities and relations; together no more than all.
    """
    texts, reports = int(max_total_tokens * TEXT_SHARE), int(max_total_tokens * REPORT_SHARE)
    return texts, reports, max_total_tokens - texts - reports
