"""From the chunks of a document to its subgraph, without a model (ADR-0014)."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from corpusmesh_core.graphs.extraction.aliases import ACRONYM_BEHIND, acronym_pairs, is_acronym_of, short_forms
from corpusmesh_core.graphs.extraction.entity_types import (
    CATEGORY,
    ORGANIZATION,
    PLACE,
    WORK,
    type_in_sentence,
    type_of_name,
)
from corpusmesh_core.graphs.extraction.occurrences import Occurrence, ReadChunk, Sentence, read_chunks
from corpusmesh_core.graphs.extraction.pairs import MAX_EDGE_TEXT_CHARACTERS, Pairs, Spot
from corpusmesh_core.graphs.extraction.spelled_names import spelled_names, without_noble_title
from corpusmesh_core.graphs.keys import entity_key, pair_of
from corpusmesh_core.graphs.settings import GraphMethod, GraphSettings
from corpusmesh_core.graphs.values import (
    MAX_MENTIONS,
    EntityFragment,
    GraphChunk,
    Mention,
    RelationFragment,
    Subgraph,
)

MAX_CHUNK_ENTITIES: Final = 24
"""Of more entities in a chunk, those that it names most are kept."""
MAX_CHUNK_NOUNS: Final = 8
"""Of them, most that are nouns rather than names."""
SUBJECT_WEIGHT: Final = 8.0
"""How often the passage that is about an entity is held to name it, over those that do."""
TITLE_NAME_WEIGHT: Final = 2.0
"""How often a passage is held to name what its title names besides."""
_PART_WEIGHT: Final = 0.5
_NOUN_WEIGHT: Final = 0.5
_MAX_ALIASES: Final = 8
_NAME_CONFIDENCE: Final = 0.8
_NOUN_CONFIDENCE: Final = 0.5
_NER: Final = (GraphMethod.NER,)
_LEAD: Final = re.compile(
    r"\s{0,2}(?:[(（,，]|(?:is|was|are|were|refers)\b|,?\s{0,2}(?:born|also known|better known)\b"
    r"|是|为|為|又称|又稱|即)"
)
_REFERS: Final = re.compile(
    r"[\"'“‘(]?(?:(?:He|She|It|They|His|Her|Its|Their|This|These)\b"
    r"|The (?:film|album|song|book|novel|town|city|village|"
    r"company|band|group|team|game|series|school|river|work|show|club|station|party|university|magazine)\b"
    r"|他|她|它|该|該|其|本|此)"
)


@dataclass(slots=True)
class _Entity:
    """What is collected of an entity."""

    names: Counter[str] = field(default_factory=Counter)
    aliases: dict[str, None] = field(default_factory=dict)
    weights: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    types: Counter[str] = field(default_factory=Counter)
    sentence: str = ""
    sentence_rank: int = 0
    is_name: bool = False
    total: float = 0.0


def extract_entities(chunks: Sequence[GraphChunk], settings: GraphSettings) -> Subgraph:
    """Find the entities and relations of a document without a model.

    Names of scripts with capitals, names and nouns of Chinese, noun phrases that the document repeats, its title and
    headings are entities; what stands together in a sentence is related, most of all with what the passage is about.
    Other languages give what these rules find in them: quoted names, katakana, titles.

    Args:
        chunks: Chunks of one version of a document, in any order.
        settings: How many relations a chunk may have.

    Returns:
        The subgraph; the same for the same chunks. Time grows with the length of the text alone.
    """
    read = read_chunks(sorted(chunks, key=lambda chunk: chunk.position))
    return _Document(settings).made_of(read)


class _Document:
    """Puts a document together."""

    def __init__(self, settings: GraphSettings) -> None:
        self._settings = settings
        self._entities: dict[int, _Entity] = defaultdict(_Entity)
        self._key_of: dict[str, int] = {}
        self._leads: dict[str, str] = {}
        self._pairs = Pairs()

    def made_of(self, read: Sequence[ReadChunk]) -> Subgraph:
        self._join_forms(read)
        seen_subjects: set[str] = set()
        for part in read:
            implied = self._subjects(part, seen_subjects)
            for place, sentence in enumerate(part.sentences):
                implied = self._sentence(sentence, implied, is_first=place == 0)
        kept = self._kept()
        relations = self._relations(kept)
        ends = {key for relation in relations for key in (relation.source, relation.target)}
        entities = tuple(self._fragment(key, kept[key]) for key in sorted(kept) if kept[key] or key in ends)
        return Subgraph(entities, relations)

    def _join_forms(self, read: Sequence[ReadChunk]) -> None:
        """Find out which names of the document are forms of others."""
        names: Counter[str] = Counter()
        people: Counter[str] = Counter()
        for part in read:
            for subject in part.subjects:
                names[subject] += 1
                people[subject] += 1
            for sentence in part.sentences:
                for item in sentence.occurrences:
                    if item.is_name:
                        names[item.name] += 1
                        if not item.is_part and type_of_name(item.name, item.tag) not in (ORGANIZATION, PLACE, WORK):
                            people[item.name] += 1
        for short, full in (*short_forms(names, people).items(), *acronym_pairs(names).items()):
            self._leads[short] = full

    def _key(self, name: str) -> int:
        """Give the key of a name, of the full one where it is a form of it."""
        key = self._key_of.get(name)
        if key is None:
            main = without_noble_title(self._leads.get(name, name))
            key = self._key_of[name] = entity_key(main)
            if key:
                entity = self._entities[key]
                if main != name:
                    entity.names[main] += 0
                if main != name and (name not in self._leads or is_acronym_of(name, main)):
                    entity.aliases[name] = None
        return key

    def _subjects(self, part: ReadChunk, seen: set[str]) -> int:
        """Note what the title and the headings say that a chunk is about; returns the most particular of these."""
        implied = 0
        for subject in part.subjects:
            key = self._key(subject)
            if not key:
                continue
            implied = key
            entity = self._entities[key]
            entity.names[subject] += 1
            entity.is_name = True
            # A title stands over all chunks and is what the first of them is about; so are headings.
            if subject not in seen:
                entity.weights[part.chunk.position] += SUBJECT_WEIGHT
                entity.total += SUBJECT_WEIGHT
                seen.add(subject)
                self._within_title(subject, key, part.chunk.position)
        return implied

    def _within_title(self, title: str, own: int, position: int) -> None:
        """Note what a title names besides: Ohio in "List of Ohio area codes"."""
        words = frozenset(title.lower().split())
        for found in spelled_names(title, 0, len(title), words):
            key = self._key(found.name)
            if key and key != own:
                entity = self._entities[key]
                entity.names[found.name] += 1
                entity.is_name = True
                entity.weights[position] += TITLE_NAME_WEIGHT

    def _sentence(self, sentence: Sentence, implied: int, *, is_first: bool) -> int:
        """Take a sentence; returns what the next one speaks of where it does not say so."""
        text = sentence.text[sentence.start : sentence.end]
        folded = " ".join(text.split())
        shift = -sentence.start
        spots: list[Spot] = []
        covered = -1
        subject = 0
        for item in sentence.occurrences:
            key = self._key(item.name)
            if not key:
                continue
            is_lead = not spots and item.is_name and not item.is_part and self._leads_in(sentence, item)
            self._note(sentence, item, key, folded, is_lead=is_lead)
            if is_lead:
                subject = key
            # Of "Otto Klein and Karl Gross" both are related; that it may be one name is only kept as an entity.
            if item.start >= covered and not item.is_part:
                spots.append(Spot(key, item.start + shift, item.end + shift, item.is_name))
                covered = item.end
        if subject and is_first:
            self._lead(subject, implied, sentence.position)
            implied = implied or subject
        speaks_of = implied if implied and (is_first or _REFERS.match(folded) is not None or not subject) else 0
        self._pairs.add(sentence.position, folded if len(folded) == len(text) else text, spots, speaks_of)
        return implied or subject

    def _leads_in(self, sentence: Sentence, item: Occurrence) -> bool:
        """Tell whether a sentence begins by saying what its first name is."""
        before = sentence.text[sentence.start : item.start]
        return len(before) <= 5 and _LEAD.match(sentence.text, item.end) is not None

    def _lead(self, subject: int, implied: int, position: int) -> None:
        """Note that a chunk begins by saying what something is: it is about that, and the title may be another name."""
        if subject == implied:
            return
        entity = self._entities[subject]
        entity.weights[position] += SUBJECT_WEIGHT
        entity.total += SUBJECT_WEIGHT

    def _note(self, sentence: Sentence, item: Occurrence, key: int, folded: str, *, is_lead: bool) -> None:
        entity = self._entities[key]
        weight = (_PART_WEIGHT if item.is_part else 1.0) * (1.0 if item.is_name else _NOUN_WEIGHT)
        entity.weights[sentence.position] += weight
        entity.total += weight
        entity.is_name = entity.is_name or item.is_name
        if item.name not in self._leads:
            entity.names[item.name] += 1
        rank = 2 if is_lead else 1
        if rank > entity.sentence_rank:
            entity.sentence, entity.sentence_rank = folded[:MAX_EDGE_TEXT_CHARACTERS], rank
        if not item.is_part:
            kind = type_in_sentence(sentence.text, item.end, sentence.end) if is_lead and item.is_name else ""
            kind = kind or (type_of_name(item.name, item.tag) if item.is_name else CATEGORY)
            if kind:
                entity.types[kind] += 3 if is_lead else 1
        self._acronym(sentence, item, entity)

    def _acronym(self, sentence: Sentence, item: Occurrence, entity: _Entity) -> None:
        match = ACRONYM_BEHIND.match(sentence.text, item.end, sentence.end)
        if match is not None and is_acronym_of(match.group(1), item.name):
            entity.aliases[match.group(1)] = None
            self._leads.setdefault(match.group(1), item.name)

    def _kept(self) -> Mapping[int, dict[int, float]]:
        """Choose the entities of each chunk, the weightiest; returns mentions by key."""
        by_position: dict[int, list[tuple[float, int, int]]] = defaultdict(list)
        # Of equally weighty ones the first: they stand together, so that there is something to relate.
        for place, (key, entity) in enumerate(self._entities.items()):
            for position, weight in entity.weights.items():
                by_position[position].append((-weight * (1.0 if entity.is_name else _NOUN_WEIGHT), place, key))
        kept: dict[int, dict[int, float]] = defaultdict(dict)
        for position, listed in by_position.items():
            listed.sort()
            names = [key for *_, key in listed if self._entities[key].is_name]
            nouns = [key for *_, key in listed if not self._entities[key].is_name]
            for key in (*names, *nouns[:MAX_CHUNK_NOUNS])[:MAX_CHUNK_ENTITIES]:
                kept[key][position] = self._entities[key].weights[position]
        return kept

    def _relations(self, kept: Mapping[int, dict[int, float]]) -> tuple[RelationFragment, ...]:
        """Choose the relations of each chunk: at most as many as the settings say, the weightiest."""
        weighed = [
            (pair, weight) for pair, weight in self._pairs.weighed() if pair.source in kept and pair.target in kept
        ]
        by_position: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for number, (pair, weight) in enumerate(weighed):
            for position, strength in pair.by_position.items():
                by_position[position].append((-weight * strength / pair.strength, number))
        places: dict[int, list[int]] = defaultdict(list)
        for position, listed in by_position.items():
            for _, number in sorted(listed)[: self._settings.max_chunk_relations]:
                places[number].append(position)
        made: list[RelationFragment] = []
        for number, positions in places.items():
            pair, weight = weighed[number]
            made.append(
                RelationFragment(
                    source=pair.source,
                    target=pair.target,
                    predicate=pair.predicate,
                    sentence=pair.sentence,
                    keywords=pair.keywords,
                    mentions=tuple(
                        Mention(position, round(pair.by_position[position], 4))
                        for position in sorted(positions)[:MAX_MENTIONS]
                    ),
                    weight=round(weight, 4),
                    methods=_NER,
                    confidence=_NAME_CONFIDENCE if pair.predicate else _NOUN_CONFIDENCE,
                )
            )
        return tuple(sorted(made, key=lambda relation: pair_of(relation.source, relation.target)))

    def _fragment(self, key: int, mentions: Mapping[int, float]) -> EntityFragment:
        entity = self._entities[key]
        name = min(entity.names, key=lambda name: (-entity.names[name], -len(name), name))
        others = [other for other in (*entity.aliases, *entity.names) if other != name]
        aliases = dict.fromkeys(other for other in others if entity_key(other) not in (0, entity_key(name)))
        kinds = entity.types.most_common(1)
        if entity_key(name) != key:
            # The name that is written most often is a form of the one that the key stands for.
            name, aliases = self._main_name(entity, key, name, aliases)
        return EntityFragment(
            key=key,
            name=name,
            type=kinds[0][0] if kinds else "",
            sentence=entity.sentence,
            aliases=tuple(aliases)[:_MAX_ALIASES],
            mentions=tuple(
                Mention(position, round(mentions[position], 4)) for position in sorted(mentions)[:MAX_MENTIONS]
            ),
            methods=_NER,
            confidence=_NAME_CONFIDENCE if entity.is_name else _NOUN_CONFIDENCE,
        )

    def _main_name(self, entity: _Entity, key: int, name: str, aliases: dict[str, None]) -> tuple[str, dict[str, None]]:
        for other in entity.names:
            if entity_key(other) == key:
                return other, {name: None, **{alias: None for alias in aliases if entity_key(alias) != key}}
        return name, aliases
