"""Search at two levels: entities by particular words, relations by general ones, each with what stands beside it.

References:
    Guo et al.: LightRAG, 2024; seed `001_a712496f9ddeda4f.txt` (4).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.graph_search.reading import degree_of, strongest_relations
from corpusmesh_core.graph_search.steps import StepReason
from corpusmesh_core.graphs.view import GraphView

_RELATIONS_OF_ONE: Final = 50
"""Relations of one entity that are looked at, the strongest: a hub has as many as a graph has entities."""


@dataclass(frozen=True, slots=True)
class Found:
    """An entity or a relation that was found.

    Attributes:
        graph: Which of the graphs that are searched, from 0.
        place: Its place in the view of that graph.
        score: How well it fits, about 0 to 1; of a neighbour that of what led to it.
        reason: Why it is there.
        hop: Hops from what was found by itself.
    """

    graph: int
    place: int
    score: float
    reason: StepReason = StepReason.SIMILAR
    hop: int = 0

    @property
    def identity(self) -> tuple[int, int]:
        """What makes it the same as another one of its kind."""
        return self.graph, self.place


def relations_beside(views: Sequence[GraphView], entities: Sequence[Found], most: int) -> tuple[Found, ...]:
    """Find the relations of entities.

    Args:
        views: The graphs.
        entities: Entities, best first.
        most: Most relations.

    Returns:
        Relations, each once: those of entities with most relations first, then the stronger ones.
    """
    scored: dict[tuple[int, int], tuple[int, float, float]] = {}
    degrees: dict[tuple[int, int], int] = {}

    def degree(graph: int, entity: int) -> int:
        if (graph, entity) not in degrees:
            degrees[graph, entity] = degree_of(views[graph], entity)
        return degrees[graph, entity]

    for item in entities:
        view = views[item.graph]
        for relation in strongest_relations(view, item.place, _RELATIONS_OF_ONE):
            known = scored.get((item.graph, relation))
            if known is None:
                low, high = view.relation_ends[relation].tolist()
                rank = degree(item.graph, low) + degree(item.graph, high)
                scored[item.graph, relation] = (rank, float(view.relation_weights[relation]), item.score)
    ordered = sorted(scored.items(), key=lambda entry: (-entry[1][0], -entry[1][1], entry[0]))
    return tuple(
        Found(graph, relation, score, StepReason.NEIGHBOUR, hop=1)
        for (graph, relation), (_, _, score) in ordered[:most]
    )


def ends_of(views: Sequence[GraphView], relations: Sequence[Found]) -> tuple[Found, ...]:
    """Find the entities at the ends of relations.

    Args:
        views: The graphs.
        relations: Relations, best first.

    Returns:
        Entities in the order of the relations, each once.
    """
    return distinct(
        Found(item.graph, end, item.score, StepReason.NEIGHBOUR, hop=1)
        for item in relations
        for end in views[item.graph].relation_ends[item.place].tolist()
    )


def distinct(items: Iterable[Found]) -> tuple[Found, ...]:
    """Leave out what comes twice.

    Args:
        items: Entities, or relations.

    Returns:
        Each once, at its first place.
    """
    found: dict[tuple[int, int], Found] = {}
    for item in items:
        found.setdefault(item.identity, item)
    return tuple(found.values())
