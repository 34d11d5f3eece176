"""From what a language model says of a document to a subgraph of it: what does not stand in the text is not believed.

An entity is believed as far as its name stands in the chunks that the model read, in canonical form: the whole name in
full; at least half of its words, if with another ending (a model writes "Marie Curie" where the text has "Curie"), at
half the confidence; anything else is dropped, since it comes from the prompt, from the model's memory, or from an
instruction in a document. A relation needs two different entities that are believed. Descriptions are data: never more
than a text of the graph.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from corpusmesh_core.graphs.keys import canonical_name, entity_key, pair_of
from corpusmesh_core.graphs.read_values import MAX_KEYWORDS, ReadEntity, ReadGraph, ReadRelation
from corpusmesh_core.graphs.settings import GraphMethod
from corpusmesh_core.graphs.standing import WHOLE_CONFIDENCE, BatchText, Standing
from corpusmesh_core.graphs.values import (
    MAX_MENTIONS,
    EntityFragment,
    GraphChunk,
    Mention,
    RelationFragment,
    Subgraph,
)

APART_FACTOR: Final = 0.7
"""Of a relation whose ends stand in no chunk together."""
MAX_DESCRIPTION_CHARACTERS: Final = 1500
"""Longest description of one document; a further one that would pass it is left out."""
_MAX_ALIASES: Final = 8
_WITH_ALIAS: Final = re.compile(r"([^()（）]{2,100}?)\s?[(（]([^()（）]{2,60})[)）]")
_KINDS: Final = (
    frozenset({"person", "people", "human", "individual", "人", "人物", "人名"}),
    frozenset(
        {"organization", "organisation", "org", "company", "institution", "corporation", "agency", "组织", "组织机构"}
        | {"机构", "公司"}
    ),
    frozenset({"geo", "location", "place", "gpe", "region", "city", "country", "地点", "地理", "地理位置", "位置"}),
    frozenset({"event", "事件"}),
    frozenset({"category", "concept", "topic", "类别", "概念"}),
)
"""Names of one type, of which the settings may have one and a model use another."""


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """What a model said of some chunks.

    Attributes:
        method: How it was asked.
        chunks: What it read, in order.
        graph: What it said.
    """

    method: GraphMethod
    chunks: tuple[GraphChunk, ...]
    graph: ReadGraph


@dataclass(slots=True)
class _Entity:
    names: Counter[str] = field(default_factory=Counter)
    aliases: dict[str, None] = field(default_factory=dict)
    types: Counter[str] = field(default_factory=Counter)
    descriptions: dict[str, None] = field(default_factory=dict)
    sentence: str = ""
    mentions: dict[int, float] = field(default_factory=dict)
    methods: set[GraphMethod] = field(default_factory=set)
    confidence: float = 0.0


@dataclass(slots=True)
class _Relation:
    ends: tuple[int, int]
    predicate: str = ""
    descriptions: dict[str, None] = field(default_factory=dict)
    sentence: str = ""
    keywords: dict[str, None] = field(default_factory=dict)
    mentions: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    weight: float = 0.0
    methods: set[GraphMethod] = field(default_factory=set)
    confidence: float = 0.0


def ground(batches: Sequence[ReadBatch], *, types: Sequence[str]) -> Subgraph:
    """Make the subgraph of a document.

    Args:
        batches: What a model said of its chunks; the same chunks may stand in several.
        types: Types of the settings; another one is "".

    Returns:
        What of it is believed; the same for the same batches, and valid whatever a model says.
    """
    kinds = _kinds(types)
    entities: dict[int, _Entity] = {}
    relations: dict[tuple[int, int], _Relation] = {}
    for batch in batches:
        text = BatchText(batch.chunks)
        standings: dict[int, Standing | None] = {}
        for entity in batch.graph.entities:
            _add_entity(entities, standings, text, entity, batch.method, kinds)
        for relation in batch.graph.relations:
            _add_relation(entities, relations, standings, text, relation, batch.method)
    return Subgraph(
        tuple(_entity(key, entities[key], entities) for key in sorted(entities)),
        tuple(_relation(relations[pair]) for pair in sorted(relations)),
    )


def _kinds(types: Sequence[str]) -> dict[str, str]:
    """Give the settings' type of every word that stands for one."""
    kinds: dict[str, str] = {}
    own = [name.strip().casefold() for name in types]
    for name in own:
        for group in _KINDS:
            if name in group:
                for word in group:
                    kinds.setdefault(word, name)
    for name in own:
        kinds[name] = name
        kinds.setdefault(name + "s", name)
    return kinds


