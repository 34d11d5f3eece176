"""Citations put in afterwards, where a model cited nothing (seed, Q13 and section 5.5).

This matches relevance, it does not prove entailment; so it is strict: a sentence with a number that its evidence does
not have is left without a citation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.citation.sentences import SentenceSpan, split_sentences
from corpusmesh_core.citation.weights import coverage, numbers_of, telling_terms, term_weights
from corpusmesh_core.errors import InvalidArgumentError

MAX_CITATIONS_PER_SENTENCE = 4
_MIN_TERM_COUNT = 2
_MIN_COVERAGE = 0.3
_ABSENT_WEIGHT = 1.0


@dataclass(frozen=True, slots=True)
class CitableText:
    """A piece of evidence as placement sees it.

    Attributes:
        label: Its number in this request.
        text: Its text.
    """

    label: int
    text: str


def place_citations(
    answer: str,
    evidence: Sequence[CitableText],
    *,
    sentence_vectors: NDArray[np.float32] | None = None,
    evidence_vectors: NDArray[np.float32] | None = None,
    threshold: float = 0.5,
    term_weight: float = 0.5,
) -> tuple[str, tuple[int, ...]]:
    """Put `[ID:n]` behind each sentence that the evidence supports.

    Args:
        answer: Filtered text without markers.
        evidence: What it was made from.
        sentence_vectors: Shape (number of `split_sentences(answer)`, dimension), unit norm; None for terms alone.
        evidence_vectors: Shape (number of pieces of evidence, dimension), unit norm; given with `sentence_vectors`.
        threshold: Least score of a citation, 0 to 1.
        term_weight: Share of the terms in the score where vectors are given.

    Returns:
        The answer with at most four markers a sentence, and the labels cited in order of first use.

    Raises:
        InvalidArgumentError: If the vectors do not fit the sentences and the evidence.
    """
    spans = split_sentences(answer)
    cosines = _cosines(len(spans), len(evidence), sentence_vectors, evidence_vectors)
    terms = [telling_terms(piece.text) for piece in evidence]
    numbers = [numbers_of(piece.text) for piece in evidence]
    weights = term_weights(terms)
    pieces: list[str] = []
    cited: dict[int, None] = {}
    copied = 0
    is_code = False
    for row, span in enumerate(spans):
        sentence = answer[span.start : span.end]
        if sentence.startswith("```"):
            is_code = not is_code
            continue
        wanted = telling_terms(sentence)
        if is_code or len(wanted) < _MIN_TERM_COUNT or sentence.startswith("#") or sentence.endswith((":", "：")):
            continue
        stated = numbers_of(sentence)
        scores: list[tuple[float, int]] = []
        for column, present in enumerate(terms):
            covered = coverage(wanted, present, weights, _ABSENT_WEIGHT)
            if covered < _MIN_COVERAGE or not stated <= numbers[column]:
                continue
            score = covered
            if cosines is not None:
                score = term_weight * covered + (1 - term_weight) * float(cosines[row, column])
            if score >= threshold:
                scores.append((-score, column))
        chosen = [evidence[column].label for _, column in _best(scores)]
        if chosen:
            at = _marker_position(answer, span)
            pieces += [answer[copied:at], *(f"[ID:{label}]" for label in chosen)]
            copied = at
            cited.update(dict.fromkeys(chosen))
    pieces.append(answer[copied:])
    return "".join(pieces), tuple(cited)


def _best(scores: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """Keep the best four, and of these only what comes near the best: a weak second source weakens the first."""
    ranked = sorted(scores)[:MAX_CITATIONS_PER_SENTENCE]
    return [entry for entry in ranked if entry[0] <= 0.85 * ranked[0][0]]


def _marker_position(answer: str, span: SentenceSpan) -> int:
    """Find the place before the closing punctuation, as in `… is 512 MiB [ID:7].`; a marker joins its sentence."""
    position = span.end
    while position > span.start + 1 and answer[position - 1] in ".!?。！？；…\"'”’」』":
        position -= 1
    return position


def _cosines(
    sentence_count: int,
    evidence_count: int,
    sentence_vectors: NDArray[np.float32] | None,
    evidence_vectors: NDArray[np.float32] | None,
) -> NDArray[np.float32] | None:
    if sentence_vectors is None or evidence_vectors is None:
        return None
    if len(sentence_vectors) != sentence_count or len(evidence_vectors) != evidence_count:
        raise InvalidArgumentError(
            "VECTOR_COUNT_MISMATCH",
            "there must be one vector for each sentence and each piece of evidence",
            sentence_count=sentence_count,
            evidence_count=evidence_count,
        )
    cosines: NDArray[np.float32] = np.clip(sentence_vectors @ evidence_vectors.T, 0.0, 1.0)
    return cosines
