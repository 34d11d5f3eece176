"""Draws what is around an entity as lines of text: a tree of relations, and those that the tree leaves out beneath."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_BRANCH: Final = "├─ "
_LAST_BRANCH: Final = "└─ "
_GUIDE: Final = "│  "
_NO_GUIDE: Final = "   "
_UNDIRECTED: Final = "–"


@dataclass(frozen=True, slots=True)
class DrawnEntity:
    """An entity of a drawing.

    Attributes:
        key: Names it within the drawing.
        title: Its name.
        type: Its type; "" where unknown.
        hops: Relations between it and the entity in the middle; 0 for that one.
    """

    key: str
    title: str
    type: str = ""
    hops: int = 0


@dataclass(frozen=True, slots=True)
class DrawnRelation:
    """A relation of a drawing.

    Attributes:
        source: Key of one entity.
        target: Key of the other.
        label: How they are related, read from source to target; "" where only that they are.
        weight: How strong it is.
    """

    source: str
    target: str
    label: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class DrawnLine:
    """A line of a drawing.

    Attributes:
        guide: Lines that lead to it.
        relation: How it is related to the line above it, with an arrow; "" for the entity in the middle.
        text: The entity, or of a relation beneath the tree both.
        weight: How strong the relation is; 0 for the entity in the middle.
    """

    guide: str
    relation: str
    text: str
    weight: float = 0.0

    def __str__(self) -> str:
        return self.guide + " ".join(part for part in (self.relation, self.text) if part)


def draw_neighbourhood(entities: Sequence[DrawnEntity], relations: Sequence[DrawnRelation]) -> list[DrawnLine]:
    """Draw what is around an entity.

    Each entity stands once, beneath the nearer one to which it is related most strongly.

    Args:
        entities: The entity in the middle first; others are reached from it over `relations`.
        relations: Relations among them; those with an end that is not drawn are left out.

    Returns:
        Lines from the middle outwards, of each entity the strongest relations first; then, without a guide, relations
        that the tree leaves out, the strongest first.
    """
    if not entities:
        return []
    by_key = {entity.key: entity for entity in entities}
    known = [one for one in relations if one.source in by_key and one.target in by_key and one.source != one.target]
    above = _above(by_key, known)
    beneath: dict[str, list[tuple[DrawnRelation, str]]] = {}
    for key, relation in above.items():
        other = relation.source if relation.target == key else relation.target
        beneath.setdefault(other, []).append((relation, key))
    lines = [DrawnLine("", "", _described(entities[0]))]
    _grow(lines, entities[0].key, "", by_key, beneath)
    drawn = {id(relation) for relation in above.values()}
    for relation in sorted(known, key=lambda one: (-one.weight, one.source, one.target)):
        if id(relation) not in drawn:
            titles = (by_key[relation.source].title, by_key[relation.target].title)
            arrow = f"{_UNDIRECTED} {relation.label} →" if relation.label else _UNDIRECTED
            lines.append(DrawnLine("", "", f"{titles[0]} {arrow} {titles[1]}", relation.weight))
    return lines


def _above(by_key: Mapping[str, DrawnEntity], relations: Sequence[DrawnRelation]) -> dict[str, DrawnRelation]:
    """Choose the relation by which each entity hangs on a nearer one: the strongest."""
    above: dict[str, DrawnRelation] = {}
    for relation in sorted(relations, key=lambda one: (-one.weight, one.source, one.target)):
        near, far = sorted((by_key[relation.source], by_key[relation.target]), key=lambda one: one.hops)
        if near.hops < far.hops:
            above.setdefault(far.key, relation)
    return above


def _grow(
    lines: list[DrawnLine],
    key: str,
    guide: str,
    by_key: Mapping[str, DrawnEntity],
    beneath: Mapping[str, Sequence[tuple[DrawnRelation, str]]],
) -> None:
    children = sorted(beneath.get(key, ()), key=lambda child: (-child[0].weight, by_key[child[1]].title))
    for place, (relation, child) in enumerate(children, start=1):
        is_last = place == len(children)
        lines.append(
            DrawnLine(
                guide + (_LAST_BRANCH if is_last else _BRANCH),
                _arrow(relation, from_key=key),
                _described(by_key[child]),
                relation.weight,
            )
        )
        # As deep as there are hops, of which there are few.
        _grow(lines, child, guide + (_NO_GUIDE if is_last else _GUIDE), by_key, beneath)


def _arrow(relation: DrawnRelation, *, from_key: str) -> str:
    if not relation.label:
        return _UNDIRECTED
    return f"{relation.label} →" if relation.source == from_key else f"← {relation.label}"


def _described(entity: DrawnEntity) -> str:
    return f"{entity.title} ({entity.type})" if entity.type else entity.title
