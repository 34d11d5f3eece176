"""From what a language model says of a document to a subgraph of it: what does not stand in the text is not believed.

An entity is believed as far as its name stands in the chunks that the model read, in canonical form: the whole name in
full; at least half of its words (a model writes "Marie Curie" where the text has "Curie" alone) at half the confidence;
anything else is dropped, since it comes from the prompt, from the model's memory, or from an instruction in a document.
A relation needs two different entities that are believed. Descriptions are data: never more than a text of the graph.
"""

import re
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from corpusmesh_core.citation.sentences import split_sentences
from corpusmesh_core.graphs.keys import canonical_name, entity_key, pair_of
from corpusmesh_core.graphs.read_values import MAX_KEYWORDS, ReadEntity, ReadGraph, ReadRelation
from corpusmesh_core.graphs.settings import GraphMethod
from corpusmesh_core.graphs.values import (
    MAX_MENTIONS,
    EntityFragment,
    GraphChunk,
    Mention,
    RelationFragment,
    Subgraph,
)
from corpusmesh_core.text import normalize

WHOLE_CONFIDENCE: Final = 0.9
"""Of an entity whose name stands in the text."""
PARTIAL_CONFIDENCE: Final = 0.45
"""Of an entity of whose name a part stands there."""
APART_FACTOR: Final = 0.7
"""Of a relation whose ends stand in no chunk together."""
MAX_DESCRIPTION_CHARACTERS: Final = 1500
"""Longest description of one document; a further one that would pass it is left out."""
_MIN_SHARE: Final = 0.5
_MIN_WORD: Final = 3
_MAX_HITS: Final = 200
"""Places of one name that are looked at in one batch."""
_MAX_ALIASES: Final = 8
_MAX_SENTENCE_CHARACTERS: Final = 500
_TITLE_WEIGHT: Final = 0.5
_NO_WORD: Final = re.compile(r"[^\w\n]+", re.UNICODE)
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_WITH_ALIAS: Final = re.compile(r"([^()（）]{2,100}?)\s?[(（]([^()（）]{2,60})[)）]")
_ENDINGS: Final = ("", "s", "es")
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


@dataclass(frozen=True, slots=True)
class _Standing:
    """Where a name stands in a batch.

    Attributes:
        counts: How often in each chunk, by position.
        sentences: Numbers of the sentences, ascending.
        confidence: WHOLE_CONFIDENCE or PARTIAL_CONFIDENCE.
    """

    counts: Mapping[int, float]
    sentences: tuple[int, ...]
    confidence: float


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
        text = _BatchText(batch.chunks)
        standings: dict[int, _Standing | None] = {}
        for entity in batch.graph.entities:
            _add_entity(entities, standings, text, entity, batch.method, kinds)
        for relation in batch.graph.relations:
            _add_relation(entities, relations, standings, text, relation, batch.method)
    return Subgraph(
        tuple(_entity(key, entities[key], entities) for key in sorted(entities)),
        tuple(_relation(relations[pair]) for pair in sorted(relations)),
    )


def canonical_text(text: str) -> str:
    """Bring a text into the form in which canonical names can be looked for.

    Args:
        text: Any text without line breaks that matter.

    Returns:
        Folded as `canonical_name` folds, with single spaces for all that is no letter, digit or line break.
    """
    folded = normalize(text).casefold()
    if not folded.isascii():
        folded = "".join(c for c in unicodedata.normalize("NFKD", folded) if not unicodedata.combining(c))
    return _NO_WORD.sub(" ", folded)


class _BatchText:
    """The text of a batch, sentence by sentence, with titles and headings behind it."""

    def __init__(self, chunks: Sequence[GraphChunk]) -> None:
        self.sentences: list[str] = []
        self._positions: list[int] = []
        for chunk in chunks:
            for span in split_sentences(chunk.text):
                self.sentences.append(" ".join(chunk.text[span.start : span.end].split()))
                self._positions.append(chunk.position)
        self._spoken_count = len(self.sentences)
        for chunk in chunks:
            self.sentences.append(" ".join(" / ".join((chunk.title, *chunk.heading_path)).split()))
            self._positions.append(chunk.position)
        lines = [canonical_text(sentence) for sentence in self.sentences]
        self._starts: list[int] = []
        at = 0
        for line in lines:
            self._starts.append(at)
            at += len(line) + 1
        self._text = "\n".join(lines)

    def find(self, name: str) -> _Standing | None:
        """Tell where a canonical name stands; None for nowhere, not even half of it."""
        hits = list(self._hits(name))
        if hits:
            return self._standing(hits, WHOLE_CONFIDENCE)
        words = _words(name)
        found = {word: set(self._hits(word)) for word in words}
        held = [word for word in words if found[word]]
        if not held or len(held) < _MIN_SHARE * len(words):
            return None
        # Where most of its words stand.
        counts = Counter(sentence for word in held for sentence in found[word])
        most = max(counts.values())
        return self._standing([sentence for sentence in sorted(counts) if counts[sentence] == most], PARTIAL_CONFIDENCE)

    def sentence_of(self, numbers: Sequence[int]) -> str:
        """Give the first of some sentences that is one, not a title; "" for none."""
        place = next((number for number in numbers if number < self._spoken_count), None)
        return "" if place is None else self.sentences[place][:_MAX_SENTENCE_CHARACTERS]

    def position_of(self, number: int) -> int:
        """Tell the chunk of a sentence."""
        return self._positions[number]

    def _standing(self, hits: Sequence[int], confidence: float) -> _Standing:
        spoken = [number for number in hits if number < self._spoken_count]
        counts: defaultdict[int, float] = defaultdict(float)
        for number in spoken or hits:
            counts[self._positions[number]] += 1.0 if spoken else _TITLE_WEIGHT
        return _Standing(counts, tuple(dict.fromkeys(spoken)), confidence)

    def _hits(self, name: str) -> Iterator[int]:
        """Give the sentence of each place where a name stands as words, at most _MAX_HITS."""
        text, at = self._text, 0
        for _ in range(_MAX_HITS):
            at = text.find(name, at)
            if at < 0:
                return
            end = at + len(name)
            if _is_bound(text, at, end):
                yield bisect_right(self._starts, at) - 1
            at = end


def _is_bound(text: str, start: int, end: int) -> bool:
    """Tell whether a piece is cut at the edges of words; scripts without spaces have none."""
    if start and _is_letter(text[start]) and _is_letter(text[start - 1]):
        return False
    if not _is_letter(text[end - 1]):
        return True
    rest = end
    while rest < len(text) and rest - end <= len("es") and _is_letter(text[rest]):
        rest += 1
    return text[end:rest] in _ENDINGS


def _is_letter(character: str) -> bool:
    return character.isalnum() and _UNSPACED.match(character) is None


def _words(name: str) -> tuple[str, ...]:
    """Cut a canonical name into words that tell something; a script without spaces into pairs of characters."""
    words: dict[str, None] = {}
    for word in name.split():
        if _UNSPACED.search(word):
            words.update((word[place : place + 2], None) for place in range(len(word) - 1))
        elif len(word) >= _MIN_WORD:
            words[word] = None
    return tuple(words)


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
    standings: dict[int, _Standing | None],
    text: _BatchText,
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
    standings: dict[int, _Standing | None],
    text: _BatchText,
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


def _without_alias(name: str, text: _BatchText) -> tuple[str, str]:
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
