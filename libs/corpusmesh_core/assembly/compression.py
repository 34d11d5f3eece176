"""Shortens evidence to the sentences that matter for the question, word for word and in order."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.citation.sentences import split_sentences
from corpusmesh_core.citation.weights import coverage, telling_terms, term_weights
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.records import Record

_LEANS_BACK: Final = re.compile(
    r"(?:it|its|they|their|this|these|those|that|such|he|she|his|her|however|therefore|thus|but)\b|[它他她]|这|那|其|该|此|但|因此|所以|然而",
    re.IGNORECASE,
)
"""Beginnings that mean nothing without the sentence before."""
_COSINE_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class CompressionSettings:
    """How much stays.

    Measured by words alone on gold passages that hold the answer (150 questions each; share of answers that stay at
    share of characters that stay): 2wiki 0.78 at 0.45, popqa 0.91 at 0.46, zh 0.93 at 0.43; without `min_share` 0.61,
    0.84 and 0.90 at 0.3.

    Attributes:
        min_token_count: A record of fewer tokens stays as it is.
        keep_ratio: A sentence stays if it scores at least this share of the request's best one.
        min_share: Share of a record's characters that stays whatever its sentences score, best first, 0 to 1.
        max_share: Most of a record's characters that stay, 0 to 1; one sentence always does.
        max_embedded_count: Most sentences whose vectors are asked for.
    """

    min_token_count: int = 64
    keep_ratio: float = 0.4
    min_share: float = 0.3
    max_share: float = 0.7
    max_embedded_count: int = 48


@dataclass(frozen=True, slots=True)
class RecordSentence:
    """A sentence of a record.

    Attributes:
        record_place: Place of its record among those that are shortened.
        start: First character in the record's text.
        end: One past its last character.
        text: The sentence.
    """

    record_place: int
    start: int
    end: int
    text: str


def long_records(ranked: Sequence[RankedCandidate], *, count: int, settings: CompressionSettings) -> list[Record]:
    """Take the records that are worth shortening.

    Args:
        ranked: Candidates, kept ones first.
        count: Hits that will be used.
        settings: Bounds.

    Returns:
        Records, best first.
    """
    kept = [item.candidate.record for item in ranked if item.is_kept][:count]
    return [record for record in kept if record.token_count >= settings.min_token_count]


def record_sentences(records: Sequence[Record]) -> list[RecordSentence]:
    """Cut records into sentences.

    Args:
        records: Records, best first.

    Returns:
        Sentences by record and in order.
    """
    return [
        RecordSentence(place, span.start, span.end, record.text[span.start : span.end])
        for place, record in enumerate(records)
        for span in split_sentences(record.text)
    ]


def sentence_scores(question: str, sentences: Sequence[RecordSentence]) -> NDArray[np.float64]:
    """Say how far sentences cover the telling terms of a question.

    Args:
        question: The question.
        sentences: Sentences of the request's evidence.

    Returns:
        Scores, shape [n], 0 to 1, weighted by how few sentences have a term.
    """
    terms = [telling_terms(sentence.text) for sentence in sentences]
    weights = term_weights(terms)
    absent = max(weights.values(), default=1.0)
    wanted = telling_terms(question)
    return np.array([coverage(wanted, present, weights, absent) for present in terms], dtype=np.float64)


def sentences_to_embed(scores: NDArray[np.float64], settings: CompressionSettings) -> list[int]:
    """Choose the sentences whose vectors are worth their price.

    Args:
        scores: Scores of the sentences by words.
        settings: Bounds.

    Returns:
        Places, best first: by words, then by the rank of their record.
    """
    order = np.argsort(-scores, kind="stable")[: settings.max_embedded_count]
    return [int(place) for place in order]


def mix_sentence_cosines(scores: NDArray[np.float64], cosines: Mapping[int, float]) -> NDArray[np.float64]:
    """Let the vectors of sentences speak beside their words.

    Args:
        scores: Scores by words.
        cosines: Cosine with the question by place, for the sentences that were embedded.

    Returns:
        Scores, shape [n], 0 to 1. Embedders crowd their cosines, so only the place within this request's band counts.
    """
    if not cosines:
        return scores
    low, high = min(cosines.values()), max(cosines.values())
    relative = np.zeros_like(scores)
    for place, cosine in cosines.items():
        relative[place] = (cosine - low) / (high - low) if high > low else 0.0
    return (1.0 - _COSINE_SHARE) * scores + _COSINE_SHARE * relative


def choose_sentences(
    records: Sequence[Record],
    sentences: Sequence[RecordSentence],
    scores: NDArray[np.float64],
    settings: CompressionSettings,
) -> set[int]:
    """Choose the sentences that stay.

    Args:
        records: The records.
        sentences: Their sentences.
        scores: Scores of the sentences.
        settings: Bounds.

    Returns:
        Places; at least one sentence of every record that has any. One that leans on the sentence before it (it, they,
        this, 它, 这) brings that along where there is room.
    """
    chosen: set[int] = set()
    floor = settings.keep_ratio * float(scores.max(initial=0.0))
    for place, record in enumerate(records):
        own = [index for index, sentence in enumerate(sentences) if sentence.record_place == place]
        whole = len(record.text)
        room = settings.max_share * whole
        for index in sorted(own, key=lambda index: (-scores[index], index)):
            is_first = not chosen.intersection(own)
            has_least = room <= (settings.max_share - settings.min_share) * whole
            if not is_first and has_least and scores[index] < floor:
                break
            wanted = [index]
            if index - 1 in own and _LEANS_BACK.match(sentences[index].text):
                wanted.append(index - 1)
            size = sum(len(sentences[one].text) for one in wanted if one not in chosen)
            if size > room:
                wanted, size = [index], len(sentences[index].text)
            if size <= room or is_first:
                chosen.update(wanted)
                room -= size
    return chosen


def compress_records(
    records: Sequence[Record], sentences: Sequence[RecordSentence], chosen: set[int]
) -> dict[str, str]:
    """Write the shortened texts.

    Args:
        records: The records.
        sentences: Their sentences.
        chosen: Places of the sentences that stay.

    Returns:
        Text by record id, for those that became shorter: stretches of the record's own text in order, a blank line
        where something was left out. A citation still resolves to the record and its place.
    """
    found: dict[str, str] = {}
    for place, record in enumerate(records):
        stretches: list[list[int]] = []
        own = [index for index, sentence in enumerate(sentences) if sentence.record_place == place]
        staying = [index for index in own if index in chosen]
        for index in staying:
            sentence = sentences[index]
            if stretches and index - 1 in chosen and sentences[index - 1].record_place == place:
                stretches[-1][1] = sentence.end
            else:
                stretches.append([sentence.start, sentence.end])
        if staying and len(staying) < len(own):
            found[record.record_id] = "\n\n".join(record.text[start:end] for start, end in stretches)
    return found
