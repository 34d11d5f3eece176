"""Reports of communities without a language model: who belongs together, and the sentences that tell most of it.

A report holds text that was given and nothing else, so it is in the language of its sources and can be no more wrong
than they are. Which sentences it holds is decided by what they tell: entities by rank, relations by strength, each once
(a greedy cover, within (1 - 1/e) of the best for one length), against the tokens that they take.
"""

import heapq
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Final

import numpy as np

from corpusmesh_core.graphs.communities import WeightedGraph
from corpusmesh_core.graphs.keys import MAX_NAME_CHARACTERS, canonical_name, pair_of
from corpusmesh_core.graphs.values import Community
from corpusmesh_core.token_estimate import estimate_tokens

MAX_REPORT_TOKENS: Final = 600
"""Longest lite report unless another length is asked for."""
MAX_REPORT_CHUNKS: Final = 50
"""Most chunks that a report names."""
MAX_ENTITIES: Final = 200
"""Most entities of a community that its report looks at, the highest ranks first."""
MAX_SENTENCES: Final = 1000
"""Most sentences that a report chooses from, those of the highest entities first."""


@dataclass(frozen=True, slots=True)
class ReportEntity:
    """An entity of a community.

    Attributes:
        key: Its key.
        name: Its name.
        type: Its type; "" where unknown.
        description: What a model or a person says of it; "" without.
        rank: How central it is in the graph, such as its PageRank, above 0.
    """

    key: int
    name: str
    type: str = ""
    description: str = ""
    rank: float = 1.0


