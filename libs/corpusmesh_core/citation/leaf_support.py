"""Which chunks beneath a summary bear out what it is cited for: a citation must lead to a place in an original."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.citation.checking import CitableText
from corpusmesh_core.citation.facts import held_numbers, stated_numbers
from corpusmesh_core.citation.weights import coverage, telling_terms, term_weights
from corpusmesh_core.text import normalize

MAX_PLACES: Final = 8
"""Most chunks that one citation leads to."""
_PER_STATEMENT: Final = 3
_NEW_SHARE: Final = 0.1
_SQUEEZE: Final = re.compile(r"[\W_]+")
_MIN_QUOTED_CHARACTERS: Final = 12


def supporting_leaves(statements: Sequence[str], leaves: Sequence[CitableText]) -> tuple[int, ...]:
    """Find the chunks that bear statements out.

    A sentence that stands in a chunk word for word leads to that chunk. Of any other, the chunk that holds most of its
    telling terms and numbers is taken, and then those that hold what this one lacks.

    Args:
        statements: What the summary is cited for, without markers.
        leaves: Chunks beneath it, those that its own words stand in most first.

    Returns:
        Places among the chunks, best first, at most MAX_PLACES; at least one where there is a chunk.
    """
    if not leaves:
        return ()
    known = _Leaves.of(leaves)
    found: dict[int, None] = {}
    for statement in statements:
        found.update(dict.fromkeys(known.holding(statement) or known.supporting(statement)))
    return tuple(found)[:MAX_PLACES] or (0,)


@dataclass(frozen=True, slots=True)
class _Leaves:
    squeezed: tuple[str, ...]
    terms: tuple[frozenset[str], ...]
    numbers: tuple[frozenset[str], ...]
    weights: Mapping[str, float]
    absent: float

    @classmethod
    def of(cls, leaves: Sequence[CitableText]) -> "_Leaves":
        terms = tuple(telling_terms(f"{leaf.context}\n{leaf.text}") for leaf in leaves)
        weights = term_weights(terms)
        return cls(
            tuple(_squeezed(leaf.text) for leaf in leaves),
            terms,
            tuple(held_numbers(f"{leaf.text}\n{leaf.context}") for leaf in leaves),
            weights,
            max(weights.values(), default=1.0),
        )

    def holding(self, statement: str) -> tuple[int, ...]:
        """Give the first chunk that a statement stands in word for word."""
        wanted = _squeezed(statement)
        if len(wanted) < _MIN_QUOTED_CHARACTERS:
            return ()
        return next(((place,) for place, text in enumerate(self.squeezed) if wanted in text), ())

    def supporting(self, statement: str) -> tuple[int, ...]:
        """Give the chunks that together hold most of a statement; none where they hold nothing of it."""
        wanted, numbers = telling_terms(statement), stated_numbers(statement)
        held: frozenset[str] = frozenset()
        chosen: list[int] = []
        share = 0.0
        while len(chosen) < _PER_STATEMENT:
            gains = [
                coverage(wanted, held | terms, self.weights, self.absent) - share + len(numbers & own)
                for terms, own in zip(self.terms, self.numbers, strict=True)
            ]
            best = max(range(len(gains)), key=lambda place: (gains[place], -place))
            if best in chosen or gains[best] <= (_NEW_SHARE if chosen else 0.0):
                break
            chosen.append(best)
            held |= self.terms[best]
            numbers -= self.numbers[best]
            share = coverage(wanted, held, self.weights, self.absent)
        return tuple(chosen)


def _squeezed(text: str) -> str:
    return _SQUEEZE.sub("", normalize(text))
