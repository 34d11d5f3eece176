"""The summary of a cluster without a model: its own sentences, chosen by centrality and coverage, in source order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.citation.weights import telling_terms, term_weights
from corpusmesh_core.enrichment.lines import one_line
from corpusmesh_core.enrichment.statements import statements_of
from corpusmesh_core.enrichment.summaries import join_sentences
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.trees.values import Child, Vectors

_MAX_SENTENCES: Final = 1024


@dataclass(frozen=True, slots=True)
class Extract:
    """Sentences that stand for a cluster.

    Attributes:
        text: The sentences, never empty.
        places: Places of the children that they stand in, ascending.
        token_count: Tokens of the text.
    """

    text: str
    places: tuple[int, ...]
    token_count: int


def extract(children: Sequence[Child], vectors: Vectors, counter: TextTokenizer, *, max_tokens: int) -> Extract:
    """Summarise a cluster by its own sentences.

    Args:
        children: At least one, in order.
        vectors: Shape (len(children), dimension), float32, unit norm.
        counter: Counts tokens.
        max_tokens: Longest summary.

    Returns:
        The sentences.
    """
    found = [(place, text) for place, child in enumerate(children) for text in _sentences(child)][:_MAX_SENTENCES]
    texts = [text for _, text in found]
    sizes = counter.count_tokens(texts)
    picked: list[int] = []
    room = max_tokens
    for row in _ranked(texts, (vectors @ vectors.mean(axis=0))[[place for place, _ in found]]):
        if sizes[row] <= room:
            picked.append(row)
            room -= sizes[row]
    if not picked:
        text = _cut(texts[0], counter, max_tokens)
        return Extract(text, (found[0][0],), counter.count_tokens([text])[0])
    picked.sort()
    text = join_sentences(texts[row] for row in picked)
    return Extract(text, tuple(sorted({found[row][0] for row in picked})), counter.count_tokens([text])[0])


def _sentences(child: Child) -> list[str]:
    return statements_of(child.text, (child.title,)) or [one_line(child.text) or child.title or "…"]


def _ranked(texts: Sequence[str], cosines: NDArray[np.float32]) -> list[int]:
    terms = [telling_terms(text) for text in texts]
    weights = term_weights(terms)
    scores: NDArray[np.float64] = np.array([sum(weights[term] for term in own) for own in terms]) * (1 + cosines)
    return [int(row) for row in np.argsort(-scores, kind="stable")]


def _cut(text: str, counter: TextTokenizer, max_tokens: int) -> str:
    offsets = counter.token_offsets(text)[:max_tokens]
    return text[: offsets[-1][1]].rstrip() if offsets else text[:max_tokens]