def _add_entity(
    entities: dict[int, _Entity],
    standings: dict[int, Standing | None],
    text: BatchText,
    read: ReadEntity,
    method: GraphMethod,
    kinds: Mapping[str, str],
) -> int:
    """Add what is said of an entity; 0 where it is not believed."""
    name, alias = _without_alias(read.name, text)
    key = entity_key(name)
    if not key:
        return 0
    if key not in standings:
        standings[key] = text.find(canonical_name(name))
        if (standing := standings[key]) is not None:
            entity = entities.setdefault(key, _Entity())
            for position, count in standing.counts.items():
                # Two methods, or a second question, read the same chunk.
                entity.mentions[position] = max(entity.mentions.get(position, 0.0), count)
            entity.sentence = entity.sentence or text.sentence_of(standing.sentences)
            entity.confidence = max(entity.confidence, standing.confidence)
    if standings[key] is None:
        return 0
    entity = entities[key]
    entity.names[_as_written(name, entity.sentence)] += 1
    if alias:
        entity.aliases[alias] = None
    entity.methods.add(method)
    if kind := kinds.get(read.type, ""):
        entity.types[kind] += 1
    _describe(entity.descriptions, read.description)
    return key


def _add_relation(
    entities: dict[int, _Entity],
    relations: dict[tuple[int, int], _Relation],
    standings: dict[int, Standing | None],
    text: BatchText,
    read: ReadRelation,
    method: GraphMethod,
) -> None:
    ends: list[int] = []
    for name in (read.source, read.target):
        key = entity_key(_without_alias(name, text)[0])
        if standings.get(key) is None:
            # Named in a relation alone: an entity of which nothing else is known.
            key = _add_entity(entities, standings, text, ReadEntity(name), method, {})
        ends.append(key)
    source, target = ends
    first, second = standings.get(source), standings.get(target)
    if source == target or first is None or second is None:
        return
    pair = pair_of(source, target)
    relation = relations.setdefault(pair, _Relation((source, target)))
    confidence = min(first.confidence, second.confidence)
    together = sorted(set(first.counts) & set(second.counts))
    if not together:
        together = sorted({min(first.counts), min(second.counts)})
        confidence *= APART_FACTOR
    for position in together:
        relation.mentions[position] += read.strength
    common = sorted(set(first.sentences) & set(second.sentences))
    relation.sentence = relation.sentence or text.sentence_of(common)
    relation.predicate = relation.predicate or read.predicate
    relation.weight += read.strength
    relation.confidence = max(relation.confidence, confidence)
    relation.methods.add(method)
    relation.keywords.update(dict.fromkeys(read.keywords))
    _describe(relation.descriptions, read.description)


def _without_alias(name: str, text: BatchText) -> tuple[str, str]:
    """Cut "International Business Machines (IBM)" into a name and its short form, where both stand in the text."""
    match = _WITH_ALIAS.fullmatch(name)
    if match is None:
        return name, ""
    whole, alias = match.group(1), match.group(2)
    is_known = all(
        (standing := text.find(canonical_name(form))) is not None and standing.confidence == WHOLE_CONFIDENCE
        for form in (whole, alias)
        if entity_key(form)
    )
    return (whole, alias) if is_known and entity_key(whole) and entity_key(alias) else (name, "")


def _as_written(name: str, sentence: str) -> str:
    """Spell a name as the document does, which some models write in capitals."""
    folded = sentence.casefold()
    at = folded.find(name.casefold())
    return sentence[at : at + len(name)] if at >= 0 and len(folded) == len(sentence) else name


def _describe(descriptions: dict[str, None], text: str) -> None:
    if text and text not in descriptions and sum(map(len, descriptions)) + len(text) <= MAX_DESCRIPTION_CHARACTERS:
        descriptions[text] = None


def _entity(key: int, entity: _Entity, others: Collection[int]) -> EntityFragment:
    name = min(entity.names, key=lambda form: (-entity.names[form], form))
    kind = min(entity.types, key=lambda form: (-entity.types[form], form), default="")
    return EntityFragment(
        key=key,
        name=name,
        type=kind,
        description=" ".join(entity.descriptions),
        sentence=entity.sentence,
        # A short form that is an entity by itself leads to that one.
        aliases=tuple(sorted(alias for alias in entity.aliases if entity_key(alias) not in others))[:_MAX_ALIASES],
        mentions=_mentions(entity.mentions),
        methods=tuple(sorted(entity.methods)),
        confidence=entity.confidence,
    )


def _relation(relation: _Relation) -> RelationFragment:
    return RelationFragment(
        source=relation.ends[0],
        target=relation.ends[1],
        predicate=relation.predicate,
        description=" ".join(relation.descriptions),
        sentence=relation.sentence,
        keywords=tuple(relation.keywords)[:MAX_KEYWORDS],
        mentions=_mentions(relation.mentions),
        weight=relation.weight,
        methods=tuple(sorted(relation.methods)),
        confidence=relation.confidence,
    )


def _mentions(weights: Mapping[int, float]) -> tuple[Mention, ...]:
    kept = sorted(weights, key=lambda position: (-weights[position], position))[:MAX_MENTIONS]
    return tuple(Mention(position, float(weights[position])) for position in sorted(kept))
