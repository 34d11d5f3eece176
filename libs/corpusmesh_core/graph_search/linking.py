"""From a text to the entities of a graph that it names, each with how much the place bears on the question.

Rows of words are hashed and looked up in the view: what the graph knows by name is found however the text writes it
around, without a round trip. Of names within each other the longest counts.
"""

import math
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.graphs.extraction.sentences import sentence_spans
from corpusmesh_core.graphs.extraction.spelled_names import WORD
from corpusmesh_core.graphs.extraction.unspaced_names import UNSPACED, unspaced_names
from corpusmesh_core.graphs.keys import entity_key
from corpusmesh_core.graphs.view import UNKNOWN, GraphView
from corpusmesh_core.ranking.names import Name, find_names
from corpusmesh_core.text import QueryTerms, analyze

SUBJECT_WEIGHT: Final = 8.0
"""Weight of a mention from which on a passage is about the entity; see `extraction.document.SUBJECT_WEIGHT`."""
_MAX_MENTIONS: Final = 200
"""Passages that mention an entity, from which on it leads to those alone that are about it."""
_MAX_ABOUT: Final = 64
_MAX_CHARACTERS: Final = 4_000
_BEARING: Final = 0.3
"""Share of the question's terms from which on a sentence bears on it fully."""
_MAX_WORDS: Final = 8
_MAX_ROW_WORDS: Final = 64
_MAX_RUN: Final = 12
_MAX_ROW_CHARACTERS: Final = 96
_UNSPACED_SHARE: Final = 0.2
_MIN_PREFIX: Final = 5
_MAX_ENDING: Final = 2


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes:
        weights: Weight by fine term.
        total: Their sum.
    """

    weights: Mapping[str, float]
    total: float

    @classmethod
    def of(cls, terms: QueryTerms, weights: Mapping[str, float]) -> "Question":
        """Weigh the terms of a question.

        Args:
            terms: Its terms.
            weights: Weight of each fine term by rarity; a term that is not named has 1.

        Returns:
            The question.
        """
        own = {term: weights.get(term, 1.0) for term in terms.fine}
        return cls(own, sum(own.values()))

    def bearing(self, held: Collection[str], besides: Collection[str]) -> float:
        """Say how much a sentence bears on the question.

        Args:
            held: Terms of the sentence and of the title, which it speaks of.
            besides: Terms that do not count, those of the name.

        Returns:
            Share of the question that the terms cover against the share that is enough, 0 to 1. Terms that begin alike
            cover each other: "direct" the "director".
        """
        if self.total <= 0.0:
            return 0.0
        # One search of a text for each term, not a look at each term that is held: no term has a line break in it.
        lines = "\n".join(("", *held))
        covered = sum(
            weight
            for term, weight in self.weights.items()
            if term not in besides and (term in held or _begins_alike(term, lines))
        )
        return min(1.0, covered / self.total / _BEARING)


@dataclass(frozen=True, slots=True)
class Link:
    """An entity that a text names.

    Attributes:
        entity: Its place in the view.
        bearing: How much the place bears on the question, 0 to 1; 1 in the question itself.
    """

    entity: int
    bearing: float


@dataclass(frozen=True, slots=True)
class Lead:
    """What an entity leads to.

    Attributes:
        entity: The entity.
        source: Record that names it; "" for the question.
        strength: How much it counts, 0 to 1.
        about: Passages that are about it.
        mentioning: Passages that mention it, with the weights of the mentions.
        mention_strength: What one of these counts whose mention is a lone one.
        passage_count: Passages that name it, at least 1.
    """

    entity: int
    source: str
    strength: float
    about: tuple[int, ...]
    mentioning: tuple[tuple[int, float], ...]
    mention_strength: float
    passage_count: int


def question_links(question: str, view: GraphView) -> tuple[Link, ...]:
    """Find the entities that a question names.

    Args:
        question: The question.
        view: The graph.

    Returns:
        Each entity once, in order.
    """
    text = question[:_MAX_CHARACTERS]
    # Rows of words that are no names lead astray where there are names.
    found = _linked(text, _names(text), view, UNKNOWN) or _linked(text, list(_rows(text)), view, UNKNOWN)
    return tuple(Link(entity, 1.0) for entity in dict.fromkeys(entity for _, entity in found))


def passage_links(text: str, title: str, passage: int, question: Question, view: GraphView) -> tuple[Link, ...]:
    """Find the entities that a passage names and that lead on.

    Args:
        text: Its text; of a longer one than 4,000 characters the beginning.
        title: Title of its document, which every sentence speaks of.
        passage: Its place in the view, UNKNOWN where it has none.
        question: The question.
        view: The graph.

    Returns:
        Each entity once, with its best sentence; without those that the passage itself is about, and those that no
        other passage names.
    """
    text = text[:_MAX_CHARACTERS]
    sentences = _Sentences(text, title)
    best: dict[int, float] = {}
    for name, entity in _linked(text, _names(text), view, passage):
        if is_about(view, entity, passage):
            continue
        bearing = question.bearing(sentences.terms_around(name), name.terms)
        best[entity] = max(bearing, best.get(entity, 0.0))
    return tuple(Link(entity, bearing) for entity, bearing in best.items())


def is_about(view: GraphView, entity: int, passage: int) -> bool:
    """Tell whether a passage is about an entity.

    Args:
        view: The graph.
        entity: Place of the entity.
        passage: Place of the passage, UNKNOWN for one without.

    Returns:
        Whether it says so: by its title, by a heading, or by beginning with what the entity is.
    """
    if passage == UNKNOWN:
        return False
    mentions = view.mentions
    start, end = int(mentions.indptr[entity]), int(mentions.indptr[entity + 1])
    place = start + int(mentions.indices[start:end].searchsorted(passage))
    return place < end and mentions.indices[place] == passage and mentions.data[place] >= SUBJECT_WEIGHT


def lead_of(view: GraphView, entity: int, source: str, strength: float, own: int, shares: tuple[float, float]) -> Lead:
    """Say where an entity leads to.

    Args:
        view: The graph.
        entity: Place of the entity.
        source: Record that names it; "" for the question.
        strength: How much it counts, 0 to 1.
        own: Place of the passage that names it, which it does not lead back to; UNKNOWN for none.
        shares: What a lone mention counts against being what a passage is about: in general, and where the question
            itself names what some passage is about.

    Returns:
        The passages, each of many the less.
    """
    mentions = view.mentions
    span = slice(int(mentions.indptr[entity]), int(mentions.indptr[entity + 1]))
    passages, weights = mentions.indices[span], mentions.data[span]
    is_about, count = weights >= SUBJECT_WEIGHT, max(1, len(passages))
    about = tuple(place for place in passages[is_about].tolist() if place != own)
    if len(about) > _MAX_ABOUT:
        # What so many passages are about tells none of them apart.
        about = ()
    mentioning: list[tuple[int, float]] = []
    if count <= _MAX_MENTIONS:
        pairs = zip(passages[~is_about].tolist(), weights[~is_about].tolist(), strict=True)
        mentioning = [pair for pair in pairs if pair[0] != own]
    share = shares[1] if about and not source else shares[0]
    # What the question names by words is found by its words: there each of many counts its share alone.
    mention_strength = strength * share / (math.sqrt(count) if source else count)
    return Lead(entity, source, strength, about, tuple(mentioning), mention_strength, count)


def _names(text: str) -> list[Name]:
    """Find what may be a name: in scripts with capitals what looks like one, in scripts without spaces words."""
    names = list(find_names(text))
    # What a Chinese name in an English text costs is the dictionary.
    if len(UNSPACED.findall(text)) > _UNSPACED_SHARE * len(text):
        names.extend(
            Name(analyze(word.name).fine, word.start, word.end)
            for start, end in sentence_spans(text)
            for word in unspaced_names(text, start, end)
        )
    return names


def _rows(text: str) -> Iterator[Name]:
    """Give the rows of a question: words in small letters may name something too, and so may characters."""
    words = [(match.start(), match.end()) for match in WORD.finditer(text)][:_MAX_ROW_WORDS]
    for first, (start, _) in enumerate(words):
        for _, end in words[first + 1 : first + _MAX_WORDS]:
            yield Name((), start, end)
    characters = [place for place in range(min(len(text), _MAX_ROW_CHARACTERS)) if UNSPACED.match(text[place])]
    for start in characters:
        for end in range(start + 2, min(start + _MAX_RUN, len(text)) + 1):
            if UNSPACED.match(text[end - 1]) is None:
                break
            yield Name((), start, end)


def _linked(text: str, names: Sequence[Name], view: GraphView, passage: int) -> list[tuple[Name, int]]:
    """Look names up; of names within each other the longest that leads on."""
    places = view.find([entity_key(text[name.start : name.end]) for name in names]).tolist()
    offsets, indices = view.mentions.indptr, view.mentions.indices
    found: list[tuple[Name, int]] = []
    for name, entity in zip(names, places, strict=True):
        if entity == UNKNOWN:
            continue
        start = int(offsets[entity])
        is_alone = int(offsets[entity + 1]) - start == 1 and int(indices[start]) == passage
        if not is_alone:
            found.append((name, entity))
    if passage != UNKNOWN:
        own = frozenset(_mentioned(view, passage))
        # A lone word inside a longer name is that entity only where the extraction took it for one.
        found = [(name, entity) for name, entity in found if entity in own or len(name.terms) > 1]
    found.sort(key=lambda item: (item[0].start, -item[0].end))
    longest: list[tuple[Name, int]] = []
    start, end = -1, -1
    for name, entity in found:
        # In this order a name is inside another one where it ends no later than some that begins no later.
        if name.end > end or (name.start, name.end) == (start, end):
            longest.append((name, entity))
            start, end = name.start, name.end
    return longest


def _mentioned(view: GraphView, passage: int) -> Sequence[int]:
    rows = view.passage_mentions
    return list(rows.indices[int(rows.indptr[passage]) : int(rows.indptr[passage + 1])].tolist())


class _Sentences:
    """The sentences of a text, analysed when they are asked for."""

    def __init__(self, text: str, title: str) -> None:
        self._text = text
        self._starts = [start for start, _ in sentence_spans(text)]
        self._known: dict[int, frozenset[str]] = {}
        self._title = frozenset(analyze(title).fine)

    def terms_around(self, name: Name) -> frozenset[str]:
        """Give the terms of the sentence that a name begins in, and of the title."""
        place = max(0, bisect_right(self._starts, name.start) - 1)
        known = self._known.get(place)
        if known is None:
            start = self._starts[place] if self._starts else 0
            end = self._starts[place + 1] if place + 1 < len(self._starts) else len(self._text)
            known = self._known[place] = self._title | frozenset(analyze(self._text[start:end]).fine)
        return known


def _begins_alike(term: str, lines: str) -> bool:
    if len(term) < _MIN_PREFIX:
        return False
    beginning = term[: max(_MIN_PREFIX, len(term) - _MAX_ENDING)]
    return f"\n{beginning}" in lines
