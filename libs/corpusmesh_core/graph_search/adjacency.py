"""Search by adjacency: relations next to entities and relations that fit the question, by products of sparse matrices.

With A the entities by relations (1 where an entity is an end of a relation), A Aᵀ leads from entities to entities with
a relation in common, and Aᵀ A from relations to relations with an end in common. Only the rows that the question names
are multiplied, so that the cost is that of what is reached.

References:
    Seed `003_67b62910d2d3a085.txt` (1-190); Vector Graph RAG (eviction above 1,000 relations).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.graphs.view import GraphView

MAX_CANDIDATES: Final = 1_000
"""Relations that the question is compared with; more are evicted before, the furthest and weakest first."""
MAX_SHOWN: Final = 40
"""Relations that a model or a cross-encoder reads."""
MAX_CHOSEN: Final = 12
_MAX_BORDER: Final = 500
"""Entities of one hop whose relations are followed, those that most relations lead to."""
_MAX_REACHED: Final = 5_000
"""Relations from which on no further hop is made: the nearest are kept anyway."""
_NUMBER: Final = re.compile(r"\s*[\[(#]*\s*(\d{1,4})\b")


@dataclass(frozen=True, slots=True)
class Expansion:
    """Relations near to what was found.

    Attributes:
        relations: Places, nearest first, of each hop the strongest; shape (m,).
        hops: Hops from what was found, from 0 for relations that were found themselves; shape (m,).
        reached_count: Relations that were reached before the furthest were evicted.
    """

    relations: NDArray[np.int64]
    hops: NDArray[np.int64]
    reached_count: int


def expand(
    view: GraphView, entities: Sequence[int], relations: Sequence[int], hops: int, *, most: int = MAX_CANDIDATES
) -> Expansion:
    """Multiply what was found by the adjacency of the graph.

    Args:
        view: The graph.
        entities: Places of entities that the question names: their own relations are one hop away.
        relations: Places of relations that are like the question: those with an end in common are one hop away.
        hops: How far, from 1.
        most: Most relations.

    Returns:
        Both expansions together.
    """
    given = np.unique(np.asarray(relations, np.int64))
    found, distances = [given], [np.zeros(len(given), np.int64)]
    known = given
    border = np.unique(np.concatenate([np.asarray(entities, np.int64), view.relation_ends[given].ravel()]))
    seen = border
    for hop in range(1, hops + 1):
        if not len(border) or len(known) >= _MAX_REACHED:
            break
        beside = _beside(view, border)
        new = np.setdiff1d(beside, known, assume_unique=True)
        found.append(new)
        distances.append(np.full(len(new), hop, np.int64))
        known = np.union1d(known, new)
        ends, counts = np.unique(view.relation_ends[new], return_counts=True)
        is_new = ~np.isin(ends, seen, assume_unique=True)
        ends, counts = ends[is_new].astype(np.int64), counts[is_new]
        border = ends[np.lexsort((ends, -counts))]
        seen = np.union1d(seen, border)
    places, hop_of = np.concatenate(found), np.concatenate(distances)
    order = np.lexsort((places, -view.relation_weights[places], hop_of))[:most]
    return Expansion(places[order], hop_of[order], len(places))


def _beside(view: GraphView, border: NDArray[np.int64]) -> NDArray[np.int64]:
    """List the relations of entities, ascending; of a hub the strongest, and no more hubs than are needed."""
    parts: list[NDArray[np.int32]] = []
    room = _MAX_REACHED
    for entity in border[:_MAX_BORDER].tolist():
        own = view.relations_of(entity)
        if len(own) > MAX_CANDIDATES:
            own = own[np.argpartition(-view.relation_weights[own], MAX_CANDIDATES - 1)[:MAX_CANDIDATES]]
        parts.append(own)
        room -= len(own)
        if room <= 0:
            break
    return np.unique(np.concatenate(parts)).astype(np.int64)


def passages_in_order(groups: Sequence[Sequence[str]], most: int) -> tuple[str, ...]:
    """Lead relations back to passages.

    Args:
        groups: Passages of each relation, best relation first, its strongest passage first.
        most: Most passages.

    Returns:
        Each relation's passages in turn of the relations, each once.
    """
    return tuple(dict.fromkeys(name for group in groups for name in group))[:most]


def read_chosen(answer: object, count: int) -> tuple[int, ...] | None:
    """Read `{"reasoning": text, "relations": [number]}`, tolerant of form: numbers, `[3]`, or `[3] text`.

    Args:
        answer: JSON value of a model's answer.
        count: Relations that were shown, numbered from 1.

    Returns:
        Places of the chosen ones from 0, best first, at most MAX_CHOSEN; None if none of those shown is named.
    """
    if not isinstance(answer, dict):
        return None
    listed = next((answer[name] for name in _NAMES if isinstance(answer.get(name), list)), None)
    if listed is None:
        return None
    numbers = (_number(item) for item in listed[:_MAX_LISTED])
    chosen = dict.fromkeys(number - 1 for number in numbers if number is not None and 1 <= number <= count)
    return tuple(chosen)[:MAX_CHOSEN] or None


def in_chosen_order(count: int, chosen: Iterable[int]) -> list[int]:
    """Put what was chosen first.

    Args:
        count: Relations in order.
        chosen: Places among them, best first.

    Returns:
        All places: the chosen ones, then the others in order.
    """
    first = list(dict.fromkeys(chosen))
    taken = set(first)
    return [*first, *(place for place in range(count) if place not in taken)]


def _number(item: object) -> int | None:
    if isinstance(item, Mapping):
        item = next((item[name] for name in _NUMBER_NAMES if name in item), None)
    if type(item) is int:
        return item
    match = _NUMBER.match(item) if isinstance(item, str) else None
    return int(match.group(1)) if match else None


_NAMES: Final = ("relations", "useful_relationships", "useful_relations", "relationships")
_NUMBER_NAMES: Final = ("number", "id", "index", "relation")
_MAX_LISTED: Final = 64
