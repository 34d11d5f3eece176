"""Puts what several methods found in one document together: in any order and any grouping the same comes out."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import Final

from corpusmesh_core.graphs.keys import pair_of
from corpusmesh_core.graphs.settings import GraphMethod
from corpusmesh_core.graphs.values import MAX_MENTIONS, EntityFragment, Mention, RelationFragment, Subgraph

MAX_ALIASES: Final = 16
MAX_KEYWORDS: Final = 16
_VAGUE_TYPES: Final = ("category", "")
"""Types that any other one is better than, worst last."""
_METHODS: Final = tuple(GraphMethod)


def merge_subgraphs(parts: Sequence[Subgraph]) -> Subgraph:
    """Merge subgraphs of one version of a document.

    Of texts the longest is kept, of equally long ones the last by letters; mentions, aliases, keywords and methods are
    united, each mention with its greatest weight; the greatest weight and confidence hold. Each rule takes the
    greatest or the least of a total order, so that merging is commutative, associative and idempotent.

    Args:
        parts: Subgraphs.

    Returns:
        Their union; that of none is empty.
    """
    entities: dict[int, list[EntityFragment]] = defaultdict(list)
    relations: dict[tuple[int, int], list[RelationFragment]] = defaultdict(list)
    for part in parts:
        for entity in part.entities:
            entities[entity.key].append(entity)
        for relation in part.relations:
            relations[pair_of(relation.source, relation.target)].append(relation)
    return Subgraph(
        tuple(_entity(entities[key]) for key in sorted(entities)),
        tuple(_relation(relations[pair]) for pair in sorted(relations)),
    )


def _entity(fragments: Sequence[EntityFragment]) -> EntityFragment:
    return EntityFragment(
        key=fragments[0].key,
        name=_longest(fragment.name for fragment in fragments),
        type=min((fragment.type for fragment in fragments), key=_vagueness),
        description=_longest(fragment.description for fragment in fragments),
        sentence=_longest(fragment.sentence for fragment in fragments),
        aliases=tuple(nsmallest(MAX_ALIASES, {alias for fragment in fragments for alias in fragment.aliases})),
        mentions=united_mentions(mention for fragment in fragments for mention in fragment.mentions),
        methods=_methods(fragment.methods for fragment in fragments),
        confidence=max(fragment.confidence for fragment in fragments),
    )


def _relation(fragments: Sequence[RelationFragment]) -> RelationFragment:
    # Direction and predicate belong together.
    said = max(fragments, key=lambda fragment: (len(fragment.predicate), fragment.predicate, fragment.source))
    return RelationFragment(
        source=said.source,
        target=said.target,
        predicate=said.predicate,
        description=_longest(fragment.description for fragment in fragments),
        sentence=_longest(fragment.sentence for fragment in fragments),
        keywords=tuple(nsmallest(MAX_KEYWORDS, {word for fragment in fragments for word in fragment.keywords})),
        mentions=united_mentions(mention for fragment in fragments for mention in fragment.mentions),
        weight=max(fragment.weight for fragment in fragments),
        methods=_methods(fragment.methods for fragment in fragments),
        confidence=max(fragment.confidence for fragment in fragments),
    )


def united_mentions(mentions: Iterable[Mention]) -> tuple[Mention, ...]:
    """Unite mentions, each chunk once.

    Args:
        mentions: Mentions in any order.

    Returns:
        The first MAX_MENTIONS chunks, ascending, each with its greatest weight.
    """
    weights: dict[int, float] = {}
    for mention in mentions:
        weights[mention.position] = max(mention.weight, weights.get(mention.position, 0.0))
    return tuple(Mention(position, weights[position]) for position in nsmallest(MAX_MENTIONS, weights))


def _longest(texts: Iterable[str]) -> str:
    return max(texts, key=lambda text: (len(text), text))


def _vagueness(kind: str) -> tuple[int, str]:
    return (1 + _VAGUE_TYPES.index(kind) if kind in _VAGUE_TYPES else 0, kind)


def _methods(methods: Iterable[Sequence[GraphMethod]]) -> tuple[GraphMethod, ...]:
    found = {method for listed in methods for method in listed}
    return tuple(method for method in _METHODS if method in found)
