"""How corrections act on a graph (ADR-0014).

Before names are resolved, on what each document says of a name: splits, merges, deleted entities, names kept apart.
Afterwards, on entities, where a key stands for the entity that it belongs to: names, types, descriptions, relations.
All is a function of the corrections in their order; making the same correction twice changes nothing.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.graphs.corrections import (
    Correction,
    Corrections,
    DeleteEntity,
    DeleteRelation,
    EditEntity,
    EditRelation,
    KeepApart,
    MergeEntities,
    RenameEntity,
    SplitEntity,
)
from corpusmesh_core.graphs.keys import entity_key, pair_of

DELETED: Final = 0
"""In the place of a key: that name is no entity."""

Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class EntityTexts:
    """What a person has said of an entity; None where nothing.

    Attributes:
        name: How it is called.
        type: Its type.
        description: What it is.
    """

    name: str | None = None
    type: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class RelationTexts:
    """What a person has said of a relation; None where nothing.

    Attributes:
        deleted: The two are not related: the rest says nothing then.
        predicate: How they are related.
        description: What is said of it.
        keywords: What it is about.
    """

    deleted: bool = False
    predicate: str | None = None
    description: str | None = None
    keywords: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class GraphEdits:
    """What corrections come to.

    Attributes:
        moved: Key in place of the key that a version names, by (version, key): splits, with merges followed.
        merged: Key in place of a key, or DELETED.
        apart: Pairs (see `pair_of`) of keys that are never resolved to one; merges followed, neither end deleted.
        aliases: Key of a name that a person gave an entity, to a key of that entity.
        later: Corrections of entities and relations, in order.
    """

    moved: Mapping[Pair, int] = field(default_factory=dict)
    merged: Mapping[int, int] = field(default_factory=dict)
    apart: frozenset[Pair] = frozenset()
    aliases: Mapping[int, int] = field(default_factory=dict)
    later: tuple[RenameEntity | EditEntity | EditRelation | DeleteRelation, ...] = ()

    def key_of(self, version: int, key: int) -> int:
        """Tell what a key that a version names stands for.

        Args:
            version: Ordinal of the version.
            key: The key.

        Returns:
            The key in its place, or DELETED.
        """
        moved = self.moved.get((version, key))
        return self.merged.get(key, key) if moved is None else moved

    def keys_of(self, versions: NDArray[np.integer], keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Tell what keys that versions name stand for, many at once.

        Args:
            versions: Ordinals, shape (n,).
            keys: Keys, shape (n,).

        Returns:
            Keys in their place, shape (n,), DELETED for those that are no entities. The array given where nothing
            differs.
        """
        if not self.moved and not self.merged:
            return keys
        touched = np.array(sorted({key for _, key in self.moved} | set(self.merged)), dtype=np.uint64)
        places = np.flatnonzero(np.isin(keys, touched))
        if not len(places):
            return keys
        edited = keys.copy()
        for place in places.tolist():
            edited[place] = self.key_of(int(versions[place]), int(keys[place]))
        return edited

    def entity_texts(self, entity_of: Callable[[int], int | None]) -> dict[int, EntityTexts]:
        """Tell what people have said of entities.

        Args:
            entity_of: Entity that a key belongs to, by whatever number; None where the caller has no such entity.

        Returns:
            What was said, by that number.
        """
        texts: dict[int, EntityTexts] = {}
        for item in self.later:
            if not isinstance(item, RenameEntity | EditEntity):
                continue
            entity = entity_of(self.merged.get(item.key, item.key))
            if entity is None:
                continue
            before = texts.get(entity, EntityTexts())
            if isinstance(item, RenameEntity):
                texts[entity] = replace(before, name=item.name)
                continue
            texts[entity] = replace(
                before,
                type=before.type if item.type is None else item.type,
                description=before.description if item.description is None else item.description or None,
            )
        return texts

    def relation_texts(self, entity_of: Callable[[int], int | None]) -> dict[Pair, RelationTexts]:
        """Tell what people have said of relations.

        Args:
            entity_of: Entity that a key belongs to, by whatever number; None where the caller has no such entity.

        Returns:
            What was said, by the two numbers, the smaller first.
        """
        texts: dict[Pair, RelationTexts] = {}
        for item in self.later:
            if not isinstance(item, EditRelation | DeleteRelation):
                continue
            source = entity_of(self.merged.get(item.source, item.source))
            target = entity_of(self.merged.get(item.target, item.target))
            if source is None or target is None or source == target:
                continue
            pair = pair_of(source, target)
            if isinstance(item, DeleteRelation):
                texts[pair] = RelationTexts(deleted=True)
                continue
            before = texts.get(pair, RelationTexts())
            texts[pair] = RelationTexts(
                predicate=before.predicate if item.predicate is None else item.predicate,
                description=before.description if item.description is None else item.description or None,
                keywords=before.keywords if item.keywords is None else item.keywords,
            )
        return texts


