"""Pairs of entities that a document speaks of together, each with the sentence that says so."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from corpusmesh_core.graphs.extraction.unspaced_names import UNSPACED
from corpusmesh_core.text import is_stop_word

MAX_SENTENCE_ENTITIES: Final = 10
"""Of more entities in a sentence, the first are paired."""
MAX_EDGE_TEXT_CHARACTERS: Final = 400
_MAX_PREDICATE_CHARACTERS: Final = 80
_MAX_PREDICATE_WORDS: Final = 9
_MAX_KEYWORDS: Final = 5
_MAX_EDGE_CHARACTERS: Final = 200
_MARKS: Final = " ,.;:()[]\"'“”‘’（），。、：；《》「」-–—"
_IMPLIED: Final = 0.5
"""What a sentence counts for the subject of a passage that it does not name."""
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_BRACKETS: Final = re.compile(r"\([^()]{0,200}\)|（[^（）]{0,200}）")


@dataclass(frozen=True, slots=True)
class Spot:
    """An entity at a place of a sentence; `start` is negative where the sentence only speaks of it.

    Attributes:
        key: The entity.
        start: First character within the sentence.
        end: Position behind its last.
        is_name: Whether it is a name rather than a noun.
    """

    key: int
    start: int
    end: int
    is_name: bool


@dataclass(slots=True)
class Pair:
    """What was found of two entities.

    Attributes:
        source: The one that is named first.
        target: The other one.
        strength: How much the sentences say.
        count: Sentences that both stand in.
        by_position: Strength by chunk.
        sentence: The sentence that says most.
        predicate: How they are related, "" where it is not said in few words.
        keywords: Telling words of that sentence.
        best: What that sentence counted.
    """

    source: int
    target: int
    strength: float = 0.0
    count: int = 0
    by_position: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    sentence: str = ""
    predicate: str = ""
    keywords: tuple[str, ...] = ()
    best: float = 0.0


class Pairs:
    """Collects the pairs of a document."""

    def __init__(self) -> None:
        """Create it."""
        self._pairs: dict[tuple[int, int], Pair] = {}
        self._sentences_of: Counter[int] = Counter()
        self._sentence_count = 0

    def add(self, position: int, sentence: str, spots: Sequence[Spot], implied: int) -> None:
        """Take a sentence.

        Args:
            position: Chunk that it stands in.
            sentence: The sentence.
            spots: Entities in it by place, none inside another.
            implied: Entity that the passage is about, which the sentence may leave out; 0 for none.
        """
        self._sentence_count += 1
        distinct: dict[int, Spot] = {}
        for spot in spots:
            distinct.setdefault(spot.key, spot)
        self._sentences_of.update(distinct.keys())
        chosen = list(distinct.values())[:MAX_SENTENCE_ENTITIES]
        if implied and implied not in distinct and chosen:
            self._sentences_of[implied] += 1
            chosen = [Spot(implied, -1, 0, True), *chosen]
        # A sentence that lists many names says little of any two of them.
        share = 1.0 / math.sqrt(max(1, len(chosen) - 1))
        for first, second, is_near in _paired(chosen, implied):
            self._count(position, sentence, (first, second), share, is_near=is_near)

    def _count(self, position: int, sentence: str, spots: tuple[Spot, Spot], share: float, *, is_near: bool) -> None:
        first, second = spots
        low, high = min(first.key, second.key), max(first.key, second.key)
        pair = self._pairs.get((low, high))
        if pair is None:
            pair = self._pairs[low, high] = Pair(first.key, second.key)
        worth = share * (_IMPLIED if first.start < 0 else 1.0)
        worth *= 1.0 if first.is_name and second.is_name else _IMPLIED
        pair.strength += worth
        pair.count += 1
        pair.by_position[position] += worth
        if worth > pair.best:
            pair.best, pair.sentence = worth, sentence[:MAX_EDGE_TEXT_CHARACTERS]
            pair.source, pair.target = first.key, second.key
            between = sentence[max(0, first.end) : second.start] if is_near or first.start < 0 else ""
            pair.predicate = _predicate(between)
            pair.keywords = _keywords(sentence, (first, second))

    def weighed(self) -> Iterator[tuple[Pair, float]]:
        """Weigh the pairs by how much more often than by chance they stand together within the document.

        Yields:
            Each pair with its weight, above 0.
        """
        for pair in self._pairs.values():
            chance = self._sentences_of[pair.source] * self._sentences_of[pair.target]
            yield pair, pair.strength * math.log1p(pair.count * self._sentence_count / max(1, chance))


def _paired(chosen: Sequence[Spot], implied: int) -> Iterator[tuple[Spot, Spot, bool]]:
    """Pair entities, and say of which no other stands between them; nouns only with names and the implied one."""
    for place, first in enumerate(chosen):
        for further, second in enumerate(chosen[place + 1 :]):
            if first.is_name or second.is_name or implied in (first.key, second.key):
                yield first, second, further == 0


def _predicate(between: str) -> str:
    text = " ".join(_BRACKETS.sub(" ", between[:_MAX_EDGE_CHARACTERS]).split()).strip(
        " ,.;:()[]\"'“”‘’（），。、：；《》「」-–—"
    )
    words = _WORD.findall(text)
    if not words or len(text) > _MAX_PREDICATE_CHARACTERS or len(words) > _MAX_PREDICATE_WORDS:
        return ""
    return text if len(text) > 1 and text.lower() not in ("and", "or", "the", "和", "与", "及") else ""


def _keywords(sentence: str, spots: Sequence[Spot]) -> tuple[str, ...]:
    if UNSPACED.search(sentence) is not None:
        return ()
    words: dict[str, None] = {}
    for match in _WORD.finditer(sentence[:MAX_EDGE_TEXT_CHARACTERS]):
        word = match.group()
        if any(spot.start <= match.start() < spot.end for spot in spots) or len(word) < 4 or word[0].isupper():
            continue
        if not is_stop_word(word):
            words[word] = None
            if len(words) == _MAX_KEYWORDS:
                break
    return tuple(words)