@dataclass(frozen=True, slots=True)
class ReportRelation:
    """A relation between two entities of a community.

    Attributes:
        source: Key of one entity.
        target: Key of the other.
        text: Description or predicate; "" where sentences alone speak of it.
        weight: Its strength, above 0.
    """

    source: int
    target: int
    text: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class ReportSentence:
    """A sentence that speaks of entities of a community.

    Attributes:
        text: The sentence.
        version: Version that it stands in.
        position: Chunk of the version.
        keys: Entities that it was kept for; those whose names it holds are found besides.
    """

    text: str
    version: int
    position: int
    keys: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportInput:
    """What a report is made of; in any order.

    Attributes:
        community: The community.
        entities: Its members, or those of them that matter most.
        relations: Relations among them.
        sentences: Sentences of its documents.
    """

    community: Community
    entities: tuple[ReportEntity, ...]
    relations: tuple[ReportRelation, ...] = ()
    sentences: tuple[ReportSentence, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """What a language model is told, the most important first: entities, relations, sentences."""
        ranked = _ranked(self.entities)
        names = {entity.key: entity.name for entity in ranked}
        said = [f"{_typed(entity)}: {entity.description}" for entity in ranked if entity.description]
        said += [_typed(entity) for entity in ranked if not entity.description][:_BARE_NAMES]
        relations = sorted(self.relations, key=lambda item: (-item.weight, item.source, item.target))
        said += [
            f"{names[item.source]} – {names[item.target]}: {item.text}"
            for item in relations
            if item.text and item.source in names and item.target in names
        ]
        return (*said, *(sentence.text for sentence in _chosen(self, self.sentences, MAX_SENTENCES, _no_tokens)))


@dataclass(frozen=True, slots=True)
class LiteReport:
    """A report without a language model.

    Attributes:
        title: Names of the key entities.
        text: Markdown: key entities in bold with their types, beneath each the sentences and descriptions that tell of
            it; what is said of a relation follows the names of its ends.
        chunks: Chunks that it stands on, (version, position), in the order of the text.
    """

    title: str
    text: str
    chunks: tuple[tuple[int, int], ...] = ()


def lite_report(given: ReportInput, *, max_tokens: int = MAX_REPORT_TOKENS) -> LiteReport:
    """Write the report of a community.

    Args:
        given: What it is made of.
        max_tokens: Most tokens of the text.

    Returns:
        The report; the same whatever the order of what is given.
    """
    ranked = _ranked(given.entities)
    room = max_tokens - _names_tokens(ranked[:_KEY_ENTITIES])
    chosen = _chosen(given, (*given.sentences, *_descriptions(given)), room, estimate_tokens)
    while True:
        text = _written(ranked, chosen)
        if estimate_tokens(text) <= max_tokens or not chosen:
            break
        chosen.pop()
    shown = _KEY_ENTITIES
    while estimate_tokens(text) > max_tokens and shown:
        shown -= 1
        text = _names_line(ranked[:shown])
    chunks = tuple(dict.fromkeys((item.version, item.position) for item in chosen if item.position != _NOWHERE))
    return LiteReport(_title(ranked), text, chunks[:MAX_REPORT_CHUNKS])


def community_weights(communities: Sequence[Community], graph: WeightedGraph) -> dict[str, float]:
    """Weigh communities: each relation inside one counts by its strength and by the degrees of its ends.

    Args:
        communities: Communities.
        graph: The graph.

    Returns:
        By key of the community: the sum, against the largest of the level, 0 to 1.
    """
    degrees = np.bincount(np.concatenate([graph.sources, graph.targets]), minlength=len(graph.keys))
    pulls = graph.weights.astype(np.float64) * (degrees[graph.sources] + degrees[graph.targets])
    weights: dict[str, float] = {}
    for level in sorted({item.level for item in communities}):
        items = [item for item in communities if item.level == level]
        labels = np.full(len(graph.keys), -1, np.int64)
        members = np.fromiter(chain.from_iterable(item.members for item in items), np.uint64)
        numbers = np.repeat(np.arange(len(items)), [len(item.members) for item in items])
        places = np.minimum(np.searchsorted(graph.keys, members), max(len(graph.keys) - 1, 0))
        is_there = graph.keys[places] == members if len(graph.keys) else np.zeros(len(members), dtype=bool)
        labels[places[is_there]] = numbers[is_there]
        inside = (labels[graph.sources] == labels[graph.targets]) & (labels[graph.sources] >= 0)
        sums = np.bincount(labels[graph.sources][inside], weights=pulls[inside], minlength=len(items))
        largest = float(sums.max()) or 1.0
        weights |= {item.key: float(total) / largest for item, total in zip(items, sums.tolist(), strict=True)}
    return weights


def _ranked(entities: Sequence[ReportEntity]) -> list[ReportEntity]:
    return sorted(entities, key=lambda entity: (-entity.rank, entity.key))[:MAX_ENTITIES]


def _typed(entity: ReportEntity) -> str:
    return f"{entity.name} ({entity.type})" if entity.type else entity.name


def _title(ranked: Sequence[ReportEntity]) -> str:
    return ", ".join(entity.name for entity in ranked[:_TITLE_ENTITIES])


def _names_line(entities: Sequence[ReportEntity]) -> str:
    return " · ".join(f"**{entity.name}**{f' ({entity.type})' if entity.type else ''}" for entity in entities)


def _names_tokens(entities: Sequence[ReportEntity]) -> int:
    return sum(estimate_tokens(_names_line([entity])) + 1 for entity in entities)


def _written(ranked: Sequence[ReportEntity], chosen: Sequence[ReportSentence]) -> str:
    """Put sentences beneath the highest entity that they speak of, in the order of their documents."""
    names = _Names(ranked)
    told: dict[int, list[str]] = {entity.key: [] for entity in ranked}
    for sentence in sorted(chosen, key=lambda item: (item.version, item.position, item.text)):
        keys = names.keys_in(sentence)
        first = next((entity.key for entity in ranked if entity.key in keys), ranked[0].key if ranked else 0)
        if first in told:
            told[first].append(f"- {sentence.text}")
    others = [entity for entity in ranked[:_KEY_ENTITIES] if not told[entity.key]]
    blocks = ["\n".join([_names_line([entity]), *told[entity.key]]) for entity in ranked if told[entity.key]]
    return "\n\n".join([*blocks, _names_line(others)] if others else blocks)


class _Names:
    """Finds names of entities in sentences."""

    def __init__(self, entities: Sequence[ReportEntity]) -> None:
        self._known = {entity.key for entity in entities}
        forms = {form: entity.key for entity in reversed(entities) if len(form := canonical_name(entity.name)) > 1}
        self._keys = forms
        self._spaced = re.compile("|".join(_pattern(form) for form in sorted(forms, key=len, reverse=True)) or "(?!)")
        self._found: dict[ReportSentence, frozenset[int]] = {}

    def keys_in(self, sentence: ReportSentence) -> frozenset[int]:
        """Tell which entities a sentence speaks of."""
        found = self._found.get(sentence)
        if found is None:
            named = {self._keys[form] for form in self._spaced.findall(_canonical_text(sentence.text))}
            found = self._found[sentence] = frozenset((named | set(sentence.keys)) & self._known)
        return found


def _pattern(form: str) -> str:
    escaped = re.escape(form)
    return rf"\b{escaped}\b" if form.isascii() else escaped


def _canonical_text(text: str) -> str:
    return " ".join(
        _canonical_piece(piece[at : at + MAX_NAME_CHARACTERS])
        for piece in text.split()
        for at in range(0, len(piece), MAX_NAME_CHARACTERS)
    )


@lru_cache(65_536)
def _canonical_piece(piece: str) -> str:
    # The sentences of a community are those of the ones beneath it too.
    return canonical_name(piece)


def _descriptions(given: ReportInput) -> list[ReportSentence]:
    """What models and people say of entities and relations, which stands in no chunk."""
    names = {entity.key: entity.name for entity in given.entities}
    told = [
        ReportSentence(entity.description, _NOWHERE, _NOWHERE, (entity.key,))
        for entity in given.entities
        if entity.description
    ]
    for item in given.relations:
        if item.text and item.source in names and item.target in names:
            text = f"{names[item.source]} – {names[item.target]}: {item.text}"
            told.append(ReportSentence(text, _NOWHERE, _NOWHERE, (item.source, item.target)))
    return told


def _chosen(
    given: ReportInput, sentences: Sequence[ReportSentence], max_tokens: int, count_tokens: Callable[[str], int]
) -> list[ReportSentence]:
    """Choose sentences greedily by what each adds for its tokens; the first is the one that tells most."""
    ranked = _ranked(given.entities)
    names = _Names(ranked)
    candidates = _candidates(sentences, ranked)
    cover = _Cover(ranked, given.relations)
    told = [cover.told_by(names.keys_in(sentence)) for sentence in candidates]
    words = [frozenset(_canonical_text(sentence.text).split()) for sentence in candidates]
    costs = [max(count_tokens(sentence.text), 1) + _BULLET_TOKENS for sentence in candidates]
    worth = [
        (1.0 if item.position == _NOWHERE else _worth(item.text)) / cost**_COST_POWER
        for item, cost in zip(candidates, costs, strict=True)
    ]
    heap = [(-cover.gain(told[at]) * worth[at], at) for at in range(len(candidates))]
    heapq.heapify(heap)
    least = _LEAST * heap[0][0] if heap else 0.0
    chosen: list[int] = []
    left = max_tokens
    while heap:
        value, at = heapq.heappop(heap)
        if costs[at] > left or any(_is_alike(words[at], words[other]) for other in chosen):
            continue
        now = -cover.gain(told[at]) * worth[at]
        if now > value and heap and now > heap[0][0]:
            # What was chosen meanwhile tells some of it: it has to wait.
            heapq.heappush(heap, (now, at))
            continue
        if now >= least:
            break
        chosen.append(at)
        left -= costs[at]
        cover.add(told[at])
    return [candidates[at] for at in chosen]


def _worth(text: str) -> float:
    """How well a sentence stands alone: not one that says "he" of somebody, nor a heading or a piece."""
    worth = _PIECE_WORTH if text[:1].islower() or not _END.search(text) else 1.0
    return worth * _REFERRING_WORTH if _REFERS.match(text) else worth


def _candidates(sentences: Sequence[ReportSentence], ranked: Sequence[ReportEntity]) -> list[ReportSentence]:
    """Sentences without repetitions, those kept for the highest entities first, at most MAX_SENTENCES."""
    place = {entity.key: at for at, entity in enumerate(ranked)}
    unique: dict[str, ReportSentence] = {}
    for sentence in sorted(sentences, key=lambda item: (item.version, item.position, item.text, item.keys)):
        if text := " ".join(sentence.text.split()):
            known = unique.get(text)
            # One sentence may be kept for several entities.
            keys = tuple(sorted({*sentence.keys, *(known.keys if known else ())}))
            unique[text] = replace(known or sentence, text=text, keys=keys)
    told = [
        (min((place[key] for key in item.keys if key in place), default=len(ranked)), item) for item in unique.values()
    ]
    told.sort(key=lambda pair: (pair[0], pair[1].version, pair[1].position, pair[1].text))
    return [item for _, item in told[:MAX_SENTENCES]]


class _Cover:
    """What the chosen sentences tell: entities by rank, relations by strength; a second time counts little."""

    def __init__(self, entities: Sequence[ReportEntity], relations: Sequence[ReportRelation]) -> None:
        top = max((entity.rank for entity in entities), default=1.0) or 1.0
        strongest = max((relation.weight for relation in relations), default=1.0) or 1.0
        self._values: dict[int | tuple[int, int], float] = {entity.key: entity.rank / top for entity in entities}
        for relation in relations:
            pair = pair_of(relation.source, relation.target)
            self._values[pair] = max(self._values.get(pair, 0.0), relation.weight / strongest)
        self._neighbours: dict[int, list[int]] = {}
        for relation in relations:
            self._neighbours.setdefault(relation.source, []).append(relation.target)
            self._neighbours.setdefault(relation.target, []).append(relation.source)
        self._counts: dict[int | tuple[int, int], int] = {}

    def told_by(self, keys: frozenset[int]) -> list[int | tuple[int, int]]:
        """Entities, and relations of which both ends are named."""
        pairs = {pair_of(key, other) for key in keys for other in self._neighbours.get(key, ()) if other in keys}
        return [*sorted(keys), *sorted(pairs)]

    def gain(self, things: Sequence[int | tuple[int, int]]) -> float:
        """What a sentence would add."""
        return sum(self._values.get(thing, 0.0) * _AGAIN ** self._counts.get(thing, 0) for thing in things)

    def add(self, things: Sequence[int | tuple[int, int]]) -> None:
        """Take a sentence in."""
        for thing in things:
            self._counts[thing] = self._counts.get(thing, 0) + 1


def _is_alike(words: frozenset[str], others: frozenset[str]) -> bool:
    return len(words & others) >= _ALIKE * max(min(len(words), len(others)), 1)


def _no_tokens(text: str) -> int:
    return 1 if text else 0


_KEY_ENTITIES: Final = 10
_BARE_NAMES: Final = 50
_NOWHERE: Final = -1
"""Place of what stands in no chunk."""
_TITLE_ENTITIES: Final = 3
_BULLET_TOKENS: Final = 2
_COST_POWER: Final = 0.5
"""Between choosing by what a sentence tells and by that for each token: short ones must not win by being short."""
_AGAIN: Final = 0.3
_LEAST: Final = 0.03
"""A sentence that adds less, against the first one, is not worth reading."""
_PIECE_WORTH: Final = 0.3
_REFERRING_WORTH: Final = 0.5
_END: Final = re.compile(r"[.!?。！？…][\"'”’」』)）]*$")
_REFERS: Final = re.compile(
    r"[\"'“‘(（]?(?:(?:He|She|It|They|We|His|Her|Its|Their|Our|This|These|That|Those|There|However|Also)\b"
    r"|他|她|它|其|该|該|此|这|這|那)"
)
_ALIKE: Final = 0.8