def edits_of(corrections: Corrections) -> GraphEdits:
    """Work out what corrections come to.

    Args:
        corrections: In order.

    Returns:
        How they act.
    """
    state = _State()
    for item in corrections.items:
        state.take(item)
    return GraphEdits(
        moved={
            (version, key): state.final(target)
            for (document_id, key), target in state.moved.items()
            for version in corrections.versions.get(document_id, ())
        },
        merged={key: state.final(key) for key in sorted(state.parents.keys() | state.deleted)},
        apart=frozenset(state.apart_at_end()),
        aliases={
            alias: key
            for item in corrections.items
            if isinstance(item, RenameEntity)
            and (key := state.final(item.key)) not in (DELETED, alias := entity_key(item.name))
        },
        later=tuple(
            item
            for item in corrections.items
            if isinstance(item, RenameEntity | EditEntity | EditRelation | DeleteRelation)
        ),
    )


class _State:
    """What the corrections so far come to."""

    def __init__(self) -> None:
        self.parents: dict[int, int] = {}
        self.moved: dict[tuple[str, int], int] = {}
        self.apart: dict[Pair, None] = {}
        self.deleted: set[int] = set()
        # What hangs on a key, and the pairs that it is in: thousands of corrections must not look through one another.
        self._finals: dict[int, int] = {}
        self._children: dict[int, set[int]] = {}
        self._apart_from: dict[int, set[int]] = {}

    def take(self, item: Correction) -> None:
        """Let one more act."""
        match item:
            case MergeEntities(keys, target):
                self._merge(keys, target)
            case SplitEntity():
                self._split(item)
            case KeepApart(key, other):
                self._keep_apart(key, other)
            case DeleteEntity(keys):
                self.deleted |= set(keys)
            case RenameEntity(key) | EditEntity(key):
                # Whoever says how it is called says that it is one.
                self.deleted.discard(key)
            case EditRelation() | DeleteRelation():
                pass

    def final(self, key: int) -> int:
        """Follow merges; once all corrections were taken."""
        way: list[int] = []
        last: int | None = key
        while last is not None and last not in self._finals:
            way.append(last)
            last = None if last in self.deleted else self.parents.get(last)
        found = self._finals[last] if last is not None else DELETED if way[-1] in self.deleted else way[-1]
        self._finals.update(dict.fromkeys(way, found))
        return found

    def apart_at_end(self) -> Iterator[Pair]:
        """Pairs kept apart, merges followed."""
        for key, other in self.apart:
            ends = self.final(key), self.final(other)
            if ends[0] != ends[1] and DELETED not in ends:
                yield pair_of(*ends)

    def _chain_meets(self, key: int, wanted: Collection[int]) -> bool:
        """Tell whether a key is one of some, or hangs on one."""
        last: int | None = key
        while last is not None and last not in wanted:
            last = self.parents.get(last)
        return last is not None

    def _root(self, key: int) -> int:
        while (parent := self.parents.get(key)) is not None:
            key = parent
        return key

    def _hang(self, key: int, target: int) -> None:
        self._release(key)
        self.parents[key] = target
        self._children.setdefault(target, set()).add(key)

    def _release(self, key: int) -> None:
        parent = self.parents.pop(key, None)
        if parent is not None:
            self._children[parent].discard(key)

    def _with_all_beneath(self, keys: Iterable[int]) -> set[int]:
        found: set[int] = set()
        waiting = list(keys)
        while waiting:
            key = waiting.pop()
            if key not in found:
                found.add(key)
                waiting.extend(self._children.get(key, ()))
        return found

    def _merge(self, keys: tuple[int, ...], target: int) -> None:
        # What was merged into one of them before must be free to take it in now.
        if any(self._children.get(key) for key in keys) and self._chain_meets(target, frozenset(keys)):
            self._release(target)
        for key in keys:
            self._hang(key, target)
        self.deleted -= {*keys, target}
        if not self.apart:
            return
        # Only what has moved can have come to what it was kept apart from.
        root = self._root(target)
        for key in self._with_all_beneath(keys):
            for other in list(self._apart_from.get(key, ())):
                if self._root(other) == root:
                    self._bring_together(key, other)

    def _bring_together(self, key: int, other: int) -> None:
        self.apart.pop(pair_of(key, other), None)
        self._apart_from[key].discard(other)
        self._apart_from[other].discard(key)

    def _keep_apart(self, key: int, other: int) -> None:
        if self._root(key) == self._root(other):
            # The first one leaves, unless the other hangs on it.
            self._release(other if self._chain_meets(other, (key,)) else key)
        self._set_apart(key, other)

    def _set_apart(self, key: int, other: int) -> None:
        self.apart[pair_of(key, other)] = None
        self._apart_from.setdefault(key, set()).add(other)
        self._apart_from.setdefault(other, set()).add(key)

    def _split(self, item: SplitEntity) -> None:
        target = item.target
        names = self._with_all_beneath(item.keys)
        self.deleted.discard(target)
        if target in names:
            for key in names:
                for document_id in item.document_ids:
                    self.moved.pop((document_id, key), None)
            return
        is_elsewhere = names.isdisjoint(self._with_all_beneath([self._root(target)]))
        for key in sorted(names):
            for document_id in item.document_ids:
                self.moved[document_id, key] = target
            if is_elsewhere:
                self._set_apart(target, key)
            else:
                self._keep_apart(target, key)
