"""Citations of a text that is there whole: checked, and put in where there are none (seed, Q13 and section 5.5)."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.citation.checking import (
    CheckedSentence,
    CheckSettings,
    CitableText,
    EvidenceChecker,
    EvidenceVectors,
)
from corpusmesh_core.citation.sentence_gate import split_segments
from corpusmesh_core.errors import InvalidArgumentError

_MARKER = re.compile(r"\[ID:(\d{1,18})\]")


def check_answer(
    answer: str,
    evidence: Sequence[CitableText],
    *,
    question: str = "",
    sentence_vectors: NDArray[np.float32] | None = None,
    evidence_vectors: EvidenceVectors | None = None,
    settings: CheckSettings | None = None,
) -> tuple[CheckedSentence, ...]:
    """Check every sentence of an answer.

    Args:
        answer: Filtered text, with markers or without.
        evidence: What it was made from.
        question: What was asked.
        sentence_vectors: Shape (number of `split_segments(answer)`, dimension), unit norm; None for terms alone.
        evidence_vectors: Vectors of the evidence's parts; given with `sentence_vectors`.
        settings: How to check; None for the defaults.

    Returns:
        The sentences; their texts put together are the answer with the citations that it may have.

    Raises:
        InvalidArgumentError: If the vectors do not fit the sentences or the evidence.
    """
    segments = split_segments(answer)
    if sentence_vectors is not None and len(sentence_vectors) != len(segments):
        raise InvalidArgumentError(
            "VECTOR_COUNT_MISMATCH",
            "there must be one vector for each sentence",
            sentence_count=len(segments),
            vector_count=len(sentence_vectors),
        )
    checker = EvidenceChecker(evidence, question=question, vectors=evidence_vectors, settings=settings)
    return tuple(
        checker.check(segment, None if sentence_vectors is None else sentence_vectors[place])
        for place, segment in enumerate(segments)
    )


def place_citations(answer: str, evidence: Sequence[CitableText]) -> tuple[str, tuple[int, ...]]:
    """Check an answer by its terms, numbers and names alone, and put citations in where there are none.

    Args:
        answer: Filtered text.
        evidence: What it was made from.

    Returns:
        The answer with at most four markers a sentence, and the labels cited in order of first use.
    """
    text = "".join(sentence.text for sentence in check_answer(answer, evidence))
    return text, cited_labels(text)


def cited_labels(text: str) -> tuple[int, ...]:
    """Name what a text cites.

    Args:
        text: Filtered text.

    Returns:
        Labels in order of first use.
    """
    return tuple(dict.fromkeys(int(number) for number in _MARKER.findall(text)))
