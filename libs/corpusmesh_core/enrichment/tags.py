"""Tags from sets of tagged examples, for chunks and, in the same way, for questions.

People write examples and tag them; whatever resembles an example gets its tags, with the similarity as weight. At query
time the question's tags lift the chunks that share them (seed `004_22c0ac09336e6b5a.txt`, tag library).
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.citation.weights import telling_terms, term_weights
from corpusmesh_core.enrichment.values import TagExample
from corpusmesh_core.errors import InvalidArgumentError

MAX_EXAMPLES: Final = 20_000
"""Most examples that are compared with; of more, the first."""
_DIGITS: Final = 4


class TagMatcher:
    """Compares texts with the examples of tag sets, by their terms. Immutable; made once for a run."""

    def __init__(self, examples: Sequence[TagExample]) -> None:
        """Prepare the examples.

        Args:
            examples: Examples of all tag sets together; those without terms or tags match nothing.
        """
        self._examples = tuple(examples[:MAX_EXAMPLES])
        terms = [telling_terms(example.text) for example in self._examples]
        self._weights = term_weights(terms)
        self._norms = np.array([math.sqrt(sum(self._weights[term] ** 2 for term in own)) for own in terms])
        self._holding: dict[str, list[int]] = {}
        for place, own in enumerate(terms):
            for term in sorted(own):
                self._holding.setdefault(term, []).append(place)

    @property
    def examples(self) -> tuple[TagExample, ...]:
        """The examples that are compared with."""
        return self._examples

    def similarities(self, text: str) -> NDArray[np.float64]:
        """Compare a text with every example.

        The cosine between weighted terms, of which the text has only those that some example has: whatever else a long
        chunk speaks of does not take it away from an example.

        Args:
            text: A chunk with its headings, or a question.

        Returns:
            Shape (number of examples,), 0 to 1.
        """
        products = np.zeros(len(self._examples))
        own = Counter({term: self._weights[term] for term in telling_terms(text) if term in self._weights})
        for term in sorted(own):
            products[self._holding[term]] += own[term] ** 2
        norm = math.sqrt(sum(weight**2 for weight in own.values()))
        scale = self._norms * norm
        return np.asarray(np.clip(np.divide(products, scale, out=np.zeros_like(products), where=scale > 0), 0.0, 1.0))

    def tags(self, text: str, *, max_tags: int, threshold: float) -> dict[str, float]:
        """Tag a text.

        Args:
            text: A chunk with its headings, or a question.
            max_tags: Most tags.
            threshold: Least similarity of an example that counts.

        Returns:
            Weights by tag, the heaviest first.
        """
        return weigh_tags(self.similarities(text), self._examples, max_tags=max_tags, threshold=threshold)


def weigh_tags(
    similarities: NDArray[np.floating], examples: Sequence[TagExample], *, max_tags: int, threshold: float
) -> dict[str, float]:
    """Turn similarities with examples into tags; the similarities may come from terms, vectors or a search.

    Args:
        similarities: One for each example, 0 to 1.
        examples: The examples.
        max_tags: Most tags.
        threshold: Least similarity that counts.

    Returns:
        Weights by tag, the heaviest first, ties by name: the best similarity of an example that has the tag, times the
        tag's weight there; further examples add to it, each half as much as the one before, up to 1.0.

    Raises:
        InvalidArgumentError: If there is not one similarity for each example.
    """
    if len(similarities) != len(examples):
        raise InvalidArgumentError(
            "TAG_SIMILARITY_COUNT_MISMATCH",
            "there must be one similarity for each example",
            similarity_count=len(similarities),
            example_count=len(examples),
        )
    votes: dict[str, list[float]] = {}
    for place in np.flatnonzero(similarities >= threshold).tolist():
        for tag, weight in examples[place].tags.items():
            votes.setdefault(tag, []).append(float(similarities[place]) * weight)
    weights = {tag: _together(found) for tag, found in votes.items()}
    ordered = sorted((tag for tag in weights if weights[tag] > 0), key=lambda tag: (-weights[tag], tag))
    return {tag: weights[tag] for tag in ordered[:max_tags]}


def _together(votes: Sequence[float]) -> float:
    """Add up votes so that many weak ones help, but never outweigh a good one by much."""
    total = 0.0
    rest = 1.0
    for vote in sorted(votes, reverse=True):
        total += vote * rest
        rest /= 2
        if rest < 0.01:
            break
    return round(min(total, 1.0), _DIGITS)


def merge_tags(own: Mapping[str, float], found: Mapping[str, float], *, max_tags: int) -> dict[str, float]:
    """Add tags to those that a chunk has; what it has stays.

    Args:
        own: Its tags.
        found: Further tags, heaviest first.
        max_tags: Most tags that may be found for it.

    Returns:
        Both.
    """
    merged = dict(own)
    for tag, weight in list(found.items())[:max_tags]:
        merged.setdefault(tag, weight)
    return merged
