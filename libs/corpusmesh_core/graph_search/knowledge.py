"""Search for knowledge: entities of the question, what is some hops away, what the answer's type says, by P(E) P(Q|E).

Ways over some hops are found when they are asked for, from what the caller may see, and stored nowhere.

References:
    RAGFlow KGSearch: seeds `000_3271a9def2ed8e29.txt` (3.3), `003_67b62910d2d3a085.txt` (the notes on version 0.16).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np

from corpusmesh_core.graph_search.levels import Found
from corpusmesh_core.graph_search.reading import other_end, strongest_relations
from corpusmesh_core.graph_search.steps import StepReason
from corpusmesh_core.graphs.view import GraphView

MAX_ENTITIES: Final = 6
MAX_RELATIONS: Final = 6
MAX_REPORTS: Final = 1
MAX_TOKENS: Final = 8_196
"""What one table holds (seed)."""
MAX_STARTS: Final = 16
"""Entities that ways are followed from."""
_BREADTH: Final = (24, 8, 4, 4)
"""Relations of an entity that are followed, by hop; the strongest."""
_TYPED: Final = 2.0
_LOOKED_THROUGH: Final = 2_000
"""Entities that are looked through for those of a type, those of the highest rank."""
_SHOWING_TYPES: Final = 300
"""Entities whose types are those of a graph, those of the highest rank."""


@dataclass(frozen=True, slots=True)
class WayScore:
    """What ways from the question's entities say of a relation.

    Attributes:
        similarity: Sum of sim / (2 + i) over the entities that it was reached from, i hops away from each.
        hop: Hops from the nearest of them, from 1.
    """

    similarity: float
    hop: int


def scores_by_ways(view: GraphView, starts: Sequence[tuple[int, float]], hops: int) -> dict[int, WayScore]:
    """Follow the strongest relations from entities, and weigh each relation by how near it is.

    Args:
        view: The graph.
        starts: Places of entities and their similarities with the question.
        hops: How far, from 1.

    Returns:
        What is to be added to each relation that was reached, by its place.
    """
    found: dict[int, WayScore] = {}
    for entity, similarity in starts[:MAX_STARTS]:
        reached = {entity}
        passed: set[int] = set()
        border = [entity]
        for hop in range(hops):
            following: list[int] = []
            for place in border:
                for relation in strongest_relations(view, place, _BREADTH[min(hop, len(_BREADTH) - 1)]):
                    if relation in passed:
                        continue
                    passed.add(relation)
                    known = found.get(relation, WayScore(0.0, hop + 1))
                    gain = similarity / (2.0 + hop)
                    found[relation] = WayScore(known.similarity + gain, min(known.hop, hop + 1))
                    end = other_end(view, relation, place)
                    if end not in reached:
                        reached.add(end)
                        following.append(end)
            border = following
    return found


def ranked_entities(
    views: Sequence[GraphView], found: Sequence[Found], types: Collection[str], most: int = MAX_ENTITIES
) -> tuple[Found, ...]:
    """Put entities in order by P(E) P(Q|E).

    Args:
        views: The graphs.
        found: Entities with their similarities.
        types: Types that the answer may have.
        most: Most entities.

    Returns:
        The best, with their scores: PageRank against that of an entity of average rank, times similarity, doubled for
        an entity of such a type.
    """
    scored = [
        Found(
            item.graph,
            item.place,
            item.score
            * _rank(views[item.graph], item.place)
            * (_TYPED if _has(views[item.graph], item, types) else 1.0),
            item.reason,
            item.hop,
        )
        for item in found
    ]
    return tuple(sorted(scored, key=lambda item: -item.score)[:most])


def ranked_relations(
    views: Sequence[GraphView],
    similarities: Mapping[tuple[int, int], float],
    ways: Sequence[Mapping[int, WayScore]],
    types: Collection[str],
    most: int = MAX_RELATIONS,
) -> tuple[Found, ...]:
    """Put relations in order by P(E) P(Q|E).

    Args:
        views: The graphs.
        similarities: Similarity of relations that are like the question, by graph and place.
        ways: Per graph, what ways say.
        types: Types that the answer may have.
        most: Most relations.

    Returns:
        The best: similarity (that of the way where the question does not find it) times one more than ends of such a
        type and its way's score, times the PageRank of both ends.
    """
    scored: list[tuple[float, float, Found]] = []
    names = {*similarities, *((graph, place) for graph, own in enumerate(ways) for place in own)}
    for graph, place in sorted(names):
        way, own = ways[graph].get(place), similarities.get((graph, place))
        rank = sum(_rank(views[graph], end) for end in views[graph].relation_ends[place].tolist()) / 2.0
        along = way.similarity if way else 0.0
        # What an end of such a type adds is a similarity once more.
        unit = (along if own is None else own) * rank
        plain = unit if own is None else own * (1.0 + along) * rank
        reason = StepReason.SIMILAR if own is not None else StepReason.NEIGHBOUR
        scored.append((plain, unit, Found(graph, place, plain, reason, way.hop if way else 0)))
    if types and scored:
        # Both ends together at most triple a score: types of what cannot be among the best are not read.
        least = sorted((plain for plain, _, _ in scored), reverse=True)[: max(1, most)][-1]
        scored = [
            (plain, unit, replace(item, score=plain + unit * _typed_ends(views[item.graph], item.place, types)))
            for plain, unit, item in scored
            if 3.0 * plain >= least
        ]
    return tuple(sorted((item for _, _, item in scored), key=lambda item: -item.score)[:most])


def entities_of_types(view: GraphView, graph: int, types: Collection[str], most: int) -> tuple[Found, ...]:
    """Find the entities of some types that matter most.

    Args:
        view: The graph.
        graph: Which of the graphs it is.
        types: Types.
        most: Most entities.

    Returns:
        Those of the highest PageRank, which is their score too.
    """
    ranks = view.page_rank
    if not types or not len(ranks):
        return ()
    looked = min(_LOOKED_THROUGH, len(ranks))
    best = np.argpartition(-ranks, looked - 1)[:looked]
    ordered = best[np.lexsort((best, -ranks[best]))].tolist()
    found = islice((place for place in ordered if view.type(place) in types), most)
    return tuple(Found(graph, place, float(ranks[place]), StepReason.TYPE) for place in found)


def types_of(view: GraphView, most: int) -> tuple[str, ...]:
    """Name the types of a graph.

    Args:
        view: The graph.
        most: Most types.

    Returns:
        Types of its highest ranked entities, most frequent first.
    """
    ranks = view.page_rank
    if not len(ranks):
        return ()
    looked = min(_SHOWING_TYPES, len(ranks))
    counts: dict[str, int] = {}
    for place in np.argpartition(-ranks, looked - 1)[:looked].tolist():
        name = view.type(place)
        counts[name] = counts.get(name, 0) + 1
    counts.pop("", None)
    return tuple(sorted(counts, key=lambda name: (-counts[name], name))[:most])


def _typed_ends(view: GraphView, relation: int, types: Collection[str]) -> int:
    return sum(view.type(end) in types for end in view.relation_ends[relation].tolist())


def _rank(view: GraphView, entity: int) -> float:
    return float(view.page_rank[entity]) * len(view.page_rank)


def _has(view: GraphView, item: Found, types: Collection[str]) -> bool:
    return bool(types) and view.type(item.place) in types
